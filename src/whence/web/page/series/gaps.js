/** Missing values: all of them are named at once, and filled only when the reader says with what. */

import { CsvError } from "../csv.js";

/** @typedef {{with: "before"} | {with: "reference", values: number[]}} Fill the value before, or a value for every feature */

/** Values are missing; the reader may have them filled. */
export class GapError extends CsvError {}

/**
 * The values without gaps.
 * @param {(number|null)[][]} rows in order of time
 * @param {{features: string[], lines: number[], fill: Fill|null}} options names, the line of every row, what gaps become
 * @returns {{values: number[][], note: string}} `note` says how many were filled
 * @throws {GapError} when there are gaps and nothing to fill them with
 */
export function filled(rows, { features, lines, fill }) {
  const gaps = rows.flatMap((row, step) => row.flatMap((value, n) => (value === null ? [{ step, n }] : [])));
  if (!gaps.length) return { values: rows, note: "" };
  if (!fill) throw new GapError(said(gaps, { features, lines }));
  if (fill.with === "reference") {
    const values = rows.map((row) => row.map((value, n) => value ?? fill.values[n]));
    return { values, note: `${counted(gaps.length)} filled with the reference value.` };
  }
  const starts = features.map((name, n) => startOf(rows, n, name));
  const last = starts.map((step, n) => rows[step][n]);
  const values = rows.map((row) => row.map((value, n) => (last[n] = value ?? last[n])));
  const early = gaps.filter(({ step, n }) => step < starts[n]).length;
  const start = early ? `, ${early} at the start with the first value after` : "";
  return { values, note: `${counted(gaps.length)} filled with the value before${start}.` };
}

/** The first step with a value. */
function startOf(rows, n, name) {
  const step = rows.findIndex((row) => row[n] !== null);
  if (step < 0) throw new CsvError(`The column ${name} has no value at all.`);
  return step;
}

const counted = (count) => `${count} missing ${count === 1 ? "value was" : "values were"}`;

function said(gaps, { features, lines }) {
  const first = gaps.reduce((found, gap) => (lines[gap.step] < lines[found.step] ? gap : found));
  const where = `in line ${lines[first.step]}, column ${features[first.n]}`;
  const many = gaps.length === 1 ? `1 value is missing, ${where}` : `${gaps.length} values are missing, the first ${where}`;
  return `${many}. Fill ${gaps.length === 1 ? "it" : "them"} in the file, or here:`;
}
