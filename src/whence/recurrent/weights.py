"""A layer's parameters as named gates: the only file that knows PyTorch's gate orders (LSTM i, f, g, o; GRU r, z, n)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from torch import Tensor

Weights = TypeVar("Weights")


class LSTMGates(NamedTuple):
    """One tensor per LSTM gate: input, forget, candidate, output."""

    i: Tensor
    f: Tensor
    g: Tensor
    o: Tensor


class GRUGates(NamedTuple):
    """One tensor per GRU gate: reset, update, candidate."""

    r: Tensor
    z: Tensor
    n: Tensor


def lstm_gates(stacked: Tensor, *, axis: int = -1) -> LSTMGates:
    """Split a tensor that holds the four gates one after another along `axis`."""
    return LSTMGates(*stacked.chunk(4, dim=axis))


def gru_gates(stacked: Tensor, *, axis: int = -1) -> GRUGates:
    """Split a tensor that holds the three gates one after another along `axis`."""
    return GRUGates(*stacked.chunk(3, dim=axis))


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


class GRUWeights(NamedTuple):
    """One direction of one GRU layer; its two biases stand in different sums."""

    input: Tensor  # (3H, E)
    hidden: Tensor  # (3H, H)
    input_bias: Tensor | None  # (3H,)
    hidden_bias: Tensor | None  # (3H,)

    @property
    def hidden_size(self) -> int:
        """H, the width of the state."""
        return self.input.shape[0] // 3

    def candidate(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The candidate's own rows: input (H, E), hidden (H, H), and both biases (H,)."""
        biases = [None if bias is None else gru_gates(bias).n for bias in (self.input_bias, self.hidden_bias)]
        return gru_gates(self.input, axis=0).n, gru_gates(self.hidden, axis=0).n, biases[0], biases[1]

    def gates(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The rows of the reset gate and, behind them, of the update gate: input (2H, E), hidden (2H, H), bias (2H,)."""
        rows = 2 * self.hidden.shape[1]
        bias = None if self.input_bias is None or self.hidden_bias is None else self.input_bias + self.hidden_bias
        return self.input[:rows], self.hidden[:rows], None if bias is None else bias[:rows]


class RNNWeights(NamedTuple):
    """One direction of one plain recurrent layer."""

    input: Tensor  # (H, E)
    hidden: Tensor  # (H, H)
    bias: Tensor | None  # (H,), both of PyTorch's biases added
    is_relu: bool

    @property
    def hidden_size(self) -> int:
        """H, the width of the state."""
        return self.input.shape[0]


def lstm_weights(input: Tensor, hidden: Tensor, *rest: Tensor, has_biases: bool) -> LSTMWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh and weight_hr where present."""
    others = [each.detach() for each in rest]
    bias = others[0] + others[1] if has_biases else None
    projection = others[-1] if len(others) % 2 else None
    return LSTMWeights(input.detach(), hidden.detach(), bias, projection)


def gru_weights(input: Tensor, hidden: Tensor, *biases: Tensor, has_biases: bool) -> GRUWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh where present."""
    input_bias, hidden_bias = (each.detach() for each in biases) if has_biases else (None, None)
    return GRUWeights(input.detach(), hidden.detach(), input_bias, hidden_bias)


def rnn_weights(input: Tensor, hidden: Tensor, *biases: Tensor, has_biases: bool, is_relu: bool = False) -> RNNWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh where present."""
    bias = biases[0].detach() + biases[1].detach() if has_biases else None
    return RNNWeights(input.detach(), hidden.detach(), bias, is_relu)


def by_layer(
    name: Callable[..., Weights], flat: Sequence[Tensor], *, has_biases: bool, directions: int, layers: int
) -> list[list[Weights]]:
    """PyTorch's flat list of parameters, named, by layer and then direction."""
    size = len(flat) // (layers * directions)
    each = [name(*flat[k : k + size], has_biases=has_biases) for k in range(0, len(flat), size)]
    return [each[k : k + directions] for k in range(0, len(each), directions)]
