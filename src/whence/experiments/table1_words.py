"""Table 1: the ten most and least relevant words over all sentences, beside the paper's."""

from collections.abc import Sequence
from typing import NamedTuple

from whence.evaluation.ranking import Occurrence, distinct, ranked_words
from whence.experiments.published import TABLE1
from whence.explanation import Explanation

COUNT = 10


class Ranked(NamedTuple):
    """The words at either end of the ranking, the most extreme first."""

    most: list[Occurrence]
    least: list[Occurrence]


def table1(explanations: Sequence[Explanation], *, count: int = COUNT) -> Ranked:
    """The words at either end of the ranking of all occurrences, each word at its most extreme occurrence."""
    ranked = ranked_words(explanations)
    return Ranked(distinct(ranked, count), distinct(reversed(ranked), count))


def overlap(ranked: Ranked, method: str) -> dict[str, list[str]]:
    """The words that are also in the paper's lists."""
    paper = TABLE1[method]
    return {
        "most": [each.word for each in ranked.most if each.word in paper.most],
        "least": [each.word for each in ranked.least if each.word in paper.least],
    }
