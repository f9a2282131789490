// What happens, as it happens: one stream of events for the whole page, and what came of it in the last minutes.
//
// Events are read by `fetch`, not by EventSource, because that cannot carry credentials.

import { address, headers, whenUnauthorized } from "./api.js";

/** Seconds kept. */
export const KEPT = 300;
/** Seconds of a queue. */
const SPARK = 60;
/** What a server that others have looked at already knows, and tells a page that begins. */
const RECENT = 60;
const PAUSE = 2000;

const listeners = new Map();
let topics = new Set(["server"]);
let control = null;
let told401 = () => {};

/** Where everything is kept that pages draw. */
export const seen = {
  connected: false,
  /** The latest event by topic. */
  server: null,
  totals: null,
  waiting: null,
  /** Points of the last minutes: {at, push, pop, ack, errors, waiting, wake50, wake99, calls, cpu}. */
  points: [],
  /** By name of the queue: {push: [..], pop: [..], ack: [..], waiting}, one number per second that was heard of. */
  queues: new Map(),
  /** Seconds in which queues were heard of, and the time of the last. */
  heard: 0,
  heardAt: "",
};

/** Minutes of the history up to where seconds begin: what is shown live begins with what was before. */
export function joined(minutes, seconds, width = 60) {
  const begin = seconds[0]?.at ?? Infinity;
  // A minute is told by its first second; one that goes on into what is live is left out.
  return [...minutes.filter((point) => point.at + width <= begin), ...seconds];
}

/** Call `tell` at each event of `topic`; "state" is told when the stream begins or breaks. Answers how to stop it. */
export function listen(topic, tell) {
  const all = listeners.get(topic) ?? listeners.set(topic, new Set()).get(topic);
  all.add(tell);
  return () => all.delete(tell);
}

function tell(topic) {
  for (const each of listeners.get(topic) ?? []) each(seen[topic]);
}

/** Listen to these topics from now on. */
export function follow(wanted) {
  const next = new Set(["server", ...wanted]);
  const same = next.size === topics.size && [...next].every((topic) => topics.has(topic));
  topics = next;
  if (!same || !control) reconnect();
}

export function whenRefused(work) {
  told401 = work;
  whenUnauthorized(work);
}

export function stop() {
  control?.abort();
  control = null;
}

function reconnect() {
  control?.abort();
  control = new AbortController();
  run(control.signal);
}

async function run(signal) {
  while (!signal.aborted) {
    try {
      const url = address("/api/v1/events", { topics: [...topics].join(","), recent: seen.server ? undefined : RECENT });
      const answer = await fetch(url, { headers: headers(), signal, cache: "no-store" });
      if (answer.status === 401) {
        stop();
        told401();
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      state(true);
      await read(answer.body, signal);
    } catch {
      // Aborted on purpose, or the server is away: it is tried again.
    }
    if (signal.aborted) return;
    state(false);
    await new Promise((done) => setTimeout(done, PAUSE));
  }
}

function state(connected) {
  if (seen.connected === connected) return;
  seen.connected = connected;
  tell("state");
}

async function read(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!signal.aborted) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) take(event);
  }
}

function take(event) {
  const name = /^event: (.*)$/m.exec(event)?.[1];
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (!name || !data) return;
  const value = JSON.parse(data);
  if (name === "server") server(value);
  else if (name === "queues") queues(value);
  else seen[name] = value;
  tell(name);
}

function server(now) {
  const before = seen.server;
  seen.server = now;
  const at = Date.parse(now.at) / 1000;
  const span = before ? at - Date.parse(before.at) / 1000 : 0;
  // A server that started anew counts from zero; a tab that slept has a gap.
  if (!before || span <= 0 || span > 30 || now.uptimeMs < before.uptimeMs) return;
  const per = (of) => Math.max(0, of(now) - of(before)) / span;
  const point = {
    at,
    push: per((e) => e.push.messages),
    pop: per((e) => e.pop.messages),
    ack: per((e) => e.ack.messages),
    errors: per((e) => e.acksRejected + e.deadLettered + e.store.errors + e.push.refused + e.pop.refused + e.ack.refused),
    waiting: now.waiting,
    wake50: now.wake?.p50 ?? null,
    wake99: now.wake?.p99 ?? null,
    push99: now.pushLatency?.p99 ?? null,
    ack99: now.ackLatency?.p99 ?? null,
    calls: per((e) => e.store.calls),
    cpu: per((e) => e.cpuUs) / 10_000,
    pending: seen.totals ? seen.totals.messages.pending + seen.totals.messages.processing : null,
    lag: seen.totals?.lag.time.max ?? null,
  };
  seen.points.push(point);
  if (seen.points.length > KEPT) seen.points.shift();
}

function queues(event) {
  // What is told to those who come was heard before by those who come again.
  if (event.at <= seen.heardAt) return;
  seen.heardAt = event.at;
  seen.elapsed = event.elapsedMs / 1000 || 1;
  const moved = new Map(event.queues.map((queue) => [queue.name, queue]));
  for (const name of moved.keys()) rates(name);
  for (const [name, kept] of seen.queues) {
    const now = moved.get(name);
    push(kept.push, (now?.pushed ?? 0) / seen.elapsed);
    push(kept.pop, (now?.popped ?? 0) / seen.elapsed);
    push(kept.ack, (now?.acked ?? 0) / seen.elapsed);
    if (now) kept.waiting = now.waiting;
  }
  seen.heard = Math.min(SPARK, seen.heard + 1);
}

function push(list, value) {
  list.push(value);
  if (list.length > SPARK) list.shift();
}

/** The last minute of a queue, as far as anything was heard: a queue that is not told of did not move. */
export function rates(name) {
  const known = seen.queues.get(name);
  if (known) return known;
  const zeros = () => new Array(seen.heard).fill(0);
  const fresh = { push: zeros(), pop: zeros(), ack: zeros(), waiting: 0 };
  seen.queues.set(name, fresh);
  return fresh;
}
