// The text tab: type a sentence, see which words spoke for and against the decision.

import { byId, element, percent, probabilities } from "../dom.js";
import { paint, heatmap } from "../heatmap.js";
import { ApiError, explain, retrying } from "../api.js";
import { mountControls } from "./controls.js";
import { request } from "./request.js";
import { paintScores } from "./scores.js";
import { fromPlain, toPlain, usual } from "./state.js";
import { Store } from "./store.js";

const TYPING = 150; // milliseconds without a key before the text is explained

/** @type {Store} */
let store;
let context;
let main = null;
let view = null;
let timer = 0;
let controller = new AbortController();

export function mount(_panel, given) {
  context = given;
  store = new Store({ ...usual(context.models), text: "" });
  const text = byId("text");
  text.addEventListener("input", () => store.set({ text: text.value, deleted: [], before: null, selection: null }, "typing"));
  mountControls(store, context.models);
  byId("undo").addEventListener("click", () => store.undo());
  byId("redo").addEventListener("click", () => store.redo());
  byId("reset").addEventListener("click", () => store.set({ deleted: [] }, "reset"));
  document.addEventListener("themechange", () => show());
  store.subscribe(changed);
}

export const state = () => toPlain(store.state, context.models);

export const restore = (plain) => store.replace(fromPlain(plain, context.models));

function changed(now, old) {
  const text = byId("text");
  if (text.value !== now.text) text.value = now.text;
  byId("undo").disabled = !store.canUndo;
  byId("redo").disabled = !store.canRedo;
  byId("reset").disabled = now.deleted.length === 0;
  show();
  clearTimeout(timer);
  timer = setTimeout(refresh, store.lastKind === "typing" && now.text !== old.text ? TYPING : 0);
}

async function refresh() {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  const asked = store.state;
  context.changed();
  if (!asked.text.trim()) return;
  byId("result").setAttribute("aria-busy", "true");
  try {
    const [first] = await retrying(() => explain(request(asked, false), signal), { signal, onWait: complain });
    if (signal.aborted) return;
    view = { asked, first };
    byId("message").textContent = "";
    show();
    byId("result").setAttribute("aria-busy", "false");
    context.announce(`${first.predicted}, ${percent(probabilities(first.scores)[first.predicted])}`);
  } catch (error) {
    if (signal.aborted) return;
    complain(error);
  }
}

function complain(error) {
  byId("message").textContent = error instanceof ApiError ? error.message : "Something in the page went wrong. Reload it to try again.";
  if (!(error instanceof ApiError)) console.warn(error);
}

function show() {
  if (!view) return;
  const { first } = view;
  const options = { deleted: store.state.deleted, onToken: toggle };
  if (main) paint(main, first, options);
  else byId("heatmap").append((main = heatmap(first, options)));
  paintScores(byId("scores"), first, (name) => store.set({ target: name }));
  byId("verdict").replaceChildren(
    "The model says ",
    element("strong", { text: first.predicted, dataset: { predicted: first.predicted } }),
    `, ${percent(probabilities(first.scores)[first.predicted])}.`,
  );
}

function toggle(n) {
  const { deleted } = store.state;
  const next = deleted.includes(n) ? deleted.filter((each) => each !== n) : [...deleted, n];
  store.set({ deleted: next }, "delete");
}
