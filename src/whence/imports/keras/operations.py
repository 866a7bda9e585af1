"""Operations that Keras 3 writes into the graph of a model beside its layers: arithmetic, and what computes masks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.errors import ModelError
from whence.imports.keras.layer import Flow, KerasLayer, Mask
from whence.imports.keras.options import Options, Shapes


class Operation(KerasLayer):
    """A function of one or two inputs; the second one, or the first, may be a number of the file."""

    most_inputs = 2

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.constant = options.optional_number("constant")
        self.is_first = options.flag("constant_first")

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """The result, without a mask."""
        operands: list[Tensor | float] = list(inputs)
        if self.constant is not None:
            operands.insert(0 if self.is_first else 1, self.constant)
        if len(operands) != 2:
            raise ModelError(f"it has {len(operands)} operands and needs two")
        return Flow((self.result(*operands),), (None,))

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """A function of two operands."""
        raise NotImplementedError


class AddOperation(Operation):
    """x + y."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x + y."""
        return _tensor(x + y)


class SubtractOperation(Operation):
    """x − y."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x − y."""
        return _tensor(x - y)


class MultiplyOperation(Operation):
    """x · y."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x · y."""
        return _tensor(x * y)


class DivideOperation(Operation):
    """x / y."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x / y."""
        return _tensor(x / y)


class NotEqual(Operation):
    """x ≠ y."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x ≠ y."""
        return torch.ne(_tensor(x), y)


class LogicalOr(Operation):
    """x or y, of masks."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x or y."""
        return _mask(x) | _mask(y)


class LogicalAnd(Operation):
    """x and y, of masks."""

    def result(self, x: Tensor | float, y: Tensor | float) -> Tensor:
        """x and y."""
        return _mask(x) & _mask(y)


class Any(KerasLayer):
    """Whether any element along an axis is true."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axis, self.keepdims = options.size("axis", -1, least=-4, largest=4), options.flag("keepdims")

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """A mask."""
        return Flow((_mask(inputs[0]).any(self.axis, keepdim=self.keepdims),), (None,))


class ExpandDims(KerasLayer):
    """A new axis."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axis = options.size("axis", least=-4, largest=4)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """With an axis of one."""
        return Flow((inputs[0].unsqueeze(self.axis),), (None,))


class Squeeze(KerasLayer):
    """An axis of one left out."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axis = options.size("axis", least=-4, largest=4)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """Without the axis."""
        return Flow((inputs[0].squeeze(self.axis),), (None,))


class Filled(KerasLayer):
    """Truth values in the form of an input."""

    value = False

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        options.choice("dtype", ("bool",))

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """A mask."""
        return Flow((torch.full_like(inputs[0], self.value, dtype=torch.bool),), (None,))


class ZerosLike(Filled):
    """False everywhere."""


class OnesLike(Filled):
    """True everywhere."""

    value = True


class ConvertToTensor(KerasLayer):
    """What it is given."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        options.choice("dtype", (None, "bool"))


def _tensor(value: Tensor | float) -> Tensor:
    if not isinstance(value, Tensor):
        raise ModelError("it has no operand that depends on the inputs")
    return value


def _mask(value: Tensor | float) -> Tensor:
    found = _tensor(value)
    if found.dtype != torch.bool:
        raise ModelError(f"its input is {found.dtype}; it needs a mask")
    return found
