"""The weights of an LSTM, by gate; the only file that knows PyTorch's order of the LSTM's gates (i, f, g, o)."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class LSTMGates(NamedTuple):
    """One tensor per LSTM gate: input, forget, candidate, output."""

    i: Tensor
    f: Tensor
    g: Tensor
    o: Tensor


def lstm_gates(stacked: Tensor, *, axis: int = -1) -> LSTMGates:
    """Split a tensor that holds the four gates one after another along `axis`."""
    return LSTMGates(*stacked.chunk(4, dim=axis))


class LSTMWeights(NamedTuple):
    """One direction of one LSTM layer."""

    input: Tensor  # (4H, E)
    hidden: Tensor  # (4H, P), P the projected size or H
    bias: Tensor | None  # (4H,), both of PyTorch's biases added
    projection: Tensor | None  # (P, H)

    @property
    def hidden_size(self) -> int:
        """H, the width of the cell state."""
        return self.input.shape[0] // 4

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The widths of h (P) and c (H)."""
        return self.hidden_size if self.projection is None else self.hidden.shape[1], self.hidden_size

    @property
    def biases(self) -> tuple[Tensor | None, Tensor | None]:
        """The one bias of every sum; W h⁻ has none of its own."""
        return self.bias, None

    @property
    def needs_factors(self) -> str | None:
        """A projection has no kernels."""
        return None if self.projection is None else "there are no kernels for a projection"

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape that every field must have, given the input weights and the projected size."""
        (rows, size), (projected, width) = self.input.shape, self.state_sizes
        return {"input": (rows, size), "hidden": (rows, projected), "bias": (rows,), "projection": (projected, width)}

    def candidate(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The candidate's own rows: input (H, E), hidden (H, P), bias (H,)."""
        bias = None if self.bias is None else lstm_gates(self.bias).g
        return lstm_gates(self.input, axis=0).g, lstm_gates(self.hidden, axis=0).g, bias


def lstm_weights(input: Tensor, hidden: Tensor, *rest: Tensor, has_biases: bool) -> LSTMWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh and weight_hr where present."""
    others = [each.detach() for each in rest]
    bias = others[0] + others[1] if has_biases else None
    projection = others[-1] if len(others) % 2 else None
    return LSTMWeights(input.detach(), hidden.detach(), bias, projection)
