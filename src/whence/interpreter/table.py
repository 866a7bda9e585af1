"""Which rule each torch function falls under, by name; a function without an entry has no rule, and that is said."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.equations import Product
from whence.interpreter import attention, gates, sums, weighted
from whence.interpreter.activations import Activation, Rescaling, RunningProduct, Softmax
from whence.interpreter.recurrence import RECURRENCES
from whence.interpreter.routing import Dropout, Pick, Placement, Routing
from whence.interpreter.rule import Refused, Rule
from whence.interpreter.trace import Arguments

Entry = Rule | Callable[[Arguments, Callable[[Any], bool], Product], Rule]

ROUTING = """
    cat concat concatenate stack hstack vstack dstack split split_with_sizes tensor_split chunk unbind getitem select narrow
    index_select gather take take_along_dim masked_select flip roll rot90 transpose swapaxes swapdims movedim moveaxis permute
    t T mT H mH adjoint reshape view view_as reshape_as flatten unflatten ravel squeeze unsqueeze expand expand_as
    broadcast_to repeat repeat_interleave tile atleast_2d contiguous clone to type double float half bfloat16 type_as cpu
    cuda alias positive
    where masked_fill pad constant_pad_nd setitem copy index_copy index_fill tril triu diagonal unfold pack_padded_sequence
    pad_packed_sequence broadcast_tensors
""".split()

PICKS = """
    max amax min amin maximum minimum fmax fmin max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d sort
    topk kthvalue median
""".split()

DROPOUT = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout".split()

ACTIVATIONS = """
    tanh relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardswish sigmoid
    hardsigmoid logsigmoid log_sigmoid prelu clamp clip clamp_min clamp_max threshold erf
""".split()

# Constant whatever they are called on: shapes and types are read, numbers are not.
CONSTANT = """
    zeros_like ones_like full_like empty_like rand_like randn_like new_zeros new_ones new_full new_empty new_tensor
""".split()

# They tell of a tensor's form, not of its numbers.
FORM = set("shape dtype device layout ndim is_cuda is_sparse is_nested size dim numel stride is_floating_point".split())

UNCHANGED = ("requires_grad", "retain_grad", "register_hook")  # they leave the numbers alone

# Only the form of what follows the first argument is read: its shape, type or device.
LIKE = ("type_as", "expand_as", "view_as", "reshape_as", "to")

TABLE: dict[str, Entry] = {
    **dict.fromkeys(ROUTING, Routing()),
    **dict.fromkeys(PICKS, Pick()),
    **dict.fromkeys(("scatter", "index_put"), Placement()),
    **dict.fromkeys(ACTIVATIONS, Activation()),
    **dict.fromkeys(("exp", "log", "sqrt", "rsqrt", "reciprocal", "abs", "pow"), Rescaling()),
    **dict.fromkeys(("softmax", "softmin", "log_softmax"), Softmax()),
    "add": sums.Sum(sums.add),
    "sub": sums.Sum(sums.subtract),
    "subtract": sums.Sum(sums.subtract),
    "rsub": sums.Sum(sums.subtract_from),
    "neg": sums.Sum(sums.negate),
    "negative": sums.Sum(sums.negate),
    "sum": sums.Reduction(),
    "mean": sums.Reduction(),
    "cumsum": sums.Cumulative(),
    **dict.fromkeys(("prod", "cumprod"), RunningProduct()),
    "gate": gates.Marked(),
    **dict.fromkeys(("mul", "multiply"), gates.multiplication),
    **dict.fromkeys(("div", "divide", "true_divide", "truediv"), gates.division),
    "linear": weighted.Weighted(weighted.linear),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), weighted.Weighted(weighted.matmul)),
    "rmatmul": weighted.Weighted(weighted.matmul_from_right),
    "einsum": weighted.Weighted(weighted.einsum),
    "conv1d": weighted.Weighted(weighted.convolution(F.conv1d)),
    "conv2d": weighted.Weighted(weighted.convolution(F.conv2d)),
    "conv3d": weighted.Weighted(weighted.convolution(F.conv3d)),
    "conv_transpose1d": weighted.Weighted(weighted.convolution(F.conv_transpose1d)),
    "conv_transpose2d": weighted.Weighted(weighted.convolution(F.conv_transpose2d)),
    "layer_norm": weighted.Weighted(weighted.layer_norm),
    "batch_norm": weighted.Weighted(weighted.batch_norm),
    **dict.fromkeys(DROPOUT, Dropout()),
    **RECURRENCES,
}


def scaled(tensor: Tensor, by: float) -> Tensor:
    """tensor · by, without a step for by = 1."""
    return tensor if by == 1 else tensor * by


def average_pool(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """F.avg_pool1d as a mean over windows."""
    kernel, step, margin = ((each[0] if isinstance(each, (tuple, list)) else each) for each in (kernel_size, stride, padding))
    if ceil_mode or (margin and not count_include_pad):
        raise Refused("ceil_mode and count_include_pad=False have no rule")
    padded = F.pad(input, (margin, margin)) if margin else input
    return padded.unfold(-1, kernel, step or kernel).mean(-1)


def adaptive_average_pool(input: Tensor, output_size: Any) -> Tensor:
    """F.adaptive_avg_pool1d as means over its windows."""
    count = output_size[0] if isinstance(output_size, (tuple, list)) else output_size
    size = input.shape[-1]
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


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """F.rms_norm with its normaliser as a gate."""
    axes = tuple(range(-len(normalized_shape), 0))
    size = (input * input).mean(axes, keepdim=True) + (torch.finfo(input.dtype).eps if eps is None else eps)
    normed = input * gates.gate(size.rsqrt())
    return normed if weight is None else normed * weight


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Tensor:
    """F.normalize with its normaliser as a gate."""
    size = (input * input).sum(dim, keepdim=True).sqrt() if p == 2 else input.norm(p, dim, keepdim=True)
    return input * gates.gate(size.clamp_min(eps).reciprocal())


# The same call in parts that have rules of their own.
REWRITES: dict[str, Callable[..., Any]] = {
    "addmm": lambda input, a, b, *, beta=1, alpha=1: scaled(input, beta) + scaled(a @ b, alpha),
    "addmv": lambda input, a, b, *, beta=1, alpha=1: scaled(input, beta) + scaled(a @ b, alpha),
    "baddbmm": lambda input, a, b, *, beta=1, alpha=1: scaled(input, beta) + scaled(a @ b, alpha),
    "addcmul": lambda input, a, b, *, value=1: input + scaled(a * b, value),
    "lerp": lambda start, end, weight: (1 - weight) * start + weight * end,
    **dict.fromkeys(("detach", "data"), lambda tensor: tensor.view(tensor.shape)),
    "glu": lambda tensor, dim=-1: tensor.chunk(2, dim)[0] * tensor.chunk(2, dim)[1].sigmoid(),
    "avg_pool1d": average_pool,
    "group_norm": group_norm,
    "rms_norm": rms_norm,
    "normalize": normalize,
    **dict.fromkeys(("expit", "special_expit"), lambda tensor: tensor.sigmoid()),
    "square": lambda tensor: tensor * tensor,
    **dict.fromkeys(("__rdiv__", "__rtruediv__"), lambda tensor, other: tensor.reciprocal() * other),
    "scaled_dot_product_attention": attention.scaled_dot_product_attention,
    "multi_head_attention_forward": attention.multi_head_attention_forward,
    "adaptive_avg_pool1d": adaptive_average_pool,
    "iter": lambda tensor: iter(tensor.unbind(0)),
    "reversed": lambda tensor: tensor.flip(0),
}
