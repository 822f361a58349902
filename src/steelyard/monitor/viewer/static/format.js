// Numbers for people. A missing number is a dash, never a zero.
import { h } from "./dom.js";

const DASH = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const known = (v) => typeof v === "number" && Number.isFinite(v);

export const count = (v) => (known(v) ? whole.format(v) : DASH);
export const compact = (v) => (known(v) ? (Math.abs(v) < 10000 ? number(v) : short.format(v)) : DASH);
export const percent = (v, digits = 0) => (known(v) ? `${(100 * v).toFixed(digits)}%` : DASH);
export function number(v, digits = 3) {
  if (!known(v)) return DASH;
  if (v === 0 || Number.isInteger(v)) return whole.format(v);
  if (Math.abs(v) >= 1000) return whole.format(v);
  return Math.abs(v) < 1e-3 ? v.toExponential(1) : String(Number(v.toPrecision(digits)));
}
export function signed(v) { return known(v) ? (v > 0 ? "+" : v < 0 ? "−" : "") + number(Math.abs(v)) : DASH; }
export function duration(seconds) {
  if (!known(seconds)) return DASH;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
export function interval(rate) {
  return rate && known(rate.low) && known(rate.high)
    ? `${(100 * rate.low).toFixed(0)}–${percent(rate.high)}` : DASH;
}
/** A task may have no kind; the word stands for it in filters too. */
export const kindName = (kind) => kind || "(none)";
export const words = (name) => String(name).replaceAll("_", " ");
export function moment(seconds) {
  return known(seconds) ? new Date(1000 * seconds).toLocaleString() : DASH;
}
/** The base model's evaluation is recorded as step −1. */
export const stepName = (step) => (step === null || step === undefined ? DASH : step < 0 ? "base" : whole.format(step));

/** Of a group: its name and look. */
const GROUP_VERDICTS = { mixed: ["mixed", "mixed"], all_pass: ["all pass", "good"], all_fail: ["all fail", "bad"],
  unscored: ["unscored", ""] };
export const VERDICTS = Object.keys(GROUP_VERDICTS);
export const verdictName = (v) => GROUP_VERDICTS[v][0];
export const verdictPill = (v) => h(`span.pill.${GROUP_VERDICTS[v][1]}`, null, verdictName(v));

/** How an episode ended, in one pill. */
export function outcomePill(e) {
  if (e.cause !== null) return h("span.pill", { title: e.cause_detail }, `unscored: ${words(e.cause)}`);
  if (e.solved === true) return h("span.pill.good", null, "solved");
  if (e.solved === null) return h("span.pill", { title: words(e.heldout_cause ?? "") }, "held-out unknown");
  if (e.raw >= 1) return h("span.pill.bad", null, "fails held-out");
  return h("span.pill.bad", null, e.stop_reason === "submitted" ? "wrong" : words(e.stop_reason));
}
export function statePill(state) {
  const look = { running: "accent.live", finished: "good", failed: "bad", killed: "bad", unreadable: "bad" };
  return h(`span.pill.${look[state] ?? ""}`, null, state);
}
/** One mark per reward: filled circle, half square, empty square, dashed for unscored. */
export function rewardDots(rewards) {
  return h("span.dots", null, rewards.map((r) =>
    h(`span.dot.${r === null ? "none" : r >= 1 ? "full" : r > 0 ? "part" : "zero"}`,
      { title: r === null ? "unscored" : `reward ${number(r)}` })));
}
