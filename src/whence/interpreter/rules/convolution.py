"""Convolutions as weighted connections, with their adjoint as one call and the window through which they connect."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.interpreter.record.step import Value
from whence.interpreter.rules.weighted import Weighting, Window, connections, constant, is_usual, plain


def convolution(function: Callable[..., Tensor]) -> Callable[..., Sequence[Weighting]]:
    """A convolution by its function: F.conv1d, F.conv2d or F.conv3d, or a transposed one."""

    def read(
        input: Value | Tensor, weight: Value | Tensor, bias: Value | Tensor | None = None, *settings: object, **more: object
    ) -> Sequence[Weighting]:
        bias = constant(bias)
        if bias is not None:
            bias = bias.view(-1, *(1,) * (plain(weight).dim() - 2))

        def convolved(x: Tensor, w: Tensor) -> Tensor:
            return function(x, w, None, *settings, **more)

        found = connections(convolved, (input, weight), bias=bias)
        if function not in DIRECT or not isinstance(input, Value) or isinstance(weight, Value):
            return found
        moves = _moves(input.tensor, weight, *settings, **more)
        return found if moves is None else [_explicit(found[0], input, weight, moves)]

    return read


DIRECT = (F.conv1d, F.conv2d, F.conv3d)


class Moves(NamedTuple):
    """How the window of a convolution moves, by axis, and into how many groups the channels are divided."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def _moves(
    x: Tensor, weight: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1, **more: object
) -> Moves | None:
    """The settings of a convolution as numbers; None for a single sample, complex numbers, or padding of unequal sides."""
    axes = weight.dim() - 2
    if more or x.dim() != weight.dim() or not (is_usual(x) and is_usual(weight)):
        return None

    def each(setting: Any) -> list[int]:
        numbers = [setting] if isinstance(setting, int) else list(setting)
        return numbers * axes if len(numbers) == 1 else numbers

    if padding in ("same", "valid"):
        wide = [(size - 1) * step for size, step in zip(weight.shape[2:], each(dilation), strict=True)]
        if padding == "same" and any(size % 2 for size in wide):
            return None
        padding = [size // 2 for size in wide] if padding == "same" else 0
    return Moves(each(stride), each(padding), each(dilation), groups)


def _explicit(weighting: Weighting, x: Value, weight: Tensor, moves: Moves) -> Weighting:
    """A convolution with its adjoint as one call and, where all channels are connected, with its window."""
    axes = weight.dim() - 2

    def through(q: Tensor, w: Tensor, *, channels: int | None = None, groups: int = moves.groups) -> Tensor:
        shape = (len(q), len(x.tensor), x.tensor.shape[1] if channels is None else channels, *x.tensor.shape[2:])
        back = cast(Callable[..., Sequence[Tensor]], torch.ops.aten.convolution_backward)
        like = x.tensor if shape[1:] == x.tensor.shape and len(q) == 1 else q.new_empty(shape).flatten(0, 1)
        own, (stride, padding, dilation, _) = q.flatten(0, 1), moves
        found = back(own, like, w, None, stride, padding, dilation, False, [0] * axes, groups, (True, False, False))
        return found[0].reshape(shape)

    if moves.groups != 1:
        return replace(weighting, back=through, needs_trained=True)

    def fan_in() -> Tensor:
        data, ones = x.tensor, weight.new_ones(1, 1, *weight.shape[2:])
        return data.shape[1] * weighting.apply(data.new_ones(1, 1, *data.shape[2:]), ones)

    def spread(s: Tensor) -> Tensor:
        own, size = s.sum(2, keepdim=True), weight.shape[2:]
        if _is_box(size, moves):
            found = _box_sums(own.flatten(0, 1), size, moves).reshape(*own.shape[:3], *x.tensor.shape[2:])
        else:
            found = through(own, weight.new_ones(1, 1, *size), channels=1)
        return found.expand(len(s), *x.tensor.shape)

    return replace(weighting, back=through, needs_trained=True, window=Window(fan_in, spread))


def _is_box(size: Sequence[int], moves: Moves) -> bool:
    """Whether the outputs that see a place are a box of their own, which pooling can sum: its padding is at most a half.

    Along three axes PyTorch pools no half precision.
    """
    return len(size) < 3 and all(
        stride == 1 and dilation == 1 and 0 <= width - 1 - padding <= width // 2
        for width, stride, padding, dilation in zip(size, *moves[:3], strict=True)
    )


def _box_sums(s: Tensor, size: Sequence[int], moves: Moves) -> Tensor:
    """The sum of s (N, 1, *places of the output) over the outputs that see a place, for every place of the input."""
    padding = [width - 1 - own for width, own in zip(size, moves.padding, strict=True)]
    if len(size) == 1:  # PyTorch's pooling along one axis only averages
        return F.avg_pool2d(s[..., None, :], (1, *size), 1, (0, *padding), divisor_override=1).squeeze(-2)
    return F.avg_pool2d(s, list(size), 1, padding, divisor_override=1)
