// The small note over a word: its number, and what it says.

import { element } from "../dom.js";
import { meaning } from "../heatmap.js";

let tip = null;
let shown = null; // the heatmap and the token whose note is seen

/** Show notes for the tokens of a heatmap, under the mouse and at the focus. @param {HTMLElement} box */
export function mountTip(box) {
  tip ??= document.body.appendChild(element("div", { class: "tip", role: "tooltip", hidden: true }));
  const tokenOf = (event) => event.target.closest?.("[data-token]");
  box.addEventListener("pointerover", (event) => show(box, tokenOf(event)));
  box.addEventListener("pointerleave", hide);
  box.addEventListener("focusin", (event) => tokenOf(event)?.matches(":focus-visible") && show(box, tokenOf(event)));
  box.addEventListener("focusout", hide);
}

/** Take the note away. */
export function hide() {
  if (tip) tip.hidden = true;
  shown = null;
}

/** The word under the note may have changed: say what it says now. */
export function refreshTip() {
  if (shown) show(shown.box, shown.token.isConnected ? shown.token : null);
}

window.addEventListener("scroll", hide, { passive: true });

function show(box, token) {
  if (!token) return hide();
  shown = { box, token };
  const n = Number(token.dataset.token);
  const isDeleted = token.getAttribute("aria-pressed") === "true";
  const { number, says, note } = meaning(box.explanation, n, { isDeleted, unsigned: box.options.unsigned });
  tip.replaceChildren(element("b", { text: number }), ` ${[says, note].filter(Boolean).join(", ")}`);
  tip.hidden = false;
  place(token, box);
}

/** Above the word, or below it where it would cover the line over the text; inside the margins of the page. */
function place(token, box) {
  const rect = token.getClientRects()[0] ?? token.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const margins = box.parentElement.getBoundingClientRect();
  const left = Math.max(margins.left, Math.min(rect.left + rect.width / 2 - width / 2, margins.right - width));
  const headline = box.closest(".sentence, .beside")?.querySelector(".verdict");
  const free = Math.max(4, headline?.getBoundingClientRect().bottom ?? 0);
  const above = rect.top - height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > free ? above : rect.bottom + 8}px`;
}
