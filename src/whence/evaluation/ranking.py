"""The most and the least relevant words of a whole data set."""

from collections.abc import Iterable
from typing import NamedTuple

from whence.explanation import Explanation


class Occurrence(NamedTuple):
    """A word at one position of one text, and its relevance there."""

    word: str
    relevance: float
    text: int
    position: int


def ranked_words(explanations: Iterable[Explanation]) -> list[Occurrence]:
    """Every occurrence of every word, the most relevant first; ties are in the order of the texts."""
    found = [
        Occurrence(word, relevance, n, position)
        for n, explanation in enumerate(explanations)
        for position, (word, relevance) in enumerate(zip(explanation.tokens, explanation.relevance, strict=True))
    ]
    return sorted(found, key=lambda occurrence: -occurrence.relevance)


def distinct(ranked: Iterable[Occurrence], count: int) -> list[Occurrence]:
    """The first `count` different words, each at its first occurrence; pass `reversed(ranked)` for the least relevant."""
    found: dict[str, Occurrence] = {}
    for occurrence in ranked:
        if len(found) == count:
            break
        found.setdefault(occurrence.word, occurrence)
    return list(found.values())
