"""Fig. 1 and Fig. 2: which sentences are shown as heatmaps, and in which order."""

from collections.abc import Sequence
from typing import NamedTuple

from whence.experiments.published import DISCUSSED, HEATMAPS
from whence.experiments.test_set import TestSet
from whence.explanation import Explanation

RULE = (
    "Only sentences labelled very negative or very positive are shown. First come sentences with the words that the paper "
    "discusses: each time the one with most of these words that are not shown yet; among equals the shortest, then the first "
    f"in the file. Then, until there are {HEATMAPS}, the panel with the fewest sentences gets its next one of 8 to 16 words."
)


class Panel(NamedTuple):
    """Sentences of one class that the model got right, or wrong; `numbers` are their numbers in the figure, from 1 on."""

    label: int
    is_correct: bool
    rows: list[int]
    numbers: list[int]


def panels(test: TestSet) -> list[Panel]:
    """The panels from top to bottom: very negative before very positive, each with correct sentences before wrong ones."""

    def kind(n: int) -> tuple[int, bool]:
        return test.labels[n], bool(right[n])

    kinds, right = [(0, True), (0, False), (4, True), (4, False)], test.is_correct
    candidates = [n for n, label in enumerate(test.labels) if label in (0, 4)]
    chosen = _with_discussed_words(test, candidates)
    while len(chosen) < HEATMAPS:
        shown = [kind(n) for n in chosen]
        rest = [n for n in candidates if n not in chosen and 8 <= len(test.texts[n]) <= 16]
        if not rest:
            break
        chosen.append(min(rest, key=lambda n: (shown.count(kind(n)), kinds.index(kind(n)), n)))
    found: list[Panel] = []
    for each in kinds:
        rows = [n for n in chosen if kind(n) == each]
        before = sum(len(panel.rows) for panel in found)
        found.append(Panel(*each, rows, list(range(before + 1, before + 1 + len(rows)))))
    return found


def _with_discussed_words(test: TestSet, candidates: Sequence[int]) -> list[int]:
    missing, chosen = set(DISCUSSED), list[int]()
    while True:
        rest = [n for n in candidates if n not in chosen and not missing.isdisjoint(test.texts[n])]
        if not rest:
            return chosen
        best = min(rest, key=lambda n: (-len(missing.intersection(test.texts[n])), len(test.texts[n]), n))
        chosen.append(best)
        missing.difference_update(test.texts[best])


def discussed(explanation: Explanation) -> dict[str, float]:
    """The relevance of the discussed words in a sentence, at their first occurrence."""
    found: dict[str, float] = {}
    for word, relevance in zip(explanation.tokens, explanation.relevance, strict=True):
        if word in DISCUSSED:
            found.setdefault(word, relevance)
    return found
