/* The list at the side. A click shows one run; the boxes, or Ctrl and a click, put several together. */

import { byId, fileAddress, make, when } from "./page_parts.js";
import { FILES } from "./layout.js";
import { runs } from "./live.js";

const ORDERS = {
  newest: (a, b) => b.started - a.started || a.name.localeCompare(b.name),
  best: (a, b) => (b.map ?? -1) - (a.map ?? -1),
  name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
};

export function ordered() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const found = runs.list.filter((run) => run.name.toLowerCase().includes(wanted));
  return found.sort(ORDERS[byId("sort").value] || ORDERS.newest);
}

function facts(run) {
  const parts = [run.epochs ? `${run.epoch}/${run.epochs}` : `epoch ${run.epoch}`];
  if (run.map !== null) parts.push(`mAP ${run.map.toFixed(3)}`);
  if (run.speed !== null) parts.push(`${Math.round(run.speed).toLocaleString("en-US")} img/s`);
  return parts.join(" · ");
}

export function drawList(selected, onChoose) {
  const list = byId("runs");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.textContent = "";
  for (const run of ordered()) list.append(line(run, selected.indexOf(run.id), onChoose));
  byId("cut").hidden = runs.complete;
  if (focused) [...list.querySelectorAll("[data-key]")].find((node) => node.dataset.key === focused)?.focus({ preventScroll: true });
}

/* A sweep's name shows its trials alone, and once more all runs. */
export function drawSweeps(onFilter) {
  const list = byId("sweeps");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.textContent = "";
  list.hidden = !runs.sweeps.length;
  for (const sweep of [...runs.sweeps].sort((a, b) => b.updated - a.updated)) {
    const item = make(list, "li");
    const button = make(item, "button", { type: "button", class: "choose", title: `trials of ${sweep.name}`, "data-key": sweep.id });
    make(button, "span", { class: "run-name" }, `sweep ${sweep.name}`);
    const parts = [`${sweep.complete} of ${sweep.trials} complete`];
    if (sweep.failed) parts.push(`${sweep.failed} failed`);
    if (sweep.best !== null) parts.push(`best ${sweep.best.toPrecision(3)}`);
    make(button, "span", { class: "run-facts" }, parts.join(" · "));
    button.addEventListener("click", () => onFilter(`${sweep.name}/`));
    const address = fileAddress(sweep.id, FILES.sweep, sweep.updated);
    if (sweep.page) make(item, "a", { class: "report", href: address, target: "_blank", rel: "noopener", title: `page of ${sweep.name}` }, "page");
  }
  if (focused) [...list.querySelectorAll("[data-key]")].find((node) => node.dataset.key === focused)?.focus({ preventScroll: true });
}

function line(run, place, onChoose) {
  const item = document.createElement("li");
  item.className = (place >= 0 ? `chosen yf-c${place % 8} ` : "") + (run.report ? "reported" : "");
  const box = make(item, "input", { type: "checkbox", "aria-label": `compare ${run.name}`, "data-key": "box " + run.id });
  box.checked = place >= 0;
  box.addEventListener("change", () => onChoose(run.id, true));
  const button = make(item, "button", { type: "button", class: "choose", title: run.name, "data-key": "show " + run.id });
  const name = make(button, "span", { class: "run-name" });
  make(name, "i", { class: "state " + run.state, title: run.state, role: "img", "aria-label": run.state });
  name.append(run.name);
  const about = make(button, "span", { class: "run-facts" });
  make(about, "span", {}, facts(run));
  make(about, "span", { class: "run-date" }, run.state === "stopped" ? "stopped" : when(run.started));
  button.addEventListener("click", (event) => onChoose(run.id, event.ctrlKey || event.metaKey || event.shiftKey));
  if (run.report) reportLink(item, run);
  return item;
}

export function reportLink(parent, run) {
  const address = fileAddress(run.id, FILES.report, run.updated);
  make(parent, "a", { class: "report", href: address, target: "_blank", rel: "noopener", title: `report of ${run.name}` }, "report");
}
