"""What the weights of every cell have in common, and PyTorch's flat list of parameters sorted by layer and direction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from torch import Tensor


class Weights(Protocol):
    """The weights of one direction of one layer, by name. Each cell has a NamedTuple of its own, of tensors and None."""

    @property
    def input(self) -> Tensor:
        """U (G·H, E), for G sums per unit."""
        ...

    @property
    def hidden(self) -> Tensor:
        """W (G·H, ·), as wide as h."""
        ...

    @property
    def hidden_size(self) -> int:
        """H, the number of units."""
        ...

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of every state."""
        ...

    @property
    def biases(self) -> tuple[Tensor | None, Tensor | None]:
        """The bias (G·H,) of the sums, and that of W h⁻ where it has one of its own."""
        ...

    @property
    def needs_factors(self) -> str | None:
        """Why no kernel can run these weights; None where one can."""
        ...

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape that every field must have."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


Named = TypeVar("Named", bound=Weights)


def tensors(weights: Weights) -> dict[str, Tensor]:
    """The tensors of one direction by name, without what is absent."""
    return {name: each for name, each in weights._asdict().items() if each is not None}


def by_layer(
    name: Callable[..., Named], flat: Sequence[Tensor], *, has_biases: bool, directions: int, layers: int
) -> list[list[Named]]:
    """PyTorch's flat list of parameters, named, by layer and then direction."""
    size = len(flat) // (layers * directions)
    each = [name(*flat[k : k + size], has_biases=has_biases) for k in range(0, len(flat), size)]
    return [each[k : k + directions] for k in range(0, len(each), directions)]
