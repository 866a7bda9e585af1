/** Numbers to places on a chart and to words: scales, round tick values, short numbers, fewer points. */

/** A function from [low, high] to [from, to]; a domain of one number maps to the middle. */
export function linear([low, high], [from, to]) {
  if (high === low) return () => (from + to) / 2;
  return (value) => from + ((value - low) / (high - low)) * (to - from);
}

/** The smallest and largest finite number, or null when there is none. */
export function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** Round numbers (1, 2, 2.5 or 5 times a power of ten) inside [low, high], about `count` of them. */
export function ticks(low, high, count = 4) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((size) => size * power >= rough * 0.999) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
}

/** A number for readers: three significant digits, a true minus sign, no needless zeros. */
export function short(value, digits = 3) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1) : plain(value, digits);
  return text
    .replace(/e([+-])/, " × 10^$1")
    .replace("^+", "^")
    .replaceAll("-", "−");
}

function plain(value, digits) {
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return String(Number(value.toFixed(Math.min(decimals, 20))));
}

/** A function that writes numbers with the decimals that suit the largest of them: 0.012 beside 0.180. */
export function fixed(largest, { isSigned = true, digits = 3 } = {}) {
  const decimals = largest > 0 ? Math.min(Math.max(0, digits - 1 - Math.floor(Math.log10(largest))), 12) : 0;
  return (value) => {
    const text = Math.abs(value).toFixed(decimals);
    const sign = Number(text) === 0 ? "" : value < 0 ? "−" : isSigned ? "+" : "";
    return sign + text;
  };
}

/** A number with its sign: +0.25, −1.3, 0. */
export function signed(value, digits = 3) {
  return (value > 0 ? "+" : "") + short(value, digits);
}

/**
 * Which points to draw when there are more than the screen has columns: of every bin the first, lowest, highest and last, so
 * that no peak is lost.
 * @returns {number[]} indexes in order
 */
export function sampled(values, columns) {
  if (values.length <= columns * 2) return values.map((_, n) => n);
  const kept = [];
  for (let bin = 0; bin < columns; bin++) {
    const start = Math.floor((bin * values.length) / columns);
    const end = Math.floor(((bin + 1) * values.length) / columns);
    let low = start;
    let high = start;
    for (let n = start; n < end; n++) {
      if (values[n] < values[low]) low = n;
      if (values[n] > values[high]) high = n;
    }
    kept.push(...new Set([start, Math.min(low, high), Math.max(low, high), end - 1]));
  }
  return kept;
}
