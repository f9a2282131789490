// Pushing a message by hand.

import { post } from "../api.js";
import { h } from "./dom.js";
import { dialog, toast } from "./overlay.js";
import { field, input } from "./parts.js";

/** Ask what to push, and push it. `done` when it is stored. */
export function pushDialog(queue = "", done) {
  const name = input({ value: queue, required: true, "data-test": "push-queue", placeholder: "orders" });
  const lane = input({ value: "Default", required: true, "data-test": "push-partition" });
  const id = input({ "data-test": "push-id", placeholder: "made by the server if empty" });
  const payload = h("textarea.input", { "data-test": "push-payload", spellcheck: "false", rows: 8 });
  payload.value = '{\n  "hello": "world"\n}';
  dialog({
    title: "Push a message",
    content: [
      h("div.options", field("Queue", name), field("Lane (partition)", lane), field("Transaction id", id, "A second push with the same id is stored once.")),
      field("Payload, as JSON", payload),
    ],
    wide: true,
    actions: [
      {
        label: "Push",
        kind: "primary",
        submit: true,
        props: { "data-test": "push-send" },
        work: async () => {
          try {
            JSON.parse(payload.value);
          } catch (error) {
            throw new Error(`The payload is no JSON: ${error.message}`);
          }
          // The payload goes as it was typed: reading and writing it again could change its numbers.
          const rest = { queue: name.value, partition: lane.value || undefined, transactionId: id.value || undefined };
          const [result] = await post("/api/v1/push", `{"items":[${JSON.stringify(rest).slice(0, -1)},"payload":${payload.value}}]}`);
          if (result.status === "failed") throw new Error(result.error ?? "The push failed.");
          toast(result.status === "duplicate" ? "This transaction id is there already; nothing was stored" : `Message ${result.transaction_id} is ${result.status}`);
          done?.();
        },
      },
    ],
  });
  (queue ? payload : name).focus();
}
