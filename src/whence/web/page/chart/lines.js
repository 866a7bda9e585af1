/** Curves over one axis, with bands, a cursor (mouse or arrow keys) and a table of the numbers. */

import { html, onWidth, stylesheet, svg } from "./elements.js";
import { extent, linear, sampled, short, ticks } from "./scale.js";

const HEIGHT = 200;
const MARGIN = { top: 10, right: 12, bottom: 34, left: 44 };

/**
 * Curves over one axis.
 * @param {Object} options
 * @param {string} options.label what the chart shows, in one sentence: its text alternative
 * @param {{name: string, values: number[], low?: number[], high?: number[], tone?: string}[]} options.series a curve each, with a
 *   band from `low` to `high` where given; `tone` is "for", "against", "plain" or "muted" and names the colour
 * @param {number[]} [options.x] the places on the x axis; 0, 1, 2, … when left out
 * @param {string} [options.xLabel]
 * @param {string} [options.yLabel]
 * @param {[number, number]} [options.yRange] else from the values
 * @param {(x: number) => string} [options.sayX] a place in words, for the cursor
 * @param {(y: number) => string} [options.sayY]
 * @param {number} [options.height] in pixels
 * @param {number} [options.mark] a place on the x axis to mark with a line
 * @param {{name: string, x: number, y: number}} [options.point] a single value that need not lie on a curve
 * @returns {HTMLElement} a figure; it draws itself again when its width changes
 */
export function lines(options) {
  const chart = { xLabel: "", yLabel: "", sayX: short, sayY: short, height: HEIGHT, ...options };
  chart.x ??= (chart.series[0]?.values ?? []).map((_, n) => n);
  stylesheet("../chart.css");
  const readout = html("output", { class: "chart-readout" });
  const holder = html("div", { class: "chart-plot" });
  const figure = html("figure", { class: "chart" }, legend(chart), holder, readout, numbers(chart));
  const cursor = lineCursor(chart, holder, readout);
  onWidth(holder, (width) => cursor.drawn(drawLines(chart, width)));
  return figure;
}

/** One entry a curve: a stroke of its colour and its name; and one for the single value. */
function legend({ series, point }) {
  const entry = ({ name, tone = "plain" }) =>
    html(
      "li",
      {},
      html("span", { class: `chart-key tone-${tone}`, "aria-hidden": "true" }),
      html("span", { text: name, dir: "auto" }),
    );
  const single = point ? [html("li", {}, html("span", { class: "chart-key-point", "aria-hidden": "true" }), html("span", { text: point.name, dir: "auto" }))] : [];
  return html("ul", { class: "chart-legend" }, ...series.map(entry), ...single);
}

/** The picture and its scales for one width. */
function drawLines(chart, width) {
  const { height, x, series } = chart;
  const everything = series.flatMap(({ values, low = [], high = [] }) => [...values, ...low, ...high]);
  const yRange = chart.yRange ?? extent(everything) ?? [0, 1];
  const atX = linear(extent(x) ?? [0, 1], [MARGIN.left, width - MARGIN.right]);
  const atY = linear(yRange, [height - MARGIN.bottom, MARGIN.top]);
  const picture = svg("svg", {
    class: "chart-picture",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "aria-hidden": "true",
  });
  picture.append(...yAxis(chart, yRange, atY, width), ...xAxis(chart, atX, width));
  for (const { low, high, tone = "plain" } of series) {
    if (low && high) picture.append(svg("path", { class: `chart-band tone-${tone}`, d: band(x, low, high, atX, atY) }));
  }
  for (const { values, tone = "plain" } of series) {
    picture.append(svg("path", { class: `chart-line tone-${tone}`, d: curve(x, values, atX, atY, width) }));
  }
  if (chart.mark !== undefined) {
    const place = atX(chart.mark);
    picture.append(svg("line", { class: "chart-mark", x1: place, x2: place, y1: MARGIN.top, y2: height - MARGIN.bottom }));
  }
  if (chart.point) picture.append(svg("circle", { class: "chart-point", cx: atX(chart.point.x), cy: atY(chart.point.y), r: 5.5 }));
  return { picture, atX, atY };
}

function yAxis({ yLabel, sayY }, yRange, atY, width) {
  const marks = ticks(...yRange, 4).flatMap((value) => [
    svg("line", { class: "chart-grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: atY(value), y2: atY(value) }),
    svg("text", { class: "chart-tick", x: MARGIN.left - 6, y: atY(value) + 4, "text-anchor": "end", text: sayY(value) }),
  ]);
  const middle = (atY(yRange[0]) + atY(yRange[1])) / 2;
  const name = { class: "chart-name", transform: `translate(11 ${middle}) rotate(-90)`, "text-anchor": "middle", text: yLabel };
  return yLabel ? [...marks, svg("text", name)] : marks;
}

function xAxis({ x, xLabel, height }, atX, width) {
  const [low, high] = extent(x) ?? [0, 1];
  const whole = x.every(Number.isInteger);
  const places = ticks(low, high, Math.max(2, Math.floor(width / 80))).filter((value) => !whole || Number.isInteger(value));
  const bottom = height - MARGIN.bottom;
  const marks = places.map((value) =>
    svg("text", { class: "chart-tick", x: atX(value), y: bottom + 15, "text-anchor": "middle", text: short(value) }),
  );
  const axis = svg("line", { class: "chart-axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom });
  const name = {
    class: "chart-name",
    x: (MARGIN.left + width - MARGIN.right) / 2,
    y: height - 4,
    "text-anchor": "middle",
    text: xLabel,
  };
  return xLabel ? [axis, ...marks, svg("text", name)] : [axis, ...marks];
}

/** The path of a curve; long ones keep their peaks and lose points between them. */
function curve(x, values, atX, atY, width) {
  const kept = sampled(values, Math.ceil(width));
  return "M" + kept.map((n) => `${atX(x[n]).toFixed(1)},${atY(values[n]).toFixed(1)}`).join("L");
}

function band(x, low, high, atX, atY) {
  const there = high.map((value, n) => `${atX(x[n]).toFixed(1)},${atY(value).toFixed(1)}`);
  const back = low.map((value, n) => `${atX(x[n]).toFixed(1)},${atY(value).toFixed(1)}`).reverse();
  return `M${there.join("L")}L${back.join("L")}Z`;
}

/** A cursor on the curves: it follows the mouse and the arrow keys and says the values under it. */
function lineCursor(chart, holder, readout) {
  const last = chart.x.length - 1;
  let index = 0;
  let scales = null;
  const rule = svg("line", { class: "chart-cursor", y1: MARGIN.top, y2: chart.height - MARGIN.bottom });
  const dots = chart.series.map(({ tone = "plain" }) => svg("circle", { class: `chart-dot tone-${tone}`, r: 3.5 }));
  const group = svg("g", { class: "chart-at" }, rule, ...dots);
  const words = () =>
    `${chart.xLabel ? `${chart.xLabel} ` : ""}${chart.sayX(chart.x[index])}: ` +
    chart.series.map(({ name, values }) => `${name} ${chart.sayY(values[index])}`).join(", ");
  const set = {
    role: "slider",
    tabindex: 0,
    "aria-label": chart.label,
    "aria-valuemin": 0,
    "aria-valuemax": Math.max(last, 0),
  };
  for (const [name, value] of Object.entries(set)) holder.setAttribute(name, value);

  const move = (place) => {
    index = Math.min(Math.max(place, 0), Math.max(last, 0));
    holder.setAttribute("aria-valuenow", index);
    holder.setAttribute("aria-valuetext", last < 0 ? "no values" : words());
    if (!scales || last < 0) return;
    const at = scales.atX(chart.x[index]);
    rule.setAttribute("x1", at);
    rule.setAttribute("x2", at);
    chart.series.forEach(({ values }, n) => {
      dots[n].setAttribute("cx", at);
      dots[n].setAttribute("cy", scales.atY(values[index]));
    });
  };
  const show = (isShown) => {
    group.classList.toggle("is-shown", isShown);
    readout.textContent = isShown && last >= 0 ? words() : "";
  };
  holder.addEventListener("pointermove", (event) => {
    if (!scales) return;
    const at = event.clientX - holder.getBoundingClientRect().left;
    move(nearest(chart.x, at, scales.atX));
    show(true);
  });
  holder.addEventListener("pointerleave", () => show(document.activeElement === holder));
  holder.addEventListener("focus", () => show(holder.matches(":focus-visible")));
  holder.addEventListener("blur", () => show(false));
  holder.addEventListener("keydown", (event) => {
    const jump = {
      ArrowRight: index + 1,
      ArrowUp: index + 1,
      ArrowLeft: index - 1,
      ArrowDown: index - 1,
      Home: 0,
      End: last,
      PageUp: index + 10,
      PageDown: index - 10,
    }[event.key];
    if (jump === undefined) return;
    event.preventDefault();
    move(jump);
    show(true);
  });
  move(0);
  return {
    drawn(drawing) {
      scales = drawing;
      drawing.picture.append(group);
      holder.replaceChildren(drawing.picture);
      move(index);
    },
  };
}

function nearest(x, at, atX) {
  let best = 0;
  x.forEach((value, n) => {
    if (Math.abs(atX(value) - at) < Math.abs(atX(x[best]) - at)) best = n;
  });
  return best;
}

/** The same numbers as a table that opens. */
function numbers({ x, xLabel, series, sayX, sayY, label }) {
  const details = html("details", { class: "chart-numbers" }, html("summary", { text: "The numbers" }));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const head = [xLabel || "place", ...series.map(({ name }) => name)];
    const row = (place, n) =>
      html(
        "tr",
        {},
        html("th", { scope: "row", text: sayX(place) }),
        ...series.map(({ values }) => html("td", { text: sayY(values[n]) })),
      );
    details.append(
      html(
        "div",
        { class: "chart-table", tabindex: 0, role: "region", "aria-label": label },
        html(
          "table",
          {},
          html("thead", {}, html("tr", {}, ...head.map((text) => html("th", { scope: "col", text })))),
          html("tbody", {}, ...x.map(row)),
        ),
      ),
    );
  });
  return details;
}
