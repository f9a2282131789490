// One queue: what flows, which lanes are deep, who reads it, how it is set, and what can be done to it.

import { get, part, post, remove } from "../api.js";
import { joined, KEPT, listen, rates } from "../live.js";
import { fill, h, onceAFrame } from "../components/dom.js";
import { count, groupName, millis, plural, rate, seconds } from "../components/format.js";
import { timeChart } from "../components/chart.js";
import { attempt, confirmTyped } from "../components/overlay.js";
import { button, cellLink, chip, empty, pageHead, panel, switcher, table, tile } from "../components/parts.js";
import { optionsForm } from "../components/options.js";
import { pushDialog } from "../components/push.js";

export const title = "Queue";

const REFRESH = 4000;
const LANES = 50;

export async function show(root, { parts: [name] }) {
  const here = `/api/v1/resources/queues/${part(name)}`;
  let detail = await get(here, { limit: 1 });
  document.title = `${name} · Bugle`;

  const tiles = {
    push: tile("Pushed", "push", "/s"),
    pop: tile("Delivered", "deliver", "/s"),
    ack: tile("Acknowledged", "ack", "/s"),
    pending: tile("Pending"),
    processing: tile("In hand"),
    dead: tile("Dead letters"),
    waiting: tile("Waiting here"),
  };
  const flow = timeChart({
    label: `Messages per second of ${name}`,
    format: rate,
    height: 180,
    series: [
      { label: "Pushed", colour: "push", key: "push", fill: true },
      { label: "Delivered", colour: "deliver", key: "pop" },
      { label: "Acked", colour: "ack", key: "ack" },
    ],
  });
  const lag = timeChart({
    label: `Milliseconds from push to delivery in ${name}`,
    format: millis,
    height: 180,
    series: [
      { label: "Mean", colour: "deliver", key: "mean", gaps: true },
      { label: "Most", colour: "push", key: "most", gaps: true },
    ],
  });
  const [lanes, groups, tools, badges] = [h("div"), h("div"), h("div.tools"), h("span.chips")];
  const form = h("div");
  let range = "live";
  // What the history knows of the minutes before.
  let earlier = [];

  fill(
    root,
    pageHead(h("span", name, " ", badges), {
      crumbs: [h("a", { href: "#/queues" }, "Queues"), " /"],
      sub: [detail.namespace, detail.task].filter((name) => name && name !== detail.name).join(" / "),
      tools,
    }),
    h(
      "div.stack",
      h("div.tiles.by7", Object.values(tiles).map((each) => each.box)),
      h(
        "div.grid",
        wide("w6", panel("Messages /s", { tools: [flow.legend, switcher("Time", [["live", "Live"], ["60", "1 h"], ["1440", "24 h"]], range, choose)] }, flow.box)),
        wide("w6", panel("Push to delivery", { tools: lag.legend }, lag.box)),
        wide("w6", panel("Lanes by backlog", { note: `The ${LANES} deepest`, flush: true }, lanes)),
        wide("w6", panel("Consumer groups", { flush: true }, groups)),
        panel("Options", { id: "options", note: "Only what is changed is sent." }, form),
      ),
    ),
  );

  function head() {
    const paused = detail.options.paused;
    fill(badges, paused && chip("paused", "warn"));
    fill(
      tools,
      button("Push a message", () => pushDialog(name, refresh), { "data-test": "push" }),
      button(paused ? "Resume" : "Pause", pause, { "data-test": "pause", title: paused ? "Deliver again" : "Deliver nothing for now; pushes and acknowledgements go on" }),
      h("a.button", { href: `#/messages?queue=${encodeURIComponent(name)}` }, "Messages"),
      button("Clear…", clear, { kind: "danger", "data-test": "clear" }),
      button("Delete…", destroy, { kind: "danger", "data-test": "delete" }),
    );
  }

  async function pause() {
    const paused = !detail.options.paused;
    await attempt(() => post("/api/v1/configure", { queue: name, options: { paused } }), paused ? `${name} is paused` : `${name} delivers again`);
    await refresh();
    renewForm();
  }

  function clear() {
    confirmTyped({
      title: "Clear this queue?",
      text: `${plural(detail.totals.total, "message")} will be removed, read or not. The queue, its groups and its options stay. This cannot be taken back.`,
      name,
      action: "Clear",
      work: async () => {
        const done = await remove(`/api/v1/queues/${part(name)}/clear`);
        attempt(async () => done, `${plural(done.messagesDeleted, "message")} removed`);
        await refresh();
      },
    });
  }

  function destroy() {
    confirmTyped({
      title: "Delete this queue?",
      text: "Its messages, groups, dead letters and options go with it. This cannot be taken back.",
      name,
      action: "Delete",
      work: async () => {
        await remove(here);
        attempt(async () => true, `${name} is deleted`);
        location.hash = "#/queues";
      },
    });
  }

  function renewForm() {
    optionsForm(form, name, detail, async (saved) => {
      detail = { ...detail, ...saved };
      await refresh();
    });
  }

  const numbers = onceAFrame(() => {
    const kept = rates(name);
    const now = (list) => rate(list.slice(-3).reduce((a, b) => a + b, 0) / 3);
    tiles.push.set(now(kept.push), undefined, [{ values: kept.push, colour: "push" }]);
    tiles.pop.set(now(kept.pop), undefined, [{ values: kept.pop, colour: "deliver" }]);
    tiles.ack.set(now(kept.ack), undefined, [{ values: kept.ack, colour: "ack" }]);
    tiles.waiting.set(count(kept.waiting), "on this server");
    if (range === "live") {
      const last = Math.floor(Date.now() / 1000);
      const seconds = kept.push.map((push, n) => ({ at: last - kept.push.length + 1 + n, push, pop: kept.pop[n], ack: kept.ack[n] }));
      flow.draw(joined(earlier, seconds));
    }
  });

  async function choose(value) {
    range = value;
    numbers();
    await past();
  }

  async function past() {
    const minutes = range === "live" ? 60 : Number(range);
    const to = Date.now();
    const [from, between] = [new Date(to - minutes * 60_000).toISOString(), [to / 1000 - minutes * 60, to / 1000]];
    const { series } = await get("/api/v1/analytics/queue-ops", { queue: name, from, to: new Date(to).toISOString() });
    const points = series.map((each) => ({ at: Date.parse(each.bucket) / 1000, push: each.pushPerSecond, pop: each.popPerSecond, ack: each.ackPerSecond, mean: each.popMessages ? each.avgLagMs : null, most: each.popMessages ? each.maxLagMs : null }));
    points.sort((a, b) => a.at - b.at);
    lag.draw(points, between);
    if (range !== "live") flow.draw(points, between);
  }

  async function before() {
    const from = new Date(Date.now() - KEPT * 1000).toISOString();
    const { series, bucketMinutes } = await get("/api/v1/analytics/queue-ops", { queue: name, from });
    if (bucketMinutes > 1) return;
    earlier = series.map((each) => ({ at: Date.parse(each.bucket) / 1000, push: each.pushPerSecond, pop: each.popPerSecond, ack: each.ackPerSecond })).sort((a, b) => a.at - b.at);
    numbers();
  }

  async function refresh() {
    const [now, ranked, all] = await Promise.all([
      get(here, { limit: 1 }),
      get("/api/v1/resources/partitions", { queue: name, limit: LANES }),
      get("/api/v1/consumer-groups"),
    ]);
    detail = now;
    head();
    const { totals } = detail;
    tiles.pending.set(count(totals.pending), `${count(totals.total)} kept`);
    tiles.processing.set(count(totals.processing), `${count(totals.completed)} done and kept`);
    tiles.dead.set(count(totals.deadLetter), totals.deadLetter ? h("a", { href: `#/dead-letters?queue=${encodeURIComponent(name)}` }, "Look at them") : "none");
    fill(lanes, ranked.partitions.length ? laneTable(ranked.partitions, name) : empty("No backlog", "Every lane is read to its end."));
    const readers = all.filter((group) => group.queueName === name);
    fill(groups, readers.length ? groupTable(readers) : empty("Nobody has read this queue", "A group is made by its first pop:", `curl '${location.origin}/api/v1/pop/queue/${part(name)}?consumerGroup=billing&wait=true'`));
  }

  const stop = listen("queues", numbers);
  const timer = setInterval(() => document.hidden || refresh().catch(gone), REFRESH);
  const slow = setInterval(() => document.hidden || past().catch(() => {}), 30_000);
  function gone(error) {
    if (error.status === 404) location.hash = "#/queues";
  }
  await refresh();
  renewForm();
  numbers();
  past().catch(() => {});
  before().catch(() => {});
  return () => {
    stop();
    clearInterval(timer);
    clearInterval(slow);
    flow.end();
    lag.end();
  };
}

function wide(width, element) {
  element.classList.add(width);
  return element;
}

function laneTable(rows, queue) {
  return table(
    [
      { label: "Lane", kind: "wide", cell: (row) => cellLink(row.partition, `#/messages?queue=${encodeURIComponent(queue)}&partition=${encodeURIComponent(row.partition)}`) },
      { label: "Pending", right: true, cell: (row) => count(row.pending) },
      { label: "In hand", right: true, cell: (row) => count(row.processing) },
      { label: "Oldest", right: true, cell: (row) => (row.lagSeconds === null ? "–" : seconds(row.lagSeconds)) },
    ],
    rows,
    { label: "Lanes by backlog" },
  );
}

function groupTable(rows) {
  return table(
    [
      { label: "Group", kind: "wide", cell: (row) => cellLink(groupName(row.name), `#/groups/${encodeURIComponent(row.name)}`) },
      { label: "State", cell: (row) => chip(row.state, row.state === "Lagging" ? "warn" : "") },
      { label: "Lag", right: true, cell: (row) => count(row.totalLag) },
      { label: "Oldest", right: true, cell: (row) => (row.maxTimeLag ? seconds(row.maxTimeLag) : "–") },
      { label: "Lanes behind", right: true, cell: (row) => count(row.partitionsWithLag) },
    ],
    rows,
    { label: "Consumer groups of this queue" },
  );
}
