/** Choosing what to explain: a file or the sample, its columns of texts and labels, a look at the first texts. */

import { html } from "../chart/elements.js";
import { CsvError } from "../csv.js";
import { FileError, readText } from "../files.js";
import { guessLabel, guessText, readTable } from "./reading.js";

const BYTES = 20e6;
export const ROWS = 5000;
const PREVIEW = 3;

/** Fill a select with [value, text] pairs. */
export const options = (select, pairs) =>
  select.replaceChildren(...pairs.map(([value, text]) => html("option", { value: String(value), text })));

/** Say a sentence below the box for files; "" takes it away. */
export const tell = (tab, sentence) => (tab.view.message.textContent = sentence);

/** "1 text", "5,000 texts". */
export const count = (number) => `${number.toLocaleString("en")} ${number === 1 ? "text" : "texts"}`;

/** Take a table from a file. */
export async function useFile(tab, file) {
  if (!file) return;
  tab.view.file.value = "";
  try {
    const { text, note } = await readText(file, BYTES);
    if (useText(tab, text, file.name)) tell(tab, note);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    tell(tab, error.message);
  }
}

/** Take the sample. @returns {Promise<boolean>} whether it is there */
export async function useSample(tab) {
  const response = await fetch(new URL("sample.csv", import.meta.url)).catch(() => null);
  if (response?.ok) return useText(tab, await response.text(), "sample.csv");
  tell(tab, "The sample could not be loaded.");
  return false;
}

/** Read a table from a file's text and offer its columns. @returns {boolean} whether it could be read */
export function useText(tab, text, name, hasHead) {
  try {
    tab.table = readTable(text, name, { limit: ROWS, hasHead });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    tell(tab, error.message);
    return false;
  }
  tab.running?.abort();
  tab.file = { text, name };
  tell(tab, "");
  offer(tab);
  showPreview(tab);
  return true;
}

function offer({ view, table, file }) {
  const { columns, rows, hasHead } = table;
  const textColumn = guessText(table);
  options(
    view.text,
    columns.map((column, n) => [n, column]),
  );
  options(view.label, [["", "no column"], ...columns.map((column, n) => [n, column])]);
  view.text.value = String(textColumn);
  view.label.value = String(guessLabel(table, textColumn) ?? "");
  view.text.parentElement.hidden = view.label.parentElement.hidden = columns.length < 2;
  view.headLabel.hidden = hasHead === null;
  view.head.checked = Boolean(hasHead);
  view.source.textContent = `${file.name}: ${count(rows.length)}`;
  view.start.textContent = `Explain ${count(rows.length)}`;
  view.settings.hidden = false;
  view.results.hidden = true;
  view.drop.classList.add("is-small");
  view.sample.classList.remove("primary");
}

/** The first texts of the chosen column. */
export function showPreview({ view, table }) {
  const place = Number(view.text.value);
  const text = ({ cells }) => html("li", {}, html("span", { dir: "auto", text: cells[place] ?? "" }));
  view.first.replaceChildren(...table.rows.slice(0, PREVIEW).map(text));
  view.preview.hidden = false;
}
