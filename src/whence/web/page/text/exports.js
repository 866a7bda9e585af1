// Take the view away: documents of the service, a PNG drawn here, the same as Python.

import { byId, element } from "../dom.js";
import { render } from "../api.js";
import { copy } from "../copy.js";
import { png } from "./png.js";
import { python } from "./python.js";
import { document as asked } from "./request.js";

const FORMATS = [
  ["html", "HTML", "html", "text/html"],
  ["svg", "SVG", "svg", "image/svg+xml"],
  ["png", "PNG", "png", "image/png"],
  ["latex", "LaTeX", "tex", "application/x-tex"],
  ["json", "JSON", "jsonl", "application/jsonl"],
];

/** @param {import("./store.js").Store} store @param {() => import("./answers.js").View|null} current @param {(text: string) => void} say */
export function mountExports(store, current, say) {
  const button = ([format, label, suffix, type]) =>
    element("button", {
      type: "button", id: `export-${format}`, text: label, title: `Download as ${label}`,
      on: { click: () => take(format, suffix, type) },
    });
  async function take(format, suffix, type) {
    const view = current();
    if (!view) return;
    try {
      const body = await render(asked(view.asked, view.main.target, format === "png" ? "svg" : format));
      save(format === "png" ? await png(body) : new Blob([body], { type }), `explanation.${suffix}`);
      say(`Saved as explanation.${suffix}.`);
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
    /** @param {import("./answers.js").View} view */
    paint(view) {
      code.textContent = python(view.asked, view.main.target);
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
