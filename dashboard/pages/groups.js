// Consumer groups on all queues: how far behind, and who is stuck.

import { get } from "../api.js";
import { fill, h } from "../components/dom.js";
import { count, groupName, plural, seconds } from "../components/format.js";
import { cellLink, chip, empty, input, loading, pageHead, table } from "../components/parts.js";

export const title = "Consumer groups";

const REFRESH = 5000;
const MOST = 300;

export async function show(root, { query }) {
  const filter = input({ type: "search", placeholder: "Filter by group or queue   /", value: query.get("search") ?? "", "aria-label": "Filter groups", "data-filter": true, style: { width: "280px" } });
  const [list, sub] = [h("div", loading()), h("span")];
  let all = [];
  fill(root, pageHead("Consumer groups", { sub, tools: filter }), h("section.panel", { "aria-label": "Consumer groups" }, list));

  function draw() {
    const text = filter.value.trim().toLowerCase();
    const fits = (row) => `${groupName(row.name)} ${row.queueName}`.toLowerCase().includes(text);
    const rows = all.filter(fits).sort((a, b) => b.totalLag - a.totalLag || a.name.localeCompare(b.name));
    sub.textContent = `${plural(rows.length, "group")} on queues, furthest behind first`;
    if (!rows.length) {
      const command = `curl '${location.origin}/api/v1/pop/queue/orders?consumerGroup=billing&wait=true&timeout=30000'`;
      return fill(list, text ? empty("No group fits", "The filter looks at names of groups and queues.") : empty("Nobody reads yet", "A group is made by its first pop, and reads every lane by itself:", command));
    }
    fill(
      list,
      table(
        [
          { label: "Group", kind: "name", cell: (row) => cellLink(groupName(row.name), `#/groups/${encodeURIComponent(row.name)}?queue=${encodeURIComponent(row.queueName)}`) },
          { label: "Queue", kind: "wide", cell: (row) => h("a", { href: `#/queues/${encodeURIComponent(row.queueName)}` }, row.queueName) },
          { label: "State", cell: (row) => chip(row.state, { Lagging: "warn", Dead: "bad", Stable: "good" }[row.state]) },
          { label: "Behind", right: true, cell: (row) => h("span", { class: row.totalLag ? "strong" : "dim" }, count(row.totalLag)) },
          { label: "Oldest", right: true, cell: (row) => (row.maxTimeLag ? seconds(row.maxTimeLag) : "–") },
          { label: "Lanes behind", right: true, cell: (row) => `${count(row.partitionsWithLag)} of ${count(row.members)}` },
          { label: "Consumed", right: true, cell: (row) => count(row.totalConsumed) },
          { label: "Began", cell: (row) => row.subscriptionMode ?? "–" },
        ],
        rows.slice(0, MOST),
        { href: (row) => `#/groups/${encodeURIComponent(row.name)}?queue=${encodeURIComponent(row.queueName)}`, label: "Consumer groups" },
      ),
      rows.length > MOST && h("p.loading", `${count(rows.length - MOST)} more: filter to see them.`),
    );
  }

  async function load() {
    all = await get("/api/v1/consumer-groups");
    if (!root.contains(document.activeElement) || document.activeElement === filter) draw();
  }
  filter.addEventListener("input", draw);
  const timer = setInterval(() => document.hidden || load().catch(() => {}), REFRESH);
  await load();
  draw();
  return () => clearInterval(timer);
}
