// The message browser: find messages, look at one, retry it or give it up.

import { getText, part, post, remove } from "../api.js";
import { beside } from "../components/beside.js";
import { fill, h } from "../components/dom.js";
import { kept, piece, read } from "../components/exact.js";
import { ago, clock, count, groupName, plural, shortId } from "../components/format.js";
import { attempt, dialog } from "../components/overlay.js";
import { button, cellButton, chip, closeButton, empty, facts, field, input, json, loading, pageHead, select, table } from "../components/parts.js";
import { recorded, timeline } from "../components/timeline.js";
import { FIRST } from "./overview.js";

export const title = "Messages";

const PAGE = 50;
const STATES = [["", "Any state"], ["pending", "Pending"], ["processing", "In hand"], ["completed", "Done"], ["dead_letter", "Dead letter"]];
const KINDS = { pending: "", processing: "warn", completed: "good", dead_letter: "bad", failed: "bad" };
const NAMES = { pending: "pending", processing: "in hand", completed: "done", dead_letter: "dead" };

export async function show(root, { query }) {
  const start = (name) => query.get(name) ?? "";
  const boxes = {
    queue: input({ value: start("queue"), placeholder: "any", "data-filter": true, "data-test": "queue" }),
    partition: input({ value: start("partition"), placeholder: "any" }),
    status: select(STATES, { value: start("status"), "data-test": "status" }),
    from: input({ type: "datetime-local", value: start("from") }),
    to: input({ type: "datetime-local", value: start("to") }),
  };
  let offset = 0;
  const list = h("div", loading());
  const drawer = h("div");
  const split = h("div.split", h("section.panel", { "aria-label": "Messages" }, filters(boxes, () => { offset = 0; load(); }), list), drawer);
  fill(root, pageHead("Messages", { sub: "Newest first. Looking at a message changes nothing." }), split);

  async function load() {
    const wanted = Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, box.type === "datetime-local" && box.value ? new Date(box.value).toISOString() : box.value.trim()]));
    const shown = new URLSearchParams(Object.entries(boxes).map(([name, box]) => [name, box.value.trim()]).filter(([, value]) => value));
    history.replaceState(null, "", `#/messages?${shown}`);
    const text = await attempt(() => getText("/api/v1/messages", { ...wanted, limit: PAGE, offset }));
    if (!text) return;
    const answer = kept(text, "messages", ["payload"]);
    if (!answer.messages.length && !offset) {
      const filtered = Object.values(wanted).some(Boolean);
      fill(list, filtered ? empty("No message fits", "Without a time only recent messages are looked at; choose one to look further back.") : empty("No messages yet", "Push one and it appears here:", FIRST));
      return;
    }
    fill(
      list,
      table(
        [
          { label: "Transaction id", kind: "name", cell: (row) => cellButton(shortId(row.transactionId), () => open(row), row.id, row.transactionId) },
          { label: "Queue", kind: "name", cell: (row) => h("a", { href: `#/queues/${encodeURIComponent(row.queue)}` }, row.queue) },
          { label: "Lane", kind: "name", cell: (row) => row.partition },
          { label: "State", cell: (row) => chip(NAMES[row.status] ?? row.status, KINDS[row.status]) },
          { label: "Payload", kind: "wide mono dim", cell: (row) => short(row.payload) },
          { label: "Pushed", right: true, cell: (row) => h("span", { title: row.createdAt }, ago(row.createdAt)) },
        ],
        answer.messages,
        { pick: open, picked: (row) => side.is(row.id), label: "Messages" },
      ),
      pager(answer, offset, (next) => { offset = next; load(); }),
    );
  }

  const side = beside(split, drawer, load);
  const open = (row) => side.open(row.id, () => details(row, side.close, () => open(row)));

  await load();
}

function filters(boxes, changed) {
  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(changed, 250);
  };
  Object.values(boxes).forEach((box) => box.addEventListener(box.tagName === "SELECT" ? "change" : "input", soon));
  const labels = { queue: "Queue", partition: "Lane", status: "State", from: "From", to: "Until" };
  return h("div.filters", Object.entries(boxes).map(([name, box]) => field(labels[name], box)));
}

/** The beginning of a payload, as it is written. */
export function short(written) {
  const text = written.replace(/\s+/g, " ");
  return text.length > 140 ? `${text.slice(0, 140)}…` : text;
}

/** Which part of a list this is, and the ways to the others. */
export function pager(answer, offset, go) {
  const shown = answer.messages.length;
  const more = offset + shown < answer.total;
  return h(
    "div.filters",
    { style: { borderBottom: "0", borderTop: "1px solid var(--line)", alignItems: "center" } },
    h("span.dim", shown ? `${count(offset + 1)}–${count(offset + shown)} of ${count(answer.total)}` : `${count(answer.total)} in all`, answer.truncated ? " (more are there than were looked at)" : ""),
    h("div.tools", { style: { marginLeft: "auto" } }, button("Newer", () => go(Math.max(0, offset - PAGE)), { kind: "small", disabled: !offset }), button("Older", () => go(offset + shown), { kind: "small", disabled: !more })),
  );
}

async function details(row, close, again) {
  const here = `/api/v1/messages/${part(row.partitionId)}/${part(row.transactionId)}`;
  const [text, traces] = await Promise.all([getText(here), recorded(row)]);
  const message = JSON.parse(text);
  const dead = message.status === "dead_letter";
  const actions = [
    dead && button("Retry", () => attempt(() => post(`${here}/retry`, {}), "Sent back to the end of its lane").then(again), { kind: "primary small", "data-test": "retry" }),
    dead && button("Delete", () => attempt(() => remove(here), "The dead letter is deleted").then(again), { kind: "danger small", "data-test": "delete-letter" }),
    !dead && button("Dead-letter…", () => giveUp(here, message, again), { kind: "danger small", "data-test": "give-up" }),
  ];
  return h(
    "section.panel.drawer",
    { "aria-label": "Message" },
    h("header", h("h2", "Message"), chip(NAMES[message.status] ?? message.status, KINDS[message.status]), h("div.tools", actions, closeButton(close))),
    h(
      "div.body",
      facts([
        ["Transaction id", h("span.mono", message.transactionId)],
        ["Message id", h("span.mono", message.id)],
        ["Queue", h("a", { href: `#/queues/${encodeURIComponent(message.queue)}` }, message.queue)],
        ["Lane", `${message.partition}, offset ${message.offset}`],
        ["Pushed", `${clock(message.createdAt)} (${ago(message.createdAt)})`],
        message.producerSub && ["By", message.producerSub],
        message.traceId && ["Trace id", h("span.mono", message.traceId)],
        message.traceparent && ["Trace context", h("span.mono", message.traceparent)],
        message.leaseExpiresAt && ["Leased until", clock(message.leaseExpiresAt)],
        message.errorMessage && ["Gave up because", h("span.bad", message.errorMessage)],
        dead && ["Attempts", count(message.retryCount)],
      ]),
      h("div.stack", h("h3", message.isEncrypted ? "Payload (encrypted at rest)" : "Payload"), json(read(piece(text, "payload") ?? "null"))),
      h(
        "div.stack",
        h("h3", "Who has read it"),
        message.consumerGroups.length
          ? facts(message.consumerGroups.map((group) => [groupName(group.name), group.consumed ? chip("done", "good") : group.leaseExpiresAt ? chip("in hand", "warn") : chip("not yet")]))
          : h("p.dim", "No group has come to this lane yet."),
      ),
      h("div.stack", h("h3", `Trace, ${plural(traces.total, "event")}`), timeline(traces.traces)),
    ),
  );
}

function giveUp(here, message, again) {
  const groups = message.consumerGroups.filter((group) => !group.consumed).map((group) => group.name);
  const group = groups.length ? select(groups.map((name) => [name, groupName(name)])) : input({ placeholder: "none: consumers without a group" });
  const reason = input({ value: "given up by hand", "data-test": "reason" });
  dialog({
    title: "Give up this message?",
    content: [h("p", "It becomes a dead letter of one group, which goes on behind it. Only the next message of a lane can be given up."), field("Group", group), field("Why", reason)],
    actions: [{ label: "Dead-letter", kind: "danger primary", submit: true, props: { "data-test": "confirm-give-up" }, work: async () => {
      const done = await post(`${here}/dlq`, { consumerGroup: group.value || undefined, error: reason.value });
      if (done.success === false) throw new Error(done.error ?? "It could not be given up.");
      again();
    } }],
  });
}
