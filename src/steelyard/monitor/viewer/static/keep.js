// What a page keeps when it is drawn again: the focus, the marked row, open parts, inner scrolling,
// and the `look` of elements that have one, such as a table's order or a chart's zoom.

const FOCUSABLE = "a[href], button, input, select, summary";
const SCROLLED = ".scroll, .diff, .heat, .panel-sticky";

/** A part that is remembered: `look` is {get(), set(value)}, `kind` tells it from others. */
export function keeps(element, kind, look) {
  element.dataset.look = kind;
  element.look = look;
  return element;
}

/** Everything in `root` that is worth keeping; `exact` where it will show the same question. */
export function remember(root, exact) {
  const active = root.contains(document.activeElement) ? document.activeElement : null;
  const leaves = !exact && active?.matches("input"); // a search that was sent: j and k walk its rows
  return {
    looks: exact ? values(root, "details, [data-look]", lookName, getLook) : values(root, "[data-look=table]", lookName, getLook),
    scrolled: exact ? values(root, SCROLLED, (e) => e.className, (e) => [e.scrollLeft, e.scrollTop]) : new Map(),
    row: steady(root.querySelector("tr.at")?.dataset.href),
    focus: active && !leaves ? [...numbered(root, FOCUSABLE, focusName)].find(([, e]) => e === active)?.[0] : null,
    caret: active?.selectionStart ?? null,
  };
}

export function restore(root, kept) {
  const parts = numbered(root, "details, [data-look]", lookName);
  for (const [name, value] of kept.looks) if (parts.has(name)) setLook(parts.get(name), value);
  if (kept.row) [...root.querySelectorAll("tr[data-href]")].find((row) => steady(row.dataset.href) === kept.row)?.classList.add("at");
  const focused = kept.focus && numbered(root, FOCUSABLE, focusName).get(kept.focus);
  if (!focused) return;
  focused.focus({ preventScroll: true });
  if (focused.matches("input")) focused.setSelectionRange(kept.caret, kept.caret);
}

/** Apart from `restore`, because charts have no width before the first frame. */
export function scrollAgain(root, kept) {
  const parts = numbered(root, SCROLLED, (e) => e.className);
  for (const [name, [left, top]] of kept.scrolled) if (parts.has(name)) Object.assign(parts.get(name), { scrollLeft: left, scrollTop: top });
}

/** Puts `node` where the content of `holder` was, as it was looked at. */
export function swap(holder, node) {
  const kept = remember(holder, true);
  holder.replaceChildren(node);
  restore(holder, kept);
}

const lookName = (e) => e.dataset.look ?? `details ${e.querySelector("summary")?.textContent}`;
const getLook = (e) => (e.look ? e.look.get() : e.open);
function setLook(element, value) {
  if (element.look) element.look.set(value);
  else element.open = value;
}
const focusName = (e) => `${e.tagName} ${e.getAttribute("aria-label") ?? steady(e.getAttribute("href")) ?? e.textContent}`;
/** An address without the place in a list, which shifts as a live run goes on. */
const steady = (address) => address?.replace(/([?&])at=\d+/, "$1");

/** The elements by name, several of one name numbered in the order of the page. */
function numbered(root, selector, nameOf) {
  const [found, seen] = [new Map(), new Map()];
  for (const element of root.querySelectorAll(selector)) {
    const name = nameOf(element);
    seen.set(name, (seen.get(name) ?? 0) + 1);
    found.set(`${name} ${seen.get(name)}`, element);
  }
  return found;
}
function values(root, selector, nameOf, get) {
  return new Map([...numbered(root, selector, nameOf)].map(([name, element]) => [name, get(element)]));
}
