// The frame around every page: navigation, the state of the connection, the theme.

import { fill, h, icon } from "./dom.js";
import { count, seconds } from "./format.js";
import { help } from "./overlay.js";
import { listen, seen } from "../live.js";
import { token } from "../api.js";

const PLACES = [
  ["overview", "Overview", "#/"],
  ["queues", "Queues", "#/queues"],
  ["messages", "Messages", "#/messages"],
  ["letters", "Dead letters", "#/dead-letters"],
  ["groups", "Consumer groups", "#/groups"],
  ["waiting", "Waiting room", "#/waiting"],
  ["cluster", "Cluster", "#/cluster"],
  ["traces", "Traces", "#/traces"],
];

const THEMES = ["auto", "light", "dark"];

/** The theme that is chosen. */
export function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

/** Choose the next theme. */
export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  localStorage.setItem("bugle.theme", next);
  dispatchEvent(new Event("bugle-theme"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("bugle-theme")));

/** Build the frame; answers where pages go, and how to mark where one is. */
export function shell(root, leave) {
  const links = PLACES.map(([name, label, href]) => {
    const number = h("span.count");
    return { name, number, link: h("a", { href }, icon(name), h("span", label), number) };
  });
  const pulse = h("div.pulse", h("i"), h("span", "Connecting…"));
  const version = h("span.version");
  const themeButton = h("button.icon-button", { type: "button", onclick: nextTheme });
  const showTheme = () => {
    fill(themeButton, icon(theme()));
    themeButton.setAttribute("aria-label", `Theme: ${theme()}. Change it`);
    themeButton.title = `Theme: ${theme()}`;
  };
  showTheme();
  addEventListener("bugle-theme", showTheme);
  const main = h("main.page", { id: "main", tabindex: "-1" });
  const brand = h("a.brand", { href: "#/", "aria-label": "Bugle, overview" }, h("img", { src: logo(), alt: "" }), h("span", "Bugle"));
  fill(
    root,
    h(
      "div.shell",
      h(
        "div.side",
        brand,
        h("nav.nav", { "aria-label": "Pages" }, links.map((each) => each.link)),
        h(
          "div.foot",
          pulse,
          h(
            "div.row",
            themeButton,
            h("button.icon-button", { type: "button", "aria-label": "Keys", title: "Keys (?)", onclick: help }, icon("help")),
            token.get() && h("button.icon-button", { type: "button", "aria-label": "Sign out", title: "Sign out", onclick: leave }, icon("out")),
            version,
          ),
        ),
      ),
      main,
    ),
  );

  const state = () => {
    pulse.className = `pulse ${seen.connected ? "on" : "off"}`;
    pulse.lastChild.textContent = seen.connected ? "Live" : "Not connected";
  };
  const numbers = () => {
    const by = (name) => links.find((each) => each.name === name).number;
    if (seen.server) {
      by("waiting").textContent = seen.server.waiting ? count(seen.server.waiting) : "";
      pulse.title = `Up for ${seconds(seen.server.uptimeMs / 1000)}, store: ${seen.server.store.engine}`;
    }
    if (seen.totals) {
      by("queues").textContent = count(seen.totals.queues);
      const dead = seen.totals.messages.deadLetter;
      by("letters").textContent = dead ? count(dead) : "";
      by("letters").className = dead ? "count bad" : "count";
    }
  };
  listen("state", state);
  listen("server", numbers);
  listen("totals", numbers);
  return {
    main,
    setVersion: (text) => (version.textContent = text),
    mark: (name) => {
      for (const each of links) {
        if (each.name === name) {
          each.link.setAttribute("aria-current", "page");
          // On a small screen the places lie side by side, and not all are in view.
          each.link.parentElement.scrollLeft = each.link.offsetLeft - 120;
        } else each.link.removeAttribute("aria-current");
      }
    },
  };
}

function logo() {
  return new URL("../icon.svg", import.meta.url).pathname;
}
