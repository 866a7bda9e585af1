/** Draws one lane of the plot: a feature's line, its strip of relevance, or the bars of all features together. */

import { html, svg } from "../chart/elements.js";
import { extent, linear, sampled, short, ticks } from "../chart/scale.js";

/**
 * Where steps are on the screen.
 * @param {{from: number, to: number, left: number, width: number}} place the steps shown, the pixels left of them and across
 */
export function frameOf({ from, to, left, width }) {
  const cell = width / Math.max(to - from, 1);
  const edge = (step) => left + (Math.min(Math.max(step, from), to) - from) * cell;
  const stepAt = (x) => Math.min(Math.max(from + Math.floor((x - left) / cell), from), to - 1);
  return { from, to, left, width, cell, edge, centre: (step) => left + (step - from + 0.5) * cell, stepAt };
}

/**
 * The line of a feature, with its axis and, over blanked stretches, the reference it was set to.
 * @param {SVGElement} picture drawn into
 * @param {{values: number[], blanks: [number, number][], reference: number|null, frame: Object, height: number}} lane
 */
export function drawLine(picture, { values, blanks, reference, frame, height }) {
  const shown = values.slice(frame.from, frame.to);
  const [low, high] = extent(blanks.length && reference !== null ? [...shown, reference] : shown);
  const atY = linear([low, high], [height - 5, 5]);
  const right = frame.left + frame.width;
  const marks = axisValues(low, high).flatMap((value) => [
    svg("line", { class: "chart-grid", x1: frame.left, x2: right, y1: atY(value), y2: atY(value) }),
    svg("text", { class: "chart-tick", x: frame.left - 6, y: atY(value) + 4, "text-anchor": "end", text: short(value) }),
  ]);
  const points = sampled(shown, Math.ceil(frame.width)).map(
    (n) => `${frame.centre(n + frame.from).toFixed(1)},${atY(shown[n]).toFixed(1)}`,
  );
  const line = svg("path", {
    class: `series-line${frame.cell < 0.5 ? " is-dense" : ""}`,
    d: points.length > 1 ? `M${points.join("L")}` : `M${points[0]}h0.1`,
  });
  const flat = blanks.map(([start, end]) =>
    svg("line", {
      class: "series-reference",
      x1: frame.edge(start),
      x2: frame.edge(end),
      y1: atY(reference),
      y2: atY(reference),
    }),
  );
  picture.replaceChildren(...marks, line, ...flat);
}

/** A few round numbers between the lowest and the highest value. */
export function axisValues(low, high) {
  const choices = [2, 3, 4].map((count) => ticks(low, high, count));
  return (
    choices.find(({ length }) => length === 3 || length === 4) ??
    choices.find(({ length }) => length === 2) ??
    choices[0].slice(0, 1)
  );
}

/**
 * The strip of relevance. Where several steps share a pixel the strongest is shown, so that nothing strong is lost.
 * @param {HTMLCanvasElement} canvas
 * @param {{relevance: number[], frame: Object, height: number, colourOf: (value: number) => string, line: string}} lane `line`: the
 *   colour of its edges
 */
export function drawStrip(canvas, { relevance, frame, height, colourOf, line }) {
  const pen = sharpPen(canvas, frame.left + frame.width, height);
  for (const { x, width, value } of columns(relevance, frame)) {
    pen.fillStyle = colourOf(value);
    pen.fillRect(x, 0, width, height);
  }
  pen.fillStyle = line;
  pen.fillRect(frame.left, 0, frame.width, 1);
  pen.fillRect(frame.left, height - 1, frame.width, 1);
}

/** The bars of a row of relevance, up for and down against; see `drawStrip` for steps that share a pixel. */
export function drawBars(canvas, { relevance, frame, height, colours, line }) {
  const pen = sharpPen(canvas, frame.left + frame.width, height);
  const [low, high] = extent([0, ...relevance.slice(frame.from, frame.to)]);
  const atY = linear([low, high === low ? 1 : high], [height - 3, 3]);
  const gap = frame.cell > 5 ? 1 : 0;
  for (const { x, width, value } of columns(relevance, frame)) {
    pen.fillStyle = value >= 0 ? colours.for : colours.against;
    const top = Math.min(atY(0), atY(value));
    pen.fillRect(x + gap / 2, top, Math.max(width - gap, 0.5), Math.abs(atY(value) - atY(0)));
  }
  pen.fillStyle = line;
  pen.fillRect(frame.left, Math.round(atY(0)), frame.width, 1);
  return { low, high, atY };
}

/** A value for every step, or for every pixel when there are fewer pixels. */
function* columns(values, { from, to, left, width, cell, edge }) {
  if (cell >= 1) {
    for (let step = from; step < to; step++) {
      const x = edge(step);
      yield { x, width: edge(step + 1) - x, value: values[step] };
    }
    return;
  }
  for (let pixel = 0; pixel < width; pixel++) {
    const start = from + Math.floor(pixel / cell);
    const end = Math.min(Math.max(start + 1, from + Math.floor((pixel + 1) / cell)), to);
    let strongest = values[Math.min(start, to - 1)];
    for (let step = start; step < end; step++) if (Math.abs(values[step]) > Math.abs(strongest)) strongest = values[step];
    yield { x: left + pixel, width: 1, value: strongest };
  }
}

/** A clean canvas of this size in CSS pixels, sharp on every screen. */
function sharpPen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}

/** Hatched boxes over the blanked stretches. */
export function drawBlanks(holder, blanks, frame) {
  const inside = blanks.filter(([start, end]) => end > frame.from && start < frame.to);
  holder.replaceChildren(
    ...inside.map(([start, end]) => {
      const box = html("span", { class: "series-blanked" });
      box.style.left = `${frame.edge(start)}px`;
      box.style.width = `${Math.max(frame.edge(end) - frame.edge(start), 2)}px`;
      return box;
    }),
  );
}
