// The waiting room: the live picture of long polling. Who waits for what and since when, what woke those who were served,
// which groups are looked at less often, and how well pops are gathered.

import { listen, seen } from "../live.js";
import { fill, h, onceAFrame } from "../components/dom.js";
import { clock, count, groupName, millis, plural, rate, seconds } from "../components/format.js";
import { timeChart } from "../components/chart.js";
import { chip, empty, facts, loading, pageHead, panel, table, tile } from "../components/parts.js";

export const title = "Waiting room";
export const topics = ["waiting"];

const SOURCES = {
  local: "something on this server",
  notify: "another server, by PostgreSQL",
  udp: "another server, by UDP",
  timer: "a delay or lease that ended",
  floor: "the floor, which looks by itself",
};
const KINDS = { local: "good", notify: "good", udp: "good", timer: "", floor: "warn" };

export async function show(root) {
  const tiles = { waiting: tile("Waiting now"), keys: tile("Things waited for"), wakes: tile("Wakes", null, "/s"), latency: tile("Wake to answer p99"), batch: tile("Pops per store call"), backoff: tile("Backed off") };
  const chart = timeChart({ label: "Consumers waiting", height: 150, series: [{ label: "Waiting", colour: "deliver", key: "waiting", fill: true }] });
  const [sources, keys, waiters, served, batching] = [h("div"), h("div"), h("div"), h("div"), h("div")];
  let before = null;
  fill(
    root,
    pageHead("Waiting room", { sub: "Long polls on this server. Someone who waits costs no thread, no connection to the store and no query." }),
    h(
      "div.stack",
      h("div.tiles.by6", Object.values(tiles).map((each) => each.box)),
      h(
        "div.grid",
        wide("w4", panel("Consumers waiting", { tools: chart.legend }, chart.box)),
        wide("w4", panel("Woken by", { note: "since the server started" }, sources)),
        wide("w4", panel("Batching and back-off", {}, batching)),
        wide("w7", panel("What is waited for", { flush: true, id: "keys" }, keys)),
        wide("w5", panel("Served just now", { note: "while this page is open", flush: true, id: "served" }, served)),
        panel("Who waits", { flush: true, id: "waiters" }, waiters),
      ),
    ),
  );
  fill(keys, loading());

  const draw = onceAFrame(() => {
    const now = seen.waiting;
    if (!now) return;
    const total = Object.values(now.wakes).reduce((a, b) => a + b, 0);
    const span = before ? (Date.parse(now.at) - before.at) / 1000 : 0;
    const wakes = span > 0 ? Math.max(0, total - before.total) / span : 0;
    before = { at: Date.parse(now.at), total };
    const b = now.batching;
    const each = (a, of) => (of ? (a / of).toFixed(2) : "–");
    tiles.waiting.set(count(now.waiting), `${count(now.waitersTotal)} parked`);
    tiles.keys.set(count(now.keysTotal), "queues, lanes, filters");
    tiles.wakes.set(rate(wakes), `${count(total)} so far`);
    tiles.latency.set(millis(seen.points.findLast((point) => point.wake99 !== null)?.wake99 ?? null), "of the last wakes");
    tiles.batch.set(each(b.pops, b.calls), `${each(b.served, b.calls)} got messages`);
    tiles.backoff.set(count(now.floor.backedOff), `floor looks every ${millis(now.floor.intervalMs)}`);
    fill(sources, bars(now.wakes, total));
    fill(
      batching,
      facts([
        ["Store calls for pops", count(b.calls)],
        ["Pops in them", `${count(b.pops)}, ${each(b.pops, b.calls)} per call`],
        ["Lanes claimed", `${count(b.partitions)}, ${each(b.partitions, b.calls)} per call`],
        ["Lost to somebody else", count(b.lost)],
        ["Calls for nothing", b.calls ? `${count(b.empty)} (${((b.empty / b.calls) * 100).toFixed(1)} %)` : "0"],
        ["Floor", `${count(now.floor.looks)} looks, ${count(now.floor.hits)} of ${count(now.floor.checks)} checks found something`],
        ["Backed off", `${plural(now.floor.backedOff, "key")} looked at less often`],
      ]),
    );
    fill(keys, now.keys.length ? keyTable(now) : empty("Nobody waits", "Consumers wait by long polling. Let one wait:", `curl '${location.origin}/api/v1/pop/queue/orders?consumerGroup=billing&wait=true&timeout=30000'`));
    fill(waiters, now.waiters.length ? waiterTable(now) : h("p.loading", "Nobody."));
    fill(served, now.served.length ? servedTable(now.served) : h("p.loading", "Nobody was served since this page was opened."));
  });
  const line = onceAFrame(() => chart.draw(seen.points));
  const stops = [listen("waiting", draw), listen("server", line)];
  draw();
  line();
  return () => {
    stops.forEach((stop) => stop());
    chart.end();
  };
}

function wide(width, element) {
  element.classList.add(width);
  return element;
}

function bars(wakes, total) {
  const most = Math.max(1, ...Object.values(wakes));
  return h(
    "div.bars",
    Object.entries(SOURCES).map(([name, about]) => {
      const number = wakes[name] ?? 0;
      const share = total ? ` · ${((number / total) * 100).toFixed(0)} %` : "";
      return h("div.bar", { title: about }, h("span", name), h("div.track", h("i", { style: { width: `${(number / most) * 100}%` } })), h("span.num", `${count(number)}${share}`));
    }),
  );
}

function what(row) {
  if (row.queue) return h("a", { href: `#/queues/${encodeURIComponent(row.queue)}` }, row.partition ? `${row.queue} / ${row.partition}` : row.queue);
  return h("span", [row.namespace && `namespace ${row.namespace}`, row.task && `task ${row.task}`].filter(Boolean).join(", "));
}

const since = (row, now) => seconds((Date.parse(now.at) - Date.parse(row.since)) / 1000);

function keyTable(now) {
  const state = (row) => (row.claiming ? chip("claiming", "good") : row.backedOff ? chip(`backed off after ${row.emptyChecks}`, "warn") : chip("parked"));
  return table(
    [
      { label: "What", kind: "wide strong", cell: what },
      { label: "Group", kind: "name", cell: (row) => groupName(row.consumerGroup) },
      { label: "Waiting", right: true, cell: (row) => count(row.waiters) },
      { label: "Longest", right: true, cell: (row) => since(row, now) },
      { label: "Ready lanes", right: true, cell: (row) => count(row.ready) },
      { label: "State", cell: state },
    ],
    now.keys.slice(0, 100),
    { label: "What is waited for" },
  );
}

function waiterTable(now) {
  return table(
    [
      { label: "Who", kind: "name", cell: (row) => [row.subject && h("b", `${row.subject} `), h("span.mono", row.peer ?? "–")] },
      { label: "Waits for", kind: "wide", cell: what },
      { label: "Group", kind: "name", cell: (row) => groupName(row.consumerGroup) },
      { label: "Since", right: true, cell: (row) => h("span", { title: row.since }, since(row, now)) },
      { label: "Ends in", right: true, cell: (row) => millis(row.leftMs) },
      { label: "", cell: (row) => (row.holding ? chip("fills its batch", "good") : "") },
    ],
    now.waiters.slice(0, 100),
    { label: "Who waits" },
  );
}

function servedTable(rows) {
  return table(
    [
      { label: "At", cell: (row) => clock(row.at) },
      { label: "Queue", kind: "wide", cell: (row) => h("span", { title: `${row.queue} / ${row.partition}, ${groupName(row.consumerGroup)}` }, row.queue) },
      { label: "Woken by", cell: (row) => chip(row.source ?? "found at once", KINDS[row.source] ?? "") },
      { label: "Waited", right: true, cell: (row) => millis(row.waitedMs) },
      { label: "Wake to answer", right: true, cell: (row) => millis(row.wokenMs) },
    ],
    rows.slice(0, 14),
    { label: "Served just now" },
  );
}
