"""One plain recurrent network reading one sentence: forward and LRP, neuron by neuron."""

import numpy as np
from numpy.typing import NDArray

from tests.oracle.lstm import weighted

Array = NDArray[np.float64]


def lrp(
    x: Array, u: Array, w: Array, b: Array, h0: Array, r_last: Array, *, relu: bool, epsilon: float, delta: float, shared: bool
) -> tuple[Array, Array]:
    """h = φ(W h⁻ + U x + b); relevance of x (T, E) and of the initial state, from that of the last state."""
    states, sums = [h0], []
    for x_t in x:
        sums.append(u @ x_t + w @ states[-1] + b)
        states.append(np.maximum(sums[-1], 0) if relu else np.tanh(sums[-1]))
    r_x, r_h = np.zeros_like(x), r_last.copy()
    both = np.concatenate([u, w], axis=1)
    for t in reversed(range(len(x))):
        lower = np.concatenate([x[t], states[t]])
        back = weighted(lower, both, b, sums[t], r_h, n=len(lower), epsilon=epsilon, delta=delta, shared=shared)
        r_x[t], r_h = back[: x.shape[1]], back[x.shape[1] :]
    return r_x, r_h
