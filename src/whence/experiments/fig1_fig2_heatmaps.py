"""Fig. 1 and Fig. 2: which sentences are shown as heatmaps, and in which order: the paper's, then further ones."""

from collections.abc import Sequence
from typing import NamedTuple

from whence.experiments.published import DISCUSSED, HEATMAPS, LINES, LRP_COLOURS, SA_RED, VERY_POSITIVE
from whence.experiments.test_set import TestSet
from whence.explanation import Explanation

RULE = (
    "The sentences of the paper come first, if the data has them. Of the others, only sentences labelled very negative or very "
    "positive are shown. First come sentences with the words that the paper discusses: each time the one with most of these "
    "words that are not shown among them yet; among equals the shortest, then the first in the file. Then, until there are "
    f"{HEATMAPS}, the panel with the fewest sentences gets its next one of 8 to 16 words."
)


class Panel(NamedTuple):
    """Sentences of one class that the model got right, or wrong; `numbers` are their numbers in the figure, from 1 on.

    The paper's own sentences are in panels by class alone, with `is_correct` None and the numbers that they have in the paper.
    """

    label: int
    is_correct: bool | None
    rows: list[int]
    numbers: list[int]


class Printed(NamedTuple):
    """The paper's sentences in a test set: their rows by number, and why others are not there."""

    rows: dict[int, int]
    missing: dict[int, str]


def printed(test: TestSet) -> Printed:
    """Find the paper's sentences by their lines; the label and the words that the paper's text names must be there."""
    rows, missing = dict[int, int](), dict[int, str]()
    for number, line in enumerate(LINES, start=1):
        why = _mismatch(test, number, line)
        if why:
            missing[number] = why
        else:
            rows[number] = line - 1
    return Printed(rows, missing)


def _mismatch(test: TestSet, number: int, line: int) -> str:
    """Why a line of the test file is not the paper's sentence; empty if it is."""
    if line > len(test):
        return f"the test file has no line {line}"
    label = test.labels[line - 1]
    wanted = 4 if number in VERY_POSITIVE else 0
    if label != wanted:
        return f"line {line} of the test file is labelled {test.pipeline.classes[label]}, not {test.pipeline.classes[wanted]}"
    named = [each.word for each in LRP_COLOURS if each.sentence == number] + [word for n, word in SA_RED if n == number]
    lacking = [word for word in named if word not in test.texts[line - 1]]
    return f"line {line} of the test file does not have the word {lacking[0]}" if lacking else ""


def panels(test: TestSet, own: Printed) -> list[Panel]:
    """The panels from top to bottom: the paper's sentences, then further ones.

    Very negative comes before very positive. Of the further sentences, those that the model got right come before others.
    """
    shown = [(label, [n for n, row in own.rows.items() if test.labels[row] == label]) for label in (0, 4)]
    found = [Panel(label, None, [own.rows[n] for n in numbers], numbers) for label, numbers in shown if numbers]
    return found + _further(test, list(own.rows.values()))


def _further(test: TestSet, shown: Sequence[int]) -> list[Panel]:
    def kind(n: int) -> tuple[int, bool]:
        return test.labels[n], bool(right[n])

    kinds, right = [(0, True), (0, False), (4, True), (4, False)], test.is_correct
    candidates = [n for n, label in enumerate(test.labels) if label in (0, 4) and n not in shown]
    chosen = _with_discussed_words(test, candidates)
    while len(chosen) < HEATMAPS:
        before = [kind(n) for n in chosen]
        rest = [n for n in candidates if n not in chosen and 8 <= len(test.texts[n]) <= 16]
        if not rest:
            break
        chosen.append(min(rest, key=lambda n: (before.count(kind(n)), kinds.index(kind(n)), n)))
    found: list[Panel] = []
    first = HEATMAPS + 1 if shown else 1
    for each in kinds:
        rows = [n for n in chosen if kind(n) == each]
        found.append(Panel(*each, rows, list(range(first, first + len(rows)))))
        first += len(rows)
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
