/** What the series tab says about a forecast: the headline, the outputs to choose from, the legend, the notes. */

import { html } from "../chart/elements.js";
import { short, signed } from "../chart/scale.js";

/** The forecast, and with blanks what it was before: "flow in 3 days 41.2 m³/s → 30.1 m³/s, −11.1". */
export function fillHeadline(place, { name, before, after, unit }) {
  const number = (value, kind) => html("span", { class: kind, text: withUnit(short(value, 4), unit) });
  const parts = [html("span", { class: "series-what", text: name }), " "];
  if (before === undefined || before === after) parts.push(number(after, "series-now"));
  else {
    const change = html("span", { class: `series-change ${after > before ? "is-up" : "is-down"}`, text: `${signed(after - before)}` });
    parts.push(number(before, "series-before"), html("span", { class: "series-arrow", "aria-label": "became", role: "img", text: "→" }), number(after, "series-now"), change);
  }
  place.replaceChildren(...parts);
}

/** A radio button per output, with its forecast. */
export function fillOutputs(fieldset, { outputs, output, unit }) {
  const legend = fieldset.querySelector("legend");
  const choices = Object.entries(outputs).map(([name, value]) =>
    html("label", { class: "series-choice", dataset: { output: name, value: String(value) } },
      html("input", { type: "radio", name: "series-output", value: name, checked: name === output }),
      html("span", { class: "series-choice-name", text: name, dir: "auto" }), html("b", { text: withUnit(short(value), unit) })));
  const focused = fieldset.contains(document.activeElement) ? document.activeElement.value : null;
  fieldset.replaceChildren(legend, ...choices);
  if (focused !== null) [...fieldset.querySelectorAll("input")].find(({ value }) => value === focused)?.focus();
}

/** The scale: full blue, white, full red, with its numbers. */
export function fillLegend(place, { largest, isSigned, isCrowded }) {
  const ramp = html("span", { class: `series-ramp${isSigned ? "" : " is-unsigned"}`, "aria-hidden": "true" });
  const ends = isSigned ? [`${signed(-largest)} against`, `for ${signed(largest)}`] : ["0", short(largest)];
  place.replaceChildren(
    html("span", { class: "series-scale-words", text: "Relevance per step" }), html("span", { text: ends[0] }), ramp, html("span", { text: ends[1] }),
    isCrowded ? html("span", { class: "series-crowded", text: "several steps share a pixel; the strongest is shown" }) : null ?? "");
}

/** What colours, blanks and zeros mean, with this model's own numbers. */
export function notes({ features, reference, step, output, isSigned }) {
  const means = features.map((name, n) => `${name} ${short(reference[n])}`).join(", ");
  const sign = isSigned
    ? `Red pushed “${output}” up, blue pushed it down; white did neither.`
    : `The deeper the colour, the more the forecast of “${output}” hangs on the value. The method does not tell up from down.`;
  return [
    sign,
    `A blanked value becomes the feature's reference: ${means}. The network reads it as an ordinary ${step}, not as a gap, so the others are weighed anew.`,
    `The network reads a value at its reference as 0, and an input of 0 gets no relevance: what is explained is how the forecast differs from that of reference values; the rest is in the constants.`,
  ];
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
