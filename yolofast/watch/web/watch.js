/* The page of `yolofast watch`: asks every two seconds while its tab is visible, and draws what is new. */

import { Refused, detailsOf, isLoading, refreshDetails, refreshList, runs } from "./live.js";
import { byId, remember } from "./page_parts.js";
import { drawList, drawSweeps, ordered } from "./run_list.js";
import { drawRuns } from "./run_view.js";

const EVERY = 2000;
const MOST_SELECTED = 12;

let selected = new URLSearchParams(location.hash.slice(1)).getAll("run");
let timer = null;
let asking = false;

if (location.search) history.replaceState(null, "", location.pathname + location.hash); // the cookie has the token now

function choose(id, together) {
  if (!together) selected = [id];
  else if (selected.includes(id)) selected = selected.filter((one) => one !== id);
  else selected = [...selected, id].slice(-MOST_SELECTED);
  const query = new URLSearchParams(selected.map((one) => ["run", one]));
  history.replaceState(null, "", "#" + query);
  draw();
  look();
}

function filterBy(words) {
  const field = byId("filter");
  field.value = field.value === words ? "" : words;
  drawList(selected, choose);
}

/* Runs that went away are deselected; without any the newest one is shown. */
function settleSelection() {
  selected = selected.filter((id) => runs.list.some((run) => run.id === id));
  if (selected.length || !runs.list.length || location.hash) return;
  const newest = [...runs.list].sort((a, b) => (b.state === "running") - (a.state === "running") || b.started - a.started);
  selected = [newest[0].id];
}

function draw() {
  byId("root").textContent = byId("root").title = byId("empty-root").textContent = runs.root;
  const nothing = !runs.list.length && !runs.sweeps.length;
  byId("empty").hidden = !nothing;
  byId("work").hidden = nothing;
  drawSweeps(filterBy);
  drawList(selected, choose);
  drawRuns(selected.map((id) => runs.list.find((run) => run.id === id)).filter(Boolean), detailsOf(selected));
  const running = runs.list.filter((run) => run.state === "running").length;
  document.title = (running ? `${running} running · ` : "") + "yolofast watch";
}

function say(state, words, problem) {
  byId("status").className = "status " + state;
  byId("status").textContent = words;
  byId("gone").hidden = !problem;
  byId("gone").textContent = problem || "";
}

async function look() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    let changed = await refreshList();
    settleSelection();
    changed = (await refreshDetails(selected)) || changed;
    if (changed) draw();
    say("live", "live", "");
  } catch (error) {
    if (error instanceof Refused) say("lost", "refused", `The server refuses this page: ${error.message}`);
    else say("lost", "server gone", "The server has gone. Start yolofast watch again: this page then continues by itself.");
  }
  asking = false;
  if (!document.hidden) timer = setTimeout(look, isLoading() ? 0 : EVERY);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) look();
  else say("", "paused", "");
});

function keep(id, property) {
  const field = byId(id);
  const before = remember(id);
  if (before !== null) field[property] = property === "checked" ? before === "true" : before;
  field.addEventListener("change", () => {
    remember(id, String(field[property]));
    draw();
  });
}

keep("sort", "value");
keep("axis", "value");
keep("log", "checked");
byId("filter").addEventListener("input", () => drawList(selected, choose));
byId("filter").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && ordered().length) choose(ordered()[0].id, false);
});
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
});
const theme = remember("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

look();
