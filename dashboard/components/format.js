// Numbers, times and names as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 1234567 → 1.23 M; below 10,000 every digit. */
export function count(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (Math.abs(n) < 10_000) return whole.format(n);
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(n) >= size) return `${(n / size).toPrecision(3)} ${unit}`;
  }
  return whole.format(n);
}

/** Per second: small rates with a digit behind the point. */
export function rate(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (n === 0) return "0";
  if (n < 0.1) return "<0.1";
  return n < 10 ? n.toFixed(1) : count(n);
}

/** Milliseconds. */
export function millis(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0";
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return seconds(ms / 1000);
}

/** Seconds as the two largest units that matter. */
export function seconds(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0) s = 0;
  if (s === 0) return "0 s";
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const [m, h, d] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
  if (h < 1) return `${m} min ${Math.floor(s % 60)} s`;
  if (d < 1) return `${h} h ${m % 60} min`;
  return `${d} d ${h % 24} h`;
}

export function bytes(n) {
  if (!n) return "0 B";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(n) / 10));
  return `${(n / 2 ** (10 * power)).toFixed(power ? 1 : 0)} ${units[power]}`;
}

/** How long ago a time was. */
export function ago(time) {
  if (!time) return "–";
  const s = (Date.now() - Date.parse(time)) / 1000;
  return s < 2 ? "just now" : `${seconds(s).split(" ").slice(0, 2).join(" ")} ago`;
}

/** A time of today by the clock, any other with its date. */
export function clock(time) {
  if (!time) return "–";
  const at = new Date(time);
  const parts = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  const today = new Date().toDateString() === at.toDateString();
  return at.toLocaleString("en-GB", today ? parts : { ...parts, day: "2-digit", month: "short" });
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A long id by its ends: those made together begin alike. */
export function shortId(id) {
  return id.length > 24 ? `${id.slice(0, 8)}…${id.slice(-8)}` : id;
}

/** The group of consumers that name none. */
export const QUEUE_MODE = "__QUEUE_MODE__";

export function groupName(name) {
  return name === QUEUE_MODE ? "(no group)" : name;
}
