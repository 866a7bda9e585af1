// The question as a sentence of menus: Explain [class] [on its own] by [method] in [model] beside [nothing]; and settings.

import { byId, element } from "../dom.js";
import { LARGEST } from "./state.js";

/** @typedef {import("./store.js").Store} Store */

/** Another target; a class is not explained versus itself. @param {import("./store.js").State} state @param {string} target */
export const aimed = (state, target) => ({ target, versus: state.versus === target ? "" : state.versus, selection: null });

/** @param {Store} store @param {any} models what the service offers @param {() => string|undefined} predicted the class in view */
export function mountControls(store, models, predicted) {
  const textModels = models.models.filter((model) => model.kind === "text");
  const classesOf = (name) => textModels.find((model) => model.name === name)?.classes ?? [];

  fill(byId("method"), models.methods.map((method) => [method.name, method.label]));
  fill(byId("model"), textModels.map((model) => [model.name, model.name]));
  for (const name of ["method", "compare"]) byId(name).addEventListener("change", (event) => store.set({ [name]: event.target.value, selection: null }));
  byId("target").addEventListener("change", (event) => store.set(aimed(store.state, event.target.value)));
  byId("versus").addEventListener("change", (event) => store.set(opposed(store.state, event.target.value, predicted())));
  const readsOf = (name) => textModels.find((model) => model.name === name)?.reads;
  byId("model").addEventListener("change", (event) => {
    const { value } = event.target;
    const isSameCut = readsOf(value) === readsOf(store.state.model);
    if (!isSameCut) store.begin();
    store.set({ ...switched(store.state, value, classesOf), ...(isSameCut ? {} : { deleted: [] }) });
  });
  byId("question").addEventListener("submit", (event) => event.preventDefault());
  examples(store, models.examples);
  settings(store, models);

  const paint = (state) => {
    const classes = classesOf(state.model);
    fill(byId("target"), [["predicted", "the predicted class"], ["all", "all classes"], ...classes.map((name) => [name, name])]);
    fill(byId("versus"), [["", "on its own"], ["rest", "versus the rest"], ...classes.map((name) => [name, `versus ${name}`])]);
    fill(byId("compare"), [
      ["", "nothing else"],
      ...models.methods.filter(({ name }) => name !== state.method).map(({ name, label }) => [`method:${name}`, label]),
      ...textModels.filter(({ name }) => name !== state.model).map(({ name }) => [`model:${name}`, name]),
    ]);
    for (const name of ["target", "versus", "method", "model", "compare"]) byId(name).value = state[name];
    byId("versus").disabled = state.target === "all";
    const explained = state.target === "predicted" ? predicted() : state.target;
    for (const option of byId("versus").options) option.disabled = option.value !== "" && option.value === explained;
    byId("settings").hidden = state.method !== "lrp";
  };
  store.subscribe(paint);
  return () => paint(store.state); // for an answer, which may predict another class
}

/** Another class to compare with. The predicted class then stays the target: it might become the other one. */
function opposed({ target }, versus, predicted) {
  const isClass = versus !== "" && versus !== "rest";
  return { versus, selection: null, target: isClass && target === "predicted" ? (predicted ?? target) : target };
}

/** What changes when another model is chosen: classes it does not have are let go. */
function switched(state, model, classesOf) {
  const known = (value, otherwise) => (["predicted", "all", "", "rest", ...classesOf(model)].includes(value) ? value : otherwise);
  const compare = state.compare === `model:${model}` ? "" : state.compare;
  return { model, selection: null, target: known(state.target, "predicted"), versus: known(state.versus, ""), compare };
}

/** Put options in a menu, only if they changed: an open menu must not close. */
function fill(menu, options) {
  const wanted = JSON.stringify(options);
  if (menu.filled === wanted) return;
  menu.filled = wanted;
  menu.replaceChildren(...options.map(([value, label]) => element("option", { value, text: label })));
}

function examples(store, list) {
  const chip = ({ text, note }) =>
    element("button", {
      type: "button", class: "chip", text, title: note ?? "", dir: "auto",
      on: { click: () => store.set({ text, deleted: [], before: null, selection: null }, "example") },
    });
  byId("examples").append(...list.map(chip));
}

/** Epsilon and delta of LRP. */
function settings(store, models) {
  const defaults = models.methods.find((method) => method.name === "lrp")?.settings ?? {};
  const field = (name, label, hint) => {
    const said = `setting-${name}-note`;
    const input = element("input", { type: "number", id: `setting-${name}`, min: "0", step: "any", placeholder: String(defaults[name] ?? ""), "aria-describedby": said });
    const note = element("small", { id: said, text: hint });
    const tell = (isWrong) => {
      input.setAttribute("aria-invalid", String(isWrong));
      note.textContent = isWrong ? `${name} must be a number ${name === "delta" ? "from 0 to 1" : "of 0 or more"}; the last one that was is still used.` : hint;
    };
    input.addEventListener("input", () => {
      const value = Number(input.value);
      const isWrong = input.validity.badInput || !Number.isFinite(value) || value < 0 || value > LARGEST[name];
      tell(isWrong);
      if (!isWrong) store.set({ [name]: input.value === "" ? null : value, selection: null });
    });
    store.subscribe((state) => {
      if (document.activeElement === input) return;
      if (input.getAttribute("aria-invalid") === "true") tell(false);
      input.value = state[name] === null ? "" : String(state[name]);
    });
    return element("div", { class: "field" }, element("label", { htmlFor: input.id, text: label }), input, note);
  };
  byId("settings-body").append(
    field("epsilon", "epsilon, the stabiliser", "keeps denominators away from zero; larger values calm small contributions"),
    field("delta", "delta, the biases' share", "0: biases keep their relevance; 1: words receive it (the paper's LRP_cons)"),
  );
}
