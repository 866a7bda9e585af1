/** Reads comma-separated text: any of four separators, quotes, a byte-order mark, every kind of line end. Knows nothing of numbers. */

/** What is wrong with a file, in one sentence for the reader. */
export class CsvError extends Error {}

const SEPARATORS = [",", ";", "\t", "|"];
const LOOKED_AT = 20; // records that decide the separator

/**
 * The records of a text.
 * @param {string} text
 * @param {string} [separator] else the one that cuts the first records into the same number of cells
 * @returns {{separator: string, records: {line: number, cells: string[]}[]}} blank lines are left out; `line` counts from 1
 * @throws {CsvError} when a quote is never closed
 */
export function parse(text, separator) {
  const clean = text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  const used = separator ?? guessed(clean);
  return { separator: used, records: [...records(clean, used)] };
}

/** The separator that cuts the first records most evenly, and of equal ones that with more cells; a comma when none does. */
function guessed(text) {
  let best = { separator: ",", share: 0, cells: 1 };
  for (const separator of SEPARATORS) {
    const counts = firstCounts(text, separator);
    const cells = counts[0] ?? 1;
    const share = counts.filter((count) => count === cells).length / Math.max(counts.length, 1);
    const isBetter = share > best.share || (share === best.share && cells > best.cells);
    if (cells > 1 && isBetter) best = { separator, share, cells };
  }
  return best.separator;
}

function firstCounts(text, separator) {
  const counts = [];
  try {
    for (const { cells } of records(text, separator)) {
      counts.push(cells.length);
      if (counts.length === LOOKED_AT) break;
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
  }
  return counts;
}

/** One record at a time. A quote opens a cell only at its start; inside, two quotes are one. */
function* records(text, separator) {
  let place = 0;
  let line = 1;
  while (place < text.length) {
    const record = { line, cells: [] };
    let ended = false;
    while (!ended) {
      const cell = text[place] === '"' ? quotedCell(text, place, record) : plainCell(text, place, separator);
      record.cells.push(cell.value);
      line += cell.lines;
      place = cell.end;
      ended = text[place] !== separator;
      place += 1;
      if (!ended && place >= text.length) {
        record.cells.push("");
        ended = true;
      }
    }
    line += 1;
    if (record.cells.length > 1 || record.cells[0].trim() !== "") yield record;
  }

  function quotedCell(from, start, { line: first, cells }) {
    let end = start + 1;
    let lines = 0;
    let value = "";
    for (;;) {
      const quote = from.indexOf('"', end);
      if (quote < 0)
        throw new CsvError(`Line ${first}, column ${cells.length + 1}: the quote that opens here is never closed.`);
      value += from.slice(end, quote);
      end = quote + 1;
      if (from[end] !== '"') break;
      value += '"';
      end += 1;
    }
    lines = value.split("\n").length - 1;
    const rest = plainCell(from, end, separator); // what stands between the closing quote and the separator
    return { value: value + rest.value, end: rest.end, lines };
  }
}

function plainCell(text, start, separator) {
  let end = start;
  while (end < text.length && text[end] !== separator && text[end] !== "\n") end += 1;
  return { value: text.slice(start, end), end, lines: 0 };
}

const FORMULA = /^[=+\-@\t\r]/; // what spreadsheets read as the start of a formula

/** Cells as one line of CSV. Text that a spreadsheet would run as a formula gets an apostrophe in front; numbers stay numbers. */
export function csvLine(cells) {
  return cells.map(written).join(",") + "\r\n";
}

function written(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n']/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}
