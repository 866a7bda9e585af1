/** Sends texts to the service in pieces and hands back an explanation or an error for every one. */

const PIECE = 32; // texts in one request; the service's limit may be lower
const LETTERS = 150_000; // in one request, well below the service's limit for a body
const REFUSED = [400, 413, 422]; // the texts are at fault, not the service

/**
 * Explain texts one piece after the other.
 * @param {{row: number, text: string|null}[]} rows
 * @param {Object} options
 * @param {Object} options.api
 * @param {Object} options.request model and method
 * @param {number} options.limit texts in one request
 * @param {AbortSignal} options.signal
 * @param {(row: number, result: {explanation?: Object, error?: string}) => void} options.onResult `row`: the place in `rows`
 * @param {(done: number) => void} options.onProgress
 * @param {(sentence: string) => void} options.onWait when the service is busy; "" when it answers again
 */
export async function explainAll(rows, { api, request, limit, signal, onResult, onProgress, onWait }) {
  let done = 0;
  for (const piece of pieces(rows, Math.min(PIECE, limit), onResult)) {
    if (piece.length) await explainPiece(piece);
    done = piece.upTo;
    onProgress(done);
  }

  /** A piece that is refused is halved until the text at fault stands alone; the others get their explanations. */
  async function explainPiece(piece) {
    try {
      const texts = piece.map((place) => rows[place].text);
      const call = () => api.explain({ ...request, texts }, signal);
      const found = await api.retrying(call, { signal, onWait: (error) => onWait(error.message) });
      onWait("");
      piece.forEach((place, n) => onResult(place, found[n].error ? { error: found[n].error } : { explanation: found[n] }));
    } catch (error) {
      if (!(error instanceof api.ApiError) || !REFUSED.includes(error.status)) throw error;
      if (piece.length === 1) return onResult(piece[0], { error: error.message });
      const half = Math.ceil(piece.length / 2);
      await explainPiece(piece.slice(0, half));
      await explainPiece(piece.slice(half));
    }
  }
}

/** Places of the texts that go together; empty texts go nowhere. Each piece knows up to where it brings us. */
function* pieces(rows, most, onResult) {
  let piece = [];
  let letters = 0;
  for (let place = 0; place < rows.length; place++) {
    const { text } = rows[place];
    if (text === null || !text.trim()) {
      onResult(place, { error: "There is no text in this row." });
      continue;
    }
    if (piece.length === most || (piece.length && letters + text.length > LETTERS)) {
      yield Object.assign(piece, { upTo: place });
      piece = [];
      letters = 0;
    }
    piece.push(place);
    letters += text.length;
  }
  yield Object.assign(piece, { upTo: rows.length });
}
