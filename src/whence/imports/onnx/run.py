"""What the operators know of the model that runs them, and how they read tensors of sizes and axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from whence.errors import ModelError

DTYPES = {
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}

Ints = tuple[int, ...]


class ExcessError(ModelError):
    """A file asks for far more than its inputs can need."""


@dataclass(eq=False)
class Run:
    """One call of a model. All floats have one dtype, whatever the file says: that of the weights."""

    opset: int
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    most_steps: int | None = None  # of all loops together; None for no limit
    steps: int = 0
    numbers: Mapping[str, int | float | bool] = field(
        default_factory=dict[str, "int | float | bool"]
    )  # constants of one number
    tables: Mapping[str, nn.Embedding] = field(default_factory=dict[str, nn.Embedding])  # the embeddings among the constants

    def dtype_of(self, kind: str) -> torch.dtype:
        """The dtype of a kind of numbers."""
        return self.dtype if kind == "float" else DTYPES[kind]

    def count_step(self) -> None:
        """Note a step of a loop; too many of them are refused where a file is tried out."""
        self.steps += 1
        if self.most_steps is not None and self.steps > self.most_steps:
            raise ExcessError(
                f"its loops have not ended after {self.most_steps} steps, which is too many for an input of this size"
            )


def ints(tensor: Tensor | float) -> list[int]:
    """The whole numbers of a tensor with one axis, or of a single number."""
    found = cast("list[int] | int", tensor.tolist()) if isinstance(tensor, Tensor) else int(tensor)
    return [int(each) for each in found] if isinstance(found, list) else [int(found)]


def number(tensor: Tensor | float) -> float:
    """The number that a tensor with one element holds."""
    return cast(float, tensor.reshape(()).item()) if isinstance(tensor, Tensor) else tensor


def axis_of(axis: int, dims: int) -> int:
    """An axis counted from the front."""
    if not -dims <= axis < max(dims, 1):
        raise ModelError(f"axis {axis} does not exist in a tensor with {dims} axes")
    return axis % dims if dims else 0


def axes_of(axes: Sequence[int], dims: int) -> list[int]:
    """Axes counted from the front."""
    return [axis_of(axis, dims) for axis in axes]
