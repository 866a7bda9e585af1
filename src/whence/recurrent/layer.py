"""What every path offers: all directions of one layer, forward with a tape and back."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from whence.equations import Rules


class SweptLayer(NamedTuple):
    """Where the relevance of a layer went, for K targets and D directions; time runs forward in both directions."""

    x: Tensor  # (K, T, B, E), or (K, T, B, 1) by step: the sum over all directions, or one direction's
    states: Sequence[Tensor]  # (K, D, B, ·) each, the initial states'
    bias: Tensor  # (D, K, B)
    stabiliser: Tensor  # (D, K, B)
    carried: Sequence[Sequence[Tensor]] = ()  # by direction, each as in `Swept`, in the direction's own order


class Layer(Protocol):
    """One layer after its forward pass, with the tape for its backward pass."""

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        ...

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, ·) each."""
        ...

    def renew(self, x: Tensor) -> None:
        """Take the same input (T, B, E) from another place in memory."""
        ...

    def relevance(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rules: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H), or at none, and at final states (K, D, B, ·)."""
        ...

    def release(self) -> None:
        """Release borrowed memory; the layer cannot hand back relevance any more."""
        ...
