// Relevance over position: a bar for every word, and the shares of the two reading directions where the model has them.

import { element, signed, visible } from "../dom.js";

/** @typedef {import("../heatmap.js").Explanation & {encoders?: number[][]}} Explanation */

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 96;
const WIDEST = 5.5; // rem per word
const LEVEL = 16; // words whose names fit side by side; more names are turned
const NARROW = 24; // names that a phone has room for
const NAMED = 60; // words that have room for their names at all

/** @param {HTMLElement} box @param {Explanation} explanation @param {string} unit what a token is called */
export function paintPosition(box, explanation, unit) {
  const { relevance, encoders } = explanation;
  const charts = [[encoders?.length === 2 ? "Both directions together" : `Relevance of every ${unit}`, relevance]];
  if (encoders?.length === 2) charts.push(["Read from left to right", encoders[0]], ["Read from right to left", encoders[1]]);
  const everything = charts.flatMap(([, values]) => values);
  const scale = { largest: Math.max(0, ...everything.map(Math.abs)), isPositive: everything.every((value) => value >= 0) };
  box.replaceChildren(
    ...charts.map(([name, values]) => chart(name, values, scale, explanation)),
    names(explanation) ?? element("p", { class: "position-hint", text: `Point at a bar to see its ${unit}.` }),
    element("p", { class: "note", text: says(explanation, unit) }),
  );
}

/** The finding in one sentence. */
function says({ relevance, encoders }, unit) {
  const half = Math.ceil(relevance.length / 2);
  const amount = (values) => values.reduce((total, value) => total + Math.abs(value), 0);
  const all = amount(relevance);
  if (!all) return `No ${unit} has any relevance.`;
  const first = `The first half of the text holds ${Math.round((100 * amount(relevance.slice(0, half))) / all)} % of the relevance`;
  if (encoders?.length !== 2) return `${first} (signs left aside).`;
  const [left, right] = encoders.map(amount);
  return `${first}; the encoder that reads from left to right ${Math.round((100 * left) / (left + right || 1))} %, the other ${Math.round((100 * right) / (left + right || 1))} % (signs left aside).`;
}

function chart(name, values, scale, { tokens }) {
  const total = values.reduce((sum, value) => sum + value, 0);
  const label = `${name}: sum ${signed(total)}; ` + values.slice(0, 60).map((value, n) => `${tokens[n]} ${signed(value)}`).join(", ");
  const picture = document.createElementNS(SVG, "svg");
  const set = { viewBox: `0 0 ${Math.max(values.length, 1)} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": visible(label), class: scale.isPositive ? "positions is-positive" : "positions" };
  for (const [key, value] of Object.entries(set)) picture.setAttribute(key, value);
  values.forEach((value, n) => picture.append(bar(value, n, scale, tokens[n])));
  const figure = element("figure", { class: "position" },
    element("figcaption", {}, element("span", { text: name }), element("span", { class: "amount", text: signed(total) })), picture);
  figure.style.maxWidth = `${Math.max(18, WIDEST * values.length)}rem`;
  return figure;
}

/** The words below the bars, where there is room for them. */
function names({ tokens }) {
  if (tokens.length > NAMED) return null;
  const turned = (tokens.length > LEVEL ? " is-turned" : "") + (tokens.length > NARROW ? " is-many" : "");
  const row = element("div", { class: `position-names${turned}`, "aria-hidden": "true" }, ...tokens.map((token) => element("bdi", { text: visible(token), title: visible(token) })));
  row.style.maxWidth = `${Math.max(18, WIDEST * tokens.length)}rem`;
  return row;
}

/** A bar and a column over its whole height, so that a small one can be pointed at. */
function bar(value, n, { largest, isPositive }, token) {
  const zero = isPositive ? HEIGHT : HEIGHT / 2;
  const height = largest ? (Math.abs(value) / largest) * zero : 0;
  const made = document.createElementNS(SVG, "rect");
  const set = { x: n + 0.08, width: 0.84, y: value >= 0 ? zero - height : zero, height: Math.max(height, 0.5), class: value >= 0 ? "for" : "against" };
  for (const [key, each] of Object.entries(set)) made.setAttribute(key, String(each));
  const title = document.createElementNS(SVG, "title");
  title.textContent = `${visible(token)} ${signed(value)}`;
  const column = document.createElementNS(SVG, "rect");
  for (const [key, each] of Object.entries({ x: n, width: 1, y: 0, height: HEIGHT, class: "column" })) column.setAttribute(key, String(each));
  const group = document.createElementNS(SVG, "g");
  group.append(title, made, column);
  return group;
}
