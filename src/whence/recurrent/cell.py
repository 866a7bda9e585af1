"""What a kind of recurrent layer is: the one value that tells the rest of the package everything about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Tensor, nn

from whence.recurrent.parts import Parts
from whence.recurrent.sweep import Swept
from whence.recurrent.weights import Weights


class Tape(Protocol):
    """What the reference keeps of one direction's forward pass for the backward pass: a NamedTuple with a field x (T, B, E)."""

    def outputs(self) -> Tensor:
        """The hidden state after every step (T, B, ·), zero where the sequence has ended."""
        ...

    def final(self) -> tuple[Tensor, ...]:
        """The final states (B, ·) each."""
        ...

    def _replace(self, *, x: Tensor) -> Self: ...


class PlainTape(Protocol):
    """What the plain path's forward pass over D directions keeps."""

    def outputs(self) -> list[Tensor]:
        """For every direction the hidden state after every step (T, B, H), zero where the sequence has ended."""
        ...

    def final(self) -> list[tuple[Tensor, ...]]:
        """For every direction the final states (B, H) each."""
        ...


@dataclass(frozen=True)
class Plain:
    """The path in PyTorch's own operations, few and large, over all directions of a layer at once."""

    forward: Callable[..., PlainTape]  # (x of every direction, weights, *, states, lengths)
    relevance: Callable[..., Sequence[Swept]]  # (tape, weights, *, r_outputs, r_states, rules)


class Panels(Protocol):
    """Packs matrices (depth, columns), one below the other (axis 0) or side by side (axis 1), as the C products read them."""

    def __call__(self, *matrices: Tensor, axis: int = 0) -> Tensor: ...


@dataclass(frozen=True)
class Native:
    """The compiled path: the functions `scratch`, `forward` and `back` in C, and what they agree on with Python."""

    source: str  # the C file, relative to this folder
    tape: tuple[str, ...]  # the numbers kept for every unit and step, in order; A is TAPE_A in C, their count is KEPT
    pack: Callable[[Any, Panels], Mapping[str, Tensor]]  # the weights of a direction as fields of the C struct
    defines: tuple[str, ...] = ()  # preprocessor macros, such as "ACTIVATION=relu"


class TritonKernels(Protocol):
    """The Triton path: a module with the kernels of a cell. It is imported when first used, as it needs Triton."""

    KEPT: Any  # tl.constexpr, the numbers kept for every unit and step
    CANDIDATE: int  # which of the gates is the candidate
    HAS_HIDDEN_SUM: bool  # whether W h⁻ is a sum of its own, with a bias and a coefficient q of its own
    forward: Any
    back: Any


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer. Paths that are None do not exist for it; the reference always does."""

    label: str  # what users call it
    module: Callable[..., nn.RNNBase]  # makes PyTorch's layer
    sequence_function: str  # the name of the torch function that runs it over a sequence
    step_function: str  # and of the one that runs a single step
    states: tuple[str, ...]  # the names of its states; in C, state A and its relevance are the fields A and r_A
    gates: int  # sums per unit, gates and candidate: its weights have gates · H rows
    weights: Callable[..., Weights]  # names PyTorch's parameters of one direction
    forward: Callable[..., Tape]  # the reference, over one direction: (x, weights, *, states, lengths)
    relevance: Callable[..., Swept]  # its backward pass: (tape, weights, *, r_outputs, r_states, rules, keep)
    decomposition: Callable[..., tuple[Parts, ...]]  # one step of it: (U x + b, states, weights, *, inside)
    factored: Callable[..., Swept] | None = None  # the same as `relevance` in fewer operations, for every rule for products
    plain: Plain | None = None
    native: Native | None = None
    triton: Callable[[], TritonKernels] | None = None
    has_bounded_states: bool = True  # whether sums by step, taken as differences of what the states hand on, lose no digits
    has_products: bool = True  # without products, every rule for products is the same, and every path takes it
    variants: tuple[tuple[str, Callable[..., nn.RNNBase]], ...] = ()  # further layers, by label, that `whence doctor` lists
