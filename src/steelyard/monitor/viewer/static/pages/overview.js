// The run at a glance: two curves that should agree, what it cost, and where the time went.
import { h } from "../dom.js";
import { columns, lines, shareBar } from "../charts.js";
import { compact, count, duration, interval, kindName, percent, statePill, VERDICTS, verdictName, words } from "../format.js";
import { swap } from "../keep.js";
import { card, head } from "./parts.js";

const STAGES = [["base", "Base model"], ["warm_start", "After warm start"], ["final", "After RL"]];
const PATIENCE_MS = 150;
const LONG_RUN = 20_000; // episodes whose checks are read for longer than that

export async function overview(ctx) {
  const [summary, { alarms }] = await Promise.all([ctx.get("summary"), ctx.get("alarms")]);
  // It reads every check: on a long run it comes after the page, which does without if it must.
  const slow = ctx.get("signals").catch((error) => console.info(error.message));
  const patience = new Promise((go) => setTimeout(go, PATIENCE_MS, null));
  const early = summary.cost.episodes.training > LONG_RUN ? null : await Promise.race([slow, patience]);
  const later = (draw) => {
    const holder = h("div", null, draw(early));
    if (!early) slow.then((signals) => signals && swap(holder, draw(signals)));
    return holder;
  };
  const { steps } = summary;
  return [
    head(summary.name, `${summary.model} · ${new Date(summary.created).toLocaleString()}`, statePill(summary.state)),
    h("div.stack", null,
      alarms.length ? alarmCard(ctx, alarms) : null,
      card(null, null, stats(summary)),
      later((signals) => mainPanel(curvesOf(summary, signals), alarms)),
      h("div.row", null,
        card("Entropy", "nats per token", lines([{ label: "entropy", colour: "training", points: steps.map((s) => [s.step, s.entropy]) }], { height: 150, fromZero: true })),
        later((signals) => costCard(signals, steps)),
        card("Throughput", "tokens per second", lines([
          { label: "sampling", colour: "other", points: steps.map((s) => [s.step, s.tokens_per_second.sampling]) },
          { label: "training", colour: "training", points: steps.map((s) => [s.step, s.tokens_per_second.training]) }], { height: 150, fromZero: true, show: compact })),
        card("Waiting", "seconds of a step without work", lines([
          { label: "engine", colour: "other", points: steps.map((s) => [s.step, s.waiting_seconds.engine]) },
          { label: "learner", colour: "training", points: steps.map((s) => [s.step, s.waiting_seconds.learner]) }], { height: 150, fromZero: true, show: compact }))),
      h("div.row.wide", null,
        card("Groups", `${summary.groups_with_signal} of ${summary.groups} carried a gradient`,
          columns(VERDICTS, steps.map((s) => ({ x: s.step, values: s.groups })), { name: verdictName, look: VERDICTS, label: "groups per step by verdict" })),
        card("Time", "seconds per step", timeColumns(steps))),
      h("div.row.wide", null, endings(ctx, summary.outcomes), kinds(ctx, summary))),
  ];
}

function curvesOf(summary, signals) {
  const unseen = summary.unseen.map((e) => ({ ...e, step: Math.max(0, e.step) }));
  if (signals?.steps?.length) {
    return {
      training: signals.steps.map((s) => [s.step, s.training]),
      heldout: signals.steps.map((s) => [s.step, s.heldout]),
      gap: signals.steps.map((s) => [s.step, s.gap]),
      unseen,
    };
  }
  return {
    training: summary.steps.map((s) => [s.step, s.reward_mean]),
    heldout: summary.steps.map((s) => [s.step, s.paired.heldout]),
    gap: summary.steps.map((s) => [s.step, s.paired.n ? s.paired.training - s.paired.heldout : null]),
    unseen,
  };
}

function mainPanel(curves, alarms) {
  const evaluations = curves.unseen;
  const series = [
    { label: "training reward", colour: "training", points: curves.training, width: 4 },
    { label: "held-out checks, same episodes", colour: "heldout", points: curves.heldout },
    { label: "unseen tasks (dev)", colour: "unseen", points: evaluations.map((e) => [e.step, e.pass_at_1]), dots: true, dash: true,
      low: evaluations.map((e) => [e.step, e.low]), high: evaluations.map((e) => [e.step, e.high]) },
  ];
  const latest = [...curves.gap].reverse().find(([, y]) => y !== null);
  return card("Does the reward mean what it says?",
    !latest ? "training reward against independent checks"
      : `training reward against independent checks; the gap is ${(100 * latest[1]).toFixed(0)} points at step ${latest[0]}`,
    lines(series, { height: 300, range: [0, 1.02], show: (v) => percent(v), shade: [0, 1],
      marks: alarms.filter((a) => a.step !== null).map((a) => ({ x: a.step, label: words(a.name) })) }));
}

function stats(summary) {
  const { cost } = summary;
  const stages = STAGES.filter(([name]) => summary[name]).map(([name, label]) => {
    const s = summary[name];
    return stat(`${label}, ${s.split}`, percent(s.pass_at_1), `${interval(s)} · n=${count(s.n)}${s.unscored ? ` · ${s.unscored} unscored` : ""}`);
  });
  return h("dl.stats", null, stages,
    stat("Steps", count(summary.steps.length), `${count(summary.checkpoints.length)} ${summary.checkpoints.length === 1 ? "checkpoint" : "checkpoints"}`),
    stat("Episodes", compact(cost.episodes.training), `and ${compact(cost.episodes.evaluation)} evaluating`),
    stat("Tokens sampled", compact(cost.tokens_sampled.training), `and ${compact(cost.tokens_sampled.evaluation)} evaluating`),
    stat("Time", duration(cost.seconds_total), cost.peak_memory_bytes ? `peak ${(cost.peak_memory_bytes / 2 ** 30).toFixed(1)} GiB` : ""));
}
const stat = (name, value, note) => h("div.stat", null, h("dt", null, name), h("dd", null, value, note ? h("small", null, note) : null));

function alarmCard(ctx, alarms) {
  const latest = alarms.at(-1);
  return h("section.card.alarm-item", null, h("header", null, h("h2", null, h("a", { href: ctx.to("alarms") }, `${alarms.length} ${alarms.length === 1 ? "alarm" : "alarms"}`))),
    h("p", null, latest.step === null ? "" : `Step ${latest.step}: `, latest.text));
}

function costCard(signals, steps) {
  const costs = signals?.steps ?? [];
  const names = { calls: "calls", call_errors: "calls with errors", repeated: "repeated calls", regressions: "checks broken, share" };
  const colours = ["training", "heldout", "other", "alarm"];
  if (costs.length) {
    return card("Cost and failure", "per training episode", lines(Object.entries(names).map(([name, label], i) => ({ label, colour: colours[i],
      points: costs.map((s) => [s.step, s.cost[name]]) })), { height: 150, fromZero: true }));
  }
  return card("Step time", "seconds", lines([{ label: "seconds", colour: "other", points: steps.map((s) => [s.step, s.seconds_total]) }], { height: 150, fromZero: true, show: compact }));
}

function timeColumns(steps) {
  const within = new Set(["grading", "engine"]); // these pass while the step samples
  const parts = [...new Set(steps.flatMap((s) => Object.keys(s.seconds)))].filter((p) => !within.has(p)).sort();
  return columns(parts, steps.map((s) => ({ x: s.step, values: s.seconds })), { name: words, show: compact, label: "seconds per step by part" });
}

const LOOKS = { solved: "p1", wrong: "p2" };
function endings(ctx, outcomes) {
  const rows = Object.entries(outcomes).filter(([, counts]) => Object.keys(counts).length);
  const kinds = [...new Set(rows.flatMap(([, counts]) => Object.keys(counts)))];
  const look = (kind) => LOOKS[kind] ?? ["p0", "p4", "p5", "p6", "p3", "p7"][kinds.filter((k) => !LOOKS[k]).indexOf(kind) % 6];
  return card("How episodes ended", h("a", { href: ctx.to("outcomes") }, "by outcome"), h("div.stack", null,
    rows.map(([where, counts]) => h("div", null, h("h3", null, where === "heldout" ? "by held-out checks" : where), shareBar(kinds.map((k) => ({ name: words(k), n: counts[k] ?? 0, look: look(k) }))),
      h("div.key", null, kinds.filter((k) => counts[k]).map((k) => h("span.num", null, h(`i.${look(k)}`), `${words(k)} ${count(counts[k])}`)))))));
}

function kinds(ctx, summary) {
  const stage = ["final", "warm_start", "base"].find((s) => summary[s]);
  if (!stage) return null;
  const rows = Object.entries(summary[stage].by_kind).sort((a, b) => (b[1].pass_at_1 ?? -1) - (a[1].pass_at_1 ?? -1));
  return card("By kind of task", `pass@1 of the evaluation ${words(stage)}`, h("table", null, h("tbody", null, rows.map(([kind, rate]) => h("tr", null,
    h("td", null, h("a", { href: ctx.to("episodes", { kind: kindName(kind), evaluation: stage, split: summary[stage].split }) }, kindName(kind))),
    h("td", { css: { width: "46%" } }, rate.pass_at_1 === null ? null : h("div.bar", null, h("span.p1", { css: { width: percent(rate.pass_at_1) } }))),
    h("td.right", null, percent(rate.pass_at_1)), h("td.right.faint", null, `${interval(rate)} n=${rate.n}`))))),
    Object.entries(summary.kinds_at_zero).map(([kind, found]) => h("p", null, h("b", null, `${kindName(kind)} stays at 0: `), found.cause)));
}
