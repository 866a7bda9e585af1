/** The elements of the series tab that stay: controls, headline, toolbar, places for plot and ledger. No behaviour. */

import { html } from "../chart/elements.js";

/** @returns {{root: HTMLElement, [name: string]: HTMLElement}} every element that changes, by name */
export function makeView() {
  const made = {};
  const keep = (name, element) => (made[name] = element);
  const select = (name, label) => html("label", {}, `${label} `, keep(name, html("select", { id: `series-${name}` })));
  const button = (name, text, more = {}) => keep(name, html("button", { type: "button", id: `series-${name}`, text, ...more }));
  const file = keep(
    "file",
    html("input", { type: "file", id: "series-file", class: "sr", accept: ".csv,.tsv,.txt,text/csv,text/plain" }),
  );

  const entry = html(
    "div",
    { class: "entry series-entry" },
    keep("title", html("h2", { class: "lead", id: "series-title" })),
    keep("about", html("p", { class: "series-about", dir: "auto" })),
    html(
      "div",
      { class: "actions" },
      keep("source", html("p", { id: "series-source", class: "series-source" })),
      html("label", { class: "button", for: "series-file", text: "Open a CSV file" }),
      file,
      button("paste", "Paste values", { "aria-expanded": "false", "aria-controls": "series-pasting" }),
      button("example", "Back to the example", { hidden: true }),
    ),
    keep(
      "pasting",
      html(
        "div",
        { id: "series-pasting", class: "series-pasting", hidden: true },
        html("label", {
          for: "series-data",
          text: "One line per step, one column per feature; a header and a column of dates may be there",
        }),
        keep("data", html("textarea", { id: "series-data", rows: 6, autocomplete: "off", dir: "ltr" })),
        html("div", { class: "actions" }, button("use", "Explain these values", { class: "primary" })),
      ),
    ),
    keep("message", html("p", { id: "series-message", class: "message", role: "alert" })),
    keep(
      "gaps",
      html(
        "div",
        { id: "series-gaps", class: "actions", role: "group", "aria-label": "Missing values", hidden: true },
        keep("fillBefore", html("button", { type: "button", id: "series-fill-before", text: "Fill with the value before" })),
        keep(
          "fillReference",
          html("button", { type: "button", id: "series-fill-reference", text: "Fill with the reference value" }),
        ),
      ),
    ),
  );

  const question = html(
    "div",
    { class: "question", role: "group", "aria-label": "What is explained and how" },
    keep(
      "outputs",
      html(
        "fieldset",
        { id: "series-output", class: "series-outputs" },
        html("legend", { class: "sr", text: "The prediction to explain" }),
      ),
    ),
    html("span", { class: "series-how" }, select("method", "by"), keep("modelLabel", select("model", "in"))),
    keep("settings", settings(keep)),
  );

  const toolbar = html(
    "div",
    { class: "actions series-toolbar", role: "toolbar", "aria-label": "Blank a stretch" },
    html("label", {}, "Blank ", keep("which", html("select", { id: "series-which" }))),
    button("undo", "Undo", { disabled: true }),
    button("redo", "Redo", { disabled: true }),
    button("clear", "Bring all back", { disabled: true }),
    button("blank", "Blank the selection", { class: "primary", hidden: true }),
    html("span", { class: "series-spring" }),
    html("label", { class: "series-window" }, "Show ", keep("window", html("select", { id: "series-window" }))),
  );

  const keys = html(
    "p",
    { id: "series-keys", class: "series-keys" },
    html("span", { text: "Drag across the plot to blank a stretch; click a blanked one to bring it back. " }),
    html(
      "span",
      { class: "for-keys" },
      ...keyHelp([["←", "→"], "move the cursor, ", ["Shift"], "with them selects, ", ["Enter"], "blanks."]),
    ),
  );

  made.root = html(
    "div",
    { class: "series", "aria-busy": "true" },
    entry,
    question,
    toolbar,
    keep("plot", html("div", { class: "series-stage" })),
    html(
      "div",
      { class: "series-under" },
      keep("legend", html("div", { id: "series-legend", class: "series-legend" })),
      html(
        "label",
        { class: "series-boost" },
        keep("boost", html("input", { type: "checkbox", id: "series-boost" })),
        "Show weak relevance too",
      ),
    ),
    keys,
    keep("chips", html("ul", { id: "series-blanks", class: "series-chips", "aria-label": "Blanked stretches" })),
    html(
      "section",
      { class: "block", "aria-labelledby": "series-ledger-title" },
      html("h2", { id: "series-ledger-title", text: "Where the prediction comes from" }),
      keep("ledger", html("div", { id: "series-ledger" })),
    ),
    html(
      "section",
      { class: "block", "aria-labelledby": "series-notes-title" },
      html("h2", { id: "series-notes-title", text: "How to read it" }),
      keep("notes", html("ul", { id: "series-notes", class: "series-notes" })),
    ),
    html(
      "section",
      { class: "block share", "aria-labelledby": "series-share-title" },
      html("h2", { id: "series-share-title", text: "Take it with you" }),
      html(
        "div",
        { class: "actions" },
        button("download", "Values and relevance (CSV)"),
        button("json", "Whole answer (JSON)"),
        button("python", "Copy as Python"),
      ),
      html("p", {
        class: "series-small",
        text: "The JSON is the service's own answer: also the model, the output, the method and what was absorbed.",
      }),
    ),
  );
  made.data.spellcheck = false;
  return made;
}

/** Epsilon and delta of LRP, unfolded when wanted. */
function settings(keep) {
  const field = (name, label, hint) =>
    html(
      "div",
      { class: "field" },
      html("label", { for: `series-${name}`, text: label }),
      keep(name, html("input", { type: "number", id: `series-${name}`, min: "0", step: "any" })),
      html("small", { text: hint }),
    );
  return html(
    "details",
    { class: "settings", id: "series-settings" },
    html("summary", { text: "Settings" }),
    html(
      "div",
      { class: "settings-body" },
      field("epsilon", "epsilon, the stabiliser", "keeps denominators away from zero; larger values calm small contributions"),
      field("delta", "delta, the biases' share", "0: biases keep their relevance; 1: values receive it (the paper's LRP_cons)"),
    ),
  );
}

/** Keys in boxes, words between them. */
function keyHelp(parts) {
  return parts.flatMap((part) => (Array.isArray(part) ? part.flatMap((key) => [html("kbd", { text: key }), " "]) : [part]));
}
