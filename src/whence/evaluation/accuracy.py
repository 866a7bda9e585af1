"""How often a sentiment model is right: among five classes, and as positive or negative."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from whence.evaluation.bootstrap import Band, mean_band

NEUTRAL = 2  # of five classes, from very negative to very positive


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Whether the model is right about each sentence; for two classes, about each that is not neutral."""

    is_right: NDArray[np.bool_]  # (sentences,)
    is_side_right: NDArray[np.bool_]  # (sentences that are not neutral,)

    @property
    def five(self) -> float:
        """The accuracy of five classes."""
        return _mean(self.is_right)

    @property
    def binary(self) -> float:
        """The accuracy of positive against negative; NaN if all sentences are neutral."""
        return _mean(self.is_side_right)

    @property
    def five_band(self) -> Band:
        """The 95 % band of `five`."""
        return _band(self.is_right)

    @property
    def binary_band(self) -> Band:
        """The 95 % band of `binary`."""
        return _band(self.is_side_right)


def accuracy(scores: Tensor, labels: Sequence[int]) -> Accuracy:
    """The accuracy of scores (sentences, 5).

    Five classes: the largest score decides. Positive or negative: the summed probabilities of the two classes on each side
    decide, and sentences labelled neutral are left out.
    """
    found, truth = scores.detach().cpu().double(), np.asarray(labels)
    probabilities = found.softmax(-1).numpy()
    is_positive = probabilities[:, NEUTRAL + 1 :].sum(-1) > probabilities[:, :NEUTRAL].sum(-1)
    return Accuracy(found.numpy().argmax(-1) == truth, (is_positive == (truth > NEUTRAL))[truth != NEUTRAL])


def _mean(hits: NDArray[np.bool_]) -> float:
    return float(hits.mean()) if len(hits) else float("nan")


def _band(hits: NDArray[np.bool_]) -> Band:
    return mean_band(hits.astype(float)) if len(hits) else Band(np.array(np.nan), np.array(np.nan))
