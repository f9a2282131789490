// Signing in, where authentication is on. The token stays in this tab and goes nowhere but to this server.

import { fill, h } from "../components/dom.js";
import { field, input } from "../components/parts.js";
import { token } from "../api.js";

/** Ask for a token or an API key; `done` when one is accepted. */
export function login(root, reason, done) {
  const text = input({ type: "password", name: "token", "data-test": "token", autocomplete: "current-password", required: true });
  const error = h("p.error-text", { role: "alert" }, reason ?? "");
  const submit = async (event) => {
    event.preventDefault();
    error.textContent = "";
    const answer = await fetch("/api/v1/resources/overview", { headers: { Authorization: `Bearer ${text.value.trim()}` } }).catch(() => null);
    if (!answer) error.textContent = "The server does not answer.";
    else if (answer.status === 401) error.textContent = "This token or key is not accepted.";
    else if (answer.status === 403) error.textContent = "This token or key may not read. Use one with the role read-only or more.";
    else {
      token.set(text.value.trim());
      done();
    }
  };
  const form = h(
    "form.panel",
    { onsubmit: submit },
    h("h1", "Sign in to Bugle"),
    h("p.soft", "This server asks who you are. Use a token (JWT) or an API key; it is kept until this tab is closed."),
    field("Token or API key", text),
    error,
    h("button.button.primary", { type: "submit", "data-test": "sign-in" }, "Sign in"),
  );
  document.title = "Sign in · Bugle";
  fill(root, h("main.login", { id: "main" }, form));
  text.focus();
}
