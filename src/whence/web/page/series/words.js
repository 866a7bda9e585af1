/** Steps and stretches of a series in words, for readers and screen readers. */

import { short } from "../chart/scale.js";

/** The stretches that are blanked in one feature. */
export function stretchesOf(blanks, feature) {
  return blanks.filter(({ features }) => !features || features.includes(feature)).map(({ start, end }) => [start, end]);
}

/** A step in words: "2003-04-12: rain 4.1, relevance +0.02; …". */
export function words(picture, step, selected) {
  const { say } = picture;
  const parts = picture.features.map((name, n) => {
    const isBlank = stretchesOf(picture.blanks, n).some(([start, end]) => step >= start && step < end);
    const value = isBlank ? "blanked" : short(picture.values[step][n]);
    return `${name} ${value}${picture.relevance ? `, relevance ${say(picture.relevance[step][n])}` : ""}`;
  });
  const sum = picture.sums ? `; together ${say(picture.sums[step])}` : "";
  const chosen = selected ? ` (selected: ${picture.labels[selected[0]]} to ${picture.labels[selected[1] - 1]})` : "";
  return `${picture.labels[step]}: ${parts.join("; ")}${sum}${chosen}`;
}
