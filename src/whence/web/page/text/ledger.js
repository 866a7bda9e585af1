// Where the score comes from: words for, words against, biases, …; one row each, starting where the row above ended.

import { element, signed } from "../dom.js";
import { goal } from "../heatmap.js";

/** @typedef {import("../heatmap.js").Explanation} Explanation */

const LEAST = 0.005; // what is shown as 0.00 is not counted
const KINDS = [
  [/bias/, "biases", "what the layers add, weighted by this text"],
  [/stabiliser/, "stabiliser", "what epsilon kept"],
  [/initial/, "initial states", "where the recurrent layers start"],
  [/baseline score/, "baseline", "the score without any of them"],
  [/completeness gap/, "integration error", "what the points on the way from the baseline miss"],
  [/interactions/, "interactions", "what they give only together"],
];

/** The amounts that add up to the score. @param {Explanation} explanation @param {string} [unit] what a token is called @returns {{name: string, note: string, value: number}[]} */
export function amounts({ relevance, absorbed = {}, tokens, deleted = [] }, unit = "word") {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const count = (values) => values.filter((value) => Math.abs(value) >= LEAST).length;
  const [speaking, against] = [relevance.filter((value) => value > 0), relevance.filter((value) => value < 0)];
  const all = tokens.length - deleted.length;
  const silent = all - count(speaking) - count(against);
  const neither = silent > 0 ? `; ${silent} ${silent === 1 ? "says" : "say"} nothing` : "";
  const rows = [
    { name: `${unit}s for`, note: `${count(speaking)} of ${all}`, value: sum(speaking) },
    { name: `${unit}s against`, note: `${count(against)} of ${all}${neither}`, value: sum(against) },
  ];
  const groups = new Map();
  for (const [layer, value] of Object.entries(absorbed)) {
    const [, name, note] = KINDS.find(([pattern]) => pattern.test(layer)) ?? [null, layer, ""];
    const group = groups.get(name) ?? { name, note, value: 0 };
    group.value += value;
    groups.set(name, group);
  }
  return [...rows, ...groups.values()];
}

/**
 * The amounts in hundredths so that they add up to the rounded total: what rounding loses goes to the amounts it changed most.
 * @param {number[]} values @param {number} total @returns {number[]}
 */
export function adding(values, total) {
  const hundredths = values.map((value) => Math.round(100 * value));
  const missing = Math.round(100 * total) - hundredths.reduce((sum, value) => sum + value, 0);
  const lost = (n) => Math.sign(missing) * (100 * values[n] - hundredths[n]);
  const order = values.map((_, n) => n).sort((a, b) => lost(b) - lost(a));
  for (const n of order.slice(0, Math.abs(missing))) hundredths[n] += Math.sign(missing);
  return hundredths.map((value) => value / 100);
}

/** A method whose numbers are no parts of the score gets a sentence instead of a sum. @param {HTMLElement} box @param {Explanation} explanation @param {{addsUp: boolean, label: string, unit: string}} method */
export function paintLedger(box, explanation, { addsUp, label, unit }) {
  box.classList.toggle("is-plain", !addsUp);
  if (!addsUp) {
    delete box.dataset.sum;
    box.replaceChildren(element("p", { class: "note", text: `${label[0].toUpperCase()}${label.slice(1)} says how much each ${unit} matters, not how the score of ${goal(explanation)} (${signed(explanation.score)}) adds up.` }));
    return;
  }
  const rows = amounts(explanation, unit);
  const sum = rows.reduce((total, { value }) => total + value, 0);
  box.dataset.sum = String(sum);
  const gap = explanation.score - sum;
  if (Math.abs(gap) >= LEAST) {
    rows.push({ name: "not accounted for", note: "by rounding", value: gap });
  }
  draw(box, rows, { name: "score", note: goal(explanation), value: explanation.score });
}

function draw(box, rows, total) {
  let at = 0;
  const shown = adding(rows.map(({ value }) => value), total.value);
  const steps = rows.map((row, n) => ({ ...row, shown: shown[n], from: at, to: (at += row.value) }));
  steps.push({ ...total, shown: total.value, from: 0, to: total.value, isTotal: true });
  const ends = steps.flatMap(({ from, to }) => [from, to]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const place = (value) => (high > low ? (100 * (value - low)) / (high - low) : 0);
  const list = box.querySelector("dl") ?? element("dl", { class: "ledger" });
  while (list.children.length > steps.length) list.lastChild.remove();
  while (list.children.length < steps.length) list.append(line());
  steps.forEach((step, n) => fill(list.children[n], step, place));
  if (!list.isConnected) box.replaceChildren(list);
}

const line = () =>
  element("div", { class: "line" },
    element("dt", {}, element("span", { class: "name" }), element("small")),
    element("dd", { class: "amount" }),
    element("dd", { class: "track", "aria-hidden": "true" }, element("span", { class: "zero" }), element("span", { class: "step" })));

function fill(row, { name, note, value, shown, from, to, isTotal }, place) {
  row.classList.toggle("total", Boolean(isTotal));
  row.classList.toggle("is-against", value < 0);
  row.querySelector(".name").textContent = name;
  row.querySelector("small").textContent = note;
  row.querySelector(".amount").textContent = signed(shown);
  row.querySelector(".zero").style.left = `${place(0)}%`;
  const step = row.querySelector(".step");
  step.style.left = `${place(Math.min(from, to))}%`;
  step.style.width = `${Math.abs(place(to) - place(from))}%`;
}
