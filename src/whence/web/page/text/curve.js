// Deleting the most relevant words one after the other, as in the paper, beside deleting words at random.

import { byId, element, percent, probabilities } from "../dom.js";
import { deletion, retrying } from "../api.js";
import { lines } from "../chart.js";
import { goal } from "../heatmap.js";
import { question } from "./request.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./answers.js").View} View */
/** @typedef {{target: string, order: number[], probability: number[], random: {mean: number[], low: number[], high: number[], orders: number}}} Curve */

const STEPS = 40; // deletions that are drawn; more of a long text cost seconds and show little

export class DeletionCurve {
  /** @param {Store} store @param {(error: Error) => void} onProblem @param {(model: string) => string} unitOf what a token of a model is called */
  constructor(store, onProblem, unitOf) {
    this.store = store;
    this.unitOf = unitOf;
    this.onProblem = onProblem;
    this.key = "";
    /** @type {Promise<Curve>|null} */
    this.curve = null;
    /** @type {{key: string, target: string}|null} the class that the order is for, once it is known */
    this.pinned = null;
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

  /** The order stays that of the class explained first, also when the prediction changes; the button says so. */
  #name() {
    const { deleted, open, model } = this.store.state;
    const isPinned = deleted.length > 0 && open.includes("curve") && this.pinned?.key === this.#key();
    byId("delete-next").textContent = isPinned ? `Delete the next for ${this.#goal(this.pinned.target)}` : `Delete the most relevant ${this.unitOf(model)}`;
  }

  #goal(target) {
    return goal({ target, versus: this.#question().versus });
  }

  /**
   * Draw the curve that belongs to what is seen; a point shows what the model says now.
   * @param {View|null} view @param {boolean} isAnswered whether the text has been explained; only then is a new curve asked for
   */
  async paint(view, isAnswered) {
    const { state } = this.store;
    this.#name();
    const box = byId("curve");
    if (!state.open.includes("curve") || !state.text.trim()) return void (box.hidden = true);
    if (!isAnswered && this.key !== this.#key()) return;
    try {
      const key = this.#key();
      const curve = await this.#ask();
      if (key !== this.#key()) return;
      this.pinned = { key, target: curve.target };
      this.#name();
      if (view && isSeen(view, this.store.state)) draw(box, curve, { goal: this.#goal(curve.target), ...now(view, curve) });
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

/** Whether a view shows the deletions of the state; if not, its answer is on the way. @param {View} view @param {import("./store.js").State} state */
const isSeen = ({ asked }, { text, model, deleted }) => JSON.stringify([asked.text, asked.model, asked.deleted]) === JSON.stringify([text, model, deleted]);

/** How many words are deleted, whichever they are, and what the target's probability is then. @param {View} view @param {Curve} curve */
const now = ({ asked, main }, { target }) => ({ count: asked.deleted.length, share: probabilities(main.scores)[target] });

/** @param {HTMLElement} box @param {Curve} curve @param {{goal: string, count: number, share: number}} seen */
function draw(box, { target, probability, random }, { goal: ordered, count, share }) {
  const drawn = JSON.stringify([target, ordered, probability, random, count, share]);
  box.hidden = false;
  if (box.drawn === drawn) return;
  box.drawn = drawn;
  box.replaceChildren(
    element("figcaption", {}, `Probability of ${target} after each deletion`, element("small", { text: `The order is by relevance for ${ordered} in the whole text.` })),
    lines({
      label: `Probability of ${target} after so many deletions, the most relevant first and at random`,
      series: [
        { name: "most relevant first", values: probability, tone: "for" },
        { name: `at random, mean and spread of ${random.orders} orders`, values: random.mean, low: random.low, high: random.high, tone: "muted" },
      ],
      xLabel: "deletions",
      yRange: [0, 1],
      sayY: percent,
      ...(count < probability.length ? { point: { name: `yours: ${count} deleted, ${percent(share)}`, x: count, y: share } } : {}),
      height: 220,
    }),
  );
}
