"""What every imported layer is: options and weight shapes in, tensors with their masks through."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn

from whence.imports.keras.options import Options, Shapes

Mask = Tensor | None  # (B, T), true where a step counts; None where every step does


class Flow(NamedTuple):
    """A layer's outputs, and the mask of each."""

    tensors: tuple[Tensor, ...]
    masks: tuple[Mask, ...]


class Variable(NamedTuple):
    """A weight as Keras names it; `part` is its group below the layer's own in a .keras file."""

    name: str
    part: str = ""
    trainable: bool = True


class KerasLayer(nn.Module):
    """A layer of a Keras model. Without weights of its own, it hands the mask of its first input on."""

    least_inputs: int = 1
    most_inputs: int = 1
    outputs: int = 1

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__()

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """The layer's weights, in Keras' order."""
        return []

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take Keras' weights, whose shapes have been checked."""
        assert not weights

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """The layer's outputs and their masks."""
        return Flow((self.output(inputs[0]),), (masks[0],))

    def output(self, x: Tensor) -> Tensor:
        """What a layer with one input and one output computes."""
        return x


class Unmasked(KerasLayer):
    """A layer after which there is no mask."""

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """The output, without a mask."""
        return Flow((self.output(inputs[0]),), (None,))
