// A selected phrase: its summed relevance, and what its words do together that they do not do one by one.

import { element, percent, signed, visible } from "../dom.js";
import { explain, retrying } from "../api.js";
import { goal } from "../heatmap.js";
import { question } from "./request.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("../heatmap.js").Explanation} Explanation */

const NEAR = 200; // pixels
const LEAST = 0.005; // less is shown as 0.00

const sum = (values) => values.reduce((total, value) => total + value, 0);

/**
 * The deletions to ask for: nothing more, the phrase as a whole, each of its words alone.
 * @param {number[]} deleted already deleted @param {number[]} phrase tokens that are not
 */
export const trials = (deleted, phrase) => [deleted, [...deleted, ...phrase], ...phrase.map((n) => [...deleted, n])];

/** What deleting does to the score. @param {number[]} scores in the order of `trials` */
export function effects([whole, without, ...single]) {
  const together = without - whole;
  const oneByOne = sum(single.map((score) => score - whole));
  return { together, oneByOne, interaction: together - oneByOne };
}

export class PhraseCard {
  /** @param {HTMLElement} stage where it floats @param {{deletePhrase: () => void, release: () => void}} doings @param {number} most texts in a request */
  constructor(stage, doings, most) {
    this.stage = stage;
    this.doings = doings;
    this.most = most;
    this.asked = "";
    this.controller = new AbortController();
    this.effects = element("p", { class: "effects", role: "status" });
    this.title = element("p", { class: "phrase", dir: "auto" });
    this.amount = element("p");
    this.card = element("div", { class: "card", hidden: true, role: "group", "aria-label": "The selected phrase" },
      this.title, this.amount, this.effects,
      element("div", { class: "actions" },
        element("button", { type: "button", text: "Delete the phrase", on: { click: doings.deletePhrase } }),
        element("button", { type: "button", text: "Let go", on: { click: doings.release } })));
    stage.append(this.card);
  }

  /** @param {State} state @param {Explanation} explanation @param {HTMLElement[]} tokens of the heatmap @param {string} unit what a token is called */
  paint(state, explanation, tokens, unit) {
    const [first, last] = state.selection ?? [1, 0];
    const isShown = first <= last && last < tokens.length && explanation.text === state.text;
    this.card.hidden = !isShown;
    if (!isShown) return (this.asked = "");
    const phrase = tokens.slice(first, last + 1).map((_, n) => first + n);
    const relevance = sum(phrase.map((n) => explanation.relevance[n]));
    const points = [...explanation.text].slice(explanation.spans[first][0], explanation.spans[last][1]).join("");
    this.title.textContent = visible(points);
    const isAmount = [relevance, explanation.score].every((value) => Math.abs(value) >= LEAST);
    const share = isAmount ? `, ${percent(relevance / explanation.score)} of the score of ${goal(explanation)}` : "";
    this.amount.textContent = `relevance ${signed(relevance)}${share}`;
    this.#place(tokens[first], tokens[last]);
    this.#ask(state, explanation, phrase.filter((n) => !state.deleted.includes(n)), unit);
    return undefined;
  }

  async #ask(state, explanation, phrase, unit) {
    const asked = { ...question(state), target: explanation.target };
    const lists = trials(state.deleted, phrase);
    const key = JSON.stringify([asked, state.text, lists]);
    if (key === this.asked) return;
    this.asked = key;
    this.controller.abort();
    this.controller = new AbortController();
    if (!phrase.length) return void (this.effects.textContent = "All of it is deleted.");
    if (lists.length > this.most) return void (this.effects.textContent = `Select at most ${this.most - 2} ${unit}s to see what they do together.`);
    this.effects.textContent = "…";
    const { signal } = this.controller;
    try {
      const body = { ...asked, texts: lists.map(() => state.text), deleted: lists };
      const found = await retrying(() => explain(body, signal), { signal });
      this.effects.textContent = says(effects(found.map(({ score }) => score)), { count: phrase.length, of: goal(explanation), unit });
    } catch (error) {
      if (!signal.aborted) this.effects.textContent = error.message;
    }
  }

  /** Below the sentence where that is near, and then nothing is covered; else over the text, below the phrase and inside the stage. */
  #place(first, last) {
    const stage = this.stage.getBoundingClientRect();
    const [a, b] = [first.getBoundingClientRect(), last.getBoundingClientRect()];
    const bottom = Math.max(a.bottom, b.bottom);
    this.card.classList.toggle("floats", first.parentElement.getBoundingClientRect().bottom - bottom >= NEAR);
    const left = Math.min(Math.min(a.left, b.left) - stage.left, stage.width - this.card.offsetWidth);
    this.card.style.left = `${Math.max(0, left)}px`;
    this.card.style.top = `${bottom - stage.top + 10}px`;
  }
}

/** @param {{together: number, oneByOne: number, interaction: number}} found @param {{count: number, of: string, unit: string}} phrase */
export function says({ together, oneByOne, interaction }, { count, of, unit }) {
  if (count === 1) return `Deleting it changes the score of ${of} by ${signed(together)}.`;
  const start = `Deleting the phrase changes the score of ${of} by ${signed(together)}; deleting its ${unit}s one at a time changes it by ${signed(oneByOne)} in all`;
  if (Math.abs(interaction) < LEAST) return `${start}: together they matter as much as one by one.`;
  if (together * oneByOne < 0) return `${start}: together they do the opposite, a difference of ${signed(interaction)}.`;
  return `${start}: together they matter ${Math.abs(interaction).toFixed(2)} ${Math.abs(together) < Math.abs(oneByOne) ? "less" : "more"}.`;
}
