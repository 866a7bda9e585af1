"""From scores (logits) to the probabilities that the bars beside the classes show."""

import math
from collections.abc import Mapping


def probabilities(scores: Mapping[str, float]) -> dict[str, float]:
    """The softmax of several scores, or the sigmoid of a single one."""
    if len(scores) == 1:
        return {name: _sigmoid(score) for name, score in scores.items()}
    largest = max(scores.values())
    weights = {name: math.exp(score - largest) for name, score in scores.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _sigmoid(score: float) -> float:
    """1 / (1 + e^-score), written so that the exponential cannot overflow."""
    small = math.exp(-abs(score))
    return (1 if score >= 0 else small) / (1 + small)
