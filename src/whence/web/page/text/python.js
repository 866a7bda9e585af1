// The lines of Python that give the same result.

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

/** @param {State} state @param {string} target the class in view @returns {string} */
export function python(state, target) {
  const texts = [state.text, ...(state.open.includes("second") && state.second.trim() ? [state.second] : [])];
  const asked = texts.length > 1 ? `[${texts.map(literal).join(", ")}]` : literal(texts[0]);
  const lines = [`    ${asked},`, `    target=${targetOf(state, target)},`, `    method=${methodOf(state)},`];
  if (state.deleted.length) {
    lines.push(`    deleted=[${texts.map((_, n) => (n ? "[]" : `[${state.deleted.join(", ")}]`)).join(", ")}],`);
  }
  return [
    "import whence",
    "",
    `pipeline = whence.load(${literal(state.model)})`,
    `${texts.length > 1 || state.target === "all" ? "explanations" : "explanation"} = whence.explain(`,
    "    pipeline,",
    ...lines,
    ")",
    `print(${texts.length > 1 || state.target === "all" ? "explanations" : "explanation"})`,
    "",
  ].join("\n");
}

function targetOf(state, target) {
  if (state.versus && state.target !== "all") return `whence.contrast(${literal(target)}, ${literal(state.versus)})`;
  return literal(state.target);
}

function methodOf(state) {
  const name = METHODS[state.method];
  if (!name) return literal(state.method);
  const settings = state.method === "lrp" ? ["epsilon", "delta"].filter((each) => state[each] !== null) : [];
  return `whence.${name}(${settings.map((each) => `${each}=${state[each]}`).join(", ")})`;
}
