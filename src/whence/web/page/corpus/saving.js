/** The explained rows as files: a page of its own, JSON Lines, CSV. All are made here in the browser. */

import { shade } from "../colour.js";
import { csvLine } from "../csv.js";
import { largestOf } from "../heatmap.js";
import { percent, visible } from "../dom.js";

/** The service's own objects, one per line, with the row of the file and its label. @param {import("./rows.js").Row[]} rows */
export function jsonLines(rows) {
  return rows.filter(isDone).map(({ row, text, label, explanation, error }) => {
    const more = label === null ? {} : { label };
    return JSON.stringify(explanation ? { row, ...explanation, ...more } : { row, text, error, ...more }) + "\n";
  });
}

const HEAD = ["row", "text", "predicted", "probability", "label", "right", "target", "versus", "score", "tokens", "relevance", "error"];

/**
 * A line per row, with the other columns of the file at its end; tokens and relevance as JSON lists. Text that begins like a
 * formula gets an apostrophe in front.
 * @param {import("./rows.js").Row[]} rows @param {{others: string[]}} made the names of the file's other columns
 */
export function csv(rows, { others: names }) {
  const head = [...HEAD, ...names.map((name) => (HEAD.includes(name) ? `${name} in the file` : name))];
  const lines = rows
    .filter(isDone)
    .map(({ row, text, label, probability, isRight, explanation: e, error, others }) =>
      csvLine([
        row,
        text,
        e?.predicted,
        probability,
        label,
        isRight === null ? null : isRight ? "yes" : "no",
        e?.target,
        e?.versus,
        e?.score,
        e && JSON.stringify(e.tokens),
        e && JSON.stringify(e.relevance),
        error,
        ...others,
      ]),
    );
  return ["\uFEFF", csvLine(head), ...lines];
}

const STYLE = `:root{color-scheme:light}body{margin:2rem auto;max-width:60rem;padding:0 1rem;font:16px/1.6 system-ui,sans-serif;color:#1c1b1a;background:#fff}
table{border-collapse:collapse;width:100%}th,td{padding:.4rem .6rem;border-bottom:1px solid #e4e2de;text-align:start;vertical-align:top}
th{font-size:.8rem;color:#5d5a56}td:first-child,td.n{font-variant-numeric:tabular-nums;white-space:nowrap}.t{white-space:pre-wrap;overflow-wrap:anywhere}
.t span{border-radius:3px;padding:.05em .1em}.c{white-space:nowrap}.e{color:#8a4b00}p{color:#5d5a56}`;

/** A page of its own with the heatmaps of all rows. @param {{model: string, method: string, key: string}} made by what */
export function page(rows, { model, method, key }) {
  const hasLabels = rows.some(({ label }) => label !== null);
  const heads = ["", "text", "predicted", "probability", ...(hasLabels ? ["label"] : [])];
  return [
    `<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>whence: ${escaped(model)}</title><style>${STYLE}</style></head><body>\n`,
    `<h1>${rows.length} texts, explained</h1>\n<p>Model ${escaped(model)}, method ${escaped(method)}. ${escaped(key)}</p>\n`,
    `<table><thead><tr>${heads.map((name) => `<th scope="col">${name}</th>`).join("")}</tr></thead><tbody>\n`,
    ...rows.filter(isDone).map((row) => line(row, hasLabels)),
    "</tbody></table></body></html>\n",
  ];
}

function line({ row, text, label, truth, probability, isRight, explanation, error }, hasLabels) {
  const mark = isRight === null ? "" : isRight ? " ✓" : " ✗";
  const said = hasLabels ? `<td${truth === null ? "" : ' class="c"'}>${escaped(truth ?? label ?? "")}${mark}</td>` : "";
  if (!explanation)
    return `<tr><td>${row}</td><td class="t" dir="auto">${escaped(text ?? "")}<br><em class="e">${escaped(error)}</em></td><td></td><td></td>${said}</tr>\n`;
  return `<tr><td>${row}</td><td class="t" dir="auto">${coloured(explanation)}</td><td class="c">${escaped(explanation.predicted)}</td><td class="n">${percent(probability)}</td>${said}</tr>\n`;
}

/** The text with its words in colour, as typed. */
function coloured(explanation) {
  const points = [...explanation.text];
  const largest = largestOf(explanation);
  let place = 0;
  let found = "";
  explanation.spans.forEach(([start, end], n) => {
    const value = explanation.relevance[n];
    const { strength } = shade(value, largest);
    const colour = `rgb(${value >= 0 ? "178 24 43" : "33 102 172"}/${strength.toFixed(3)})`;
    const ink = strength > 0.6 ? ";color:#fff" : "";
    found += escaped(points.slice(place, start).join(""));
    found += `<span style="background:${colour}${ink}" title="${value.toFixed(4)}">${escaped(points.slice(start, end).join(""))}</span>`;
    place = end;
  });
  return found + escaped(points.slice(place).join(""));
}

const MARKUP = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escaped = (text) => visible(String(text)).replace(/[&<>"']/g, (mark) => MARKUP[mark]);
const isDone = ({ explanation, error }) => explanation !== null || error !== null;
