// Deleting the most relevant words one after the other, as in the paper, beside deleting words at random.

import { byId, element, percent } from "../dom.js";
import { deletion, retrying } from "../api.js";
import { lines } from "../chart.js";
import { question } from "./request.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {{target: string, order: number[], probability: number[], random: {mean: number[], low: number[], high: number[], orders: number}}} Curve */

const STEPS = 40; // deletions that are drawn; more of a long text cost seconds and show little

export class DeletionCurve {
  /** @param {Store} store @param {(error: Error) => void} onProblem */
  constructor(store, onProblem) {
    this.store = store;
    this.onProblem = onProblem;
    this.key = "";
    /** @type {Promise<Curve>|null} */
    this.curve = null;
    this.controller = new AbortController();
    this.queue = Promise.resolve();
    byId("delete-next").addEventListener("click", () => this.next());
  }

  /** Delete the most relevant word that is left; the order is that of the whole text. Quick clicks wait for each other. */
  next() {
    if (!byId("delete-next").disabled) this.queue = this.queue.then(() => this.#next());
  }

  async #next() {
    try {
      const { text } = this.store.state;
      const { order } = await this.#ask();
      const { state } = this.store;
      const token = order.find((n) => !state.deleted.includes(n));
      const open = [...new Set([...state.open, "curve"])];
      if (state.text === text && token !== undefined) this.store.set({ deleted: [...state.deleted, token], open }, "delete");
    } catch (error) {
      this.onProblem(error);
    }
  }

  /**
   * Draw the curve that belongs to what is seen; the mark is at the number of deleted words.
   * @param {boolean} isAnswered whether the text has been explained; only then is a new curve asked for
   */
  async paint(isAnswered) {
    const { state } = this.store;
    const box = byId("curve");
    if (!state.open.includes("curve") || !state.text.trim()) return void (box.hidden = true);
    if (!isAnswered && this.key !== this.#key()) return;
    try {
      const key = this.#key();
      const curve = await this.#ask();
      if (key === this.#key()) draw(box, curve, this.store.state.deleted.length);
    } catch (error) {
      box.hidden = true;
      if (error.name !== "AbortError") this.onProblem(error);
    }
  }

  #key() {
    return JSON.stringify([this.store.state.text, this.#question()]);
  }

  #question() {
    const asked = question(this.store.state);
    return asked.target === "all" ? { ...asked, target: "predicted" } : asked;
  }

  #ask() {
    const key = this.#key();
    if (key !== this.key || !this.curve) {
      this.key = key;
      this.controller.abort(); // an answer for another text would only make this one wait
      this.controller = new AbortController();
      const { signal } = this.controller;
      const body = { ...this.#question(), text: this.store.state.text, steps: STEPS };
      const asked = retrying(() => deletion(body, signal), { signal });
      this.curve = asked;
      asked.catch(() => {
        if (this.curve === asked) this.curve = null;
      });
    }
    return this.curve;
  }
}

/** @param {HTMLElement} box @param {Curve} curve @param {number} count deleted so far */
function draw(box, { target, probability, random }, count) {
  const drawn = JSON.stringify([probability, random, count]);
  box.hidden = false;
  if (box.drawn === drawn) return;
  box.drawn = drawn;
  box.replaceChildren(
    element("figcaption", {}, `Probability of ${target} after each deletion`),
    lines({
      label: `Probability of ${target} after so many deletions, the most relevant first and at random`,
      series: [
        { name: "most relevant first", values: probability, tone: "for" },
        { name: `at random, mean and spread of ${random.orders} orders`, values: random.mean, low: random.low, high: random.high, tone: "muted" },
      ],
      xLabel: "deletions",
      yRange: [0, 1],
      sayY: percent,
      mark: Math.min(count, probability.length - 1),
      height: 220,
    }),
  );
}
