/**
 * The plot: a lane per feature (line and strip of relevance), the bars of all features together, one time axis, one cursor.
 *
 * It draws when the data, the width or the theme changes. Moving the cursor changes a few texts and one position, nothing else.
 */

import { html, onWidth, svg } from "../chart/elements.js";
import { fixed, short } from "../chart/scale.js";
import { textWidth, timeTicks } from "./axis.js";
import { listen } from "./cursor.js";
import { axisValues, drawBars, drawBlanks, drawLine, drawStrip, frameOf } from "./lanes.js";
import { stretchesOf, words } from "./words.js";

const LINE = 58;
const STRIP = 16;
const BARS = 66;
const MARGIN = { left: 46, right: 8 };

/**
 * @typedef {Object} Picture what is drawn
 * @property {string[]} features
 * @property {string[]} labels one per step
 * @property {number[][]} values
 * @property {number[][]|null} relevance null while it is not known
 * @property {number[]} reference what a blanked value becomes
 * @property {{start: number, end: number, features?: number[]}[]} blanks
 * @property {number} largest the relevance with full colour
 * @property {[number, number]} window the steps shown
 * @property {boolean} isBoosted whether colours follow the square root, so that weak values show
 * @property {boolean} isSigned whether the method tells for from against
 */

/**
 * @param {{colour: Object, onSelect: (stretch: [number, number]|null) => void, onBlank: () => void, onClick: (step: number) => boolean}} options `onClick` says whether
 *   a click did something; if not, it selects the step
 * @returns {{element: HTMLElement, show: (picture: Picture) => void, select: (stretch: [number, number]|null) => void}}
 */
export function makePlot({ colour, onSelect, onBlank, onClick }) {
  const parts = makeParts();
  const plot = { ...parts, colour, rows: [], sum: null, picture: null, width: 0, frame: null, cursor: null, selected: null };
  const { element, lanes } = parts;
  onWidth(lanes, (width) => {
    plot.width = width;
    draw(plot);
  });
  listen(plot, {
    moveTo: (step) => moveTo(plot, step),
    select: (stretch) => {
      select(plot, stretch);
      onSelect(stretch);
    },
    blank: onBlank,
    click: onClick,
  });
  return {
    element,
    show: (picture) => show(plot, picture),
    select: (stretch) => select(plot, stretch),
  };
}

/** The plot's own elements, without lanes. */
function makeParts() {
  const lanes = html("div", { class: "series-lanes" });
  const axis = svg("svg", { class: "series-axis", height: 22, "aria-hidden": "true" });
  const selection = html("div", { class: "series-selection" });
  const tag = html("span", { class: "series-tag" });
  const line = html("div", { class: "series-cursor" }, tag);
  const hooks = { id: "series-plot", class: "series-plot", role: "slider", tabindex: 0 };
  const words = { "aria-label": "Time cursor", "aria-orientation": "horizontal", "aria-describedby": "series-keys" };
  return { element: html("div", { ...hooks, ...words }, lanes, axis, selection, line), lanes, axis, selection, tag, line };
}

function show(plot, picture) {
  const isNew = !plot.picture || plot.picture.features.join("\n") !== picture.features.join("\n");
  const isOther = isNew || plot.picture.labels !== picture.labels;
  plot.picture = { ...picture, sums: sumsOf(picture.relevance), say: fixed(picture.largest, picture) };
  if (isNew) build(plot);
  if (isOther) {
    plot.cursor = null;
    select(plot, null);
  }
  plot.element.setAttribute("aria-valuemin", 0);
  plot.element.setAttribute("aria-valuemax", picture.labels.length - 1);
  draw(plot);
}

/** The relevance of all features together, step by step. */
const sumsOf = (relevance) => relevance?.map((row) => row.reduce((sum, value) => sum + value, 0)) ?? null;

/** The elements of every lane, made once per model. */
function build(plot) {
  plot.rows = plot.picture.features.map((name) => {
    const reading = html("span", { class: "series-reading" });
    const picture = svg("svg", { class: "series-picture", height: LINE, "aria-hidden": "true" });
    const strip = html("canvas", { class: "series-strip", "aria-hidden": "true" });
    const blanks = html("div", { class: "series-blanks" });
    const head = html(
      "div",
      { class: "series-head" },
      html("span", { class: "series-name", text: name, dir: "auto" }),
      reading,
    );
    return {
      reading,
      picture,
      strip,
      blanks,
      lane: html("div", { class: "series-lane" }, head, html("div", { class: "series-box" }, picture, strip, blanks)),
    };
  });
  const reading = html("span", { class: "series-reading" });
  const canvas = html("canvas", { class: "series-bars", "aria-hidden": "true" });
  const scale = svg("svg", { class: "series-scale", width: MARGIN.left, height: BARS, "aria-hidden": "true" });
  const head = html(
    "div",
    { class: "series-head" },
    html("span", { class: "series-name", text: "all features together" }),
    reading,
  );
  plot.sum = { reading, canvas, scale };
  plot.lanes.replaceChildren(
    ...plot.rows.map(({ lane }) => lane),
    html("div", { class: "series-lane is-sum" }, head, html("div", { class: "series-box" }, scale, canvas)),
  );
}

function draw(plot) {
  const { picture, width } = plot;
  if (!picture || !width) return;
  const [from, to] = picture.window;
  const frame = frameOf({ from, to, left: MARGIN.left, width: width - MARGIN.left - MARGIN.right });
  plot.frame = frame;
  const { for: red, against: blue, quiet } = plot.colour.palette();
  const edge = getComputedStyle(plot.element).getPropertyValue("--line").trim() || quiet;
  const steps = picture.labels.length;
  const colourOf = (value) =>
    plot.colour.shade(picture.isBoosted ? boosted(value, picture.largest) : value, picture.largest).background;
  plot.rows.forEach(({ picture: drawing, strip, blanks }, n) => {
    const stretches = stretchesOf(picture.blanks, n);
    drawing.setAttribute("width", width);
    const values = picture.values.map((row) => row[n]);
    drawLine(drawing, { values, blanks: stretches, reference: picture.reference?.[n] ?? null, frame, height: LINE });
    const relevance = picture.relevance ? picture.relevance.map((row) => row[n]) : new Array(steps).fill(0);
    drawStrip(strip, { relevance, frame, height: STRIP, line: edge, colourOf });
    drawBlanks(blanks, stretches, frame);
  });
  const sums = picture.sums ?? new Array(steps).fill(0);
  const { low, high, atY } = drawBars(plot.sum.canvas, {
    relevance: sums,
    frame,
    height: BARS,
    colours: { for: red, against: blue },
    line: quiet,
  });
  const marks = high > low ? axisValues(low, high) : [0];
  plot.sum.scale.replaceChildren(
    ...marks.map((value) =>
      svg("text", { class: "chart-tick", x: MARGIN.left - 6, y: atY(value) + 4, "text-anchor": "end", text: short(value) }),
    ),
  );
  drawAxis(plot);
  place(plot);
}

/** A weak value as a stronger one, on a scale of square roots; its sign stays. */
const boosted = (value, largest) => Math.sign(value) * Math.sqrt(Math.abs(value) * largest);

/** The middle of a label that does not stick out of the plot. */
const inside = (x, text, width) => Math.min(Math.max(x, textWidth(text) / 2), width - textWidth(text) / 2);

function drawAxis({ axis, picture, frame, width }) {
  axis.setAttribute("width", width);
  axis.replaceChildren(
    svg("line", { class: "chart-axis", x1: frame.left, x2: frame.left + frame.width, y1: 0.5, y2: 0.5 }),
    ...timeTicks(picture.labels, frame).flatMap(({ step, text }) => [
      svg("line", { class: "chart-axis", x1: frame.centre(step), x2: frame.centre(step), y1: 0, y2: 5 }),
      svg("text", { class: "chart-tick", x: inside(frame.centre(step), text, width), y: 17, "text-anchor": "middle", text }),
    ]),
  );
}

/** Put the cursor on a step (null: nowhere) and say what is there. */
function moveTo(plot, step) {
  plot.cursor = step;
  place(plot);
}

function select(plot, stretch) {
  plot.selected = stretch;
  place(plot);
}

/** Position cursor and selection and write the values under the cursor. */
function place({ frame, picture, cursor, selected, line, tag, selection, rows, sum, element }) {
  if (!frame || !picture) return;
  const isSeen = cursor !== null && cursor >= frame.from && cursor < frame.to;
  line.classList.toggle("is-shown", isSeen);
  selection.classList.toggle("is-shown", selected !== null);
  if (selected) {
    selection.style.left = `${frame.edge(selected[0])}px`;
    selection.style.width = `${Math.max(frame.edge(selected[1]) - frame.edge(selected[0]), 2)}px`;
  }
  if (isSeen) {
    line.style.transform = `translateX(${frame.centre(cursor)}px)`;
    tag.textContent = picture.labels[cursor];
    const half = tag.offsetWidth / 2;
    const inside = Math.min(Math.max(frame.centre(cursor), half), frame.left + frame.width + MARGIN.right - half);
    tag.style.transform = `translateX(${inside - frame.centre(cursor) - half}px)`;
  }
  const { say } = picture;
  rows.forEach(({ reading }, n) => {
    reading.textContent = isSeen
      ? `${short(picture.values[cursor][n])}${picture.relevance ? ` · relevance ${say(picture.relevance[cursor][n])}` : ""}`
      : "";
  });
  sum.reading.textContent = isSeen && picture.sums ? `relevance ${say(picture.sums[cursor])}` : "";
  element.setAttribute("aria-valuenow", cursor ?? picture.labels.length - 1);
  element.setAttribute("aria-valuetext", words(picture, cursor ?? picture.labels.length - 1, selected));
}
