// The configuration of a run, alone or beside another's.
import { h } from "../dom.js";
import { table } from "../table.js";
import { card, choice, nothing, runHead } from "./parts.js";

export async function config(ctx) {
  const other = ctx.parameters.get("with");
  const [{ config: own }, theirs] = await Promise.all([ctx.get("config"), other ? ctx.of(other, "config") : null]);
  const others = ctx.runs.filter((r) => r.run !== ctx.run && !r.error).map((r) => [r.run, r.run]);
  const text = ctx.parameters.get("text") ?? "";
  const flat = new Map(flatten(own));
  const rows = [...flat].filter(([key]) => key.toLowerCase().includes(text.toLowerCase())).map(([key, value]) => ({ key, value }));
  return [runHead(ctx, "Configuration", "resolved, as the run was started"), h("div.stack", null,
    h("div.form", null, h("input", { type: "search", placeholder: "Key", "aria-label": "Key", value: text, onchange: (e) => ctx.go(ctx.here({ text: e.target.value }), true) }),
      others.length ? choice("compare with", other, [["", "no other run"], ...others], (v) => ctx.go(ctx.here({ with: v }), true)) : null),
    theirs ? card("What differs", `from ${other}`, differences([ctx.run, other], [own, theirs.config])) : null,
    card(null, null, table([
      { label: "key", by: (r) => r.key, cell: (r) => h("code", null, r.key) },
      { label: "value", cell: (r) => h("code", null, JSON.stringify(r.value)), wrap: true },
    ], rows)))];
}

/** [dotted key, value] of every leaf. */
export function flatten(value, prefix = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[prefix, value]];
  return Object.entries(value).flatMap(([key, inner]) => flatten(inner, prefix ? `${prefix}.${key}` : key));
}

/** A table of the keys on which the configurations are not one. */
export function differences(names, configs) {
  const flat = configs.map((c) => new Map(flatten(c)));
  const keys = [...new Set(flat.flatMap((m) => [...m.keys()]))].sort();
  const shown = (m, key) => (m.has(key) ? JSON.stringify(m.get(key)) : "–");
  const rows = keys.filter((key) => new Set(flat.map((m) => shown(m, key))).size > 1);
  if (!rows.length) return nothing("Nothing: the configurations are the same.");
  return table([{ label: "key", by: (k) => k, cell: (k) => h("code", null, k) },
    ...names.map((name, i) => ({ label: name, cell: (k) => h("code", null, shown(flat[i], k)), wrap: true }))], rows);
}
