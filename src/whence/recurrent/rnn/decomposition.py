"""Contextual decomposition of one direction of one plain recurrent layer:  h = φ(W h⁻ + U x + b), linearised and settled."""

from collections.abc import Callable

from torch import Tensor

from whence.recurrent.parts import Parts, added, apart, linear, settled
from whence.recurrent.rnn.weights import RNNWeights


def step(
    from_x: Parts,
    states: tuple[Parts, ...],
    weights: RNNWeights,
    *,
    inside: Tensor,
    activation: Callable[[Tensor], Tensor],
) -> tuple[Parts, ...]:
    """The state h after a step, from U x + b (B, H), from the state before it, and from `inside` (N, B, 1)."""
    sums = added(from_x, linear(states[0], weights.hidden))
    return (settled(apart(activation, sums), inside),)
