"""Where in a text relevance lies: its distribution over equal intervals of the text's length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whence.errors import InputError


def portions(length: int, intervals: int) -> NDArray[np.float64]:
    """The portion of every word that falls into each interval (length, intervals); each row sums to 1.

    Word i fills [i/L, (i+1)/L] of the text, interval k fills [k/K, (k+1)/K]. In units of 1/(L·K), whole numbers, a word is K
    long, and what it shares with an interval is  min((i+1)·K, (k+1)·L) − max(i·K, k·L).
    """
    word, interval = np.arange(length)[:, None], np.arange(intervals)[None, :]
    shared = np.minimum((word + 1) * intervals, (interval + 1) * length) - np.maximum(word * intervals, interval * length)
    return shared.clip(min=0) / intervals


def relevance_by_interval(relevance: Sequence[Sequence[float]], *, intervals: int = 10) -> NDArray[np.float64]:
    """The absolute relevance of every text in each interval (texts, intervals), from that of its words."""
    if not all(len(each) for each in relevance) or not relevance:
        raise InputError("there is a text without words, or no text at all; give the relevance of at least one word each")
    return np.stack([np.abs(each) @ portions(len(each), intervals) for each in relevance])


def distribution(by_interval: NDArray[np.float64]) -> NDArray[np.float64]:
    """The relevance of all texts together over the intervals, as parts of 1."""
    total = by_interval.sum(0)
    if not total.any():
        raise InputError("all relevance is 0, so it lies nowhere; was the model trained?")
    return total / total.sum()
