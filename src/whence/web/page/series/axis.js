/** Which steps of a time axis get a label: the starts of months or years where the labels are dates, else evenly spaced ones. */

const DATE = /^(\d{4})-(\d{2})(?:-(\d{2}))?/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const ROOM = 76; // pixels that a label needs

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
  return evenTicks(labels, from, to, most);
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
  const rough = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const every = Math.max(1, [1, 2, 5, 10].find((size) => size * power >= rough) * power);
  const found = [];
  for (let step = Math.ceil(from / every) * every; step < to; step += every) found.push({ step, text: labels[step] });
  return found;
}
