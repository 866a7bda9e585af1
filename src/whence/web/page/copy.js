// Put a text on the clipboard, also where the modern way is not allowed (a page that is not served from this machine or by https).

import { element } from "./dom.js";

/** @param {string} text @returns {Promise<boolean>} whether it worked */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const field = element("textarea", { value: text, class: "sr", readOnly: true, "aria-hidden": "true" });
  document.body.append(field);
  field.select();
  let worked = false;
  try {
    worked = document.execCommand("copy");
  } catch {
    // then the reader copies by hand
  }
  field.remove();
  focused?.focus?.();
  return worked;
}
