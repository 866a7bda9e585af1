/** Makes HTML and SVG elements. Text only ever becomes text: nothing here reads markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element.
 * @param {string} name
 * @param {Object} properties `class`, `text`, `dataset`, `on` (event listeners); the rest are attributes, left out when
 *   null or false
 * @param {...(Node|string|null)} children
 * @returns {HTMLElement}
 */
export function html(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

/** An SVG element; see `html`. */
export function svg(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name === "text") element.textContent = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
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
