/** The series tab: reads a series, asks the service, shows what it says. `mount` once, then `state` and `restore`. */

import { html, stylesheet } from "../chart/elements.js";
import { copy } from "../copy.js";
import { save } from "../saving.js";
import { Blanks, validBlanks } from "./blanks.js";
import { makePlot } from "./plot.js";
import { python } from "./python.js";
import { relevanceCsv } from "./saving.js";
import { keyOf, showAnswer, showNothing, showBlanks, spoken } from "./showing.js";
import {
  fillGaps,
  setWindow,
  showPasting,
  tell,
  untell,
  useAgain,
  useExample,
  useFile,
  useText,
  validFill,
} from "./source.js";
import { makeView } from "./view.js";

const LINKED = 8000; // characters of data that a link carries
const SETTINGS = ["epsilon", "delta"];
const PAUSE = 300; // milliseconds after a letter of a setting

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
    own: null,
    aside: null,
    gap: null,
    references: new Map(),
    settings: {},
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
  const { model, output, method, blanks, own, settings } = tab;
  const kept = { model: model.name, method, ...settings };
  if (output) kept.output = output;
  if (blanks.now.length) kept.blanks = blanks.now;
  if (tab.view.boost.checked) kept.boost = true;
  if (tab.view.window.value) kept.last = Number(tab.view.window.value);
  if (own && own.text.length < LINKED) Object.assign(kept, { data: own.text, ...(own.fill ? { fill: own.fill } : {}) });
  else if (own) kept.isLeftOut = true;
  return kept;
}

/** Show what a link says; whatever does not fit is left out. */
export function restore(kept) {
  if (!tab) return;
  if (tab.served.some(({ name }) => name === kept.model)) chooseModel(kept.model);
  if (tab.models.methods.some(({ name }) => name === kept.method)) tab.view.method.value = tab.method = kept.method;
  for (const name of SETTINGS) setSetting(name, kept[name]);
  tab.view.boost.checked = kept.boost === true;
  const fill = validFill(kept.fill, tab.model.features.length);
  if (typeof kept.data !== "string" || !useText(tab, kept.data, "The series of the link", fill)) useExample(tab);
  if (typeof kept.output === "string" && (!tab.model.outputs.length || tab.model.outputs.includes(kept.output)))
    tab.output = kept.output;
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
  const defaults = models.methods.find(({ name }) => name === "lrp")?.settings ?? {};
  for (const name of SETTINGS) view[name].placeholder = String(defaults[name] ?? "");
  showSettings();
}

/** Settings belong to LRP. */
const showSettings = () => (tab.view.settings.hidden = tab.method !== "lrp");

/** Keep a setting; what is no number of at least 0 means the default. */
function setSetting(name, value) {
  const isSet = typeof value === "number" && Number.isFinite(value) && value >= 0;
  const { [name]: _, ...others } = tab.settings;
  tab.settings = isSet ? { ...others, [name]: value } : others;
  if (document.activeElement !== tab.view[name]) tab.view[name].value = isSet ? String(value) : "";
}

const typed = ({ value }) => (value.trim() === "" ? null : Number(value));

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
  view.model.addEventListener("change", () => (chooseModel(view.model.value), useAgain(tab) && ask()));
  view.method.addEventListener("change", () => ((tab.method = view.method.value), showSettings(), ask()));
  view.outputs.addEventListener("change", (event) => ((tab.output = event.target.value), ask()));
  let pause = 0;
  for (const name of SETTINGS)
    view[name].addEventListener("input", () => {
      setSetting(name, typed(view[name]));
      clearTimeout(pause);
      pause = setTimeout(() => tab.data && ask(), PAUSE);
    });
  view.fillBefore.addEventListener("click", () => fillGaps(tab, "before") && (showPasting(tab, false), ask()));
  view.fillReference.addEventListener("click", () => fillGaps(tab, "reference") && (showPasting(tab, false), ask()));
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
    () => tab.answer && save(fileName("csv"), ["\uFEFF", relevanceCsv(...csvParts())], "text/csv"),
  );
  view.json.addEventListener(
    "click",
    () => tab.answer && save(fileName("json"), `${JSON.stringify(tab.answer, null, 1)}\n`, "application/json"),
  );
  view.python.addEventListener("click", copyPython);
  document.addEventListener("themechange", () => tab.data && draw());
}

/** "river-lstm-3-days-lrp.csv" */
const fileName = (suffix) =>
  `${[tab.model.name, tab.answer.output, tab.method].join("-").replace(/[^\p{L}\p{N}.-]+/gu, "-")}.${suffix}`;

async function copyPython() {
  if (!tab.answer) return;
  const { model, data, own, answer, blanks } = tab;
  const lines = python({ model, data, own, answer, blanks: blanks.now, settings: settingsNow(), file: fileName("csv") });
  const isCopied = await copy(lines);
  tab.view.python.textContent = isCopied ? "Copied" : "Could not be copied";
  tab.announce(isCopied ? "The lines of Python are copied" : "The lines of Python could not be copied");
  setTimeout(() => (tab.view.python.textContent = "Copy as Python"), 2000);
}

const settingsNow = () => (tab.method === "lrp" ? tab.settings : {});

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
  const request = { values: data.values, model: model.name, method, ...settingsNow(), ...(output ? { output } : {}) };
  const key = keyOf(tab);
  view.root.setAttribute("aria-busy", "true");
  drawBlanks();
  try {
    const call = (more) =>
      api.retrying(() => api.series({ ...request, ...more }, asking.signal), {
        signal: asking.signal,
        onWait: (error) => tell(tab, error.message, { isPassing: true }),
      });
    if (!tab.before.has(key)) tab.before.set(key, await call({}));
    const answer = blanks.now.length ? await call({ blank: blanks.now }) : tab.before.get(key);
    if (tab.asking !== asking) return;
    untell(tab);
    tab.answer = answer;
    tab.references.set(model.name, answer.reference);
    draw();
    tab.announce(spoken(tab));
    tab.changed?.();
  } catch (error) {
    if (error.name === "AbortError" || tab.asking !== asking) return;
    if (!(error instanceof api.ApiError)) throw error;
    tell(tab, error.message, { isPassing: true });
    if (!tab.answer) showNothing(tab);
  } finally {
    if (tab.asking === asking) view.root.setAttribute("aria-busy", "false");
  }
}

const draw = () => showAnswer(tab);
const drawBlanks = () => showBlanks(tab, (place) => (tab.blanks.remove(place), blanksChanged()));
