"""Where relevance lies in a text: its distribution over intervals of equal length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whence.errors import InputError


def portions(length: int, intervals: int) -> NDArray[np.float64]:
    """The portion of every word that falls into each interval (length, intervals); each row sums to 1.

    Word i covers [i/L, (i+1)/L] of the text, interval k covers [k/K, (k+1)/K]. In units of 1/(L·K) all ends are whole numbers:
    a word has length K, and its overlap with an interval is  min((i+1)·K, (k+1)·L) − max(i·K, k·L).
    """
    word, interval = np.arange(length)[:, None], np.arange(intervals)[None, :]
    shared = np.minimum((word + 1) * intervals, (interval + 1) * length) - np.maximum(word * intervals, interval * length)
    return shared.clip(min=0) / intervals


def relevance_by_interval(relevance: Sequence[Sequence[float]], *, intervals: int = 10) -> NDArray[np.float64]:
    """The absolute relevance of every text in each interval (texts, intervals), from the relevance of its words."""
    if not all(len(each) for each in relevance) or not relevance:
        raise InputError("there is a text without words, or no text at all; give the relevance of at least one word per text")
    return np.stack([np.abs(each) @ portions(len(each), intervals) for each in relevance])


def distribution(by_interval: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of each interval in the relevance of all texts; the shares sum to 1."""
    total = by_interval.sum(0)
    if not total.any():
        raise InputError("all relevance is 0, so it has no distribution; was the model trained?")
    return total / total.sum()
