/** Signed bars as a table. */

import { html, stylesheet } from "./elements.js";
import { signed } from "./scale.js";

/**
 * Signed bars: a table with a label, a bar and a number in every row, red for positive and blue for negative numbers.
 * @param {Object} options
 * @param {string} options.label the table's caption
 * @param {{label: string, value: number, note?: string, class?: string, hasBar?: boolean}[]} options.items
 * @param {number} [options.largest] the number whose bar is full; else the largest of the items
 * @param {(value: number) => string} [options.say]
 * @param {boolean} [options.showsLabel] false hides the caption from sight (it stays for screen readers)
 * @param {boolean} [options.isSigned] whether bars go to two sides; else they do when there are numbers of both signs
 * @param {[string, string]} [options.heads] the names of the columns of labels and numbers, for screen readers
 * @returns {HTMLElement} a figure
 */
export function bars({ label, items, largest, say = signed, showsLabel = true, heads = ["name", "amount"], isSigned = null }) {
  stylesheet("../chart.css");
  const drawn = items.filter(({ hasBar = true }) => hasBar);
  const most = largest ?? Math.max(0, ...drawn.map(({ value }) => Math.abs(value)));
  const hasTwoSides = isSigned ?? (drawn.some(({ value }) => value < 0) && drawn.some(({ value }) => value > 0));
  const row = ({ label: name, value, note, class: kind, hasBar = true }) => {
    const bar = html("span", { class: `bar ${value < 0 ? "is-against" : "is-for"}` });
    bar.style.setProperty("--share", most ? String(Math.min(Math.abs(value) / most, 1)) : "0");
    const track = html(
      "td",
      { class: "bar-cell", "aria-hidden": "true" },
      html("span", { class: `bar-track${hasTwoSides ? " is-signed" : ""}` }, bar),
    );
    return html(
      "tr",
      { class: kind ?? null },
      html(
        "th",
        { scope: "row", dir: "auto", colspan: hasBar ? null : "2" },
        html("span", { text: name }),
        note ? html("small", { text: ` ${note}` }) : null,
      ),
      hasBar ? track : null,
      html("td", { class: "bar-number", text: say(value) }),
    );
  };
  return html(
    "figure",
    { class: "chart" },
    html(
      "table",
      { class: "bars" },
      html("caption", {}, html("span", { class: showsLabel ? null : "chart-unseen", text: label })),
      html("thead", {}, html("tr", {}, hidden("th", heads[0]), html("td", { "aria-hidden": "true" }), hidden("th", heads[1]))),
      html("tbody", {}, ...items.map(row)),
    ),
  );
}

/** The head of a column, for screen readers only. */
function hidden(name, text) {
  return html(name, { scope: "col" }, html("span", { class: "chart-unseen", text }));
}
