// What hands do with the words of a heatmap: select a phrase by dragging, Shift + click or Shift + arrows; replace a word in place.

import { element } from "../dom.js";
import { hide } from "./tip.js";

const HOLD = 500; // milliseconds
const STILL = 10; // pixels that a resting finger may move

/**
 * @typedef {object} Doings
 * @property {(token: number) => void} toggle delete a word or bring it back
 * @property {(from: number, to: number) => void} select
 * @property {(token: number, word: string) => void} replace
 * @property {() => void} release let go of the phrase
 * @property {() => void} takeBack the first click of a double click has deleted the word; it was not meant
 */

/** @param {HTMLElement} box a heatmap @param {Doings} doings @returns {(token: number, event: Event) => void} what a click does */
export function mountGestures(box, doings) {
  let anchor = 0;
  drag(box, doings, (n) => (anchor = n));
  hold(box, (n) => edit(box, n, doings));
  box.addEventListener("extend", (event) => {
    const { from, to } = event.detail;
    const held = box.options.selection;
    if (!held) anchor = from;
    doings.select(anchor, to);
  });
  box.addEventListener("keydown", (event) => {
    if (event.target.matches?.("input")) return;
    const n = Number(event.target.dataset?.token);
    if (event.key === "Escape") doings.release();
    else if (event.key.toLowerCase() === "r" && !event.ctrlKey && !event.metaKey && !event.altKey && Number.isInteger(n)) {
      event.preventDefault();
      edit(box, n, doings);
    }
  });
  return (n, event) => {
    if (event.shiftKey && event instanceof MouseEvent) doings.select(anchor, n);
    else if (event instanceof MouseEvent && event.detail === 2 && anchor === n) {
      doings.takeBack();
      edit(box, n, doings);
    } else {
      anchor = n;
      doings.toggle(n);
    }
  };
}

/** A finger that rests on a word replaces it; the click that ends it then does nothing. */
function hold(box, replace) {
  let timer = 0;
  let isHeld = false;
  let start = { x: 0, y: 0 };
  const stop = () => clearTimeout(timer);
  box.addEventListener("pointerdown", (event) => {
    isHeld = false;
    const token = event.target.closest?.("[data-token]");
    if (event.pointerType !== "touch" || !token) return;
    stop();
    start = { x: event.clientX, y: event.clientY };
    timer = setTimeout(() => {
      isHeld = true;
      replace(Number(token.dataset.token));
    }, HOLD);
  });
  box.addEventListener("pointermove", (event) => Math.hypot(event.clientX - start.x, event.clientY - start.y) > STILL && stop());
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, stop);
  box.addEventListener("contextmenu", (event) => event.pointerType === "touch" && event.preventDefault());
  box.addEventListener("click", (event) => {
    if (!isHeld) return;
    isHeld = false;
    event.stopImmediatePropagation();
  }, { capture: true });
}

/** Dragging from one word to another selects what lies between. */
function drag(box, doings, begin) {
  let start = null;
  let latest = null;
  const tokenAt = (event) => {
    const token = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-token]");
    return token && box.contains(token) ? Number(token.dataset.token) : null;
  };
  box.addEventListener("pointerdown", (event) => {
    start = event.button === 0 && !event.shiftKey ? tokenAt(event) : null;
    latest = start;
  });
  box.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) start = null;
    if (start === null) return;
    const now = tokenAt(event);
    if (now === null || now === latest) return;
    latest = now;
    hide();
    begin(start);
    doings.select(start, now);
  });
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, () => (start = null));
}

/** Turn a word into a field; Enter replaces it, Escape leaves it. */
function edit(box, n, doings) {
  const token = box.tokens[n];
  if (!token?.isConnected) return;
  hide();
  const word = token.textContent;
  const field = element("input", { type: "text", class: "replace", value: word, "aria-label": `Replace ${word} by`, autocomplete: "off", spellcheck: false, dir: "auto" });
  field.style.width = `${Math.max(4, [...word].length + 2)}ch`;
  let isDone = false;
  const finish = (replacement) => {
    if (isDone) return;
    isDone = true;
    if (field.isConnected) field.replaceWith(token);
    if (replacement !== null && replacement.trim() && replacement !== word) {
      box.wantsFocus = n;
      doings.replace(n, replacement.trim());
    }
    else token.focus({ preventScroll: true });
  };
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter" && !event.isComposing) finish(field.value);
    else if (event.key === "Escape") finish(null);
  });
  field.addEventListener("input", () => (field.style.width = `${Math.max(4, [...field.value].length + 2)}ch`));
  field.addEventListener("blur", () => finish(null));
  field.addEventListener("click", (event) => event.stopPropagation());
  token.replaceWith(field);
  field.focus();
  field.select();
}
