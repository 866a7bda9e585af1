/**
 * Which steps of a time axis get a label: the starts of months or years where the labels are dates, else evenly spaced ones. Of
 * dates with hours, the date stands once a day.
 */

const DATE = /^(\d{4})-(\d{2})(?:-(\d{2}))?/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const CLOCK = /^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}:\d{2})/;
const ROOM = 76; // pixels that a label needs
const LETTER = 6.2; // pixels of a letter, and a little
const LONGEST = 24; // letters of a label; longer ones are cut

/** About how many pixels a label is wide. */
export const textWidth = (text) => text.length * LETTER;

/**
 * @param {string[]} labels of every step
 * @param {{from: number, to: number, width: number}} frame the steps shown and the pixels they have
 * @returns {{step: number, text: string}[]}
 */
export function timeTicks(labels, { from, to, width }) {
  const most = Math.max(2, Math.floor(width / ROOM));
  if (DATE.test(labels[from]) && DATE.test(labels[to - 1])) {
    const byDate = dateTicks(labels, from, to, most);
    if (byDate.length >= 2) return byDate;
  }
  if (CLOCK.test(labels[from]) && CLOCK.test(labels[to - 1])) {
    const few = Math.floor(width / (ROOM + 8));
    return withHours(fullHours(labels, from, to, few) ?? evenTicks(labels, from, to, few));
  }
  const longest = labels.slice(from, to).reduce((most, { length }) => Math.max(most, length), 0);
  const room = Math.max(ROOM, (Math.min(longest, LONGEST) + 2) * LETTER);
  return evenTicks(labels, from, to, Math.max(1, Math.floor(width / room))).map(({ step, text }) => ({ step, text: clipped(text) }));
}

const clipped = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** The steps at every full, second, third, … hour, as many as there is room for; null where there are none. */
function fullHours(labels, from, to, most) {
  for (const every of [1, 2, 3, 6, 12, 24]) {
    const found = [];
    for (let step = from; step < to; step++) {
      const [hour, minute] = CLOCK.exec(labels[step])?.[4].split(":") ?? [];
      if (minute === "00" && Number(hour) % every === 0) found.push({ step, text: labels[step] });
    }
    if (found.length < 2) return null;
    if (found.length <= most) return found;
  }
  return null;
}

/** The date where it is another than at the label before, then hours: "12 Apr 22:00", "23:00", "13 Apr", "01:00". */
function withHours(found) {
  let before = "";
  return found.map(({ step, text }) => {
    const [, , month, day, clock] = CLOCK.exec(text) ?? [];
    if (!clock) return { step, text: clipped(text) };
    const date = `${Number(day)} ${MONTHS[Number(month) - 1]}`;
    const isNew = date !== before;
    before = date;
    return { step, text: isNew ? (clock === "00:00" ? date : `${date} ${clock}`) : clock };
  });
}

function dateTicks(labels, from, to, most) {
  const starts = [];
  for (let step = Math.max(from, 1); step < to; step++) {
    const [, year, month] = DATE.exec(labels[step]) ?? [];
    const before = DATE.exec(labels[step - 1]);
    if (year && before && (year !== before[1] || month !== before[2])) starts.push({ step, year, month: Number(month) - 1 });
  }
  for (const every of [1, 2, 3, 6, 12, 24, 60, 120, 240]) {
    const kept = starts.filter(({ year, month }) => (Number(year) * 12 + month) % every === 0);
    if (kept.length > most) continue;
    return kept.map(({ step, year, month }, n) => {
      const isNewYear = n === 0 || kept[n - 1].year !== year;
      return { step, text: every >= 12 ? year : isNewYear ? `${MONTHS[month]} ${year}` : MONTHS[month] };
    });
  }
  return [];
}

function evenTicks(labels, from, to, most) {
  const rough = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const every = Math.max(1, [1, 2, 5, 10].find((size) => size * power >= rough) * power);
  const found = [];
  for (let step = Math.ceil(from / every) * every; step < to; step += every) found.push({ step, text: labels[step] });
  return found;
}
