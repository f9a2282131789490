// Where it begins: which page is shown, which keys are heard, and whether somebody must sign in first.

import { get, token } from "./api.js";
import { follow, stop, whenRefused } from "./live.js";
import { fill, h } from "./components/dom.js";
import { help, toast } from "./components/overlay.js";
import { empty, loading } from "./components/parts.js";
import { nextTheme, shell } from "./components/shell.js";

// A page is a module with `show(root, context)`, which answers how to leave it, and `topics` it listens to.
const PAGES = [
  [/^\/$/, "overview", () => import("./pages/overview.js")],
  [/^\/queues$/, "queues", () => import("./pages/queues.js")],
  [/^\/queues\/([^/]+)$/, "queues", () => import("./pages/queue.js")],
  [/^\/messages$/, "messages", () => import("./pages/messages.js")],
  [/^\/dead-letters$/, "letters", () => import("./pages/letters.js")],
  [/^\/groups$/, "groups", () => import("./pages/groups.js")],
  [/^\/groups\/([^/]+)$/, "groups", () => import("./pages/group.js")],
  [/^\/waiting$/, "waiting", () => import("./pages/waiting.js")],
  [/^\/cluster$/, "cluster", () => import("./pages/cluster.js")],
  [/^\/traces$/, "traces", () => import("./pages/traces.js")],
];

const GOES = { o: "#/", q: "#/queues", m: "#/messages", d: "#/dead-letters", c: "#/groups", w: "#/waiting", s: "#/cluster", t: "#/traces" };

const root = document.getElementById("app");
let frame = null;
let leavePage = () => {};
let turn = 0;

async function route() {
  const mine = ++turn;
  const [path, search = ""] = (location.hash.slice(1) || "/").split("?");
  const query = new URLSearchParams(search);
  const found = PAGES.find(([pattern]) => pattern.test(path));
  if (!found) return (location.hash = "#/");
  const [pattern, name, load] = found;
  const parts = pattern.exec(path).slice(1).map(decodeURIComponent);
  frame.mark(name);
  const page = await load();
  if (mine !== turn) return;
  leavePage();
  leavePage = () => {};
  document.querySelectorAll("dialog[open]").forEach((open) => open.close());
  window.scrollTo(0, 0);
  follow(["totals", "queues", ...(page.topics ?? [])]);
  const place = fill(frame.main, h("div"));
  document.title = `${page.title ?? "Bugle"} · Bugle`;
  try {
    fill(place.firstChild, loading());
    const leave = await page.show(place.firstChild, { parts, query });
    if (mine === turn) leavePage = leave ?? leavePage;
    else leave?.();
    performance.mark("bugle-ready");
  } catch (error) {
    if (error.status === 401 || mine !== turn) return;
    fill(place.firstChild, empty("This page could not be shown", error.message));
  }
}

async function signIn(reason) {
  turn++;
  stop();
  leavePage();
  leavePage = () => {};
  frame = null;
  const { login } = await import("./pages/login.js");
  login(root, reason, start);
}

function signOut() {
  token.set(null);
  signIn();
}

function start() {
  frame = shell(root, signOut);
  whenRefused(() => {
    if (!frame) return;
    const known = token.get();
    token.set(null);
    signIn(known ? "The credentials are not accepted any more." : undefined);
  });
  get("/health").then(
    (health) => frame?.setVersion(`v${health.version}`),
    () => {},
  );
  route();
}

let first = null;
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || !frame) return;
  if (event.key === "Escape") {
    // What is open beside a list; else the field that is typed in is left.
    const close = document.querySelector("[data-close]");
    close ? close.click() : typing?.blur();
  }
  if (typing) return;
  if (first === "g" && GOES[event.key]) {
    location.hash = GOES[event.key];
  } else if (event.key === "/") {
    const filter = document.querySelector("[data-filter]");
    if (filter) {
      event.preventDefault();
      filter.focus();
      filter.select?.();
    }
  } else if (event.key === "?") {
    help();
  } else if (event.key === "t" && first !== "g") {
    nextTheme();
  }
  first = event.key === "g" ? "g" : null;
});

addEventListener("hashchange", () => frame && route());
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  if (event.reason?.status !== 401 && event.reason?.name !== "AbortError") toast(event.reason?.message ?? "Something went wrong", true);
});

start();
