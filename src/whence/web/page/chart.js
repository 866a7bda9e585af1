/**
 * Small charts as elements: `lines` (curves with bands) and `bars` (signed bars with their labels and numbers).
 *
 * Both have their numbers as text: `lines` in a table that opens below it and in a cursor (mouse or arrow keys), `bars` because it
 * is a table.
 */

export { bars } from "./chart/bars.js";
export { lines } from "./chart/lines.js";
