// Elements from functions. Everything that comes from outside becomes text, never markup.

/** `h("div.panel", {onclick}, "text", child, [more])`. Null, false and undefined children are left out. */
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  if (rest.length && isProps(rest[0])) assign(element, rest.shift());
  add(element, rest);
  return element;
}

function isProps(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Node);
}

function assign(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className += ` ${value}`;
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Put these in the place of everything in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** An element of SVG. */
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const ICONS = {
  overview: "M2.5 13.5h11M4 11V8M8 11V3.5M12 11V6",
  queues: "M2.5 4h11M2.5 8h11M2.5 12h7",
  messages: "M2.5 3.5h11v8h-6l-3 2.5v-2.5h-2z",
  letters: "M2.5 4h11v8.5h-11zM2.5 4.5l5.5 4 5.5-4",
  groups: "M5.5 7.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM2 13c.2-2.2 1.6-3.5 3.5-3.5S8.800 10.800 9 13M11 8a1.700 1.700 0 1 0 0-3.400M11 9.800c1.700 0 2.800 1.200 3 3.200",
  waiting: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 4.500V8l2.500 1.500",
  cluster: "M3 3h10v4H3zM3 9h10v4H3zM5.500 5h.01M5.500 11h.01",
  traces: "M3 3v6.500a2 2 0 0 0 2 2h3M3 6h5M11 4.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3zM11 10a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3z",
  light: "M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M3.400 12.600l.9-.9M11.700 4.300l.9-.9",
  dark: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500z",
  auto: "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11",
  help: "M6 6.200a2 2 0 1 1 2.700 1.900c-.5.2-.7.600-.7 1.100v.3M8 11.800h.01M8 14.200a6.200 6.200 0 1 0 0-12.400 6.200 6.200 0 0 0 0 12.400z",
  close: "M4 4l8 8M12 4l-8 8",
  out: "M6.500 3H3.500v10h3M7 8h6.500M11 5.500 13.500 8 11 10.500",
};

/** A small drawing that says nothing a word beside it does not say. */
export function icon(name) {
  const path = svg("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": "1.4", "stroke-linecap": "round", "stroke-linejoin": "round" });
  return svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

/** Call at most once per frame. */
export function onceAFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
