"""Bootstrap intervals: how much a number would vary with other texts of the same kind. They are the same on every run."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
PART = 2**22  # numbers in a part of the draws
KEPT = 5000  # texts whose draws are kept for the next number
Numbers = NDArray[np.float64]


class Band(NamedTuple):
    """The middle 95 % of the values over all resamples."""

    low: Numbers
    high: Numbers


def draws(count: int, *, seed: int = 0) -> Numbers:
    """How often each of `count` texts is drawn in each resample (draws, count)."""
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=DRAWS).astype(np.float64)


def band(resampled: Numbers) -> Band:
    """The band of a number, from its value in every resample (draws, ...)."""
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    return Band(low, high)


def mean_band(values: Numbers, figure: Callable[[Numbers], Numbers] = lambda means: means) -> Band:
    """The band of a number computed from the means over texts (texts, ...).

    A text is drawn with all its values, so that paired values stay paired.
    """
    flat = values.reshape(len(values), -1)
    means = np.concatenate([part @ flat for part in _parts(len(values))]) / len(values)
    return band(figure(means.reshape(-1, *values.shape[1:])))


def _parts(count: int) -> Iterator[Numbers]:
    """The same draws as `draws`, a part at a time, so that many texts need no more memory than few."""
    if count <= KEPT:
        yield _kept(count).astype(np.float64)
        return
    generator, chances = np.random.default_rng(0), np.full(count, 1 / count)
    size = max(1, PART // count)
    for start in range(0, DRAWS, size):
        yield generator.multinomial(count, chances, size=min(size, DRAWS - start)).astype(np.float64)


@lru_cache(maxsize=8)
def _kept(count: int) -> NDArray[np.uint16]:
    """The draws of few texts; making them takes longer than using them."""
    return draws(count).astype(np.uint16)
