"""The weights of a GRU, by gate; the only file that knows PyTorch's order of the GRU's gates (r, z, n)."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class GRUGates(NamedTuple):
    """One tensor per GRU gate: reset, update, candidate."""

    r: Tensor
    z: Tensor
    n: Tensor


def gru_gates(stacked: Tensor, *, axis: int = -1) -> GRUGates:
    """Split a tensor that holds the three gates one after another along `axis`."""
    return GRUGates(*stacked.chunk(3, dim=axis))


class GRUWeights(NamedTuple):
    """One direction of one GRU layer; the candidate's two biases belong to different sums."""

    input: Tensor  # (3H, E)
    hidden: Tensor  # (3H, H)
    input_bias: Tensor | None  # (3H,)
    hidden_bias: Tensor | None  # (3H,)

    @property
    def hidden_size(self) -> int:
        """H, the width of the state."""
        return self.input.shape[0] // 3

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of h."""
        return (self.hidden_size,)

    @property
    def biases(self) -> tuple[Tensor | None, Tensor | None]:
        """The bias of U x and that of W h⁻."""
        return self.input_bias, self.hidden_bias

    @property
    def needs_factors(self) -> str | None:
        """The faster paths take every GRU."""
        return None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape that every field must have, given the input weights."""
        rows, size = self.input.shape
        return {"input": (rows, size), "hidden": (rows, self.hidden_size), "input_bias": (rows,), "hidden_bias": (rows,)}

    def candidate(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The candidate's own rows: input (H, E), hidden (H, H), and both biases (H,)."""
        biases = [None if bias is None else gru_gates(bias).n for bias in (self.input_bias, self.hidden_bias)]
        return gru_gates(self.input, axis=0).n, gru_gates(self.hidden, axis=0).n, biases[0], biases[1]

    def gates(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The rows of the reset gate, then those of the update gate: input (2H, E), hidden (2H, H), bias (2H,)."""
        rows = 2 * self.hidden.shape[1]
        bias = None if self.input_bias is None or self.hidden_bias is None else self.input_bias + self.hidden_bias
        return self.input[:rows], self.hidden[:rows], None if bias is None else bias[:rows]


def gru_weights(input: Tensor, hidden: Tensor, *biases: Tensor, has_biases: bool) -> GRUWeights:
    """Name PyTorch's parameters of one direction: weight_ih, weight_hh, then bias_ih, bias_hh where present."""
    input_bias, hidden_bias = (each.detach() for each in biases) if has_biases else (None, None)
    return GRUWeights(input.detach(), hidden.detach(), input_bias, hidden_bias)
