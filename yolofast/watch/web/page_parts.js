/* Text is only ever set as text: names of runs and settings come from anywhere. */

export function make(parent, name, attributes, text) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

export const byId = (name) => document.getElementById(name);

export function remember(key, value) {
  try {
    if (value === undefined) return localStorage.getItem("yolofast-" + key);
    localStorage.setItem("yolofast-" + key, value);
  } catch {
    /* nothing may be stored: then it is forgotten */
  }
  return null;
}

export function fileAddress(id, name, version) {
  return "/file?" + new URLSearchParams({ id, name, v: version });
}

export function when(seconds) {
  const words = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false };
  return seconds ? new Date(seconds * 1000).toLocaleString("en-GB", words) : "";
}
