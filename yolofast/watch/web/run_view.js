/* The right side: figures and curves of the selected runs, and how they differ. */

import { byId, fileAddress, make } from "./page_parts.js";
import { chartsOf } from "./curves.js";
import { change, contestOf, differingSettings, duration, figuresOf, hasSettings, text, winner } from "./comparison.js";
import { reportLink } from "./run_list.js";

const places = new Map();

export function drawRuns(lines, loaded) {
  drawTitles(lines);
  drawFigures(loaded);
  drawComparison(loaded);
  drawCharts(loaded);
  drawSettings(loaded);
  drawPictures(loaded);
  const waiting = byId("waiting");
  const empty = loaded.filter((run) => !run.rows.length);
  waiting.hidden = !empty.length && loaded.length > 0;
  waiting.textContent = !lines.length ? "Choose a run, or several with the boxes." : empty.length ? "Curves appear after the first epoch." : "loading";
}

function drawTitles(lines) {
  const titles = byId("titles");
  titles.textContent = "";
  make(titles, "h2", {}, lines.length > 1 ? `${lines.length} runs` : lines.length ? lines[0].name : "");
  const about = make(titles, "p");
  if (lines.length !== 1) return;
  const [run] = lines;
  about.append(run.epochs ? `${run.state}, epoch ${run.epoch} of ${run.epochs}` : `${run.state}, epoch ${run.epoch}`);
  if (run.report) {
    about.append(" · ");
    reportLink(about, run);
  }
}

const shown = (cell) => (cell.kind === "duration" ? duration(cell.value) : window.yolofastCharts.shown(cell.value));

function drawFigures(loaded) {
  const list = byId("figures");
  list.textContent = "";
  list.hidden = loaded.length !== 1 || !loaded[0].rows.length;
  if (list.hidden) return;
  for (const cell of figuresOf(loaded[0], contestOf(loaded)).filter((one) => one.value !== null)) {
    const box = make(list, "div", { class: "figure" });
    make(box, "dt", {}, cell.name);
    make(box, "dd", {}, shown(cell));
  }
}

/* Colours are those of the curves, also where some runs are left out. */
function head(parent, loaded, first, isShown = () => true) {
  const row = make(make(parent, "thead"), "tr");
  make(row, "th", { scope: "col" }, first);
  loaded.forEach((run, i) => {
    if (isShown(run)) make(row, "th", { scope: "col", class: `run number yf-c${i % 8}`, title: run.name }, run.name);
  });
}

function drawComparison(loaded) {
  const area = byId("compared");
  area.textContent = "";
  area.hidden = loaded.length < 2;
  if (area.hidden) return;
  const table = make(make(area, "div", { class: "scroll" }), "table", { id: "figures-table" });
  head(table, loaded, "");
  const body = make(table, "tbody");
  const contest = contestOf(loaded);
  const all = loaded.map((run) => figuresOf(run, contest));
  all[0].forEach((_, i) => figureRow(body, all.map((figures) => figures[i])));
  if (contest.why) make(area, "p", { class: "hint", id: "no-contest" }, contest.why);
  drawDifferences(area, loaded);
}

function figureRow(body, cells) {
  if (cells.every((cell) => cell.value === null)) return;
  const best = winner(cells);
  const row = make(body, "tr");
  make(row, "td", {}, cells[0].name);
  cells.forEach((cell, i) => {
    const place = make(row, "td", { class: "number" + (i === best ? " best" : "") }, shown(cell));
    make(place, "span", { class: "difference" }, change(cell, cells[0]));
  });
}

function drawDifferences(area, loaded) {
  const [known, unknown] = [loaded.filter(hasSettings), loaded.filter((run) => !hasSettings(run))];
  const rows = differingSettings(known);
  make(area, "h2", {}, rows.length || known.length < 2 ? "Settings that differ" : "All settings are the same");
  if (unknown.length) make(area, "p", { class: "hint", id: "left-out" }, `Left out, because their settings are not known: ${unknown.map((run) => run.name).join(", ")}`);
  if (!rows.length) return;
  const table = make(make(area, "div", { class: "scroll" }), "table", { id: "settings-table" });
  head(table, loaded, "setting", hasSettings);
  const body = make(table, "tbody");
  for (const [name, ...values] of rows) {
    const row = make(body, "tr");
    make(row, "td", {}, name);
    for (const value of values) make(row, "td", { class: "number" }, value);
  }
}

/* Elements stay, so that a zoom or a hidden curve survives the next epoch. */
function drawCharts(loaded) {
  const specs = loaded.some((run) => run.rows.length) ? chartsOf(loaded, byId("axis").value, byId("log").checked) : [];
  const titles = new Set(specs.map((spec) => spec.title));
  for (const [title, element] of places)
    if (!titles.has(title)) {
      element.remove();
      places.delete(title);
    }
  specs.forEach((spec, i) => {
    if (!places.has(spec.title)) places.set(spec.title, make(byId("charts"), "div", { class: "chart" }));
    const element = places.get(spec.title);
    if (byId("charts").children[i] !== element) byId("charts").insertBefore(element, byId("charts").children[i]);
    window.yolofastCharts.draw(element, spec);
  });
}

function drawSettings(loaded) {
  const entries = loaded.length === 1 ? Object.entries(loaded[0].settings).sort() : [];
  const area = byId("settings").querySelector(".scroll");
  byId("settings").hidden = !entries.length;
  area.textContent = "";
  for (const [name, value] of entries) {
    const row = make(area, "div", { class: "setting" });
    make(row, "span", {}, name);
    make(row, "span", {}, text(value));
  }
}

function drawPictures(loaded) {
  const names = loaded.length === 1 ? loaded[0].pictures : [];
  const area = byId("pictures").querySelector(".pictures");
  byId("pictures").hidden = !names.length;
  area.textContent = "";
  for (const name of names) {
    const address = fileAddress(loaded[0].id, name, loaded[0].updated);
    const figure = make(area, "figure", { class: "picture" });
    make(make(figure, "a", { href: address, target: "_blank", rel: "noopener" }), "img", { src: address, alt: name, loading: "lazy" });
    make(figure, "figcaption", {}, name);
  }
}
