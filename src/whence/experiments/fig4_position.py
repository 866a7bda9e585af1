"""Fig. 4: how relevance is distributed over a sentence, for every target class, in total and for each encoder alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.position import distribution, relevance_by_interval
from whence.experiments.published import INTERVALS
from whence.explanation import Explanation

PARTS = ("total", "left", "right")  # the left encoder reads the words in order, the right one in reverse
Intervals = NDArray[np.float64]  # (sentences, intervals)


def fig4(explanations: Sequence[Sequence[Explanation]]) -> dict[str, list[Intervals]]:
    """By part and class, the relevance in every interval, from each sentence's explanations for all classes.

    Parts without any relevance are left out, and so are the encoders where the model's directions cannot be separated.
    """
    found: dict[str, list[Intervals]] = {}
    for number, part in enumerate(PARTS):
        if not explanations or (number and not explanations[0][0].encoders):
            continue
        by_class = [[_relevance(each, number) for each in own] for own in zip(*explanations, strict=True)]
        intervals = [relevance_by_interval(own, intervals=INTERVALS) for own in by_class]
        if all(own.any() for own in intervals):  # without relevance there is no distribution
            found[part] = intervals
    return found


def _relevance(explanation: Explanation, part: int) -> Sequence[float]:
    return explanation.relevance if part == 0 else explanation.encoders[part - 1]


def distributions(intervals: dict[str, list[Intervals]]) -> dict[str, list[NDArray[np.float64]]]:
    """By part and class, the share of every interval; the shares sum to 1."""
    return {part: [distribution(own) for own in by_class] for part, by_class in intervals.items()}
