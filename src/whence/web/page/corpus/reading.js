/** From the text of a file to a table: texts one per line, CSV, TSV or JSON Lines, and which columns hold text and label. */

import { CsvError, parse } from "../csv.js";

const TEXT_NAMES = /^(text|sentence|review|content|body|comment|message|tweet|phrase|document|utterance)s?$/i;
const LABEL_NAMES = /^(label|class|sentiment|rating|stars?|target|category|gold|truth|y)(_?name)?$/i;
const LONG_HEAD = 60; // a first line with a longer cell is no header

/**
 * @typedef {Object} Table
 * @property {string[]} columns
 * @property {{row: number, cells: (string|null)[]}[]} rows `row` counts from 1, without the header
 * @property {boolean|null} hasHead null where there can be none
 */

/**
 * The table in a file.
 * @param {string} text
 * @param {string} name of the file: its suffix says what it holds
 * @param {{limit: number, hasHead?: boolean}} options the most rows; whether the first line of a CSV names its columns
 * @returns {Table}
 * @throws {CsvError} with one sentence
 */
export function readTable(text, name, { limit, hasHead }) {
  const suffix = (/\.([a-z]+)$/i.exec(name)?.[1] ?? "").toLowerCase();
  const table =
    suffix === "jsonl" || suffix === "ndjson" || suffix === "json"
      ? fromJson(text)
      : suffix === "csv" || suffix === "tsv" || suffix === "tab"
        ? fromCsv(text, suffix === "csv" ? undefined : "\t", hasHead)
        : fromLines(text);
  if (!table.rows.length) throw new CsvError("There is no text in the file.");
  if (table.rows.length > limit) {
    const count = table.rows.length.toLocaleString("en");
    throw new CsvError(
      `The file has ${count} rows; at most ${limit.toLocaleString("en")} are explained here. For more there is “whence explain --file”.`,
    );
  }
  return table;
}

function fromLines(text) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\r|\n/);
  while (lines.length && !lines.at(-1).trim()) lines.pop();
  return { columns: ["text"], rows: lines.map((line, n) => ({ row: n + 1, cells: [line] })), hasHead: null };
}

function fromCsv(text, separator, wanted) {
  const { records } = parse(text, separator);
  const first = records[0]?.cells ?? [];
  const hasHead = wanted ?? looksLikeHead(first);
  const width = Math.max(0, ...records.map(({ cells }) => cells.length));
  const columns = Array.from({ length: width }, (_, n) => (hasHead && first[n]?.trim()) || `column ${n + 1}`);
  const body = hasHead ? records.slice(1) : records;
  return {
    columns,
    rows: body.map(({ cells }, n) => ({ row: n + 1, cells: columns.map((_, place) => cells[place] ?? null) })),
    hasHead,
  };
}

function looksLikeHead(cells) {
  return (
    cells.some((cell) => TEXT_NAMES.test(cell.trim())) ||
    !cells.some((cell) => cell.length > LONG_HEAD || /^[\d.,\s]+$/.test(cell))
  );
}

function fromJson(text) {
  const records = whole(text) ?? byLine(text);
  const columns = [];
  for (const record of records)
    for (const key of Object.keys(record)) if (isCell(record[key]) && !columns.includes(key)) columns.push(key);
  const cell = (value) => (isCell(value) && value !== null ? String(value) : null);
  return {
    columns,
    rows: records.map((record, n) => ({ row: n + 1, cells: columns.map((key) => cell(record[key])) })),
    hasHead: null,
  };
}

/** A file that is one JSON list, or null. */
function whole(text) {
  if (!text.trimStart().startsWith("[")) return null;
  try {
    return JSON.parse(text).map((value, n) => record(value, `Entry ${n + 1}`));
  } catch (error) {
    if (error instanceof CsvError) throw error;
    return null;
  }
}

function byLine(text) {
  const found = [];
  text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\r|\n/)
    .forEach((line, n) => {
      if (!line.trim()) return;
      let value;
      try {
        value = JSON.parse(line);
      } catch {
        throw new CsvError(`Line ${n + 1} is not JSON. A .jsonl file has one object per line.`);
      }
      found.push(record(value, `Line ${n + 1}`));
    });
  return found;
}

function record(value, where) {
  if (typeof value === "string") return { text: value };
  if (value && typeof value === "object" && !Array.isArray(value)) return value;
  throw new CsvError(`${where} is neither an object nor a text.`);
}

const isCell = (value) => value === null || ["string", "number", "boolean"].includes(typeof value);

/** The column that most likely holds the texts: by its name, else the one with the longest cells. */
export function guessText({ columns, rows }) {
  const named = columns.findIndex((name) => TEXT_NAMES.test(name.trim()));
  if (named >= 0) return named;
  const some = rows.slice(0, 200);
  const length = (place) => some.reduce((sum, { cells }) => sum + (cells[place]?.length ?? 0), 0);
  return columns.reduce((best, _, place) => (length(place) > length(best) ? place : best), 0);
}

/** The column that most likely holds labels, or null. */
export function guessLabel({ columns }, textColumn) {
  const place = columns.findIndex((name, n) => n !== textColumn && LABEL_NAMES.test(name.trim()));
  return place < 0 ? null : place;
}

/**
 * A function from a label as written to a class of the model, or null: by name, or by number where every label is one.
 * @param {(string|null)[]} labels @param {string[]} classes
 */
export function labelReader(labels, classes) {
  const given = labels.filter((label) => label !== null && label.trim() !== "");
  const areNumbers = given.length > 0 && given.every((label) => /^\d+$/.test(label.trim()) && Number(label) < classes.length);
  const byName = new Map(classes.map((name) => [folded(name), name]));
  return (label) => {
    if (label === null || !label.trim()) return null;
    return byName.get(folded(label)) ?? (areNumbers ? classes[Number(label)] : null);
  };
}

const folded = (name) =>
  name
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+/g, " ");
