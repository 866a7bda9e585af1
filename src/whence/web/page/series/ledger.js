/** The ledger of a prediction: what every feature gave and what was absorbed, together the score. */

import { bars } from "../chart.js";
import { html } from "../chart/elements.js";
import { fixed, short } from "../chart/scale.js";

const KINDS = [
  [/stabiliser/, "stabiliser", "what keeps denominators off zero"],
  [/initial_state/, "initial state", "the network's state before the first step"],
  [/bias/, "biases", "what the network adds whatever it reads"],
  [/reference level/, "reference level", "where the prediction starts"],
];
const CLOSE = 1e-3; // relative; a score and a prediction nearer than this are the same number

/**
 * @param {Object} response of /api/series
 * @param {{features: string[], isSigned: boolean}} shown the features' names; whether the method's relevance adds up to the score
 * @returns {{element: HTMLElement, sum: number}}
 */
export function ledger({ relevance, absorbed, score, outputs, output, unit }, { features, isSigned }) {
  const given = features.map((name, n) => ({ label: name, value: relevance.reduce((sum, row) => sum + row[n], 0) }));
  const rest = grouped(absorbed ?? {});
  const sum = [...given, ...rest].reduce((total, { value }) => total + value, 0);
  const items = [...given, ...rest.map((item) => ({ ...item, class: "is-absorbed", hasBar: false }))];
  const chart = bars({
    label: "Relevance by feature, and what was absorbed",
    items,
    showsLabel: false,
    heads: ["from", "relevance"],
    say: fixed(Math.max(...items.map(({ value }) => Math.abs(value))), { isSigned }),
  });
  const isPrediction = Math.abs(score - outputs[output]) <= CLOSE * Math.max(1, Math.abs(score));
  const total = html(
    "p",
    { class: "series-total" },
    isSigned
      ? totalWords(sum, score, isPrediction, unit)
      : "This method only says how much each value matters; its numbers do not add up to the prediction.",
  );
  return { element: html("div", {}, chart, total), sum };
}

function totalWords(sum, score, isPrediction, unit) {
  const name = isPrediction ? "the prediction" : "the score, the network's own number before its units";
  const isWhole = Math.abs(sum - score) <= CLOSE * Math.max(1, Math.abs(score));
  if (isWhole) return `Together ${short(sum, 4)}${isPrediction && unit ? ` ${unit}` : ""}: ${name}.`;
  return `Together ${short(sum, 4)}; ${name} is ${short(score, 4)}. This method's relevance need not add up.`;
}

/** Absorbed amounts by kind, each with what it is; names of no known kind stand for themselves. */
function grouped(absorbed) {
  const found = new Map();
  for (const [name, amount] of Object.entries(absorbed)) {
    const [, label, note] = KINDS.find(([pattern]) => pattern.test(name)) ?? [null, name, ""];
    const value = (found.get(label)?.value ?? 0) + amount;
    found.set(label, { label, note, value });
  }
  return [...found.values()].filter(({ value }) => value !== 0);
}
