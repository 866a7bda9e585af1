/** What the series tab says about a prediction: the outputs to choose from, the legend, the notes. */

import { html } from "../chart/elements.js";
import { fixed, short, signed } from "../chart/scale.js";
import { hasReference } from "./source.js";

const CARDS = 6; // more outputs are a menu

/**
 * A radio button per output with its prediction, and with blanks what it was before: "in 3 days 41.2 → 30.1 m³/s −11.1". Many
 * outputs are a menu, with the prediction of the chosen one beside it.
 * @param {HTMLElement} fieldset
 * @param {{outputs: Object<string, number>, output: string, unit?: string, was?: Object<string, number>,
 *   dateOf: (name: string) => string}} prediction `dateOf`: the date that stands beside an output's name, or ""
 */
export function fillOutputs(fieldset, prediction) {
  const { outputs, output, unit, was, dateOf } = prediction;
  const legend = fieldset.querySelector("legend");
  if (Object.keys(outputs).length > CARDS) return fillMenu(fieldset, legend, prediction);
  const focused = fieldset.contains(document.activeElement) ? document.activeElement.value : null;
  const choices = Object.entries(outputs).map(([name, value]) => {
    const input = html("input", { type: "radio", name: "series-output", value: name });
    input.checked = name === output;
    return html(
      "label",
      { class: "series-choice", dataset: { output: name, value: String(value) } },
      input,
      html("span", { class: "series-choice-name", text: named(name, dateOf(name)), dir: "auto" }),
      amount(value, was?.[name], unit),
    );
  });
  fieldset.replaceChildren(legend, ...choices);
  if (focused !== null) [...fieldset.querySelectorAll("input")].find(({ value }) => value === focused)?.focus();
}

const named = (name, date) => (date ? `${name} · ${date}` : name);

function fillMenu(fieldset, legend, { outputs, output, unit, was, dateOf }) {
  const hadFocus = fieldset.contains(document.activeElement);
  const say = fixed(Math.max(...Object.values(outputs).map(Math.abs)), { isSigned: false });
  const option = ([name, value]) => html("option", { value: name, text: `${named(name, dateOf(name))}: ${say(value)}` });
  const menu = html(
    "select",
    { id: "series-output-menu", "aria-label": "The prediction to explain" },
    ...Object.entries(outputs).map(option),
  );
  menu.value = output;
  const value = outputs[output];
  fieldset.replaceChildren(
    legend,
    html(
      "div",
      { class: "series-menu", dataset: { output, value: String(value) } },
      menu,
      amount(value, was?.[output], unit),
    ),
  );
  if (hadFocus) menu.focus();
}

/** A prediction, large; with what it was before and the change where there are blanks. */
function amount(value, before, unit) {
  const say = fixed(Math.max(Math.abs(value), Math.abs(before ?? value)), { isSigned: false });
  const now = html("span", { class: "series-now", text: say(value) });
  const units = unit ? html("span", { class: "series-unit", text: unit }) : "";
  if (before === undefined) return html("span", { class: "series-amount" }, now, " ", units);
  const change = value - before;
  const size = say(Math.abs(change));
  const kind = Number(size) === 0 ? "" : change > 0 ? " is-up" : " is-down";
  return html(
    "span",
    { class: "series-amount" },
    html("span", { class: "series-before", text: say(before) }),
    html("span", { class: "series-arrow", role: "img", "aria-label": "became", text: "→" }),
    now,
    " ",
    units,
    " ",
    html("span", { class: `series-change${kind}`, text: kind ? (change > 0 ? "+" : "−") + size : "no change" }),
  );
}

/** The scale: full blue, white, full red, with its numbers. */
export function fillLegend(place, { largest, isSigned, isCrowded, isBoosted, step, unit }) {
  const ramp = html("span", {
    class: `series-ramp${isSigned ? "" : " is-unsigned"}${isBoosted ? " is-boosted" : ""}`,
    "aria-hidden": "true",
  });
  const ends = isSigned ? [`${signed(-largest)} against`, `for ${signed(largest)}`] : ["0", short(largest)];
  place.replaceChildren(
    html("span", { class: "series-scale-words", text: `Relevance of one value${isSigned && unit ? ` in ${unit}` : ""}` }),
    html("span", { text: ends[0] }),
    ramp,
    html("span", { text: ends[1] }),
    html("span", { class: "series-crowded", text: `bars: all features of ${withArticle(step)} together` }),
    isCrowded ? html("span", { class: "series-crowded", text: "several steps share a pixel; the strongest is shown" }) : "",
  );
}

/** "a day", "an hour". */
const withArticle = (noun) => `${/^([aeiou]|hour)/i.test(noun) ? "an" : "a"} ${noun}`;

/** What colours, blanks and zeros mean, with this model's own numbers. */
export function notes({ features, reference, step, output, isSigned, choices = [], doubt }) {
  const means = features.map((name, n) => `${name} = ${short(reference[n])}`).join(", ");
  const read = hasReference(reference) ? `an ordinary ${step}` : "zeros";
  const sign = isSigned
    ? `Red pushed the prediction “${output}” up, blue pushed it down; no colour did neither.`
    : `The deeper the colour, the more the prediction of “${output}” hangs on the value. The method does not tell up from down.`;
  return [
    ...(doubt ? [`In doubt: ${doubt}.`] : []),
    sign,
    `A blanked value becomes the feature's reference: ${means}. The network then reads ${read}, not a gap, and weighs all others anew.`,
    "A value at its reference is 0 for the network, and a 0 gets no relevance: relevance is about how far values are from their references. What the network predicts without any input is in the lines below the features.",
    ...choices.map((choice) => `Decided on the way: ${choice}`),
  ];
}
