// Asks the service for what the state needs. A newer question stops an older one; what was shown stays until the answer is there.

import { explain, retrying } from "../api.js";
import { carried, otherSide, request, textsOf } from "./request.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("../heatmap.js").Explanation} Explanation */

/**
 * @typedef {object} View everything that is seen of one state
 * @property {State} asked
 * @property {Explanation} main @property {Explanation} [whole] the text with nothing deleted @property {Explanation} [before] @property {Explanation} [second]
 * @property {Explanation[]} [all] of the main text, one per class
 * @property {Explanation} [other] the other side of a side by side
 * @property {number[]} [otherDeleted] @property {Error} [otherProblem]
 */

const TYPING = 150; // milliseconds without a key before the text is explained
const LONG = 2_000; // characters; longer texts are explained less often while one types

export class Answers {
  /** @param {any} models @param {{view: (view: View) => void, busy: (is: boolean) => void, problem: (error: Error|null) => void}} hear */
  constructor(models, hear) {
    this.models = models;
    this.hear = hear;
    this.timer = 0;
    this.controller = new AbortController();
    this.waiting = null;
    /** @type {{key: string, main: Explanation}|null} the last text that was seen whole */
    this.known = null;
  }

  /** @param {State} state @param {boolean} isTyping */
  ask(state, isTyping) {
    clearTimeout(this.timer);
    this.waiting = state;
    this.hear.busy(true);
    const wait = state.text.length > LONG ? 3 * TYPING : TYPING;
    this.timer = setTimeout(() => this.flush(), isTyping ? wait : 0);
  }

  /** Ask at once what is waiting to be asked. */
  flush() {
    if (!this.waiting) return;
    clearTimeout(this.timer);
    const state = this.waiting;
    this.waiting = null;
    this.#run(state);
  }

  /** Forget everything that is under way, as when the text is empty. */
  stop() {
    clearTimeout(this.timer);
    this.waiting = null;
    this.controller.abort();
    this.hear.busy(false);
  }

  async #run(state) {
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.hear.busy(true);
    try {
      const view = await this.#view(state, signal);
      if (signal.aborted) return;
      this.hear.problem(null);
      this.hear.view(view);
    } catch (error) {
      if (signal.aborted) return;
      this.hear.problem(error);
    }
    this.hear.busy(this.waiting !== null); // something newer may be about to be asked
  }

  #patiently(body, signal) {
    return retrying(() => explain(body, signal), { signal, onWait: (error) => this.hear.problem(error) });
  }

  async #view(state, signal) {
    const answer = this.#patiently(request(state, this.#model(state.model)?.has_encoders ?? false), signal);
    const beside = state.compare ? this.#beside(state, signal, answer) : {};
    const explanations = await answer;
    const parts = textsOf(state);
    const each = explanations.length / parts.length; // one, or one per class
    const view = { asked: state };
    parts.forEach(([part], n) => {
      const own = explanations.slice(n * each, (n + 1) * each);
      view[part] = own.find((one) => one.target === one.predicted) ?? own[0];
      if (part === "main" && each > 1) view.all = own;
    });
    Object.assign(view, await beside);
    view.whole = await this.#whole(state, view.main, signal);
    return view;
  }

  /** The text with nothing deleted, to compare with. It is usually known: words are deleted from a text that was seen whole. */
  async #whole(state, main, signal) {
    const key = JSON.stringify([state.text, state.model]);
    if (!state.deleted.length) this.known = { key, main };
    else if (this.known?.key !== key) {
      const [found] = await this.#patiently(request({ ...state, target: "predicted", deleted: [], before: null, open: [] }, false), signal);
      this.known = { key, main: found };
    }
    return state.deleted.length ? this.known.main : undefined;
  }

  /** The other model or method; its failure is its own and leaves the first side as it is. */
  async #beside(state, signal, answer) {
    const side = otherSide(state);
    if (side.target === "all") side.target = "predicted";
    try {
      const isSameCut = this.#model(side.model)?.reads === this.#model(state.model)?.reads;
      const [other] = await this.#patiently(request({ ...side, deleted: isSameCut ? state.deleted : [] }, false), signal);
      const [main] = await answer;
      if (JSON.stringify(main.spans) === JSON.stringify(other.spans)) return { other, otherDeleted: state.deleted };
      const otherDeleted = carried(state.deleted, main.spans, other.spans);
      if (!otherDeleted.length) return { other, otherDeleted };
      const [cut] = await this.#patiently(request({ ...side, deleted: otherDeleted }, false), signal);
      return { other: cut, otherDeleted };
    } catch (error) {
      return { otherProblem: error };
    }
  }

  #model(name) {
    return this.models.models.find((model) => model.name === name);
  }
}
