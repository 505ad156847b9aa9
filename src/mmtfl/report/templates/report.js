"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const byId = (id) => document.getElementById(id);
  const features = data.features;
  const map = data.map;
  const nRows = map.features.length;
  const nColumns = map.tasks.length;

  // -- names and numbers are only ever set as text -----------------------------------------------------------

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const draw = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const isolated = (text) => make("bdi", {}, text);
  const shown = (value) => {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    let text = String(size >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));
    if (size >= 1e6 || size < 1e-4) text = value.toExponential(2);
    return text.replace("-", "−").replace("e+", "e").replace("e-", "e−");
  };

  // -- the matrix: 16-bit steps, each feature on its own scale -----------------------------------------------

  const bytes = Uint8Array.from(atob(map.steps), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const coefficient = (row, column) =>
    (view.getInt16(2 * (row * nColumns + column), true) / 32767) * map.largest[row];
  const original = (row, column) => {
    let value = coefficient(row, column);
    value /= data.columnScale[row];
    if (data.targetScale) value *= data.targetScale[map.tasks[column]];
    return value;
  };
  const rowOf = new Map(map.features.map((feature, row) => [feature, row]));
  const columnOf = new Map(map.tasks.map((task, column) => [task, column]));

  // -- theme: system, dark, light; remembered nowhere --------------------------------------------------------

  const themes = ["system", "dark", "light"];
  let theme = 0;
  byId("theme").addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    if (theme) root.dataset.theme = themes[theme];
    else delete root.dataset.theme;
    byId("theme").textContent = `Theme: ${themes[theme]}`;
    readColours();
    redraw();
  });

  // -- tables ------------------------------------------------------------------------------------------------

  const numeric = (text) => {
    const value = parseFloat(text.replace(/^< /, "").replace(/−/g, "-").replace(/\s/g, "").replace("∞", "Infinity"));
    return Number.isNaN(value) ? null : value;
  };
  const collator = new Intl.Collator(undefined, { numeric: true });
  const kindsShown = new Set(data.kinds);
  // All rows come with the page, for readers without scripts. Here only those in sight are kept in the
  // document, a portion at a time: thousands would make every step wait for their layout.
  const portion = 150;
  const makeTable = (table) => {
    const body = table.tBodies[0];
    const scroll = table.closest(".scroll");
    const input = document.querySelector(`input[data-filter="${table.id}"]`);
    const count = document.querySelector(`output[data-count="${table.id}"]`);
    const all = [...body.rows];
    let order = all;
    let fitting = all;
    const names = new Map(all.map((row) => [row, row.cells[0].textContent.toLowerCase()]));
    const more = () => body.append(...fitting.slice(body.rows.length, body.rows.length + portion));
    const show = () => {
      const wanted = input.value.trim().toLowerCase();
      fitting = order.filter(
        (row) => names.get(row).includes(wanted) && (!row.dataset.kind || kindsShown.has(row.dataset.kind)));
      body.replaceChildren();
      more();
      scroll.scrollTop = 0;
      count.textContent = `${fitting.length} of ${all.length}`;
    };
    const sortBy = (header) => {
      const column = [...header.parentNode.children].indexOf(header);
      const type = header.dataset.type;
      const first = type === "text" ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const direction = header.getAttribute("aria-sort") === first ? other : first;
      for (const each of header.parentNode.children) each.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const text = (cell) => cell.textContent.trim();
      const key = { num: (cell) => numeric(text(cell)), text, tasks: (cell) => Number(cell.dataset.tasks) }[type];
      const keyed = all.map((row) => [key(row.cells[column]), row]);
      keyed.sort(([a], [b]) => {
        // what has no number stays at the end, whichever way the others are sorted
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (type === "text" ? collator.compare(a, b) : a - b);
      });
      order = keyed.map(([, row]) => row);
      show();
    };
    scroll.addEventListener("scroll", () => {
      if (scroll.scrollTop + 2 * scroll.clientHeight > scroll.scrollHeight) more();
    }, { passive: true });
    for (const button of table.querySelectorAll(".sort"))
      button.addEventListener("click", () => sortBy(button.closest("th")));
    input.addEventListener("input", show);
    table.addEventListener("click", (event) => {
      const name = event.target.closest(".name");
      if (!name) return;
      if (name.dataset.effect) openEffect(Number(name.dataset.effect));
      else if (name.dataset.feature) openFeature(Number(name.dataset.feature));
      else openTask(Number(name.dataset.task));
    });
    show();
    return { all, show };
  };
  if (byId("effects-table")) makeTable(byId("effects-table"));
  const tasksTable = makeTable(byId("tasks"));
  const featuresTable = makeTable(byId("features-table"));
  for (const chip of document.querySelectorAll(".chip"))
    chip.addEventListener("click", () => {
      const on = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", String(on));
      if (on) kindsShown.add(chip.dataset.kind);
      else kindsShown.delete(chip.dataset.kind);
      featuresTable.show();
    });

  // -- cards -------------------------------------------------------------------------------------------------

  const card = byId("card");
  const open = (name, ...content) => {
    byId("card-title").replaceChildren(isolated(name));
    byId("card-body").replaceChildren(...content);
    if (!card.open) card.showModal();
    card.scrollTop = 0;
  };
  byId("card-close").addEventListener("click", () => card.close());
  card.addEventListener("click", (event) => event.target === card && card.close());

  const bar = (value, largest) => {
    const svg = draw("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" });
    const width = largest ? (48 * Math.abs(value)) / largest : 0;
    const kind = value < 0 ? "negative" : "positive";
    svg.append(draw("rect", { class: kind, x: value < 0 ? 50 - width : 50, y: 1, width, height: 10 }));
    svg.append(draw("line", { class: "rule", x1: 50, x2: 50, y1: 0, y2: 12 }));
    return svg;
  };
  const bars = (heading, lines) => {
    const head = make("tr", {}, make("th", { scope: "col" }, heading), make("th", { scope: "col", class: "bar-cell" }, ""));
    for (const scale of [data.scale, "per unit"]) head.append(make("th", { scope: "col", class: "num" }, scale));
    const largest = Math.max(0, ...lines.map((line) => Math.abs(line.value)));
    const body = make("tbody");
    for (const line of lines) {
      const row = make("tr", {}, make("th", { scope: "row", title: line.name }, isolated(line.name)));
      row.append(make("td", { class: "bar-cell" }, bar(line.value, largest)));
      for (const value of [line.value, line.original]) row.append(make("td", { class: "num" }, shown(value)));
      body.append(row);
    }
    return make("table", { class: "bars" }, make("thead", {}, head), body);
  };
  // the forest of a feature: what the rows of each task show, the average, and what a new task may have
  const effects = data.effects;
  const effectOf = new Map(effects ? effects.features.map((one, i) => [one.name, i]) : []);
  const onScale = (value) => shown(effects.isRatio ? Math.exp(value) : value);
  const interval = (value, low, high) =>
    low === null || window.innerWidth < 640 ? onScale(value) : `${onScale(value)} (${onScale(low)} to ${onScale(high)})`;
  function forest(one) {
    const ends = [...one.lower, ...one.upper, ...one.effect, ...one.average, 0].filter((value) => value !== null);
    let [low, high] = [Math.min(...ends), Math.max(...ends)];
    const inner = [...one.effect, ...one.average, 0].filter((value) => value !== null);
    const reach = 3 * (Math.max(...inner) - Math.min(...inner) || 1);  // one wide interval must not hide the others
    [low, high] = [Math.max(low, Math.min(...inner) - reach), Math.min(high, Math.max(...inner) + reach)];
    const wide = window.innerWidth < 640 ? 120 : 250;
    const x = (value) => 6 + ((Math.min(Math.max(value, low), high) - low) / (high - low || 1)) * (wide - 12);
    const canvas = () => {
      const svg = draw("svg", { viewBox: `0 0 ${wide} 18`, width: wide, height: 18, "aria-hidden": "true" });
      if (one.new[0] !== null)
        svg.append(draw("rect", { class: "new", x: x(one.new[0]), width: Math.max(x(one.new[1]) - x(one.new[0]), 1), y: 0, height: 18 }));
      svg.append(draw("line", { class: "rule", x1: x(0), x2: x(0), y1: 0, y2: 18 }));
      return svg;
    };
    const error = one.lower.map((value, i) => one.upper[i] - value);
    const least = Math.min(...error.filter((value) => value > 0));
    const body = make("tbody");
    const add = (name, svg, text, more = {}) =>
      body.append(make("tr", more, make("th", { scope: "row", title: name }, isolated(name)),
        make("td", { class: "forest-cell" }, svg), make("td", { class: "num" }, text)));
    one.tasks.forEach((task, i) => {
      const svg = canvas();
      svg.append(draw("line", { class: "reach", x1: x(one.lower[i]), x2: x(one.upper[i]), y1: 9, y2: 9 }));
      const size = 4 + 6 * Math.min(1, least / error[i] || 0);
      svg.append(draw("rect", { class: "effect", x: x(one.effect[i]) - size / 2, y: 9 - size / 2, width: size, height: size }));
      if (one.shrunk[i] !== null)
        svg.append(draw("line", { class: "shrunk", x1: x(one.shrunk[i]), x2: x(one.shrunk[i]), y1: 3, y2: 15 }));
      add(data.tasks[task], svg, interval(one.effect[i], one.lower[i], one.upper[i]));
    });
    if (one.average[0] !== null) {
      const svg = canvas();
      const [at, from, to] = one.average.map((value) => x(value === null ? one.average[0] : value));
      svg.append(draw("path", { class: "average", d: `M${from} 9L${at} 3L${to} 9L${at} 15Z` }));
      add("Average", svg, interval(...one.average), { class: "average" });
    }
    const words = `Square: the rows of the ${data.noun} alone, the larger the surer; tick: drawn to the average; `
      + `band: what a new ${data.noun} may have; line: no effect.`;
    return [make("table", { class: "bars forest" }, body), make("p", { class: "small" }, words)];
  }
  function openEffect(place) {
    const one = effects.features[place];
    const facts = one.facts.map(([name, value]) => make("div", {}, make("dt", {}, isolated(name)), make("dd", {}, isolated(value))));
    const content = [make("dl", { class: "facts" }, ...facts)];
    if (one.tasks && one.tasks.length) content.unshift(...forest(one));
    const curve = [...document.querySelectorAll("[data-curve]")].find((each) => each.dataset.curve === one.name);
    if (curve) content.unshift(curve.firstElementChild.cloneNode(true));
    const feature = features.name.indexOf(one.name);
    if (rowOf.get(feature) !== undefined) {
      const coefficients = make("details", {}, make("summary", {}, "Coefficients of the model, shrunk and chosen"));
      coefficients.append(coefficientsOf(feature));
      content.push(coefficients);
    }
    open(one.name, ...content);
  }
  const coefficientsOf = (feature) =>
    bars(data.noun, map.tasks.map((task, column) => ({
      name: data.tasks[task], value: coefficient(rowOf.get(feature), column), original: original(rowOf.get(feature), column),
    })));
  function openFeature(feature) {
    const place = effectOf.get(features.name[feature]);
    if (place !== undefined) return openEffect(place);
    const facts = [`used by ${features.usedBy[feature]}`, `${data.sizeName} = ${shown(features.size[feature])}`];
    const row = rowOf.get(feature);
    if (features.agreement[feature] !== null)
      facts.push(`${Math.round(100 * features.agreement[feature])} % of the coefficients have the same sign`);
    const intro = make("p", {}, facts.join("; ") + ".");
    if (row === undefined) return open(features.name[feature], intro);
    return open(features.name[feature], intro, coefficientsOf(feature));
  }
  function openTask(task) {
    const column = columnOf.get(task);
    const lines = map.features
      .map((feature, row) => ({
        name: features.name[feature], value: coefficient(row, column), original: original(row, column),
      }))
      .filter((line) => line.value !== 0)
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const most = 50;
    const cells = tasksTable.all[task].cells;
    const heads = [...byId("tasks").tHead.rows[0].cells];
    const facts = heads
      .map((head, i) => [head.textContent.trim(), cells[i]])
      .filter(([, cell], i) => i > 0 && !cell.classList.contains("strip"))
      .map(([name, cell]) => make("div", {}, make("dt", {}, name), make("dd", {}, cell.textContent.trim())));
    const content = [make("dl", { class: "facts" }, ...facts)];
    if (lines.length > most) content.push(make("p", { class: "small" }, `The ${most} largest of ${lines.length} features.`));
    if (lines.length) content.push(bars("Feature", lines.slice(0, most)));
    else content.push(make("p", {}, "No feature is used: the prediction is the intercept."));
    open(data.tasks[task], ...content);
  }

  // -- the map: only what is in sight is drawn ---------------------------------------------------------------

  const frame = byId("map-frame");
  const space = byId("map-space");
  const canvas = byId("map-canvas");
  const context = canvas.getContext("2d");
  const probe = make("span", { hidden: "" });
  document.body.append(probe);
  const heights = [0.25, 0.5, 1, 2, 3, 4, 6, 9, 13, 18, 24, 32];
  const font = '12px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif';
  // the cells are kept apart from the cursor and the names, so that pointing does not draw them again
  const cells = document.createElement("canvas");
  const paint = cells.getContext("2d");
  let drawn = "";
  let colours = {};
  let palette = {};
  let level = 0;
  let cursor = null;
  let layout = { labels: 0, head: 0, width: 10, height: 10 };

  function readColours() {
    const rgb = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    };
    colours = Object.fromEntries(["negative", "zero", "positive", "muted", "accent"].map((name) => [name, rgb(name)]));
    const shades = (end) => Array.from({ length: 64 }, (_, step) => {
      // a small coefficient still shows as used, and differs from an empty cell
      const strength = 0.22 + 0.78 * (step / 63) ** 0.7;
      return css(colours.zero.map((part, i) => part + strength * (end[i] - part)));
    });
    palette = { negative: shades(colours.negative), positive: shades(colours.positive) };
    drawn = "";
  }
  const css = (colour) => `rgb(${colour.map(Math.round).join(",")})`;
  const colourOf = (value) => {
    const step = Math.round(63 * Math.min(1, Math.abs(value) / map.limit));
    return (value < 0 ? palette.negative : palette.positive)[step];
  };
  const cut = (text, width) => {
    if (context.measureText(text).width <= width) return text;
    const letters = [...text.slice(0, 200)];
    while (letters.length > 1 && context.measureText(letters.join("") + "…").width > width) letters.pop();
    return letters.join("") + "…";
  };
  const label = (text) => `\u2068${text.replace(/[\r\n\t]+/g, " ")}\u2069`;

  function arrange() {
    const height = heights[level];
    const narrow = frame.clientWidth < 500;
    context.font = font;
    const widest = (names, most) => names.reduce((size, name) => Math.max(size, context.measureText(name.slice(0, 60)).width), 0) > most;
    const names = map.features.slice(0, 300).map((feature) => features.name[feature]);
    const labels = height >= 13 ? (widest(names, narrow ? 60 : 120) ? (narrow ? 92 : 180) : narrow ? 70 : 130) : 10;
    const room = Math.max(60, frame.clientWidth - labels - 12);
    const width = Math.max(Math.min(48, Math.floor(room / nColumns)), height >= 13 ? Math.min(height, 18) : 2);
    const longest = Math.max(0, ...data.tasks.map((name) => context.measureText(name.slice(0, 60)).width));
    layout = { labels, head: width >= 13 ? Math.min(92, Math.ceil(longest) + 16) : 10, width, height };
    space.style.width = `${Math.max(layout.labels + nColumns * width + 12, 10)}px`;
    space.style.height = `${layout.head + nRows * height + 12}px`;
    redraw();
  }
  function redraw() {
    const { labels, head, width, height } = layout;
    const scale = window.devicePixelRatio || 1;
    const wide = frame.clientWidth;
    const high = Math.min(frame.clientHeight, head + nRows * height + 12);
    if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) {
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(high * scale);
      canvas.style.width = `${wide}px`;
      canvas.style.height = `${high}px`;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = css(colours.zero);
    context.fillRect(0, 0, wide, high);
    const firstRow = Math.max(0, Math.floor(frame.scrollTop / height));
    const lastRow = Math.min(nRows, Math.ceil((frame.scrollTop + high - head) / height));
    const firstColumn = Math.max(0, Math.floor(frame.scrollLeft / width));
    const lastColumn = Math.min(nColumns, Math.ceil((frame.scrollLeft + wide - labels) / width));
    const x = (column) => labels + column * width - frame.scrollLeft;
    const y = (row) => head + row * height - frame.scrollTop;
    const gap = height >= 9 && width >= 6 ? 1 : 0;
    const state = [canvas.width, canvas.height, height, width, labels, head, frame.scrollTop, frame.scrollLeft].join();
    if (drawn !== state) {
      drawn = state;
      cells.width = canvas.width;
      cells.height = canvas.height;
      paint.setTransform(scale, 0, 0, scale, 0, 0);
      for (let row = firstRow; row < lastRow; row++)
        for (let column = firstColumn; column < lastColumn; column++) {
          const value = coefficient(row, column);
          if (value === 0) continue;
          paint.fillStyle = colourOf(value);
          paint.fillRect(x(column), y(row), width - gap, height - gap);
        }
    }
    if (cells.width && cells.height) context.drawImage(cells, 0, 0, wide, high);
    if (cursor) {
      context.lineWidth = 2;
      context.strokeStyle = css(colours.accent);
      const size = Math.max(height, 5);
      context.strokeRect(x(cursor.column) - 1, y(cursor.row) - 1 - (size - height) / 2, Math.max(width, 5) + 1, size + 1);
    }
    context.fillStyle = css(colours.zero);
    context.fillRect(0, 0, wide, head);
    context.fillRect(0, 0, labels, high);
    context.font = font;
    context.textBaseline = "middle";
    const ink = (chosen) => { context.fillStyle = css(chosen ? colours.accent : colours.muted); };
    if (labels > 20) {
      context.textAlign = "right";
      for (let row = firstRow; row < lastRow; row++) {
        if (y(row) < head - height / 2) continue;
        ink(cursor && cursor.row === row);
        context.fillText(label(cut(features.name[map.features[row]], labels - 14)), labels - 8, y(row) + height / 2);
      }
    }
    if (head > 20)
      for (let column = firstColumn; column < lastColumn; column++) {
        if (x(column) < labels - width / 2) continue;
        context.save();
        context.translate(x(column) + width / 2, head - 7);
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
        ink(cursor && cursor.column === column);
        context.fillText(label(cut(data.tasks[map.tasks[column]], head - 14)), 0, 0);
        context.restore();
      }
  }
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; redraw(); });
  };
  function tell() {
    const { row, column } = cursor;
    const feature = map.features[row];
    const value = coefficient(row, column);
    const words = value === 0 ? ": not used" : `: ${shown(value)} ${data.scale}, ${shown(original(row, column))} per unit`;
    byId("map-readout").replaceChildren(
      make("strong", {}, isolated(features.name[feature])), " in ", make("strong", {}, isolated(data.tasks[map.tasks[column]])),
      `${words}. The feature is used by ${features.usedBy[feature]}.`);
  }
  const moveTo = (row, column) => {
    cursor = { row: Math.max(0, Math.min(nRows - 1, row)), column: Math.max(0, Math.min(nColumns - 1, column)) };
    tell();
    soon();
  };
  const reveal = () => {
    const { labels, head, width, height } = layout;
    const top = cursor.row * height;
    const left = cursor.column * width;
    if (top < frame.scrollTop) frame.scrollTop = top;
    else if (top + height > frame.scrollTop + frame.clientHeight - head) frame.scrollTop = top + height - frame.clientHeight + head;
    if (left < frame.scrollLeft) frame.scrollLeft = left;
    else if (left + width > frame.scrollLeft + frame.clientWidth - labels) frame.scrollLeft = left + width - frame.clientWidth + labels;
  };
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const left = event.clientX - box.left - layout.labels;
    const top = event.clientY - box.top - layout.head;
    if (left < 0 || top < 0) return null;
    const row = Math.floor((top + frame.scrollTop) / layout.height);
    const column = Math.floor((left + frame.scrollLeft) / layout.width);
    return row < nRows && column < nColumns ? { row, column } : null;
  };
  const point = (event) => {
    const cell = cellAt(event);
    if (cell && !(cursor && cursor.row === cell.row && cursor.column === cell.column)) moveTo(cell.row, cell.column);
  };
  const zoom = (next) => {
    const middle = cursor ? cursor.row : (frame.scrollTop + frame.clientHeight / 2) / layout.height;
    level = Math.max(0, Math.min(heights.length - 1, next));
    arrange();
    frame.scrollTop = middle * layout.height - frame.clientHeight / 2 + layout.head;
    redraw();
  };
  const fit = () => {
    const room = Math.min(640, 0.75 * window.innerHeight) - 104;
    let best = 0;
    heights.forEach((height, i) => { if (nRows * height <= room && height <= 24) best = i; });
    level = best;
    arrange();
  };
  frame.addEventListener("scroll", soon, { passive: true });
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("dblclick", () => cursor && openFeature(map.features[cursor.row]));
  byId("zoom-in").addEventListener("click", () => zoom(level + 1));
  byId("zoom-out").addEventListener("click", () => zoom(level - 1));
  byId("zoom-fit").addEventListener("click", fit);
  frame.addEventListener("keydown", (event) => {
    if (!nRows || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = cursor || { row: 0, column: -1 };
    const page = Math.max(1, Math.floor((frame.clientHeight - layout.head) / layout.height) - 1);
    const steps = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-page, 0], PageDown: [page, 0], Home: [-nRows, 0], End: [nRows, 0],
    };
    if (event.key in steps) {
      const [down, right] = steps[event.key];
      moveTo(at.row + down, at.column + right);
      reveal();
    } else if (event.key === "Enter" && cursor) openFeature(map.features[cursor.row]);
    else if (event.key === "+" || event.key === "=") zoom(level + 1);
    else if (event.key === "-") zoom(level - 1);
    else return;
    event.preventDefault();
  });
  window.addEventListener("resize", arrange);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  readColours();
  fit();
})();
