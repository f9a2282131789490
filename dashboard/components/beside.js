// What opens beside a list, and closes again: by its button, by Esc, or when there is nothing left of it.

import { fill } from "./dom.js";
import { attempt } from "./overlay.js";
import { loading } from "./parts.js";

/**
 * `split` holds the list and `place`; rows of the list carry `data-row`. `load` draws the list anew. The focus goes to what
 * opened, and back to its row.
 */
export function beside(split, place, load) {
  let chosen = null;

  async function open(id, make) {
    chosen = id;
    split.classList.add("open");
    fill(place, loading());
    const made = await attempt(async () => fill(place, await make()));
    if (!made) return close();
    await load();
    if (chosen === id) place.querySelector("[data-close]")?.focus({ preventScroll: true });
  }

  async function close() {
    const before = chosen;
    chosen = null;
    split.classList.remove("open");
    fill(place);
    await load();
    if (chosen !== null || document.querySelector("dialog[open]")) return;
    const row = before && split.querySelector(`[data-row="${CSS.escape(before)}"]`);
    (row || split.querySelector("[data-row]") || split.querySelector("[data-filter]"))?.focus({ preventScroll: true });
  }

  return { open, close, is: (id) => id === chosen };
}
