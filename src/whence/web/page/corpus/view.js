/** The elements of the corpus tab that stay: choosing a file, settings, progress, filters, places for results. No behaviour. */

import { html } from "../chart/elements.js";

/** @returns {{root: HTMLElement, [name: string]: HTMLElement}} every element that changes, by name */
export function makeView() {
  const made = {};
  const keep = (name, element) => (made[name] = element);
  const button = (name, text, more = {}) => keep(name, html("button", { type: "button", id: `corpus-${name}`, text, ...more }));
  const select = (name, label) => html("label", {}, `${label} `, keep(name, html("select", { id: `corpus-${name}` })));

  const entry = html(
    "div",
    { class: "entry corpus-entry" },
    html("h2", { class: "lead", text: "Explain many texts at once" }),
    keep(
      "drop",
      html(
        "div",
        { id: "corpus-drop", class: "corpus-drop" },
        html(
          "p",
          { class: "corpus-offer" },
          html("span", { class: "for-mouse", text: "Drop a file here, or " }),
          html("label", { class: "button", for: "corpus-file", text: "Open a file" }),
          keep(
            "file",
            html("input", {
              type: "file",
              id: "corpus-file",
              class: "sr",
              accept: ".txt,.csv,.tsv,.tab,.jsonl,.ndjson,.json,text/plain,text/csv",
            }),
          ),
          button("sample", "Try a sample", { class: "primary" }),
        ),
        keep("limits", html("p", { class: "corpus-small" })),
      ),
    ),
    keep("message", html("p", { id: "corpus-message", class: "message", role: "alert" })),
  );

  const settings = keep(
    "settings",
    html(
      "form",
      { id: "corpus-settings", class: "question corpus-settings", hidden: true, "aria-label": "What is explained and how" },
      keep("source", html("p", { id: "corpus-source", class: "corpus-source" })),
      select("text", "Texts in"),
      select("label", "labels in"),
      keep(
        "headLabel",
        html(
          "label",
          { class: "corpus-check" },
          keep("head", html("input", { type: "checkbox", id: "corpus-head" })),
          "first line is a header",
        ),
      ),
      select("target", "explain"),
      html(
        "label",
        {},
        html("span", { class: "sr", text: "on its own or versus the rest" }),
        keep("versus", html("select", { id: "corpus-versus" })),
      ),
      select("method", "by"),
      keep("modelLabel", select("model", "in")),
      keep("start", html("button", { type: "submit", id: "corpus-start", class: "primary" })),
    ),
  );
  const preview = keep(
    "preview",
    html(
      "div",
      { id: "corpus-preview", class: "corpus-preview", hidden: true },
      html("h2", { id: "corpus-preview-title", text: "The first texts" }),
      keep("first", html("ol", { "aria-labelledby": "corpus-preview-title" })),
    ),
  );

  const progress = keep(
    "progress",
    html(
      "div",
      { class: "corpus-progress", hidden: true },
      keep("bar", html("progress", { id: "corpus-progress", "aria-label": "Texts explained" })),
      keep("count", html("span", { class: "corpus-count" })),
      button("cancel", "Stop"),
    ),
  );

  const filters = html(
    "div",
    { class: "corpus-filters", role: "search", "aria-label": "Filter the rows" },
    html(
      "label",
      {},
      html("span", { class: "sr", text: "Words in the text" }),
      keep("words", html("input", { type: "search", id: "corpus-words", placeholder: "Find words", autocomplete: "off" })),
    ),
    html(
      "label",
      {},
      html("span", { class: "sr", text: "Predicted class" }),
      keep("predicted", html("select", { id: "corpus-predicted" })),
    ),
    html(
      "label",
      {},
      html("span", { class: "sr", text: "Right or wrong" }),
      keep("verdict", html("select", { id: "corpus-verdict" })),
    ),
    html("label", { class: "corpus-sortby" }, "Sort by ", keep("sort", html("select", { id: "corpus-sort" }))),
    keep("shown", html("span", { id: "corpus-shown", class: "corpus-count", role: "status" })),
  );

  const saving = html(
    "section",
    { class: "block share", "aria-labelledby": "corpus-share-title" },
    html("h2", { id: "corpus-share-title", text: "Take it with you" }),
    html("div", { class: "actions" }, button("html", "Web page"), button("jsonl", "JSON Lines"), button("csv", "CSV")),
    html("p", {
      class: "corpus-small",
      text: "The rows that the filter shows, in this order. A link to this page holds the settings, not the texts. The CSV keeps the other columns of your file; in it, a text that begins with = + - or @ gets an apostrophe in front, so that no spreadsheet runs it.",
    }),
  );

  made.root = html(
    "div",
    { class: "corpus" },
    entry,
    settings,
    preview,
    progress,
    keep(
      "results",
      html(
        "div",
        { class: "corpus-results", hidden: true },
        keep("summary", html("div", { id: "corpus-summary", class: "corpus-summary" })),
        html(
          "section",
          { class: "block", "aria-labelledby": "corpus-rows-title" },
          html("h2", { id: "corpus-rows-title", text: "The texts" }),
          keep("key", html("p", { class: "corpus-small corpus-key" })),
          filters,
          keep("table", html("div", {})),
          keep("pager", html("nav", { class: "corpus-pager", "aria-label": "Pages of the table" })),
        ),
        html(
          "section",
          { class: "block", "aria-labelledby": "corpus-lexicon-title" },
          html("h2", { id: "corpus-lexicon-title", text: "The words that speak for and against a class" }),
          html("div", { class: "corpus-filters" }, select("class", "Class"), select("minimum", "words that occur at least")),
          keep("lexicon", html("div", { id: "corpus-lexicon", class: "corpus-lexicon" })),
        ),
        saving,
      ),
    ),
  );
  return made;
}
