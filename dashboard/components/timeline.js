// What consumers recorded about a message, in the order it happened.

import { getText, part } from "../api.js";
import { h } from "./dom.js";
import { kept, read } from "./exact.js";
import { clock, groupName, millis } from "./format.js";
import { chip, json } from "./parts.js";

/** What is recorded about a message. */
export async function recorded({ partitionId, transactionId }) {
  return kept(await getText(`/api/v1/traces/${part(partitionId)}/${part(transactionId)}`, { limit: 200 }), "traces", ["data"]);
}

/** `traces` as the API tells them, their data as it is written; `about(trace)` adds what a message is. */
export function timeline(traces, about) {
  if (!traces.length) return h("p.dim", "Nobody recorded anything about it. Consumers do with POST /api/v1/traces.");
  const sorted = [...traces].sort((a, b) => a.created_at.localeCompare(b.created_at));
  const begun = Date.parse(sorted[0].created_at);
  return h(
    "ol.line",
    sorted.map((trace) => {
      const since = Date.parse(trace.created_at) - begun;
      return h(
        "li",
        h(
          "div",
          h("div", h("b", trace.event_type), " ", trace.trace_names.map((name) => [h("a", { href: `#/traces?name=${encodeURIComponent(name)}` }, chip(name)), " "])),
          h("div.dim", `${clock(trace.created_at)}${since ? ` (+${millis(since)})` : ""} · ${groupName(trace.consumer_group)}`, trace.worker_id ? ` · ${trace.worker_id}` : ""),
          about?.(trace),
          trace.data !== "null" && json(read(trace.data), 1),
        ),
      );
    }),
  );
}
