"""A layer's parameters as named gates: the only file that knows PyTorch's gate order (i, f, g, o)."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Gates(NamedTuple):
    """One tensor per LSTM gate: input, forget, candidate, output."""

    i: Tensor
    f: Tensor
    g: Tensor
    o: Tensor


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

    def candidate(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The candidate's own rows: input (H, E), hidden (H, P), bias (H,)."""
        bias = None if self.bias is None else lstm_gates(self.bias).g
        return lstm_gates(self.input, axis=0).g, lstm_gates(self.hidden, axis=0).g, bias


def lstm_gates(stacked: Tensor, *, axis: int = -1) -> Gates:
    """Split a tensor that holds the four gates one after another along `axis`."""
    return Gates(*stacked.chunk(4, dim=axis))


def lstm_weights(input: Tensor, hidden: Tensor, *rest: Tensor, has_biases: bool) -> LSTMWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh and weight_hr where present."""
    others = [each.detach() for each in rest]
    bias = others[0] + others[1] if has_biases else None
    projection = others[-1] if len(others) % 2 else None
    return LSTMWeights(input.detach(), hidden.detach(), bias, projection)


def lstm_layers(flat: Sequence[Tensor], *, has_biases: bool, directions: int, layers: int) -> list[list[LSTMWeights]]:
    """PyTorch's flat list of parameters, by layer and then direction."""
    size = len(flat) // (layers * directions)
    each = [lstm_weights(*flat[k : k + size], has_biases=has_biases) for k in range(0, len(flat), size)]
    return [each[k : k + directions] for k in range(0, len(each), directions)]
