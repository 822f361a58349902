// Tables that sort, in the page or by asking the server, and the pager below them.
import { h } from "./dom.js";
import { count } from "./format.js";
import { keeps } from "./keep.js";

/**
 * columns: [{label, cell(row) → node or text, by(row) → sort value, right, wrap, server: sort key}]
 * options: {sort: {column, descending}, href(row), order, onOrder(key)}; with `onOrder` the server
 * sorts, and `order` is its present key, with a leading minus where descending.
 */
export function table(columns, rows, options = {}) {
  let sorted = options.sort ?? null; // by the page itself
  const body = h("tbody");
  const heads = columns.map((column, index) => {
    const able = options.onOrder ? column.server : column.by;
    const label = able ? h("button.plain", { type: "button", onclick: () => choose(index) }, column.label) : column.label;
    return h(`th${column.right ? ".right" : ""}`, { scope: "col" }, label);
  });

  function choose(index) {
    const column = columns[index];
    if (options.onOrder) {
      options.onOrder(options.order === column.server ? `-${column.server}` : column.server);
      return;
    }
    sorted = { column: index, descending: sorted?.column === index ? !sorted.descending : Boolean(column.right) };
    draw();
  }
  function draw() {
    heads.forEach((head, index) => {
      const server = options.onOrder && columns[index].server;
      const down = options.onOrder ? options.order === `-${server}` : sorted?.descending;
      const active = options.onOrder ? server && (down || options.order === server) : sorted?.column === index;
      if (active) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const shown = sorted && !options.onOrder ? [...rows].sort(comparing(columns[sorted.column].by, sorted.descending)) : rows;
    body.replaceChildren(...shown.map((row) => line(columns, row, options)));
  }
  draw();
  const element = h("table", null, h("thead", null, h("tr", null, heads)), body);
  keeps(element, "table", {
    get: () => sorted && { label: columns[sorted.column].label, descending: sorted.descending },
    set(look) { // other columns may stand there by now
      const column = columns.findIndex((c) => c.by && c.label === look?.label);
      if (options.onOrder || column < 0) return;
      sorted = { column, descending: look.descending };
      draw();
    },
  });
  return h("div.scroll", null, element);
}

function line(columns, row, options) {
  const href = options.href?.(row);
  const tr = h(`tr${href ? ".go" : ""}`, { "data-href": href });
  for (const column of columns) {
    let content = column.cell(row);
    if (href && column.link) content = h("a", { href }, content);
    tr.append(h(`td${column.right ? ".right" : ""}${column.wrap ? ".wrap" : ""}`, null, content));
  }
  return tr;
}

/** Missing values come last, whichever way. */
function comparing(by, descending) {
  return (a, b) => {
    const [x, y] = [by(a), by(b)];
    const [noX, noY] = [x === null || x === undefined, y === null || y === undefined];
    if (noX || noY) return noX - noY;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return descending ? -order : order;
  };
}

/** "51–100 of 2,310" with buttons; `go(offset)` turns the page. */
export function pager(offset, limit, total, go) {
  if (total <= limit && offset === 0) return null;
  const last = Math.min(offset + limit, total);
  // An old address may lie beyond the end: then Previous leads to the last page.
  const previous = Math.max(0, Math.min(offset - limit, limit * Math.floor((total - 1) / limit)));
  const shown = offset < total ? `${count(offset + 1)}–${count(last)}` : "none";
  return h("div.pager", null,
    h("button", { type: "button", disabled: offset === 0, onclick: () => go(previous) }, "← Previous"),
    h("span.num", null, `${shown} of ${count(total)}`),
    h("button", { type: "button", disabled: last >= total, onclick: () => go(offset + limit) }, "Next →"));
}
