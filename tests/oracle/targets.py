"""What a class is explained against: the weights of all scores, one sample."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def against_rest(scores: Array, one: int) -> Array:
    """1 for the class `one`, minus the softmax over the scores of the others for these."""
    others = [c for c in range(len(scores)) if c != one]
    highest = max(scores[c] for c in others)
    total = sum(np.exp(scores[c] - highest) for c in others)
    return np.array([1.0 if c == one else -np.exp(scores[c] - highest) / total for c in range(len(scores))])
