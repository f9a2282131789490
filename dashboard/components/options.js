// The options of a queue as a form. Only what was changed is sent, so that two people do not undo each other.

import { post } from "../api.js";
import { fill, h } from "./dom.js";
import { attempt } from "./overlay.js";
import { button, field, input } from "./parts.js";

const N = "number";
const B = "flag";
const GROUPS = [
  ["Delivery", [
    ["leaseTime", N, "Lease, seconds", "How long a consumer may work on what it got."],
    ["retryLimit", N, "Retries", "Failed deliveries before a message is given up."],
    ["retryDelay", N, "Retry delay, ms", "Acts where it is enforced, see below."],
    ["delayedProcessing", N, "Delay, seconds", "Between a push and its delivery."],
    ["windowBuffer", N, "Window, seconds", "Quiet time a lane must have before it is delivered."],
    ["minPopWaitTime", N, "Batch wait, ms", "How long a waiting pop may be held to fill its batch."],
    ["priority", N, "Priority", "Weight in pops by namespace or task. Acts where it is enforced."],
    ["paused", B, "Paused", "Deliver nothing for now; pushes and acknowledgements go on."],
  ]],
  ["Dead letters", [
    ["deadLetterQueue", B, "Keep what is given up", "Messages are dropped only if both are off."],
    ["dlqAfterMaxRetries", B, "Keep after the last retry", "The same, by the name other clients use."],
  ]],
  ["What is kept, and for how long", [
    ["retentionEnabled", B, "Delete by age", "Switches the two beside it."],
    ["retentionSeconds", N, "Any message, seconds", "Age at which it goes, read or not; 0 is never."],
    ["completedRetentionSeconds", N, "Read by all, seconds", "Age at which it goes; 0 is never."],
    ["maxWaitTimeSeconds", N, "Read by nobody, seconds", "Age at which it goes; 0 is never."],
    ["ttl", N, "Expiry, seconds", "Age at which it is not delivered any more. Acts where it is enforced."],
    ["maxSize", N, "Most messages", "More are refused. Acts where it is enforced; 0 is no limit."],
    ["dedupWindowSeconds", N, "Ids remembered, seconds", "A push with the same id is stored once; 0 is off."],
    ["encryptionEnabled", B, "Encrypt payloads", "Needs a key in the server's settings."],
  ]],
];
const ENFORCED = ["retryDelay", "priority", "maxSize", "ttl"];

/** Put the form into `place`. `saved` is told what the server answered. */
export function optionsForm(place, queue, detail, saved) {
  const { options } = detail;
  const inputs = new Map();
  const namespace = input({ value: detail.namespace });
  const task = input({ value: detail.task });
  const sections = GROUPS.map(([title, list]) => [
    h("h3", title),
    list.map(([name, kind, label, about]) => {
      if (kind === B) {
        const box = h("input", { type: "checkbox", checked: options[name], "data-option": name });
        inputs.set(name, () => box.checked);
        return h("label.check", box, h("span.field", h("span", label), h("small", about)));
      }
      const box = input({ type: "number", value: options[name], "data-option": name });
      inputs.set(name, () => (box.value === "" ? null : Number(box.value)));
      return field(label, box, about);
    }),
  ]);
  const enforce = ENFORCED.map((name) => {
    const box = h("input", { type: "checkbox", checked: options.enforce.includes(name) });
    return { name, box, label: h("label.check", box, h("span", name)) };
  });
  const save = async () => {
    const changed = {};
    for (const [name, read] of inputs) if (read() !== options[name]) changed[name] = read();
    const acts = enforce.filter((each) => each.box.checked).map((each) => each.name);
    if (acts.slice().sort().join() !== options.enforce.slice().sort().join()) changed.enforce = acts;
    const body = { queue, options: changed };
    if (namespace.value !== detail.namespace) body.namespace = namespace.value;
    if (task.value !== detail.task) body.task = task.value;
    if (!Object.keys(changed).length && Object.keys(body).length === 2) return attempt(async () => true, "Nothing was changed");
    const answer = await attempt(() => post("/api/v1/configure", body), "Saved");
    if (!answer) return undefined;
    await saved({ namespace: answer.namespace, task: answer.task });
    // Numbers out of range come back as they were cut.
    return optionsForm(place, queue, { ...detail, namespace: answer.namespace, task: answer.task, options: answer.options }, saved);
  };
  fill(
    place,
    h(
      "form",
      { onsubmit: (event) => { event.preventDefault(); save(); } },
      h(
        "div.options",
        sections,
        h("h3", "Which of the options that other servers only store act here"),
        enforce.map((each) => each.label),
        h("h3", "Where it belongs"),
        field("Namespace", namespace),
        field("Task", task),
      ),
      h("div.tools", { style: { marginTop: "18px" } }, h("button.button.primary", { type: "submit", "data-test": "save-options" }, "Save options"), button("Reset", () => optionsForm(place, queue, detail, saved), { kind: "bare" })),
    ),
  );
}
