// Redriving everything that fits a filter: counted first, then done in steps, with a bar and a way to stop.

import { post } from "../api.js";
import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { dialog, toast } from "./overlay.js";
import { field, input } from "./parts.js";

/** Letters per call. Between two calls it can be stopped. */
const STEP = 200;

/** Ask, then redrive what fits `filter` (as the API takes it). `done` at its end, however it ended. */
export async function redriveAll(filter, done) {
  const counted = await post("/api/v1/dlq/redrive", { filter, dryRun: true });
  const bar = h("progress", { max: Math.max(1, counted.matched), value: 0, "aria-label": "Redriven so far" });
  const text = h("p", { role: "status", "data-test": "redrive-state" }, `${plural(counted.matched, "dead letter")} of “${filter.queue}” fit the filter.`);
  const queue = input({ placeholder: "each to its own queue" });
  let [running, stopped] = [false, false];
  const opened = dialog({
    title: "Redrive all matching?",
    content: [text, bar, field("Into another queue", queue, "Lanes keep their names. Oldest failure first; each letter goes back once, whatever happens.")],
    actions: [{ label: "Redrive", kind: "primary", submit: true, props: { "data-test": "redrive-start", disabled: !counted.matched }, work: run }],
    onclose: () => {
      stopped = true;
      done();
    },
  });

  async function run() {
    if (running) {
      stopped = true;
      return false;
    }
    running = true;
    const [action] = opened.buttons;
    action.textContent = "Stop";
    let [cursor, moved, skipped] = [undefined, 0, 0];
    do {
      const step = await post("/api/v1/dlq/redrive", { filter, cursor, limit: STEP, destination: queue.value ? { queue: queue.value } : undefined });
      moved += step.redriven;
      skipped += step.skipped;
      cursor = step.cursor ?? undefined;
      bar.value = moved + skipped;
      text.textContent = `${count(moved)} of ${count(counted.matched)} sent back${skipped ? `, ${count(skipped)} passed over` : ""}`;
      if (step.error) throw new Error(step.error);
    } while (cursor && !stopped);
    toast(cursor ? `Stopped: ${count(moved)} sent back, the rest stays` : `${plural(moved, "dead letter")} sent back`);
    return true;
  }
}
