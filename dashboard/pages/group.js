// One consumer group: how far it is in each lane, sent elsewhere with a look at what that would deliver, deleted.

import { get, getText, part, post, remove } from "../api.js";
import { fill, h } from "../components/dom.js";
import { kept } from "../components/exact.js";
import { ago, clock, count, groupName, plural, seconds } from "../components/format.js";
import { attempt, confirmTyped, dialog, toast } from "../components/overlay.js";
import { button, chip, empty, field, input, pageHead, panel, select, table } from "../components/parts.js";
import { short } from "./messages.js";

export const title = "Consumer group";

const REFRESH = 5000;
const MOST = 200;

export async function show(root, { parts: [name], query }) {
  const shown = groupName(name);
  document.title = `${shown} · Bugle`;
  const body = h("div.stack");
  fill(
    root,
    pageHead(shown, {
      crumbs: [h("a", { href: "#/groups" }, "Consumer groups"), " /"],
      sub: "Where it stands in each lane it has been in.",
      tools: button("Delete group…", destroy, { kind: "danger", "data-test": "delete-group" }),
    }),
    body,
  );

  function destroy() {
    confirmTyped({
      title: "Delete this group?",
      text: "How far it has come is forgotten on all queues. If its consumers come again, they begin as a new group. Messages stay.",
      name: shown,
      action: "Delete",
      work: async () => {
        await remove(`/api/v1/consumer-groups/${part(name)}`);
        toast(`${shown} is deleted`);
        location.hash = "#/groups";
      },
    });
  }

  async function load() {
    const queues = Object.entries(await get(`/api/v1/consumer-groups/${part(name)}`));
    const first = query.get("queue");
    queues.sort(([a], [b]) => (b === first) - (a === first) || a.localeCompare(b));
    if (!queues.length) return fill(body, empty("This group is on no queue", "It was deleted, or its consumers have not come yet."));
    fill(body, queues.map(([queue, state]) => lanes(queue, state)));
  }

  function lanes(queue, { partitions, truncated }) {
    const rows = [...partitions].sort((a, b) => b.offsetLag - a.offsetLag);
    const behind = rows.reduce((sum, row) => sum + row.offsetLag, 0);
    return panel(
      queue,
      {
        note: `${plural(behind, "message")} behind in ${plural(rows.filter((row) => row.offsetLag).length, "lane")}${truncated ? " of the first ones" : ""}`,
        flush: true,
        tools: [button("Seek…", () => seekDialog(name, queue, load), { kind: "small", "data-test": "seek" }), h("a.button.small", { href: `#/queues/${encodeURIComponent(queue)}` }, "Queue")],
      },
      table(
        [
          { label: "Lane", kind: "wide strong", cell: (row) => row.partition },
          { label: "Behind", right: true, cell: (row) => h("span", { class: row.offsetLag ? "strong" : "dim" }, count(row.offsetLag)) },
          { label: "Oldest", right: true, cell: (row) => (row.offsetLag ? seconds(row.timeLagSeconds) : "–") },
          { label: "Lease", cell: (row) => (row.leaseActive ? chip("held", "warn") : chip("free")) },
          { label: "Consumed", right: true, cell: (row) => count(row.totalConsumed) },
          { label: "Last served", right: true, cell: (row) => h("span", { title: row.lastConsumedAt ?? "" }, ago(row.lastConsumedAt)) },
        ],
        rows.slice(0, MOST),
        { label: `Lanes of ${queue}` },
      ),
      rows.length > MOST && h("p.loading", `${count(rows.length - MOST)} lanes with less are left out.`),
    );
  }

  await load();
  const timer = setInterval(() => document.hidden || document.querySelector("dialog[open]") || load().catch(() => {}), REFRESH);
  return () => clearInterval(timer);
}

const local = (time) => new Date(time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

/** Choose where to send a group, see what that would deliver, then do it. */
function seekDialog(group, queue, done) {
  const to = select([["beginning", "To the oldest message"], ["time", "To a time"], ["end", "Behind the newest message"]], { "data-test": "seek-to" });
  const time = input({ type: "datetime-local", value: local(new Date(Date.now() - 3_600_000)), "data-test": "seek-time" });
  const when = field("Time", time, "Everything pushed after it is delivered again.");
  const would = h("div.stack", { role: "status", "data-test": "seek-preview" });
  const target = () => ({ beginning: { toBeginning: true }, end: { toEnd: true }, time: { timestamp: new Date(time.value || Date.now()).toISOString() } })[to.value];
  const here = `/api/v1/consumer-groups/${part(group)}/queues/${part(queue)}/seek`;
  let turn = 0;

  async function look() {
    const mine = ++turn;
    when.hidden = to.value !== "time";
    when.style.display = when.hidden ? "none" : "";
    fill(would, h("p.dim", "Counting…"));
    try {
      const { preview: told } = await post(here, { ...target(), dryRun: true });
      const from = to.value === "time" ? target().timestamp : undefined;
      const first = told.messages ? kept(await getText("/api/v1/messages", { queue, from, limit: 5 }), "messages", ["payload"]).messages : [];
      if (mine !== turn) return;
      const change = told.messages - told.pending;
      fill(
        would,
        h("p", h("b", plural(told.messages, "message")), ` in ${plural(told.partitions, "lane")} would be delivered; ${plural(told.pending, "message")} now. `, change ? h("b", { class: change > 0 ? "warn" : "" }, change > 0 ? `${plural(change, "message")} again.` : `${plural(-change, "message")} would be skipped.`) : "Nothing changes."),
        first.length > 0 && h("div", h("h3", "The newest of them"), h("ul.line", first.map((each) => h("li", h("div", h("div.mono.cut", short(each.payload)), h("div.dim", `${each.partition} · ${clock(each.createdAt)}`)))))),
      );
    } catch (error) {
      if (mine === turn) fill(would, h("p.error-text", error.message));
    }
  }
  to.addEventListener("change", look);
  time.addEventListener("input", look);
  dialog({
    title: `Send ${groupName(group)} elsewhere on ${queue}`,
    wide: true,
    content: [field("Where", to), when, would, h("p", "Leases end; what is acknowledged under them no longer counts.")],
    actions: [{ label: "Seek", kind: "primary", submit: true, props: { "data-test": "seek-do" }, work: async () => {
      const moved = await post(here, target());
      toast(`${groupName(group)} was moved in ${plural(moved.partitionsUpdated, "lane")}`);
      attempt(done);
    } }],
  });
  look();
}
