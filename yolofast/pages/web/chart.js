/* Charts as SVG, drawn from plain JSON (`chart_spec` in html.py makes it). No library: a page has to work offline
   and stay small. window.yolofastCharts.draw(element, spec) draws, and draws again when called with newer values. */
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8;
  const PART_COLOURS = 12; /* of a bar, which cannot be dashed: as many as a step has phases */
  const UNDASHED = 4; /* of more curves, every further four have dashes of their own: colours alone are too near */
  const LONGEST_TIP = 14;
  const EDGE = { right: 16, top: 10, bottom: 38 };

  /* ---- numbers: the rule of `shown` in text.py ---- */

  function shown(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size < 0.001 || size >= 1e12) return value.toExponential(2);
    if (Number.isInteger(value) || size >= 1000) return Math.round(value).toLocaleString("en-US");
    return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
  }

  function tickText(value, step) {
    if (value === 0) return "0";
    if (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7) return value.toExponential(1).replace(".0e", "e");
    const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  const known = (value) => typeof value === "number" && Number.isFinite(value);

  /* ---- scales ---- */

  function niceStep(span, count, whole) {
    const rough = span / Math.max(1, count);
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
    return whole ? Math.max(1, Math.round(step)) : step;
  }

  function ticksOf(low, high, count, whole) {
    const step = niceStep(high - low, count, whole);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
    return ticks.map((value) => ({ value, text: tickText(value, step) }));
  }

  function logTicksOf(low, high) {
    const ticks = [];
    const narrow = Math.log10(high / low) < 2.5;
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of narrow ? [1, 2, 5] : [1]) {
        const value = factor * Math.pow(10, power);
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push({ value, text: tickText(value, value) });
      }
    return ticks.length > 1 ? ticks : ticksOf(low, high, 4, false);
  }

  function scaleOf(low, high, from, to, log) {
    const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high];
    const place = (value) => from + (((log ? Math.log(value) : value) - a) / (b - a)) * (to - from);
    place.back = (pixel) => {
      const value = a + ((pixel - from) / (to - from)) * (b - a);
      return log ? Math.exp(value) : value;
    };
    place.low = low;
    place.high = high;
    return place;
  }

  function extent(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values)
      if (known(value)) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    return low <= high ? [low, high] : null;
  }

  function widened(range, log) {
    let [low, high] = range || (log ? [0.1, 1] : [0, 1]);
    if (log) return low === high ? [low / 2, high * 2] : [low / 1.08, high * 1.08];
    if (low === 0 && high === 0) return [0, 1];
    if (low === high) {
      const more = Math.abs(low) * 0.1 || 1;
      return [low - more, high + more];
    }
    if (low >= 0 && low < 0.3 * high) low = 0;
    const more = (high - low) * 0.05;
    return [low === 0 ? 0 : low - more, high + more];
  }

  /* ---- the document ---- */

  function make(parent, name, attributes, text) {
    const isSvg = parent.namespaceURI === SVG || name === "svg";
    const node = isSvg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function coloursOf(keys, most = COLOURS) {
    const numbers = new Map();
    for (const key of keys) if (!numbers.has(key)) numbers.set(key, numbers.size);
    return (key) => {
      const number = numbers.get(key) || 0;
      return { name: "yf-c" + (number % most), dashes: Math.floor(number / UNDASHED) % 3 };
    };
  }

  /* Title, legend and drawing area; what is inside the area is the kind's own. */
  function frame(element, state, entries, height) {
    const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
    const cursor = state.cursor;
    element.textContent = ""; // takes the focus away, and with it the cursor
    state.cursor = cursor;
    element.classList.add("yf-chart");
    const head = make(element, "div", { class: "yf-head" });
    make(head, "div", { class: "yf-title" }, state.spec.title);
    if (state.range) {
      const button = make(head, "button", { type: "button", class: "yf-reset", "data-key": "reset" }, "reset zoom");
      button.addEventListener("click", () => zoom(element, state, null));
    }
    if (entries.length > 1) legend(element, state, entries);
    const area = make(element, "div", { class: "yf-area" });
    const width = Math.max(280, area.clientWidth || element.clientWidth || 640);
    const svg = make(area, "svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, class: "yf-svg", tabindex: "0", role: "img", "data-key": "svg",
    });
    const tip = make(area, "div", { class: "yf-tip", hidden: "" });
    const live = make(area, "div", { class: "yf-spoken", "aria-live": "polite" });
    if (state.spec.hint) make(element, "div", { class: "yf-hint" }, state.spec.hint);
    state.width = element.clientWidth;
    return { area, svg, tip, live, width, height, focused };
  }

  function legend(element, state, entries) {
    const list = make(element, "div", { class: "yf-legend", role: "group", "aria-label": "show or hide" });
    for (const entry of entries) {
      const off = state.hidden.has(entry.name);
      const button = make(list, "button", {
        type: "button", class: "yf-entry " + entry.colour.name, "aria-pressed": String(!off), "data-key": "entry " + entry.name,
        title: "show or hide; double click: only this one",
      });
      const sample = make(button, "svg", { width: 24, height: 10, "aria-hidden": "true" });
      if (entry.block) make(sample, "rect", { x: 2, y: 0, width: 12, height: 10, rx: 2, class: "yf-fill" });
      else make(sample, "path", { d: "M1 5H23", class: "yf-line" + dashClass(entry) });
      make(button, "span", {}, entry.name);
      button.addEventListener("click", () => {
        if (!state.hidden.delete(entry.name)) state.hidden.add(entry.name);
        render(element, state);
      });
      button.addEventListener("dblclick", () => {
        state.hidden = new Set(entries.map((one) => one.name).filter((name) => name !== entry.name));
        render(element, state);
      });
    }
  }

  function dashClass(entry) {
    const kind = (entry.dashed ? 1 : 0) + 2 * entry.colour.dashes;
    return kind ? " yf-dash" + kind : "";
  }

  /* Room for the numbers of the axis, which are about as wide as this. */
  const leftOf = (ticks) => 28 + 6.3 * Math.max(2, ...ticks.map((tick) => tick.text.length));

  function axes(box, spec, x, y, xTicks, yTicks) {
    const { svg, width, height, left } = box;
    const bottom = height - EDGE.bottom;
    for (const tick of yTicks) {
      const at = y(tick.value);
      make(svg, "line", { x1: left, x2: width - EDGE.right, y1: at, y2: at, class: "yf-grid" });
      make(svg, "text", { x: left - 7, y: at + 4, class: "yf-tick", "text-anchor": "end" }, tick.text);
    }
    for (const tick of xTicks) {
      const at = x(tick.value);
      make(svg, "line", { x1: at, x2: at, y1: tick.named ? EDGE.top : bottom, y2: bottom + 4, class: "yf-axis" });
      make(svg, "text", { x: at, y: bottom + 16, class: "yf-tick", "text-anchor": "middle" }, tick.text);
    }
    make(svg, "line", { x1: left, x2: width - EDGE.right, y1: bottom, y2: bottom, class: "yf-axis" });
    const middle = (left + width - EDGE.right) / 2;
    make(svg, "text", { x: middle, y: height - 5, class: "yf-label", "text-anchor": "middle" }, spec.x_label);
    const turned = { x: 0, y: 0, class: "yf-label", "text-anchor": "middle" };
    turned.transform = `translate(12 ${(EDGE.top + bottom) / 2}) rotate(-90)`;
    make(svg, "text", turned, spec.y_label);
  }

  function showTip(box, at, heading, lines) {
    const { tip, area, live } = box;
    tip.textContent = "";
    make(tip, "div", { class: "yf-tip-head" }, heading);
    for (const line of lines.slice(0, LONGEST_TIP)) {
      const row = make(tip, "div", { class: "yf-tip-row " + (line.colour ? line.colour.name : "") });
      make(row, "i", {});
      make(row, "span", {}, line.name);
      make(row, "b", {}, line.text);
    }
    if (lines.length > LONGEST_TIP) make(tip, "div", { class: "yf-tip-head" }, `and ${lines.length - LONGEST_TIP} more`);
    tip.hidden = false;
    const scale = area.clientWidth / box.width || 1;
    const left = at * scale;
    const before = left + tip.offsetWidth + 24 > area.clientWidth;
    tip.style.left = Math.max(0, before ? left - tip.offsetWidth - 14 : left + 14) + "px";
    live.textContent = heading + ": " + lines.map((line) => line.name + " " + line.text).join(", ");
  }

  function pixelOf(event, box) {
    const bounds = box.svg.getBoundingClientRect();
    return ((event.clientX - bounds.left) / bounds.width) * box.width;
  }

  /* ---- lines ---- */

  function drawLines(element, state) {
    const spec = state.spec;
    const colourOf = coloursOf(spec.series.map((one) => one.group || one.name));
    const entries = spec.series.map((one) => ({ ...one, colour: colourOf(one.group || one.name) }));
    const visible = entries.filter((one) => !state.hidden.has(one.name));
    const box = frame(element, state, entries, 264);
    const whole = visible.every((one) => one.x.every(Number.isInteger));
    const ends = visible.map((one) => extent(one.x)).filter(Boolean);
    let [left, right] = state.range || extent(ends.flat()) || [0, 1];
    if (left === right) [left, right] = [left - 0.5, right + 0.5];
    const y = lineHeights(spec, visible, box, left, right);
    const yTicks = spec.log_y ? logTicksOf(y.low, y.high) : ticksOf(y.low, y.high, 7, false);
    box.left = leftOf(yTicks);
    const x = scaleOf(left, right, box.left, box.width - EDGE.right, false);
    const names = (spec.x_names || []).map((text, i) => ({ value: i + 1, text, named: true }));
    const inside = names.filter((tick) => tick.value >= left && tick.value <= right);
    const numbers = () => ticksOf(left, right, Math.max(3, box.width / 90), whole && right - left >= 1);
    axes(box, spec, x, y, names.length ? inside : numbers(), yTicks);
    const clip = "yf-clip-" + state.id;
    const size = { x: box.left - 4, y: 0, width: box.width - box.left - EDGE.right + 8, height: box.height - EDGE.bottom + 2 };
    make(make(make(box.svg, "defs"), "clipPath", { id: clip }), "rect", size);
    const layer = make(box.svg, "g", { "clip-path": `url(#${clip})` });
    const usable = (value) => known(value) && (!spec.log_y || value > 0);
    for (const one of visible) if (one.low) make(layer, "path", { d: bandPath(one, x, y, usable), class: "yf-band " + one.colour.name });
    for (const one of visible) {
      const made = linePath(one, x, y, usable, left, right);
      make(layer, "path", { d: made.path, class: "yf-line " + one.colour.name + dashClass(one), "data-points": made.points });
      for (const [cx, cy] of made.dots) make(layer, "circle", { cx, cy, r: 2.6, class: "yf-dot " + one.colour.name });
    }
    if (!visible.some((one) => one.y.some(usable))) empty(box);
    describe(box, spec, visible.map((one) => one.name + ", last " + shown(lastOf(one.y, usable))));
    lineCursor(element, state, box, { x, y, visible, usable, left, right });
    return box;
  }

  function lineHeights(spec, visible, box, left, right) {
    const inside = [];
    for (const one of visible)
      for (let i = 0; i < one.x.length; i++)
        if (one.x[i] >= left && one.x[i] <= right)
          for (const values of [one.y, one.low, one.high])
            if (values && known(values[i]) && (!spec.log_y || values[i] > 0)) inside.push(values[i]);
    const [low, high] = widened(extent(inside), spec.log_y);
    return scaleOf(low, high, box.height - EDGE.bottom, EDGE.top, spec.log_y);
  }

  /* Of the points that share a pixel column the first, lowest, highest and last are enough. */
  function linePath(one, x, y, usable, left, right) {
    const parts = [];
    const dots = [];
    const few = one.x.length <= 25;
    let points = 0;
    let column = null;
    let run = 0;
    let previous = null;
    const add = (px, py) => {
      parts.push((run++ ? "L" : "M") + px.toFixed(1) + " " + py.toFixed(1));
      points++;
    };
    const flush = () => {
      if (!column) return;
      const kept = [...new Set([column.first, column.low, column.high, column.last])].sort((a, b) => a.i - b.i);
      for (const point of kept) add(point.px, point.py);
      column = null;
    };
    const stop = () => {
      flush();
      if (run === 1 && previous) dots.push(previous);
      run = 0;
    };
    const [from, to] = [firstInside(one.x, left), lastInside(one.x, right)];
    for (let i = from; i <= to; i++) {
      if (!usable(one.y[i])) {
        stop();
        continue;
      }
      const point = { i, px: x(one.x[i]), py: y(one.y[i]) };
      previous = [point.px.toFixed(1), point.py.toFixed(1)];
      if (few) dots.push(previous);
      if (column && Math.floor(point.px) === column.at) {
        if (point.py < column.high.py) column.high = point;
        if (point.py > column.low.py) column.low = point;
        column.last = point;
      } else {
        flush();
        column = { at: Math.floor(point.px), first: point, low: point, high: point, last: point };
      }
    }
    stop();
    return { path: parts.join(""), points, dots };
  }

  /* One point beyond each edge, so that the line leaves the picture instead of ending in it. */
  const firstInside = (xs, left) => Math.max(0, xs.findIndex((value) => value >= left) - 1);
  function lastInside(xs, right) {
    const beyond = xs.findIndex((value) => value > right);
    return beyond < 0 ? xs.length - 1 : beyond;
  }

  function bandPath(one, x, y, usable) {
    const parts = [];
    let upper = [];
    let lower = [];
    const close = () => {
      if (upper.length) parts.push("M" + upper.concat(lower.reverse()).join("L") + "Z");
      [upper, lower] = [[], []];
    };
    one.x.forEach((value, i) => {
      if (!usable(one.low[i]) || !usable(one.high[i])) return close();
      upper.push(x(value).toFixed(1) + " " + y(one.high[i]).toFixed(1));
      lower.push(x(value).toFixed(1) + " " + y(one.low[i]).toFixed(1));
    });
    close();
    return parts.join("");
  }

  function nearest(xs, value) {
    let [low, high] = [0, xs.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < value) low = middle;
      else high = middle;
    }
    return Math.abs(xs[low] - value) <= Math.abs(xs[high] - value) ? low : high;
  }

  function lineCursor(element, state, box, chart) {
    const { x, y, visible, usable, left, right } = chart;
    let places = null;
    const allPlaces = () => {
      if (!places) places = [...new Set(visible.flatMap((one) => one.x))].filter((v) => v >= left && v <= right).sort((a, b) => a - b);
      return places;
    };
    const bottom = box.height - EDGE.bottom;
    const hair = make(box.svg, "line", { y1: EDGE.top, y2: bottom, class: "yf-hair", visibility: "hidden" });
    const dots = make(box.svg, "g");
    const selection = make(box.svg, "rect", { y: EDGE.top, height: bottom - EDGE.top, class: "yf-selection", visibility: "hidden" });
    const hide = () => {
      state.cursor = null;
      box.tip.hidden = true;
      dots.textContent = "";
      hair.setAttribute("visibility", "hidden");
    };
    const show = (value) => {
      const places = allPlaces();
      if (!places.length) return hide();
      state.cursor = places[nearest(places, value)];
      const at = x(state.cursor);
      hair.setAttribute("x1", at);
      hair.setAttribute("x2", at);
      hair.setAttribute("visibility", "visible");
      dots.textContent = "";
      const lines = [];
      for (const one of visible) {
        if (!one.x.length) continue;
        const i = nearest(one.x, state.cursor);
        if (Math.abs(one.x[i] - state.cursor) > (right - left) * 0.01 || !usable(one.y[i])) continue;
        make(dots, "circle", { cx: x(one.x[i]), cy: y(one.y[i]), r: 3.5, class: "yf-dot " + one.colour.name });
        const band = one.low && known(one.low[i]) ? ` (${shown(one.low[i])} – ${shown(one.high[i])})` : "";
        lines.push({ name: one.name, text: shown(one.y[i]) + band, colour: one.colour });
      }
      const name = (state.spec.x_names || [])[state.cursor - 1];
      showTip(box, at, name || `${state.spec.x_label} ${shown(state.cursor)}`, lines);
    };
    let pressed = null;
    box.svg.addEventListener("pointermove", (event) => {
      const at = Math.min(Math.max(pixelOf(event, box), box.left), box.width - EDGE.right);
      show(x.back(at));
      if (pressed === null || Math.abs(at - pressed) < 5) return;
      selection.setAttribute("x", Math.min(at, pressed));
      selection.setAttribute("width", Math.abs(at - pressed));
      selection.setAttribute("visibility", "visible");
    });
    box.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) pressed = pixelOf(event, box);
    });
    box.svg.addEventListener("pointerup", (event) => {
      const [from, to] = [pressed, pixelOf(event, box)];
      pressed = null;
      if (from === null || Math.abs(to - from) < 5) return;
      const range = [from, to].map((at) => x.back(Math.min(Math.max(at, box.left), box.width - EDGE.right)));
      zoom(element, state, range.sort((a, b) => a - b));
    });
    box.svg.addEventListener("pointerleave", () => {
      pressed = null;
      selection.setAttribute("visibility", "hidden");
      hide();
    });
    box.svg.addEventListener("dblclick", () => zoom(element, state, null));
    box.svg.addEventListener("blur", hide);
    box.svg.addEventListener("keydown", (event) => {
      const places = allPlaces();
      const now = state.cursor === null ? -1 : nearest(places, state.cursor);
      const far = Math.max(1, Math.round(places.length / 10));
      const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - far, PageDown: now + far, Home: 0, End: places.length - 1 };
      if (event.key === "Escape") {
        hide();
        if (state.range) zoom(element, state, null);
      } else if (event.key in moves && places.length) {
        event.preventDefault();
        show(places[Math.min(Math.max(moves[event.key], 0), places.length - 1)]);
      }
    });
    if (state.cursor !== null && known(state.cursor)) show(state.cursor);
  }

  function zoom(element, state, range) {
    state.range = range;
    state.cursor = null;
    render(element, state);
  }

  function lastOf(values, usable) {
    for (let i = values.length - 1; i >= 0; i--) if (usable(values[i])) return values[i];
    return null;
  }

  function empty(box) {
    const place = { x: box.width / 2, y: box.height / 2 - 10, class: "yf-label", "text-anchor": "middle" };
    make(box.svg, "text", place, "nothing to show yet");
  }

  function describe(box, spec, parts) {
    const most = parts.slice(0, 12).join("; ") + (parts.length > 12 ? `; and ${parts.length - 12} more` : "");
    box.svg.setAttribute("aria-label", `${spec.title}. ${most}. Arrow keys read the values.`);
  }

  /* ---- points and bars: their marks are visited one by one ---- */

  function visitMarks(box, marks, show) {
    let now = -1;
    const go = (number) => {
      marks.forEach((mark, i) => mark.node.classList.toggle("yf-at", i === number));
      now = number;
      if (number >= 0) show(marks[number]);
      else box.tip.hidden = true;
    };
    marks.forEach((mark, number) => {
      mark.node.addEventListener("pointerenter", () => go(number));
      mark.node.addEventListener("pointerleave", () => go(-1));
    });
    box.svg.addEventListener("blur", () => go(-1));
    box.svg.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: now - 1, ArrowUp: now - 1, ArrowRight: now + 1, ArrowDown: now + 1, Home: 0, End: marks.length - 1 };
      if (event.key === "Escape") go(-1);
      else if (event.key in moves && marks.length) {
        event.preventDefault();
        go(Math.min(Math.max(moves[event.key], 0), marks.length - 1));
      }
    });
  }

  function drawPoints(element, state) {
    const spec = state.spec;
    const colourOf = coloursOf(spec.points.map((one) => one.group));
    const groups = [...new Set(spec.points.map((one) => one.group))];
    const entries = groups.map((name) => ({ name, colour: colourOf(name), block: true }));
    const visible = spec.points.filter((one) => !state.hidden.has(one.group) && known(one.x) && known(one.y));
    const box = frame(element, state, entries, 300);
    const [left, right] = widened(extent(visible.map((one) => one.x)), false);
    const [low, high] = widened(extent(visible.map((one) => one.y)), false);
    const y = scaleOf(low, high, box.height - EDGE.bottom, EDGE.top, false);
    const yTicks = ticksOf(low, high, 7, false);
    box.left = leftOf(yTicks);
    const x = scaleOf(left, right, box.left, box.width - EDGE.right, false);
    axes(box, spec, x, y, ticksOf(left, right, box.width / 90, false), yTicks);
    const best = visible.filter((one) => one.best).sort((a, b) => a.x - b.x || a.y - b.y);
    const front = best.map((one) => x(one.x).toFixed(1) + " " + y(one.y).toFixed(1)).join("L");
    if (best.length > 1) make(box.svg, "path", { d: "M" + front, class: "yf-front" });
    const marks = visible.map((one) => {
      const place = { cx: x(one.x), cy: y(one.y), r: one.best ? 6 : 4.5 };
      const node = make(box.svg, "circle", { ...place, class: "yf-point " + colourOf(one.group).name + (one.best ? " yf-best" : "") });
      return { node, one, at: place.cx, height: place.cy };
    });
    nameMarks(box, marks);
    if (!visible.length) empty(box);
    describe(box, spec, visible.map((one) => `${one.name}: ${shown(one.x)}, ${shown(one.y)}`));
    visitMarks(box, marks, ({ one, at }) => {
      const lines = [{ name: spec.x_label, text: shown(one.x) }, { name: spec.y_label, text: shown(one.y) }];
      showTip(box, at, one.name, lines);
    });
    return box;
  }

  /* A name stands in the first of four places where it covers no point, no other name and no edge; below and above the
     rising front before on it. The best points choose first. A name without a place is left to the legend, the tip and
     the table of values. */
  function nameMarks(box, marks) {
    const taken = marks.map(({ at, height }) => ({ left: at - 6, right: at + 6, top: height - 6, bottom: height + 6 }));
    const inside = (area) => area.left >= box.left && area.right <= box.width && area.top >= 0 && area.bottom <= box.height - EDGE.bottom;
    const free = (area) => inside(area) && !taken.some((other) => overlap(area, other));
    for (const { one, at, height } of [...marks].sort((a, b) => b.one.best - a.one.best)) {
      const name = make(box.svg, "text", { class: "yf-tick yf-of-point" }, cut(one.short || one.name, 28));
      const length = name.getComputedTextLength();
      const areas = [[9, 15], [-9 - length, -7], [9, -7], [-9 - length, 15]].map(([right, down]) => ({
        left: at + right, right: at + right + length, top: height + down - 10, bottom: height + down + 3,
      }));
      const area = areas.find(free);
      if (!area) {
        name.remove();
        continue;
      }
      taken.push(area);
      name.setAttribute("x", area.left);
      name.setAttribute("y", area.bottom - 3);
    }
  }

  const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  function drawBars(element, state) {
    const spec = state.spec;
    const names = [...new Set(spec.bars.flatMap((bar) => bar.parts.map((part) => part[0])))];
    const colourOf = coloursOf(names, PART_COLOURS);
    const entries = names.map((name) => ({ name, colour: colourOf(name), block: true }));
    const bars = spec.bars.map((bar) => ({ name: bar.name, parts: bar.parts.filter((part) => !state.hidden.has(part[0]) && known(part[1])) }));
    const totals = bars.map((bar) => bar.parts.reduce((sum, part) => sum + part[1], 0));
    const step = 30;
    const box = frame(element, state, entries, bars.length * step + EDGE.bottom + EDGE.top);
    const longest = Math.max(0, ...spec.bars.map((bar) => bar.name.length));
    const left = Math.min(box.width * 0.35, 16 + longest * 7);
    const x = scaleOf(0, Math.max(...totals, 0) * 1.02 || 1, left, box.width - 74, false);
    const bottom = box.height - EDGE.bottom;
    for (const tick of ticksOf(0, x.high, Math.max(3, box.width / 110), false)) {
      make(box.svg, "line", { x1: x(tick.value), x2: x(tick.value), y1: EDGE.top, y2: bottom, class: "yf-grid" });
      make(box.svg, "text", { x: x(tick.value), y: bottom + 16, class: "yf-tick", "text-anchor": "middle" }, tick.text);
    }
    make(box.svg, "text", { x: (left + box.width - 74) / 2, y: box.height - 5, class: "yf-label", "text-anchor": "middle" }, spec.unit);
    const marks = [];
    bars.forEach((bar, row) => {
      const top = EDGE.top + row * step + 4;
      make(box.svg, "text", { x: left - 8, y: top + 15, class: "yf-name", "text-anchor": "end" }, cut(bar.name, Math.floor(left / 7)));
      let sum = 0;
      for (const [name, value] of bar.parts) {
        const place = { x: x(sum), y: top, width: Math.max(0, x(sum + value) - x(sum)), height: step - 9 };
        const node = make(box.svg, "rect", { ...place, class: "yf-part " + colourOf(name).name });
        marks.push({ node, bar, name, value, total: totals[row], at: x(sum + value / 2) });
        sum += value;
      }
      make(box.svg, "text", { x: x(sum) + 7, y: top + 15, class: "yf-tick" }, shown(totals[row]));
    });
    describe(box, spec, bars.map((bar, row) => `${bar.name}: ${shown(totals[row])} ${spec.unit}`));
    visitMarks(box, marks, ({ bar, name, value, total, at }) => {
      const share = total > 0 ? ` (${((100 * value) / total).toFixed(1)} %)` : "";
      showTip(box, at, bar.name, [{ name, text: `${shown(value)} ${spec.unit}${share}`, colour: colourOf(name) }]);
    });
    return box;
  }

  /* ---- drawing and drawing again ---- */

  const KINDS = { line: drawLines, scatter: drawPoints, bar: drawBars };
  let drawn = 0;

  function render(element, state) {
    const box = KINDS[state.spec.kind](element, state);
    if (box.focused === null) return;
    const again = [...element.querySelectorAll("[data-key]")].find((node) => node.getAttribute("data-key") === box.focused);
    (again || box.svg).focus({ preventScroll: true });
  }

  const states = new WeakMap();

  function draw(element, spec) {
    let state = states.get(element);
    if (!state) {
      state = { id: ++drawn, hidden: new Set(), range: null, cursor: null, width: 0 };
      states.set(element, state);
      if (window.ResizeObserver)
        new ResizeObserver(() => {
          if (element.clientWidth && Math.abs(element.clientWidth - state.width) > 1) render(element, state);
        }).observe(element);
    }
    state.spec = spec;
    render(element, state);
  }

  window.yolofastCharts = { draw, shown };
})();
