/* Rows of results.csv -> what chart.js draws. Nothing here touches the page. */

import { COLUMNS, FITNESS, LOSSES, METRICS, TERMS } from "./layout.js";

/* What the best epoch is chosen by, the weightiest first; and all other metrics. */
export const SCORES = METRICS.filter((one) => one.name in FITNESS).sort((a, b) => FITNESS[b.name] - FITNESS[a.name]);
export const OTHERS = METRICS.filter((one) => !(one.name in FITNESS));

const RATES = [[COLUMNS.rate, "Learning rate", "rate"], [COLUMNS.speed, "Speed", "images per second"], [COLUMNS.wait, "Share of time waiting for data", "share"]];
const UNITS = [["hours", 3600], ["minutes", 60], ["seconds", 1]];

export function column(run, name) {
  const place = run.columns.indexOf(name);
  return place < 0 ? [] : run.rows.map((row) => row[place]);
}

/* As people count them: some trainers begin with 0. */
export function epochs(run) {
  const numbers = column(run, COLUMNS.epoch);
  if (!numbers.length) return run.rows.map((_, i) => i + 1);
  const shift = numbers[0] === 0 ? 1 : 0;
  return numbers.map((number, i) => (number === null ? i + 1 : number + shift));
}

function axisOf(runs, by) {
  if (by !== "time") return { label: "epoch", of: epochs };
  const longest = Math.max(1, ...runs.flatMap((run) => column(run, COLUMNS.time).slice(-1)));
  const [label, seconds] = UNITS.find(([, length]) => longest >= 2 * length) || UNITS[2];
  return { label, of: (run) => column(run, COLUMNS.time).map((time) => (time === null ? null : time / seconds)) };
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

function termIn(name, [before, after]) {
  const isOne = name.startsWith(before) && name.endsWith(after) && name.length > before.length + after.length;
  return isOne ? [name.slice(before.length, name.length - after.length)] : [];
}

function lossTerms(runs) {
  const names = runs.flatMap((run) => run.columns);
  return [...new Set(names.flatMap((name) => LOSSES.flatMap((loss) => termIn(name, loss.parts))))].slice(0, 12);
}

/* Metrics that share a chart: the first is a full line. */
function metricCharts(runs, axis) {
  const titles = [...new Set(OTHERS.map((one) => one.chart))];
  return titles.flatMap((title) => {
    const shown = OTHERS.filter((one) => one.chart === title);
    return chart(runs, axis, title, "share", shown.map((one, i) => [one.name, one.title, i > 0]));
  });
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
    const lines = LOSSES.map(({ title, parts }, i) => [parts.join(term), title, i > 0]);
    return chart(runs, axis, `Loss: ${TERMS[term] || term}`, "loss", lines, { log_y: logLosses });
  });
  return [
    ...SCORES.flatMap(({ name, title }) => chart(runs, axis, title, title, [[name, title, false]])),
    ...losses,
    ...metricCharts(runs, axis),
    ...batchChart(runs, logLosses),
    ...RATES.flatMap(([name, title, unit]) => chart(runs, axis, title, unit, [[name, title, false]])),
    ...memory(runs, axis),
  ];
}

/* On a CPU it is 0 all the time. */
function memory(runs, axis) {
  const used = runs.some((run) => column(run, COLUMNS.memory).some((value) => value > 0));
  return used ? chart(runs, axis, "GPU memory", "GiB", [[COLUMNS.memory, "GPU memory", false]]) : [];
}
