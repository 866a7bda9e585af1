// The service, one function per address. Every failure is an ApiError with a sentence for the reader.

export class ApiError extends Error {
  /** @param {string} message @param {number} status 0: no answer at all @param {number} [wait] seconds until a retry makes sense */
  constructor(message, status, wait = 0) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.wait = wait;
  }
}

const TOKEN = "whence-token"; // where a service's token is kept, for this tab of the browser only

/** Use this token from now on. @param {string} token */
export function useToken(token) {
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // storage may be forbidden: the token is then asked for at every visit
  }
  held = token;
}

/** Whether a token is in use. */
export const hasToken = () => held !== "";

let held = "";
try {
  held = sessionStorage.getItem(TOKEN) ?? "";
} catch {
  // as above
}

const NO_ANSWER = "The server does not answer; is `whence serve` still running?";

/** @param {string} path @param {RequestInit} [options] @returns {Promise<Response>} */
async function ask(path, options = {}) {
  let response;
  try {
    const headers = { ...options.headers, ...(held ? { Authorization: `Bearer ${held}` } : {}) };
    response = await fetch(path, { credentials: "omit", ...options, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(NO_ANSWER, 0, 2);
  }
  if (response.ok) return response;
  const wait = Number(response.headers.get("Retry-After")) || 1;
  throw new ApiError(await sentence(response), response.status, wait);
}

/** The service's own sentence, or one that says at least the status. @param {Response} response */
async function sentence(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string" && error) return error;
  } catch {
    // not JSON: something between the page and the service answered
  }
  return `The server answered with status ${response.status}.`;
}

/** @param {string} path @param {object} request @param {AbortSignal} [signal] */
const post = (path, request, signal) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request), signal });

/** What is served: models, methods, examples, limits. @param {AbortSignal} [signal] */
export const getModels = async (signal) => (await ask("/api/models", { signal })).json();

/** The service's description of itself. */
export const getDescription = async () => (await ask("/openapi.json")).json();

/** Explanations of texts. @param {object} request @param {AbortSignal} [signal] @returns {Promise<object[]>} */
export const explain = async (request, signal) => (await (await post("/api/explain", request, signal)).json()).explanations;

/** The deletion curve of a text. @param {object} request @param {AbortSignal} [signal] */
export const deletion = async (request, signal) => (await post("/api/deletion", request, signal)).json();

/** The relevance of a numeric series. @param {object} request @param {AbortSignal} [signal] */
export const series = async (request, signal) => (await post("/api/series", request, signal)).json();

/** An explanation as a document: html, svg, latex or json. @param {object} request @param {AbortSignal} [signal] @returns {Promise<string>} */
export const render = async (request, signal) => (await post("/api/render", request, signal)).text();

/**
 * Call until it works: again after Retry-After when the service is busy (429, 503), again when it does not answer.
 * Any other error is thrown. `onWait` hears the error that is waited for.
 * @template T
 * @param {() => Promise<T>} call @param {{signal?: AbortSignal, onWait?: (error: ApiError) => void}} [options]
 * @returns {Promise<T>}
 */
export async function retrying(call, { signal, onWait } = {}) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ApiError) || ![0, 429, 503].includes(error.status)) throw error;
      onWait?.(error);
      await pause(1000 * Math.min(Math.max(error.wait, 0.5), 30), signal);
    }
  }
}

/** @param {number} milliseconds @param {AbortSignal} [signal] @returns {Promise<void>} */
function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new DOMException("aborted", "AbortError"));
    if (signal?.aborted) return stop();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), stop()), { once: true });
  });
}
