// The state of the text tab in one place, with undo and redo of edits.

/**
 * @typedef {object} State
 * @property {string} text
 * @property {number[]} deleted numbers of the deleted tokens
 * @property {string|null} before the text before a word was replaced
 * @property {string} model @property {string} method
 * @property {string} target "predicted", "all" or a class
 * @property {string} versus "", "rest" or a class
 * @property {number|null} epsilon @property {number|null} delta null: the method's own
 * @property {string} compare "", "method:NAME" or "model:NAME"
 * @property {string} second another sentence, "" if none
 * @property {[number, number]|null} selection first and last token of a phrase
 * @property {string[]} open which parts are unfolded
 */

/** What undo takes back: the edits, not the way of looking. */
const EDITS = ["text", "deleted", "before"];
const LONGEST_HISTORY = 500;

export class Store {
  /** @param {State} initial */
  constructor(initial) {
    this.state = initial;
    this.past = [];
    this.future = [];
    this.lastKind = "";
    this.listeners = new Set();
  }

  /** @param {(state: State, old: State) => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
  }

  /**
   * Change something. `kind` names an edit that undo takes back; edits of the kind "typing" that follow each other are one.
   * @param {Partial<State>} changes @param {string} [kind]
   */
  set(changes, kind = "") {
    if (kind) {
      if (kind !== "typing" || this.lastKind !== "typing") this.past.push(this.#edits());
      if (this.past.length > LONGEST_HISTORY) this.past.shift();
      this.future = [];
      this.lastKind = kind;
    }
    this.#become({ ...this.state, ...changes });
  }

  /** Start afresh, as after opening a link. @param {State} state */
  replace(state) {
    this.begin();
    this.#become(state);
  }

  /** Let go of the past, as when tokens are counted in another way from now on. */
  begin() {
    this.past = [];
    this.future = [];
    this.lastKind = "";
  }

  get canUndo() {
    return this.past.length > 0;
  }

  get canRedo() {
    return this.future.length > 0;
  }

  undo() {
    this.#travel(this.past, this.future);
  }

  redo() {
    this.#travel(this.future, this.past);
  }

  /** Take the last edit back as if it had never been, as when a first click turns out to be a double click. */
  forget() {
    this.undo();
    this.future.pop();
  }

  #travel(from, to) {
    const edits = from.pop();
    if (!edits) return;
    to.push(this.#edits());
    this.lastKind = "";
    this.#become({ ...this.state, ...edits, selection: null });
  }

  #edits() {
    return Object.fromEntries(EDITS.map((name) => [name, this.state[name]]));
  }

  #become(state) {
    const old = this.state;
    this.state = state;
    for (const listener of this.listeners) listener(state, old);
  }
}
