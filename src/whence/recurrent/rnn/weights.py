"""The weights of a plain recurrent network: one sum per unit, no gates."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class RNNWeights(NamedTuple):
    """One direction of one plain recurrent layer."""

    input: Tensor  # (H, E)
    hidden: Tensor  # (H, H)
    bias: Tensor | None  # (H,), both of PyTorch's biases added

    @property
    def hidden_size(self) -> int:
        """H, the width of the state."""
        return self.input.shape[0]

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of h."""
        return (self.hidden_size,)

    @property
    def biases(self) -> tuple[Tensor | None, Tensor | None]:
        """The one bias of every sum; W h⁻ has none of its own."""
        return self.bias, None

    @property
    def needs_factors(self) -> str | None:
        """The faster paths take every plain recurrent layer."""
        return None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape that every field must have, given the input weights."""
        rows, size = self.input.shape
        return {"input": (rows, size), "hidden": (rows, rows), "bias": (rows,)}


def rnn_weights(input: Tensor, hidden: Tensor, *biases: Tensor, has_biases: bool) -> RNNWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh where present."""
    bias = biases[0].detach() + biases[1].detach() if has_biases else None
    return RNNWeights(input.detach(), hidden.detach(), bias)
