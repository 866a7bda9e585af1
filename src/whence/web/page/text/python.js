// The lines of Python that give the same result.

import { textsOf } from "./request.js";

/** @typedef {import("./store.js").State} State */

const METHODS = { lrp: "LRP", sa: "SensitivityAnalysis", gi: "GradientXInput" };

/** A string as Python writes it; what cannot be seen or changes the reading direction is escaped. @param {string} text */
export function literal(text) {
  const escaped = text.replace(/[\\"]|[^\u0020-\u007e\p{L}\p{N}\p{P}\p{S}\p{M}]/gu, (mark) => {
    const known = { "\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t" }[mark];
    if (known) return known;
    const code = mark.codePointAt(0);
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
  return `"${escaped}"`;
}

/**
 * @param {State} state @param {string[]} [making] lines that make `pipeline`, for a model that `whence.load` does not know
 * @returns {string}
 */
export function python(state, making = [`pipeline = whence.load(${literal(state.model)})`]) {
  const texts = textsOf(state).map(([, text]) => text);
  const asked = texts.length > 1 ? `[${texts.map(literal).join(", ")}]` : literal(texts[0]);
  const lines = [`    ${asked},`, `    target=${targetOf(state)},`, `    method=${methodOf(state)},`];
  if (state.deleted.length) {
    lines.push(`    deleted=[${texts.map((_, n) => (n ? "[]" : `[${state.deleted.join(", ")}]`)).join(", ")}],`);
  }
  const isImport = (line) => /^(import|from) /.test(line);
  const found = texts.length > 1 || state.target === "all" ? "explanations" : "explanation";
  return [
    "import whence",
    ...making.filter(isImport),
    "",
    ...making.filter((line) => !isImport(line)),
    `${found} = whence.explain(`,
    "    pipeline,",
    ...lines,
    ")",
    `print(${found})`,
    "",
  ].join("\n");
}

/** "predicted" stays as it is: every text has a predicted class of its own. */
function targetOf({ target, versus }) {
  return versus && target !== "all" ? `whence.contrast(${literal(target)}, ${literal(versus)})` : literal(target);
}

function methodOf(state) {
  const name = METHODS[state.method];
  if (!name) return literal(state.method);
  const settings = state.method === "lrp" ? ["epsilon", "delta"].filter((each) => state[each] !== null) : [];
  return `whence.${name}(${settings.map((each) => `${each}=${state[each]}`).join(", ")})`;
}
