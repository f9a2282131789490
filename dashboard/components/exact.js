// JSON as it is written. Payloads carry numbers that this language cannot hold (ids of 64 bits, prices with a zero at the end):
// read into values and written again they would be others. So what people look at and change is the text.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** A number that would be another one if it were read. */
export class Exact {
  constructor(text) {
    this.text = text;
  }
}

/** What a text says, with numbers kept as they are written. */
export function read(text) {
  const tokens = text.match(TOKEN);
  let at = 0;
  function inside(end, take) {
    while (tokens[at] !== end) {
      if (tokens[at] === ",") at++;
      take();
    }
    at++;
  }
  function value() {
    const token = tokens[at++];
    if (token === "[") {
      const list = [];
      inside("]", () => list.push(value()));
      return list;
    }
    if (token === "{") {
      // Without a prototype, so that no name means something else.
      const object = Object.create(null);
      inside("}", () => {
        const name = JSON.parse(tokens[at]);
        at += 2;
        object[name] = value();
      });
      return object;
    }
    const plain = JSON.parse(token);
    return typeof plain === "number" && String(plain) !== token ? new Exact(token) : plain;
  }
  return value();
}

/** The pieces of a list or an object, as they are written: [[name or number, text]]. */
export function pieces(text) {
  const found = [];
  let [depth, start, name] = [0, -1, null];
  const named = text.trimStart().startsWith("{");
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (depth === 1 && (token === "," || closes) && start >= 0) {
      found.push([named ? name : found.length, text.slice(start, index).trimEnd()]);
      [start, name] = [-1, null];
    } else if (depth === 1 && named && name === null) {
      if (token !== "," && !closes) name = JSON.parse(token);
    } else if (depth === 1 && start < 0 && !closes && token !== ":" && token !== ",") {
      start = index;
    }
    if (token === "{" || token === "[") depth++;
    if (closes) depth--;
  }
  return found;
}

/** One piece of an object. */
export function piece(text, name) {
  return pieces(text).find(([each]) => each === name)?.[1];
}

/** An answer with a list, in whose entries what is named stays as it is written. */
export function kept(text, list, names) {
  const answer = JSON.parse(text);
  pieces(piece(text, list)).forEach(([, entry], n) => names.forEach((name) => (answer[list][n][name] = piece(entry, name) ?? "null")));
  return answer;
}

/** The same with a line for each piece: nothing but spaces and ends of lines is changed. */
export function spaced(text) {
  const tokens = text.match(TOKEN) ?? [];
  let [written, depth] = ["", 0];
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, n) => {
    const empty = (token === "}" || token === "]") && (tokens[n - 1] === "{" || tokens[n - 1] === "[");
    if (token === "{" || token === "[") {
      depth++;
      written += tokens[n + 1] === "}" || tokens[n + 1] === "]" ? token : token + line();
    } else if (token === "}" || token === "]") {
      depth--;
      written += empty ? token : line() + token;
    } else {
      written += token === "," ? token + line() : token === ":" ? ": " : token;
    }
  });
  return written;
}
