"""Many explanations on a page: what they have in common, and controls that sort and filter them without any script.

Every item has its place in each order as a number, and its kinds as classes; the style sheet goes by which button is pressed.
"""

from collections.abc import Callable, Sequence
from html import escape

from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.render.colour import one_line

MANY = 5000  # explanations; of more, the words are not added up only to be shown
CLASSES = 12  # for more classes than that there are no buttons
ORDERS: dict[str, Callable[[Explanation], float]] = {
    "place": lambda _: 0.0,
    "highest score": lambda each: -each.score if not each.error else float("inf"),
    "lowest score": lambda each: each.score if not each.error else float("inf"),
}
KINDS = {"wrong": "w-no", "right": "w-ok", "errors": "w-bad"}

CHOOSING = """
.whence .items, .whence .sections { display: flex; flex-direction: column; }
.whence .items > *, .whence .sections > * { order: var(--o0); }
.whence fieldset { border: 0; margin: .2em 0; padding: 0; font-size: .85em; }
.whence fieldset label { margin-right: .9em; white-space: nowrap; }
.whence fieldset input { margin: 0 .25em 0 0; vertical-align: baseline; }
.whence .chip { display: inline-block; margin: 0 .5em .2em 0; white-space: nowrap; }
.whence .chip b { font-weight: 600; }
""" + "".join(
    f".whence:has(.w-o{n}:checked) .w-i {{ order: var(--o{n}); }}\n" for n in range(len(ORDERS))
) + "".join(
    f".whence:has(.w-f-{kind}:checked) .w-i:not(.{kind}) {{ display: none; }}\n"
    for kind in (*KINDS.values(), *(f"w-c{n}" for n in range(CLASSES)))
)  # fmt: skip


def overview(explanations: Explanations) -> str:
    """How many there are, how many are right or failed, and the words that matter most in all of them."""
    texts = [group[0] for group in explanations.groups()]
    if len(texts) < 2:
        return ""
    known = [each for each in texts if each.is_right is not None]
    failed = sum(bool(each.error) for each in texts)
    facts = [f"{len(texts):,} texts"]
    facts += [f"{sum(each.is_right is True for each in known):,} of {len(known):,} predicted right"] if known else []
    facts += [f"{failed:,} could not be explained"] if failed else []
    words = explanations.top_words() if len(texts) == len(explanations) <= MANY else []
    chips = "".join(
        f'<span class="chip"><b>{_safe(word)}</b> {total:+.2f}{f" in {times}" if times > 1 else ""}</span>'
        for word, total, times in words
    )
    top = f'<div class="head">largest sums of relevance, every text for its own target: {chips}</div>' if words else ""
    return f'<div class="head">{" · ".join(facts)}</div>{top}'


def controls(shown: Sequence[Explanation], name: str) -> str:
    """Buttons that sort and filter; `name` keeps those of two lists apart."""
    if len(shown) < 2:
        return ""
    kinds = [(word, kind) for word, kind in KINDS.items() if any(kind in _kinds(each, ()) for each in shown)]
    classes = _classes(shown)
    named = [(label, f"w-c{n}") for n, label in enumerate(classes)] if len(classes) > 1 else []
    orders = "".join(
        f'<label><input type="radio" name="w-o{name}" class="w-o{n}"{" checked" if not n else ""}>{order}</label>'
        for n, order in enumerate(ORDERS)
    )
    filters, predicted = (
        "".join(f'<label><input type="radio" name="w-f{name}" class="w-f-{kind}">{_safe(label)}</label>' for label, kind in own)
        for own in (kinds, named)
    )
    every = f'<label><input type="radio" name="w-f{name}" checked>all</label>'
    filters += f"predicted: {predicted}" if predicted else ""
    chosen = f"<fieldset>show {every}{filters}</fieldset>" if filters else ""
    return f"<fieldset>sort by {orders}</fieldset>{chosen}"


def items(found: Sequence[tuple[Explanation, str]]) -> str:
    """The HTML of every explanation as an item of a list that the controls sort and filter."""
    places = [
        {n: rank for rank, n in enumerate(sorted(range(len(found)), key=lambda n: (order(found[n][0]), n)))}
        for order in ORDERS.values()
    ]
    classes = _classes([each for each, _ in found])
    return "".join(
        f'<div class="{" ".join(["w-i", *_kinds(each, classes)])}" '
        f'style="{";".join(f"--o{k}:{place[n]}" for k, place in enumerate(places))}">{content}</div>'
        for n, (each, content) in enumerate(found)
    )


def _classes(shown: Sequence[Explanation]) -> list[str]:
    """The predicted classes, if there are few."""
    known = next((list(each.scores) for each in shown if not each.error), list[str]())
    predicted = {each.predicted for each in shown}
    found = [name for name in known if name in predicted]
    return found if len(found) <= CLASSES else []


def _kinds(explanation: Explanation, classes: Sequence[str]) -> list[str]:
    if explanation.error:
        return ["w-bad"]
    truth = {True: ["w-ok"], False: ["w-no"], None: []}[explanation.is_right]
    return truth + ([f"w-c{classes.index(explanation.predicted)}"] if explanation.predicted in classes else [])


def _safe(text: str) -> str:
    return escape(one_line(text), quote=True)
