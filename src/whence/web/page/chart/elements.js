/** Makes SVG elements, loads stylesheets, follows widths. Text only ever becomes text: nothing here reads markup. */

import { element as html } from "../dom.js";

export { html };

const SVG = "http://www.w3.org/2000/svg";

/**
 * An SVG element. `text` and `class` are understood; the rest are attributes, left out when null or false.
 * @param {string} name
 * @param {Object} properties
 * @param {...Node} children
 * @returns {SVGElement}
 */
export function svg(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, String(value));
  }
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

/** Loads a stylesheet of the page once; resolves when it applies. */
export function stylesheet(address) {
  const href = new URL(address, import.meta.url).href;
  const present = [...document.styleSheets].some((sheet) => sheet.href === href);
  if (present) return Promise.resolve();
  const waiting = document.head.querySelector(`link[href="${CSS.escape(href)}"]`);
  const link = waiting ?? html("link", { rel: "stylesheet", href });
  if (!waiting) document.head.append(link);
  return new Promise((resolve) => {
    link.addEventListener("load", resolve, { once: true });
    link.addEventListener("error", resolve, { once: true });
  });
}

/**
 * Calls `draw(width)` now and whenever the element's width changes, so that letters keep their size on every screen.
 * @param {Element} element
 * @param {(width: number) => void} draw
 */
export function onWidth(element, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (!width || width === last) return;
    last = width;
    draw(width);
  }).observe(element);
}
