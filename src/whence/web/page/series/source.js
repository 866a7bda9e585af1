/** Where the series comes from: the model's example, a file, pasted values; and which part of it is shown. */

import { html } from "../chart/elements.js";
import { CsvError } from "../csv.js";
import { FileError, readText } from "../files.js";
import { GapError } from "./gaps.js";
import { readSeries } from "./reading.js";

const BYTES = 5e6; // of a file
const WINDOWS = [30, 90, 365, 1000];

/** Say a sentence above the plot; "" takes it away. One that `isPassing` also goes when the service has answered. */
export function tell(tab, sentence, { isPassing = false } = {}) {
  tab.view.message.textContent = sentence;
  tab.isPassing = isPassing;
}

/** Take away what was said while waiting for the service. */
export function untell(tab) {
  if (tab.isPassing) tell(tab, "");
}

/** Open or close the box for pasted values. */
export function showPasting({ view }, isShown) {
  view.pasting.hidden = !isShown;
  view.paste.setAttribute("aria-expanded", String(isShown));
  if (isShown) view.data.focus();
}

/** Take a series from a file. @returns {Promise<boolean>} whether there is a new series */
export async function useFile(tab, file) {
  if (!file) return false;
  tab.view.file.value = "";
  try {
    const { text, note } = await readText(file, BYTES);
    const isRead = useText(tab, text, file.name);
    if (isRead) tell(tab, note);
    return isRead;
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    tell(tab, error.message);
    return false;
  }
}

/** Take the model's example; a model without one waits for a file. @returns {boolean} whether there is a series */
export function useExample(tab) {
  const { model, view } = tab;
  tab.own = tab.aside = null;
  if (model.example) take(tab, { text: model.example, source: "Example", fill: null });
  else {
    tab.data = tab.answer = null;
    tab.asking?.abort();
    view.root.classList.add("has-no-series");
    view.root.setAttribute("aria-busy", "false");
    view.source.textContent = `This model brings no example${model.features.length ? `. It reads ${model.features.join(", ")}` : ""}:`;
  }
  view.example.hidden = true;
  return tab.data !== null;
}

/**
 * Take a series from CSV text; what cannot be read leaves everything as it was.
 * @param {import("./gaps.js").Fill|null} [fill] what missing values become
 * @returns {boolean} whether it could be read
 */
export function useText(tab, text, source, fill = null) {
  const given = { text, source, fill };
  if (!take(tab, given)) return false;
  tab.own = given;
  tab.aside = null;
  tab.view.example.hidden = !tab.model.example;
  return true;
}

/** After another model was chosen: the reader's series again, or the example where it does not fit. */
export function useAgain(tab) {
  const { model, view } = tab;
  const own = tab.own ?? tab.aside;
  if (!own) return useExample(tab);
  const fill = own.fill?.with === "reference" ? null : own.fill; // references are the other model's
  if (useText(tab, own.text, own.source, fill)) return true;
  const why = view.message.textContent;
  const { gap } = tab;
  const isShown = useExample(tab);
  tab.aside = own; // for the way back
  tell(tab, `Your series does not fit ${model.name}. ${why}`);
  offerFilling(tab, gap);
  return isShown;
}

function take(tab, given) {
  const { model, models, view } = tab;
  const { text, source, fill } = given;
  try {
    tab.data = readSeries(text, { features: model.features, limit: models.limits.steps, step: model.step || "step", fill });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    tell(tab, error.message);
    offerFilling(tab, error instanceof GapError ? given : null);
    return false;
  }
  Object.assign(tab, { answer: null, before: new Map(), selected: null });
  if (!model.outputs.length) tab.output = null; // their names may depend on the length
  tab.blanks.restart();
  tell(tab, "");
  offerFilling(tab, null);
  view.root.classList.remove("has-no-series");
  describe(tab, source);
  setWindow(tab);
  return true;
}

/** Offer to fill the gaps of a series that was refused for them; null takes the offer away. */
function offerFilling(tab, given) {
  const { view, references, model } = tab;
  tab.gap = given;
  view.gaps.hidden = !given;
  view.fillReference.hidden = !hasReference(references.get(model.name));
}

/** Read the refused series again with its gaps filled. @param {"before"|"reference"} way @returns {boolean} */
export function fillGaps(tab, way) {
  const { text, source } = tab.gap;
  const fill = way === "reference" ? { with: way, values: tab.references.get(tab.model.name) } : { with: way };
  return useText(tab, text, source, fill);
}

/** Whether a model has reference values of its own, not raw zeros. */
export const hasReference = (reference) => Boolean(reference?.some((value) => value !== 0));

/** A filling as a link holds it, or null. */
export function validFill(kept, features) {
  if (kept?.with === "before") return { with: "before" };
  const { values } = kept?.with === "reference" ? kept : {};
  return Array.isArray(values) && values.length === features && values.every(Number.isFinite) ? { with: "reference", values } : null;
}

/** What the series is, and the choices that depend on it. */
function describe({ view, data: { labels, features, notes }, model }, source) {
  const count = `${labels.length} ${model.step || "step"}${labels.length === 1 ? "" : "s"}`;
  view.source.textContent = [`${source}: ${count}, ${labels[0]} to ${labels.at(-1)}.`, ...notes].join(" ");
  const option = (value, text) => html("option", { value: String(value), text });
  view.which.replaceChildren(option("", "in all features"), ...features.map((name, n) => option(n, `in ${name} only`)));
  const windows = WINDOWS.filter((steps) => steps < labels.length).map((steps) => option(steps, `the last ${steps}`));
  view.window.replaceChildren(option("", `all ${count}`), ...windows);
}

/** The steps that are shown. */
export function setWindow(tab) {
  const steps = tab.data.labels.length;
  tab.window = [Math.max(0, steps - Number(tab.view.window.value || steps)), steps];
}
