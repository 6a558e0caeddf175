/* A few figures per run, which of them is best, and in which settings runs differ. Nothing here touches the page. */

import { OTHERS, SCORES, column, epochs } from "./curves.js";
import { COLUMNS, FITNESS } from "./layout.js";

const NOT_SETTINGS = new Set(["name", "project", "exist_ok", "save_dir", "resume"]);

const known = (values) => values.filter((value) => value !== null && value !== undefined);
const highest = (values) => (known(values).length ? known(values).reduce((a, b) => Math.max(a, b)) : null);
const last = (values) => known(values).slice(-1)[0] ?? null;

/* Images over time of all epochs, as reports and comparisons count; overview.py has the same. */
function wholeSpeed(run) {
  const [times, speeds] = [column(run, COLUMNS.time), column(run, COLUMNS.speed)];
  let [images, seconds, before] = [0, 0, 0];
  times.forEach((time, i) => {
    if (time === null) return;
    const spent = time - before;
    before = time;
    if (speeds[i] === null || speeds[i] === undefined || spent <= 0) return;
    images += speeds[i] * spent;
    seconds += spent;
  });
  return seconds ? images / seconds : null;
}

/* The epoch `best.pt` is of: that of the highest fitness, of equals the last; overview.py has the same. Where one score
   is not known it counts as the weightiest. */
function bestPlace(run) {
  const [main, ...rest] = SCORES.map(({ name }) => ({ weight: FITNESS[name], values: column(run, name) }));
  const fitness = main.values.map((score, i) =>
    score === null ? null : rest.reduce((sum, one) => sum + one.weight * (one.values[i] ?? score), main.weight * score));
  const best = highest(fitness);
  return best === null ? -1 : fitness.lastIndexOf(best);
}

/* What runs may compete in, and why not: as in `compare` (comparability.py), times of different hardware are of the machine
   as much as of what was chosen, and times that count different things of neither. Silence is no difference. */
export function contestOf(runs) {
  const timed = runs.filter((run) => run.rows.length);
  const values = (part) => [...new Set(known(timed.map((run) => run.hardware[part])))];
  const differing = ["gpu", "gpus", "cpu", "cpu_cores"].filter((part) => values(part).length > 1);
  const sameHardware = differing.length === 0;
  const sameClock = new Set(timed.map((run) => run.columns.includes(COLUMNS.speed))).size < 2; // ours is of training alone
  const sameLength = new Set(runs.map((run) => run.rows.length)).size === 1;
  let why = sameClock ? "" : "Training times are not compared: some runs count training only, others evaluation too.";
  if (!sameHardware) {
    const named = differing[0] === "gpu" ? ["gpu"] : differing;
    const parts = named.map((part) => `${part}: ${values(part).join(", ")}`).join("; ");
    why = `Training time and images per second are not compared: different hardware (${parts}).`;
  }
  return { time: sameHardware && sameClock && sameLength, speed: sameHardware, why };
}

/* Scores are those of the best epoch, which is the one to use. Runs of different length do not compete in time. */
export function figuresOf(run, contest) {
  const best = bestPlace(run);
  const at = best < 0 ? run.rows.length - 1 : best;
  const there = (name) => column(run, name)[at] ?? null;
  return [
    ...SCORES.map(({ name, title, better }) => ({ name: `best ${title}`, value: there(name), better })),
    ...OTHERS.map(({ name, title, better }) => ({ name: title, value: there(name), better })),
    { name: "best epoch", value: best < 0 ? null : epochs(run)[at] },
    { name: `last ${SCORES[0].title}`, value: last(column(run, SCORES[0].name)), better: SCORES[0].better },
    { name: "epochs", value: run.rows.length },
    { name: "training time", value: last(column(run, COLUMNS.time)), better: contest.time ? -1 : 0, kind: "duration" },
    { name: "images per second", value: wholeSpeed(run), better: contest.speed ? 1 : 0 },
    { name: "GPU memory, GiB", value: highest(column(run, COLUMNS.memory)) || null, better: -1 },
  ];
}

/* The place of the best value; -1 if all are alike, or nothing is better. */
export function winner(cells) {
  const values = cells.map((cell) => cell.value);
  const given = known(values);
  if (!cells[0].better || given.length < 2 || new Set(given).size === 1) return -1;
  return values.indexOf(cells[0].better > 0 ? Math.max(...given) : Math.min(...given));
}

/* Against the first run, in percent. */
export function change(cell, first) {
  if (!cell.better || cell.value === first.value || cell.value === null || !first.value) return "";
  const percent = (cell.value / first.value - 1) * 100;
  return `${percent >= 0 ? "+" : "−"}${Math.abs(percent).toFixed(1)} %`;
}

/* A run without settings files would differ in everything. */
export const hasSettings = (run) => Object.keys(run.settings).length > 0;

export function differingSettings(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].filter((name) => !NOT_SETTINGS.has(name));
  const rows = names.map((name) => [name, ...runs.map((run) => text(run.settings[name]))]);
  return rows.filter(([, ...values]) => new Set(values).size > 1);
}

export function text(value) {
  if (value === undefined) return "";
  return value === null ? "none" : value === "" ? "''" : String(value);
}

export function duration(seconds) {
  if (seconds === null) return "–";
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  if (hours) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return minutes ? `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s` : `${seconds.toFixed(1)} s`;
}
