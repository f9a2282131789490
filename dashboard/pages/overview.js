// Everything at a glance: what flows, what waits, what is wrong.

import { get } from "../api.js";
import { joined, KEPT, listen, seen } from "../live.js";
import { fill, h, onceAFrame } from "../components/dom.js";
import { bytes, count, millis, plural, rate, seconds } from "../components/format.js";
import { inboxFact } from "../components/inbox.js";
import { timeChart } from "../components/chart.js";
import { cellLink, chip, empty, facts, pageHead, panel, switcher, table, tile } from "../components/parts.js";

export const title = "Overview";
export const topics = [];

const RANGES = [["live", "Live"], ["60", "1 h"], ["360", "6 h"], ["1440", "24 h"]];
const REFRESH = 5000;

export const FIRST = `curl -X POST ${location.origin}/api/v1/push \\
  -H 'Content-Type: application/json' \\
  -d '{"items":[{"queue":"orders","partition":"customer-7","payload":{"hello":"world"}}]}'`;

export async function show(root) {
  const tiles = {
    push: tile("Pushed", "push", "/s"),
    pop: tile("Delivered", "deliver", "/s"),
    ack: tile("Acknowledged", "ack", "/s"),
    pending: tile("Backlog"),
    lag: tile("Oldest message"),
    wake: tile("Wake latency p99"),
    waiting: tile("Consumers waiting"),
    errors: tile("Errors", null, "/s"),
  };
  const flow = timeChart({
    label: "Messages per second",
    format: rate,
    height: 240,
    series: [
      { label: "Pushed", colour: "push", key: "push", fill: true },
      { label: "Delivered", colour: "deliver", key: "pop" },
      { label: "Acknowledged", colour: "ack", key: "ack" },
    ],
  });
  const wake = timeChart({
    label: "Milliseconds from a wake to the answer",
    format: millis,
    height: 170,
    series: [
      { label: "p50", colour: "deliver", key: "wake50", gaps: true },
      { label: "p99", colour: "push", key: "wake99", gaps: true },
    ],
  });
  const backlog = timeChart({ label: "Messages not acknowledged", height: 170, series: [{ label: "Backlog", colour: "ack", key: "pending", fill: true, gaps: true }] });
  const [queues, health, banner] = [h("div"), h("div"), h("div")];
  let range = "live";
  // What the history knows of the minutes before this page was opened.
  let earlier = [];

  fill(
    root,
    pageHead("Overview", { sub: "This server's traffic, and what the queues of all servers hold." }),
    banner,
    h(
      "div.stack",
      h("div.tiles", Object.values(tiles).map((each) => each.box)),
      h(
        "div.grid",
        h("div.w8.stack", panel("Messages per second", { tools: [flow.legend, switcher("Time", RANGES, range, choose)] }, flow.box), h("div.grid", at("w6", panel("Wake to answer", { tools: wake.legend }, wake.box)), at("w6", panel("Backlog", { tools: backlog.legend }, backlog.box)))),
        h("div.w4.stack", panel("Health", {}, health), panel("Deepest queues", { flush: true, tools: h("a", { href: "#/queues?sort=pending" }, "All queues") }, queues)),
      ),
    ),
  );

  async function choose(value) {
    range = value;
    await charts();
  }

  async function charts() {
    if (range === "live") return live();
    const [points, between] = await past(Number(range));
    flow.draw(points, between);
  }

  async function past(minutes) {
    const to = new Date();
    const from = new Date(to - minutes * 60_000);
    const { throughput } = await get("/api/v1/status", { from: from.toISOString(), to: to.toISOString() });
    const points = throughput.map((each) => ({ at: Date.parse(each.timestamp) / 1000, push: each.ingestedPerSecond, pop: each.popPerSecond, ack: each.processedPerSecond }));
    return [points.sort((a, b) => a.at - b.at), [from / 1000, to / 1000]];
  }

  const live = onceAFrame(() => {
    if (range === "live") flow.draw(joined(earlier, seen.points));
    wake.draw(seen.points);
    backlog.draw(seen.points);
  });

  const numbers = onceAFrame(() => {
    const points = seen.points;
    const last = points.at(-1);
    const line = (key, colour) => [{ values: points.slice(-60).map((point) => point[key]), colour }];
    if (last) {
      tiles.push.set(rate(mean(points, "push")), undefined, line("push", "push"));
      tiles.pop.set(rate(mean(points, "pop")), undefined, line("pop", "deliver"));
      tiles.ack.set(rate(mean(points, "ack")), undefined, line("ack", "ack"));
      tiles.wake.set(millis(latest(points, "wake99")), `p50 ${millis(latest(points, "wake50"))}`, line("wake99", "push"));
      tiles.errors.set(rate(mean(points, "errors")), `${count(seen.server.deadLettered)} dead-lettered`, line("errors", "bad"));
    }
    if (seen.server) {
      tiles.waiting.set(count(seen.server.waiting), `${count(Object.values(seen.server.wakes).reduce((a, b) => a + b, 0))} woken so far`, line("waiting", "quiet"));
      fill(health, healthOf(seen.server));
      fill(banner, bannerOf(seen.server));
    }
    if (seen.totals) {
      const { messages, lag, partitions, queues: number } = seen.totals;
      tiles.pending.set(count(messages.pending + messages.processing), `${count(messages.processing)} in hand · ${count(messages.deadLetter)} dead`, line("pending", "ack"));
      tiles.lag.set(lag.time.max ? seconds(lag.time.max) : "none", `${plural(number, "queue")}, ${plural(partitions, "lane")}`);
    }
  });

  async function top() {
    const { queues: list, total } = await get("/api/v1/resources/queues", { sort: "pending", limit: 8 });
    if (!total) return fill(queues, empty("No queues yet", "A queue is made by the first push to it.", FIRST));
    fill(
      queues,
      table(
        [
          { label: "Queue", kind: "wide", cell: (row) => cellLink(row.name, `#/queues/${encodeURIComponent(row.name)}`) },
          { label: "Backlog", right: true, cell: (row) => count(row.messages.pending + row.messages.processing) },
          { label: "Lanes", right: true, cell: (row) => count(row.partitions) },
        ],
        list,
        { label: "Deepest queues", href: (row) => `#/queues/${encodeURIComponent(row.name)}` },
      ),
    );
  }

  const stops = [listen("server", numbers), listen("totals", numbers), listen("server", live)];
  const timer = setInterval(() => document.hidden || top().catch(() => {}), REFRESH);
  const slow = setInterval(() => range === "live" || charts().catch(() => {}), 30_000);
  numbers();
  live();
  if (seen.points.length < KEPT) past(KEPT / 60).then(([points]) => { earlier = points; live(); }, () => {});
  await top();
  return () => {
    stops.forEach((stop) => stop());
    clearInterval(timer);
    clearInterval(slow);
    [flow, wake, backlog].forEach((chart) => chart.end());
  };
}

function at(width, element) {
  element.classList.add(width);
  return element;
}

/** Over the last three seconds: one alone jumps. */
function mean(points, key) {
  const last = points.slice(-3).map((point) => point[key] ?? 0);
  return last.reduce((a, b) => a + b, 0) / last.length;
}

function latest(points, key) {
  return points.findLast((point) => point[key] !== null)?.[key] ?? null;
}

function healthOf(now) {
  const heard = { connected: ["Heard", "good"], degraded: ["Partly heard", "warn"], isolated: ["Not heard", "bad"], none: ["None configured", ""] }[now.hearing];
  const peers = now.carriers.map((carrier) => `${carrier.name}: ${carrier.peers.filter((peer) => peer.healthy).length} of ${carrier.peers.length}`);
  return facts([
    ["Store", [chip(now.store.connected ? "Connected" : "Away", now.store.connected ? "good" : "bad"), ` ${now.store.engine}`]],
    ["Other servers", [chip(...heard), peers.length ? ` ${peers.join(", ")}` : ""]],
    inboxFact(now.inbox),
    ["Store calls", `${rate(seen.points.at(-1)?.calls ?? 0)} /s, ${plural(now.store.errors, "error")} so far`],
    ["Push p99", millis(latest(seen.points, "push99"))],
    ["Ack p99", millis(latest(seen.points, "ack99"))],
    ["Memory", bytes(now.memoryBytes)],
    ["Processor", `${(seen.points.at(-1)?.cpu ?? 0).toFixed(0)} % of a core`],
    ["Up for", seconds(now.uptimeMs / 1000)],
  ]);
}

function bannerOf(now) {
  if (!now.store.connected) return h("div.banner.bad", { role: "status" }, "The store is away. Pushes are refused or spooled; consumers go on waiting.");
  if (now.pushMaintenance) return h("div.banner", { role: "status" }, "Pushes are in maintenance: they are kept on disk and stored when it ends.");
  if (now.popMaintenance) return h("div.banner", { role: "status" }, "Pops are in maintenance: consumers wait and get nothing.");
  return null;
}
