// Success per task over time.
import { h } from "../dom.js";
import { heatMap } from "../charts.js";
import { count, interval, kindName, percent, words } from "../format.js";
import { table } from "../table.js";
import { card, choice, nothing, runHead } from "./parts.js";

const ROWS = 120;
const MOST = 8;

export async function tasks(ctx) {
  const [{ tasks: all }, past] = await Promise.all([ctx.get("tasks"), ctx.get("history")]);
  const { parameters: p } = ctx;
  const [kind, split, text] = [p.get("kind"), p.get("split"), (p.get("text") ?? "").toLowerCase()];
  const shown = all.filter((t) => (!kind || kindName(t.kind) === kind) && (!split || t.split === split) && t.task.toLowerCase().includes(text));
  const set = (changes) => ctx.go(ctx.here(changes), true);
  const options = (name) => [["", "all"], ...[...new Set(all.map((t) => t[name]))].map(kindName).sort().map((v) => [v, v])];
  const order = (name) => ["base", "warm_start"].indexOf(name) + (name === "final" ? 99 : 1) || 50;
  const measured = [...new Set(shown.flatMap((t) => Object.keys(t.evaluations)))].sort((a, b) => order(a) - order(b) || a.localeCompare(b, "en", { numeric: true }));
  // The first and the newest: a column for each of a hundred evaluations cannot be read.
  const evaluations = measured.length > MOST ? [...measured.slice(0, 3), ...measured.slice(3 - MOST)] : measured;
  const rate = (label, of) => ({ label, right: true, by: (t) => of(t)?.pass_at_1, cell: (t) => (of(t) ? h("span", { title: `95% ${interval(of(t))}, n=${of(t).n}, ${of(t).unscored} unscored` }, percent(of(t).pass_at_1)) : "–") });
  return [runHead(ctx, "Tasks", `${count(shown.length)} of ${count(all.length)}`), h("div.stack", null,
    h("div.form", null,
      h("input", { type: "search", placeholder: "Task name", value: p.get("text") ?? "", "aria-label": "Task name", onchange: (e) => set({ text: e.target.value }) }),
      choice("kind", kind, options("kind"), (v) => set({ kind: v })), choice("split", split, options("split"), (v) => set({ split: v }))),
    heatCard(ctx, past, new Set(shown.map((t) => t.task))),
    card("Every task", "click a heading to sort", table([
      { label: "task", by: (t) => t.task, cell: (t) => t.task, wrap: true, link: true },
      { label: "kind", by: (t) => t.kind, cell: (t) => t.kind || "–" },
      { label: "split", by: (t) => t.split, cell: (t) => t.split },
      { label: "groups", right: true, by: (t) => t.groups, cell: (t) => (t.groups ? count(t.groups) : "–") },
      rate("training", (t) => t.training),
      ...evaluations.map((e) => rate(words(e), (t) => t.evaluations[e])),
    ], shown.slice(0, 1000), { href: (t) => ctx.to("episodes", { task: t.task }) }),
    measured.length > MOST ? nothing(`${MOST} of ${count(measured.length)} evaluations: the first three and the newest; the JSON below has them all.`) : null,
    shown.length > 1000 ? nothing(`The first 1,000 of ${count(shown.length)}: narrow them above.`) : null))];
}

function heatCard(ctx, past, wanted) {
  const kept = past.tasks.map((t, i) => [t, i]).filter(([t]) => wanted.has(t.task)).sort(([a], [b]) => a.kind.localeCompare(b.kind) || a.task.localeCompare(b.task, "en", { numeric: true }));
  const drawn = kept.slice(0, ROWS);
  const place = new Map(drawn.map(([, i], row) => [i, row]));
  const asked = ctx.parameters.get("rows");
  const rowsAre = asked === "kind" || asked === "task" ? asked : kept.length > 40 ? "kind" : "task";
  const toggle = h("div.form", { css: { "margin-bottom": "10px" } }, ["kind", "task"].map((rows) => h("button", { type: "button", "aria-pressed": String(rowsAre === rows), onclick: () => ctx.go(ctx.here({ rows }), true) }, `by ${rows}`)));
  const part = rowsAre === "kind" ? summed(past, kept) : { steps: past.steps, tasks: drawn.map(([t]) => t), cells: past.cells.filter((c) => place.has(c[0])).map((c) => [place.get(c[0]), ...c.slice(1)]) };
  return card("Success over time", `share solved in training at each step: pale none, green all, grey unscored${rowsAre === "task" && kept.length > ROWS ? `; ${ROWS} of ${kept.length} tasks` : ""}`, toggle,
    heatMap(part, (row, step) => ctx.go(ctx.to("episodes", { [rowsAre]: row, step, purpose: "train" }))));
}

/** The same history with one row a kind. */
function summed(past, kept) {
  const kinds = [...new Set(kept.map(([t]) => t.kind))];
  const row = new Map(kept.map(([t, i]) => [i, kinds.indexOf(t.kind)]));
  const sums = new Map();
  for (const [task, step, solved, scored, unscored] of past.cells) {
    if (!row.has(task)) continue;
    const key = row.get(task) * past.steps.length + step;
    const sum = sums.get(key) ?? [row.get(task), step, 0, 0, 0];
    [solved, scored, unscored].forEach((n, i) => { sum[2 + i] += n; });
    sums.set(key, sum);
  }
  return { steps: past.steps, tasks: kinds.map((kind) => ({ task: kindName(kind) })), cells: [...sums.values()] };
}
