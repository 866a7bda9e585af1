// Take the view away: documents of the service, a PNG drawn here, the same as Python.

import { byId, element } from "../dom.js";
import { render } from "../api.js";
import { copy } from "../copy.js";
import { png } from "./png.js";
import { python } from "./python.js";
import { document as asked, otherSide, textsOf } from "./request.js";

const FORMATS = [
  ["html", "HTML", "html", "text/html"],
  ["svg", "SVG", "svg", "image/svg+xml"],
  ["png", "PNG", "png", "image/png"],
  ["latex", "LaTeX", "tex", "application/x-tex"],
  ["json", "JSON Lines", "jsonl", "application/jsonl"],
];

/** @typedef {import("./answers.js").View} View */

/** A file name out of the first words: whence-neither-funny-nor.svg. @param {string} text @param {string} suffix */
export function fileName(text, suffix) {
  const words = text.slice(0, 200).normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase().match(/[a-z0-9]+/g) ?? ["explanation"];
  return `whence-${words.slice(0, 3).join("-").slice(0, 60)}.${suffix}`;
}

/** What the files hold, in a sentence or two. @param {View} view @param {(kind: string, name: string) => string} label of a method or a model */
export function contents({ asked: state, main, other }, label) {
  const by = `by ${label("method", state.method)} in ${state.model}`;
  const held = textsOf(state).length > 1
    ? `HTML, LaTeX and JSON Lines hold ${textsOf(state).length} sentences ${by}. SVG and PNG hold the first sentence.`
    : `Every file holds the sentence as it is seen now, ${by}.`;
  const classes = state.target === "all" ? ` SVG and PNG show ${main.target} only, the others all classes.` : "";
  const [kind, name] = state.compare.split(/:(.*)/s);
  return held + classes + (other ? ` What ${label(kind, name)} says is in JSON Lines only.` : "");
}

/** The document in one format. What stands beside the sentence is added to JSON Lines, which any lines may follow. @param {View} view @param {string} format */
async function written(view, format) {
  const { asked: state, main, other, otherDeleted } = view;
  const first = await render(asked(state, main.target, format));
  if (format !== "json" || !other) return first;
  const side = otherSide(state);
  const target = side.target === "all" ? "predicted" : side.target;
  return first + (await render(asked({ ...side, target, deleted: otherDeleted ?? [] }, other.target, format)));
}

/**
 * @param {any} models what the service offers @param {() => View|null} current
 * @param {(text: string) => void} say
 */
export function mountExports(models, current, say) {
  const button = ([format, label, suffix, type]) =>
    element("button", {
      type: "button", id: `export-${format}`, text: label, title: `Download as ${label}`,
      on: { click: () => take(format, suffix, type) },
    });
  async function take(format, suffix, type) {
    const view = current();
    if (!view) return;
    const name = fileName(view.asked.text, suffix);
    try {
      const body = await written(view, format === "png" ? "svg" : format);
      save(format === "png" ? await png(body) : new Blob([body], { type }), name);
      say(`Saved as ${name}.`);
    } catch (error) {
      say(error.message);
    }
  }
  byId("exports").append(...FORMATS.map(button));

  const code = element("code");
  const done = element("span", { role: "status" });
  byId("python-body").append(
    element("pre", { tabIndex: 0, "aria-label": "Python" }, code),
    element("div", { class: "actions" },
      element("button", { type: "button", id: "copy-python", text: "Copy", on: { click: async () => (done.textContent = (await copy(code.textContent)) ? "Copied." : "Select the lines and copy them by hand.") } }), done),
  );
  return {
    /** @param {View} view */
    paint(view) {
      const label = (kind, name) => (kind === "method" && models.methods.find((method) => method.name === name)?.label) || name;
      byId("exports-note").textContent = contents(view, label);
      code.textContent = python(view.asked, models.models.find(({ name, kind }) => kind === "text" && name === view.asked.model)?.python ?? undefined);
      done.textContent = "";
    },
  };
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
