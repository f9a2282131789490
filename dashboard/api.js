// The public API, as this page uses it. Nothing here that anybody else could not call.

const KEY = "bugle.token";

/** What a refused request says. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

let onUnauthorized = () => {};

/** Who is told when credentials are asked for. */
export function whenUnauthorized(tell) {
  onUnauthorized = tell;
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

export function headers() {
  const known = token.get();
  return known ? { Authorization: `Bearer ${known}` } : {};
}

/** `path` with a query of what is neither empty nor absent. */
export function address(path, query = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(wanted).toString();
  return text ? `${path}?${text}` : path;
}

async function call(method, path, { query, body, signal, written } = {}) {
  const options = { method, headers: headers(), signal, cache: "no-store" };
  if (body !== undefined) {
    options.body = typeof body === "string" ? body : JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(address(path, query), options);
  const text = await answer.text();
  if (answer.ok && written) return text;
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = { error: text };
  }
  if (answer.ok) return value;
  if (answer.status === 401) onUnauthorized();
  throw new Refused(answer.status, value?.error ?? `${answer.status} ${answer.statusText}`);
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
/** The answer as it is written, for what must not be read and written again. */
export const getText = (path, query) => call("GET", path, { query, written: true });
export const post = (path, body) => call("POST", path, { body });
export const remove = (path, query) => call("DELETE", path, { query });

/** A name as part of a path. */
export const part = (name) => encodeURIComponent(name);
