// Every number that was recorded per step, as small charts.
import { h } from "../dom.js";
import { lines } from "../charts.js";
import { compact, number, words } from "../format.js";
import { card, choice, nothing, runHead } from "./parts.js";

const MOST = 60;

export async function metrics(ctx) {
  const data = await ctx.get("metrics");
  const phase = ctx.parameters.get("phase") ?? (data.rl.length ? "rl" : "warm_start");
  const text = ctx.parameters.get("text") ?? "";
  const rows = data[phase] ?? [];
  const names = [...new Set(rows.flatMap((r) => Object.keys(r)))].filter((n) => !["step", "version"].includes(n) && words(n).toLowerCase().includes(words(text).toLowerCase())).sort();
  return [runHead(ctx, "Metrics", `${names.length} recorded per step`), h("div.stack", null,
    h("div.form", null, h("input", { type: "search", placeholder: "Name", "aria-label": "Name", value: text, onchange: (e) => ctx.go(ctx.here({ text: e.target.value }), true) }),
      choice("phase", phase, [["rl", "RL"], ["warm_start", "warm start"]], (v) => ctx.go(ctx.here({ phase: v }), true))),
    names.length ? h("div.row", null, names.slice(0, MOST).map((name) => card(words(name), number(rows.at(-1)[name]), lines([{ label: words(name), colour: "training", points: rows.map((r) => [r.step, r[name]]) }], { height: 130, show: compact }))))
      : card(null, null, nothing("No step is recorded yet.")),
    names.length > MOST ? nothing(`The first ${MOST} of ${names.length}: narrow them above.`) : null)];
}
