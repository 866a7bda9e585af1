// The dialog that lists the keys.

import { byId, element } from "./dom.js";

const KEYS = [
  ["← → ↑ ↓", "go from word to word"],
  ["Enter or Space", "delete the word, or bring it back"],
  ["R", "replace the word by another"],
  ["Shift + ← →", "select a phrase"],
  ["Esc", "let go of the phrase"],
  ["N", "delete the most relevant remaining word"],
  ["Ctrl + Z", "undo (outside the text field)"],
  ["Ctrl + Shift + Z", "redo"],
  ["?", "this list"],
];

/** Whether keys go into a field just now. @param {EventTarget | null} target */
export const isTyping = (target) =>
  target instanceof HTMLElement && (target.matches("textarea, input, select") || target.isContentEditable);

/** Fill the dialog and open it by its button or by "?". */
export function mountShortcuts() {
  const dialog = byId("shortcuts");
  const rows = KEYS.flatMap(([keys, meaning]) => [element("dt", {}, element("kbd", { text: keys })), element("dd", { text: meaning })]);
  dialog.append(
    element("h2", { id: "shortcuts-title", text: "Keyboard" }),
    element("p", { text: "Tab reaches the sentence once; inside it:" }),
    element("dl", { class: "keys" }, ...rows),
    element("button", { class: "primary", type: "button", text: "Close", on: { click: () => dialog.close() } }),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  byId("help").addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.key === "?" && !isTyping(event.target) && !dialog.open) dialog.showModal();
  });
}
