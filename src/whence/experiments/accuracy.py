"""The model's own figures: accuracy of five classes and of two, and which classes it takes for which."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.bootstrap import Band, mean_band
from whence.experiments.test_set import TestSet


class Accuracy(NamedTuple):
    """How often the model is right, with 95 % bands; `confusion` counts sentences by label and prediction."""

    five: float
    five_band: Band
    binary: float
    binary_band: Band
    confusion: NDArray[np.int64]


def accuracy(test: TestSet) -> Accuracy:
    """Five classes: the most probable one. Two: the summed probability of either side decides, neutral sentences left out."""
    labels = np.asarray(test.labels)
    confusion = np.zeros((5, 5), dtype=np.int64)
    np.add.at(confusion, (labels, test.predicted), 1)
    polar = labels != 2
    is_positive = test.probabilities[:, 3:].sum(-1) > test.probabilities[:, :2].sum(-1)
    five = test.is_correct.astype(float)
    binary = (is_positive == (labels > 2))[polar].astype(float)
    return Accuracy(_mean(five), _band(five), _mean(binary), _band(binary), confusion)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _band(values: NDArray[np.float64]) -> Band:
    return mean_band(values) if len(values) else Band(np.array(np.nan), np.array(np.nan))
