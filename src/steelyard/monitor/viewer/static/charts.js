// Charts: lines by uPlot, columns and the heat map by hand. Colours are the style sheet's variables.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { h, svg, plain } from "./dom.js";
import { number } from "./format.js";
import { keeps } from "./keep.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const PALETTE = ["training", "heldout", "unseen", "other", "alarm", "accent"];

/**
 * series: [{label, colour, points: [[x, y]…], low/high: [[x, y]…], dash, dots}]
 * options: {height, marks: [{x, label}], shade: [i, j] between two series, range: [low, high], show(y)}
 */
export function lines(series, options = {}) {
  const drawn = series.filter((s) => s.points.some(([, y]) => y !== null && y !== undefined));
  if (!drawn.length) return h("div.chart.empty", null, options.empty ?? "Nothing recorded yet");
  const xs = [...new Set(drawn.flatMap((s) => s.points.map(([x]) => x)))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, i) => [x, i]));
  const column = (points) => {
    const values = new Array(xs.length).fill(null);
    for (const [x, y] of points ?? []) if (at.has(x)) values[at.get(x)] = y ?? null;
    return values;
  };
  const show = options.show ?? number;
  const data = [xs];
  const specs = [{ label: options.x ?? "step" }];
  const bands = [];
  const position = new Map();
  for (const s of drawn) {
    const stroke = colour(s.colour);
    position.set(s, data.length);
    data.push(column(s.points));
    specs.push({ label: plain(s.label), stroke, width: s.width ?? 2, spanGaps: true, dash: s.dash ? [6, 5] : undefined,
      points: { show: s.dots || s.points.length < 40, size: s.dots ? 7 : 5, fill: s.dots ? stroke : colour("card") },
      value: (_, v) => (v === null || v === undefined ? "–" : show(v)) });
    if (s.high && s.low) {
      const from = data.length;
      data.push(column(s.high), column(s.low));
      const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true, class: "u-edge" };
      specs.push({ ...edge, label: "" }, { ...edge, label: "" });
      bands.push({ series: [from, from + 1], fill: stroke + "22" });
    }
  }
  if (options.shade) {
    const [a, b] = options.shade.map((i) => position.get(series[i]));
    if (a && b) bands.push({ series: [a, b], fill: colour("heldout") + "26" });
  }
  const height = options.height ?? 210;
  // Its height is there before the plot, or the page would jump when it is drawn again.
  const holder = h("div.chart", { css: { "min-height": `${height}px` } });
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", size: 44 };
  const config = {
    width: 600, height, padding: [12, 12, 0, 0],
    scales: {
      x: { time: false, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
      y: { range: (_, low, high) => options.range ?? padded(low, high, options.fromZero) },
    },
    axes: [{ ...axis, grid: { show: false }, size: 28, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] },
      { ...axis, size: options.axisSize ?? 50, values: (_, ticks) => ticks.map((t) => show(t)) }],
    series: specs, bands, legend: { live: true },
    cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    hooks: { draw: [(u) => drawMarks(u, options.marks ?? [])] },
  };
  let [plot, zoom] = [null, null];
  const zoomed = () => (plot.scales.x.min > xs[0] || plot.scales.x.max < xs.at(-1) ? { min: plot.scales.x.min, max: plot.scales.x.max } : null);
  keeps(holder, "chart", {
    get: () => (plot ? zoomed() : zoom),
    set(range) { zoom = range; if (plot && range) plot.setScale("x", range); },
  });
  requestAnimationFrame(() => {
    if (!holder.isConnected) return;
    plot = new uPlot({ ...config, width: Math.max(200, holder.clientWidth) }, data, holder);
    if (zoom) plot.setScale("x", zoom);
    for (const row of holder.querySelectorAll(".u-legend .u-edge")) row.hidden = true;
    setTimeout(() => plot.setLegend({ idx: xs.length - 1 }), 0);
    const watch = new ResizeObserver(() => {
      if (!holder.isConnected) { watch.disconnect(); plot.destroy(); return; }
      plot.setSize({ width: Math.max(200, holder.clientWidth), height });
    });
    watch.observe(holder);
  });
  return holder;
}

function padded(low, high, fromZero) {
  if (low === null || high === null) return [0, 1];
  if (fromZero) low = Math.min(0, low);
  const margin = (high - low || Math.abs(high) || 1) * 0.08;
  return [fromZero && low === 0 ? 0 : low - margin, high + margin];
}

function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("alarm");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const mark of marks) {
    const x = plot.valToPos(mark.x, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.textAlign = x > bbox.left + bbox.width * 0.8 ? "right" : "left";
    const gap = (ctx.textAlign === "left" ? 5 : -5) * devicePixelRatio;
    ctx.fillText(plain(mark.label), x + gap, bbox.top + 11 * devicePixelRatio);
  }
  ctx.restore();
}

/** Stacked columns. parts: names; rows: [{x, values: {part: number}}]; many steps share a column.
 * A row without values is a step of which nothing is known yet: it enters no mean. */
export function columns(parts, every, options = {}) {
  const rows = every.filter((r) => Object.keys(r.values).length);
  const kept = parts.filter((p) => rows.some((r) => r.values[p]));
  if (!kept.length) return h("div.chart.empty", null, options.empty ?? "Nothing recorded yet");
  const per = Math.ceil(rows.length / 160);
  const bins = [];
  for (let i = 0; i < rows.length; i += per) {
    const some = rows.slice(i, i + per);
    const values = Object.fromEntries(kept.map((p) => [p, mean(some.map((r) => r.values[p]))]));
    bins.push({ from: some[0].x, to: some.at(-1).x, values });
  }
  const [width, height, left, bottom] = [600, options.height ?? 170, 44, 20];
  const top = Math.max(...bins.map((b) => kept.reduce((sum, p) => sum + b.values[p], 0))) || 1;
  const step = (width - left) / bins.length;
  const bar = Math.min(40, step * 0.78);
  const y = (v) => 6 + (height - bottom - 6) * (1 - v / top);
  const show = options.show ?? number;
  const picture = svg("svg.columns", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label });
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("line.axis", { x1: left, x2: width, y1: y(top * share), y2: y(top * share) }));
    picture.append(svg("text", { x: left - 6, y: y(top * share) + 4, "text-anchor": "end" }, show(top * share)));
  }
  bins.forEach((bin, i) => {
    let sum = 0;
    const x = left + i * step + (step - bar) / 2;
    kept.forEach((part) => {
      const value = bin.values[part];
      if (!value) return;
      const name = `${bin.from === bin.to ? `step ${bin.from}` : `steps ${bin.from}–${bin.to}, mean`}: ${options.name?.(part) ?? part} ${show(value)}`;
      picture.append(svg(`rect.p${(options.look ?? parts).indexOf(part) % 8}`, { x, width: bar, y: y(sum + value), height: Math.max(0.5, y(sum) - y(sum + value)) }, svg("title", null, name)));
      sum += value;
    });
    if (i % Math.ceil(bins.length / 10) === 0) picture.append(svg("text", { x: x + bar / 2, y: height - 5, "text-anchor": "middle" }, bin.from));
  });
  return h("div", null, picture, key(kept, (options.look ?? parts), options.name));
}

/** Of values of which null is unknown; a part that a step does not have took nothing of it. */
function mean(values) {
  const known = values.filter((v) => v !== null);
  return known.reduce((sum, v) => sum + (v ?? 0), 0) / (known.length || 1);
}

export function key(parts, all = parts, name = (p) => p) {
  return h("div.key", null, parts.map((p) => h("span", null, h(`i.p${all.indexOf(p) % 8}`), name(p))));
}

/** One horizontal bar of shares. */
export function shareBar(parts) {
  const total = parts.reduce((sum, p) => sum + p.n, 0);
  return h("div.bar", null, parts.filter((p) => p.n).map((p) =>
    h(`span.${p.look}`, { title: `${p.name}: ${number(p.n)}`, css: { width: `${(100 * p.n) / total}%` } })));
}

/** Tasks × steps; a cell's colour is the share solved. choose(task, step) on a click. */
export function heatMap(history, choose) {
  const [rowHeight, ratio] = [16, devicePixelRatio || 1];
  const { tasks, steps, cells } = history;
  const probe = document.createElement("canvas").getContext("2d");
  probe.font = "11.5px system-ui, sans-serif";
  const label = Math.min(190, 20 + Math.max(0, ...tasks.map((t) => probe.measureText(plain(t.task)).width)));
  const holder = h("div.heat", { role: "img", "aria-label": "Share solved by task and step; the table below has the numbers",
    css: { "min-height": `${tasks.length * rowHeight + 22}px` } });
  if (!cells.length) return h("div.chart.empty", null, "No training episode is recorded of these");
  const found = new Map(cells.map((c) => [c[0] * steps.length + c[1], c]));
  const tip = h("div.tip", { hidden: true });
  requestAnimationFrame(() => {
    if (!holder.isConnected) return;
    const cell = Math.max(1, Math.min(34, (Math.max(480, holder.clientWidth) - label) / steps.length));
    const width = Math.max(480, holder.clientWidth, Math.ceil(label + cell * steps.length)); // it scrolls
    const height = tasks.length * rowHeight + 22;
    const canvas = h("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio), css: { width: `${width}px`, height: `${height}px`, cursor: "pointer" } });
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = "11.5px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    const [low, high, none] = [rgb(colour("bad-soft")), rgb(colour("good")), colour("unknown")];
    tasks.forEach((task, row) => {
      ctx.fillStyle = colour("soft");
      ctx.fillText(clip(ctx, plain(task.task), label - 12), 0, row * rowHeight + rowHeight / 2);
      for (let i = 0; i < steps.length; i++) {
        const value = found.get(row * steps.length + i);
        if (!value) continue;
        const [, , solved, scored] = value;
        ctx.fillStyle = scored ? mix(low, high, solved / scored) : none;
        ctx.fillRect(label + i * cell, row * rowHeight + 1, Math.max(1, cell - (cell > 4 ? 1.5 : 0)), rowHeight - 2.5);
      }
    });
    ctx.fillStyle = colour("faint");
    ctx.textAlign = "center";
    const every = Math.max(1, Math.ceil(42 / cell));
    for (let i = 0; i < steps.length; i += every) ctx.fillText(steps[i], label + (i + 0.5) * cell, height - 9);
    const under = (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const [row, i] = [Math.floor(y / rowHeight), Math.floor((x - label) / cell)];
      return row < tasks.length && i < steps.length ? { row, i, x, y } : null;
    };
    canvas.addEventListener("mousemove", (event) => {
      const spot = under(event);
      const value = spot && spot.i >= 0 ? found.get(spot.row * steps.length + spot.i) : null;
      tip.hidden = !value;
      if (!value) return;
      tip.textContent = plain(`${tasks[spot.row].task}, step ${steps[spot.i]}: ${value[2]} of ${value[3]} solved${value[4] ? `, ${value[4]} unscored` : ""}`);
      tip.style.setProperty("left", `${Math.min(spot.x + 12, width - 260)}px`);
      tip.style.setProperty("top", `${spot.y + 14}px`);
    });
    canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => {
      const spot = under(event);
      if (spot) choose(tasks[spot.row].task, spot.i >= 0 ? steps[spot.i] : null);
    });
    holder.append(canvas, tip);
  });
  return holder;
}

function clip(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  while (text.length > 3 && ctx.measureText(text + "…").width > width) text = text.slice(0, -1);
  return text + "…";
}
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
export const mix = (a, b, t) => `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * t)).join(" ")})`;

/** A background for a value between −top and +top: orange to green; a zero is grey, an unknown
 * has none. */
export function signedColour(value, top) {
  if (value === null || value === undefined || !top) return "transparent";
  if (value === 0) return "var(--sunk)";
  const share = Math.min(1, Math.abs(value) / top);
  return `color-mix(in srgb, var(--${value > 0 ? "good" : "heldout"}) ${Math.round(12 + 68 * share)}%, var(--card))`;
}
/** A background for a value between 0 and top. */
export function levelColour(value, top, name = "training") {
  if (value === null || value === undefined || !top) return "transparent";
  return `color-mix(in srgb, var(--${name}) ${Math.round(75 * Math.min(1, Math.max(0, value) / top))}%, var(--card))`;
}
