/** Which words speak for a class over many texts: mean relevance and count, as in the paper's Table 1. */

/**
 * @param {Object[]} explanations each of its own target
 * @param {{target: string, minimum: number, most: number, isByCharacter: boolean}} options the class; the fewest times a word must
 *   occur; how many words; whether tokens are characters, which are then put together to words
 * @returns {{most: Word[], least: Word[], words: number, texts: number}}
 * @typedef {{word: string, mean: number, count: number}} Word
 */
export function representative(explanations, { target, minimum, most, isByCharacter }) {
  const totals = new Map();
  let texts = 0;
  for (const explanation of explanations) {
    if (explanation.target !== target) continue;
    texts += 1;
    for (const [word, relevance] of isByCharacter ? joined(explanation) : single(explanation)) {
      const entry = totals.get(word) ?? { word, sum: 0, count: 0 };
      entry.sum += relevance;
      entry.count += 1;
      totals.set(word, entry);
    }
  }
  const words = [...totals.values()]
    .filter(({ count }) => count >= minimum)
    .map(({ word, sum, count }) => ({ word, mean: sum / count, count }));
  words.sort((a, b) => b.mean - a.mean || (a.word < b.word ? -1 : 1));
  const half = Math.min(most, Math.ceil(words.length / 2));
  return { most: words.slice(0, half), least: words.slice(half).slice(-most).reverse(), words: words.length, texts };
}

function* single({ tokens, relevance }) {
  for (let n = 0; n < tokens.length; n++) if (/[\p{L}\p{N}]/u.test(tokens[n])) yield [tokens[n].toLowerCase(), relevance[n]];
}

/** Characters put together to words; what stands between words belongs to none. */
function* joined({ tokens, relevance }) {
  let word = "";
  let sum = 0;
  for (let n = 0; n <= tokens.length; n++) {
    if (n < tokens.length && /[\p{L}\p{N}'’-]/u.test(tokens[n])) {
      word += tokens[n];
      sum += relevance[n];
    } else if (word) {
      yield [word.toLowerCase(), sum];
      word = "";
      sum = 0;
    }
  }
}
