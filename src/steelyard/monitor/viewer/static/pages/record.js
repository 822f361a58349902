// Pages that are lists of what was recorded: outcomes, alarms, diagnosis, findings, audit, events.
import { h } from "../dom.js";
import { count, moment, number, words } from "../format.js";
import { table } from "../table.js";
import { card, choice, nothing, runHead } from "./parts.js";
import { alarmsOf } from "./overview.js";

export async function outcomes(ctx) {
  const { outcomes: rows } = await ctx.get("outcomes");
  const number = (label, key) => ({ label, right: true, by: (r) => r[key], cell: (r) => (r[key] ? count(r[key]) : h("span.faint", null, "0")) });
  return [runHead(ctx, "Outcomes", "an error is never a zero: what carries no reward enters no rate"), card(null, null, table([
    { label: "outcome", by: (r) => r.outcome, cell: (r) => words(r.outcome) },
    { label: "carries a reward", by: (r) => r.carries_reward, cell: (r) => (r.carries_reward ? "yes" : h("span.pill", null, "no")) },
    number("training", "training"), number("evaluation", "evaluation"), number("by held-out checks", "heldout"),
    { label: "example", cell: (r) => (r.example ? h("a", { href: ctx.to("episode", { id: r.example }) }, r.example) : "–"), wrap: true },
    { label: "detail", cell: (r) => r.detail ?? "", wrap: true },
  ], rows))];
}

export async function alarms(ctx) {
  const list = await alarmsOf(ctx);
  const rollbacks = (await ctx.maybe("alarms"))?.rollbacks ?? [];
  return [runHead(ctx, "Alarms", list.length ? `${list.length} raised` : null), ...rollbacks.map((r) => card("Rolled back", null, h("p", null, r.text))), list.length ? h("div.stack", null, [...list].reverse().map((a) => h("section.card.alarm-item", null,
    h("header", null, h("h2", null, words(a.name)), h("p", null, a.step === null ? "" : `step ${a.step}`), a.action ? h("span.pill.alarm", null, a.action) : null),
    h("p", null, a.text),
    a.evidence && Object.keys(a.evidence).length ? evidence(a.evidence) : null,
    a.episodes.length ? h("p", null, "Raised by ", a.episodes.slice(0, 12).map((id, i) => [i ? ", " : "", h("a", { href: ctx.to("episode", { id }) }, id)]), a.episodes.length > 12 ? ` and ${a.episodes.length - 12} more` : "") : null)))
    : card(null, null, nothing("No alarm was raised."))];
}

export async function diagnosis(ctx) {
  const ids = ctx.parameters.getAll("ids");
  const data = await ctx.get("diagnosis", { ids });
  return [runHead(ctx, "Diagnosis", ids.length ? ids.join(", ") : "why there is no gradient"), h("div.stack", null,
    ids.length ? h("a", { href: ctx.to("diagnosis") }, "The whole run") : null,
    "verdict" in data ? verdictCard(ctx, data) : null,
    (data.diagnoses ?? []).map((d) => verdictCard(ctx, d)),
    Object.entries(data).filter(([name]) => !SAID.has(name)).map(([name, value]) => part(ctx, name, value)))];
}
const SAID = new Set(["verdict", "why", "next", "certainty", "scope", "task", "group", "kind", "episodes", "experiment", "diagnoses"]);
function verdictCard(ctx, d) {
  const of = d.group ?? d.task;
  return card([of ? `${of}: ` : "", words(shown(d.verdict))], d.certainty ? words(d.certainty) : null,
    d.why?.length ? [h("h3", null, "Why"), h("ul", null, d.why.map((line) => h("li", null, String(line))))] : null,
    d.next?.length ? [h("h3", null, "What to try"), h("ul", null, d.next.map((line) => h("li", null, String(line))))] : null,
    d.episodes?.length ? h("p", null, "Seen in ", d.episodes.slice(0, 8).map((id, i) => [i ? ", " : "", link(ctx, id)])) : null,
    d.experiment ? h("p", null, "To decide it: ", h("code", null, d.experiment)) : null);
}
function part(ctx, name, value) {
  if (Array.isArray(value) && value.some((v) => v && typeof v === "object")) return card(words(name), null, anyTable(ctx, value));
  if (value && typeof value === "object") return "verdict" in value ? verdictCard(ctx, value) : card(words(name), null, evidence(value));
  return card(words(name), null, h("p", null, shown(value)));
}

export async function findings(ctx) {
  const { findings: rows = [], scanned, episodes } = await ctx.get("findings");
  const scanner = ctx.parameters.get("scanner");
  const names = [...new Set(rows.map((f) => f.scanner))].sort();
  const kept = rows.filter((f) => !scanner || f.scanner === scanner);
  return [runHead(ctx, "Findings", "what the scanners saw; kept apart from the data"), h("div.stack", null,
    h("div.form", null, choice("scanner", scanner, [["", "all"], ...names.map((n) => [n, words(n)])], (v) => ctx.go(ctx.here({ scanner: v }), true)),
      scanner ? h("a", { href: ctx.to("episodes", { finding: scanner }) }, "its episodes") : null),
    scanned < episodes ? nothing(`${count(scanned)} of ${count(episodes)} episodes are scanned. The viewer only reads; steelyard show ${ctx.run} findings scans the rest.`) : null,
    card(null, null, kept.length ? table([
      { label: "scanner", by: (f) => f.scanner, cell: (f) => words(f.scanner) },
      { label: "severity", by: (f) => f.severity, cell: (f) => h("span.pill.alarm", null, String(f.severity ?? "")) },
      { label: "episode", by: (f) => f.episode, cell: (f) => f.episode, wrap: true, link: true },
      { label: "turn", right: true, by: (f) => f.turn, cell: (f) => (typeof f.turn === "number" ? f.turn + 1 : "–") },
      { label: "what", cell: (f) => f.text, wrap: true },
    ], kept.slice(0, 1000), { href: (f) => `${ctx.to("episode", { id: f.episode })}${typeof f.turn === "number" ? `#turn-${f.turn + 1}` : ""}` }) : nothing("Nothing was found.")))];
}

export async function audit(ctx) {
  const own = await ctx.maybe("audit");
  const { events: all } = await ctx.get("events");
  const found = all.filter((e) => e.kind === "audit");
  return [runHead(ctx, "Audit", "what the attack on the verifiers proved before training"), h("div.stack", null,
    own ? Object.entries(own).map(([name, value]) => part(ctx, name, value)) : null,
    card(null, null, found.length ? h("ul", null, found.map((e) => h("li", null, e.text))) : nothing("The audit that precedes training recorded no finding in this run. steelyard audit TASKS attacks them in full.")))];
}

export async function events(ctx) {
  const { events: all } = await ctx.get("events");
  const kind = ctx.parameters.get("kind");
  const kinds = [...new Set(all.map((e) => e.kind))];
  return [runHead(ctx, "Events", count(all.length)), h("div.stack", null,
    h("div.form", null, choice("kind", kind, [["", "all"], ...kinds.map((k) => [k, words(k)])], (v) => ctx.go(ctx.here({ kind: v }), true))),
    card(null, null, table([
      { label: "time", by: (e) => e.time, cell: (e) => h("span.num", null, moment(e.time)) },
      { label: "step", right: true, by: (e) => e.step, cell: (e) => e.step ?? "–" },
      { label: "kind", by: (e) => e.kind, cell: (e) => words(e.kind) },
      { label: "what", cell: (e) => [e.text, Object.keys(e.data).length ? evidence(e.data) : null], wrap: true },
    ], all.filter((e) => !kind || e.kind === kind).slice(-2000), { sort: { column: 0, descending: true } })))];
}

const LINKS = {
  episode: (ctx, id) => ctx.to("episode", { id }),
  group: (ctx, id) => ctx.to("group", { id }),
  example: (ctx, id) => ctx.to("episodes", { ids: id }), // a group's or an episode's
  task: (ctx, task) => ctx.to("episodes", { task }),
};

function evidence(values) {
  return h("div.key", null, Object.entries(values).map(([name, v]) => h("span", null, `${words(name)}: `, h("b.num", null, shown(v)))));
}
function shown(v) {
  if (typeof v === "number") return number(v);
  return v === null || v === undefined ? "–" : typeof v === "string" ? (/^[a-z]+(_[a-z]+)+$/.test(v) ? words(v) : v) : JSON.stringify(v);
}
function anyTable(ctx, rows) {
  const names = [...new Set(rows.flatMap((r) => Object.keys(r ?? {})))];
  return table(names.map((name) => ({ label: words(name), right: rows.some((r) => typeof r?.[name] === "number"), by: (r) => (typeof r?.[name] === "object" ? null : r?.[name]), wrap: true,
    cell: (r) => (LINKS[name] && typeof r?.[name] === "string" ? h("a", { href: LINKS[name](ctx, r[name]) }, r[name]) : Array.isArray(r?.[name]) ? r[name].map(shown).join("; ") : shown(r?.[name])) })), rows);
}
const link = (ctx, id) => (id ? h("a", { href: ctx.to("episode", { id }) }, id) : "–");
