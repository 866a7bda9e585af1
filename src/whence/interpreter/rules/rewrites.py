"""Torch functions rewritten as calls that have rules."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.interpreter.record.refusal import Refused
from whence.interpreter.rules.gates import gate

Size = int | tuple[int, ...] | list[int]


def scaled(tensor: Tensor, by: float) -> Tensor:
    """tensor · by, without a step for by = 1."""
    return tensor if by == 1 else tensor * by


def add_product(input: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """torch.addmm, addmv and baddbmm:  β input + α (a @ b)."""
    return scaled(input, beta) + scaled(a @ b, alpha)


def add_elementwise_product(input: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    """torch.addcmul:  input + value · a ⊙ b."""
    return input + scaled(a * b, value)


def interpolate(start: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    """torch.lerp as two products, since the weight may be a gate."""
    return (1 - weight) * start + weight * end


def gated_linear_unit(tensor: Tensor, dim: int = -1) -> Tensor:
    """F.glu: the first half of a tensor, gated by the second."""
    return tensor.chunk(2, dim)[0] * tensor.chunk(2, dim)[1].sigmoid()


def divide_into(tensor: Tensor, other: Tensor | float) -> Tensor:
    """other / tensor, as Tensor.__rdiv__ is called."""
    return tensor.reciprocal() * other


def square(tensor: Tensor) -> Tensor:
    """tensor²."""
    return tensor * tensor


def sigmoid(tensor: Tensor) -> Tensor:
    """torch.special.expit."""
    return tensor.sigmoid()


def detach(tensor: Tensor) -> Tensor:
    """Tensor.detach and Tensor.data; relevance passes through them."""
    return tensor.view(tensor.shape)


def turn_round(tensor: Tensor) -> Tensor:
    """reversed(tensor)."""
    return tensor.flip(0)


def set_item(tensor: Tensor, index: Any, content: Tensor | float) -> Tensor:
    """tensor[index] = content, in a copy."""
    copied = tensor.clone()
    copied[index] = content
    return copied


def copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """What target.copy_(source) leaves in the target."""
    return source.expand(target.shape).to(device=target.device, dtype=target.dtype, copy=True)


def single(size: Size) -> int:
    """The size of the one axis that a call is about."""
    return size[0] if isinstance(size, (tuple, list)) else size


def average_pool(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """F.avg_pool1d as a mean over windows."""
    kernel, step, margin = single(kernel_size), single(stride or kernel_size), single(padding)
    if ceil_mode or (margin and not count_include_pad):
        raise Refused("ceil_mode and count_include_pad=False have no rule")
    padded = F.pad(input, (margin, margin)) if margin else input
    return padded.unfold(-1, kernel, step).mean(-1)


def adaptive_average_pool(input: Tensor, output_size: Size) -> Tensor:
    """F.adaptive_avg_pool1d as means over its windows."""
    count, size = single(output_size), input.shape[-1]
    return torch.stack([input[..., n * size // count : -(-(n + 1) * size // count)].mean(-1) for n in range(count)], dim=-1)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """F.group_norm as a layer norm of each group, then a weight and a bias for each channel."""
    grouped = input.reshape(len(input), num_groups, -1)
    normed = F.layer_norm(grouped, grouped.shape[-1:], eps=eps).reshape(input.shape)
    shape = (-1, *(1,) * (input.dim() - 2))
    normed = normed if weight is None else normed * weight.view(shape)
    return normed if bias is None else normed + bias.view(shape)


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """F.rms_norm with its normaliser as a gate."""
    axes = tuple(range(-len(normalized_shape), 0))
    size = (input * input).mean(axes, keepdim=True) + (torch.finfo(input.dtype).eps if eps is None else eps)
    normed = input * gate(size.rsqrt())
    return normed if weight is None else normed * weight


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Tensor:
    """F.normalize with its normaliser as a gate."""
    size = (input * input).sum(dim, keepdim=True).sqrt() if p == 2 else cast(Tensor, input.norm(p, dim, keepdim=True))
    return input * gate(size.clamp_min(eps).reciprocal())
