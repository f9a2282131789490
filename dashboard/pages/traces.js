// Traces: what consumers recorded, by name across messages, or all of one message.

import { get, getText, part } from "../api.js";
import { fill, h } from "../components/dom.js";
import { kept } from "../components/exact.js";
import { ago, count, plural } from "../components/format.js";
import { attempt } from "../components/overlay.js";
import { cellButton, empty, input, loading, pageHead, panel, table } from "../components/parts.js";
import { timeline } from "../components/timeline.js";
import { short } from "./messages.js";

export const title = "Traces";

const EXAMPLE = `curl -X POST ${location.origin}/api/v1/traces -H 'Content-Type: application/json' \\
  -d '{"partitionId":"…","transactionId":"…","eventType":"info",
       "traceNames":["order-1234"],"data":{"text":"charged the card"}}'`;

export async function show(root, { query }) {
  const filter = input({ type: "search", placeholder: "Name of a trace   /", value: query.get("name") ?? "", "aria-label": "Name of a trace", "data-filter": true, "data-test": "trace-name", style: { width: "280px" } });
  const [names, found] = [h("div", loading()), h("div")];
  const split = h("div.split.even", panel("Names", { note: "latest first", flush: true }, names), found);
  fill(root, pageHead("Traces", { sub: "What consumers said about messages while they worked on them.", tools: filter }), split);
  let all = [];

  function draw() {
    const text = filter.value.trim().toLowerCase();
    const rows = all.filter((row) => row.trace_name.toLowerCase().includes(text));
    if (!all.length) return fill(names, empty("No traces yet", "A consumer records one like this; what shares a name is shown together, across messages and queues:", EXAMPLE));
    return fill(
      names,
      table(
        [
          { label: "Name", kind: "wide", cell: (row) => cellButton(row.trace_name, () => open(row.trace_name)) },
          { label: "Events", right: true, cell: (row) => count(row.trace_count) },
          { label: "Messages", right: true, cell: (row) => count(row.message_count) },
          { label: "Last", right: true, cell: (row) => h("span", { title: row.last_seen }, ago(row.last_seen)) },
        ],
        rows,
        { pick: (row) => open(row.trace_name), label: "Names of traces" },
      ),
    );
  }

  async function open(name) {
    history.replaceState(null, "", `#/traces?name=${encodeURIComponent(name)}`);
    const text = await attempt(() => getText(`/api/v1/traces/by-name/${part(name)}`, { limit: 100 }));
    if (!text) return;
    const answer = kept(text, "traces", ["data", "message_payload"]);
    split.classList.add("open");
    const about = (trace) =>
      h("div", h("a", { href: `#/messages?queue=${encodeURIComponent(trace.queue_name)}${trace.partition_name ? `&partition=${encodeURIComponent(trace.partition_name)}` : ""}` }, `${trace.queue_name} / ${trace.partition_name ?? "?"}`), h("div.mono.dim.cut", trace.transaction_id), h("div.mono.dim.cut", trace.message_payload === "null" ? "" : short(trace.message_payload)));
    fill(found, panel(name, { note: plural(answer.total, "event") }, timeline(answer.traces, about)));
    found.firstChild.classList.add("drawer");
  }

  filter.addEventListener("input", draw);
  filter.addEventListener("keydown", (event) => event.key === "Enter" && filter.value.trim() && open(filter.value.trim()));
  ({ trace_names: all } = await get("/api/v1/traces/names", { limit: 500 }));
  draw();
  if (filter.value) await open(filter.value);
}
