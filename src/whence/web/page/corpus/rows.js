/** The rows of a corpus: what is known of each, which are shown and in which order. */

import { probabilities } from "../dom.js";

/**
 * @typedef {Object} Row
 * @property {number} row its number in the file
 * @property {string} text
 * @property {string|null} label as written
 * @property {(string|null)[]} others the cells of the other columns
 * @property {string|null} truth the class that the label names
 * @property {Object|null} explanation
 * @property {string|null} error
 * @property {number|null} probability of the predicted class
 * @property {boolean|null} isRight null without a label that names a class
 */

/** A row before it is explained. @returns {Row} */
export function newRow({ row, text, label, truth, others }) {
  return { row, text, label, truth, others, explanation: null, error: null, probability: null, isRight: null };
}

/** Keep what the service said of a row. @param {Row} row @param {{explanation?: Object, error?: string}} result */
export function fill(row, { explanation = null, error = null }) {
  row.explanation = explanation;
  row.error = error;
  if (!explanation) return;
  row.probability = probabilities(explanation.scores)[explanation.predicted];
  row.isRight = row.truth === null ? null : row.truth === explanation.predicted;
}

/**
 * The rows that a filter lets through.
 * @param {Row[]} rows
 * @param {{words: string, predicted: string, verdict: ""|"right"|"wrong"|"error"}} filter every word must occur; "" lets all through
 */
export function filtered(rows, { words, predicted, verdict }) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    if (predicted && row.explanation?.predicted !== predicted) return false;
    if (verdict === "right" && row.isRight !== true) return false;
    if (verdict === "wrong" && row.isRight !== false) return false;
    if (verdict === "error" && row.error === null) return false;
    if (!wanted.length) return true;
    const text = (row.text ?? "").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/**
 * Rows in order of a column; rows without a value come last in both directions.
 * @param {Row[]} rows
 * @param {{column: string, isDown: boolean}} order
 * @param {string[]} classes predicted classes and labels are ordered as the model orders them
 */
export function sorted(rows, { column, isDown }, classes) {
  const rank = (name) => (classes.includes(name) ? classes.indexOf(name) : (name ?? null));
  const key = {
    row: ({ row }) => row,
    text: ({ text }) => text?.toLowerCase() || null,
    predicted: ({ explanation }) => (explanation ? rank(explanation.predicted) : null),
    probability: ({ probability }) => probability,
    label: ({ truth, label }) => (truth ? rank(truth) : label),
  }[column];
  const way = isDown ? -1 : 1;
  return rows
    .map((row) => [key(row), row])
    .sort(([a, one], [b, other]) => {
      if (a === null || b === null) return (a === null) - (b === null) || one.row - other.row;
      const order = typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
      return way * order || one.row - other.row;
    })
    .map(([, row]) => row);
}

/** How often each class was predicted, how many were right, how many failed. @param {Row[]} rows @param {string[]} classes */
export function counts(rows, classes) {
  const predicted = Object.fromEntries(classes.map((name) => [name, 0]));
  const found = { predicted, explained: 0, right: 0, judged: 0, failed: 0 };
  for (const { explanation, error, isRight } of rows) {
    if (error !== null) found.failed += 1;
    if (!explanation) continue;
    found.explained += 1;
    predicted[explanation.predicted] += 1;
    if (isRight !== null) found.judged += 1;
    if (isRight) found.right += 1;
  }
  return found;
}
