/** The corpus tab: reads a file, sends it in pieces, shows a table, words and downloads. `mount` once, then `state` and `restore`. */

import { html, stylesheet } from "../chart/elements.js";
import { CsvError } from "../csv.js";
import { FileError, readText } from "../files.js";
import { writeHash } from "../link.js";
import { save } from "../saving.js";
import { guessLabel, guessText, labelReader, readTable } from "./reading.js";
import { fillLexicon, fillSummary } from "./results.js";
import { fill, filtered, newRow, sorted } from "./rows.js";
import { csv, jsonLines, page as webPage } from "./saving.js";
import { explainAll } from "./sending.js";
import { makeTable } from "./table.js";
import { makeView } from "./view.js";

const BYTES = 20e6;
const ROWS = 5000;
const PREVIEW = 3;
const REDRAW = 250; // milliseconds between two drawings while texts come in

let tab = null;

/** @param {HTMLElement} panel @param {Object} context what the page shares: models, api, heatmap, announce, changed */
export function mount(panel, context) {
  stylesheet("../corpus.css");
  stylesheet("../chart.css");
  const served = context.models.models.filter(({ kind }) => kind === "text");
  const view = makeView();
  tab = { ...context, served, view, file: null, table: null, rows: [], order: { column: "row", isDown: false }, page: 0, running: null, made: null, settings: {} };
  tab.list = makeTable({ heatmap: context.heatmap, onSort: sortBy, onOpen: open, onPage: (page) => ((tab.page = page), showRows()) });
  view.table.append(tab.list.element);
  view.pager.append(...tab.list.pager);
  panel.replaceChildren(view.root);
  view.limits.textContent = `Text (one per line), CSV, TSV or JSON Lines, up to 20 MB and ${ROWS.toLocaleString("en")} rows. The file is read in this browser and sent in small pieces to the server of this page, which keeps nothing.`;
  options(view.model, served.map(({ name }) => [name, name]));
  view.modelLabel.hidden = served.length < 2;
  options(view.method, context.models.methods.map(({ name, label }) => [name, label ?? name]));
  options(view.minimum, [1, 2, 3, 5, 10].map((count) => [count, count === 1 ? "once" : count === 2 ? "twice" : `${count} times`]));
  view.model.value = context.models.default.text;
  listen();
}

/** The settings; a file is never part of a link. */
export function state() {
  if (!tab) return {};
  const { method, model, minimum } = tab.view;
  const kept = {};
  if (model.value !== tab.models.default.text) kept.model = model.value;
  if (method.value !== tab.models.methods[0].name) kept.method = method.value;
  if (minimum.value !== "1") kept.minimum = Number(minimum.value);
  return kept;
}

/** Take over settings, as far as they fit. */
export function restore(kept) {
  if (!tab) return;
  for (const name of ["model", "method", "minimum"]) {
    if ([...tab.view[name].options].some(({ value }) => value === String(kept[name]))) tab.view[name].value = String(kept[name]);
  }
}

function listen() {
  const { view } = tab;
  view.file.addEventListener("change", () => openFile(view.file.files[0]));
  view.sample.addEventListener("click", useSample);
  view.root.addEventListener("dragover", (event) => (event.preventDefault(), view.drop.classList.add("is-over")));
  view.root.addEventListener("dragleave", (event) => view.root.contains(event.relatedTarget) || view.drop.classList.remove("is-over"));
  view.root.addEventListener("drop", (event) => (event.preventDefault(), view.drop.classList.remove("is-over"), openFile(event.dataTransfer.files[0])));
  view.settings.addEventListener("submit", (event) => (event.preventDefault(), run()));
  view.text.addEventListener("change", showPreview);
  view.head.addEventListener("change", () => useText(tab.file.text, tab.file.name, view.head.checked));
  view.cancel.addEventListener("click", () => tab.running?.abort());
  for (const name of ["words", "predicted", "verdict"]) view[name].addEventListener("input", () => ((tab.page = 0), showRows()));
  for (const name of ["class", "minimum"]) view[name].addEventListener("change", () => (showLexicon(), tab.changed?.()));
  for (const name of ["model", "method"]) view[name].addEventListener("change", () => tab.changed?.());
  view.html.addEventListener("click", () => save("whence.html", webPage(visibleRows(), tab.made), "text/html"));
  view.jsonl.addEventListener("click", () => save("whence.jsonl", jsonLines(visibleRows()), "application/x-ndjson"));
  view.csv.addEventListener("click", () => save("whence.csv", csv(visibleRows()), "text/csv"));
  document.addEventListener("themechange", () => tab.rows.length && showRows());
}

const options = (select, pairs) => select.replaceChildren(...pairs.map(([value, text]) => html("option", { value: String(value), text })));
const tell = (sentence) => (tab.view.message.textContent = sentence);

async function openFile(file) {
  if (!file) return;
  tab.view.file.value = "";
  try {
    const { text, note } = await readText(file, BYTES);
    if (useText(text, file.name)) tell(note);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    tell(error.message);
  }
}

async function useSample() {
  const response = await fetch(new URL("sample.csv", import.meta.url));
  if (!response.ok) return tell("The sample could not be loaded.");
  if (useText(await response.text(), "sample.csv")) run();
}

/** Read a table from a file's text and offer its columns. @returns {boolean} whether it could be read */
function useText(text, name, hasHead) {
  const { view } = tab;
  try {
    tab.table = readTable(text, name, { limit: ROWS, hasHead });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    tell(error.message);
    return false;
  }
  tab.running?.abort();
  tab.file = { text, name };
  tell("");
  const { columns, rows } = tab.table;
  const textColumn = guessText(tab.table);
  options(view.text, columns.map((column, n) => [n, column]));
  view.text.value = String(textColumn);
  options(view.label, [["", "no column"], ...columns.map((column, n) => [n, column])]);
  view.label.value = String(guessLabel(tab.table, textColumn) ?? "");
  view.text.parentElement.hidden = view.label.parentElement.hidden = columns.length < 2;
  view.headLabel.hidden = tab.table.hasHead === null;
  view.head.checked = Boolean(tab.table.hasHead);
  view.source.textContent = `${name}: ${count(rows.length)}`;
  view.start.textContent = `Explain ${count(rows.length)}`;
  view.settings.hidden = false;
  view.drop.classList.add("is-small");
  view.sample.classList.remove("primary");
  view.results.hidden = true;
  showPreview();
  return true;
}

const count = (number) => `${number.toLocaleString("en")} ${number === 1 ? "text" : "texts"}`;

function showPreview() {
  const place = Number(tab.view.text.value);
  const first = tab.table.rows.slice(0, PREVIEW).map(({ cells }) => html("li", {}, html("span", { dir: "auto", text: cells[place] ?? "" })));
  tab.view.first.replaceChildren(...first);
  tab.view.preview.hidden = false;
}

/** Explain every row; the table fills as answers come in. */
async function run() {
  const { view, table, served, api, models, announce } = tab;
  const model = served.find(({ name }) => name === view.model.value);
  const [textColumn, labelColumn] = [Number(view.text.value), view.label.value === "" ? null : Number(view.label.value)];
  const labelOf = (cells) => (labelColumn === null ? null : cells[labelColumn]);
  const truth = labelReader(table.rows.map(({ cells }) => labelOf(cells)), model.classes);
  tab.running?.abort();
  const running = (tab.running = new AbortController());
  tab.rows = table.rows.map(({ row, cells }) => newRow(row, cells[textColumn], labelOf(cells), truth(labelOf(cells))));
  Object.assign(tab, { page: 0, order: { column: "row", isDown: false }, made: { model: model.name, method: view.method.value, classes: model.classes, reads: model.reads, hasLabels: labelColumn !== null } });
  begin();
  let drawn = 0;
  try {
    await explainAll(tab.rows, {
      api, request: { model: model.name, method: view.method.value }, limit: models.limits.texts, signal: running.signal,
      onResult: (place, result) => fill(tab.rows[place], result),
      onProgress: (done) => {
        showProgress(done);
        if (performance.now() - drawn < REDRAW) return;
        showAll();
        drawn = performance.now();
      },
      onWait: tell,
    });
    announce(`${count(tab.rows.length)} explained`);
  } catch (error) {
    if (tab.running !== running) return;
    if (error.name === "AbortError") announce("Stopped");
    else if (error instanceof api.ApiError) tell(error.message);
    else throw error;
  } finally {
    if (tab.running === running) end();
  }
}

function begin() {
  const { view, made } = tab;
  tell("");
  view.preview.hidden = true;
  view.progress.hidden = false;
  view.results.hidden = false;
  view.start.disabled = true;
  view.words.value = "";
  options(view.predicted, [["", "every class"], ...made.classes.map((name) => [name, name])]);
  options(view.verdict, [["", made.hasLabels ? "right and wrong" : "all rows"], ...(made.hasLabels ? [["right", "right"], ["wrong", "wrong"]] : []), ["error", "not explained"]]);
  options(view.class, made.classes.map((name) => [name, name]));
  const sides = isUnsigned() ? "The deeper a word's colour, the more the predicted class hangs on it" : "Red words speak for the predicted class, blue words against it";
  view.key.textContent = `${sides}; full colour is each text's strongest word.`;
  showProgress(0);
  showAll();
}

function end() {
  const { view, rows } = tab;
  tab.running = null;
  view.progress.hidden = true;
  view.start.disabled = false;
  const common = [...view.class.options].map(({ value }) => [rows.filter(({ explanation }) => explanation?.predicted === value).length, value]).sort(([a], [b]) => b - a)[0];
  view.class.value = common[1];
  showAll();
}

function showProgress(done) {
  const { view, rows } = tab;
  view.bar.max = rows.length;
  view.bar.value = done;
  view.count.textContent = `${done.toLocaleString("en")} of ${count(rows.length)}`;
}

function showAll() {
  fillSummary(tab.view.summary, tab.rows, tab.made.classes);
  showRows();
  showLexicon();
}

const visibleRows = () => {
  const { words, predicted, verdict } = tab.view;
  return sorted(filtered(tab.rows, { words: words.value, predicted: predicted.value, verdict: verdict.value }), tab.order, tab.made.classes);
};
const isUnsigned = () => !(tab.models.methods.find(({ name }) => name === tab.made.method)?.is_signed ?? true);

function showRows() {
  const rows = visibleRows();
  tab.list.show({ rows, order: tab.order, page: tab.page, hasLabels: tab.made.hasLabels, isUnsigned: isUnsigned() });
  const isAll = rows.length === tab.rows.length;
  tab.view.shown.textContent = isAll ? "" : `${rows.length.toLocaleString("en")} of ${tab.rows.length.toLocaleString("en")} rows`;
}

function showLexicon() {
  if (!tab.made) return;
  const { view, made } = tab;
  fillLexicon(view.lexicon, tab.rows, { target: view.class.value, minimum: Number(view.minimum.value), isByCharacter: made.reads === "characters", isUnsigned: isUnsigned() });
}

function sortBy(column) {
  const isSame = tab.order.column === column;
  tab.order = { column, isDown: isSame ? !tab.order.isDown : column === "probability" };
  tab.page = 0;
  showRows();
}

/** Hand a text to the text tab. */
function open({ text }) {
  if (!text?.trim()) return;
  const event = new CustomEvent("whence:open", { detail: { text, model: tab.made.model }, cancelable: true });
  if (document.dispatchEvent(event)) location.hash = writeHash("text", { text: event.detail }); // nobody took it: by the address
}
