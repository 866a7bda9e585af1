/** Puts an answer of the service on the tab: headline, outputs, plot, legend, ledger, notes, and the list of blanks. */

import { html } from "../chart/elements.js";
import { short } from "../chart/scale.js";
import { sayBlank } from "./blanks.js";
import { fillLegend, fillOutputs, notes } from "./prediction.js";
import { ledger } from "./ledger.js";

/** What an answer without blanks depends on, beside the series. */
export const keyOf = ({ model, method, output, settings }) => JSON.stringify([model.name, method, output, settings]);

/** Show the newest answer; with none yet, only the lines. */
export function showAnswer(tab) {
  const { view, answer, model, models, method } = tab;
  const known = models.methods.find(({ name }) => name === method);
  const [isSigned, addsUp] = [known?.is_signed ?? true, known?.adds_up ?? true];
  const largest = Math.max(largestOf(answer), largestOf(tab.before.get(keyOf(tab))));
  showPlot(tab, { largest, isSigned });
  if (!answer) return;
  const step = model.step || "step";
  const { output, outputs, unit } = answer;
  const was = tab.blanks.now.length ? tab.before.get(keyOf(tab))?.outputs : undefined;
  fillOutputs(view.outputs, { outputs, output, unit, was, dateOf: (name) => dateOf(tab, name) });
  const { for: red, against: blue } = tab.colour.palette();
  view.legend.style.setProperty("--ramp-for", red);
  view.legend.style.setProperty("--ramp-against", blue);
  fillLegend(view.legend, {
    largest,
    step,
    unit,
    isSigned,
    isBoosted: view.boost.checked,
    isCrowded: tab.window[1] - tab.window[0] > view.plot.clientWidth,
  });
  const { element, sum } = ledger(answer, { features: tab.data.features, isSigned, addsUp });
  view.ledger.replaceChildren(element);
  if (addsUp) view.ledger.dataset.sum = String(sum);
  else delete view.ledger.dataset.sum;
  view.notes.replaceChildren(
    ...notes({ features: tab.data.features, reference: answer.reference, step, output, isSigned, choices: answer.choices, doubt: answer.doubt }).map(
      (text) => html("li", { text }),
    ),
  );
}

/** The date of an output that the service names by its step, or "". */
function dateOf({ model, data }, name) {
  const step = model.outputs.length || !data.hasLabels ? null : /^step (\d+)/.exec(name);
  return step ? (data.labels[Number(step[1])] ?? "") : "";
}

/** A series that could not be explained: its lines, and nothing of the series before it. */
export function showNothing(tab) {
  const { view } = tab;
  showAnswer(tab);
  view.outputs.replaceChildren(view.outputs.querySelector("legend"));
  for (const place of [view.legend, view.ledger, view.notes]) place.replaceChildren();
  delete view.ledger.dataset.sum;
}

function showPlot({ plot, data, answer, blanks, window, view }, { largest, isSigned }) {
  plot.show({
    features: data.features,
    labels: data.labels,
    values: data.values,
    relevance: answer?.relevance ?? null,
    reference: answer?.reference ?? null,
    blanks: answer ? blanks.now : [],
    largest,
    window,
    isSigned,
    isBoosted: view.boost.checked,
  });
}

function largestOf(answer) {
  let most = 0;
  for (const row of answer?.relevance ?? []) for (const value of row) most = Math.max(most, Math.abs(value));
  return most;
}

/** The prediction of the same output without blanks. */
function beforeOf(tab) {
  return tab.before.get(keyOf(tab))?.outputs[tab.answer.output];
}

/** The blanked stretches as a list with buttons, and the buttons of the toolbar. */
export function showBlanks({ view, blanks, data }, onRemove) {
  view.undo.disabled = !blanks.canUndo;
  view.redo.disabled = !blanks.canRedo;
  view.clear.disabled = !blanks.now.length;
  const item = (blank, place) => {
    const words = sayBlank(blank, data);
    const button = html(
      "button",
      { type: "button", class: "series-chip", "aria-label": `Bring back ${words}`, on: { click: () => onRemove(place) } },
      html("span", { text: words, dir: "auto" }),
      html("span", { class: "series-cross", "aria-hidden": "true", text: "×" }),
    );
    return html("li", {}, button);
  };
  view.chips.replaceChildren(...blanks.now.map(item));
  view.chips.hidden = !blanks.now.length;
}

/** The prediction in a sentence for screen readers. */
export function spoken(tab) {
  const { answer, blanks } = tab;
  const now = `${short(answer.outputs[answer.output], 4)} ${answer.unit ?? ""}`.trim();
  const was = beforeOf(tab);
  return blanks.now.length && was !== undefined
    ? `Prediction ${answer.output}: ${short(was, 4)} became ${now}`
    : `Prediction ${answer.output}: ${now}`;
}
