"""Values at rest in NumPy: what each logit z of a head counts, for heads written down here one by one.

A head is a function F of the logits z (B, ..., C) of a layer. Its relevance is that of the logits, each with the amount

    r_k = m_k z_k

where m is the multiplier that the head hands back. One function of one logit: m = (φ(z) − φ(0)) / z. Several functions: the
product of their slopes, each from rest. A product of two values: the mean of the other one and of its rest.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def slope(function: Callable[[Array], Array], z: Array, rest: Array | float = 0.0) -> Array:
    """(φ(z) − φ(z⁰)) / (z − z⁰)."""
    return (function(z) - function(np.asarray(rest) + 0 * z)) / (z - rest)


def partition(z: Array) -> Array:
    """∫₀¹ softmax(t z) dt by a fine midpoint rule."""
    t = (np.arange(4000) + 0.5) / 4000
    return np.mean([softmax(each * z) for each in t], axis=0)


def of_log_softmax(z: Array, q: Array) -> Array:
    """The multipliers of logits, given those of log_softmax(z)."""
    return q - partition(z) * q.sum(-1, keepdims=True)


def of_softmax(z: Array, q: Array) -> Array:
    """The same, given those of softmax(z): a logarithmic mean between p and 1 / C."""
    p, c = softmax(z), z.shape[-1]
    return of_log_softmax(z, q * (p - 1 / c) / (np.log(p) + np.log(c)))


def of_running_product(values: Array, rest: float) -> Array:
    """The multipliers of the factors of a product over the first axis but one, pair by pair in order."""
    steps = values.shape[1]
    whole = [values[:, 0]]
    for t in range(1, steps):
        whole.append(whole[-1] * values[:, t])
    q, found = np.ones_like(whole[0]), np.zeros_like(values)
    for t in reversed(range(1, steps)):
        found[:, t] = q * (whole[t - 1] + rest**t) / 2
        q = q * (values[:, t] + rest) / 2
    found[:, 0] = q
    return found
