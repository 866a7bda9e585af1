"""Operators with weights or windows: matrix products, convolutions, pooling and normalisation."""

from collections.abc import Callable
from copy import copy
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.errors import ModelError
from whence.imports.onnx.operators.elementwise import Operand, tensor_of
from whence.imports.onnx.operators.shapes import from_front
from whence.imports.onnx.run import Ints, Run, axis_of

CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED: dict[int, Callable[..., Tensor]] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAXIMA = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGES = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def matmul(run: Run, a: Tensor, b: Tensor) -> Tensor:
    """MatMul; with a trained matrix on the right it is a linear layer."""
    if isinstance(b, torch.nn.Parameter) and b.dim() == 2:
        return F.linear(a, b.t())
    return torch.matmul(a, b)


def gemm(
    run: Run,
    a: Tensor,
    b: Tensor,
    c: Operand | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Gemm: α A B + β C."""
    a, weight = a.t() if transA else a, b if transB else b.t()
    is_layer = isinstance(b, torch.nn.Parameter)
    if is_layer and isinstance(c, torch.nn.Parameter) and alpha == 1 and beta == 1 and c.shape == weight.shape[:1]:
        return F.linear(a, weight, c)
    found = F.linear(a, weight) if is_layer else torch.matmul(a, weight.t())
    found = found if alpha == 1 else alpha * found
    return found if c is None or beta == 0 else found + (c if beta == 1 else beta * c)


def einsum(run: Run, *operands: Tensor, equation: str) -> Tensor:
    """Einsum."""
    return torch.einsum(equation, *operands)


class Windows:
    """The windows of a convolution or pooling over the last `n` axes."""

    def __init__(
        self, x: Tensor, kernel: Ints, strides: Ints | None, dilations: Ints | None, pads: Ints | None, auto_pad: str
    ) -> None:
        self.n = n = len(kernel)
        self.kernel, self.strides, self.dilations = kernel, strides or (1,) * n, dilations or (1,) * n
        if x.dim() != n + 2 or n not in CONVOLUTIONS:
            raise ModelError(
                f"a window of {n} axes on a tensor of shape {tuple(x.shape)}; 1 to 3 axes after batch and channels are known"
            )
        if len(self.strides) != n or len(self.dilations) != n or len(pads or (0,) * 2 * n) != 2 * n:
            raise ModelError(f"strides, dilations and pads do not belong to a window of {n} axes")
        if min(*self.strides, *self.dilations, *self.kernel) < 1 or min(pads or (0,)) < 0:
            raise ModelError("a window's sizes and strides must be positive, its pads not negative")
        begin, end = (pads or (0,) * 2 * n)[:n], (pads or (0,) * 2 * n)[n:]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            begin, end = self._same(x, auto_pad == "SAME_LOWER")
        elif auto_pad not in ("NOTSET", "VALID", ""):
            raise ModelError(f"auto_pad {auto_pad!r} is not known")
        self.begin, self.end = tuple(begin), tuple(end)

    def _same(self, x: Tensor, lower: bool) -> tuple[Ints, Ints]:
        total = [
            max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            for size, k, s, d in zip(x.shape[2:], self.kernel, self.strides, self.dilations, strict=True)
        ]
        small, large = tuple(each // 2 for each in total), tuple(each - each // 2 for each in total)
        return (large, small) if lower else (small, large)

    def padded(self, x: Tensor, value: float) -> Tensor:
        """The tensor with its padding written out."""
        if not any((*self.begin, *self.end)):
            return x
        pairs = [size for pair in reversed(list(zip(self.begin, self.end, strict=True))) for size in pair]
        return F.pad(x, pairs, value=value)

    def reaching(self, x: Tensor) -> "Windows":
        """ceil_mode written out: padding up to the end of the last window that begins before the padding at the end."""
        reached = copy(self)
        reached.end = tuple(map(self._end_of_last, x.shape[2:], range(self.n)))
        return reached

    def _end_of_last(self, size: int, axis: int) -> int:
        """How far the last window of an axis reaches beyond the tensor, at least 0."""
        stride, span = self.strides[axis], (self.kernel[axis] - 1) * self.dilations[axis] + 1
        last = -(-(self.begin[axis] + size + self.end[axis] - span) // stride)
        if last * stride >= self.begin[axis] + size:
            last -= 1
        return max(last * stride + span - self.begin[axis] - size, 0)

    @property
    def is_even(self) -> bool:
        """Whether the padding is the same on both sides."""
        return self.begin == self.end


def conv(
    run: Run,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Conv over one to three axes."""
    windows = Windows(x, tuple(w.shape[2:]), strides, dilations, pads, auto_pad)
    padding = windows.begin if windows.is_even else 0
    padded = x if windows.is_even else windows.padded(x, 0.0)
    return CONVOLUTIONS[windows.n](padded, w, b, windows.strides, padding, windows.dilations, group)


def conv_transpose(
    run: Run,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """ConvTranspose with the same padding on both sides."""
    windows = Windows(x, tuple(w.shape[2:]), strides, dilations, pads, "NOTSET")
    if auto_pad not in ("NOTSET", "VALID") or output_shape or not windows.is_even:
        raise ModelError("ConvTranspose is read only with equal pads on both sides, without auto_pad and output_shape")
    extra = output_padding or (0,) * windows.n
    return TRANSPOSED[windows.n](x, w, b, windows.strides, windows.begin, extra, group, windows.dilations)


def max_pool(
    run: Run,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> Tensor:
    """MaxPool over one to three axes."""
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad)
    if auto_pad.startswith("SAME") and any(each != 1 for each in windows.dilations):
        raise ModelError(f"MaxPool is read with auto_pad {auto_pad!r} only without dilations, as onnxruntime pads it otherwise")
    windows = windows.reaching(x) if ceil_mode else windows
    fits = windows.is_even and all(2 * pad <= size for pad, size in zip(windows.begin, windows.kernel, strict=True))
    padded = x if fits else windows.padded(x, float("-inf"))
    padding = windows.begin if fits else 0
    function = cast(Callable[..., Tensor], MAXIMA[windows.n])
    return function(padded, windows.kernel, windows.strides, padding, windows.dilations)


def average_pool(
    run: Run,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """AveragePool over one to three axes."""
    windows = Windows(x, kernel_shape, strides, dilations, pads, auto_pad)
    if ceil_mode or any(each != 1 for each in windows.dilations):
        raise ModelError("AveragePool is read without ceil_mode and dilations")
    function = cast(Callable[..., Tensor], AVERAGES[windows.n])
    pooled = function(windows.padded(x, 0.0), windows.kernel, windows.strides)
    if count_include_pad or not any((*windows.begin, *windows.end)):
        return pooled
    counted = function(windows.padded(torch.ones_like(x), 0.0), windows.kernel, windows.strides)
    return pooled * (1 / counted)


def global_average_pool(run: Run, x: Tensor) -> Tensor:
    """GlobalAveragePool."""
    return x.mean(list(range(2, x.dim())), keepdim=True)


def global_max_pool(run: Run, x: Tensor) -> Tensor:
    """GlobalMaxPool."""
    return x.amax(list(range(2, x.dim())), keepdim=True)


def batch_norm(
    run: Run,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
) -> Tensor:
    """BatchNormalization by its fixed statistics."""
    if training_mode or not spatial:
        raise ModelError("BatchNormalization is in training mode or not spatial; export the model for inference (model.eval())")
    return F.batch_norm(x, mean, var, scale, bias, training=False, eps=epsilon)


def layer_norm(
    run: Run,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """LayerNormalization over an axis and all after it."""
    shape = x.shape[axis_of(axis, x.dim()) :]
    if scale.shape == shape and (bias is None or bias.shape == shape):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    normed = F.layer_norm(x, shape, eps=epsilon) * scale
    return normed if bias is None else normed + bias


def rms_norm(run: Run, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    """RMSNormalization over an axis and all after it."""
    shape = x.shape[axis_of(axis, x.dim()) :]
    return F.rms_norm(x, list(shape), scale.expand(shape), epsilon)


def instance_norm(run: Run, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """InstanceNormalization."""
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def group_norm(
    run: Run, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """GroupNormalization; before opset 21, scale and bias belonged to the groups."""
    if num_groups < 1 or x.shape[1] % num_groups:
        raise ModelError(f"GroupNormalization has {num_groups} groups for {x.shape[1]} channels")
    if run.opset < 21:
        each = x.shape[1] // num_groups
        scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def lp_norm(run: Run, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """LpNormalization: of however small vectors; those whose norm is 0, if only by rounding, become zeros."""
    norm = cast(Tensor, torch.linalg.vector_norm(x, p, axis, keepdim=True))  # pyright: ignore
    kept = torch.where(norm == 0, torch.zeros_like(x), x)
    return F.normalize(kept, float(p), axis, eps=torch.finfo(x.dtype).tiny)


def one_hot(run: Run, ids: Tensor, depth: Operand, values: Tensor, *, axis: int = -1) -> Tensor:
    """OneHot; with the values 0 and 1 in a new last axis, ids can be explained through it."""
    size, (low, high) = int(tensor_of(run, depth).reshape(-1)[0]), cast(Any, values.tolist())
    ids = from_front(ids, size)
    if bool(((ids < 0) | (ids >= size)).any()):
        found = (ids.unsqueeze(-1) == torch.arange(size, device=ids.device)).to(
            values.dtype
        )  # none, for an id that is not there
    else:
        found = F.one_hot(ids.long(), size).to(values.dtype)
    if (low, high) != (0, 1):
        found = found * (high - low) + low
    return found if axis in (-1, ids.dim()) else found.movedim(-1, axis)


def resize(
    run: Run,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    antialias: int = 0,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Resize of the axes after batch and channels, as PyTorch does it; other ways are refused."""
    wanted = _resized(x, scales, sizes)
    way, is_stretched = coordinate_transformation_mode, keep_aspect_ratio_policy == "stretch" and not antialias
    is_half_pixel = way == "half_pixel" or (way == "pytorch_half_pixel" and 1 not in wanted)
    if mode == "nearest" and is_stretched:
        is_whole = all(new % old == 0 for new, old in zip(wanted, x.shape[2:], strict=True))
        if (way, nearest_mode) == ("asymmetric", "floor") or (is_half_pixel and is_whole and nearest_mode.startswith("round")):
            return F.interpolate(x, wanted, mode="nearest")
    if mode == "linear" and is_stretched and (way == "align_corners" or is_half_pixel):
        names = {1: "linear", 2: "bilinear", 3: "trilinear"}
        return F.interpolate(x, wanted, mode=names[x.dim() - 2], align_corners=way == "align_corners")
    raise ModelError(f"Resize with mode {mode!r}, {way!r} and {nearest_mode!r} is not known for these sizes")


def _resized(x: Tensor, scales: Tensor | None, sizes: Tensor | None) -> list[int]:
    """The new sizes of the axes after batch and channels."""
    if sizes is not None and sizes.numel():
        wanted = cast("list[int]", sizes.tolist())
    elif scales is not None and scales.numel() == x.dim():
        factors = cast("list[float]", scales.tolist())
        wanted = [round(size * factor) for size, factor in zip(x.shape, factors, strict=True)]
        if any(abs(new - size * factor) > 1e-4 for new, size, factor in zip(wanted, x.shape, factors, strict=True)):
            raise ModelError("Resize by scales that give no whole sizes is not known")
    else:
        raise ModelError("Resize needs scales or sizes for every axis")
    if x.dim() < 3 or len(wanted) != x.dim() or wanted[:2] != list(x.shape[:2]):
        raise ModelError("Resize is read for the axes after batch and channels alone")
    return wanted[2:]
