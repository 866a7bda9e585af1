/** The corpus tab: reads a file, sends it in pieces, shows a table, words and downloads. `mount` once, then `state` and `restore`. */

import { stylesheet } from "../chart/elements.js";
import { writeHash } from "../link.js";
import { save } from "../saving.js";
import { count, options, ROWS, showPreview, tell, useFile, useSample, useText } from "./choosing.js";
import { labelReader } from "./reading.js";
import { counts, fill, newRow } from "./rows.js";
import { csv, jsonLines, page as webPage } from "./saving.js";
import { explainAll } from "./sending.js";
import { isUnsigned, showAll, showLexicon, showProgress, showRows, sortValue, visibleRows } from "./showing.js";
import { COLUMNS, makeTable } from "./table.js";
import { makeView } from "./view.js";

const REDRAW = 250; // milliseconds between two drawings while texts come in

let tab = null;

/** @param {HTMLElement} panel @param {Object} context what the page shares: models, api, heatmap, announce, changed */
export function mount(panel, context) {
  stylesheet("../corpus.css");
  stylesheet("../chart.css");
  const served = context.models.models.filter(({ kind }) => kind === "text");
  const view = makeView();
  tab = {
    ...context,
    served,
    view,
    file: null,
    table: null,
    rows: [],
    order: { column: "row", isDown: false },
    page: 0,
    running: null,
    made: null,
    settings: {},
  };
  tab.list = makeTable({
    heatmap: context.heatmap,
    onSort: sortBy,
    onOpen: open,
    onPage: (page) => ((tab.page = page), showRows(tab)),
  });
  view.table.append(tab.list.element);
  view.pager.append(...tab.list.pager);
  panel.replaceChildren(view.root);
  view.limits.textContent = `Text (one per line), CSV, TSV or JSON Lines, up to 20 MB and ${ROWS.toLocaleString("en")} rows. The file is read in this browser and sent in small pieces to the server of this page, which keeps nothing.`;
  options(
    view.model,
    served.map(({ name }) => [name, name]),
  );
  view.modelLabel.hidden = served.length < 2;
  options(
    view.method,
    context.models.methods.map(({ name, label }) => [name, label ?? name]),
  );
  options(
    view.minimum,
    [1, 2, 3, 5, 10].map((count) => [count, count === 1 ? "once" : count === 2 ? "twice" : `${count} times`]),
  );
  view.model.value = context.models.default.text;
  offerTargets();
  options(
    view.sort,
    COLUMNS.flatMap(([column, name]) =>
      [false, true].map((isDown) => [
        sortValue({ column, isDown }),
        `${column === "row" ? "row" : name.toLowerCase()}, ${isDown ? "descending" : "ascending"}`,
      ]),
    ),
  );
  listen();
}

/** The classes of the chosen model; the choice stays where it can. */
function offerTargets() {
  const { view, served } = tab;
  const { classes } = served.find(({ name }) => name === view.model.value);
  const before = view.target.value;
  options(view.target, [["predicted", "the predicted class"], ...classes.map((name) => [name, name])]);
  if (classes.includes(before)) view.target.value = before;
  if (view.versus.options.length) return;
  options(view.versus, [
    ["", "on its own"],
    ["rest", "versus the rest"],
  ]);
}

/** The settings; a file is never part of a link. */
export function state() {
  if (!tab) return {};
  const { method, model, minimum, target, versus } = tab.view;
  const kept = {};
  if (model.value !== tab.models.default.text) kept.model = model.value;
  if (method.value !== tab.models.methods[0].name) kept.method = method.value;
  if (target.value !== "predicted") kept.target = target.value;
  if (versus.value) kept.versus = versus.value;
  if (minimum.value !== "1") kept.minimum = Number(minimum.value);
  return kept;
}

/** Take over settings, as far as they fit. */
export function restore(kept) {
  if (!tab) return;
  for (const name of ["model", "target", "versus", "method", "minimum"]) {
    if (name === "target") offerTargets();
    if ([...tab.view[name].options].some(({ value }) => value === String(kept[name])))
      tab.view[name].value = String(kept[name]);
  }
}

function listen() {
  const { view } = tab;
  view.file.addEventListener("change", () => useFile(tab, view.file.files[0]));
  view.sample.addEventListener("click", async () => (await useSample(tab)) && run());
  view.root.addEventListener("dragover", (event) => (event.preventDefault(), view.drop.classList.add("is-over")));
  view.root.addEventListener(
    "dragleave",
    (event) => view.root.contains(event.relatedTarget) || view.drop.classList.remove("is-over"),
  );
  view.root.addEventListener(
    "drop",
    (event) => (event.preventDefault(), view.drop.classList.remove("is-over"), useFile(tab, event.dataTransfer.files[0])),
  );
  view.settings.addEventListener("submit", (event) => (event.preventDefault(), run()));
  view.text.addEventListener("change", () => showPreview(tab));
  view.head.addEventListener("change", () => useText(tab, tab.file.text, tab.file.name, view.head.checked));
  view.cancel.addEventListener("click", () => tab.running?.abort());
  for (const name of ["words", "predicted", "verdict"])
    view[name].addEventListener("input", () => ((tab.page = 0), showRows(tab)));
  for (const name of ["class", "minimum"]) view[name].addEventListener("change", () => (showLexicon(tab), tab.changed?.()));
  view.model.addEventListener("change", offerTargets);
  for (const name of ["model", "method", "target", "versus"]) view[name].addEventListener("change", () => tab.changed?.());
  view.sort.addEventListener("change", () => {
    const [column, way] = view.sort.value.split(" ");
    setOrder({ column, isDown: way === "down" });
  });
  view.html.addEventListener("click", () => save("whence.html", webPage(visibleRows(tab), tab.made), "text/html"));
  view.jsonl.addEventListener("click", () => save("whence.jsonl", jsonLines(visibleRows(tab)), "application/x-ndjson"));
  view.csv.addEventListener("click", () => save("whence.csv", csv(visibleRows(tab), tab.made), "text/csv"));
  document.addEventListener("themechange", () => tab.rows.length && showRows(tab));
}

/** The rows of the chosen columns, and what they are explained with. */
function prepare() {
  const { view, table, served } = tab;
  const model = served.find(({ name }) => name === view.model.value);
  const textColumn = Number(view.text.value);
  const hasLabels = view.label.value !== "";
  const labels = table.rows.map(({ cells }) => (hasLabels ? cells[Number(view.label.value)] : null));
  const truth = labelReader(labels, model.classes);
  const isOther = (_, place) => place !== textColumn && !(hasLabels && place === Number(view.label.value));
  tab.rows = table.rows.map(({ row, cells }, n) =>
    newRow({ row, text: cells[textColumn], label: labels[n], truth: truth(labels[n]), others: cells.filter(isOther) }),
  );
  const [target, versus] = [view.target.value, view.versus.value];
  const asked = { model: model.name, method: view.method.value, target, versus };
  tab.made = { ...asked, classes: model.classes, reads: model.reads, hasLabels, others: table.columns.filter(isOther) };
  tab.made.key = keyOf(tab);
  tab.order = { column: "row", isDown: false };
  tab.page = 0;
}

/** Explain every row; the table fills as answers come in. */
async function run() {
  const { api, models, announce } = tab;
  tab.running?.abort();
  const running = (tab.running = new AbortController());
  prepare();
  begin();
  const { rows, made } = tab;
  try {
    await explainAll(rows, {
      api,
      request: {
        model: made.model,
        method: made.method,
        target: made.target,
        ...(made.versus ? { versus: made.versus } : {}),
      },
      limit: models.limits.texts,
      signal: running.signal,
      onResult: (place, result) => fill(rows[place], result),
      onProgress: follower(),
      onWait: (sentence) => tell(tab, sentence),
    });
    const { explained } = counts(rows, made.classes);
    announce(explained < rows.length ? `${explained} of ${count(rows.length)} explained` : `${count(explained)} explained`);
  } catch (error) {
    if (tab.running !== running) return;
    if (error.name === "AbortError") announce("Stopped");
    else if (error instanceof api.ApiError) tell(tab, error.message);
    else throw error;
  } finally {
    if (tab.running === running) end();
  }
}

/** Shows progress at once, and the table a few times a second. */
function follower() {
  let drawn = 0;
  return (done) => {
    showProgress(tab, done);
    if (performance.now() - drawn < REDRAW) return;
    showAll(tab);
    drawn = performance.now();
  };
}

/** What the colours mean. */
function keyOf({ made: { target, versus } }) {
  const goal = `${target === "predicted" ? "the predicted class" : `“${target}”`}${versus ? " versus the rest" : ""}`;
  const sides = isUnsigned(tab)
    ? `The deeper a word's colour, the more ${goal} hangs on it`
    : `Red words speak for ${goal}, blue words against it`;
  return `${sides}; full colour is each text's strongest word.`;
}

function begin() {
  const { view, made } = tab;
  tell(tab, "");
  view.preview.hidden = true;
  view.progress.hidden = false;
  view.results.hidden = false;
  view.start.disabled = true;
  view.words.value = "";
  const classes = made.classes.map((name) => [name, name]);
  const verdicts = made.hasLabels ? ["right", "wrong"].map((name) => [name, name]) : [];
  options(view.predicted, [["", "every class"], ...classes]);
  options(view.verdict, [["", made.hasLabels ? "right and wrong" : "all rows"], ...verdicts, ["error", "not explained"]]);
  options(view.class, made.target === "predicted" ? classes : [[made.target, made.target]]);
  view.key.textContent = made.key;
  for (const option of view.sort.options) option.hidden = option.value.startsWith("label") && !made.hasLabels;
  showProgress(tab, 0);
  showAll(tab);
}

function end() {
  const { view, rows, made } = tab;
  tab.running = null;
  view.progress.hidden = true;
  view.start.disabled = false;
  if (made.target === "predicted") {
    const { predicted } = counts(rows, made.classes);
    view.class.value = made.classes.reduce((best, name) => (predicted[name] > predicted[best] ? name : best));
  }
  showAll(tab);
}

function sortBy(column) {
  const isSame = tab.order.column === column;
  setOrder({ column, isDown: isSame ? !tab.order.isDown : column === "probability" });
}

function setOrder(order) {
  tab.order = order;
  tab.page = 0;
  showRows(tab);
}

/** Open a text in the text tab, by the address. */
function open({ text }) {
  const { model, method, target, versus } = tab.made;
  if (text?.trim()) location.hash = writeHash("text", { text: { text, model, method, target, versus } });
}
