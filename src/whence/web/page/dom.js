// Making elements. Text always goes in as text, never as markup.

/**
 * An element with properties, attributes and children.
 * `class`, `text`, `dataset`, `on` (listeners) are understood; names with a dash and `role`, `for`, … are attributes.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node|string|null|undefined)} children
 * @returns {HTMLElement}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (name === "dataset") Object.assign(made.dataset, value);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (name in made && !name.includes("-") && name !== "list") made[name] = value;
    else if (value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The one element with this id, which must exist. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** A signed number with a real minus sign: +0.76, −1.24. @param {number} value @param {number} [digits] */
export function signed(value, digits = 2) {
  if (!Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(digits);
  return (Number(text) === 0 ? "" : value < 0 ? "−" : "+") + text;
}

/** A share as a percentage: 61 %, 0.4 %. @param {number} share */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = 100 * share;
  const digits = Math.abs(value) >= 9.95 || value === 0 ? 0 : 1;
  return `${value.toFixed(digits).replace("-", "−")} %`;
}

/** Whether a model gives one score only, whose class may be true or not. @param {Record<string, number>} scores */
export const isSingle = (scores) => Object.keys(scores).length === 1;

/** The softmax of scores by class name; a single score gives its sigmoid. @param {Record<string, number>} scores @returns {Record<string, number>} */
export function probabilities(scores) {
  if (isSingle(scores)) return Object.fromEntries(Object.entries(scores).map(([name, score]) => [name, 1 / (1 + Math.exp(-score))]));
  const largest = Math.max(...Object.values(scores));
  const powers = Object.entries(scores).map(([name, score]) => [name, Math.exp(score - largest)]);
  const total = powers.reduce((sum, [, power]) => sum + power, 0);
  return Object.fromEntries(powers.map(([name, power]) => [name, power / total]));
}

const SYMBOLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udfff]/gu;

/** The text with symbols in place of control characters and marks that change the reading direction, as whence.render does. */
export function visible(text) {
  return text.replace(SYMBOLS, (mark) => {
    const code = mark.codePointAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}
