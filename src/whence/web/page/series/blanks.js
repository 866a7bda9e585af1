/** The blanked stretches and their history: add, remove, clear, undo, redo. */

/** @typedef {{start: number, end: number, features?: number[]}} Blank steps start … end − 1 of these features, or of all */

/** A list of blanks that remembers. */
export class Blanks {
  #past = [];
  #future = [];
  /** @type {Blank[]} */
  now = [];

  /** @param {Blank[]} list */
  #go(list) {
    this.#past.push(this.now);
    this.#future = [];
    this.now = list;
  }

  add(blank) {
    this.#go([...this.now, blank]);
  }

  remove(place) {
    this.#go(this.now.filter((_, n) => n !== place));
  }

  clear() {
    if (this.now.length) this.#go([]);
  }

  undo() {
    if (!this.canUndo) return;
    this.#future.push(this.now);
    this.now = this.#past.pop();
  }

  redo() {
    if (!this.canRedo) return;
    this.#past.push(this.now);
    this.now = this.#future.pop();
  }

  /** Begin anew, for another series. @param {Blank[]} list */
  restart(list = []) {
    this.#past = [];
    this.#future = [];
    this.now = list;
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }
}

/** A blank in words: "2003-04-12 to 2003-04-20, rain". */
export function sayBlank({ start, end, features: which }, { labels, features }) {
  const time = end - start === 1 ? labels[start] : `${labels[start]} to ${labels[end - 1]}`;
  return `${time}, ${which ? which.map((n) => features[n]).join(" and ") : "all features"}`;
}

/** The blanks of a link, without what does not fit this series. @param {unknown} list @returns {Blank[]} */
export function validBlanks(list, { steps, features }) {
  if (!Array.isArray(list)) return [];
  const isStep = (value) => Number.isInteger(value) && value >= 0 && value <= steps;
  const isFeature = (value) => Number.isInteger(value) && value >= 0 && value < features;
  return list
    .filter((blank) => blank && isStep(blank.start) && isStep(blank.end) && blank.start < blank.end)
    .filter(
      ({ features: which }) => which === undefined || (Array.isArray(which) && which.length > 0 && which.every(isFeature)),
    )
    .map(({ start, end, features: which }) => (which ? { start, end, features: which } : { start, end }));
}
