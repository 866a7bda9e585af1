/** What the corpus tab says about all rows: the summary by class and the words that speak for and against a class. */

import { bars } from "../chart.js";
import { html } from "../chart/elements.js";
import { fixed } from "../chart/scale.js";
import { counts } from "./rows.js";
import { representative } from "./words.js";

const WORDS = 10;

/** How many texts went to which class, how many were right, how many failed. */
export function fillSummary(place, rows, classes) {
  const { predicted, explained, right, judged, failed } = counts(rows, classes);
  const parts = [`${explained} ${explained === 1 ? "text" : "texts"} explained`];
  if (judged) parts.push(`${right} of ${judged} predicted as labelled (${Math.round((100 * right) / judged)} %)`);
  if (failed) parts.push(`${failed} could not be explained`);
  const most = Math.max(1, ...Object.values(predicted));
  const share = (name) => {
    const bar = html("span", { class: "corpus-stack", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(predicted[name] / most));
    return html(
      "div",
      { class: "corpus-class" },
      html("dt", { text: name, dir: "auto" }),
      html("dd", {}, bar, String(predicted[name])),
    );
  };
  place.replaceChildren(
    html("p", { class: "verdict", text: `${parts.join("; ")}.` }),
    html("dl", { class: "corpus-classes", "aria-label": "Predicted" }, ...classes.map(share)),
  );
}

/** The most and the least relevant words for one class, over the texts predicted as that class, or all if the class `isFixed`. */
export function fillLexicon(place, rows, { target, versus, isFixed, minimum, isByCharacter, isUnsigned }) {
  const explanations = rows.map(({ explanation }) => explanation).filter(Boolean);
  const found = representative(explanations, { target, minimum, most: WORDS, isByCharacter });
  if (!found.words) {
    const as = isFixed ? "" : ` predicted as “${target}”`;
    const why = found.texts ? `No word occurs ${minimum} times in the ${found.texts} texts${as}` : `No text was${as || " explained"}`;
    place.replaceChildren(html("p", { class: "corpus-small", text: `${why}.` }));
    return;
  }
  const largest = Math.max(...[...found.most, ...found.least].map(({ mean }) => Math.abs(mean)));
  const isSigned = found.most.some(({ mean }) => mean < 0) || found.least.some(({ mean }) => mean > 0); // both lists share a scale
  const list = (label, words) =>
    bars({
      label,
      largest,
      isSigned,
      say: fixed(largest, { isSigned: !isUnsigned }),
      heads: ["word, how often", "mean relevance"],
      items: words.map(({ word, mean, count }) => ({ label: word, value: mean, note: `${count}×` })),
    });
  const rest = versus ? " versus the rest" : "";
  const texts = `${found.texts} ${found.texts === 1 ? "text" : "texts"}${isFixed ? "" : " predicted as it"}`;
  const note = `Mean relevance for “${target}”${rest} over the ${texts}; beside each word, how often it occurs.`;
  place.replaceChildren(
    html("p", { class: "corpus-small", text: note }),
    list(isUnsigned ? "Matter most" : "Speak for it most", found.most),
    list(isUnsigned ? "Matter least" : "Speak against it most, or for it least", found.least),
  );
}
