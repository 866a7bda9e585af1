/** The series with its relevance as a CSV file. */

import { csvLine } from "../csv.js";
import { stretchesOf } from "./words.js";

/** One line per step: its label, every value as the model read it, every relevance, and the features that were blanked. */
export function relevanceCsv({ labels, values, features }, { relevance, reference }, blanks) {
  const stretches = features.map((_, n) => stretchesOf(blanks, n));
  const isBlank = (step, n) => stretches[n].some(([start, end]) => step >= start && step < end);
  const head = ["step", ...features, ...features.map((name) => `relevance of ${name}`), "blanked"];
  const lines = labels.map((label, step) => {
    const read = values[step].map((value, n) => (isBlank(step, n) ? (reference[n] ?? value) : value));
    const blanked = features.filter((_, n) => isBlank(step, n)).join(" ");
    return csvLine([label, ...read, ...relevance[step], blanked]);
  });
  return csvLine(head) + lines.join("");
}
