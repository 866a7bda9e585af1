// What stands beside the sentence: the text before a replacement, another method or model, all classes, another sentence.

import { element, isSingle, percent, probabilities, signed } from "../dom.js";
import { shade } from "../colour.js";
import { goal, heatmap, largestOf, paint } from "../heatmap.js";

/** @typedef {import("./answers.js").View} View */
/** @typedef {import("../heatmap.js").Explanation} Explanation */

/** What the colours of a heatmap mean. @param {Explanation} explanation @param {{unsigned: boolean, label: string}} method */
export function legend(explanation, { unsigned, label }) {
  const about = goal(explanation);
  const marks = unsigned ? [swatch(1, "matters"), ` for ${about}`] : [swatch(1, "for"), " ", swatch(-1, "against"), ` ${about}`];
  const notes = [`full colour at ${unsigned ? "" : "±"}${largestOf(explanation).toFixed(2)}`];
  if (explanation.unknown?.some(Boolean)) notes.push("dotted: not in the vocabulary");
  if (unsigned) notes.push(`${label} does not tell for from against`);
  return [...marks, ` · ${notes.join(" · ")}`];
}

function swatch(value, text) {
  const { background, ink } = shade(value, 1);
  const made = element("span", { class: "swatch", text });
  made.style.backgroundColor = background;
  made.style.color = ink;
  return made;
}

/** "negative, 67 %" as a heading; "negative 67 %" where it is the only class. @param {Explanation} explanation @param {Record<string, string>} [dataset] */
export function said({ scores, predicted }, dataset = {}) {
  const share = percent(probabilities(scores)[predicted]);
  return [element("strong", { text: predicted, dataset }), `${isSingle(scores) ? "" : ","} ${share}`];
}

/** A model with one class does not choose it. @param {Explanation} explanation */
export const gives = ({ scores }) => (isSingle(scores) ? "The model gives " : "The model says ");

/**
 * The sentence before a word was replaced.
 * @param {HTMLElement} box @param {View} view @param {{unsigned: boolean, onClose: () => void}} options
 */
export function paintBefore(box, view, { unsigned, onClose }) {
  if (!view.before) return box.replaceChildren();
  const { before, main } = view;
  const change = (main.scores[main.target] ?? 0) - (before.scores[main.target] ?? 0);
  return box.replaceChildren(
    element("div", { class: "beside" },
      element("p", { class: "verdict" }, "Before: ", ...said(before), `. The score of ${main.target} changed by ${signed(change)}.`),
      heatmap(before, { still: true, unsigned }),
      element("div", { class: "actions" }, element("button", { type: "button", text: "Hide the sentence before", on: { click: onClose } }))),
  );
}

/**
 * The same sentence by another method or model, with the same words deleted.
 * @param {HTMLElement} box @param {View} view
 * @param {{title: string, label: string, unsigned: boolean, onToken: (tokens: number, event: Event) => void, deleted: number[], mounted: (map: HTMLElement) => void}} options
 */
export function paintOther(box, view, { title, label, unsigned, onToken, deleted, mounted }) {
  if (!view.other) {
    box.map = null;
    const problem = view.otherProblem ? [element("p", { class: "message", role: "status", text: view.otherProblem.message })] : [];
    return box.replaceChildren(...problem);
  }
  const options = { deleted, onToken, unsigned, label: `The words and their relevance by ${title}` };
  if (box.map?.isConnected) paint(box.map, view.other, options);
  else {
    box.map = heatmap(view.other, options);
    box.head = element("p", { class: "verdict" });
    box.legend = element("p", { class: "legend" });
    mounted(box.map);
    box.replaceChildren(element("div", { class: "beside" }, box.head, box.map, box.legend));
  }
  box.legend.replaceChildren(...legend(view.other, { unsigned, label }));
  return box.head.replaceChildren(`By ${title}: `, ...said(view.other), `. Explained: ${goal(view.other)}, ${signed(view.other.score)}.`);
}

/**
 * A small heatmap for every class, on one scale.
 * @param {HTMLElement} box @param {View} view @param {{unsigned: boolean, deleted: number[], onClass: (name: string) => void}} options
 */
export function paintClasses(box, view, { unsigned, deleted, onClass }) {
  if (!view.all) return box.replaceChildren();
  const largest = Math.max(...view.all.map(largestOf));
  const card = (explanation) =>
    element("div", { class: "multiple" },
      element("button", { type: "button", on: { click: () => onClass(explanation.target) }, title: `Explain ${explanation.target}` },
        element("bdi", { text: explanation.target }), element("span", { class: "amount", text: signed(explanation.score) })),
      heatmap(explanation, { still: true, deleted, largest, unsigned }));
  return box.replaceChildren(element("div", { class: "multiples" }, ...view.all.map(card)));
}

/**
 * The other sentence, explained the same way.
 * @param {HTMLElement} box @param {View} view @param {{unsigned: boolean, unit: string, onSwap: () => void}} options
 */
export function paintSecond(box, view, { unsigned, unit, onSwap }) {
  if (!view.second) return box.replaceChildren();
  const { second, main } = view;
  const words = (explanation) => explanation.relevance.reduce((sum, value) => sum + value, 0);
  const compared = second.target === main.target
    ? ` The score of ${goal(main)} is ${signed(second.score)} here and ${signed(main.score)} above; the ${unit}s bring ${signed(words(second))} and ${signed(words(main))}.`
    : ` Explained: ${goal(second)}, ${signed(second.score)}.`;
  return box.replaceChildren(
    element("div", { class: "beside" },
      element("p", { class: "verdict" }, gives(second), ...said(second), ".", compared),
      heatmap(second, { still: true, unsigned }),
      element("div", { class: "actions" }, element("button", { type: "button", text: "Swap the sentences", on: { click: onSwap } }))),
  );
}
