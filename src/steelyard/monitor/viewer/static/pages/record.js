// Pages that are lists of what was recorded: outcomes, alarms, diagnosis, findings, events.
import { h } from "../dom.js";
import { quoted } from "../api.js";
import { count, moment, number, stepName, words } from "../format.js";
import { table } from "../table.js";
import { card, choice, nothing, runHead } from "./parts.js";

export async function outcomes(ctx) {
  const { outcomes: rows } = await ctx.get("outcomes");
  const counted = (label, key) => ({ label, right: true, by: (r) => r[key], cell: (r) => (r[key] ? count(r[key]) : h("span.faint", null, "0")) });
  return [runHead(ctx, "Outcomes", "an error is never a zero: what carries no reward enters no rate"), card(null, null, table([
    { label: "outcome", by: (r) => r.outcome, cell: (r) => words(r.outcome) },
    { label: "carries a reward", by: (r) => r.carries_reward, cell: (r) => (r.carries_reward ? "yes" : h("span.pill", null, "no")) },
    counted("training", "training"), counted("evaluation", "evaluation"), counted("by held-out checks", "heldout"),
    { label: "example", cell: (r) => (r.example ? h("a", { href: ctx.to("episode", { id: r.example }) }, r.example) : "–"), wrap: true },
    { label: "detail", cell: (r) => r.detail ?? "", wrap: true },
  ], rows))];
}

export async function alarms(ctx) {
  const { alarms: list, rollbacks } = await ctx.get("alarms");
  return [runHead(ctx, "Alarms", list.length ? `${list.length} raised` : null), h("div.stack", null, rollbacks.map((r) => card("Rolled back", null, h("p", null, r.text))), [...list].reverse().map((a) => alarmCard(ctx, a)),
    list.length ? null : card(null, null, nothing("No alarm was raised.")))];
}
function alarmCard(ctx, { name, step, text, action, evidence: values = {}, episodes = [] }) {
  return h("section.card.alarm-item", null, h("header", null, h("h2", null, words(name)), h("p", null, step === null ? "" : `step ${step}`), action ? h("span.pill.alarm", null, action) : null),
    h("p", null, text),
    Object.keys(values).length ? evidence(values) : null,
    episodes.length ? h("p", null, "Raised by ", links(ctx, episodes, FEW), episodes.length > FEW ? ` and ${episodes.length - FEW} more` : "") : null);
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
const SAID = new Set(["verdict", "why", "next", "certainty", "scope", "episodes", "diagnoses"]);
function verdictCard(ctx, d) {
  const of = d.id ?? d.task; // a group has an id; the run has neither
  return card([of ? `${of}: ` : "", words(d.verdict)], d.certainty ? words(d.certainty) : null,
    d.why?.length ? [h("h3", null, "Why"), h("ul", null, d.why.map((line) => h("li", null, String(line))))] : null,
    d.next?.length ? [h("h3", null, "What to try"), h("ul", null, d.next.map((line) => h("li", null, String(line))))] : null,
    d.episodes?.length ? h("p", null, "Seen in ", links(ctx, d.episodes, 8)) : null,
    d.experiment ? h("p", null, "To decide it: ", h("code", null, d.experiment)) : null);
}
/** A part of the run's diagnosis: a list, or values by name; an empty one is left out. */
function part(ctx, name, value) {
  if (!Object.keys(value).length) return null;
  if (Array.isArray(value)) return card(words(name), null, anyTable(ctx, value));
  if (name === "ceilings") return card(words(name), null, anyTable(ctx, Object.entries(value).map(([split, of]) => ({ split, ...of }))));
  return card(words(name), null, evidence(value));
}

export async function findings(ctx) {
  const scanner = ctx.parameters.get("scanner");
  const { findings: rows, total, by_scanner: counts, scanned, episodes } = await ctx.get("findings", { scanner, sort: "severity", limit: MOST });
  return [runHead(ctx, "Findings", "what the scanners saw; kept apart from the data"), h("div.stack", null,
    h("div.form", null, choice("scanner", scanner, [["", "all"], ...Object.entries(counts).map(([name, n]) => [name, `${words(name)} (${count(n)})`])], (v) => ctx.go(ctx.here({ scanner: v }), true)),
      scanner ? h("a", { href: ctx.to("episodes", { finding: scanner }) }, "its episodes") : null),
    scanned < episodes ? nothing(`${count(scanned)} of ${count(episodes)} episodes are scanned. The viewer only reads; steelyard show ${quoted(ctx.entry.directory)} findings scans the rest.`) : null,
    card(null, null, rows.length ? table([
      { label: "scanner", by: (f) => f.scanner, cell: (f) => words(f.scanner) },
      { label: "severity", by: (f) => Object.keys(SEVERITIES).indexOf(f.severity), cell: (f) => h(`span.pill.${SEVERITIES[f.severity] ?? ""}`, null, f.severity) },
      { label: "episode", by: (f) => f.episode, cell: (f) => f.episode, wrap: true, link: true },
      { label: "split", by: (f) => f.split, cell: (f) => f.split },
      { label: "turn", right: true, by: (f) => f.turn, cell: (f) => (typeof f.turn === "number" ? f.turn + 1 : "–") },
      { label: "paid", right: true, by: (f) => f.raw, cell: (f) => number(f.raw) },
      { label: "what", cell: (f) => f.text, wrap: true },
    ], rows, { sort: { column: 1, descending: false }, href: (f) => `${ctx.to("episode", { id: f.episode })}${typeof f.turn === "number" ? `#turn-${f.turn + 1}` : ""}` }) : nothing("Nothing was found.")),
    total > rows.length ? nothing(`The worst ${count(rows.length)} of ${count(total)}.`) : null)];
}
/** Worst first, each with its look. */
const SEVERITIES = { cheat: "alarm", suspicious: "bad", info: "" };
const MOST = 1000;

export async function events(ctx) {
  const { events: all } = await ctx.get("events");
  const kind = ctx.parameters.get("kind");
  const kinds = [...new Set(all.map((e) => e.kind))];
  const kept = all.filter((e) => !kind || e.kind === kind);
  return [runHead(ctx, "Events", count(all.length)), h("div.stack", null,
    h("div.form", null, choice("kind", kind, [["", "all"], ...kinds.map((k) => [k, words(k)])], (v) => ctx.go(ctx.here({ kind: v }), true))),
    card(null, null, table([
      { label: "time", by: (e) => e.time, cell: (e) => h("span.num", null, moment(e.time)) },
      { label: "step", right: true, by: (e) => e.step, cell: (e) => stepName(e.step) },
      { label: "kind", by: (e) => e.kind, cell: (e) => words(e.kind) },
      { label: "what", cell: (e) => [e.text, Object.keys(e.data).length ? evidence(e.data) : null], wrap: true },
    ], kept.slice(-MOST), { sort: { column: 0, descending: true } })),
    kept.length > MOST ? nothing(`The last ${count(MOST)} of ${count(kept.length)}.`) : null)];
}

const LINKS = {
  episode: (ctx, id) => ctx.to("episode", { id }),
  group: (ctx, id) => ctx.to("group", { id }),
  example: (ctx, id) => ctx.to("episodes", { ids: id }), // a group's or an episode's
  task: (ctx, task) => ctx.to("episodes", { task }),
};

function evidence(values) {
  return h("div.key", null, Object.entries(values).map(([name, v]) => h("span", null, `${words(name)}: `, h("b.num", null, shown(v, name)))));
}
/** Names of tasks, kinds or metrics stay as they are: only our own words lose their underscores. */
const OWN_WORDS = new Set(["verdict", "certainty", "cause", "scope"]);
const FEW = 12;
function shown(v, name) {
  if (typeof v === "number") return number(v);
  if (v === null || v === undefined) return "–";
  if (typeof v === "string") return OWN_WORDS.has(name) ? words(v) : v;
  if (Array.isArray(v) && v.length > FEW) return `${JSON.stringify(v.slice(0, FEW)).slice(0, -1)}, and ${v.length - FEW} more]`;
  return JSON.stringify(v);
}
function anyTable(ctx, rows) {
  const names = [...new Set(rows.flatMap((r) => Object.keys(r ?? {})))];
  return table(names.map((name) => ({ label: words(name), right: rows.some((r) => typeof r?.[name] === "number"), by: (r) => (typeof r?.[name] === "object" ? null : r?.[name]), wrap: true,
    cell: (r) => (LINKS[name] && typeof r?.[name] === "string" ? h("a", { href: LINKS[name](ctx, r[name]) }, r[name]) : Array.isArray(r?.[name]) ? r[name].map((v) => shown(v)).join("; ") : shown(r?.[name], name)) })), rows);
}
/** The first `most` of some episodes. */
const links = (ctx, ids, most) => ids.slice(0, most).map((id, i) => [i ? ", " : "", h("a", { href: ctx.to("episode", { id }) }, id)]);
