// A state out of an address, checked against what the service offers; and back, without what is as usual.

import { visible } from "../dom.js";

/** @typedef {import("./store.js").State} State */

export const PARTS = ["settings", "position", "second", "python", "curve"];
const LONGEST_TEXT = 50_000;
/** The settings of LRP run from 0 to these. */
export const LARGEST = { epsilon: Number.MAX_VALUE, delta: 1 };

/** What a token of a model is called. @param {any} models @param {string} name */
export const unitOf = (models, name) => (models.models.find((model) => model.name === name)?.reads === "characters" ? "character" : "word");

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
    versus: oneOf(given.versus, ["", "rest", ...classes.filter((name) => name !== given.target)], ""),
    epsilon: within(given.epsilon, LARGEST.epsilon),
    delta: within(given.delta, LARGEST.delta),
    compare: oneOf(given.compare, others, ""),
    second: string(given.second, ""),
    selection: numbers(given.selection).length === 2 ? /** @type {[number, number]} */ (numbers(given.selection).sort((a, b) => a - b)) : null,
    open: Array.isArray(given.open) ? PARTS.filter((part) => given.open.includes(part)) : [],
  };
}

/**
 * What a link asked for and did not get, a sentence each.
 * @param {any} given @param {State} state made of it @param {any} models @returns {string[]}
 */
export function unmet(given, state, models) {
  const shown = { model: state.model, method: models.methods.find(({ name }) => name === state.method)?.label ?? state.method };
  const sentence = (name, noun, instead) => {
    const wanted = given[name];
    if (wanted === undefined || wanted === null || wanted === state[name]) return [];
    return [`The link asked for the ${noun} ${quoted(wanted)}, which is not offered here; ${instead}.`];
  };
  return [
    ...sentence("model", "model", `${shown.model} is shown`),
    ...sentence("method", "method", `${shown.method} is shown`),
    ...sentence("target", "class", "the predicted class is explained"),
    ...sentence("versus", "comparison with", "the class is explained on its own"),
    ...sentence("compare", "comparison", "nothing is shown beside it"),
    ...sentence("epsilon", "epsilon", "the method's own is used"),
    ...sentence("delta", "delta", "the method's own is used"),
  ];
}

/** What somebody wrote into a link, short and visible. @param {unknown} value */
function quoted(value) {
  const text = visible(typeof value === "string" ? value : JSON.stringify(value));
  return `‘${text.length > 40 ? `${text.slice(0, 40)}…` : text}’`;
}

/** As a text field keeps it: with plain line ends. */
const string = (value, otherwise) => (typeof value === "string" ? value.slice(0, LONGEST_TEXT).replaceAll(/\r\n?/g, "\n") : otherwise);
const oneOf = (value, known, otherwise) => (known.includes(value) ? value : otherwise);
const within = (value, largest) => (typeof value === "number" && Number.isFinite(value) && value >= 0 && value <= largest ? value : null);
const numbers = (value) =>
  Array.isArray(value) ? value.filter((each) => Number.isInteger(each) && each >= 0 && each < 100_000).slice(0, 10_000) : [];
