// A PNG out of the service's SVG, whose boxes and texts are drawn on a canvas. The page may not load an SVG as an image.

const SCALE = 2; // sharp on dense screens and in print
const LARGEST = 16_000; // pixels; browsers refuse larger canvases

/** @param {string} source the SVG @returns {Promise<Blob>} */
export function png(source) {
  const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
  if (root.nodeName !== "svg") throw new Error("The server's picture could not be read.");
  const [width, height] = [number(root, "width"), number(root, "height")];
  const scale = Math.min(SCALE, LARGEST / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const family = root.getAttribute("font-family") ?? "monospace";
  const size = number(root, "font-size") || 16;
  for (const shape of root.querySelectorAll("rect, text, line")) {
    if (shape.nodeName === "rect") box(pen, shape, width, height);
    else if (shape.nodeName === "line") rule(pen, shape);
    else letters(pen, shape, family, size);
  }
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture is too large for a PNG; take the SVG."))), "image/png");
  });
}

const number = (shape, name) => Number.parseFloat(shape.getAttribute(name) ?? "0") || 0;
const length = (shape, name, whole) => (shape.getAttribute(name)?.endsWith("%") ? (whole * number(shape, name)) / 100 : number(shape, name));

function box(pen, shape, width, height) {
  pen.fillStyle = shape.getAttribute("fill") ?? "black";
  pen.beginPath();
  pen.roundRect(number(shape, "x"), number(shape, "y"), length(shape, "width", width), length(shape, "height", height), number(shape, "rx"));
  pen.fill();
}

function rule(pen, shape) {
  pen.strokeStyle = shape.getAttribute("stroke") ?? "black";
  pen.lineWidth = number(shape, "stroke-width") || 1;
  pen.beginPath();
  pen.moveTo(number(shape, "x1"), number(shape, "y1"));
  pen.lineTo(number(shape, "x2"), number(shape, "y2"));
  pen.stroke();
}

function letters(pen, shape, family, size) {
  const own = number(shape, "font-size") || size;
  const [x, y] = [number(shape, "x"), number(shape, "y")];
  pen.font = `${own}px ${family}`;
  pen.fillStyle = shape.getAttribute("fill") ?? "black";
  pen.fillText(shape.textContent, x, y);
  const line = shape.getAttribute("text-decoration");
  if (!line) return;
  const lift = line.includes("line-through") ? -0.3 : 0.15;
  pen.fillRect(x, y + lift * own, pen.measureText(shape.textContent).width, 1);
}
