/** Where the series comes from: the model's example, a file, pasted values; and which part of it is shown. */

import { html } from "../chart/elements.js";
import { CsvError } from "../csv.js";
import { FileError, readText } from "../files.js";
import { readSeries } from "./reading.js";

const BYTES = 5e6; // of a file
const WINDOWS = [30, 90, 365, 1000];

/** Say a sentence above the plot; "" takes it away. */
export function tell(tab, sentence) {
  tab.view.message.textContent = sentence;
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
  if (model.example) useText(tab, model.example, "Example");
  else {
    tab.data = tab.answer = null;
    tab.asking?.abort();
    view.root.classList.add("has-no-series");
    view.root.setAttribute("aria-busy", "false");
    view.source.textContent = `This model brings no example${model.features.length ? `. It reads ${model.features.join(", ")}` : ""}:`;
  }
  tab.isExample = true;
  view.example.hidden = true;
  return tab.data !== null;
}

/** Take a series from CSV text; what cannot be read leaves everything as it was. @returns {boolean} whether it could be read */
export function useText(tab, text, source) {
  const { model, models, view } = tab;
  try {
    tab.data = readSeries(text, { features: model.features, limit: models.limits.steps, step: model.step || "step" });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    tell(tab, error.message);
    return false;
  }
  Object.assign(tab, { text, isExample: false, answer: null, before: new Map(), selected: null });
  tab.blanks.restart();
  tell(tab, "");
  view.example.hidden = !model.example;
  view.root.classList.remove("has-no-series");
  describe(tab, source);
  setWindow(tab);
  return true;
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
