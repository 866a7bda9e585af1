"""Where methods contradict each other most."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from whence.trust.measures import similarity
from whence.trust.subject import Numbers, Subject

LENGTHS = (5, 40)  # units of a sample that can be looked at


class Disagreement(NamedTuple):
    """A sample that methods explain differently: the mean similarity of all pairs, and the two that differ most."""

    row: int
    similarity: float
    pair: tuple[str, str]
    pair_similarity: float


def disagreements(subject: Subject, relevance: Mapping[str, Sequence[Numbers]], *, count: int = 5) -> list[Disagreement]:
    """The samples on which methods agree least, the worst first."""
    if len(relevance) < 2:
        return []
    fits = [n for n, length in enumerate(subject.lengths) if LENGTHS[0] <= length <= LENGTHS[1]]
    found = [_disagreement(n, relevance) for n in fits[:2000]]
    return sorted(found, key=lambda each: each.similarity)[:count]


def _disagreement(row: int, relevance: Mapping[str, Sequence[Numbers]]) -> Disagreement:
    pairs = {pair: similarity(relevance[pair[0]][row], relevance[pair[1]][row]) for pair in combinations(relevance, 2)}
    worst = min(pairs, key=lambda pair: pairs[pair])
    return Disagreement(row, float(np.mean(list(pairs.values()))), worst, pairs[worst])
