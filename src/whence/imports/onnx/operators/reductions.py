"""Operators that bring an axis down to one number, or order it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whence.errors import ModelError
from whence.imports.onnx.operators.elementwise import Operand
from whence.imports.onnx.run import Ints, Run, axes_of, ints, number

Reduction = Callable[[Tensor, list[int], bool], Tensor]


def reduction(function: Reduction) -> Callable[..., Tensor]:
    """A Reduce operator; its axes are an input, and were an attribute before opset 13 or 18."""

    def operator(
        run: Run,
        x: Tensor,
        axes_input: Operand | None = None,
        *,
        axes: Ints | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        chosen = ints(axes_input) if axes_input is not None else list(axes or ())
        if not chosen and noop_with_empty_axes:
            return x
        along = axes_of(chosen, x.dim()) or list(range(x.dim()))
        return function(x, along, bool(keepdims)) if x.dim() else function(x.reshape(1), [0], False)

    return operator


def total(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """ReduceSum, which keeps the type of whole numbers."""
    return x.sum(axes, keep) if x.is_floating_point() else x.sum(axes, keep, dtype=x.dtype)


def mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """ReduceMean."""
    return x.mean(axes, keep) if x.is_floating_point() else x.double().mean(axes, keep).to(x.dtype)


def product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """ReduceProd."""
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


def log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """ReduceLogSumExp."""
    return torch.logsumexp(x, axes, keep)


def extreme(run: Run, x: Tensor, *, axis: int, keepdims: int, select_last_index: int, is_largest: bool) -> Tensor:
    """The place of the largest or smallest number."""
    if select_last_index:
        raise ModelError("ArgMax and ArgMin are read without select_last_index")
    return (torch.argmax if is_largest else torch.argmin)(x, axis, bool(keepdims))


def arg_max(run: Run, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """ArgMax."""
    return extreme(run, x, axis=axis, keepdims=keepdims, select_last_index=select_last_index, is_largest=True)


def arg_min(run: Run, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """ArgMin."""
    return extreme(run, x, axis=axis, keepdims=keepdims, select_last_index=select_last_index, is_largest=False)


def top_k(
    run: Run, x: Tensor, k_input: Operand | None = None, *, axis: int = -1, k: int = 1, largest: int = 1, sorted: int = 1
) -> Sequence[Tensor]:
    """TopK; of equal numbers, the first come first."""
    count = k if k_input is None else int(number(k_input))
    found = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return found.values.narrow(axis, 0, count), found.indices.narrow(axis, 0, count)


def cumulative_sum(run: Run, x: Tensor, axis: Operand, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """CumSum."""
    along = int(number(axis))
    x = x.flip(along) if reverse else x
    found = x.cumsum(along, dtype=x.dtype)
    if exclusive:
        found = torch.cat([torch.zeros_like(found.narrow(along, 0, 1)), found.narrow(along, 0, found.shape[along] - 1)], along)
    return found.flip(along) if reverse else found
