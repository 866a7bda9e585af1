// The whole view in the address: `#tab=text&text={…}&series={…}`. What comes from an address is never trusted.

const TABS = ["text", "series", "corpus"];
const LONGEST = 200_000; // characters of one tab's state

/** @param {string} tab @param {Record<string, object>} states @returns {string} */
export function writeHash(tab, states) {
  const parts = [`tab=${tab}`];
  for (const [name, state] of Object.entries(states)) {
    if (Object.keys(state).length) parts.push(`${name}=${encode(JSON.stringify(state))}`);
  }
  return `#${parts.join("&")}`;
}

/** Only what would end or break the address is escaped, so that a link stays readable. @param {string} text */
function encode(text) {
  const whole = text.toWellFormed ? text.toWellFormed() : text.replace(/[\ud800-\udfff]/gu, "\ufffd");
  return encodeURIComponent(whole);
}

/**
 * The tab and the tabs' states; anything odd is left out.
 * @param {string} hash @returns {{tab: string, states: Record<string, Record<string, unknown>>}}
 */
export function readHash(hash) {
  const states = {};
  let tab = "text";
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [name, value = ""] = part.split("=", 2);
    if (name === "tab" && TABS.includes(value)) tab = value;
    else if (TABS.includes(name) && value.length <= LONGEST) {
      const state = parse(value);
      if (state) states[name] = state;
    }
  }
  return { tab, states };
}

function parse(value) {
  try {
    const state = JSON.parse(decodeURIComponent(value));
    return state && typeof state === "object" && !Array.isArray(state) ? state : null;
  } catch {
    return null;
  }
}
