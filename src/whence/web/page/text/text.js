// The text tab: type a sentence, see which words spoke for and against the decision. State in, everything seen out.

import { ApiError, explain } from "../api.js";
import { byId } from "../dom.js";
import { isTyping } from "../shortcuts.js";
import { Answers } from "./answers.js";
import { mountControls } from "./controls.js";
import { DeletionCurve } from "./curve.js";
import { mountExports } from "./exports.js";
import { Picture } from "./picture.js";
import { carried, question } from "./request.js";
import { fromPlain, toPlain, unitOf, unmet, usual } from "./state.js";
import { Store } from "./store.js";

/** @type {Store} */
let store;
/** @type {Answers} */
let answers;
/** @type {Picture} */
let picture;
/** @type {DeletionCurve} */
let curve;
/** @type {() => void} */
let paintControls;
let context;
/** @type {import("./answers.js").View|null} */
let view = null;
let waiting = []; // tokens that were clicked before the newest text was explained
let lastSaid = "";
let isFromLink = false; // until the state of a link has been answered

/** @param {HTMLElement} _panel its markup stands in index.html @param {any} given models and what the shell offers */
export function mount(_panel, given) {
  context = given;
  store = new Store({ ...usual(context.models), text: "" });
  answers = new Answers(context.models, { view: arrived, busy, problem });
  const exported = mountExports(context.models, () => view, context.toast);
  picture = new Picture(context.models, store, { toggle, replace, exported });
  curve = new DeletionCurve(store, problem, (model) => unitOf(context.models, model));
  paintControls = mountControls(store, context.models, () => view?.main.predicted);
  listen();
  store.subscribe(changed);
}

/** For the link. */
export const state = () => toPlain(store.state, context.models);

/** From a link. @param {object} plain */
export function restore(plain) {
  isFromLink = true;
  const found = fromPlain(plain, context.models);
  store.replace(found);
  byId("link-note").textContent = unmet(plain, found, context.models).join(" ");
}

function listen() {
  const text = byId("text");
  const second = byId("second-text");
  text.addEventListener("input", () => store.set({ text: text.value, deleted: [], before: null, selection: null }, "typing"));
  second.addEventListener("input", () => store.set({ second: second.value }));
  byId("undo").addEventListener("click", () => store.undo());
  byId("redo").addEventListener("click", () => store.redo());
  byId("reset").addEventListener("click", () => store.set({ deleted: [], selection: null }, "reset"));
  byId("panel-text").addEventListener("pointerdown", (event) => {
    const isBeside = !event.target.closest(".card, .heatmap, button, a, select, input, textarea, summary, label");
    if (isBeside && store.state.selection) store.set({ selection: null });
  });
  document.addEventListener("themechange", () => picture.paint(view));
  document.addEventListener("keydown", (event) => !byId("panel-text").hidden && key(event));
}

function key(event) {
  const name = event.key.toLowerCase();
  if (name === "escape" && store.state.selection) store.set({ selection: null });
  if (event.target instanceof HTMLElement && event.target.matches("textarea, input")) return;
  if ((event.ctrlKey || event.metaKey) && (name === "z" || name === "y")) {
    event.preventDefault();
    if (name === "y" || event.shiftKey) store.redo();
    else store.undo();
  } else if (name === "n" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target)) curve.next();
}

/** The state changed: show at once what is known, ask for the rest. */
function changed(now, old) {
  for (const [id, name] of [["text", "text"], ["second-text", "second"]]) if (byId(id).value !== now[name]) byId(id).value = now[name];
  byId("undo").disabled = !store.canUndo;
  byId("redo").disabled = !store.canRedo;
  byId("reset").disabled = now.deleted.length === 0;
  context.changed();
  if (!now.text.trim()) {
    answers.stop();
    problem(null);
    view = null;
    waiting = [];
  } else if (needsAnswer(now, old)) {
    const isTyping = store.lastKind === "typing" && now.text !== old.text;
    answers.ask(now, isTyping || now.second !== old.second);
  }
  if (!isFromLink) byId("link-note").textContent = "";
  picture.paint(view);
  curve.paint(view, false);
}

/** Whether anything changed that the service must answer; a selection is shown without asking. */
function needsAnswer(now, old) {
  const asked = (state) => JSON.stringify({ ...state, selection: null, open: state.open.filter((part) => part === "position" || part === "second") });
  return !view || asked(now) !== asked(old) || asked(now) !== asked(view.asked);
}

function arrived(found) {
  view = found;
  isFromLink = false;
  paintControls();
  picture.paint(view);
  curve.paint(view, true);
  const sentence = byId("verdict").textContent;
  if (sentence !== lastSaid) context.announce(sentence);
  lastSaid = sentence;
  const clicked = waiting.filter((n) => n < found.main.tokens.length);
  waiting = [];
  if (clicked.length && found.asked.text === store.state.text) clicked.forEach(toggle);
}

function busy(is) {
  byId("result").setAttribute("aria-busy", String(is));
}

/** @param {Error|null} error */
function problem(error) {
  if (error?.name === "AbortError") return;
  if (error?.status === 422 && isFromLink) return mended(error.message);
  if (error && !(error instanceof ApiError)) console.warn(error);
  const sentence = error instanceof ApiError ? error.message : "Something went wrong in the page. Reload it to try again.";
  byId("message").textContent = error ? sentence : "";
  byId("result").classList.toggle("is-stale", Boolean(error));
  if (error) byId("panel-text").classList.remove("is-loading");
  if (error) waiting = [];
}

/** A link may ask for what cannot be, such as the deletion of a word that is not there: keep the text, let go of the rest. @param {string} reason */
function mended(reason) {
  isFromLink = false;
  const note = byId("link-note").textContent;
  store.set({ deleted: [], before: null, selection: null, versus: "", epsilon: null, delta: null, second: "" });
  byId("link-note").textContent = `${note} The link asked for something that this text does not have (${reason}); the whole text is shown.`.trim();
}

/** Delete a word or bring it back. A click on a text that is not explained yet waits for it. @param {number} n */
function toggle(n) {
  const { text, deleted } = store.state;
  if (!view || view.asked.text !== text || view.asked.model !== store.state.model) {
    waiting.push(n);
    answers.flush();
    return;
  }
  store.set({ deleted: deleted.includes(n) ? deleted.filter((each) => each !== n) : [...deleted, n] }, "delete");
}

/** Replace a word; the sentence before stays to be compared, and deleted words stay deleted. @param {number} n @param {string} word */
async function replace(n, word) {
  if (!view || view.asked.text !== store.state.text) return;
  const { text, spans } = view.main;
  const { deleted } = store.state;
  const points = [...text];
  const [start, end] = spans[n];
  const next = [...points.slice(0, start), word, ...points.slice(end)].join("");
  const kept = await shifted(deleted.filter((each) => each !== n), spans, next, { end, by: [...word].length - (end - start) });
  store.set({ text: next, before: text, deleted: kept, selection: null }, "replace");
}

/** The numbers of the same tokens after a replacement, which only the service can know. */
async function shifted(deleted, spans, text, { end, by }) {
  if (!deleted.length) return [];
  try {
    const [found] = await explain({ ...question(store.state), target: "predicted", versus: undefined, texts: [text] });
    const moved = spans.map(([first, last]) => (first >= end ? [first + by, last + by] : [first, last]));
    return carried(deleted, moved, found.spans);
  } catch {
    return [];
  }
}
