"""Bootstrap intervals: how much a number would vary with other texts of the same kind. They are the same on every run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
Numbers = NDArray[np.float64]


class Band(NamedTuple):
    """The middle 95 % of the values over all resamples."""

    low: Numbers
    high: Numbers


def draws(count: int, *, seed: int = 0, number: int = DRAWS) -> Numbers:
    """How often each of `count` texts is drawn in each resample (draws, count)."""
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=number).astype(np.float64)


def band(resampled: Numbers) -> Band:
    """The band of a number, from its value in every resample (draws, ...)."""
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    return Band(low, high)


def mean_band(values: Numbers, figure: Callable[[Numbers], Numbers] = lambda means: means) -> Band:
    """The band of a number computed from the means over texts (texts, ...).

    A text is drawn with all its values, so that paired values stay paired.
    """
    means = draws(len(values)) @ values.reshape(len(values), -1) / len(values)
    return band(figure(means.reshape(-1, *values.shape[1:])))
