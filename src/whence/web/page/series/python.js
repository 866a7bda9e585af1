/** The lines of Python that give the same explanation. */

import { literal } from "../text/python.js";

const INLINE = 200; // numbers; more are read from the downloaded CSV

/**
 * @param {{model: Object, data: Object, own: Object|null, answer: Object, blanks: Object[], settings: Object,
 *   file: string}} shown `own`: null for the model's example; `settings`: of LRP, those that were changed; `file`: the name of the CSV
 * @returns {string}
 */
export function python({ model, data, own, answer, blanks, settings, file }) {
  const changed = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const method = changed.length ? `whence.LRP(${changed.join(", ")})` : literal(answer.method.name);
  const blank = blanks.map(({ start, end, features }) => `(${start}, ${end}${features ? `, [${features.join(", ")}]` : ""})`);
  const values = valuesOf({ data, own, file });
  return [
    ...(values.isRead ? ["import csv", ""] : []),
    "import whence",
    "",
    ...(model.python ?? [`model = whence.load(${literal(model.name)})`]),
    ...values.lines,
    "explanation = whence.explain_series(",
    "    model,",
    "    values,",
    `    output=${literal(answer.output)},`,
    `    method=${method},`,
    ...(blank.length ? [`    blank=[${blank.join(", ")}],`] : []),
    ...(model.features.length ? [] : [`    features=[${data.features.map(literal).join(", ")}],`]),
    ")",
    "print(explanation)",
    "",
  ].join("\n");
}

/** The lines that make `values`. */
function valuesOf({ data: { values, features }, own, file }) {
  if (!own) return { isRead: false, lines: ["values = model.example_table().values"] };
  if (values.length * features.length <= INLINE)
    return { isRead: false, lines: ["values = [", ...values.map((row) => `    [${row.join(", ")}],`), "]"] };
  return {
    isRead: true,
    lines: [
      `with open(${literal(file)}, encoding="utf-8-sig", newline="") as lines:  # the CSV that the page saves`,
      `    values = [[float(cell) for cell in row[1:${features.length + 1}]] for row in list(csv.reader(lines))[1:]]`,
    ],
  };
}
