// Everything that is seen of a view: the sentence, what the model says, scores, ledger, and what stands beside them.

import { byId, element } from "../dom.js";
import { heatmap, paint } from "../heatmap.js";
import { theme } from "../colour.js";
import { aimed } from "./controls.js";
import { mountGestures } from "./gestures.js";
import { paintLedger } from "./ledger.js";
import { gives, legend, paintBefore, paintClasses, paintOther, paintSecond, said } from "./others.js";
import { PhraseCard } from "./phrase.js";
import { paintPosition } from "./position.js";
import { carried } from "./request.js";
import { paintScores } from "./scores.js";
import { PARTS, unitOf } from "./state.js";
import { mountTip, refreshTip } from "./tip.js";

/** @typedef {import("./answers.js").View} View */

export class Picture {
  /**
   * @param {any} models @param {import("./store.js").Store} store
   * @param {{toggle: (n: number) => void, replace: (n: number, word: string) => void, exported: {paint: (view: View) => void}}} doings
   */
  constructor(models, store, doings) {
    this.models = models;
    this.store = store;
    this.doings = doings;
    this.map = null;
    const release = () => store.set({ selection: null });
    this.card = new PhraseCard(byId("heatmap"), { deletePhrase: () => this.#deletePhrase(), release }, models.limits.texts);
    for (const part of PARTS.filter((name) => name !== "curve")) this.#unfold(part);
  }

  /** @param {View|null} view */
  paint(view) {
    const { state } = this.store;
    for (const part of PARTS.filter((name) => name !== "curve")) byId(part).open = state.open.includes(part);
    byId("panel-text").classList.toggle("is-empty", !state.text.trim());
    if (view || !state.text.trim()) byId("panel-text").classList.remove("is-loading");
    if (!view) return this.#empty(state.text.trim() === "");
    const unsigned = this.#method(view.asked.method)?.is_signed === false;
    const isCurrent = view.asked.text === state.text && view.asked.model === state.model;
    this.#sentence(view, isCurrent ? state : { ...state, deleted: view.asked.deleted, selection: null }, unsigned);
    this.#other(view);
    this.#rest(view, unsigned);
    const unit = this.#unit(view.asked.model);
    byId("delete-next").disabled = state.deleted.length >= view.main.tokens.length;
    byId("hint").textContent = matchMedia("(pointer: coarse)").matches
      ? `Tap a ${unit} to delete it, tap and hold to replace it.`
      : `Click a ${unit} to delete it, double-click to replace it, drag over several to weigh a phrase.`;
    refreshTip();
    return undefined;
  }

  /** What only a new answer changes. */
  #rest(view, unsigned) {
    const { open } = this.store.state;
    const drawn = [view, theme(), open.includes("position")];
    if (this.drawn?.every((each, n) => each === drawn[n])) return;
    this.drawn = drawn;
    const label = this.#method(view.asked.method)?.label ?? view.asked.method;
    this.#verdict(view, unsigned);
    paintScores(byId("scores"), view.main, (name) => this.store.set(aimed(this.store.state, name)), (view.before ?? view.whole)?.scores);
    const addsUp = this.#method(view.asked.method)?.adds_up !== false;
    paintLedger(byId("ledger"), view.main, { addsUp, label, unit: this.#unit(view.asked.model) });
    paintBefore(byId("before"), view, { unsigned, onClose: () => this.store.set({ before: null }, "hide") });
    paintClasses(byId("classes"), view, { unsigned, deleted: view.asked.deleted, onClass: (name) => this.store.set(aimed(this.store.state, name)) });
    paintSecond(byId("second-body"), view, { unsigned, unit: this.#unit(view.asked.model), onSwap: () => this.#swap() });
    if (open.includes("position")) paintPosition(byId("position-body"), view.main, this.#unit(view.asked.model));
    this.doings.exported.paint(view);
  }

  #sentence(view, state, unsigned) {
    const options = { deleted: state.deleted, selection: state.selection, unsigned, onToken: (n, event) => this.click(n, event) };
    if (!this.map) {
      this.map = heatmap(view.main, options);
      this.click = this.#handle(this.map, (n) => [n]);
      byId("heatmap").prepend(this.map);
    } else paint(this.map, view.main, options);
    this.card.paint(state, view.main, this.map.tokens, this.#unit(view.asked.model));
  }

  /** Gestures and notes for a heatmap. `own` gives the tokens of the sentence for one of the heatmap's, which may be cut another way. */
  #handle(map, own) {
    mountTip(map);
    return mountGestures(map, {
      toggle: (n) => own(n).forEach(this.doings.toggle),
      select: (from, to) => {
        const tokens = [...own(from), ...own(to)];
        if (tokens.length) this.store.set({ selection: [Math.min(...tokens), Math.max(...tokens)] });
      },
      release: () => this.store.state.selection && this.store.set({ selection: null }),
      replace: (n, word) => map.explanation.tokens[n] === this.map.explanation.tokens[own(n)[0]] && this.doings.replace(own(n)[0], word),
      takeBack: () => this.store.forget(),
    });
  }

  #verdict({ main, whole, before, asked }, unsigned) {
    const earlier = before ?? whole;
    byId("verdict").replaceChildren(gives(main), ...said(main, { predicted: main.predicted }), ".");
    const then = before ? "before" : `with every ${this.#unit(asked.model)}`;
    byId("earlier").replaceChildren(...(earlier ? [element("span", { class: "tick" }), `${then}: `, ...said(earlier)] : []));
    byId("doubt").hidden = !main.doubt;
    byId("doubt").textContent = main.doubt ? `In doubt: ${main.doubt}.` : "";
    byId("legend").replaceChildren(...legend(main, { unsigned, label: this.#method(asked.method)?.label ?? asked.method }));
  }

  #other(view) {
    const { state } = this.store;
    const [kind, name] = view.asked.compare.split(/:(.*)/s);
    const title = kind === "method" ? (this.#method(name)?.label ?? name) : name;
    const method = kind === "method" ? name : view.asked.method;
    const other = byId("other");
    paintOther(other, view, {
      title,
      label: this.#method(method)?.label ?? method,
      unsigned: this.#method(method)?.is_signed === false,
      deleted: view.other && view.asked.text === state.text ? carried(state.deleted, view.main.spans, view.other.spans) : (view.otherDeleted ?? []),
      onToken: (n, event) => other.click(n, event),
      mounted: (map) => (other.click = this.#handle(map, (n) => carried([n], map.explanation.spans, this.map.explanation.spans))),
    });
  }

  #swap() {
    const { text, second } = this.store.state;
    this.store.set({ text: second, second: text, deleted: [], before: null, selection: null }, "swap");
  }

  #deletePhrase() {
    const { selection, deleted } = this.store.state;
    if (!selection) return;
    const [first, last] = selection;
    const phrase = Array.from({ length: last - first + 1 }, (_, n) => first + n);
    this.store.set({ deleted: [...new Set([...deleted, ...phrase])], selection: null }, "delete");
  }

  /** Nothing to explain: say what one can do. */
  #empty(isBlank) {
    if (!isBlank) return;
    this.map?.remove();
    this.map = null;
    this.drawn = null;
    for (const id of ["before", "other", "classes", "second-body", "scores", "ledger", "position-body", "legend", "doubt", "earlier"]) byId(id).replaceChildren();
    byId("scores").names = undefined;
    delete byId("ledger").dataset.sum;
    this.card.card.hidden = true;
    byId("delete-next").disabled = true;
    byId("verdict").replaceChildren("Type a sentence above, or take one of the examples. Every word will be coloured by what it said.");
  }

  /** A part that unfolds is part of the state. The browser's own event comes later: a repaint before it would undo a click. */
  #unfold(part) {
    byId(part).querySelector("summary").addEventListener("click", (event) => {
      event.preventDefault();
      const { open } = this.store.state;
      this.store.set({ open: open.includes(part) ? open.filter((each) => each !== part) : [...open, part] });
    });
    byId(part).addEventListener("toggle", () => {
      const { open } = this.store.state;
      if (byId(part).open === open.includes(part)) return;
      this.store.set({ open: byId(part).open ? [...open, part] : open.filter((each) => each !== part) });
    });
  }

  #unit(name) {
    return unitOf(this.models, name);
  }

  #method(name) {
    return this.models.methods.find((method) => method.name === name);
  }
}
