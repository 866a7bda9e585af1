"""Operators that work on every number alone: arithmetic, comparisons, logic and activations.

A constant of one number comes as a Python number, so that `1 − gate` and bounds of 0 and 1 are seen for what they are.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.errors import ModelError
from whence.imports.onnx.run import Run, number

Operand = Tensor | float  # a number for a constant without axes
Broadcast = Annotated[Tensor | float, "broadcast"]  # also for a constant with axes of size 1, if another operand has as many


def tensor_of(run: Run, operand: Operand) -> Tensor:
    """An operand as a tensor."""
    return operand if isinstance(operand, Tensor) else _full(run, operand)


def _full(run: Run, value: float) -> Tensor:
    dtype = torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else run.dtype
    return torch.tensor(value, dtype=dtype, device=run.device)


def unary(function: Callable[[Tensor], Tensor]) -> Callable[[Run, Tensor], Tensor]:
    """An operator without attributes."""

    def operator(run: Run, x: Tensor) -> Tensor:
        return function(x)

    return operator


def binary(function: Callable[[Operand, Operand], Tensor]) -> Callable[..., Tensor]:
    """An operator of two operands that are broadcast."""

    def operator(run: Run, a: Broadcast, b: Broadcast) -> Tensor:
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            a = _full(run, a)
        return function(a, b)

    return operator


def variadic(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """An operator of any number of operands, from one of two."""

    def operator(run: Run, *operands: Broadcast) -> Tensor:
        return reduce(function, [tensor_of(run, each) for each in operands])

    return operator


def mean(run: Run, *operands: Broadcast) -> Tensor:
    """Mean: of several tensors."""
    return reduce(torch.add, [tensor_of(run, each) for each in operands]) / len(operands)


def divide(a: Operand, b: Operand) -> Tensor:
    """Div: whole numbers are cut off towards zero."""
    is_whole = not any(each.is_floating_point() if isinstance(each, Tensor) else isinstance(each, float) for each in (a, b))
    if is_whole:
        return torch.div(torch.as_tensor(a), b, rounding_mode="trunc")
    return a / b  # pyright: ignore[reportReturnType]


def power(run: Run, a: Broadcast, b: Broadcast) -> Tensor:
    """Pow: the result has the type of the base."""
    base = tensor_of(run, a)
    if isinstance(b, Tensor) and b.numel() == 1 and not b.requires_grad and b.dim() <= base.dim() and not b.is_floating_point():
        b = int(number(b))
    found = base**b
    return found if found.dtype == base.dtype else found.to(base.dtype)


def modulo(run: Run, a: Broadcast, b: Broadcast, *, fmod: int = 0) -> Tensor:
    """Mod: with the sign of the divisor, or of the dividend if fmod is 1."""
    return torch.fmod(tensor_of(run, a), b) if fmod else torch.remainder(tensor_of(run, a), b)


def negate(run: Run, x: Operand) -> Tensor:
    """Neg."""
    return -tensor_of(run, x)


def where(run: Run, condition: Broadcast, a: Broadcast, b: Broadcast) -> Tensor:
    """Where."""
    return torch.where(tensor_of(run, condition).bool(), tensor_of(run, a), tensor_of(run, b))


def clip(
    run: Run,
    x: Tensor,
    low: Operand | None = None,
    high: Operand | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Tensor:
    """Clip: its bounds are inputs, and were attributes before opset 11."""
    bounds = [None if each is None else number(each) for each in (min if low is None else low, max if high is None else high)]
    if x.is_floating_point() and bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
        return torch.full_like(x, bounds[1])
    lowest, highest = (None if each is None or math.isinf(each) else each for each in bounds)
    if lowest is None and highest is None:
        return x
    return torch.clamp(x, lowest, highest)


def leaky_relu(run: Run, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """LeakyRelu."""
    return F.leaky_relu(x, alpha)


def elu(run: Run, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Elu."""
    return F.elu(x, alpha)


def celu(run: Run, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Celu."""
    return F.celu(x, alpha)


def selu(run: Run, x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """Selu."""
    if abs(alpha - 1.6732632423543772) < 1e-6 and abs(gamma - 1.0507009873554805) < 1e-6:
        return F.selu(x)
    return gamma * F.elu(x, alpha)


def thresholded_relu(run: Run, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """ThresholdedRelu."""
    return F.threshold(x, alpha, 0.0)


def hard_sigmoid(run: Run, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """HardSigmoid: a line, cut off at 0 and 1."""
    return torch.clamp(alpha * x + beta, 0.0, 1.0)


def softplus(run: Run, x: Tensor) -> Tensor:
    """Softplus."""
    return F.softplus(x)


def gelu(run: Run, x: Tensor, *, approximate: str = "none") -> Tensor:
    """Gelu."""
    return F.gelu(x, approximate=approximate)


def swish(run: Run, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Swish: x · σ(α x)."""
    return F.silu(x) if alpha == 1 else x * torch.sigmoid(alpha * x)


def prelu(run: Run, x: Tensor, slope: Broadcast) -> Tensor:
    """PRelu: one slope for all numbers, one for each channel, or any that are broadcast."""
    slopes = tensor_of(run, slope)
    is_by_channel = x.dim() > 1 and slopes.dim() == x.dim() - 1 and slopes.numel() == slopes.shape[0] == x.shape[1]
    if slopes.numel() == 1 or is_by_channel:
        return F.prelu(x, slopes.reshape(-1))
    return torch.where(x >= 0, x, slopes * x)


def shrink(run: Run, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Shrink."""
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x)))


def softmax(run: Run, x: Tensor, *, axis: int | None = None) -> Tensor:
    """Softmax."""
    return _normalised(run, x, axis, torch.softmax)


def log_softmax(run: Run, x: Tensor, *, axis: int | None = None) -> Tensor:
    """LogSoftmax."""
    return _normalised(run, x, axis, torch.log_softmax)


def _normalised(run: Run, x: Tensor, axis: int | None, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Over one axis; before opset 13, over this one and all after it."""
    if run.opset >= 13:
        return function(x, -1 if axis is None else axis)
    axis = 1 if axis is None else axis
    axis = axis % x.dim() if -x.dim() <= axis < x.dim() else x.dim() - 1
    return function(x, -1) if axis == x.dim() - 1 else function(x.flatten(axis), -1).reshape(x.shape)


def is_infinite(run: Run, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """IsInf."""
    return ((x == math.inf) & bool(detect_positive)) | ((x == -math.inf) & bool(detect_negative))


def cast(run: Run, x: Operand, *, to: str, saturate: int = 1) -> Tensor:
    """Cast: every float type of ONNX is the one of the model."""
    found = tensor_of(run, x)
    dtype = run.dtype_of(to)
    if found.dtype == dtype:
        return found
    return found != 0 if dtype == torch.bool else found.to(dtype)


def cast_like(run: Run, x: Operand, like: Operand) -> Tensor:
    """CastLike."""
    found, dtype = tensor_of(run, x), tensor_of(run, like).dtype
    return found if found.dtype == dtype else found != 0 if dtype == torch.bool else found.to(dtype)


def identity(run: Run, x: Tensor) -> Tensor:
    """Identity."""
    return x


def dropout(
    run: Run,
    x: Tensor,
    ratio_input: Operand | None = None,
    training: Operand | None = None,
    *,
    ratio: float = 0.5,
    seed: int = 0,
) -> Sequence[Tensor]:
    """Dropout, which a model that predicts does not do."""
    if training is not None and bool(number(training)):
        raise ModelError("Dropout is in training mode; export the model for inference (model.eval())")
    return x, torch.ones_like(x, dtype=torch.bool)
