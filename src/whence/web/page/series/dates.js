/** Which cells are dates, and in which order they run. */

const YEAR_FIRST = /^(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?/;
const YEAR_LAST = /^(\d{1,2})([-/.])(\d{1,2})\2(\d{4})/;
const TIME = /^(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2}(?:[.,]\d+)?))?\s*([AaPp][Mm])?\s*(Z|UTC|[+-]\d{2}:?\d{2})?)?$/;

/**
 * The times of a column of dates: 2003-04-12, 2003/4/12, 12.04.2003, 12/04/2003, 2003-04, each perhaps with a time of day.
 * @param {string[]} cells
 * @returns {number[]|null} milliseconds, or null where a cell is no date; day and month are read so that the
 *   days run forward, if they can
 */
export function timesOf(cells) {
  if (!cells.length) return null;
  const readings = [false, true]
    .map((isMonthFirst) => cells.map((cell) => timeOf(cell, isMonthFirst)))
    .filter((times) => times.every((time) => time !== null));
  return [1, -1, 0].flatMap((way) => readings.filter((times) => directionOf(times) === way))[0] ?? null;
}

/** 1: the times run forward, −1: backward, 0: neither. */
export function directionOf(times) {
  const runs = (isInOrder) => times.every((time, n) => n === 0 || isInOrder(times[n - 1], time));
  if (runs((before, time) => before <= time)) return 1;
  return runs((before, time) => before >= time) ? -1 : 0;
}

function timeOf(cell, isMonthFirst) {
  const yearFirst = YEAR_FIRST.exec(cell);
  const yearLast = yearFirst ? null : YEAR_LAST.exec(cell);
  const found = yearFirst ?? yearLast;
  const clock = found && TIME.exec(cell.slice(found[0].length));
  if (!clock) return null;
  const isSwapped = isMonthFirst && yearLast?.[2] === "/";
  const [year, month, day] = yearFirst
    ? [found[1], found[2], found[3] ?? "1"]
    : [found[4], isSwapped ? found[1] : found[3], isSwapped ? found[3] : found[1]];
  const midnight = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const isReal = new Date(midnight).getUTCMonth() === Number(month) - 1 && new Date(midnight).getUTCDate() === Number(day);
  return isReal ? midnight + millisecondsOf(clock) : null;
}

function millisecondsOf([, hour = "0", minute = "0", second = "0", half = "", zone = ""]) {
  const hours = half ? (Number(hour) % 12) + (half.toLowerCase() === "pm" ? 12 : 0) : Number(hour);
  const [, sign, ahead, past] = /^([+-])(\d{2}):?(\d{2})$/.exec(zone) ?? [];
  const shift = sign ? Number(`${sign}1`) * (Number(ahead) * 60 + Number(past)) : 0;
  return ((hours * 60 + Number(minute) - shift) * 60 + Number(second.replace(",", "."))) * 1000;
}
