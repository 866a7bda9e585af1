// The one colour scale: red speaks for, blue against; the same as whence.render.colour, on a light or a dark page.

/** @typedef {[number, number, number]} RGB */

/** @type {Record<"light"|"dark", {FOR: RGB, AGAINST: RGB, paper: RGB, ink: string}>} */
const THEMES = {
  light: { FOR: [178, 24, 43], AGAINST: [33, 102, 172], paper: [255, 255, 255], ink: "#1c1b1a" },
  dark: { FOR: [196, 43, 60], AGAINST: [45, 117, 190], paper: [23, 23, 26], ink: "#efedea" },
};
const LEAST_CONTRAST = 4.6; // WCAG AA asks for 4.5

/** Curves that readers who are colour-blind can tell apart. */
export const SERIES = ["#b2182b", "#2166ac", "#1b7837", "#e08214", "#666666", "#762a83"];

/** "light" or "dark": what the reader chose, else what the system prefers. @returns {"light"|"dark"} */
export function theme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @param {RGB} colour */
const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

/** The colours that speak for and against, and the curves' colour for things that do neither. */
export const palette = () => {
  const { FOR, AGAINST, paper, ink } = THEMES[theme()];
  return { for: css(FOR), against: css(AGAINST), paper: css(paper), ink, quiet: theme() === "dark" ? "#8f8c88" : "#75726e" };
};

/**
 * The colour of a value, the strongest at `largest`, and an ink that reads well on it.
 * @param {number} value @param {number} largest the largest |value| shown beside it
 * @returns {{background: string, ink: string, strength: number}}
 */
export function shade(value, largest) {
  const { FOR, AGAINST, paper, ink } = THEMES[theme()];
  const share = largest > 0 && Number.isFinite(value) ? Math.min(1, Math.abs(value) / largest) : 0;
  const full = value >= 0 ? FOR : AGAINST;
  const mixed = /** @type {RGB} */ (paper.map((ground, n) => Math.round(ground + (full[n] - ground) * share)));
  return { background: css(mixed), ink: inkOn(mixed, ink), strength: share };
}

/** The page's ink where it reads well, else black or white. @param {RGB} ground @param {string} ink */
function inkOn(ground, ink) {
  const own = contrast(ground, parse(ink));
  if (own >= LEAST_CONTRAST) return ink;
  return contrast(ground, [255, 255, 255]) >= contrast(ground, [0, 0, 0]) ? "#ffffff" : "#000000";
}

/** @param {string} hex @returns {RGB} */
const parse = (hex) => /** @type {RGB} */ ([1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16)));

/** The contrast of two colours, 1 to 21, by WCAG. @param {RGB} a @param {RGB} b */
function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

/** @param {RGB} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
