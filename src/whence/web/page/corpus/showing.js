/** Puts the rows on the tab: progress, summary, the table as filtered and sorted, the words of a class. */

import { count } from "./choosing.js";
import { fillLexicon, fillSummary } from "./results.js";
import { filtered, sorted } from "./rows.js";

/** How many texts are done. */
export function showProgress({ view, rows }, done) {
  view.bar.max = rows.length;
  view.bar.value = done;
  view.count.textContent = `${done.toLocaleString("en")} of ${count(rows.length)}`;
}

/** Everything that is known. */
export function showAll(tab) {
  fillSummary(tab.view.summary, tab.rows, tab.made.classes);
  showRows(tab);
  showLexicon(tab);
}

/** The rows that the filter lets through, in order. */
export function visibleRows({ view: { words, predicted, verdict }, rows, order, made }) {
  const filter = { words: words.value, predicted: predicted.value, verdict: verdict.value };
  return sorted(filtered(rows, filter), order, made.classes);
}

/** Whether the method only says how much, not for or against. */
export const isUnsigned = ({ models, made }) => !(models.methods.find(({ name }) => name === made.method)?.is_signed ?? true);

/** An order as the menu for narrow screens has it. */
export const sortValue = ({ column, isDown }) => `${column} ${isDown ? "down" : "up"}`;

/** The table, and how many rows it has. */
export function showRows(tab) {
  const rows = visibleRows(tab);
  const { order, page, made } = tab;
  tab.list.show({ rows, order, page, hasLabels: made.hasLabels, isUnsigned: isUnsigned(tab) });
  tab.view.sort.value = sortValue(order);
  const [shown, all] = [rows.length, tab.rows.length].map((number) => number.toLocaleString("en"));
  tab.view.shown.textContent = shown === all ? "" : `${shown} of ${all} rows`;
}

/** The words of the chosen class. */
export function showLexicon(tab) {
  const { view, made, rows } = tab;
  if (!made) return;
  const isByCharacter = made.reads === "characters";
  const minimum = Number(view.minimum.value);
  fillLexicon(view.lexicon, rows, {
    target: view.class.value,
    versus: made.versus,
    isFixed: made.target !== "predicted",
    minimum,
    isByCharacter,
    isUnsigned: isUnsigned(tab),
  });
}
