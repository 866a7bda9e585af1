"""What a path through a recurrent layer is: all directions of one layer, forward with a tape and back."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from whence.equations import Rules


class SweptLayer(NamedTuple):
    """Where the relevance of a layer went. K targets at once, D directions; time runs forward whatever the direction."""

    x: Tensor  # (K, T, B, E), or (K, T, B, 1) by step: of all directions together, or of the one asked for
    states: Sequence[Tensor]  # (K, D, B, ·) each, the initial states'
    bias: Tensor  # (D, K, B)
    stabiliser: Tensor  # (D, K, B)
    carried: Sequence[Sequence[Tensor]] = ()  # by direction, as `Swept` has them in the direction's own order


class Layer(Protocol):
    """What one layer's forward pass kept, and the way back through it."""

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
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rule: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H), or at none, and at final states (K, D, B, ·)."""
        ...

    def release(self) -> None:
        """Hand on the memory that the layer borrowed; it cannot go back any more."""
        ...
