// A selected phrase: its summed relevance, and what its words do together that they do not do one by one.

import { element, percent, signed, visible } from "../dom.js";
import { explain, retrying } from "../api.js";
import { question } from "./request.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("../heatmap.js").Explanation} Explanation */

const NEAR = 200; // pixels

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

  /** @param {State} state @param {Explanation} explanation @param {HTMLElement[]} tokens of the heatmap */
  paint(state, explanation, tokens) {
    const [first, last] = state.selection ?? [1, 0];
    const isShown = first <= last && last < tokens.length && explanation.text === state.text;
    this.card.hidden = !isShown;
    if (!isShown) return (this.asked = "");
    const phrase = tokens.slice(first, last + 1).map((_, n) => first + n);
    const relevance = sum(phrase.map((n) => explanation.relevance[n]));
    const points = [...explanation.text].slice(explanation.spans[first][0], explanation.spans[last][1]).join("");
    this.title.textContent = visible(points);
    const share = Math.abs(explanation.score) > 1e-6 ? `, ${percent(relevance / explanation.score)} of the score` : "";
    this.amount.textContent = `relevance ${signed(relevance)}${share}`;
    this.#place(tokens[first], tokens[last]);
    this.#ask(state, explanation, phrase.filter((n) => !state.deleted.includes(n)));
    return undefined;
  }

  async #ask(state, explanation, phrase) {
    const asked = { ...question(state), target: explanation.target };
    const lists = trials(state.deleted, phrase);
    const key = JSON.stringify([asked, state.text, lists]);
    if (key === this.asked) return;
    this.asked = key;
    this.controller.abort();
    this.controller = new AbortController();
    if (!phrase.length) return void (this.effects.textContent = "All of it is deleted.");
    if (lists.length > this.most) return void (this.effects.textContent = `Select at most ${this.most - 2} words to see what they do together.`);
    this.effects.textContent = "…";
    const { signal } = this.controller;
    try {
      const body = { ...asked, texts: lists.map(() => state.text), deleted: lists };
      const found = await retrying(() => explain(body, signal), { signal });
      this.effects.textContent = says(effects(found.map(({ score }) => score)), phrase.length);
    } catch (error) {
      if (!signal.aborted) this.effects.textContent = error.message;
    }
  }

  /** Below the sentence where that is near, else below the phrase; inside the stage. */
  #place(first, last) {
    const stage = this.stage.getBoundingClientRect();
    const [a, b] = [first.getBoundingClientRect(), last.getBoundingClientRect()];
    const left = Math.min(Math.min(a.left, b.left) - stage.left, stage.width - this.card.offsetWidth);
    this.card.style.left = `${Math.max(0, left)}px`;
    const [bottom, end] = [Math.max(a.bottom, b.bottom), first.parentElement.getBoundingClientRect().bottom];
    this.card.style.top = `${(end - bottom < NEAR ? end : bottom) - stage.top + 10}px`;
  }
}

function says({ together, oneByOne, interaction }, count) {
  if (count === 1) return `Without it the score changes by ${signed(together)}.`;
  return `Deleted together ${signed(together)}, one by one ${signed(oneByOne)}: interaction ${signed(interaction)}`;
}
