// A segment token by token, coloured by one of the values that were recorded.
import { h, plain } from "../dom.js";
import { levelColour, signedColour } from "../charts.js";
import { count, number, words } from "../format.js";
import { pager } from "../table.js";
import { trailOf } from "./episodes.js";
import { card, choice, head, nothing } from "./parts.js";

const LIMIT = 3000;
const NAMES = { action: "mask", advantage: "credit", behaviour_logp: "behaviour log-prob", prox_logp: "learner log-prob", log_ratio: "log-ratio", version: "policy version" };
const SIGNED = new Set(["advantage", "log_ratio", "mismatch"]);
const nameOf = (field) => NAMES[field] ?? words(field);

export async function tokens(ctx) {
  const { parameters: p } = ctx;
  const [id, segment, token] = [p.get("id"), p.get("segment") ?? "0", p.get("token")];
  const offset = Number(p.get("offset") ?? (token === null ? 0 : LIMIT * Math.floor(Number(token) / LIMIT)));
  const data = await ctx.get("tokens", { ids: [id, segment], offset, limit: LIMIT });
  const fields = withMismatch(data.fields);
  const overlays = ["action", "advantage", "entropy", "log_ratio", "limited", "version", "behaviour_logp", "prox_logp", "mismatch"].filter((f) => fields[f]?.some((v) => v !== null));
  const shown = overlays.includes(p.get("overlay")) ? p.get("overlay") : "action";
  const known = fields[shown].filter((v) => typeof v === "number");
  const scale = { top: Math.max(...known.map(Math.abs), 1e-9), low: Math.min(...known), high: Math.max(...known) };
  const detail = h("table.figures", null, h("tbody"));
  const show = (i) => detail.firstChild.replaceChildren(...[["position", count(offset + i)], ...(data.text ? [["text", JSON.stringify(data.text[i])]] : []), ...Object.keys(fields).map((f) => [nameOf(f), shownValue(fields[f][i])])]
    .map(([name, value]) => h("tr", null, h("td.quiet", null, name), h("td.right.wrap", null, value))));
  const marks = data.fields.id.map((tokenId, i) => {
    const action = data.fields.action[i];
    const text = data.text ? display(data.text[i]) : String(tokenId);
    return h(`span.t${data.text ? "" : ".id"}${action ? "" : ".context"}${token !== null && Number(token) === offset + i ? ".at" : ""}`,
      { "data-i": i, css: { background: background(shown, fields[shown][i], scale) } }, text);
  });
  const flow = h("div.tokens.text", { onmouseover: (e) => { if (e.target.dataset?.i) show(Number(e.target.dataset.i)); } }, marks);
  show(Math.max(0, token === null ? data.fields.action.indexOf(true) : Number(token) - offset));
  const episode = ctx.to("episode", { id, ...trailOf(p) });
  ctx.keys.u = () => ctx.go(episode);
  const page = [head("Tokens", h("a", { href: episode }, id)), h("div.stack", null,
    h("div.form", null, choice("colour by", shown, overlays.map((f) => [f, nameOf(f)]), (v) => ctx.go(ctx.here({ overlay: v }), true)),
      data.segments > 1 ? choice("segment", segment, Array.from({ length: data.segments }, (_, i) => [String(i), `${i}`]), (v) => ctx.go(ctx.here({ segment: v, token: null, offset: null }), true)) : null,
      h("span.quiet", null, legend(shown, scale))),
    h("div.split", null, card(null, null, data.total ? flow : nothing("The segment is empty."), pager(offset, LIMIT, data.total, (o) => ctx.go(ctx.here({ offset: o, token: null })))),
      h("aside.stack.panel-sticky", null, card("Under the pointer", null, detail),
        card(null, null, h("p.quiet", null, data.text ? "Each token is decoded by itself with the run's own tokenizer; a character that several tokens share shows as �." : "Ids only: no tokenizer.json was found in the run's checkpoints or its model's folder, or the package tokenizers is missing."),
          h("p.quiet", null, `${count(data.total)} tokens, ${count(data.turns.length)} actions in this segment. Grey text is context that the policy read.`)))))];
  if (token !== null) requestAnimationFrame(() => flow.querySelector(".at")?.scrollIntoView({ block: "center" }));
  return page;
}

/** What engine and learner disagree about, where both log-probs are there. */
function withMismatch(fields) {
  if (!fields.prox_logp) return fields;
  return { ...fields, mismatch: fields.prox_logp.map((v, i) => (v === null || fields.behaviour_logp[i] === null ? null : v - fields.behaviour_logp[i])) };
}
const display = (text) => plain(text).replaceAll("\n", "⏎\n").replaceAll("\t", "→\t");
const shownValue = (v) => (v === null ? "–" : typeof v === "boolean" ? (v ? "yes" : "no") : Number.isInteger(v) ? String(v) : number(v, 4));

function background(field, value, scale) {
  if (value === null || value === undefined) return "transparent";
  if (typeof value === "boolean") return value ? `var(--${field === "limited" ? "alarm" : "accent"}-soft)` : "transparent";
  if (SIGNED.has(field)) return signedColour(value, scale.top);
  if (field === "version") return levelColour(1 + value - scale.low, 1.3 * (1 + scale.high - scale.low), "other");
  return levelColour(Math.abs(value), scale.top, field === "entropy" ? "other" : "training");
}
function legend(field, scale) {
  if (field === "action") return "coloured: sampled by the policy";
  if (field === "limited") return "coloured: the limit held this token back";
  if (SIGNED.has(field)) return `green up to +${number(scale.top)}, orange down to −${number(scale.top)}, grey for 0`;
  return Number.isFinite(scale.low) ? `from ${number(scale.low)} to ${number(scale.high)}; the stronger, the larger` : "no value here";
}
