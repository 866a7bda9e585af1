/** The series tab: reads a series, asks the service, shows what it says. `mount` once, then `state` and `restore`. */

import { html, stylesheet } from "../chart/elements.js";
import { save } from "../saving.js";
import { Blanks, validBlanks } from "./blanks.js";
import { makePlot } from "./plot.js";
import { relevanceCsv } from "./saving.js";
import { keyOf, showAnswer, showNothing, showBlanks, spoken } from "./showing.js";
import { setWindow, showPasting, tell, useExample, useFile, useText } from "./source.js";
import { makeView } from "./view.js";

const LINKED = 8000; // characters of data that a link carries

/** Everything the tab knows; one tab per page. */
let tab = null;

/** @param {HTMLElement} panel @param {Object} context what the page shares: models, api, colour, announce, changed */
export function mount(panel, context) {
  const served = context.models.models.filter(({ kind }) => kind === "series");
  stylesheet("../series.css");
  stylesheet("../chart.css");
  if (!served.length) {
    panel.replaceChildren(
      html("p", {
        class: "message",
        text: "No model here reads numbers. Start the service with one: whence serve --model river-lstm.",
      }),
    );
    return;
  }
  const view = makeView();
  tab = {
    ...context,
    served,
    view,
    blanks: new Blanks(),
    model: null,
    method: null,
    output: null,
    data: null,
    text: "",
    isExample: true,
    selected: null,
    window: null,
    answer: null,
    before: new Map(),
    asking: null,
  };
  tab.plot = makePlot({ colour: context.colour, onSelect: selected, onBlank: blankSelection, onClick: bringBack });
  view.plot.append(tab.plot.element);
  panel.replaceChildren(view.root);
  fillChoices();
  listen();
  chooseModel(context.models.default.series ?? served[0].name);
  if (useExample(tab)) ask();
}

/** What a link needs to show the same: settings, blanks, and the data if it is small. */
export function state() {
  if (!tab?.data) return {};
  const { model, output, method, blanks, isExample, text } = tab;
  const kept = { model: model.name, method };
  if (output) kept.output = output;
  if (blanks.now.length) kept.blanks = blanks.now;
  if (tab.view.boost.checked) kept.boost = true;
  if (tab.view.window.value) kept.last = Number(tab.view.window.value);
  if (!isExample && text.length < LINKED) kept.data = text;
  else if (!isExample) kept.isLeftOut = true;
  return kept;
}

/** Show what a link says; whatever does not fit is left out. */
export function restore(kept) {
  if (!tab) return;
  if (tab.served.some(({ name }) => name === kept.model)) chooseModel(kept.model);
  if (tab.models.methods.some(({ name }) => name === kept.method)) tab.view.method.value = tab.method = kept.method;
  if (typeof kept.output === "string" && (!tab.model.outputs.length || tab.model.outputs.includes(kept.output)))
    tab.output = kept.output;
  tab.view.boost.checked = kept.boost === true;
  if (typeof kept.data !== "string" || !useText(tab, kept.data, "The series of the link")) useExample(tab);
  if (!tab.data) return;
  if (kept.isLeftOut)
    tell(tab, "The link was made for a series too long for a link. The example is shown; open the file to see it again.");
  else tab.blanks.restart(validBlanks(kept.blanks, { steps: tab.data.labels.length, features: tab.data.features.length }));
  if ([...tab.view.window.options].some(({ value }) => value === String(kept.last))) tab.view.window.value = String(kept.last);
  setWindow(tab);
  ask();
}

function fillChoices() {
  const { view, served, models } = tab;
  view.model.replaceChildren(...served.map(({ name }) => html("option", { value: name, text: name })));
  view.modelLabel.hidden = served.length < 2;
  view.method.replaceChildren(...models.methods.map(({ name, label }) => html("option", { value: name, text: label ?? name })));
  tab.method = models.methods[0].name;
}

function chooseModel(name) {
  const { view, served } = tab;
  tab.model = served.find((model) => model.name === name) ?? served[0];
  tab.output = tab.model.outputs[0] ?? null;
  view.model.value = tab.model.name;
  view.about.textContent = tab.model.description ?? "";
  view.title.textContent = `Which ${tab.model.step || "step"}s made the prediction?`;
}

function listen() {
  const { view } = tab;
  view.model.addEventListener("change", () => (chooseModel(view.model.value), useExample(tab) && ask()));
  view.method.addEventListener("change", () => ((tab.method = view.method.value), ask()));
  view.outputs.addEventListener("change", (event) => ((tab.output = event.target.value), ask()));
  view.boost.addEventListener("change", () => (draw(), tab.changed?.()));
  view.window.addEventListener("change", () => (setWindow(tab), draw(), tab.changed?.()));
  view.blank.addEventListener("click", blankSelection);
  for (const name of ["undo", "redo", "clear"])
    view[name].addEventListener("click", () => (tab.blanks[name](), blanksChanged()));
  view.root.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target === view.data) return;
    event.preventDefault();
    tab.blanks[event.shiftKey ? "redo" : "undo"]();
    blanksChanged();
  });
  view.example.addEventListener("click", () => useExample(tab) && ask());
  view.paste.addEventListener("click", () => showPasting(tab, view.pasting.hidden));
  view.use.addEventListener("click", () => useText(tab, view.data.value, "Pasted values") && (showPasting(tab, false), ask()));
  view.file.addEventListener("change", () => openFile(view.file.files[0]));
  view.root.addEventListener("dragover", (event) => (event.preventDefault(), view.root.classList.add("is-over")));
  view.root.addEventListener(
    "dragleave",
    (event) => view.root.contains(event.relatedTarget) || view.root.classList.remove("is-over"),
  );
  view.root.addEventListener(
    "drop",
    (event) => (event.preventDefault(), view.root.classList.remove("is-over"), openFile(event.dataTransfer.files[0])),
  );
  view.download.addEventListener(
    "click",
    () => tab.answer && save(`${tab.model.name}-relevance.csv`, ["\uFEFF", relevanceCsv(...csvParts())], "text/csv"),
  );
  document.addEventListener("themechange", () => tab.data && draw());
}

async function openFile(file) {
  if (await useFile(tab, file)) ask();
}

const csvParts = () => [tab.data, tab.answer, tab.blanks.now];

function selected(stretch) {
  tab.selected = stretch;
  tab.view.blank.hidden = !stretch;
}

function blankSelection() {
  const { selected: stretch, view } = tab;
  if (!stretch) return;
  const features = view.which.value === "" ? {} : { features: [Number(view.which.value)] };
  tab.blanks.add({ start: stretch[0], end: stretch[1], ...features });
  tab.plot.select(null);
  selected(null);
  blanksChanged();
}

/** A click on a blanked stretch brings it back; the newest where several overlap. */
function bringBack(step) {
  const place = tab.blanks.now.findLastIndex(({ start, end }) => step >= start && step < end);
  if (place < 0) return false;
  tab.blanks.remove(place);
  blanksChanged();
  return true;
}

function blanksChanged() {
  drawBlanks();
  draw();
  ask();
}

/** Ask the service for what is set now; a newer question replaces an unanswered one. */
async function ask() {
  const { view, api, model, method, output, data, blanks } = tab;
  tab.asking?.abort();
  const asking = (tab.asking = new AbortController());
  const request = { values: data.values, model: model.name, method, ...(output ? { output } : {}) };
  const key = keyOf(tab);
  view.root.setAttribute("aria-busy", "true");
  drawBlanks();
  try {
    const call = (more) =>
      api.retrying(() => api.series({ ...request, ...more }, asking.signal), {
        signal: asking.signal,
        onWait: (error) => tell(tab, error.message),
      });
    if (!tab.before.has(key)) tab.before.set(key, await call({}));
    const answer = blanks.now.length ? await call({ blank: blanks.now }) : tab.before.get(key);
    if (tab.asking !== asking) return;
    tell(tab, "");
    tab.answer = answer;
    draw();
    tab.announce(spoken(tab));
    tab.changed?.();
  } catch (error) {
    if (error.name === "AbortError" || tab.asking !== asking) return;
    if (!(error instanceof api.ApiError)) throw error;
    tell(tab, error.message);
    if (!tab.answer) showNothing(tab);
  } finally {
    if (tab.asking === asking) view.root.setAttribute("aria-busy", "false");
  }
}

const draw = () => showAnswer(tab);
const drawBlanks = () => showBlanks(tab, (place) => (tab.blanks.remove(place), blanksChanged()));
