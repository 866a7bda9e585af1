"""Contextual decomposition of one direction of one LSTM layer, step by step as in the formulas."""

import torch
from torch import Tensor

from whence.recurrent.lstm.weights import LSTMWeights, lstm_gates
from whence.recurrent.parts import Parts, added, apart, by_part, linear, product, settled


def step(from_x: Parts, states: tuple[Parts, ...], weights: LSTMWeights, *, inside: Tensor) -> tuple[Parts, ...]:
    """The states h and c after a step, from U x + b (B, 4H), from the states before it, and from `inside` (N, B, 1).

        i, f, g      linearised from the parts of W h⁻ + U x + b
        c = i ⊙ g, settled  +  f ⊙ c⁻
        h = o ⊙ (tanh c, linearised), with o whole

    A projection is linear. The initial states must have no bias.
    """
    h, c = states
    i, f, g, o = _gates(added(from_x, linear(h, weights.hidden)))
    new = settled(product(apart(torch.sigmoid, i), apart(torch.tanh, g)), inside)
    c = added(new, product(apart(torch.sigmoid, f), c))
    opened = o.whole.sigmoid()
    h = by_part(lambda part: opened * part, apart(torch.tanh, c))
    return h if weights.projection is None else linear(h, weights.projection), c


def _gates(sums: Parts) -> tuple[Parts, ...]:
    """The parts of every gate's sum, in the order of `LSTMGates`."""
    return tuple(Parts(*each) for each in zip(*map(lstm_gates, sums), strict=True))
