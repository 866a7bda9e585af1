"""Torch functions rewritten as calls that have rules."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.engine.products import gate
from whence.engine.rule import Refused

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


def multiply_into(tensor: Tensor, other: Tensor) -> Tensor:
    """other @ tensor, as Tensor.__rmatmul__ is called."""
    return other @ tensor


def square(tensor: Tensor) -> Tensor:
    """tensor²."""
    return tensor * tensor


def sigmoid(tensor: Tensor) -> Tensor:
    """torch.special.expit."""
    return tensor.sigmoid()


def typed(x: Tensor, dtype: torch.dtype | str | None = None, non_blocking: bool = False) -> Tensor | str:
    """Tensor.type: a cast, or the name of the type where none is given."""
    like = torch.empty(0, dtype=x.dtype, device=x.device)
    return like.type() if dtype is None else x.to(like.type(dtype))


def detach(tensor: Tensor) -> Tensor:
    """Tensor.detach and Tensor.data; relevance passes through them."""
    return tensor.view(tensor.shape)


def deep_copy(tensor: Tensor, memo: object = None) -> Tensor:
    """copy.deepcopy of a tensor."""
    return tensor.clone()


def turn_round(tensor: Tensor) -> Tensor:
    """reversed(tensor)."""
    return tensor.flip(0)


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


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """F.cosine_similarity with its normalisers as gates."""
    sizes = [(x * x).sum(dim).sqrt().clamp_min(eps) for x in (x1, x2)]
    return (x1 * x2).sum(dim) * gate(sizes[0].reciprocal()) * gate(sizes[1].reciprocal())


def add_in_log_space(input: Tensor, other: Tensor) -> Tensor:
    """torch.logaddexp:  log(exp a + exp b)."""
    return torch.stack(cast(list[Tensor], torch.broadcast_tensors(input, other))).logsumexp(0)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """F.instance_norm: each channel of each sample on its own, or by running statistics."""
    if not use_input_stats:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training=False, eps=eps)
    return group_norm(input, input.shape[1], weight, bias, eps)


def norm(
    input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, out: None = None, dtype: None = None, **more: Any
) -> Tensor:
    """Tensor.norm and torch.linalg.norm of vectors; the size of a vector divides it, and is then its normaliser."""
    p, axes = more.get("ord", p), dim if dim is not None else tuple(range(input.dim()))
    if p in (2, 2.0, None, "fro"):
        return (input * input).sum(axes, keepdim=keepdim).sqrt()
    if p in (1, 1.0):
        return input.abs().sum(axes, keepdim=keepdim)
    raise Refused(f"a norm with p = {p} has no rule")


def variance(
    input: Tensor, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """torch.var as the mean of squared deviations."""
    if isinstance(dim, bool):  # var(unbiased)
        dim, unbiased = None, dim
    axes = tuple(range(input.dim())) if dim is None else dim
    apart = input - input.mean(axes, keepdim=True)
    sizes = [input.shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes)]
    count = math.prod(sizes)
    less = float(unbiased) if correction is None else correction
    return (apart * apart).sum(axes, keepdim=keepdim) * (1 / (count - less))


def deviation(
    input: Tensor, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """torch.std."""
    return variance(input, dim, unbiased, keepdim, correction=correction).sqrt()
