"""What a kind of recurrent layer is: the one value that tells the rest of the package everything about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from torch import Tensor, nn

from whence.recurrent.sweep import Swept
from whence.recurrent.weights import Weights


class Tape(Protocol):
    """What the reference's forward pass over one direction keeps for the way back: a NamedTuple with a field x (T, B, E)."""

    def outputs(self) -> Tensor:
        """The hidden state after every step (T, B, ·), zero where the sequence has ended."""
        ...

    def final(self) -> tuple[Tensor, ...]:
        """The final states (B, ·) each."""
        ...

    def _replace(self, *, x: Tensor) -> Self: ...


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer."""

    label: str  # what users call it
    module: Callable[..., nn.RNNBase]  # makes PyTorch's layer
    sequence_function: str  # the name of the torch function that runs it over a sequence
    step_function: str  # and of the one that runs a single step
    states: tuple[str, ...]  # the names of its states
    gates: int  # sums per unit, gates and candidate: its weights have gates · H rows
    weights: Callable[..., Weights]  # names PyTorch's parameters of one direction
    forward: Callable[..., Tape]  # the reference, over one direction: (x, weights, *, states, lengths)
    relevance: Callable[..., Swept]  # its way back: (tape, weights, *, r_outputs, r_states, rule, keep)
