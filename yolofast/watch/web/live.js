/* What the server knows, kept up to date: only what is new is asked for. */

export const runs = { list: [], sweeps: [], root: "", complete: true };
const details = new Map();

/* A request that the server refused, with its reason. */
export class Refused extends Error {}

async function ask(address) {
  const answer = await fetch(address, { cache: "no-store", credentials: "same-origin" });
  if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.text()).trim());
  if (answer.status === 404 || answer.status === 500) return null; // one run that cannot be shown; the server continues
  if (!answer.ok) throw new Error(`answer ${answer.status}`);
  return answer.json();
}

/* Whether the list is another one than before. */
export async function refreshList() {
  const now = await ask("/api/runs");
  if (!now) throw new Error("this is another server");
  const changed = JSON.stringify(now) !== JSON.stringify(runs.as);
  Object.assign(runs, { as: now, list: now.runs, sweeps: now.sweeps, root: now.root, complete: now.complete });
  for (const id of details.keys()) if (!now.runs.some((run) => run.id === id)) details.delete(id);
  return changed;
}

/* Whether anything of these runs is new. */
export async function refreshDetails(ids) {
  const wanted = runs.list.filter((run) => ids.includes(run.id) && isStale(run));
  const answers = await Promise.all(wanted.map(refreshOne));
  return answers.some(Boolean);
}

function isStale(run) {
  const known = details.get(run.id);
  return !known || known.more || known.updated !== run.updated;
}

async function refreshOne(run) {
  const known = details.get(run.id) || { generation: "", rows: [], batches: { count: 0 } };
  const query = new URLSearchParams({ id: run.id, generation: known.generation, since: known.rows.length, batches: known.batches.count });
  const news = await ask("/api/run?" + query);
  if (!news) return details.delete(run.id);
  const rows = known.rows.slice(0, news.since).concat(news.rows);
  const batches = news.batches.x ? news.batches : news.batches.count ? known.batches : { count: 0 };
  details.set(run.id, { ...news, rows, batches, name: run.name, updated: run.updated });
  return true;
}

/* Of those that have been loaded, in the order of the ids. */
export const detailsOf = (ids) => ids.map((id) => details.get(id)).filter(Boolean);
export const isLoading = () => [...details.values()].some((run) => run.more);
