"""The γ and the αβ rule for one dense layer of one sample, in loops over its neurons."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def coefficients(
    parts: list[float], z: float, r: float, *, rule: str, gamma: float, alpha: float, epsilon: float
) -> tuple[float, float, float]:
    """Relevance per unit of a positive and of a negative part of one neuron, and what its stabilisers take."""
    positive, negative = sum(part for part in parts if part > 0), sum(part for part in parts if part < 0)
    if rule == "gamma":
        favoured = positive if z >= 0 else negative
        sign = 1.0 if z >= 0 else -1.0
        q = r / (z + gamma * favoured + sign * epsilon)
        return ((1 + gamma) * q, q, sign * epsilon * q) if z >= 0 else (q, (1 + gamma) * q, sign * epsilon * q)
    for_sign, against = (positive, negative) if z >= 0 else (negative, positive)
    beta = alpha - 1 if against != 0 else 0.0
    shares = {True: (1 + beta) * r, False: -beta * r}
    up = shares[z >= 0] / (positive + epsilon)
    down = shares[z < 0] / (negative - epsilon) if shares[z < 0] else 0.0
    assert for_sign != 0 or against == 0
    return up, down, epsilon * up - epsilon * down


def dense(
    x: Numbers,
    weight: Numbers,
    bias: Numbers,
    r: Numbers,
    *,
    rule: str,
    gamma: float = 0.25,
    alpha: float = 2.0,
    epsilon: float = 1e-3,
    delta: float = 0.0,
    shared: bool = True,
) -> tuple[Numbers, float, float]:
    """The relevance of the inputs x (I), and what bias and stabiliser absorb; weight (J, I), bias and r (J)."""
    inputs, in_bias, in_stabiliser = np.zeros(len(x)), 0.0, 0.0
    for j in range(len(weight)):
        parts = [x[i] * weight[j, i] for i in range(len(x))]
        z = sum(parts) + bias[j]
        up, down, stabiliser = coefficients([*parts, bias[j]], z, r[j], rule=rule, gamma=gamma, alpha=alpha, epsilon=epsilon)
        of_bias = bias[j] * (up if bias[j] > 0 else down)
        returned = 1.0 if shared else delta
        for i, part in enumerate(parts):
            inputs[i] += part * (up if part > 0 else down) + (returned * stabiliser + delta * of_bias) / len(x)
        in_bias += (1 - delta) * of_bias
        in_stabiliser += (1 - returned) * stabiliser
    return inputs, in_bias, in_stabiliser
