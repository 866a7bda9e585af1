"""A binary classifier with one output, as scores of two classes: the first is what the output speaks against."""

import re

import torch
from torch import Tensor, overrides

MOVES = ("View", "Reshape", "Squeeze", "Unsqueeze", "Select", "Slice", "Copy", "Clone", "Transpose", "Permute", "T")


def is_single(output: object) -> bool:
    """Whether an output holds one number for every sample: (B,) or (B, 1)."""
    return isinstance(output, Tensor) and output.is_floating_point() and output.shape[1:] in ((), (1,)) and output.dim() > 0


def two_scores(output: Tensor, *, is_probability: bool) -> Tensor:
    """The scores (B, 2) of a binary classifier's output z:  −z / 2 and z / 2, whose softmax is the sigmoid of z.

    Of a probability p, z is log p / (1 − p), the score before the sigmoid. Relevance passes to the output unchanged, as through
    an activation, and through the sigmoid too.
    """
    if overrides.has_torch_function_unary(output):
        return overrides.handle_torch_function(two_scores, (output,), output, is_probability=is_probability)
    z = torch.logit(output, eps=torch.finfo(output.dtype).eps) if is_probability else output
    return torch.cat([-z, z], -1) / 2


def end_of(output: Tensor) -> str:
    """The name of the last operation that computed an output with a graph; those that only move numbers are passed over."""
    node = output.grad_fn
    while node is not None and re.sub(r"Backward\d*$", "", type(node).__name__).removeprefix("_Unsafe") in MOVES:
        node = node.next_functions[0][0]
    return type(node).__name__
