// What several pages draw alike.
import { h } from "../dom.js";
import { statePill } from "../format.js";

export function head(title, note, ...right) {
  return h("div.head", null, h("h1", null, title), note ? h("span.quiet", null, note) : null, right.length ? h("div.right", null, right) : null);
}
export function card(title, note, ...content) {
  return h("section.card", null, title ? h("header", null, h("h2", null, title), note ? h("p", null, note) : null) : null, content);
}
export const runHead = (ctx, title, note) => head(title, note, statePill(ctx.entry.state));

/** A select in a form: options are [value, label]; the first means no choice. */
export function choice(label, value, options, onchoose) {
  return h("label", null, label, h("select", { onchange: (e) => onchoose(e.target.value), "aria-label": label },
    options.map(([v, text]) => h("option", { value: v, selected: v === (value ?? "") }, text))));
}
export const nothing = (text) => h("p.quiet", null, text);
