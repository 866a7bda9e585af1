// A text with coloured words: exactly as typed, every token a button. Colours move smoothly because elements are kept.

import { shade } from "./colour.js";
import { element, signed, visible } from "./dom.js";

/**
 * @typedef {object} Explanation
 * @property {string} text @property {string[]} tokens @property {[number, number][]} spans in code points
 * @property {boolean[]} [unknown] @property {number[]} relevance @property {Record<string, number>} scores
 * @property {number} score @property {string} predicted @property {string} target @property {string} [versus]
 *
 * @typedef {object} Options
 * @property {(token: number, event: Event) => void} [onToken] called for a click, Enter or Space on a token
 * @property {Iterable<number>} [deleted] numbers of the deleted tokens
 * @property {[number, number] | null} [selection] first and last token of a selected phrase
 * @property {number} [largest] the relevance with full colour; the text's own largest if not given
 * @property {boolean} [still] no buttons: a picture of the text, without token numbers
 * @property {boolean} [unsigned] the method only says how much, not for or against
 * @property {string} [label] what the text is called for a screen reader
 */

/** A new heatmap. @param {Explanation} explanation @param {Options} [options] @returns {HTMLElement} */
export function heatmap(explanation, options = {}) {
  const box = element("div", { class: "heatmap", dir: "auto", translate: false, role: options.still ? "img" : "group" });
  paint(box, explanation, options);
  if (!options.still) listen(box);
  return box;
}

/** Show another explanation in the same heatmap; where the tokens are the same only colours and marks change. */
export function paint(box, explanation, options = {}) {
  box.options = options;
  box.explanation = explanation;
  const cut = JSON.stringify([explanation.text, explanation.spans]);
  if (box.cut !== cut) {
    const focused = box.wantsFocus ?? (box.contains(document.activeElement) ? document.activeElement?.dataset.token : undefined);
    box.wantsFocus = undefined; // a token that was a field until now
    box.replaceChildren(...pieces(explanation, options.still));
    box.cut = cut;
    box.tokens = [...box.querySelectorAll(".token")];
    roving(box, Math.min(Number(focused ?? 0), box.tokens.length - 1), focused !== undefined);
  }
  const { length } = explanation.text;
  box.dataset.size = length > 700 ? "small" : length > 180 ? "medium" : "large";
  const deleted = new Set(options.deleted ?? []);
  const largest = options.largest ?? largestOf(explanation);
  box.setAttribute("aria-label", options.label ?? (options.still ? summary(explanation) : "The words and their relevance"));
  box.tokens.forEach((token, n) => mark(token, n, explanation, deleted.has(n), largest, options));
}

/** The largest |relevance| of a text. @param {Explanation} explanation */
export const largestOf = (explanation) => explanation.relevance.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** What is explained, for people: "positive", "positive versus negative", "positive versus the rest". @param {Explanation} explanation */
export function goal({ target, versus }) {
  return versus ? `${target} versus ${versus === "rest" ? "the rest" : versus}` : target;
}

/**
 * What a token's relevance means: its number, what it says, and what else is to be known.
 * @param {Explanation} explanation @param {number} n @param {{isDeleted?: boolean, unsigned?: boolean}} [how]
 */
export function meaning(explanation, n, { isDeleted = false, unsigned = false } = {}) {
  const value = explanation.relevance[n];
  const isNothing = Number(value.toFixed(2)) === 0; // as it is shown
  const side = unsigned
    ? isNothing ? "hardly matters for" : "matters for"
    : isNothing ? "neither for nor against" : value > 0 ? "speaks for" : "speaks against";
  return {
    number: isDeleted ? "deleted" : unsigned ? value.toFixed(2) : signed(value),
    says: isDeleted ? "" : `${side} ${goal(explanation)}`,
    note: explanation.unknown?.[n] ? "not in the vocabulary" : "",
  };
}

/** The same as one line: "waste, speaks against very positive, −1.24". */
export function words(explanation, n, how = {}) {
  const name = explanation.tokens[n].trim() ? visible(explanation.tokens[n]) : "white space";
  const { number, says, note } = meaning(explanation, n, how);
  return [name, says, number, note].filter(Boolean).join(", ");
}

/** The text in order: tokens, and what is between them. @param {Explanation} explanation @param {boolean} [still] */
function pieces({ text, spans }, still) {
  const points = [...text];
  const found = [];
  let place = 0;
  spans.forEach(([start, end], n) => {
    if (start > place) found.push(document.createTextNode(visible(points.slice(place, start).join(""))));
    const word = visible(points.slice(start, end).join(""));
    const joints = (start === place && n > 0 ? " joins" : "") + (spans[n + 1]?.[0] === end ? " joined" : "");
    const hooks = still ? {} : { role: "button", tabIndex: -1, dataset: { token: String(n) } };
    found.push(element("span", { class: `token${joints}`, text: word, ...hooks }));
    place = end;
  });
  if (place < points.length) found.push(document.createTextNode(visible(points.slice(place).join(""))));
  return found;
}

function mark(token, n, explanation, isDeleted, largest, options) {
  const value = explanation.relevance[n];
  const { background, ink } = isDeleted ? { background: "", ink: "" } : shade(value, largest);
  token.style.backgroundColor = background;
  token.style.color = ink;
  token.classList.toggle("deleted", isDeleted);
  token.classList.toggle("unknown", Boolean(explanation.unknown?.[n]));
  const [first, last] = options.selection ?? [1, 0];
  token.classList.toggle("selected", n >= first && n <= last);
  if (options.still) {
    token.title = words(explanation, n, { isDeleted, unsigned: options.unsigned });
    return;
  }
  token.dataset.relevance = String(value);
  token.setAttribute("aria-pressed", String(isDeleted));
  token.setAttribute("aria-label", words(explanation, n, { isDeleted, unsigned: options.unsigned }));
}

function summary(explanation) {
  return `${visible(explanation.text)}: the words that speak for and against ${goal(explanation)}`;
}

/** Only one token can be reached by Tab; arrow keys move on from there. */
function roving(box, n, focus = true) {
  box.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
  const token = box.tokens[n];
  if (!token || box.options.still) return;
  token.tabIndex = 0;
  if (focus) token.focus();
}

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "down", ArrowUp: "up", Home: "first", End: "last" };

function listen(box) {
  const numberOf = (event) => {
    const token = event.target instanceof Element ? event.target.closest("[data-token]") : null;
    return token && box.contains(token) ? Number(token.dataset.token) : null;
  };
  box.addEventListener("click", (event) => {
    const n = numberOf(event);
    if (n === null) return;
    roving(box, n, true);
    box.options.onToken?.(n, event);
  });
  box.addEventListener("keydown", (event) => {
    const n = numberOf(event);
    if (n === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if ((event.key === "Enter" || event.key === " ") && !event.shiftKey) {
      event.preventDefault();
      box.options.onToken?.(n, event);
    } else if (event.key in STEPS) {
      event.preventDefault();
      const next = neighbour(box, n, STEPS[event.key]);
      if (event.shiftKey) box.dispatchEvent(new CustomEvent("extend", { detail: { from: n, to: next } }));
      roving(box, next);
    }
  });
  box.addEventListener("focusin", (event) => {
    const n = numberOf(event);
    if (n !== null) roving(box, n, false);
  });
}

/** The token that an arrow key leads to: to the side along the reading direction, up and down by what is seen. */
function neighbour(box, n, step) {
  const last = box.tokens.length - 1;
  if (step === "first" || step === "last") return step === "first" ? 0 : last;
  if (typeof step === "number") {
    const direction = getComputedStyle(box).direction === "rtl" ? -step : step;
    return Math.max(0, Math.min(last, n + direction));
  }
  return beneath(box.tokens, n, step === "down" ? 1 : -1);
}

/** The nearest token on the next line in this direction. @param {HTMLElement[]} tokens @param {number} n @param {1|-1} way */
function beneath(tokens, n, way) {
  const here = tokens[n].getBoundingClientRect();
  let best = n;
  let line = null;
  for (let other = n + way; other >= 0 && other < tokens.length; other += way) {
    const place = tokens[other].getBoundingClientRect();
    if (Math.abs(place.top - here.top) < here.height / 2) continue;
    line ??= place.top;
    if (Math.abs(place.top - line) > here.height / 2) break;
    const distance = (index) => Math.abs(tokens[index].getBoundingClientRect().left - here.left);
    if (best === n || distance(other) < distance(best)) best = other;
  }
  return best;
}
