// Parts that several pages share: panels, tiles, tables, JSON, empty states, a timeline.

import { fill, h, icon } from "./dom.js";
import { Exact } from "./exact.js";
import { spark } from "./chart.js";

/** A panel with a head. */
export function panel(title, { note, tools, flush = false, id } = {}, ...children) {
  const head = h("header", h("h2", title), note && h("span.note", note), tools && h("div.tools", tools));
  return h("section.panel", { id, "aria-label": title }, head, h(flush ? "div.flush" : "div.body", children));
}

/** A number with its name, and a line below it. `set(value, more, lines)` changes it. */
export function tile(label, colour, unit) {
  const value = h("span", "–");
  const more = h("div.more");
  const line = h("div");
  const box = h(
    "div.tile",
    h("div.label", colour && h("i", { style: { background: `var(--${colour})` } }), label),
    h("div.value", value, unit && h("small", unit)),
    more,
    line,
  );
  const set = (text, detail, lines) => {
    value.textContent = text;
    if (detail !== undefined) fill(more, detail);
    if (lines) fill(line, spark(lines, { width: 160, height: 26 }));
  };
  return { box, set };
}

export function chip(text, kind = "") {
  return h("span.chip", { class: kind }, text);
}

/**
 * A table. `columns`: [{label, cell(row), right, kind}]; `onrow` makes rows links: `href(row)` or `pick(row)`.
 */
export function table(columns, rows, { href, pick, picked, label } = {}) {
  const head = h("tr", columns.map((column) => h("th", { scope: "col", class: column.right ? "right" : "" }, column.label)));
  const body = rows.map((row) => {
    const line = h(
      "tr",
      { class: href || pick ? "link" : "", "aria-selected": picked ? String(picked(row)) : undefined },
      columns.map((column) => h("td", { class: [column.right ? "right" : "", column.kind ?? ""].join(" ") }, column.cell(row))),
    );
    if (href) line.addEventListener("click", (event) => event.target.closest("a, button, input") || (location.hash = href(row)));
    if (pick) line.addEventListener("click", (event) => event.target.closest("a, button, input") || pick(row));
    return line;
  });
  return h("div.scroll-x", { tabindex: "0", role: "region", "aria-label": label ?? "Table" }, h("table.table", h("thead", head), h("tbody", body)));
}

/** The part of a row that is its name: a link that keyboards reach. */
export function cellLink(text, href) {
  return h("a.cell", { href, title: text }, text);
}

/** The same for what opens beside the list. */
export function cellButton(text, work, row, title = text) {
  return h("button.th.strong", { type: "button", onclick: work, title, "data-row": row }, text);
}

/** Nothing is here, and what to do about it. */
export function empty(title, text, command) {
  return h("div.empty", h("h3", title), h("p", text), command && h("pre.code", { tabindex: "0" }, command));
}

export function loading() {
  return h("div.loading", { role: "status" }, "Loading…");
}

/** JSON that folds. What is deep or long is folded at first. */
export function json(value, open = 2) {
  return h("div.json", { tabindex: "0", role: "group", "aria-label": "Payload" }, node(value, null, open));
}

function node(value, key, open) {
  const name = key === null ? null : h("span.key", `${key}: `);
  if (value === null || typeof value !== "object" || value instanceof Exact) return h("div.leaf", name, leaf(value));
  const entries = Object.entries(value);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return h("div.leaf", name, `${left}${right}`);
  const fold = h("details", { open: open > 0 && entries.length <= 50 });
  fold.append(h("summary", name, left, h("span.fold", ` ${entries.length} ${right}`)));
  // What is folded is made when it is opened: payloads may be large.
  const make = () => {
    if (fold.childElementCount > 1) return;
    const inside = entries.map(([inner, each]) => node(each, Array.isArray(value) ? Number(inner) : inner, open - 1));
    fold.append(h("div.in", inside), h("div.leaf", right));
  };
  if (fold.open) make();
  fold.addEventListener("toggle", make);
  return fold;
}

function leaf(value) {
  if (typeof value === "string") return h("span.text", JSON.stringify(value));
  if (typeof value === "number") return h("span.number", String(value));
  if (value instanceof Exact) return h("span.number", value.text);
  return h("span.word", String(value));
}

/** Names and values. */
export function facts(pairs) {
  return h("dl.facts", pairs.filter(Boolean).map(([name, value]) => [h("dt", name), h("dd", value ?? "–")]));
}

/** Choose one of a few. `choices`: [[value, label]]. */
export function switcher(label, choices, now, choose) {
  const buttons = choices.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === now), onclick: () => { press(value); choose(value); } }, text),
  );
  const press = (value) => buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(choices[n][0] === value)));
  return h("div.switcher", { role: "group", "aria-label": label }, buttons);
}

/** A labelled field. */
export function field(label, input, note) {
  return h("label.field", h("span", label), input, note && h("small", note));
}

export function input(props = {}) {
  return h("input.input", { type: "text", autocomplete: "off", spellcheck: "false", ...props });
}

export function select(choices, props = {}) {
  const box = h("select.input", props, choices.map(([value, text]) => h("option", { value }, text)));
  if (props.value !== undefined) box.value = props.value;
  return box;
}

export function button(label, work, { kind = "", ...props } = {}) {
  return h("button.button", { type: "button", class: kind, onclick: work, ...props }, label);
}

export function closeButton(work) {
  return h("button.icon-button", { type: "button", "aria-label": "Close", title: "Close   Esc", "data-close": true, onclick: work }, icon("close"));
}

/** The head of a page. */
export function pageHead(title, { sub, crumbs, tools } = {}) {
  return h(
    "div.head",
    h("div.title", crumbs && h("nav.crumbs", { "aria-label": "Breadcrumb" }, crumbs), h("h1", title), sub && h("div.sub", sub)),
    tools && h("div.tools", tools),
  );
}
