// Search: episodes by text, tool, ending, cause, finding; sorted and paged by the server.
import { h } from "../dom.js";
import { count, number, outcomePill, stepName, words } from "../format.js";
import { pager, table } from "../table.js";
import { card, choice, nothing, runHead } from "./parts.js";

export const LIMIT = 50; // episodes on a page of the list
const FILTERS = ["text", "tool", "stop_reason", "cause", "outcome", "purpose", "evaluation", "split", "kind", "task", "group", "step", "failed", "finding"];
const STOPS = ["submitted", "truncated", "stuck", "turn_limit", "token_limit", "time_limit", "failed"];
const CAUSES = ["verifier_error", "verifier_timeout", "malformed_reward", "sandbox_failure", "infrastructure_failure"];

/** The terms of the address that choose episodes, as parameters of the view. */
export function filtersOf(parameters) {
  const chosen = { ids: parameters.getAll("ids") };
  for (const name of [...FILTERS, "sort"]) if (parameters.get(name)) chosen[name] = parameters.get(name);
  return chosen;
}
/** The same and the place in that list: what an episode's page needs to go on from there. */
export const trailOf = (parameters) => ({ ...filtersOf(parameters), at: parameters.get("at") });

export async function episodes(ctx) {
  const { parameters: p } = ctx;
  const [offset, sort, filters] = [Number(p.get("offset") ?? 0), p.get("sort") ?? "-recorded", filtersOf(p)];
  const data = await ctx.get("episodes", { ...filters, sort, offset, limit: LIMIT });
  const set = (changes) => ctx.go(ctx.here({ ...changes, offset: null }), true);
  const select = (label, name, values) => choice(label, p.get(name), [["", "any"], ...values.map((v) => [v, words(v)])], (v) => set({ [name]: v }));
  const field = (name, placeholder) => h("input", { type: name === "text" ? "search" : "text", placeholder, "aria-label": placeholder, value: p.get(name) ?? "", size: name === "text" ? 30 : 12, onchange: (e) => set({ [name]: e.target.value.trim() }) });
  const other = ["evaluation", "split", "kind", "task", "group", "step", "failed", "finding"].filter((name) => p.get(name));
  const counted = (label, key) => ({ label, right: true, server: key, cell: (e) => count(e[key]) });
  const position = new Map(data.episodes.map((e, i) => [e, offset + i]));
  return [runHead(ctx, "Episodes", `${count(data.total)} match`), h("div.stack", null,
    card(null, null, h("div.form", null, field("text", "Text that it wrote or read"), field("tool", "Tool"), field("failed", "Failed check"), field("finding", "Finding"),
      select("ended", "stop_reason", STOPS), select("outcome", "outcome", ["solved", "wrong", "unscored"]), select("cause", "cause", CAUSES), select("from", "purpose", ["train", "eval"])),
      other.length || filters.ids.length ? h("div.form", { css: { "margin-top": "10px" } }, [...filters.ids.map((id) => ["ids", id]), ...other.map((n) => [n, p.get(n)])].map(([name, value]) =>
        h("button", { type: "button", title: "remove", onclick: () => set({ [name]: name === "ids" ? filters.ids.filter((i) => i !== value) : null }) }, `${name === "ids" ? "" : `${words(name)}: `}${value} ✕`))) : null),
    card(null, null, table([
      { label: "episode", server: "recorded", cell: (e) => h("span.mono", null, e.id), link: true, wrap: true },
      { label: "step", right: true, server: "step", cell: (e) => stepName(e.step) },
      { label: "task", server: "task", cell: (e) => e.task, wrap: true },
      { label: "kind", server: "kind", cell: (e) => e.kind },
      { label: "outcome", server: "solved", cell: outcomePill },
      { label: "reward", right: true, server: "reward", cell: (e) => number(e.reward) },
      { label: "held-out", right: true, server: "heldout_reward", cell: (e) => number(e.heldout_reward) },
      { label: "ended", server: "stop_reason", cell: (e) => words(e.stop_reason) },
      counted("turns", "n_turns"), counted("calls", "n_calls"), counted("errors", "n_call_errors"), counted("repeated", "n_repeated_calls"), counted("tokens", "n_action_tokens"),
    ], data.episodes, { href: (e) => ctx.to("episode", { id: e.id, ...filters, sort, at: position.get(e) }), order: sort, onOrder: (s) => set({ sort: s }) }),
    data.episodes.length ? null : nothing("No episode matches."),
    pager(offset, LIMIT, data.total, (o) => ctx.go(ctx.here({ offset: o })))))];
}
