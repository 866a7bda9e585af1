// The scores of all classes: a bar, a score and a probability each; a click makes the class the target.

import { element, isSingle, percent, probabilities, signed } from "../dom.js";

/**
 * @param {HTMLElement} box @param {import("../heatmap.js").Explanation} explanation
 * @param {(name: string) => void} onClass @param {Record<string, number>|null} [earlier] scores to compare with
 */
export function paintScores(box, explanation, onClass, earlier = null) {
  const names = Object.keys(explanation.scores);
  if (box.names?.join("\n") !== names.join("\n")) {
    box.replaceChildren(...names.map((name) => row(name, (chosen) => box.onClass(chosen))));
    box.names = names;
  }
  box.onClass = onClass;
  const shares = probabilities(explanation.scores);
  const then = earlier ? probabilities(earlier) : null;
  [...box.children].forEach((each, n) => fill(each, names[n], explanation, shares, then));
}

function row(name, onClass) {
  return element(
    "button",
    { type: "button", class: "class", dataset: { class: name }, on: { click: () => onClass(name) } },
    element("span", { class: "name" }, element("bdi", { text: name })),
    element("span", { class: "probability" }),
    element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "fill" }), element("span", { class: "then" })),
    element("span", { class: "score" }),
  );
}

function fill(button, name, explanation, shares, then) {
  const score = explanation.scores[name];
  button.dataset.score = String(score);
  button.classList.toggle("predicted", name === explanation.predicted);
  button.setAttribute("aria-current", String(name === explanation.target));
  button.title = name === explanation.target ? "This class is explained" : `Explain ${name}`;
  button.querySelector(".score").textContent = signed(score);
  button.querySelector(".probability").textContent = percent(shares[name]);
  button.querySelector("bdi").textContent = isSingle(explanation.scores) ? `probability of ${name}` : name;
  button.querySelector(".fill").style.width = `${100 * shares[name]}%`;
  const tick = button.querySelector(".then");
  tick.hidden = !then;
  if (then) tick.style.insetInlineStart = `${100 * (then[name] ?? 0)}%`;
}
