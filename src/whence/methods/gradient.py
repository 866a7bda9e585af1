"""The derivative of a score by the inputs, also through cuDNN's recurrent layers as they predict."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whence.errors import TargetError
from whence.methods.forward import Forward, predicting
from whence.methods.method import is_time_first
from whence.methods.target import Selection, Target, batch_axes, require_scores, select

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class DifferentiableRecurrence(TorchFunctionMode):
    """Calls cuDNN's recurrent layers as if to train them, but without dropout: the same numbers, and they can be derived."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in RECURRENT and args[0].is_cuda:
            is_packed = isinstance(args[3], (list, tuple))  # the weights stand one place later, behind the batch sizes
            dropout = 6 if is_packed else 5
            args = (*args[:dropout], 0.0, True, *args[dropout + 2 :])
        return func(*args, **(kwargs or {}))


def _holds_samples(scores: Tensor, axis: int, inputs: Sequence[Tensor]) -> bool:
    """Whether the last slice of an output along an axis depends on the last slice of each input alone, as a sample does."""
    size = scores.shape[axis]
    if size == 1:
        return False  # nothing to tell by
    found = torch.autograd.grad(scores.select(axis, -1).sum(), list(inputs), retain_graph=True, materialize_grads=True)
    return all(
        any(each.shape[a] == size and not each.narrow(a, 0, size - 1).any() for a in range(each.dim())) for each in found
    )


def gradients(forward: Forward, target: Target) -> tuple[list[Tensor], Tensor, Selection]:
    """The derivative of the explained scores by every input (K, *shape), and those scores (K, B)."""
    with predicting(forward.model), torch.enable_grad():
        tensors = tuple(tensor.requires_grad_() for tensor in forward.tensors)
        with DifferentiableRecurrence():
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
