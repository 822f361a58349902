// What the audit of the verifiers, before the run began, said of each task.
import { h } from "../dom.js";
import { count, words } from "../format.js";
import { table } from "../table.js";
import { card, choice, nothing, runHead } from "./parts.js";

const VERDICTS = { broken: "alarm", weak: "bad", sound: "good" };
const MOST = 1000;

export async function audit(ctx) {
  const data = await ctx.get("audit");
  const { parameters: p } = ctx;
  const [verdict, text] = [p.get("verdict"), p.get("text") ?? ""];
  const found = data.tasks.filter((t) => (!verdict || t.verdict === verdict) && (t.task ?? "").toLowerCase().includes(text.toLowerCase()));
  const label = (name) => `${name} (${count(data.verdicts[name])})`; // a dash where it is not recorded
  return [runHead(ctx, "Audit", data.sentence), h("div.stack", null,
    data.tasks.length ? h("div.form", null,
      h("input", { type: "search", placeholder: "Task name", "aria-label": "Task name", value: text, onchange: (e) => ctx.go(ctx.here({ text: e.target.value }), true) }),
      choice("verdict", verdict, [["", "all"], ...Object.keys(VERDICTS).map((v) => [v, label(v)])], (v) => ctx.go(ctx.here({ verdict: v }), true))) : null,
    card(null, null,
      found.length ? table([
        { label: "verdict", by: (t) => Object.keys(VERDICTS).indexOf(t.verdict), cell: (t) => (t.verdict ? h(`span.pill.${VERDICTS[t.verdict] ?? ""}`, null, t.verdict) : "–") },
        { label: "task", by: (t) => t.task, cell: (t) => (t.task ? h("a", { href: ctx.to("episodes", { task: t.task }) }, t.task) : "–"), wrap: true },
        { label: "kinds of finding", by: (t) => t.kinds.join(", "), cell: (t) => t.kinds.map(words).join(", ") || "–" },
        { label: "what", cell: (t) => t.sentence, wrap: true },
      ], found.slice(0, MOST)) : nothing(data.tasks.length ? "No such task." : "steelyard audit TASKS attacks verifiers in full.")),
    found.length > MOST ? nothing(`The first ${count(MOST)} of ${count(found.length)}: narrow them above.`) : null)];
}
