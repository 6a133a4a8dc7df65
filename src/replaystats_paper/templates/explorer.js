// The explorer: choose a cell, see its distributions. No library, no network.
(function () {
  "use strict";
  const root = document.documentElement;
  window.addEventListener("error", (event) => { root.dataset.scriptError = event.message; });

  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const byId = (id) => document.getElementById(id);
  const controls = { group: byId("x-group"), n: byId("x-n"), B: byId("x-B"), k: byId("x-k"),
                     measure: byId("x-measure"), scale: byId("x-scale") };
  const METHODS = ["U", "V"];
  const COLOUR = { plain: "var(--plain)", U: "var(--u)", V: "var(--v)" };
  const W = 460, H = 300, LEFT = 58, RIGHT = 12, TOP = 14, BOTTOM = 34;

  // ---------------------------------------------------------------- small helpers
  function element(name, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function format(x) {
    if (x === null || x === undefined || !isFinite(x)) return "–";
    const size = Math.abs(x);
    if (size !== 0 && (size >= 1e5 || size < 1e-3)) return x.toExponential(1);
    return String(Number(x.toPrecision(3)));
  }
  const percent = (x) => (100 * x).toFixed(x > 0 && x < 1 && (x > 0.995 || x < 0.005) ? 1 : 0) + " %";
  const finite = (values) => values.filter((v) => v !== null && isFinite(v));
  function quantile(sorted, p) {
    const at = (sorted.length - 1) * p, low = Math.floor(at);
    return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  }
  function fiveNumbers(values) {
    const sorted = values.slice().sort((a, b) => a - b);
    return { min: sorted[0], q25: quantile(sorted, 0.25), median: quantile(sorted, 0.5),
             q75: quantile(sorted, 0.75), max: sorted[sorted.length - 1],
             frac_pos: values.filter((v) => v > 0).length / values.length };
  }
  // A number in [-1/2, 1/2) that depends on the index alone, so that points stay where they are.
  const jitter = (i) => ((i * 0.618034) % 1) - 0.5;

  // ---------------------------------------------------------------- scales
  function makeScale(low, high, kind, threshold) {
    const bend = kind === "symlog" ? (v) => Math.sign(v) * Math.log1p(Math.abs(v) / threshold) : (v) => v;
    const a = bend(low), b = bend(high), margin = 0.06 * (b - a || 1);
    return (v) => H - BOTTOM - (bend(v) - a + margin) / (b - a + 2 * margin) * (H - TOP - BOTTOM);
  }
  function ticksFor(low, high, kind, threshold) {
    if (kind === "symlog") {
      const ticks = [0];
      for (let e = Math.ceil(Math.log10(threshold)); Math.pow(10, e) <= Math.max(Math.abs(low), Math.abs(high)); e++) {
        if (Math.pow(10, e) <= high) ticks.push(Math.pow(10, e));
        if (-Math.pow(10, e) >= low) ticks.push(-Math.pow(10, e));
      }
      return ticks;
    }
    const raw = (high - low) / 5 || 1, unit = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw);
    const ticks = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) ticks.push(Number(t.toPrecision(10)));
    return ticks;
  }
  function frame(svg, y, ticks) {
    for (const tick of ticks) {
      svg.append(element("line", { x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick), class: "axis", "stroke-width": 0.6 }));
      svg.append(element("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
    }
    svg.append(element("line", { x1: LEFT, x2: W - RIGHT, y1: y(0), y2: y(0), stroke: "var(--zero)", "stroke-width": 1.2 }));
  }
  function drawBox(svg, x, width, s, y, colour, hollow) {
    const line = { stroke: colour, "stroke-width": 1.4, fill: "none" };
    if (hollow) line["stroke-dasharray"] = "3 2";
    const low = s.min, high = s.max;
    svg.append(element("line", { x1: x, x2: x, y1: y(low), y2: y(s.q25), ...line }));
    svg.append(element("line", { x1: x, x2: x, y1: y(s.q75), y2: y(high), ...line }));
    svg.append(element("rect", { x: x - width / 2, width, y: y(s.q75), height: Math.max(0.5, y(s.q25) - y(s.q75)), ...line,
                                 fill: hollow ? "none" : colour, "fill-opacity": 0.22 }));
    svg.append(element("line", { x1: x - width / 2, x2: x + width / 2, y1: y(s.median), y2: y(s.median), stroke: colour, "stroke-width": 2 }));
  }

  // ---------------------------------------------------------------- the two plots
  function drawDifferences(record, measure, kind) {
    const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "distribution of the differences" });
    const published = record.published && record.published[measure];
    const all = [0];
    for (const m of METHODS) {
      all.push(...finite(record[measure][m]));
      if (published) all.push(published[m].min, published[m].max);
    }
    const low = Math.min(...all), high = Math.max(...all);
    const sizes = all.map(Math.abs).filter((v) => v > 0).sort((a, b) => a - b);
    const threshold = Math.pow(10, Math.floor(Math.log10((quantile(sizes, 0.5) || 1) / 3)));
    const y = makeScale(low, high, kind, threshold);
    frame(svg, y, ticksFor(low, high, kind, threshold));
    METHODS.forEach((m, i) => {
      const values = finite(record[measure][m]), x = LEFT + 105 + i * 190;
      if (values.length) {
        values.forEach((v, j) => svg.append(element("circle", { cx: x - 62 + 26 * jitter(j), cy: y(v), r: 2, fill: COLOUR[m], "fill-opacity": 0.55 })));
        drawBox(svg, x - 18, 40, fiveNumbers(values), y, COLOUR[m], false);
      }
      if (published) drawBox(svg, x + 36, 34, published[m], y, COLOUR[m], true);
      svg.append(element("text", { x: x - 14, y: H - 12, "text-anchor": "middle" }, `plain − ${m}` + (published ? "   |   published" : "")));
    });
    return svg;
  }
  function drawBand(record) {
    const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "value function with its band" });
    const band = record.band, grid = data.grid, limit = 3;
    const x = (s) => LEFT + (s - grid[0]) / (grid[grid.length - 1] - grid[0]) * (W - LEFT - RIGHT);
    const y = makeScale(-limit, limit, "linear", 1), clip = (v) => Math.max(-limit, Math.min(limit, v));
    const path = (values) => values.map((v, i) => (i ? "L" : "M") + x(grid[i]).toFixed(1) + " " + y(clip(v)).toFixed(1)).join("");
    frame(svg, y, ticksFor(-limit, limit, "linear", 1));
    for (const m of ["plain", "V", "U"]) {
      if (band.mean[m].some((v) => v === null)) continue;
      const back = band.low[m].map((v, i) => "L" + x(grid[i]).toFixed(1) + " " + y(clip(v)).toFixed(1)).reverse().join("");
      svg.append(element("path", { d: path(band.high[m]) + back + "Z", fill: COLOUR[m], "fill-opacity": 0.16 }));
      svg.append(element("path", { d: path(band.mean[m]), fill: "none", stroke: COLOUR[m], "stroke-width": 1.8 }));
    }
    svg.append(element("path", { d: path(grid.map((s) => Math.pow(Math.cos(s), 3))), fill: "none", stroke: "var(--truth)", "stroke-width": 1.8, "stroke-dasharray": "5 4" }));
    [["plain", "plain"], ["U", "U"], ["V", "V"], ["truth", "truth"]].forEach(([m, label], i) => {
      const at = LEFT + 12 + 74 * i, line = { x1: at, x2: at + 18, y1: TOP + 6, y2: TOP + 6, "stroke-width": 2 };
      svg.append(element("line", { ...line, stroke: m === "truth" ? "var(--truth)" : COLOUR[m], ...(m === "truth" ? { "stroke-dasharray": "5 4" } : {}) }));
      svg.append(element("text", { x: at + 22, y: TOP + 10 }, label));
    });
    svg.append(element("text", { x: (LEFT + W) / 2, y: H - 10, "text-anchor": "middle" }, "value at state s; drawn to ±3, bands beyond are cut"));
    return svg;
  }

  // ---------------------------------------------------------------- the table under them
  function summaryRows(record, measure) {
    const published = record.published && record.published[measure];
    const rows = METHODS.map((m) => {
      const values = finite(record[measure][m]);
      const ours = values.length ? fiveNumbers(values) : null, theirs = published && published[m];
      return [`plain − ${m}`, ours && format(ours.q25), ours && format(ours.median), ours && format(ours.q75),
              ours && percent(ours.frac_pos), theirs ? format(theirs.median) : "–", theirs ? percent(theirs.frac_pos) : "–"];
    });
    return rows;
  }
  function fillTable(table, header, rows) {
    table.textContent = "";
    const head = table.createTHead().insertRow();
    for (const text of header) { const cell = document.createElement("th"); cell.textContent = text; head.append(cell); }
    const body = table.createTBody();
    for (const row of rows) { const line = body.insertRow(); for (const text of row) line.insertCell().textContent = text ?? "–"; }
  }

  // ---------------------------------------------------------------- controls
  const distinct = (records, key) => [...new Set(records.map((r) => r[key]))].sort((a, b) => a - b);
  function setOptions(select, values, label) {
    const before = select.value;
    select.textContent = "";
    for (const value of values) select.add(new Option(label(value), value));
    if ([...select.options].some((o) => o.value === before)) select.value = before;
  }
  function matching(keys) {
    return data.records.filter((r) => keys.every((key) => String(r[key]) === controls[key].value));
  }
  function update() {
    setOptions(controls.n, distinct(matching(["group"]), "n"), (n) => n);
    setOptions(controls.B, distinct(matching(["group", "n"]), "B"), (B) => B);
    const last = matching(["group", "n", "B"]);
    setOptions(controls.k, distinct(last, "k"), (k) => `${k}  (k/n = ${Number((k / controls.n.value).toFixed(3))})`);
    const record = matching(["group", "n", "B", "k"])[0];
    const measure = controls.measure.value;
    const plots = byId("x-plots");
    plots.textContent = "";
    if (!record) return;
    plots.append(drawDifferences(record, measure, controls.scale.value));
    if (record.band) plots.append(drawBand(record));
    fillTable(byId("x-table"), ["difference", "q25", "median", "q75", "above 0", "published median", "published above 0"], summaryRows(record, measure));
    const median = record.median[measure], theirs = record.published && record.published[measure].median;
    fillTable(byId("x-medians"), ["median " + (measure === "rmse" ? "RMSE" : "variance"), "plain", "U", "V"],
      [["here", ...["plain", "U", "V"].map((m) => format(median[m]))],
       ...(theirs ? [["published", ...["plain", "U", "V"].map((m) => format(theirs[m]))]] : [])]);
    root.dataset.explorer = "ready";
  }

  const present = Object.keys(data.groups).filter((g) => data.records.some((r) => r.group === g));
  setOptions(controls.group, present, (g) => data.groups[g]);
  for (const key in controls) controls[key].addEventListener("change", update);
  update();
})();
