/** Reads a file of the reader's as text. Nothing is sent anywhere. */

/** What is wrong with a file, in one sentence. */
export class FileError extends Error {}

/**
 * @param {File} file
 * @param {number} limit bytes
 * @returns {Promise<{text: string, note: string}>} `note`: what to tell about its letters, or ""
 * @throws {FileError}
 */
export async function readText(file, limit) {
  if (file.size > limit)
    throw new FileError(`${file.name} has ${megabytes(file.size)} MB; at most ${megabytes(limit)} MB are read here.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (!bytes.length) throw new FileError(`${file.name} is empty.`);
  const wide = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
  if (wide) return { text: new TextDecoder(wide).decode(bytes), note: "" };
  if (bytes.subarray(0, 4096).includes(0)) throw new FileError(`${file.name} is not a text file.`);
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), note: "" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), note: "The file is not UTF-8; it was read as Windows-1252." };
  }
}

const megabytes = (size) => (size / 1e6).toFixed(size < 1e7 ? 1 : 0);
