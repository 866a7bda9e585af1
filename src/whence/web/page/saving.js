/** Hands a text to the reader as a file. It never leaves the browser. */

import { html } from "./chart/elements.js";

/** @param {string} name of the file @param {string|string[]} parts its text @param {string} type such as "text/csv" */
export function save(name, parts, type) {
  const address = URL.createObjectURL(new Blob([parts].flat(), { type: `${type};charset=utf-8` }));
  const link = html("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
