/** The table of rows, a page at a time, with heads that sort. It knows nothing of where rows come from. */

import { html, onWidth } from "../chart/elements.js";
import { percent, visible } from "../dom.js";

const PER_PAGE = 25;
export const COLUMNS = [
  ["row", "#"],
  ["text", "Text"],
  ["predicted", "Predicted"],
  ["probability", "Probability"],
  ["label", "Label"],
];

/**
 * @param {{heatmap: Function, onSort: (column: string) => void, onOpen: (row: Object) => void, onPage: (page: number) => void}} options
 * @returns {{element: HTMLElement, pager: HTMLElement[], show: (view: Object) => void}}
 */
export function makeTable({ heatmap, onSort, onOpen, onPage }) {
  const heads = COLUMNS.map(([name, text]) => {
    const arrow = html("span", { class: "corpus-arrow", "aria-hidden": "true" });
    const button = html(
      "button",
      { type: "button", dataset: { sort: name }, on: { click: () => onSort(name) } },
      html("span", { text: name === "row" ? "Row" : text, class: name === "row" ? "sr" : null }),
      name === "row" ? html("span", { text: "#", "aria-hidden": "true" }) : null,
      arrow,
    );
    return html("th", { scope: "col", role: "columnheader", class: `corpus-${name}` }, button);
  });
  const body = html("tbody", { role: "rowgroup" });
  const element = html(
    "table",
    { id: "corpus-table", class: "corpus-table", role: "table", "aria-labelledby": "corpus-rows-title" },
    html(
      "thead",
      { role: "rowgroup" },
      html(
        "tr",
        { role: "row" },
        ...heads,
        html("th", { role: "columnheader", scope: "col" }, html("span", { class: "sr", text: "Open" })),
      ),
    ),
    body,
  );

  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-place]");
    if (line && !String(getSelection())) onOpen(shown[Number(line.dataset.place)]);
  });
  const turn = (text, label) => html("button", { type: "button", text, "aria-label": label });
  const back = turn("←", "Previous page");
  const next = turn("→", "Next page");
  const where = html("span", { class: "corpus-count" });
  let shown = [];
  let page = 0;
  back.addEventListener("click", () => onPage(page - 1));
  next.addEventListener("click", () => onPage(page + 1));

  onWidth(element, () => offerMore(body));

  function show({ rows, order, page: wanted, hasLabels, isUnsigned }) {
    const last = Math.max(0, Math.ceil(rows.length / PER_PAGE) - 1);
    page = Math.min(Math.max(wanted, 0), last);
    shown = rows.slice(page * PER_PAGE, (page + 1) * PER_PAGE);
    heads.forEach((head, n) => {
      const isSorted = COLUMNS[n][0] === order.column;
      if (isSorted) head.setAttribute("aria-sort", order.isDown ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.querySelector(".corpus-arrow").textContent = isSorted ? (order.isDown ? "↓" : "↑") : "";
    });
    heads[4].hidden = !hasLabels;
    body.replaceChildren(...shown.map((row, place) => line(row, place, { heatmap, hasLabels, isUnsigned })));
    offerMore(body);
    back.disabled = page === 0;
    next.disabled = page === last;
    where.textContent = rows.length ? `${page * PER_PAGE + 1}–${page * PER_PAGE + shown.length} of ${rows.length}` : "no rows";
  }
  return { element, pager: [back, where, next], show };
}

function line(
  { row, text, label, truth, explanation, error, probability, isRight },
  place,
  { heatmap, hasLabels, isUnsigned },
) {
  const cell = (name, ...children) => html("td", { role: "cell", class: `corpus-${name}` }, ...children);
  const words = explanation
    ? heatmap(explanation, { still: true, unsigned: isUnsigned })
    : html("span", { class: "corpus-plain", dir: "auto", text: visible(text ?? "") });
  const said = [html("div", { class: "corpus-clamp" }, words)];
  if (error !== null) said.push(html("span", { class: "corpus-error", text: error }));
  const mark =
    isRight === null
      ? ""
      : html("span", {
          class: isRight ? "corpus-right" : "corpus-wrong",
          role: "img",
          "aria-label": isRight ? "right" : "wrong",
          text: isRight ? "✓" : "✗",
        });
  return html(
    "tr",
    { role: "row", class: "corpus-line", dataset: { place: String(place), row: String(row) } },
    cell("row", String(row)),
    cell("text", ...said),
    cell("predicted", html("span", { text: explanation?.predicted ?? "", dir: "auto" })),
    cell("probability", explanation ? meter(probability) : ""),
    hasLabels
      ? cell(isRight ? "label is-right" : "label", html("span", { text: truth ?? label ?? "", dir: "auto" }), " ", mark)
      : null,
    cell(
      "open",
      text?.trim()
        ? html("button", {
            type: "button",
            class: "corpus-go",
            "aria-label": `Open row ${row} in the text tab`,
            title: "Open in the text tab",
            text: "↗",
          })
        : "",
    ),
  );
}

/** A button "more" under every text that is cut after its fourth line. */
function offerMore(body) {
  for (const clamp of body.querySelectorAll(".corpus-clamp:not(.is-open)")) {
    const button = clamp.nextElementSibling?.matches(".corpus-more") ? clamp.nextElementSibling : null;
    const isCut = clamp.scrollHeight > clamp.clientHeight + 2;
    if (!isCut) button?.remove();
    else if (!button) clamp.after(moreButton(clamp));
  }
}

function moreButton(clamp) {
  const button = html("button", { type: "button", class: "corpus-more", "aria-expanded": "false", text: "more" });
  button.addEventListener("click", (event) => {
    event.stopPropagation(); // a click on a row opens it
    const isOpen = clamp.classList.toggle("is-open");
    button.setAttribute("aria-expanded", String(isOpen));
    button.textContent = isOpen ? "less" : "more";
  });
  return button;
}

function meter(probability) {
  const bar = html("span", { class: "corpus-meter", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(probability));
  return html("span", { class: "corpus-odds" }, html("span", { text: percent(probability) }), bar);
}
