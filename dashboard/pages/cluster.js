// The servers, what they hear each other by, the store behind them, and the switches that act on all of them.

import { get, post } from "../api.js";
import { listen, seen } from "../live.js";
import { fill, h } from "../components/dom.js";
import { ago, bytes, count, millis, plural, seconds } from "../components/format.js";
import { inboxFact } from "../components/inbox.js";
import { attempt } from "../components/overlay.js";
import { button, chip, empty, facts, pageHead, panel, table } from "../components/parts.js";

export const title = "Cluster";

const REFRESH = 5000;
const HEARD = { connected: "good", degraded: "warn", isolated: "bad", none: "" };

export async function show(root) {
  const [servers, carriers, store, switches, database] = [h("div"), h("div"), h("div"), h("div"), h("div.stack")];
  fill(
    root,
    pageHead("Cluster", { sub: "Servers on the same store, as this one sees them." }),
    h(
      "div.grid",
      wide("w7", panel("Servers", { note: "that are heard, or moved anything in the last hour", flush: true }, servers)),
      wide("w5", panel("Store", {}, store)),
      wide("w7", panel("Carriers", { note: "what servers hear each other by", flush: true }, carriers)),
      wide("w5", panel("Maintenance", { note: "for all servers" }, switches)),
      database,
    ),
  );

  async function load() {
    const from = new Date(Date.now() - 3_600_000).toISOString();
    const [health, status, system, postgres] = await Promise.all([
      get("/health").catch((error) => ({ failed: error.message })),
      get("/api/v1/status", { from }),
      get("/api/v1/analytics/system-metrics", { from }),
      get("/api/v1/analytics/postgres-stats"),
    ]);
    fill(servers, serverTable(status.workers, system.replicas, health.carriers ?? []));
    fill(carriers, carrierTable(health.carriers ?? []));
    fill(store, storeFacts(health));
    drawSwitches();
    fill(database, databasePanels(postgres));
  }

  function drawSwitches() {
    const now = seen.server;
    if (!now) return;
    const row = (label, about, on, path) =>
      h(
        "div.tools",
        { style: { justifyContent: "space-between", padding: "6px 0" } },
        h("div", h("b", label), " ", chip(on ? "on" : "off", on ? "warn" : ""), h("div.dim", about)),
        button(on ? "End it" : "Begin", () => flip(path, on, label), { kind: "small", "data-test": path.endsWith("pop") ? "pop-maintenance" : "push-maintenance" }),
      );
    fill(
      switches,
      row("Push maintenance", "Pushes are kept on disk and stored when it ends.", now.pushMaintenance, "/api/v1/system/maintenance"),
      row("Pop maintenance", "Nobody is handed anything; consumers go on waiting.", now.popMaintenance, "/api/v1/system/maintenance/pop"),
    );
  }

  const flip = (path, on, label) => attempt(() => post(path, { enabled: !on }), `${label} is ${on ? "off" : "on"}`);

  const stop = listen("server", drawSwitches);
  const timer = setInterval(() => document.hidden || load().catch(() => {}), REFRESH);
  await load();
  return () => {
    stop();
    clearInterval(timer);
  };
}

function wide(width, element) {
  element.classList.add(width);
  return element;
}

function serverTable(told, replicas, carriers) {
  // Others are told of by the history, which is a minute behind, and heard at once.
  const others = new Set(carriers.flatMap((carrier) => carrier.peers.filter((peer) => peer.healthy).map((peer) => peer.name)));
  told.forEach((worker) => others.delete(worker.workerId));
  const workers = [...told, ...[...others].map((workerId) => ({ workerId, heard: true }))];
  if (!workers.length) return empty("Nothing moved in the last hour", "Servers appear here when they push, deliver or acknowledge something.");
  const last = new Map(replicas.map((replica) => [replica.workerId, replica.timeSeries.at(-1)?.metrics]));
  return table(
    [
      { label: "Server", kind: "wide strong", cell: (row) => row.workerId },
      { label: "Host", kind: "name", cell: (row) => row.hostname ?? "–" },
      { label: "Processed", right: true, cell: (row) => (row.heard ? "–" : count(row.messagesProcessed)) },
      { label: "Memory", right: true, cell: (row) => (row.heard ? "–" : bytes(last.get(row.workerId)?.memory.rss_bytes?.last ?? last.get(row.workerId)?.memory.rssBytes?.last ?? 0)) },
      { label: "Loop delay", right: true, cell: (row) => (row.heard ? "–" : millis(row.avgEventLoopLagMs)) },
      { label: "Queued calls", right: true, cell: (row) => (row.heard ? "–" : count(row.jobQueueSize)) },
      { label: "Seen", right: true, cell: (row) => (row.heard ? chip("heard", "good") : ago(row.lastSeen)) },
    ],
    workers,
    { label: "Servers" },
  );
}

function carrierTable(carriers) {
  if (!carriers.length) return empty("No carriers", "This server hears no other. Servers that share a PostgreSQL hear each other by LISTEN and NOTIFY, or by UDP (--udp-peers).");
  const rows = carriers.flatMap((carrier) => [carrier, ...carrier.peers.map((peer) => ({ peer }))]);
  return table(
    [
      { label: "Carrier and peers", kind: "wide", cell: (row) => (row.peer ? h("span", { style: { paddingLeft: "18px" } }, row.peer.name) : h("b", row.name)) },
      { label: "State", cell: (row) => (row.peer ? chip(row.peer.healthy ? "heard" : "silent", row.peer.healthy ? "good" : "bad") : chip(row.state, HEARD[row.state])) },
      { label: "Round trip", right: true, cell: (row) => millis(row.peer ? row.peer.lastRoundTripMs : row.lastRoundTripMs) },
      { label: "Silent for", right: true, cell: (row) => (row.peer ? millis(row.peer.silentForMs) : "") },
    ],
    rows,
    { label: "Carriers" },
  );
}

function storeFacts(health) {
  if (health.failed) return h("p.bad", health.failed);
  const { store } = health;
  return facts([
    ["Engine", store.engine],
    ["State", chip(store.connected ? "connected" : "away", store.connected ? "good" : "bad")],
    ["Last error", store.lastError ? `${store.lastError} (${ago(store.lastErrorAt)})` : "none"],
    inboxFact(health.inbox),
    ["Calls", seen.server ? `${count(seen.server.store.calls)}, ${plural(seen.server.store.errors, "error")}` : "–"],
    ["Up for", seen.server ? seconds(seen.server.uptimeMs / 1000) : "–"],
    ["Version", health.version],
  ]);
}

function databasePanels(postgres) {
  const tables = postgres.tableSizes ?? [];
  if (!tables.length) return panel("PostgreSQL", {}, h("p.soft", "Messages are kept in files of this server; there is no database to look at. With --store=postgres://… its sizes, caches and queries are shown here."));
  const sized = table(
    [
      { label: "Table", kind: "wide strong", cell: (row) => row.table },
      { label: "Size", right: true, cell: (row) => bytes(row.totalBytes) },
      { label: "Indexes", right: true, cell: (row) => bytes(row.indexBytes) },
      { label: "Dead rows", right: true, cell: (row) => `${postgres.deadTuples.find((each) => each.table === row.table)?.deadPct ?? 0} %` },
      { label: "HOT updates", right: true, cell: (row) => `${postgres.hotUpdates.find((each) => each.table === row.table)?.hotPct ?? 0} %` },
      { label: "Cache hits", right: true, cell: (row) => share(postgres.tableCache.find((each) => each.table === row.table)?.hitRatio) },
      { label: "Last autovacuum", right: true, cell: (row) => ago(postgres.autovacuumStatus.find((each) => each.table === row.table)?.lastAutovacuum) },
    ],
    tables,
    { label: "Tables" },
  );
  const queries = table(
    [
      { label: "Query", kind: "wide mono", cell: (row) => h("span", { title: row.query }, row.query) },
      { label: "By", kind: "name", cell: (row) => row.application },
      { label: "State", cell: (row) => row.state },
      { label: "Waits for", cell: (row) => row.waitEvent ?? "–" },
      { label: "For", right: true, cell: (row) => millis(row.durationMs) },
    ],
    postgres.activeQueries,
    { label: "Active queries" },
  );
  return [panel("PostgreSQL: tables", { flush: true }, sized), panel("PostgreSQL: active queries", { flush: true }, postgres.activeQueries.length ? queries : h("p.loading", "None."))];
}

function share(ratio) {
  return ratio === undefined || ratio === null ? "–" : `${(ratio > 1 ? ratio : ratio * 100).toFixed(1)} %`;
}
