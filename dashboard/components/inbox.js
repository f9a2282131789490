// What applications have pushed in their own transactions and no queue has taken yet.

import { h } from "./dom.js";
import { count, millis, plural } from "./format.js";
import { chip } from "./parts.js";

/** Servers count no further. */
const COUNTED = 10_000;

/** Name and value for `facts`; nothing where the store has no inbox. */
export function inboxFact(inbox) {
  if (!inbox) return null;
  if (!inbox.waiting && !inbox.blocked) return ["Inbox", "empty"];
  const number = inbox.waiting < COUNTED ? count(inbox.waiting) : `${count(COUNTED)} or more`;
  const more = inbox.blocked - inbox.blockedQueues.length;
  return [
    "Inbox",
    [
      inbox.blocked ? chip(`${plural(inbox.blocked, "queue")} blocked`, "warn") : null,
      ` ${number} waiting, the oldest for ${millis(inbox.oldestMs)}`,
      inbox.blockedQueues.map((each) => h("div", h("a", { href: `#/queues/${encodeURIComponent(each.queue)}` }, each.reason))),
      more > 0 ? h("div.dim", `and ${plural(more, "queue")} more`) : null,
    ],
  ];
}
