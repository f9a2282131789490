// What lies above a page: dialogs, typed confirmation, short notices.

import { fill, h } from "./dom.js";

const toasts = h("div.toasts", { role: "status", "aria-live": "polite" });

/** Say something for a moment. */
export function toast(text, bad = false) {
  if (!toasts.isConnected) document.body.append(toasts);
  const one = h("div.toast", { class: bad ? "bad" : "" }, text);
  toasts.append(one);
  while (toasts.childElementCount > 3) toasts.firstChild.remove();
  setTimeout(() => one.remove(), bad ? 8000 : 4000);
}

/** Do something that may be refused, and say so if it is. Answers undefined then. */
export async function attempt(work, done) {
  try {
    const value = await work();
    if (done) toast(typeof done === "function" ? done(value) : done);
    return value ?? true;
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, true);
    return undefined;
  }
}

/**
 * A dialog. `content` are elements; `actions` [{label, kind, work}] where `work` answers false to stay open.
 * What is refused is told inside.
 */
export function dialog({ title, content, actions = [], wide = false, onclose }) {
  const error = h("p.error-text", { role: "alert" });
  const box = h("dialog", { class: wide ? "wide" : "", "aria-label": title });
  const close = () => box.close();
  const submit = actions.find((action) => action.submit);
  const buttons = actions.map((action) =>
    h(`button.button${action.kind ? `.${action.kind.split(" ").join(".")}` : ""}`, { type: action.submit ? "submit" : "button", onclick: action.submit ? undefined : () => run(action), ...(action.props ?? {}) }, action.label),
  );
  async function run(action) {
    error.textContent = "";
    buttons.forEach((button) => (button.dataset.was = button.disabled));
    try {
      if ((await action.work?.({ close, error })) !== false) close();
    } catch (refused) {
      error.textContent = refused.message;
    }
  }
  const form = h(
    "form",
    { method: "dialog", onsubmit: (event) => { event.preventDefault(); if (submit) run(submit); } },
    h("h2", title),
    content,
    error,
    h("div.tools", h("button.button.bare", { type: "button", onclick: close }, "Cancel"), buttons),
  );
  box.append(form);
  box.addEventListener("close", () => {
    box.remove();
    onclose?.();
  });
  document.body.append(box);
  box.showModal();
  return { box, close, buttons, error };
}

/** Ask for the name of what is about to be lost. */
export function confirmTyped({ title, text, name, action, work }) {
  const input = h("input.input", { type: "text", autocomplete: "off", spellcheck: "false", id: "confirm-name", "data-test": "confirm-name" });
  const opened = dialog({
    title,
    content: [
      h("p", text),
      h("div.field", h("label", { for: "confirm-name" }, "Type ", h("b.mono", name), " to go on"), input),
    ],
    actions: [{ label: action, kind: "danger primary", submit: true, props: { disabled: true, "data-test": "confirm" }, work: () => (input.value === name ? work() : false) }],
  });
  input.addEventListener("input", () => (opened.buttons[0].disabled = input.value !== name));
  input.focus();
  return opened;
}

const SHORTCUTS = [
  ["/", "Filter the list on this page"],
  ["g o", "Overview"],
  ["g q", "Queues"],
  ["g m", "Messages"],
  ["g d", "Dead letters"],
  ["g c", "Consumer groups"],
  ["g w", "Waiting room"],
  ["g s", "Cluster (servers)"],
  ["g t", "Traces"],
  ["t", "Light, dark, or as the system has it"],
  ["Esc", "Close what is open"],
  ["?", "This list"],
];

/** Which keys do what. */
export function help() {
  const rows = SHORTCUTS.map(([keys, what]) => [
    h("span", keys.split(" ").map((key) => [h("kbd", key), " "])),
    h("span", what),
  ]);
  dialog({ title: "Keys", content: [h("div.keys", rows), h("p", "The API behind all of this is described at ", h("a", { href: "/docs" }, "/docs"), ".")] });
}

export { fill };
