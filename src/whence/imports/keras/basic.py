"""Layers with one input: dense, embedding, convolution, pooling, normalisation, activations, moves."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whence.errors import ModelError
from whence.imports.keras.activations import ACTIVATIONS
from whence.imports.keras.layer import Flow, KerasLayer, Mask, Unmasked, Variable
from whence.imports.keras.options import Options, Shapes


def copy_into(parameter: Tensor, numbers: Tensor) -> None:
    """Write numbers into a parameter of the same shape."""
    with torch.no_grad():
        assert parameter.shape == numbers.shape, (parameter.shape, numbers.shape)
        parameter.copy_(numbers)


class Identity(KerasLayer):
    """What does something in training only: dropout, noise, regularisation."""


class Embedding(KerasLayer):
    """Rows of a table; with mask_zero, id 0 is masked."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        words, size = options.size("input_dim"), options.size("output_dim")
        self.mask_zero = options.flag("mask_zero")
        shapes.next("embeddings", words, size)
        self.table = nn.Embedding(words, size)

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """The table."""
        return [Variable("embeddings")]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take the table."""
        copy_into(self.table.weight, weights[0])

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T) ids to (B, T, E)."""
        return Flow((self.table(inputs[0].long()),), (inputs[0] != 0 if self.mask_zero else None,))


class Dense(KerasLayer):
    """A linear layer over the last axis, and an activation."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        units, self.activation = options.size("units"), ACTIVATIONS[options.activation()]
        has_bias = options.flag("use_bias", True)
        features, _ = shapes.next("kernel", None, units)
        if has_bias:
            shapes.next("bias", units)
        self.linear = nn.Linear(features, units, bias=has_bias)

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Kernel and bias."""
        return [Variable("kernel"), *([Variable("bias")] if options.flag("use_bias", True) else [])]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Keras' kernel is (inputs, units)."""
        copy_into(self.linear.weight, weights[0].T)
        if len(weights) > 1:
            copy_into(self.linear.bias, weights[1])

    def output(self, x: Tensor) -> Tensor:
        """activation(W x + b)."""
        return self.activation(self.linear(x))


def same_padding(length: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """The padding on both sides after which there is an output for every stride-th step; the odd one goes right."""
    width = (kernel - 1) * dilation + 1
    total = max((-(-length // stride) - 1) * stride + width - length, 0)
    return total // 2, total - total // 2


class Conv1D(Unmasked):
    """A convolution over time, (B, T, channels)."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        filters, kernel = options.size("filters"), options.size("kernel_size")
        stride, dilation = options.size("strides", 1), options.size("dilation_rate", 1)
        groups, self.padding = options.size("groups", 1), options.choice("padding", ("valid", "same", "causal"), "valid")
        options.choice("data_format", ("channels_last", None))
        self.activation, has_bias = ACTIVATIONS[options.activation()], options.flag("use_bias", True)
        _, channels, _ = shapes.next("kernel", kernel, None, filters)
        if has_bias:
            shapes.next("bias", filters)
        if filters % groups:
            raise ModelError(f"its {filters} filters cannot be split into {groups} groups")
        self.convolution = nn.Conv1d(
            channels * groups, filters, kernel, stride=stride, dilation=dilation, groups=groups, bias=has_bias
        )

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Kernel and bias."""
        return Dense.variables(options)

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Keras' kernel is (width, channels, filters)."""
        copy_into(self.convolution.weight, weights[0].permute(2, 1, 0))
        if len(weights) > 1 and self.convolution.bias is not None:
            copy_into(self.convolution.bias, weights[1])

    def output(self, x: Tensor) -> Tensor:
        """Pad, convolve, activate."""
        (kernel,), (stride,), (dilation,) = (
            self.convolution.kernel_size,
            self.convolution.stride,
            self.convolution.dilation,
        )
        x = x.transpose(1, 2)
        if self.padding == "causal":
            x = F.pad(x, (dilation * (kernel - 1), 0))
        elif self.padding == "same":
            x = F.pad(x, same_padding(x.shape[-1], kernel, stride, dilation))
        return self.activation(self.convolution(x).transpose(1, 2))


class Pooling(Unmasked):
    """Pooling over time, (B, T, channels)."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.size = options.size("pool_size", 2)
        self.stride = self.size if options.values.get("strides") is None else options.size("strides")
        self.padding = options.choice("padding", self.paddings, "valid")
        options.choice("data_format", ("channels_last", None))

    paddings: tuple[str, ...] = ("valid", "same")

    def output(self, x: Tensor) -> Tensor:
        """Pad, pool."""
        x = x.transpose(1, 2)
        if self.padding == "same":  # a window beyond the end holds the last step itself, so its maximum does not change
            x = F.pad(x, same_padding(x.shape[-1], self.size, self.stride), mode="replicate")
        if x.shape[-1] < self.size:
            raise ModelError(f"{x.shape[-1]} steps are too few for windows of {self.size}")
        return self.pooled(x).transpose(1, 2)

    def pooled(self, x: Tensor) -> Tensor:
        """(B, channels, T) to (B, channels, windows)."""
        raise NotImplementedError


class MaxPooling1D(Pooling):
    """The largest number of each window."""

    def pooled(self, x: Tensor) -> Tensor:
        """(B, channels, T) to (B, channels, windows)."""
        return F.max_pool1d(x, self.size, self.stride)


class AveragePooling1D(Pooling):
    """The mean of each window. Keras' own backends disagree about windows beyond the end, so there are none."""

    paddings = ("valid",)

    def pooled(self, x: Tensor) -> Tensor:
        """(B, channels, T) to (B, channels, windows)."""
        return F.avg_pool1d(x, self.size, self.stride)


class GlobalPooling(Unmasked):
    """Pooling over all steps."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.keepdims = options.flag("keepdims")
        options.choice("data_format", ("channels_last", None))


class GlobalMaxPooling1D(GlobalPooling):
    """The largest number of each channel, masked steps included, as in Keras."""

    def output(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, C)."""
        return x.amax(1, keepdim=self.keepdims)


class GlobalAveragePooling1D(GlobalPooling):
    """The mean of each channel over the steps that are not masked."""

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T, C) to (B, C)."""
        x, mask = inputs[0], masks[0]
        if mask is None:
            return Flow((x.mean(1, keepdim=self.keepdims),), (None,))
        kept = mask[..., None]
        total = torch.where(kept, x, torch.zeros_like(x)).sum(1, keepdim=self.keepdims)
        return Flow((total / kept.to(x.dtype).sum(1, keepdim=self.keepdims),), (None,))


class BatchNormalization(KerasLayer):
    """Normalised with the moving statistics, along one axis."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axis = options.size("axis", -1, least=-4, largest=4)
        self.epsilon = options.number("epsilon", 1e-3)
        has_scale, has_offset = options.flag("scale", True), options.flag("center", True)
        names = [*(["gamma"] if has_scale else []), *(["beta"] if has_offset else []), "mean", "variance"]
        size = {shapes.next(name, None)[0] for name in names}
        if len(size) != 1:
            raise ModelError("its weights have different sizes")
        (features,) = size
        self.gamma = nn.Parameter(torch.ones(features)) if has_scale else None
        self.beta = nn.Parameter(torch.zeros(features)) if has_offset else None
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Scale and offset if there are any, mean and variance."""
        trained = [name for name, key in (("gamma", "scale"), ("beta", "center")) if options.flag(key, True)]
        return [*map(Variable, trained), Variable("mean", trainable=False), Variable("variance", trainable=False)]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take what there is."""
        own = [each for each in (self.gamma, self.beta) if each is not None]
        for parameter, numbers in zip([*own, cast(Tensor, self.mean), cast(Tensor, self.variance)], weights, strict=True):
            copy_into(parameter, numbers)

    def output(self, x: Tensor) -> Tensor:
        """γ (x − mean) / √(variance + ε) + β."""
        moved = x.movedim(self.axis, 1)
        mean, variance = cast(Tensor, self.mean), cast(Tensor, self.variance)
        return F.batch_norm(moved, mean, variance, self.gamma, self.beta, eps=self.epsilon).movedim(1, self.axis)


class LayerNormalization(KerasLayer):
    """Normalised over the last axis."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        options.size("axis", -1, least=-4, largest=4)
        self.axis, self.epsilon = cast(int, options.taken["axis"]), options.number("epsilon", 1e-3)
        has_scale, has_offset = options.flag("scale", True), options.flag("center", True)
        if not has_scale and not has_offset:
            raise ModelError("it has neither scale nor center, and thus no size")
        names = [*(["gamma"] if has_scale else []), *(["beta"] if has_offset else [])]
        self.size = {shapes.next(name, None)[0] for name in names}.pop()
        self.gamma = nn.Parameter(torch.ones(self.size)) if has_scale else None
        self.beta = nn.Parameter(torch.zeros(self.size)) if has_offset else None

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Scale and offset, if there are any."""
        if options.flag("rms_scaling"):
            raise ModelError("its option 'rms_scaling' = True is not supported")
        return [Variable(name) for name, key in (("gamma", "scale"), ("beta", "center")) if options.flag(key, True)]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take what there is."""
        for parameter, numbers in zip((each for each in (self.gamma, self.beta) if each is not None), weights, strict=True):
            copy_into(parameter, numbers)

    def output(self, x: Tensor) -> Tensor:
        """γ (x − mean) / √(variance + ε) + β, over the features of each step."""
        if self.axis not in (-1, x.dim() - 1):
            raise ModelError(f"axis is {self.axis}; only the last one is supported")
        return F.layer_norm(x, (self.size,), self.gamma, self.beta, self.epsilon)


class Normalization(KerasLayer):
    """(x − mean) / √variance, with the statistics of the training data."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        axis = options.values.get("axis", -1)
        axis = None if axis == [] else axis  # as Keras writes that there is none
        if axis is not None:
            options.size("axis", -1, least=-4, largest=4)
        options.taken["axis"] = axis if axis is None else options.taken["axis"]
        given = [options.numbers(name) for name in ("mean", "variance")]
        self.given = [torch.tensor(each, dtype=torch.float32, device="cpu") for each in given if each is not None]
        names = () if self.given else ("mean", "variance", "count")
        mean, variance, count = [*(tuple(each.shape) for each in self.given), *map(shapes.any, names), ()][:3]
        if mean != variance or len(mean) > 1 or count != ():
            raise ModelError(f"its mean is {mean} and its variance {variance}; they must be of one size")
        self.axis = cast(int | None, options.taken["axis"])
        self.register_buffer("mean", torch.zeros(mean))
        self.register_buffer("deviation", torch.ones(mean))

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """The statistics, and of how many samples; none if they are options."""
        if (options.numbers("mean") is None) != (options.numbers("variance") is None):
            raise ModelError("of mean and variance only one is given; both are needed")
        if options.numbers("mean") is not None:
            return []
        return [Variable(name, trainable=False) for name in ("mean", "variance", "count")]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Keras keeps a deviation of zero off the denominator."""
        mean, variance = self.given or weights[:2]
        copy_into(cast(Tensor, self.mean), mean)
        copy_into(cast(Tensor, self.deviation), variance.sqrt().clamp(min=1e-7))

    def output(self, x: Tensor) -> Tensor:
        """(x − mean) / deviation."""
        if self.axis is not None and self.axis not in (-1, x.dim() - 1):
            raise ModelError(f"axis is {self.axis}; only the last one is supported")
        return (x - cast(Tensor, self.mean)) / cast(Tensor, self.deviation)


class Rescaling(KerasLayer):
    """scale · x + offset."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.scale, self.offset = options.number("scale"), options.number("offset", 0.0)

    def output(self, x: Tensor) -> Tensor:
        """scale · x + offset."""
        return x * self.scale + self.offset


class Activation(KerasLayer):
    """An activation by name."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.function = ACTIVATIONS[options.activation()]

    def output(self, x: Tensor) -> Tensor:
        """The activation."""
        return self.function(x)


class ReLU(KerasLayer):
    """max(x, 0), with a slope below and a limit above."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.slope = (options.optional_number("negative_slope") if "negative_slope" in options.values else None) or 0.0
        self.limit = options.optional_number("max_value")
        if (options.optional_number("threshold") or 0.0) != 0:
            raise ModelError(f"threshold is {options.taken['threshold']}; only 0 is supported")
        if self.limit is not None and (self.slope or self.limit < 0):
            raise ModelError("max_value is supported without a slope, from 0 on")

    def output(self, x: Tensor) -> Tensor:
        """The activation."""
        if self.limit is not None:
            return x.clamp(0, self.limit)
        return F.leaky_relu(x, self.slope) if self.slope else F.relu(x)


class LeakyReLU(KerasLayer):
    """x, or slope · x below zero; Keras 2 calls the slope alpha."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.slope = options.number("alpha" if "alpha" in options.values else "negative_slope", 0.3)

    def output(self, x: Tensor) -> Tensor:
        """The activation."""
        return F.leaky_relu(x, self.slope)


class ELU(KerasLayer):
    """x, or α (eˣ − 1) below zero."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.alpha = options.number("alpha", 1.0)

    def output(self, x: Tensor) -> Tensor:
        """The activation."""
        return F.elu(x, self.alpha)


class PReLU(KerasLayer):
    """x, or α x below zero, with an α for every feature, or for every step and feature."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        options.taken["shared_axes"] = options.values.get("shared_axes")  # α's shape says the same
        shape = shapes.any("alpha")
        if not 1 <= len(shape) <= 3 or 0 in shape:
            raise ModelError(f"its weight alpha is {shape}; it must have one to three axes")
        self.alpha = nn.Parameter(torch.zeros(shape))

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """The slopes."""
        return [Variable("alpha")]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take the slopes."""
        copy_into(self.alpha, weights[0])

    def output(self, x: Tensor) -> Tensor:
        """The activation."""
        if self.alpha.dim() != x.dim() - 1:
            raise ModelError(f"its weight alpha has {self.alpha.dim()} axes, and its input {x.dim()}")
        return torch.where(x > 0, x, x * self.alpha)


class Softmax(KerasLayer):
    """Softmax over one axis."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axis = options.size("axis", -1, least=-4, largest=4)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """The softmax."""
        if masks[0] is not None:
            raise ModelError("a mask reaches a Softmax layer, which is not supported")
        return Flow((inputs[0].softmax(self.axis),), (None,))


class Masking(KerasLayer):
    """Masks the steps whose features all have one value."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.value = options.number("mask_value", 0.0)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """Zeros at masked steps."""
        mask = (inputs[0] != self.value).any(-1)
        return Flow((torch.where(mask[..., None], inputs[0], torch.zeros_like(inputs[0])),), (mask,))


class Flatten(Unmasked):
    """All axes but the first in one."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        options.choice("data_format", ("channels_last", None))

    def output(self, x: Tensor) -> Tensor:
        """(B, …) to (B, N)."""
        return x.reshape(x.shape[0], -1) if x.dim() > 1 else x[:, None]


class Reshape(Unmasked):
    """Another form of each sample."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.form = options.sizes("target_shape", least=-1)

    def output(self, x: Tensor) -> Tensor:
        """(B, …) to (B, *form)."""
        return x.reshape(x.shape[0], *self.form)


class Permute(Unmasked):
    """The axes of each sample in another order."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.order = options.sizes("dims")
        if sorted(self.order) != list(range(1, len(self.order) + 1)):
            raise ModelError(f"dims is {self.order}; it must name each axis once")

    def output(self, x: Tensor) -> Tensor:
        """The permuted axes."""
        return x.permute(0, *self.order)


class RepeatVector(Unmasked):
    """(B, E) to (B, n, E)."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.count = options.size("n", largest=2**16)

    def output(self, x: Tensor) -> Tensor:
        """The vector n times."""
        if x.dim() != 2:
            raise ModelError(f"it repeats a vector, and its input has {x.dim()} axes")
        return x[:, None].expand(-1, self.count, -1)


class ZeroPadding1D(Unmasked):
    """Zeros before and after the steps."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.left, self.right = options.sizes("padding", count=2, least=0)
        options.choice("data_format", ("channels_last", None))

    def output(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, left + T + right, C)."""
        return F.pad(x, (0, 0, self.left, self.right))


class Cropping1D(Unmasked):
    """Without the first and the last steps."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.left, self.right = options.sizes("cropping", count=2, least=0)

    def output(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, T − left − right, C)."""
        if x.shape[1] <= self.left + self.right:
            raise ModelError(f"it crops {self.left} + {self.right} of {x.shape[1]} steps")
        return x[:, self.left : x.shape[1] - self.right]


class UpSampling1D(Unmasked):
    """Every step several times."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.count = options.size("size", 2, largest=2**10)

    def output(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, T · n, C)."""
        return x.repeat_interleave(self.count, 1)
