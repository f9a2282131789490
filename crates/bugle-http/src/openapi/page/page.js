"use strict";
// Shows openapi.json. Everything is made of text nodes: nothing of the description is taken for markup.
(async () => {
  const main = document.querySelector("main"), nav = document.querySelector("nav");
  const METHODS = ["get", "post", "put", "delete"];
  let api;

  /** An element with a class, and children that are elements or texts. */
  const make = (tag, name, ...children) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  };

  /** What a reference refers to. */
  const follow = (thing) =>
    thing && thing.$ref ? thing.$ref.slice(2).split("/").reduce((at, part) => at[part], api) : thing;

  /** Text with `code` and **bold** in it. */
  const prose = (text) =>
    text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
      if (part.startsWith("`")) return make("code", "", part.slice(1, -1));
      if (part.startsWith("**")) return make("b", "", part.slice(2, -2));
      return part;
    });
  const paragraphs = (text) => text.split("\n\n").map((part) => make("p", "", ...prose(part)));

  /** The schemas that one is put together from. */
  const parts = (schema) => {
    schema = follow(schema);
    return schema && schema.allOf ? [schema, ...schema.allOf.flatMap(parts)] : [schema || {}];
  };
  const fieldsOf = (schema) => {
    const found = new Map();
    for (const part of parts(schema)) {
      // Required fields come in the order of the code, the others by name.
      const order = [...new Set([...(part.required || []), ...Object.keys(part.properties || {})])];
      for (const name of order) {
        if (part.properties && part.properties[name]) found.set(name, { ...(found.get(name) || {}), ...part.properties[name] });
      }
    }
    return found;
  };
  const required = (schema) => new Set(parts(schema).flatMap((part) => part.required || []));

  /** A schema in a few words. */
  const kind = (schema) => {
    if (!schema) return "";
    if (schema.$ref) return schema.$ref.split("/").pop();
    if ("const" in schema) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
    const choice = schema.anyOf || schema.oneOf;
    if (choice && !schema.properties) return [...new Set(choice.map(kind))].join(" | ");
    if (schema.not) return schema.not.type ? `any JSON but ${schema.not.type}` : "any JSON";
    const types = [].concat(schema.type || []);
    const words = types.map((type) => {
      if (type === "array") return `list of ${kind(schema.items)}`;
      if (type === "object" && schema.additionalProperties && schema.additionalProperties.$ref) return `${kind(schema.additionalProperties)} by name`;
      if (type === "string" && schema.format) return schema.format;
      return type;
    });
    return words.join(" | ") || "any JSON";
  };
  const limits = (schema) => {
    const said = [];
    const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
    if (minimum !== undefined && maximum !== undefined) said.push(`${minimum} to ${maximum}`);
    else if (minimum !== undefined) said.push(`at least ${minimum}`);
    else if (maximum !== undefined) said.push(`at most ${maximum}`);
    if (minLength !== undefined && maxLength !== undefined) said.push(`${minLength} to ${maxLength} characters`);
    else if (maxLength !== undefined) said.push(`at most ${maxLength} characters`);
    else if (minLength !== undefined) said.push("not empty");
    if (minItems) said.push(`at least ${minItems}`);
    if (maxItems) said.push(`at most ${maxItems}`);
    if (schema.default !== undefined) said.push(`default ${JSON.stringify(schema.default)}`);
    return said.join(", ");
  };

  /** The schema inside others that has fields of its own. */
  const inner = (schema) => {
    for (const part of [schema, ...(schema.anyOf || []), ...(schema.oneOf || [])]) {
      const found = follow(part);
      if (!found) continue;
      if (fieldsOf(found).size) return found;
      if (found.items) return inner(found.items);
      if (found.additionalProperties && typeof found.additionalProperties === "object") return inner(found.additionalProperties);
      if (part !== schema && (found.oneOf || found.anyOf)) return inner(found);
    }
    return null;
  };

  /** A row of a table of fields. */
  const row = (name, must, schema, about, open) => {
    const label = make("td", "", make("code", must ? "must" : "", name));
    const limit = limits(schema);
    const text = make("td", "", make("span", "kind", kind(schema) + (limit ? ` · ${limit}` : "")), ...(about ? prose(about) : []));
    const deeper = inner(schema);
    if (deeper && open < 6) text.append(lazily("Fields", () => table(deeper, open + 1)));
    return make("tr", "", label, text);
  };
  const table = (schema, open = 0) => {
    const must = required(schema);
    const rows = [...fieldsOf(schema)].map(([name, field]) => row(name, must.has(name), field, field.description, open));
    return make("table", "fields", make("tbody", "", ...rows));
  };
  /** Something that is made when it is first looked at. */
  const lazily = (label, content) => {
    const details = make("details", "more", make("summary", "", label));
    details.addEventListener("toggle", () => details.childElementCount === 1 && details.append(content()), { once: true });
    return details;
  };

  /** A value that fits a schema. */
  const sample = (schema, depth = 0) => {
    schema = follow(schema) || {};
    if (schema.example !== undefined) return schema.example;
    if (schema.default !== undefined) return schema.default;
    if ("const" in schema) return schema.const;
    if (schema.enum) return schema.enum[0];
    const fields = fieldsOf(schema);
    if (fields.size && depth < 6) return Object.fromEntries([...fields].map(([name, field]) => [name, sample(field, depth + 1)]));
    const choice = schema.anyOf || schema.oneOf;
    if (choice) return sample(choice[0], depth + 1);
    const type = [].concat(schema.type || "object")[0];
    if (type === "array") return depth < 6 ? [sample(schema.items, depth + 1)] : [];
    if (type === "boolean") return true;
    if (type === "integer" || type === "number") return Math.max(schema.minimum || 0, 1);
    if (type === "string") {
      if (schema.format === "uuid") return "019a8c1e-7f3b-7c55-9a43-0f6c1d2e3b4a";
      return schema.format === "date-time" ? "2026-01-31T12:00:00.000Z" : "text";
    }
    if (schema.additionalProperties && depth < 6) return { name: sample(schema.additionalProperties, depth + 1) };
    return {};
  };
  const pretty = (value) => make("pre", "", JSON.stringify(value, null, 2));

  /** A line for the shell. */
  const curl = (method, path, operation) => {
    const base = location.href.replace(/\/docs.*$/, "");
    const quote = (text) => `'${text.replace(/'/g, `'\\''`)}'`;
    const at = path.replace(/\{(\w+)\}/g, (whole, name) => {
      const found = (operation.parameters || []).find((parameter) => parameter.name === name);
      return encodeURIComponent(found && found.example ? found.example : name);
    });
    const words = ["curl -s"];
    if (method === "delete") words.push("-X DELETE");
    if (operation.security.length && keyed) words.push(`-H ${quote("Authorization: Bearer …")}`);
    words.push(quote(base + at));
    const body = operation.requestBody && operation.requestBody.content["application/json"];
    if (body) words.push(`-d ${quote(JSON.stringify(body.example))}`);
    else if (method === "post") words.push("-X POST");
    return words.join(" ");
  };
  const shell = (line) => {
    const button = make("button", "", "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(line);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    return make("div", "try", make("pre", "", line), button);
  };

  const answer = (status, told) => {
    const { description, headers, content } = follow(told);
    const body = make("div", "", ...prose(description));
    const said = Object.keys(headers || {}).filter((name) => name !== "X-Request-Id");
    const kinds = Object.keys(content || {});
    const facts = [kinds.length && kinds[0] !== "application/json" ? kinds.join(" or ") : kinds.slice(1).join(" or "), said.length ? `header ${said.join(", ")}` : ""].filter(Boolean);
    if (facts.length) body.append(make("div", "told", facts.join(" · ")));
    const json = content && content["application/json"];
    if (json && status < 300) {
      const schema = json.schema, fields = inner(schema);
      const list = follow(schema).type === "array" ? " of each entry" : "";
      if (fields) body.append(lazily(`Fields${list}`, () => table(fields)));
      body.append(lazily("Example", () => pretty(json.example !== undefined ? json.example : sample(schema))));
    }
    const tone = status < 300 ? "good" : status < 500 && status !== "429" ? "bad" : "away";
    return make("div", "answer", make("b", tone, status), body);
  };

  const operation = (id, method, path, said) => {
    const path_ = make("span", "path");
    for (const part of path.split(/(\{\w+\})/)) path_.append(part.startsWith("{") ? make("i", "", part) : part);
    const summary = make("summary", "", make("span", `verb ${method}`, method.toUpperCase()), path_, make("span", "what", said.summary));
    const card = make("details", "operation", summary);
    card.id = id;
    const fill = () => {
      if (card.childElementCount > 1) return;
      const inside = make("div", "inside", ...(said.description ? paragraphs(said.description) : []));
      const roles = said["x-roles"];
      const who = roles ? roles.map((role) => make("span", "", role)) : ["everybody"];
      inside.append(make("p", "roles", "For ", ...who));
      inside.append(make("h3", "", "Try it"), shell(curl(method, path, said)));
      if (said.parameters) {
        const rows = said.parameters.map((p) => row(p.name, p.required, p.schema, p.description, 9));
        inside.append(make("h3", "", "Parameters"), make("table", "fields", make("tbody", "", ...rows)));
      }
      if (said.requestBody) {
        const { schema, example } = said.requestBody.content["application/json"];
        const optional = said.requestBody.required ? "" : " (may be left out)";
        const known = schema.anyOf ? schema.anyOf[0] : schema;
        inside.append(make("h3", "", `Body${optional}`), table(known), lazily("Example", () => pretty(example)));
      }
      inside.append(make("h3", "", "Answers"), ...Object.entries(said.responses).map(([status, told]) => answer(status, told)));
      card.append(inside);
    };
    card.addEventListener("toggle", () => card.open && fill());
    return { card, open: () => { fill(); card.open = true; } };
  };

  try {
    api = await (await fetch("openapi.json")).json();
  } catch (error) {
    main.replaceChildren(make("p", "wait", `openapi.json could not be read: ${error}`));
    return;
  }
  const keyed = Boolean(api.components.securitySchemes);
  const intro = make("div", "intro", make("h1", "", `${api.info.title} API`), make("p", "lead", `Version ${api.info.version}`), ...paragraphs(api.info.description));
  const entries = [], sections = [];
  for (const tag of api.tags) {
    const section = make("section", "", make("h2", "", tag.name), make("p", "lead", tag.description));
    const title = make("h2", "", tag.name);
    nav.append(title);
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const method of METHODS.filter((m) => methods[m] && methods[m].tags.includes(tag.name))) {
        const said = methods[method];
        const { card, open } = operation(said.operationId, method, path, said);
        const link = make("a", "", make("span", `verb ${method}`, method === "delete" ? "DEL" : method.toUpperCase()), said.summary);
        link.href = `#${said.operationId}`;
        link.addEventListener("click", () => { open(); nav.classList.remove("open"); });
        const words = `${method} ${path} ${said.summary} ${said.operationId} ${tag.name}`.toLowerCase();
        entries.push({ card, link, words, section, title, id: said.operationId, open });
        section.append(card);
        nav.append(link);
      }
    }
    sections.push(section);
  }
  main.replaceChildren(intro, ...sections);

  document.querySelector("#find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    intro.classList.toggle("hidden", wanted.length > 0);
    const kept = new Set();
    for (const entry of entries) {
      const fits = wanted.every((word) => entry.words.includes(word));
      entry.card.classList.toggle("hidden", !fits);
      entry.link.classList.toggle("hidden", !fits);
      if (fits) kept.add(entry.section).add(entry.title);
    }
    for (const { section, title } of entries) for (const part of [section, title]) part.classList.toggle("hidden", !kept.has(part));
  });
  const menu = document.querySelector("#menu");
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", nav.classList.toggle("open")));

  const go = () => {
    const entry = entries.find(({ id }) => `#${id}` === location.hash);
    for (const { link } of entries) link.classList.toggle("here", Boolean(entry) && link === entry.link);
    if (!entry) return;
    entry.open();
    entry.card.scrollIntoView({ behavior: "instant" });
  };
  addEventListener("hashchange", go);
  go();
})();
