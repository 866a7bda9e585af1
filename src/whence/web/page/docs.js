// The page at /docs: the service's own description, /openapi.json, made readable.

import { getDescription } from "./api.js";
import { byId, element } from "./dom.js";

async function start() {
  const api = await getDescription();
  if (api.info?.description) byId("about").textContent = api.info.description;
  const routes = Object.entries(api.paths ?? {}).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => ({ path, verb: verb.toUpperCase(), operation, id: `${verb}${path.replaceAll(/[^a-z0-9]+/gi, "-")}` })),
  );
  byId("contents").append(...routes.map(({ path, id }) => element("a", { href: `#${id}`, text: path })));
  byId("routes").append(...routes.map((route) => section(route, api)));
  if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function section({ path, verb, operation, id }, api) {
  const asked = content(operation.requestBody, api);
  const good = Object.entries(operation.responses ?? {}).find(([status]) => status.startsWith("2"));
  const gives = good ? content(good[1], api) : null;
  return element("section", { class: "route", id },
    element("h2", {}, element("span", { class: "verb", text: verb }), path),
    operation.summary ? element("p", { text: operation.summary }) : null,
    operation.description ? element("p", { class: "note", text: operation.description }) : null,
    asked ? element("h3", { text: "Request" }) : null,
    asked ? fields(asked, api) : null,
    asked && verb === "POST" ? example(path, asked) : null,
    gives?.properties ? element("h3", { text: "Answer" }) : null,
    gives?.properties ? fields(gives, api) : null,
    statuses(operation.responses ?? {}));
}

/** The schema of a body, whatever its media type. */
function content(body, api) {
  const found = Object.values(resolve(body, api)?.content ?? {}).find((media) => media.schema);
  return found ? resolve(found.schema, api) : null;
}

/** Follow a reference inside the description. @param {any} schema @param {any} api */
function resolve(schema, api) {
  const path = schema?.$ref;
  if (typeof path !== "string" || !path.startsWith("#/")) return schema;
  return path.slice(2).split("/").reduce((place, name) => place?.[name], api);
}

function fields(schema, api) {
  const required = new Set(schema.required ?? []);
  const row = ([name, raw]) => {
    const field = resolve(raw, api) ?? {};
    const usual = field.default === undefined || field.default === null ? "" : ` Default: ${JSON.stringify(field.default)}.`;
    return element("tr", {},
      element("th", { scope: "row" }, name, required.has(name) ? element("span", { class: "must", text: "required" }) : null),
      element("td", { class: "kind", text: kind(raw, api) }),
      element("td", { text: `${field.description ?? raw.description ?? ""}${usual}`.trim() }));
  };
  return element("table", { class: "fields" }, element("tbody", {}, ...Object.entries(schema.properties ?? {}).map(row)));
}

/** A type in a few words: "list of numbers", "text", "one of lrp, sa, gi". */
function kind(raw, api, depth = 0) {
  const schema = resolve(raw, api) ?? {};
  if (schema.enum) return `one of ${schema.enum.join(", ")}`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return [...new Set(several.filter((each) => each.type !== "null").map((each) => kind(each, api, depth)))].join(" or ");
  if (schema.type === "array") {
    if (schema.prefixItems) return `[${schema.prefixItems.map((each) => kind(each, api, depth + 1)).join(", ")}]`;
    return `list of ${plural(kind(schema.items, api, depth + 1))}`;
  }
  if (schema.type === "object" && schema.additionalProperties && !schema.properties) return `object of ${kind(schema.additionalProperties, api, depth + 1)}`;
  if (schema.properties && depth < 2) return `{${Object.keys(schema.properties).join(", ")}}`;
  return { string: "text", integer: "whole number", number: "number", boolean: "true or false" }[schema.type] ?? schema.type ?? "anything";
}

/** "list of texts", "list of lists of numbers". @param {string} name */
function plural(name) {
  if (name.startsWith("list of ")) return `lists of ${name.slice(8)}`;
  return ["text", "number", "whole number"].includes(name) ? `${name}s` : name;
}

const SAMPLES = { texts: ["neither funny nor suspenseful"], text: "neither funny nor suspenseful", values: [[0.1], [0.2]] };

/** A call that can be pasted into a shell. */
function example(path, schema) {
  const body = Object.fromEntries((schema.required ?? []).map((name) => [name, SAMPLES[name] ?? null]));
  return element("pre", { tabIndex: 0, "aria-label": "Example" },
    element("code", { text: `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body)}'` }));
}

function statuses(responses) {
  const rows = Object.entries(responses).flatMap(([status, { description }]) => [element("dt", { text: status }), element("dd", { text: description ?? "" })]);
  return element("dl", { class: "statuses" }, ...rows);
}

start().catch((error) => {
  byId("message").textContent = error.message;
});
