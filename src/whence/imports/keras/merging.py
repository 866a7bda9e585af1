"""Layers with several inputs: sums, products, joins and attention."""

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whence.errors import ModelError
from whence.imports.keras.basic import copy_into
from whence.imports.keras.layer import Flow, KerasLayer, Mask, Variable
from whence.imports.keras.options import Options, Shapes

SEVERAL = 64
FAR_BELOW = 1e9  # what Keras subtracts from a score that is left out


class Merge(KerasLayer):
    """Elementwise; a step is masked where all inputs mask it."""

    least_inputs, most_inputs = 1, SEVERAL

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """The merged inputs, of which those with fewer axes get new ones after the first."""
        axes = max(x.dim() for x in inputs)
        aligned = [x.reshape(x.shape[0], *[1] * (axes - x.dim()), *x.shape[1:]) for x in inputs]
        return Flow((self.merged(aligned, masks),), (any_of(masks),))

    def merged(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Tensor:
        """Inputs of equal rank in, their merger out."""
        raise NotImplementedError


def any_of(masks: Sequence[Mask]) -> Mask:
    """True where one of the masks is; None if one of them is None."""
    found = [mask for mask in masks if mask is not None]
    if len(found) < len(masks):
        return None
    total = found[0]
    for mask in found[1:]:
        total = total | mask
    return total


class Add(Merge):
    """The sum."""

    def merged(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Tensor:
        """The sum."""
        total = inputs[0]
        for x in inputs[1:]:
            total = total + x
        return total


class Average(Add):
    """The mean."""

    def merged(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Tensor:
        """The mean."""
        return super().merged(inputs, masks) / len(inputs)


class Subtract(Merge):
    """The difference."""

    least_inputs, most_inputs = 2, 2

    def merged(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Tensor:
        """The difference."""
        return inputs[0] - inputs[1]


class Multiply(Merge):
    """The product, of the factors that are not masked."""

    def merged(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Tensor:
        """The product."""
        product: Tensor | None = None
        for x, mask in zip(inputs, masks, strict=True):
            factor = x if mask is None else torch.where(mask[..., None], x, torch.ones_like(x))
            product = factor if product is None else product * factor
        assert product is not None
        kept = any_of(masks)
        return product if kept is None else torch.where(kept[..., None], product, torch.zeros_like(product))


class Maximum(Merge):
    """The elementwise maximum."""

    def merged(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Tensor:
        """The maximum."""
        if any(mask is not None for mask in masks):
            raise ModelError("a mask reaches it, which is not supported")
        largest = inputs[0]
        for x in inputs[1:]:
            largest = self.picked(largest, x)
        return largest

    def picked(self, x: Tensor, y: Tensor) -> Tensor:
        """The larger one."""
        return torch.maximum(x, y)


class Minimum(Maximum):
    """The elementwise minimum."""

    def picked(self, x: Tensor, y: Tensor) -> Tensor:
        """The smaller one."""
        return torch.minimum(x, y)


class Concatenate(KerasLayer):
    """Inputs joined along an axis."""

    least_inputs, most_inputs = 1, SEVERAL

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axis = options.size("axis", -1, least=-4, largest=4)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """The joined inputs; an input without a mask counts everywhere."""
        return Flow((torch.cat(tuple(inputs), self.axis),), (self._mask(inputs, masks),))

    def _mask(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Mask:
        if all(mask is None for mask in masks):
            return None
        wide = [
            torch.ones_like(x, dtype=torch.bool) if mask is None else mask[..., None].expand(x.shape)
            for x, mask in zip(inputs, masks, strict=True)
        ]
        return torch.cat(wide, self.axis).any(-1)


class Dot(KerasLayer):
    """Products over one axis of each input."""

    least_inputs, most_inputs = 2, 2

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.axes = options.sizes("axes", count=2, least=-3)
        self.normalize = options.flag("normalize")
        if 0 in self.axes:
            raise ModelError(f"axes is {self.axes}; axis 0 is the batch")

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, …, n, …) and (B, …, n, …) to (B, …, …)."""
        x, y = inputs
        if x.dim() not in (2, 3) or y.dim() not in (2, 3):
            raise ModelError(f"its inputs have {x.dim()} and {y.dim()} axes; two or three are supported")
        if self.normalize:
            x, y = F.normalize(x, dim=self.axes[0]), F.normalize(y, dim=self.axes[1])
        rows = x.movedim(self.axes[0], -1) if x.dim() == 3 else x[:, None]  # (B, p, n)
        columns = y.movedim(self.axes[1], 1) if y.dim() == 3 else y[:, :, None]  # (B, n, q)
        product = rows @ columns
        if y.dim() == 2 and x.dim() == 3:
            product = product.squeeze(-1)
        elif x.dim() == 2:
            product = product.squeeze(1)
        return Flow((product,), (None,))


def attended(scores: Tensor, value: Tensor, kept: Mask) -> Tensor:
    """The mean of the values, weighted by the softmax of those scores that are kept."""
    if kept is not None:
        scores = torch.where(kept, scores, scores - FAR_BELOW)
    return scores.softmax(-1) @ value


def causal(scores: Tensor) -> Tensor:
    """(T, S): true where the key is not later than the query."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()


class Attention(KerasLayer):
    """Dot-product attention: inputs query, value and, if it is another, key."""

    least_inputs, most_inputs = 2, 3

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.mode = options.choice("score_mode", ("dot", "concat"), "dot")
        has_scale = options.flag("use_scale")
        self.is_causal = options.flag("use_causal_mask") or options.flag("causal")
        names = [*(["scale"] if has_scale else []), *(["concat_score_weight"] if self.mode == "concat" else [])]
        for name in names:
            shapes.next(name)
        self.scale = nn.Parameter(torch.ones(())) if has_scale else None
        self.weight = nn.Parameter(torch.ones(())) if self.mode == "concat" else None

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """A scale, and the weight of the scores in the mode "concat"."""
        has_weight = options.values.get("score_mode") == "concat"
        return [
            *([Variable("scale")] if options.flag("use_scale") else []),
            *([Variable("concat_score_weight")] if has_weight else []),
        ]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take what there is."""
        for parameter, numbers in zip((each for each in (self.scale, self.weight) if each is not None), weights, strict=True):
            copy_into(parameter, numbers)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T, E), (B, S, E) to (B, T, E)."""
        query, value, key = inputs[0], inputs[1], inputs[-1]
        scores = self.scores(query, key)
        kept = None if masks[1] is None else masks[1][:, None]
        if self.is_causal:
            kept = causal(scores) if kept is None else causal(scores) & kept
        output = attended(scores, value, kept)
        if masks[0] is not None:
            output = torch.where(masks[0][..., None], output, torch.zeros_like(output))
        return Flow((output,), (masks[0],))

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, T, S)."""
        if self.weight is None:
            scores = query @ key.transpose(1, 2)
            return scores if self.scale is None else scores * self.scale
        total = query[:, :, None] + key[:, None]
        return self.weight * torch.tanh(total if self.scale is None else self.scale * total).sum(-1)


class AdditiveAttention(Attention):
    """Scores Σ scale · tanh(query + key)."""

    def __init__(self, options: Options, shapes: Shapes) -> None:
        KerasLayer.__init__(self, options, shapes)
        has_scale = options.flag("use_scale", True)
        options.choice("score_mode", ("dot", "concat", None))  # Keras 3 writes it and does not read it
        self.is_causal = options.flag("use_causal_mask") or options.flag("causal")
        self.scale = nn.Parameter(torch.ones(shapes.next("scale", None))) if has_scale else None
        self.weight = None

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """A scale for each feature."""
        return [Variable("scale")] if options.flag("use_scale", True) else []

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, T, S)."""
        total = torch.tanh(query[:, :, None] + key[:, None])
        return (total if self.scale is None else total * self.scale).sum(-1)


class MultiHeadAttention(KerasLayer):
    """Attention with several heads: inputs query, value and, if it is another, key."""

    least_inputs, most_inputs = 2, 3

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.heads, size = options.size("num_heads", largest=1024), options.size("key_dim")
        value_size = options.size("value_dim", size)
        has_bias, self.is_causal = options.flag("use_bias", True), options.flag("use_causal_mask")
        if options.values.get("attention_axes") is not None and options.sizes("attention_axes") != [1]:
            raise ModelError(f"attention_axes is {options.taken['attention_axes']}; only [1] is supported")
        options.choice("output_shape", (None,))
        self.projections = nn.ModuleList()
        for name, width in (("query", size), ("key", size), ("value", value_size)):
            features = shapes.next(f"{name} kernel", None, self.heads, width)[0]
            if has_bias:
                shapes.next(f"{name} bias", self.heads, width)
            self.projections.append(nn.Linear(features, self.heads * width, bias=has_bias))
        features = shapes.next("output kernel", self.heads, value_size, None)[-1]
        if has_bias:
            shapes.next("output bias", features)
        self.joined = nn.Linear(self.heads * value_size, features, bias=has_bias)
        self.factor = 1 / math.sqrt(size)

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Kernel and bias of three projections and of the output."""
        kinds = ("kernel", "bias") if options.flag("use_bias", True) else ("kernel",)
        return [Variable(f"{part} {kind}", f"{part}_dense") for part in ("query", "key", "value", "output") for kind in kinds]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Keras' kernels are (features, heads, size), that of the output (heads, size, features)."""
        left = list(weights)
        layers = cast(list[nn.Linear], [*self.projections, self.joined])
        for n, layer in enumerate(layers):
            kernel = left.pop(0)
            matrix = kernel.flatten(0, 1) if n == 3 else kernel.flatten(1)
            copy_into(layer.weight, matrix.T)
            if cast(Tensor | None, layer.bias) is not None:
                copy_into(layer.bias, left.pop(0).flatten())

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T, E), (B, S, E) to (B, T, E)."""
        order = (inputs[0], inputs[-1], inputs[1])
        query, key, value = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project, x in zip(self.projections, order, strict=True)
        )
        scores = query @ key.transpose(-2, -1) * self.factor  # (B, heads, T, S)
        kept = self._kept(masks, scores, has_key=len(inputs) > 2)
        output = attended(scores, value, kept).transpose(1, 2).flatten(2)
        return Flow((self.joined(output),), (masks[0],))

    def _kept(self, masks: Sequence[Mask], scores: Tensor, *, has_key: bool) -> Mask:
        """Which scores count, (B, 1, T, S)."""
        parts: list[Tensor] = []
        if masks[0] is not None:
            parts.append(masks[0][:, None, :, None])
        if masks[1] is not None:
            parts.append(masks[1][:, None, None])
        if has_key and masks[2] is not None:
            parts.append(masks[2][:, None, None])
        if self.is_causal:
            parts.append(causal(scores))
        if not parts:
            return None
        kept = parts[0]
        for part in parts[1:]:
            kept = kept & part
        return kept
