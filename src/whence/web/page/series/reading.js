/** From the text of a CSV file to a series: which column is which feature, which holds dates, and every cell as a number. */

import { CsvError, parse } from "../csv.js";
import { directionOf, timesOf } from "./dates.js";
import { filled } from "./gaps.js";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const WITH_COMMA = /^[+-]?\d*,\d+(e[+-]?\d+)?$/i;
const LABELS = /^(date|time|timestamp|day|hour|week|month|year|step|index|label|id|t)?$/i; // names of a first column that is no feature
const MISSING = new Set(["", "na", "n/a", "nan", "null", "none", "nil", "?", "-", "–", "."]);
const TURNED = "The file begins with the newest date; it was put in order of time, because the model reads the oldest first.";
const JUMBLED = "The dates run neither forward nor backward; the lines were read in the order of the file.";

/**
 * @typedef {Object} Series
 * @property {string[]} labels a name for every step: the dates of the file, else "step 0", "step 1", …
 * @property {boolean} hasLabels whether they come from the file
 * @property {string[]} features the model's, or the columns of the file for a model that reads any
 * @property {number[][]} values one number per feature and step
 * @property {string[]} notes what the reader should know about how the file was read
 */

/**
 * A series for a model.
 * @param {string} text
 * @param {{features: string[], limit: number, step?: string, fill?: import("./gaps.js").Fill}} model its features (none: it reads
 *   any), the most steps, the name of one step, and what missing values become (without it they are refused)
 * @returns {Series}
 * @throws {CsvError} with a sentence that names line and column
 */
export function readSeries(text, { features: wanted, limit, step = "step", fill = null }) {
  const { records, separator } = parse(text);
  if (!records.length) throw new CsvError("There is no line with values. Paste or upload a CSV with one line per step.");
  const first = records[0].cells.map((cell) => cell.trim());
  const hasHead = !first.some((cell) => isNumber(cell)) || first.some((cell) => wanted.some((name) => same(cell, name)));
  const rows = hasHead ? records.slice(1) : records;
  const file = { wanted, width: first.length, line: records[0].line };
  const { features, places, label, times, notes } = matched(hasHead ? first : null, rows, file);
  if (!rows.length) throw new CsvError("The file has a header but no line with values.");
  if (rows.length > limit)
    throw new CsvError(`The file has ${rows.length} steps; at most ${limit} are taken. Cut it and try again.`);
  for (const row of rows) requireWidth(row, first.length, separator);
  const direction = times ? directionOf(times) : 1;
  const ordered = direction < 0 ? [...rows].reverse() : rows;
  const hasPoint = rows.some(({ cells }) => places.some((place) => cells[place].includes(".")));
  const isComma = !hasPoint && rows.some(({ cells }) => places.some((place) => cells[place].includes(",")));
  const read = ordered.map((row) => numbers(row, places, { features, hasPoint }));
  const { values, note } = filled(read, { features, lines: ordered.map(({ line }) => line), fill });
  const labels = ordered.map(({ cells }, n) => (label === null ? "" : cells[label].trim()) || `${step} ${n}`);
  const order = direction < 0 ? [TURNED] : direction === 0 ? [JUMBLED] : [];
  const more = [...order, ...(isComma ? ["Commas were read as decimal commas."] : []), ...(note ? [note] : [])];
  return { labels, hasLabels: label !== null, features, values, notes: [...notes, ...more] };
}

/**
 * Which column holds which feature, which the labels, and what to tell the reader. Labels are the first column of dates that is
 * no feature, else a first column of text or with a name such as "step".
 */
function matched(head, rows, { wanted, width, line }) {
  const twice = head && wanted.find((name) => head.filter((cell) => same(cell, name)).length > 1);
  if (twice) throw new CsvError(`Line ${line}: the column “${twice}” stands there twice.`);
  const named = head ? wanted.map((name) => head.findIndex((cell) => same(cell, name))) : [];
  const isNamed = wanted.length > 0 && head !== null && named.every((place) => place >= 0);
  const columns = Array.from({ length: width }, (_, place) => rows.map(({ cells }) => (cells[place] ?? "").trim()));
  const free = columns.map((_, place) => place).filter((place) => !isNamed || !named.includes(place));
  const found = dated(columns, free) ?? { label: firstLabel(head, columns, free), times: null };
  if (isNamed) return { features: wanted, places: named, ...found, notes: unused(head, free, found.label) };
  return byPlace(head, columns, { wanted, ...found });
}

/** The first of these columns that holds dates, and their times. */
function dated(columns, free) {
  for (const label of free) {
    const times = timesOf(columns[label]);
    if (times) return { label, times };
  }
  return null;
}

function firstLabel(head, columns, free) {
  if (free[0] !== 0 || columns.length < 2) return null;
  return isText(columns[0]) || (head && LABELS.test(head[0])) ? 0 : null;
}

/** Columns in the order of the file, where the header does not name the features; columns of text are no features. */
function byPlace(head, columns, { wanted, label, times }) {
  const others = columns.map((_, place) => place).filter((place) => place !== label);
  let places = others.length === wanted.length ? others : others.filter((place) => !isText(columns[place]));
  if (label === null && wanted.length && places.length === wanted.length + 1 && places[0] === 0) {
    label = 0;
    places = places.slice(1);
  }
  const name = (place) => (head && head[place] ? `“${head[place]}”` : `column ${place + 1}`);
  const left = others.filter((place) => !places.includes(place) && place !== label);
  const notes = left.length ? [`Not used: ${left.map(name).join(", ")}.`] : [];
  if (!wanted.length) {
    if (!places.length) throw new CsvError("The file has no column of numbers.");
    const features = places.map((place, n) => (head && head[place]) || `feature ${n}`);
    return { features, places, label, times, notes };
  }
  if (places.length !== wanted.length) throw new CsvError(wrongColumns(head, places.length, wanted, label !== null));
  const why = head ? "The header does not name the model's features" : "There is no header";
  const pairs = places.map((place, n) => `${name(place)} as ${wanted[n]}`);
  const taken = `${why}, so columns were taken in order: ${pairs.join(", ")}.`;
  return { features: wanted, places, label, times, notes: [taken, ...notes] };
}

function unused(head, free, label) {
  const names = free.filter((place) => place !== label).map((place) => `“${head[place]}”`);
  return names.length ? [`Not used: ${names.join(", ")}.`] : [];
}

function wrongColumns(head, found, features, hasLabels) {
  const missing = head ? features.filter((name) => !head.some((cell) => same(cell, name))) : [];
  const needs = `The model reads ${features.length} ${features.length === 1 ? "column" : "columns"} (${features.join(", ")})`;
  const has = `the file has ${found}${hasLabels ? " beside the labels" : ""}`;
  const isPartial = missing.length > 0 && missing.length < features.length;
  return `${needs}; ${has}${isPartial ? `, and ${missing.map((name) => `“${name}”`).join(", ")} is not among them` : ""}.`;
}

function requireWidth({ line, cells }, width, separator) {
  if (cells.length === width) return;
  const spilt = separator === "," && cells.length > width ? " Are there commas inside its numbers?" : "";
  throw new CsvError(
    `Line ${line} has ${cells.length} ${cells.length === 1 ? "cell" : "cells"}, the first line ${width}.${spilt}`,
  );
}

/** The numbers of one row in the model's order; null where one is missing. */
function numbers({ line, cells }, places, { features, hasPoint }) {
  return places.map((place, n) => number(cells[place].trim(), `Line ${line}, column ${place + 1} (${features[n]})`, hasPoint));
}

function number(cell, where, hasPoint) {
  if (isMissing(cell)) return null;
  const plain = cell.replace(/^−/, "-");
  if (NUMBER.test(plain)) return finite(Number(plain), cell, where);
  if (WITH_COMMA.test(plain) && !hasPoint) return finite(Number(plain.replace(",", ".")), cell, where);
  if (/^[+-]?\d{1,3}([,. ’']\d{3})+([.,]\d+)?$/.test(plain) || (WITH_COMMA.test(plain) && hasPoint)) {
    throw new CsvError(`${where}: “${clipped(cell)}” mixes commas and points. Write numbers without thousands separators.`);
  }
  throw new CsvError(`${where}: “${clipped(cell)}” is not a number.`);
}

function finite(value, cell, where) {
  if (!Number.isFinite(value)) throw new CsvError(`${where}: “${clipped(cell)}” is too large a number.`);
  return value;
}

const clipped = (cell) => (cell.length > 24 ? `${cell.slice(0, 24)}…` : cell);
const isMissing = (cell) => MISSING.has(cell.trim().toLowerCase());
/** A column with words and no number. */
const isText = (cells) => cells.some((cell) => !isMissing(cell)) && !cells.some(isNumber);
const isNumber = (cell) => NUMBER.test(cell.replace(/^−/, "-")) || WITH_COMMA.test(cell);
const same = (cell, name) => folded(cell) === folded(name) || folded(cell.replace(/[([].*$/, "")) === folded(name);
const folded = (name) =>
  name
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+/g, " ");
