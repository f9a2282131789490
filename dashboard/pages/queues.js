// All queues: found by name, sorted by any number, with the last minute of each. Holds with tens of thousands: the server
// sorts, pages are fetched as they come into view, and only what is in view is drawn.

import { get } from "../api.js";
import { listen, rates } from "../live.js";
import { fill, h, onceAFrame } from "../components/dom.js";
import { ago, count, plural, rate } from "../components/format.js";
import { spark } from "../components/chart.js";
import { chip, empty, input, pageHead } from "../components/parts.js";
import { pushDialog } from "../components/push.js";
import { FIRST } from "./overview.js";

export const title = "Queues";

const PAGE = 100;
const ROW = 44;
const AHEAD = 6;
const REFRESH = 5000;
const HEADS = [["name", "Queue"], [null, "Last minute"], [null, "In /s", 1], [null, "Out /s", 1], ["pending", "Pending", 1], ["processing", "In hand", 1], ["deadLetter", "Dead", 1], ["partitions", "Lanes", 1], ["created", "Created", 1]];

/** What a small screen shows as well. */
const ALWAYS = ["Queue", "Last minute", "Pending"];

export async function show(root, { query }) {
  let [sort, order, search] = [query.get("sort") ?? "name", query.get("order") ?? "", query.get("search") ?? ""];
  let [total, pages, asked, generation] = [0, new Map(), new Set(), 0];

  const filter = input({ type: "search", placeholder: "Filter by name   /", value: search, "aria-label": "Filter queues by name", "data-filter": true, "data-test": "filter", style: { width: "260px" } });
  const sub = h("span");
  const heads = h("div.vhead", { role: "row" });
  const space = h("div.vspace");
  const list = h("div.vlist", { tabindex: "0", role: "table", "aria-label": "Queues" }, heads, space);
  const panel = h("section.panel", { "aria-label": "Queues" }, list);
  fill(root, pageHead("Queues", { sub, tools: [filter, h("button.button.primary", { type: "button", "data-test": "push", onclick: () => pushDialog() }, "Push a message")] }), panel);

  function drawHeads() {
    fill(
      heads,
      HEADS.map(([key, label, right]) => {
        const on = key === sort;
        const down = order ? order === "desc" : key !== "name";
        const inner = key ? h("button.th", { type: "button", "data-on": on, "data-sort": key, onclick: () => choose(key) }, label, on && (down ? " ↓" : " ↑")) : label;
        const sorted = on ? (down ? "descending" : "ascending") : undefined;
        return h("div", { role: "columnheader", class: `${right ? "right" : ""} ${ALWAYS.includes(label) ? "" : "spare"}`, "aria-sort": sorted }, inner);
      }),
    );
  }

  function choose(key) {
    if (key === sort) order = (order ? order === "desc" : key !== "name") ? "asc" : "desc";
    else [sort, order] = [key, ""];
    drawHeads();
    again();
  }

  async function again() {
    generation++;
    [pages, asked] = [new Map(), new Set()];
    list.scrollTop = 0;
    const shown = new URLSearchParams(Object.entries({ sort, order, search }).filter(([, value]) => value));
    history.replaceState(null, "", `#/queues?${shown}`);
    await fetchPage(0);
  }

  async function fetchPage(number) {
    if (asked.has(number)) return;
    asked.add(number);
    const mine = generation;
    const answer = await get("/api/v1/resources/queues", { limit: PAGE, offset: number * PAGE, sort, order, search });
    if (mine !== generation) return;
    total = answer.total;
    pages.set(number, answer.queues);
    draw();
  }

  const draw = onceAFrame(() => {
    sub.textContent = search ? `${plural(total, "queue")} with “${search}” in the name` : plural(total, "queue");
    if (!total && pages.has(0)) {
      const nothing = search ? empty("No queue has this in its name", "The filter looks anywhere in the name, in any case.") : empty("No queues yet", "A queue is made by the first push to it. Try this:", FIRST);
      return fill(panel, nothing);
    }
    if (!list.isConnected) fill(panel, list);
    list.style.height = `min(100vh - 190px, ${total * ROW + 36}px)`;
    space.style.height = `${total * ROW}px`;
    const top = Math.max(0, Math.floor((list.scrollTop - 34) / ROW) - AHEAD);
    const end = Math.min(total, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + AHEAD);
    const rows = [];
    for (let at = top; at < end; at++) {
      const page = Math.floor(at / PAGE);
      const queue = pages.get(page)?.[at % PAGE];
      if (queue) rows.push(row(queue, at));
      else fetchPage(page).catch(() => asked.delete(page));
    }
    const held = document.activeElement?.dataset?.queue;
    fill(space, rows);
    if (held) rows.find((each) => each.dataset.queue === held)?.focus({ preventScroll: true });
  });

  const search1 = () => {
    search = filter.value.trim();
    again().catch(() => {});
  };
  let typing = 0;
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search1, 180);
  });
  list.addEventListener("scroll", draw);

  // What is in view is asked for again; the rest when it comes into view.
  const refresh = async () => {
    if (document.hidden) return;
    const first = Math.floor(list.scrollTop / ROW / PAGE);
    const last = Math.floor((list.scrollTop + list.clientHeight) / ROW / PAGE);
    asked = new Set();
    for (const page of pages.keys()) if (page < first || page > last) pages.delete(page);
    for (let page = first; page <= last; page++) await fetchPage(page);
  };
  const timer = setInterval(() => refresh().catch(() => {}), REFRESH);
  const stop = listen("queues", draw);
  drawHeads();
  await again();
  return () => {
    clearInterval(timer);
    clearTimeout(typing);
    stop();
  };
}

function row(queue, at) {
  const kept = rates(queue.name);
  const now = (list) => list.slice(-3).reduce((a, b) => a + b, 0) / 3;
  const [into, out] = [now(kept.push), now(kept.pop)];
  const chips = [queue.paused && chip("paused", "warn"), kept.waiting > 0 && chip(`${count(kept.waiting)} waiting`)];
  const label = [queue.namespace, queue.task].filter((name) => name && name !== queue.name).join(" / ");
  const cell = (text, kind = "") => h("div.right", { role: "cell", class: kind }, text);
  const line = h(
    "a.vrow",
    { href: `#/queues/${encodeURIComponent(queue.name)}`, "data-queue": queue.name, role: "row", style: { top: `${at * ROW}px` } },
    h("div.name.cut", { role: "cell", title: queue.name }, queue.name, label && h("small", label), " ", chips),
    h("div", { role: "cell" }, spark([{ values: kept.push, colour: "push" }, { values: kept.pop, colour: "deliver" }])),
    cell(rate(into), into ? "spare" : "spare dim"),
    cell(rate(out), out ? "spare" : "spare dim"),
    cell(count(queue.messages.pending), queue.messages.pending ? "strong" : "dim"),
    cell(count(queue.messages.processing), queue.messages.processing ? "spare" : "spare dim"),
    cell(count(queue.messages.deadLetter), queue.messages.deadLetter ? "spare bad" : "spare dim"),
    cell(count(queue.partitions), "spare"),
    cell(ago(queue.createdAt), "spare dim"),
  );
  return line;
}
