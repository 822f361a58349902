// Builds elements. Every string becomes a text node, whatever it holds: nothing here parses HTML.

// What would steer a terminal, reorder text or hide in it: C0 and C1 controls (but tab and line
// feed), characters without width, variation selectors, bidirectional marks and overrides, tags.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
  "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]", "gu");

const SHORT = new Map([[0x00, "NUL"], [0x07, "BEL"], [0x08, "BS"], [0x0d, "CR"], [0x1b, "ESC"], [0x7f, "DEL"]]);

function nameOf(character) {
  const code = character.codePointAt(0);
  if (SHORT.has(code)) return SHORT.get(code);
  return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

/** `text` as one plain string in which hidden characters are spelled out. */
export function plain(text) {
  return String(text).replace(HIDDEN, (c) => `⟨${nameOf(c)}⟩`);
}

/** `text` as nodes in which hidden characters are spelled out and marked. */
export function visible(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    const mark = document.createElement("span");
    mark.className = "hidden-char";
    mark.textContent = nameOf(match[0]);
    nodes.push(mark);
    from = match.index + match[0].length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/** h("a.name", {href, onclick, css: {width: "3px"}}, children…); null and false are left out. */
export function h(spec, properties, ...children) {
  const [tag, ...classes] = spec.split(".");
  return fill(document.createElement(tag), classes, properties, children);
}

/** The same for SVG. */
export function svg(spec, properties, ...children) {
  const [tag, ...classes] = spec.split(".");
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), classes, properties, children);
}

function fill(element, classes, properties, children) {
  for (const name of classes) if (name) element.classList.add(name);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (name === "value") element["defaultValue" in element ? "defaultValue" : "value"] = value;
    else element.setAttribute(name, value === true ? "" : plain(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else element.append(...visible(String(child)));
  }
}

/** Preformatted text of the policy or of a tool, in its own direction. */
export function block(text) {
  return h("pre.text", null, text);
}
