"""Fig. 4: how relevance spreads over a sentence, for every target class, in all and for each encoder alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.position import distribution, relevance_by_interval
from whence.experiments.published import INTERVALS
from whence.explanation import Explanation

PARTS = ("total", "left", "right")  # the left encoder reads the words in order, the right one in reverse
Intervals = NDArray[np.float64]  # (sentences, intervals)


def fig4(explanations: Sequence[Sequence[Explanation]]) -> dict[str, list[Intervals]]:
    """From each sentence's explanations for all classes: by part, for every class, the relevance in every interval.

    Without a part that has no relevance at all, and without encoders that cannot be told apart.
    """
    found: dict[str, list[Intervals]] = {}
    for number, part in enumerate(PARTS):
        if not explanations or (number and not explanations[0][0].encoders):
            continue
        by_class = [[_relevance(each, number) for each in own] for own in zip(*explanations, strict=True)]
        intervals = [relevance_by_interval(own, intervals=INTERVALS) for own in by_class]
        if all(own.any() for own in intervals):  # without any relevance it lies nowhere
            found[part] = intervals
    return found


def _relevance(explanation: Explanation, part: int) -> Sequence[float]:
    return explanation.relevance if part == 0 else explanation.encoders[part - 1]


def distributions(intervals: dict[str, list[Intervals]]) -> dict[str, list[NDArray[np.float64]]]:
    """By part, for every class, the parts of 1 that fall into each interval."""
    return {part: [distribution(own) for own in by_class] for part, by_class in intervals.items()}
