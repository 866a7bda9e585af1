"""Contextual decomposition of one direction of one GRU layer, step by step as in the formulas."""

import torch
from torch import Tensor

from whence.recurrent.gru.weights import GRUWeights, gru_gates
from whence.recurrent.parts import Parts, added, apart, linear, product, settled


def step(from_x: Parts, states: tuple[Parts, ...], weights: GRUWeights, *, inside: Tensor) -> tuple[Parts, ...]:
    """The state h after a step, from U x + b (B, 3H), from the state before it, and from `inside` (N, B, 1).

        r, z    linearised from the parts of W h⁻ + U x + b
        n       linearised from those of U_n x + b_in + r ⊙ m, with m = W_n h⁻ + b_hn
        h = (1 − z) ⊙ n, settled  +  z ⊙ h⁻

    In 1 − z, the 1 belongs to the bias. The initial state must have no bias.
    """
    (h,) = states
    (x_r, x_z, x_n), (h_r, h_z, m) = _gates(from_x), _gates(linear(h, weights.hidden, weights.hidden_bias))
    r, z = (apart(torch.sigmoid, added(*sums)) for sums in ((x_r, h_r), (x_z, h_z)))
    n = apart(torch.tanh, added(x_n, product(r, m)))
    closed = Parts(1 - z.whole, -z.phrase, 1 - z.bias)
    return (added(settled(product(closed, n), inside), product(z, h)),)


def _gates(sums: Parts) -> tuple[Parts, ...]:
    """The parts of every gate's sum, in the order of `GRUGates`."""
    return tuple(Parts(*each) for each in zip(*map(gru_gates, sums), strict=True))
