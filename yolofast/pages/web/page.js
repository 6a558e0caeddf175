/* What a page does besides showing itself: theme, charts, sorting, copying, enlarging. */
(function () {
  "use strict";

  const root = document.documentElement;
  const KEY = "yolofast-theme";

  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a file opened where nothing may be stored
    }
  }

  function setTheme(theme) {
    root.dataset.theme = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      /* then it is forgotten */
    }
  }

  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
  });

  const specs = JSON.parse(document.getElementById("charts").textContent);
  for (const element of document.querySelectorAll("[data-chart]"))
    window.yolofastCharts.draw(element, specs[Number(element.dataset.chart)]);

  function keyOf(row, column) {
    const cell = row.children[column];
    return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
  }

  function compare(a, b) {
    const numbers = [a, b].map((value) => typeof value === "number" && !Number.isNaN(value));
    if (numbers[0] && numbers[1]) return a - b;
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  for (const button of document.querySelectorAll("button.sort"))
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const body = button.closest("table").tBodies[0];
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const column = [...head.parentNode.children].indexOf(head);
      const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(keyOf(a, column), keyOf(b, column)));
      body.append(...rows);
    });

  async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }

  for (const button of document.querySelectorAll("button.copy"))
    button.addEventListener("click", async () => {
      try {
        await copy(button.parentNode.querySelector("code").textContent);
        button.textContent = "copied";
      } catch {
        button.textContent = "not allowed";
      }
      setTimeout(() => (button.textContent = "copy"), 1500);
    });

  for (const image of document.querySelectorAll(".picture img")) {
    const enlarge = () => image.parentNode.classList.toggle("large");
    image.addEventListener("click", enlarge);
    image.addEventListener("keydown", (event) => event.key === "Enter" && enlarge());
  }

  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  if (links.size && window.IntersectionObserver) {
    const seen = new Set();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id);
      const first = [...links.keys()].find((name) => seen.has(name));
      for (const [name, link] of links) link.classList.toggle("here", name === first);
    }, { rootMargin: "-8% 0px -50% 0px" });
    for (const section of document.querySelectorAll("main > section")) watcher.observe(section);
  }
})();
