// Groups: which carry a gradient; and one group with its episodes side by side.
import { h } from "../dom.js";
import { key, shareBar, signedColour } from "../charts.js";
import { count, number, outcomePill, rewardDots, signed, stepName, VERDICTS, verdictName, verdictPill, words } from "../format.js";
import { pager, table } from "../table.js";
import { card, head, nothing, runHead } from "./parts.js";
import { changesPart, transcript } from "./transcript.js";

const LIMIT = 50;

export async function groups(ctx) {
  const { parameters: p } = ctx;
  const [offset, verdict, sort] = [Number(p.get("offset") ?? 0), p.get("verdict"), p.get("sort") ?? "-recorded"];
  const data = await ctx.get("groups", { ids: p.getAll("ids"), verdict, sort, offset, limit: LIMIT });
  const every = VERDICTS.reduce((sum, v) => sum + data.verdicts[v], 0);
  return [runHead(ctx, "Groups", p.getAll("ids").length ? p.getAll("ids").join(", ") : `${count(every)} in all`), h("div.stack", null,
    card(null, null, h("div.form", null, [["", `all ${count(every)}`], ...VERDICTS.map((v) => [v, `${verdictName(v)} ${count(data.verdicts[v])}`])].map(([v, label]) =>
      h("button", { type: "button", "aria-pressed": String((verdict ?? "") === v), onclick: () => ctx.go(ctx.here({ verdict: v, offset: null }), true) }, label)),
      p.getAll("ids").length ? h("a", { href: ctx.to("groups") }, "show all groups") : null),
      h("div", { css: { "margin-top": "12px" } }, shareBar(VERDICTS.map((v, i) => ({ name: verdictName(v), n: data.verdicts[v], look: `p${i}` }))), key(VERDICTS, VERDICTS, verdictName)),
      h("p.quiet", { css: { "margin-top": "8px" } }, "Only a mixed group compares a success with a failure, and so carries a gradient.")),
    card(null, null, table([
      { label: "step", right: true, server: "recorded", cell: (g) => stepName(g.step) },
      { label: "task", cell: (g) => g.task, wrap: true, link: true },
      { label: "kind", cell: (g) => g.kind },
      { label: "verdict", cell: (g) => verdictPill(g.verdict) },
      { label: "rewards", cell: (g) => rewardDots(g.rewards) },
      { label: "mean", right: true, cell: (g) => number(mean(g.rewards)) },
      { label: "programs", right: true, cell: (g) => g.distinct_files },
      { label: "trained on", cell: (g) => (g.used ? "yes" : h("span.faint", null, "no")) },
    ], data.groups, { href: (g) => ctx.to("group", { id: g.id }), order: sort, onOrder: (s) => ctx.go(ctx.here({ sort: s, offset: null }), true) }),
    data.groups.length ? null : nothing("No such group is recorded."),
    pager(offset, LIMIT, data.total, (o) => ctx.go(ctx.here({ offset: o })))))];
}

const mean = (rewards) => {
  const scored = rewards.filter((r) => r !== null);
  return scored.length ? scored.reduce((a, b) => a + b, 0) / scored.length : null;
};

export async function group(ctx) {
  const { parameters: p } = ctx;
  const id = p.get("id");
  if (!id) throw new Error("The page of a group needs its id: the list of groups has them.");
  const { groups: [found] } = await ctx.get("groups", { ids: id });
  const { episodes: rows } = await ctx.get("episodes", { group: id, purpose: "train" });
  const { episodes } = await ctx.get("episode", { ids: rows.map((e) => e.id) });
  const [left, right] = pairOf(episodes, p.get("a"), p.get("b"));
  const choose = (side) => (e) => ctx.go(ctx.here({ [side]: e.target.value }), true);
  const options = (chosen) => episodes.map((e) => h("option", { value: e.id, selected: e === chosen }, `${e.sample}: ${e.reward === null ? "unscored" : `reward ${number(e.reward)}`}, ${words(e.stop_reason)}`));
  const top = Math.max(...episodes.flatMap((e) => e.turns.map((t) => Math.abs(t.learned.advantage ?? 0))), 1e-9);
  const against = left !== right ? await ctx.get("changes", { ids: [right.id, left.id] }) : null;
  const inGroup = (e) => ctx.to("episode", { id: e.id, group: id, at: e.sample });
  ctx.keys.u = () => ctx.go(ctx.to("groups"));
  return [head(found.task, [`group ${found.id}`, `step ${found.step}`, found.kind].filter(Boolean).join(" · "), verdictPill(found.verdict)), h("div.stack", null,
    card("Episodes", found.used ? "the learner trained on this group" : "the learner did not train on this group", table([
      { label: "sample", by: (e) => e.sample, cell: (e) => e.sample, link: true },
      { label: "ended", by: (e) => e.stop_reason, cell: (e) => outcomePill(e) },
      { label: "reward", right: true, by: (e) => e.reward, cell: (e) => number(e.reward) },
      { label: "held-out", right: true, by: (e) => e.heldout_reward, cell: (e) => number(e.heldout_reward) },
      { label: "advantage", right: true, by: creditOf, cell: (e) => signed(creditOf(e)) },
      { label: "credit by turn", cell: (e) => creditStrip(e, top, inGroup(e)) },
      { label: "turns", right: true, by: (e) => e.n_turns, cell: (e) => e.n_turns },
      { label: "tokens", right: true, by: (e) => e.n_action_tokens, cell: (e) => count(e.n_action_tokens) },
    ], episodes, { href: inGroup })),
    h("div.form", null, h("h2", null, "Side by side"), h("label", null, "left", h("select", { onchange: choose("a"), "aria-label": "left" }, options(left))), h("label", null, "right", h("select", { onchange: choose("b"), "aria-label": "right" }, options(right)))),
    against?.files.length ? card("From left to right", "the final workspaces", changesPart(against)) : null,
    h("div.pair", null, [left, right].map((e) => h("div.stack", null, h("div.form", null, outcomePill(e), h("a", { href: inGroup(e) }, e.id)), transcript(ctx, e, top)))))];
}

/** The two that were asked for, or else the worst and the best. */
function pairOf(episodes, a, b) {
  const byReward = episodes.filter((e) => e.reward !== null).sort((x, y) => x.reward - y.reward);
  const named = (id, other) => episodes.find((e) => e.id === id) ?? other ?? episodes[0];
  return [named(a, byReward[0]), named(b, byReward.at(-1) ?? episodes.at(-1))];
}

/** Mean credit over the episode's action tokens. */
export function creditOf(e) {
  let [sum, n] = [0, 0];
  for (const t of e.turns) {
    if (typeof t.learned.advantage !== "number") continue;
    const tokens = t.action[1] - t.action[0];
    sum += t.learned.advantage * tokens;
    n += tokens;
  }
  return n ? sum / n : null;
}

/** One cell a turn, which leads to it; `address` is that of the episode's page. */
export function creditStrip(e, top, address) {
  return h("div.strip", { css: { "min-width": "90px" } }, e.turns.map((t, i) =>
    h("a", { href: `${address}#turn-${i + 1}`, css: { background: signedColour(t.learned.advantage, top), border: "1px solid var(--line)" },
      title: `turn ${i + 1}: credit ${signed(t.learned.advantage)}`, "aria-label": `turn ${i + 1}` })));
}
