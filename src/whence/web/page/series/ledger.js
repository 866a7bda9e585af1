/** The ledger of a prediction: what every feature gave and what was absorbed, each where the line above ended, together the score. */

import { bars } from "../chart.js";
import { html } from "../chart/elements.js";
import { fixed } from "../chart/scale.js";

const KINDS = [
  [/stabiliser/, "stabiliser", "what keeps denominators off zero"],
  [/initial_state/, "initial state", "the network's state before the first step"],
  [/bias/, "biases", "what the network adds whatever it reads"],
  [/reference level/, "reference level", "where the prediction starts"],
  [/baseline score/, "baseline", "what the network gives for the baseline"],
  [/completeness gap/, "integration error", "what the points on the way from the baseline miss"],
  [/interactions/, "interactions", "what the steps give only together"],
];
const CLOSE = 1e-3; // relative; a score and a prediction nearer than this are the same number

/**
 * @param {Object} response of /api/series
 * @param {{features: string[], isSigned: boolean, addsUp: boolean}} shown the features' names; whether the method tells up from
 *   down; whether its relevance, with what was absorbed, adds up to the score
 * @returns {{element: HTMLElement, sum: number}}
 */
export function ledger({ relevance, absorbed, score, outputs, output, unit }, { features, isSigned, addsUp }) {
  const given = features.map((label, n) => ({ label, note: "", value: relevance.reduce((sum, row) => sum + row[n], 0) }));
  const rows = [...given, ...grouped(absorbed ?? {})];
  const sum = rows.reduce((total, { value }) => total + value, 0);
  if (!addsUp) return { element: apart(given, { isSigned }), sum };
  if (!isClose(sum, score)) rows.push({ label: "not accounted for", note: "by rounding", value: score - sum });
  const isPrediction = isClose(score, outputs[output]);
  const label = isPrediction ? "the prediction" : "the score";
  const note = isPrediction ? [output, unit].filter(Boolean).join(", ") : "the network's own number, before the function that ends it";
  return { element: drawn(rows, { label, note, value: score }), sum };
}

const isClose = (one, other) => Math.abs(one - other) <= CLOSE * Math.max(1, Math.abs(other));

/** What every feature got, where that is no part of the prediction. */
function apart(items, { isSigned }) {
  const say = fixed(Math.max(...items.map(({ value }) => Math.abs(value))), { isSigned });
  const chart = bars({ label: "Relevance by feature", items, showsLabel: false, heads: ["from", "relevance"], say });
  const words = "This method only says how much each value matters; its numbers do not add up to the prediction.";
  return html("div", {}, chart, html("p", { class: "series-total", text: words }));
}

/** One line each, then the total. */
function drawn(rows, total) {
  let at = 0;
  const lines = [
    ...rows.map((row) => ({ ...row, from: at, to: (at += row.value) })),
    { ...total, from: 0, to: total.value, isTotal: true },
  ];
  const ends = [0, ...lines.flatMap(({ from, to }) => [from, to])];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const share = (value) => (high > low ? (100 * (value - low)) / (high - low) : 0);
  const say = fixed(Math.max(...lines.map(({ value }) => Math.abs(value))));
  return html("dl", { class: "ledger" }, ...lines.map((line) => lineOf(line, { share, say })));
}

function lineOf({ label, note, value, from, to, isTotal }, { share, say }) {
  const zero = html("span", { class: "zero" });
  zero.style.left = `${share(0)}%`;
  const step = html("span", { class: "step" });
  step.style.left = `${share(Math.min(from, to))}%`;
  step.style.width = `${Math.abs(share(to) - share(from))}%`;
  return html(
    "div",
    { class: `line${isTotal ? " total" : ""}${value < 0 ? " is-against" : ""}` },
    html("dt", { dir: "auto" }, html("span", { class: "name", text: label }), html("small", { text: note })),
    html("dd", { class: "amount", text: say(value) }),
    html("dd", { class: "track", "aria-hidden": "true" }, zero, step),
  );
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
