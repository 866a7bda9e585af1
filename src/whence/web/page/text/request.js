// From the state to what the service is asked.

/** @typedef {import("./store.js").State} State */

/** What is asked of every text: model, method, target. @param {State} state */
export function question(state) {
  const asked = { model: state.model, method: state.method, target: state.target };
  if (state.versus && state.target !== "all") asked.versus = state.versus;
  if (state.method === "lrp") {
    if (state.epsilon !== null) asked.epsilon = state.epsilon;
    if (state.delta !== null) asked.delta = state.delta;
  }
  return asked;
}

/** The texts that are explained together, by their part in the view. @param {State} state @returns {[string, string][]} */
export function textsOf(state) {
  const texts = [["main", state.text]];
  if (state.before !== null && state.before.trim()) texts.push(["before", state.before]);
  if (state.open.includes("second") && state.second.trim()) texts.push(["second", state.second]);
  return texts;
}

/** Only the main text has deletions. */
const deletions = (texts, { deleted }) => (deleted.length ? { deleted: texts.map(([part]) => (part === "main" ? deleted : [])) } : {});

/** @param {State} state @param {boolean} hasEncoders */
export function request(state, hasEncoders) {
  const texts = textsOf(state);
  return {
    ...question(state),
    texts: texts.map(([, text]) => text),
    ...deletions(texts, state),
    ...(hasEncoders && state.open.includes("position") ? { encoders: true } : {}),
  };
}

/** What is asked for a document: all sentences in view. An image shows one explanation, so it takes the first sentence. @param {State} state @param {string} target in view @param {string} format */
export function document(state, target, format) {
  const isImage = format === "svg";
  const texts = textsOf(state).filter(([part]) => part === "main" || !isImage);
  return {
    ...question(state),
    ...(isImage && state.target === "all" ? { target } : {}),
    texts: texts.map(([, text]) => text),
    ...deletions(texts, state),
    format,
  };
}

/** The state of the other side of a side by side. @param {State} state @returns {State} */
export function otherSide(state) {
  const [kind, name] = [state.compare.split(":", 1)[0], state.compare.slice(state.compare.indexOf(":") + 1)];
  return { ...state, [kind]: name, compare: "", before: null, open: [] };
}

/**
 * The same deletions for a text that is cut another way: every token of `to` that touches a deleted token of `from`.
 * @param {number[]} deleted @param {[number, number][]} from @param {[number, number][]} to @returns {number[]}
 */
export function carried(deleted, from, to) {
  const gone = deleted.map((n) => from[n]).filter(Boolean);
  return to.flatMap(([start, end], n) => (gone.some(([first, last]) => start < last && first < end) ? [n] : []));
}
