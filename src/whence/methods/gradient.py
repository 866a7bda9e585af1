"""The derivative of a score by the inputs, also through cuDNN's recurrent layers as they predict."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whence.errors import InputError, TargetError
from whence.methods.forward import Forward
from whence.methods.method import is_time_first
from whence.methods.predicting import predicting
from whence.methods.target import Selection, Target, batch_axes, require_scores, select

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class DifferentiableRecurrence(TorchFunctionMode):
    """Calls cuDNN's recurrent layers as if to train them, but without dropout: the same numbers, and they can be derived."""

    def __init__(self, direction: int | None = None) -> None:
        super().__init__()
        self.direction = direction  # with one, the other direction of a bidirectional layer reads its input as a constant

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") not in RECURRENT:
            return func(*args, **(kwargs or {}))
        is_packed = isinstance(args[3], (list, tuple))  # the weights stand one place later, behind the batch sizes
        dropout = 6 if is_packed else 5
        if args[0].is_cuda:
            args = (*args[:dropout], 0.0, True, *args[dropout + 2 :])
        layers, is_bidirectional = args[dropout - 1], args[dropout + 2]
        if self.direction is None or not is_bidirectional:
            return func(*args)
        if layers > 1:
            raise InputError("encoders=True needs a single bidirectional layer here; LRP can tell the first of several apart")
        live, fixed = func(*args), func(args[0].detach(), *args[1:])
        return tuple(
            torch.cat((one.chunk(2, axis)[0], other.chunk(2, axis)[1]), axis)
            for one, other, axis in zip(*((live, fixed) if self.direction == 0 else (fixed, live)), (-1, 0, 0), strict=False)
        )


def _holds_samples(scores: Tensor, axis: int, inputs: Sequence[Tensor]) -> bool:
    """Whether the last slice of an output along an axis depends on the last slice of each input alone, as a sample does."""
    size = scores.shape[axis]
    if size == 1:
        return False  # nothing to tell by
    found = torch.autograd.grad(scores.select(axis, -1).sum(), list(inputs), retain_graph=True, materialize_grads=True)
    return all(
        any(each.shape[a] == size and not each.narrow(a, 0, size - 1).any() for a in range(each.dim())) for each in found
    )


def gradients(forward: Forward, target: Target, *, direction: int | None = None) -> tuple[list[Tensor], Tensor, Selection]:
    """The derivative of the explained scores by every input (K, *shape), and those scores (K, B).

    With a `direction` (0 forward, 1 backward), only by way of that direction of a bidirectional layer.
    """
    with predicting(forward.model), torch.enable_grad():
        tensors = tuple(tensor.requires_grad_() for tensor in forward.tensors)
        with DifferentiableRecurrence(direction):
            output = forward.run([tensor.clone() for tensor in tensors])  # a model may write into its input
            output = target(output) if callable(target) else output
        scores = require_scores(output, target, inputs=tensors)
        if not scores.requires_grad:
            raise TargetError("the score does not depend on the inputs, so there is nothing to explain")
        picks = None if callable(target) else target
        axes = batch_axes(scores, picks, inputs=tensors, time_first=is_time_first(forward.model))
        likely = (
            [axis for axis in axes if axis is not None and _holds_samples(scores, axis, tensors)] if len(axes) > 1 else axes
        )
        selection = select(scores, picks, batch_axis=likely[0] if likely else axes[0])
        rows = [
            torch.autograd.grad((mask * scores).sum(), tensors, retain_graph=True, materialize_grads=True)
            for mask in selection.mask
        ]
    found = [torch.stack(each) for each in zip(*rows, strict=True)]
    return found, selection.scores(scores).detach(), selection._replace(target=target) if callable(target) else selection
