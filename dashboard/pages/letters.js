// Dead letters: what was given up and why, mended by hand or sent back, one by one or all that fit.

import { getText, part, post, remove } from "../api.js";
import { beside } from "../components/beside.js";
import { fill, h } from "../components/dom.js";
import { kept, read, spaced } from "../components/exact.js";
import { ago, clock, count, groupName, plural, shortId } from "../components/format.js";
import { attempt, dialog, toast } from "../components/overlay.js";
import { button, cellButton, closeButton, empty, facts, field, input, json, loading, pageHead, table } from "../components/parts.js";
import { redriveAll } from "../components/redrive.js";
import { recorded, timeline } from "../components/timeline.js";
import { pager } from "./messages.js";

export const title = "Dead letters";

const PAGE = 50;

export async function show(root, { query }) {
  const start = (name) => query.get(name) ?? "";
  const boxes = {
    queue: input({ value: start("queue"), placeholder: "any", "data-filter": true, "data-test": "queue" }),
    consumerGroup: input({ value: start("consumerGroup"), placeholder: "any" }),
    partition: input({ value: start("partition"), placeholder: "any" }),
    errorContains: input({ value: start("errorContains"), placeholder: "text in the error", "data-test": "error" }),
    from: input({ type: "datetime-local" }),
    to: input({ type: "datetime-local" }),
  };
  const labels = { queue: "Queue", consumerGroup: "Group", partition: "Lane", errorContains: "Why", from: "Died from", to: "Until" };
  let [offset, letters] = [0, []];
  const picked = new Set();
  const [list, drawer] = [h("div", loading()), h("div")];
  const some = button("Redrive selected", redriveSome, { disabled: true, "data-test": "redrive-some" });
  const all = button("Redrive all matching…", everything, { "data-test": "redrive-all" });
  const split = h("div.split", h("section.panel", { "aria-label": "Dead letters" }, h("div.filters", Object.entries(boxes).map(([name, box]) => field(labels[name], box))), list), drawer);
  fill(root, pageHead("Dead letters", { sub: "Messages that consumers gave up on, latest first. Redriving puts them at the end of their lane.", tools: [some, all] }), split);

  function wanted() {
    return Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, box.type === "datetime-local" && box.value ? new Date(box.value).toISOString() : box.value.trim()]).filter(([, value]) => value));
  }

  async function load() {
    const filter = wanted();
    history.replaceState(null, "", `#/dead-letters?${new URLSearchParams(Object.entries(filter))}`);
    const text = await attempt(() => getText("/api/v1/dlq", { ...filter, limit: PAGE, offset }));
    if (!text) return;
    const answer = kept(text, "messages", ["data"]);
    letters = answer.messages.map((letter) => ({ ...letter, payload: letter.data }));
    for (const id of picked) if (!letters.some((letter) => letter.id === id)) picked.delete(id);
    all.disabled = !answer.total;
    count1();
    if (!letters.length) {
      const filtered = Object.keys(filter).length > 0;
      return fill(list, filtered ? empty("No dead letter fits", "Take a filter away to see more.") : empty("No dead letters", "A message becomes one when its retries are used up, or at once when a consumer says so:", `curl -X POST ${location.origin}/api/v1/ack -H 'Content-Type: application/json' \\\n  -d '{"transactionId":"…","partitionId":"…","leaseId":"…","status":"dlq","error":"why"}'`));
    }
    const columns = [
      { label: h("span.hidden-text", "Select"), cell: (row) => h("input", { type: "checkbox", checked: picked.has(row.id), "aria-label": `Select ${row.transactionId}`, "data-test": "pick", onchange: (event) => { event.target.checked ? picked.add(row.id) : picked.delete(row.id); count1(); } }) },
      { label: "Transaction id", kind: "name", cell: (row) => cellButton(shortId(row.transactionId), () => open(row), row.id, row.transactionId) },
      { label: "Why it died", kind: "wide bad", cell: (row) => row.errorMessage || "no reason given" },
      { label: "Queue", kind: "name", cell: (row) => row.queue },
      { label: "Group", cell: (row) => groupName(row.consumerGroup) },
      { label: "Attempts", right: true, cell: (row) => count(row.retryCount) },
      { label: "Died", right: true, cell: (row) => h("span", { title: row.failedAt }, ago(row.failedAt)) },
    ];
    fill(list, table(columns, letters, { pick: open, picked: (row) => side.is(row.id), label: "Dead letters" }), pager(answer, offset, (next) => { offset = next; load(); }));
  }

  function count1() {
    some.disabled = !picked.size;
    some.textContent = picked.size ? `Redrive ${count(picked.size)} selected` : "Redrive selected";
  }

  async function redriveSome() {
    let done = 0;
    // Oldest first, as their messages came.
    for (const letter of letters.filter((each) => picked.has(each.id)).reverse()) {
      const ok = await attempt(() => post(`/api/v1/dlq/${part(letter.id)}/replay`, {}));
      if (!ok) break;
      picked.delete(letter.id);
      done++;
    }
    toast(`${plural(done, "dead letter")} sent back`);
    side.close();
  }

  function everything() {
    const filter = wanted();
    if (!filter.queue) {
      toast("Choose a queue first: redriving all is for one queue at a time", true);
      boxes.queue.focus();
      return;
    }
    redriveAll(filter, load);
  }

  const side = beside(split, drawer, load);
  const open = (row) => side.open(row.id, () => details(row, side.close));

  let timer = 0;
  Object.values(boxes).forEach((box) =>
    box.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => { offset = 0; load(); }, 250);
    }),
  );
  await load();
}

async function details(row, close) {
  const traces = await recorded(row);
  const replay = (body) => attempt(() => post(`/api/v1/dlq/${part(row.id)}/replay`, body), "Sent back to the end of its lane").then((done) => done && close());
  return h(
    "section.panel.drawer",
    { "aria-label": "Dead letter" },
    h(
      "header",
      h("h2", "Dead letter"),
      h(
        "div.tools",
        button("Redrive", () => replay({}), { kind: "primary small", "data-test": "redrive-one" }),
        button("Edit…", () => edit(row, close), { kind: "small", "data-test": "edit" }),
        button("Delete", () => attempt(() => remove(`/api/v1/messages/${part(row.partitionId)}/${part(row.transactionId)}`, { consumerGroup: row.consumerGroup }), "The dead letter is deleted").then((done) => done && close()), { kind: "danger small", "data-test": "delete" }),
        closeButton(close),
      ),
    ),
    h(
      "div.body",
      h("div", h("h3", "Why it died"), h("p.bad", row.errorMessage || "No reason was given.")),
      facts([
        ["Transaction id", h("span.mono", row.transactionId)],
        ["Queue", h("a", { href: `#/queues/${encodeURIComponent(row.queue)}` }, row.queue)],
        ["Lane", row.partition],
        ["Group", groupName(row.consumerGroup)],
        ["Attempts", count(row.retryCount)],
        ["Pushed", clock(row.createdAt)],
        ["Died", `${clock(row.failedAt)} (${ago(row.failedAt)})`],
        row.producerSub && ["By", row.producerSub],
        row.traceparent && ["Trace context", h("span.mono", row.traceparent)],
      ]),
      h("div.stack", h("h3", "Payload"), json(read(row.payload))),
      h("div.stack", h("h3", "Trace"), timeline(traces.traces)),
    ),
  );
}

function edit(row, close) {
  const payload = h("textarea.input", { rows: 12, spellcheck: "false", "data-test": "edit-payload" });
  payload.value = spaced(row.payload);
  const queue = input({ value: row.queue });
  const lane = input({ value: row.partition });
  dialog({
    title: "Edit and redrive",
    wide: true,
    content: [h("p", "The message is sent back with this payload. The dead letter goes when it is stored."), field("Payload, as JSON", payload), h("div.options", field("Queue", queue), field("Lane", lane))],
    actions: [{ label: "Redrive", kind: "primary", submit: true, props: { "data-test": "edit-send" }, work: async () => {
      try {
        JSON.parse(payload.value);
      } catch (error) {
        throw new Error(`The payload is no JSON: ${error.message}`);
      }
      const rest = JSON.stringify({ queue: queue.value, partition: lane.value }).slice(0, -1);
      await post(`/api/v1/dlq/${part(row.id)}/replay`, `${rest},"payload":${payload.value}}`);
      toast("Sent back, edited");
      close();
    } }],
  });
}
