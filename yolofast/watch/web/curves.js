/* Rows of results.csv -> what chart.js draws. Nothing here touches the page. */

export const MAP = "metrics/mAP50-95(B)";
export const MAP50 = "metrics/mAP50(B)";
export const PRECISION = "metrics/precision(B)";
export const RECALL = "metrics/recall(B)";

const SCORES = [[MAP, "mAP50-95"], [MAP50, "mAP50"]];
const RATES = [["lr/pg0", "Learning rate", "rate"], ["img/s", "Speed", "images per second"], ["data_wait", "Share of time waiting for data", "share"]];
const LOSSES = { obj: "objectness", cls: "class", dfl: "distribution" };
const UNITS = [["hours", 3600], ["minutes", 60], ["seconds", 1]];

export function column(run, name) {
  const place = run.columns.indexOf(name);
  return place < 0 ? [] : run.rows.map((row) => row[place]);
}

/* As people count them: some trainers begin with 0. */
export function epochs(run) {
  const numbers = column(run, "epoch");
  if (!numbers.length) return run.rows.map((_, i) => i + 1);
  const shift = numbers[0] === 0 ? 1 : 0;
  return numbers.map((number, i) => (number === null ? i + 1 : number + shift));
}

function axisOf(runs, by) {
  if (by !== "time") return { label: "epoch", of: epochs };
  const longest = Math.max(1, ...runs.flatMap((run) => column(run, "time").slice(-1)));
  const [label, seconds] = UNITS.find(([, length]) => longest >= 2 * length) || UNITS[2];
  return { label, of: (run) => column(run, "time").map((time) => (time === null ? null : time / seconds)) };
}

/* Every run is in every chart, so that its colour is the same in all of them. */
function chart(runs, axis, title, yLabel, lines, more) {
  const series = [];
  for (const run of runs)
    for (const [name, words, dashed] of lines) {
      const [xs, ys] = [axis.of(run), column(run, name)];
      const kept = xs.map((_, i) => i).filter((i) => ys.length && xs[i] !== null);
      if (!kept.length && dashed) continue;
      series.push({
        name: runs.length === 1 ? words : lines.length === 1 || !dashed ? run.name : `${run.name}, ${words}`,
        group: runs.length === 1 ? words : run.name, dashed,
        x: kept.map((i) => xs[i]), y: kept.map((i) => ys[i]), low: null, high: null,
      });
    }
  const known = series.some((one) => one.y.some((value) => value !== null));
  const spec = { kind: "line", title, x_label: axis.label, y_label: yLabel, log_y: false, hint: "", ...more, series };
  return known ? [spec] : [];
}

function lossTerms(runs) {
  const names = runs.flatMap((run) => run.columns).map((name) => /^(?:train|val)\/(.+_loss)$/.exec(name));
  return [...new Set(names.filter(Boolean).map((found) => found[1]))].slice(0, 12);
}

function batchChart(runs, logLosses) {
  const series = runs.map((run) => {
    const { x, y, low, high } = run.batches;
    return { name: runs.length === 1 ? "mean of neighbours" : run.name, group: runs.length === 1 ? "" : run.name, dashed: false, x: x || [], y: y || [], low: low || [], high: high || [] };
  });
  const hint = "band: lowest and highest of the batches that share a point";
  const spec = { kind: "line", title: "Loss of every batch", x_label: "batch", y_label: "loss", log_y: logLosses, hint, series };
  return series.some((one) => one.x.length > 1) ? [spec] : [];
}

export function chartsOf(runs, by, logLosses) {
  const axis = axisOf(runs, by);
  const losses = lossTerms(runs).flatMap((term) => {
    const name = term.replace("_loss", "");
    const title = `Loss: ${LOSSES[name] || name}`;
    const lines = [[`train/${term}`, "training", false], [`val/${term}`, "validation", true]];
    return chart(runs, axis, title, "loss", lines, { log_y: logLosses });
  });
  return [
    ...SCORES.flatMap(([name, title]) => chart(runs, axis, title, title, [[name, title, false]])),
    ...losses,
    ...chart(runs, axis, "Precision and recall", "share", [[PRECISION, "precision", false], [RECALL, "recall", true]]),
    ...batchChart(runs, logLosses),
    ...RATES.flatMap(([name, title, unit]) => chart(runs, axis, title, unit, [[name, title, false]])),
    ...memory(runs, axis),
  ];
}

/* On a CPU it is 0 all the time. */
function memory(runs, axis) {
  const used = runs.some((run) => column(run, "gpu_memory").some((value) => value > 0));
  return used ? chart(runs, axis, "GPU memory", "GiB", [["gpu_memory", "GPU memory", false]]) : [];
}
