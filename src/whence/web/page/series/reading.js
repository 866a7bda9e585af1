/** From the text of a CSV file to a series: which column is which feature, which holds dates, and every cell as a number. */

import { CsvError, parse } from "../csv.js";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const WITH_COMMA = /^[+-]?\d*,\d+(e[+-]?\d+)?$/i;
const LABELS = /^(date|time|timestamp|day|hour|week|month|year|step|index|label|id|t)?$/i; // names of a first column that is no feature
const MISSING = new Set(["", "na", "n/a", "nan", "null", "none", "nil", "?", "-", "–", "."]);

/**
 * @typedef {Object} Series
 * @property {string[]} labels a name for every step: the dates of the file, else "step 1", "step 2", …
 * @property {string[]} features the model's, or the columns of the file for a model that reads any
 * @property {number[][]} values one number per feature and step
 * @property {string[]} notes what the reader should know about how the file was read
 */

/**
 * A series for a model.
 * @param {string} text
 * @param {{features: string[], limit: number, step?: string}} model its features (none: it reads any), the most steps, the name of
 *   one step
 * @returns {Series}
 * @throws {CsvError} with a sentence that names line and column
 */
export function readSeries(text, { features: wanted, limit, step = "step" }) {
  const { records, separator } = parse(text);
  if (!records.length) throw new CsvError("There is no line with values. Paste or upload a CSV with one line per step.");
  const first = records[0].cells.map((cell) => cell.trim());
  const hasHead = !first.some((cell) => isNumber(cell)) || first.some((cell) => wanted.some((name) => same(cell, name)));
  const features = wanted.length ? wanted : ownNames(first, records, hasHead);
  const columns = matched(hasHead ? first : null, first.length, records, features, hasHead);
  const rows = hasHead ? records.slice(1) : records;
  if (!rows.length) throw new CsvError("The file has a header but no line with values.");
  if (rows.length > limit)
    throw new CsvError(`The file has ${rows.length} steps; at most ${limit} are taken. Cut it and try again.`);
  const hasPoint = rows.some(({ cells }) => columns.places.some((place) => (cells[place] ?? "").includes(".")));
  const values = rows.map((row) => numbers(row, columns, { features, width: first.length, hasPoint, separator }));
  const isComma = !hasPoint && rows.some(({ cells }) => columns.places.some((place) => cells[place].includes(",")));
  if (isComma) columns.notes.push("Commas were read as decimal commas.");
  const labels = rows.map(({ cells }, n) => (columns.label === null ? "" : cells[columns.label].trim()) || `${step} ${n + 1}`);
  return { labels, features, values, notes: columns.notes };
}

/** The columns of a file as features; the first holds labels where it is no number or called so. */
function ownNames(first, records, hasHead) {
  const below = (hasHead ? records[1] : records[0])?.cells[0]?.trim() ?? "";
  const hasLabels = first.length > 1 && ((hasHead && LABELS.test(first[0])) || (!isNumber(below) && !isMissing(below)));
  const columns = first.slice(hasLabels ? 1 : 0);
  return columns.map((cell, n) => (hasHead && cell) || `feature ${n}`);
}

/** Which column holds which feature, which the labels, and what to tell the reader. */
function matched(head, width, records, features, hasHead) {
  const twice = head && features.find((name) => head.filter((cell) => same(cell, name)).length > 1);
  if (twice) throw new CsvError(`Line ${records[0].line}: the column “${twice}” stands there twice.`);
  const byName = head ? features.map((name) => head.findIndex((cell) => same(cell, name))) : [];
  if (head && byName.every((place) => place >= 0)) {
    const others = head.map((_, place) => place).filter((place) => !byName.includes(place));
    const label = others[0] === 0 ? 0 : null;
    const unused = others.filter((place) => place !== label).map((place) => `“${head[place]}”`);
    return { places: byName, label, notes: unused.length ? [`Not used: ${unused.join(", ")}.`] : [] };
  }
  const body = hasHead ? records.slice(1) : records;
  const hasLabels =
    width === features.length + 1 ||
    (width > 1 && body.length > 0 && !isNumber(body[0].cells[0].trim()) && !isMissing(body[0].cells[0]));
  const start = hasLabels ? 1 : 0;
  if (width - start !== features.length) throw new CsvError(wrongColumns(head, width - start, features, start));
  const places = features.map((_, n) => n + start);
  const pairs = features.map((name, n) => `${head ? `“${head[places[n]]}”` : `column ${places[n] + 1}`} as ${name}`);
  const why = head ? "The header does not name the model's features" : "There is no header";
  return { places, label: hasLabels ? 0 : null, notes: [`${why}, so columns were taken in order: ${pairs.join(", ")}.`] };
}

function wrongColumns(head, found, features, start) {
  const missing = head ? features.filter((name) => !head.some((cell) => same(cell, name))) : [];
  const needs = `The model reads ${features.length} ${features.length === 1 ? "column" : "columns"} (${features.join(", ")})`;
  const has = `the file has ${found}${start ? " beside the labels" : ""}`;
  const isPartial = missing.length > 0 && missing.length < features.length;
  return `${needs}; ${has}${isPartial ? `, and ${missing.map((name) => `“${name}”`).join(", ")} is not among them` : ""}.`;
}

/** The numbers of one row in the model's order. */
function numbers({ line, cells }, { places }, { features, width, hasPoint, separator }) {
  if (cells.length !== width) {
    const spilt = separator === "," && cells.length > width ? " Are there commas inside its numbers?" : "";
    throw new CsvError(
      `Line ${line} has ${cells.length} ${cells.length === 1 ? "cell" : "cells"}, the first line ${width}.${spilt}`,
    );
  }
  return places.map((place, n) => number(cells[place].trim(), `Line ${line}, column ${place + 1} (${features[n]})`, hasPoint));
}

function number(cell, where, hasPoint) {
  if (isMissing(cell)) throw new CsvError(`${where}: the value is missing. Fill it in, or leave the line out.`);
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
const isNumber = (cell) => NUMBER.test(cell.replace(/^−/, "-")) || WITH_COMMA.test(cell);
const same = (cell, name) => folded(cell) === folded(name) || folded(cell.replace(/[([].*$/, "")) === folded(name);
const folded = (name) =>
  name
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+/g, " ");
