// A state out of an address, checked against what the service offers; and back, without what is as usual.

/** @typedef {import("./store.js").State} State */

export const PARTS = ["settings", "position", "second", "python", "curve"];
const LONGEST_TEXT = 50_000;

/** The state of a first visit. @param {any} models @returns {State} */
export function usual(models) {
  return {
    text: models.examples[0]?.text ?? "",
    deleted: [],
    before: null,
    model: models.default.text ?? "",
    method: models.methods[0]?.name ?? "lrp",
    target: "predicted",
    versus: "",
    epsilon: null,
    delta: null,
    compare: "",
    second: "",
    selection: null,
    open: [],
  };
}

/** @param {State} state @param {any} models @returns {Partial<State>} only what differs from the usual, and always the text */
export function toPlain(state, models) {
  const normal = usual(models);
  const differs = ([name, value]) => name === "text" || JSON.stringify(value) !== JSON.stringify(normal[name]);
  return Object.fromEntries(Object.entries(state).filter(differs));
}

/** A whole state out of plain data of unknown origin. @param {any} given @param {any} models @returns {State} */
export function fromPlain(given, models) {
  const normal = usual(models);
  const textModels = models.models.filter((model) => model.kind === "text");
  const model = oneOf(given.model, textModels.map((each) => each.name), normal.model);
  const classes = textModels.find((each) => each.name === model)?.classes ?? [];
  const methods = models.methods.map((method) => method.name);
  const others = [...methods.map((name) => `method:${name}`), ...textModels.map((each) => `model:${each.name}`)];
  const deleted = numbers(given.deleted);
  return {
    text: string(given.text, normal.text),
    deleted: [...new Set(deleted)],
    before: typeof given.before === "string" ? string(given.before, "") : null,
    model,
    method: oneOf(given.method, methods, normal.method),
    target: oneOf(given.target, ["predicted", "all", ...classes], "predicted"),
    versus: oneOf(given.versus, ["", "rest", ...classes], ""),
    epsilon: positive(given.epsilon),
    delta: positive(given.delta),
    compare: oneOf(given.compare, others, ""),
    second: string(given.second, ""),
    selection: numbers(given.selection).length === 2 ? /** @type {[number, number]} */ (numbers(given.selection).sort((a, b) => a - b)) : null,
    open: Array.isArray(given.open) ? PARTS.filter((part) => given.open.includes(part)) : [],
  };
}

/** As a text field keeps it: with plain line ends. */
const string = (value, otherwise) => (typeof value === "string" ? value.slice(0, LONGEST_TEXT).replaceAll(/\r\n?/g, "\n") : otherwise);
const oneOf = (value, known, otherwise) => (known.includes(value) ? value : otherwise);
const positive = (value) => (typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null);
const numbers = (value) =>
  Array.isArray(value) ? value.filter((each) => Number.isInteger(each) && each >= 0 && each < 100_000).slice(0, 10_000) : [];
