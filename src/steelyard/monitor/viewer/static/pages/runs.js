// The list of runs, and several of them on one chart.
import { h } from "../dom.js";
import { pageAddress } from "../api.js";
import { lines, PALETTE } from "../charts.js";
import { compact, duration, interval, percent, statePill } from "../format.js";
import { table } from "../table.js";
import { card, head, nothing } from "./parts.js";
import { differences } from "./config.js";

export async function runs(ctx) {
  ctx.title = "Runs";
  const columns = [
    { label: "run", by: (r) => r.run, cell: (r) => r.run, link: true },
    { label: "state", by: (r) => r.state, cell: (r) => statePill(r.state) },
    { label: "model", by: (r) => r.model, cell: (r) => r.model, wrap: true },
    { label: "begun", by: (r) => r.created, cell: (r) => (r.created ? new Date(r.created).toLocaleString() : "–") },
    { label: "", cell: (r) => r.error ?? "", wrap: true },
  ];
  return [head("Runs", `${ctx.runs.length} found`, h("a", { href: "/compare" }, "Compare")),
    card(null, null, table(columns, ctx.runs, { href: (r) => pageAddress(r.run, "overview"), sort: { column: 3, descending: true } }))];
}

const STAGES = [["base", "base"], ["warm_start", "warm start"], ["final", "after RL"]];
const MOST = 6;

export async function compare(ctx) {
  ctx.title = "Compare";
  const readable = ctx.runs.filter((r) => !r.error).map((r) => r.run);
  const asked = ctx.parameters.getAll("run").filter((r) => readable.includes(r));
  const chosen = (asked.length ? asked : readable).slice(0, MOST);
  const summaries = await Promise.all(chosen.map((run) => ctx.of(run, "summary")));
  const configs = await Promise.all(chosen.map((run) => ctx.of(run, "config")));
  const toggles = h("div.form", { role: "group", "aria-label": "Runs" }, readable.map((run) => h("button", { type: "button", "aria-pressed": String(chosen.includes(run)), disabled: chosen.length >= MOST && !chosen.includes(run),
    onclick: () => ctx.go(ctx.here({ run: chosen.includes(run) ? chosen.filter((r) => r !== run) : [...chosen, run] }), true) }, run)));
  if (!chosen.length) return [head("Compare runs"), toggles, nothing("No run can be read.")];
  const chart = (title, note, points, options) => card(title, note, lines(summaries.map((s, i) => ({ label: chosen[i], colour: PALETTE[i], points: points(s), dots: options?.dots })), { height: 220, ...options }));
  const rate = { range: [0, 1.02], show: (v) => percent(v) };
  return [head("Compare runs", `up to ${MOST} on one chart`), h("div.stack", null, toggles,
    h("div.row.wide", null,
      chart("Training reward", "mean of the scored episodes", (s) => s.steps.map((t) => [t.step, t.reward_mean]), rate),
      chart("Unseen tasks", "pass@1 on the dev split", (s) => s.unseen.map((e) => [Math.max(0, e.step), e.pass_at_1]), { ...rate, dots: true }),
      chart("Held-out checks", "on training episodes", (s) => s.steps.map((t) => [t.step, t.paired.heldout]), rate),
      chart("Gap", "training reward less held-out, same episodes", (s) => s.steps.map((t) => [t.step, t.paired.n ? t.paired.training - t.paired.heldout : null]), { show: (v) => percent(v) }),
      chart("Entropy", "nats per token", (s) => s.steps.map((t) => [t.step, t.entropy]), { fromZero: true }),
      chart("Step time", "seconds", (s) => s.steps.map((t) => [t.step, t.seconds_total]), { fromZero: true, show: compact })),
    card("Results", "pass@1, 95% interval", table([
      { label: "run", by: (r) => r.run, cell: (r) => h("a", { href: pageAddress(r.run, "overview") }, r.run) },
      { label: "state", by: (r) => r.s.state, cell: (r) => statePill(r.s.state) },
      ...STAGES.map(([name, label]) => ({ label, right: true, by: (r) => r.s[name]?.pass_at_1, cell: (r) => (r.s[name] ? `${percent(r.s[name].pass_at_1)} (${interval(r.s[name])})` : "–") })),
      { label: "steps", right: true, by: (r) => r.s.steps.length, cell: (r) => r.s.steps.length },
      { label: "time", right: true, by: (r) => r.s.cost.seconds_total, cell: (r) => duration(r.s.cost.seconds_total) },
    ], summaries.map((s, i) => ({ s, run: chosen[i] })))),
    chosen.length > 1 ? card("What was set differently", null, differences(chosen, configs.map((c) => c.config))) : null)];
}
