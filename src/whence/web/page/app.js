// The shell: tabs, theme, models, the link in the address, shortcuts. What a tab shows is its own affair.

import * as api from "./api.js";
import * as colour from "./colour.js";
import { copy } from "./copy.js";
import { byId, element } from "./dom.js";
import { heatmap } from "./heatmap.js";
import { readHash, writeHash } from "./link.js";
import { mountShortcuts } from "./shortcuts.js";
import * as text from "./text/text.js";

const NAMES = ["text", "series", "corpus"];
const LOADERS = { series: () => import("./series/series.js"), corpus: () => import("./corpus/corpus.js") };

/** @type {Record<string, {state: () => object, restore: (state: object) => void}>} */
const tabs = {};
let kept = {}; // states out of the address whose tabs have not been shown yet
let shown = "text";
let context;

/** Say something to a screen reader. @param {string} sentence */
function announce(sentence) {
  byId("announcer").textContent = sentence;
}

/** Keep the address and the permalink at what is seen now. The hash never leaves the browser. */
function remember() {
  const states = { ...kept, ...Object.fromEntries(Object.entries(tabs).map(([name, tab]) => [name, tab.state()])) };
  const hash = writeHash(shown, states);
  byId("permalink").href = new URL(hash, location.href).href;
  if (location.hash !== hash) history.replaceState(null, "", hash);
}

let toasting = 0;
/** A short message at the foot of the window. @param {string} sentence */
function toast(sentence) {
  byId("toast").textContent = sentence;
  clearTimeout(toasting);
  toasting = setTimeout(() => (byId("toast").textContent = ""), 4000);
}

let timer = 0;
/** The same, at most a few times a second. */
function rememberSoon() {
  clearTimeout(timer);
  timer = setTimeout(remember, 200);
}

/** Show a tab; it is loaded and mounted when it is first shown. @param {string} name */
async function show(name) {
  shown = name;
  for (const each of NAMES) {
    const tab = byId(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    byId(`panel-${each}`).hidden = each !== name;
  }
  if (!tabs[name] && LOADERS[name]) await load(name);
  rememberSoon();
}

async function load(name) {
  const panel = byId(`panel-${name}`);
  try {
    const tab = await LOADERS[name]();
    if (tabs[name]) return;
    tab.mount(panel, context);
    tabs[name] = tab;
    if (kept[name]) tab.restore(kept[name]);
  } catch (error) {
    console.warn(error);
    panel.textContent = "This part of the page could not be loaded. Reload the page to try again.";
  }
}

/** Take over what the address says. */
function restore() {
  const { tab, states } = readHash(location.hash);
  kept = { ...kept, ...states };
  for (const [name, mounted] of Object.entries(tabs)) if (states[name]) mounted.restore(states[name]);
  show(tab);
}

function listenToTabs() {
  for (const name of NAMES) {
    byId(`tab-${name}`).addEventListener("click", () => show(name));
    byId(`tab-${name}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = NAMES[(NAMES.indexOf(name) + step + NAMES.length) % NAMES.length];
      show(next);
      byId(`tab-${next}`).focus();
    });
  }
}

function listenToPermalink() {
  byId("permalink").addEventListener("click", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    remember();
    const worked = await copy(byId("permalink").href);
    toast(worked ? "Link copied. It holds this whole view." : "Copy the link from the address bar.");
  });
}

function listenToTheme() {
  const tell = () => document.dispatchEvent(new CustomEvent("themechange"));
  byId("theme").addEventListener("click", () => {
    const next = colour.theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("whence-theme", next);
    } catch {
      // storage may be forbidden: the choice then holds for this visit
    }
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}

/** What is served; waits for a server that does not answer yet, and asks for the token of one that needs it. */
async function getModels() {
  const message = byId("message");
  for (;;) {
    try {
      const models = await api.retrying(api.getModels, { onWait: (error) => (message.textContent = error.message) });
      message.textContent = "";
      return models;
    } catch (error) {
      if (error.status !== 401) throw error;
      api.useToken(await askToken(message, api.hasToken()));
    }
  }
}

/** @param {HTMLElement} place @param {boolean} isAgain a token was given and refused @returns {Promise<string>} */
function askToken(place, isAgain) {
  return new Promise((resolve) => {
    const field = element("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const form = element("form", { class: "secret" },
      element("label", { htmlFor: "token", text: isAgain ? "That token was not accepted. Give the service's token:" : "This service needs a token:" }), field, element("button", { text: "Use it" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      resolve(field.value.trim());
    });
    place.replaceChildren(form);
    field.focus();
  });
}

/** What a visit begins with: the link's view, else an example; but never other words under the fingers of who writes already. */
function firstView(linked) {
  const field = byId("text");
  if (field.value) return { ...linked, text: field.value, deleted: [], before: null, selection: null };
  return linked ?? (document.activeElement === field ? { text: "" } : {});
}

async function start() {
  listenToTabs();
  listenToTheme();
  listenToPermalink();
  mountShortcuts();
  const models = await getModels();
  byId("version").textContent = `whence ${models.version}`;
  context = { models, api, colour, heatmap, announce, toast, changed: rememberSoon };
  text.mount(byId("panel-text"), context);
  tabs.text = text;
  const { tab, states } = readHash(location.hash);
  kept = states;
  text.restore(firstView(states.text));
  if (tab !== "text") show(tab);
  window.addEventListener("hashchange", restore);
  for (const event of ["input", "change", "click"]) document.addEventListener(event, rememberSoon);
}

start().catch((error) => {
  console.warn(error);
  byId("message").textContent = error instanceof api.ApiError ? error.message : "The page could not start. Reload it to try again.";
});
