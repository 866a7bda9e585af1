"""The one table of ONNX operators: what each computes. Inputs and attributes that it knows are read off its function.

A function takes the run, then the node's inputs, then its attributes as keywords. An input that may be a Python number gets one
for a constant of one number. Recurrent layers and loops are not here, but in `recurrent` and `control`.
"""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.imports.onnx.graph import Attribute, Node
from whence.imports.onnx.operators import elementwise, layers, reductions, shapes
from whence.imports.onnx.operators.elementwise import binary, unary, variadic
from whence.imports.onnx.operators.reductions import reduction

NOT_AN_ATTRIBUTE = "outputs"  # a keyword that gets the number of the node's outputs


@dataclass(frozen=True)
class Operator:
    """What an operator computes, and what a node of it may have."""

    function: Callable[..., Tensor | Sequence[Tensor]]
    kinds: tuple[object, ...]  # the type of each input; the last one counts for all that follow
    least: int
    most: int | None  # None for any number
    attributes: Mapping[str, object]  # name to type
    needed: frozenset[str]
    has_many_outputs: bool
    counts_outputs: bool

    def kind(self, place: int) -> object:
        """The type of an input."""
        return self.kinds[min(place, len(self.kinds) - 1)]

    def takes_number(self, place: int) -> bool:
        """Whether an input may be a Python number."""
        return float in typing.get_args(self.kind(place)) or self.broadcasts(place)

    def broadcasts(self, place: int) -> bool:
        """Whether an input is broadcast with others."""
        return self.kind(place) is elementwise.Broadcast

    def problems(self, node: Node) -> list[str]:
        """What a node has that the operator does not know."""
        found = attribute_problems(node, self.attributes, self.needed)
        count = len(node.inputs)
        if count < self.least or (self.most is not None and count > self.most) or "" in node.inputs[: self.least]:
            found.append(f"{count} inputs")
        if any(node.outputs[1:]) and not self.has_many_outputs:
            found.append(f"{len(node.outputs)} outputs")
        if node.graphs:
            found.append("a graph")
        return found


def attribute_problems(node: Node, attributes: Mapping[str, object], needed: frozenset[str]) -> list[str]:
    """The attributes of a node that are not known, of another type, or missing."""
    unknown = [f"attribute {name}" for name in node.attributes if name not in attributes]
    wrong = [
        f"attribute {name} of another type"
        for name, value in node.attributes.items()
        if name in attributes and not _is_a(value, attributes[name])
    ]
    return unknown + wrong + [f"no attribute {name}" for name in sorted(needed - set(node.attributes))]


def _is_a(value: Attribute, kind: object) -> bool:
    kinds = [each for each in typing.get_args(kind) if each is not type(None)]
    if typing.get_origin(kind) is tuple:
        (element, *_) = typing.get_args(kind)
        return isinstance(value, tuple) and all(_is_a(each, element) for each in value)
    if kinds:
        return any(_is_a(value, each) for each in kinds)
    return isinstance(value, (int, float)) if kind is float else isinstance(value, cast(type, kind))


def operator(function: Callable[..., Any]) -> Operator:
    """An operator from its function's signature."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    inputs = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)]
    keywords = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.name != NOT_AN_ATTRIBUTE]
    is_variadic = any(each.kind is each.VAR_POSITIONAL for each in inputs)
    return Operator(
        function,
        tuple(each.annotation for each in inputs),
        1 if is_variadic else sum(each.default is each.empty for each in inputs),
        None if is_variadic else len(inputs),
        {each.name: each.annotation for each in keywords},
        frozenset(each.name for each in keywords if each.default is each.empty),
        signature.return_annotation is not Tensor,
        NOT_AN_ATTRIBUTE in signature.parameters,
    )


OPERATORS: dict[str, Operator] = {
    name: operator(function)
    for name, function in {
        # Arithmetic
        "Add": binary(lambda a, b: a + b),  # pyright: ignore
        "Sub": binary(lambda a, b: a - b),  # pyright: ignore
        "Mul": binary(lambda a, b: a * b),  # pyright: ignore
        "Div": binary(elementwise.divide),
        "Pow": elementwise.power,
        "Mod": elementwise.modulo,
        "Neg": elementwise.negate,
        "Sum": variadic(torch.add),
        "Mean": elementwise.mean,
        "Max": variadic(torch.maximum),
        "Min": variadic(torch.minimum),
        "Abs": unary(torch.abs),
        "Sqrt": unary(torch.sqrt),
        "Exp": unary(torch.exp),
        "Log": unary(torch.log),
        "Reciprocal": unary(torch.reciprocal),
        "Floor": unary(torch.floor),
        "Ceil": unary(torch.ceil),
        "Round": unary(torch.round),
        "Sign": unary(torch.sign),
        "Sin": unary(torch.sin),
        "Cos": unary(torch.cos),
        "Tan": unary(torch.tan),
        "Atan": unary(torch.atan),
        "Sinh": unary(torch.sinh),
        "Cosh": unary(torch.cosh),
        "Asinh": unary(torch.asinh),
        # Comparisons and logic
        "Equal": binary(lambda a, b: a == b),  # pyright: ignore
        "Less": binary(lambda a, b: a < b),  # pyright: ignore
        "LessOrEqual": binary(lambda a, b: a <= b),  # pyright: ignore
        "Greater": binary(lambda a, b: a > b),  # pyright: ignore
        "GreaterOrEqual": binary(lambda a, b: a >= b),  # pyright: ignore
        "And": binary(lambda a, b: a & b),  # pyright: ignore
        "Or": binary(lambda a, b: a | b),  # pyright: ignore
        "Xor": binary(lambda a, b: a ^ b),  # pyright: ignore
        "Not": unary(torch.logical_not),
        "IsNaN": unary(torch.isnan),
        "IsInf": elementwise.is_infinite,
        "Where": elementwise.where,
        # Activations
        "Relu": unary(torch.relu),
        "LeakyRelu": elementwise.leaky_relu,
        "PRelu": elementwise.prelu,
        "ThresholdedRelu": elementwise.thresholded_relu,
        "Elu": elementwise.elu,
        "Selu": elementwise.selu,
        "Celu": elementwise.celu,
        "Sigmoid": unary(torch.sigmoid),
        "HardSigmoid": elementwise.hard_sigmoid,
        "HardSwish": unary(F.hardswish),
        "Tanh": unary(torch.tanh),
        "Softplus": elementwise.softplus,
        "Softsign": unary(F.softsign),
        "Erf": unary(torch.erf),
        "Gelu": elementwise.gelu,
        "Mish": unary(F.mish),
        "Swish": elementwise.swish,
        "Shrink": elementwise.shrink,
        "Clip": elementwise.clip,
        "Softmax": elementwise.softmax,
        "LogSoftmax": elementwise.log_softmax,
        # Casts and what passes numbers on
        "Cast": elementwise.cast,
        "CastLike": elementwise.cast_like,
        "Identity": elementwise.identity,
        "Dropout": elementwise.dropout,
        # Layers
        "MatMul": layers.matmul,
        "Gemm": layers.gemm,
        "Einsum": layers.einsum,
        "Conv": layers.conv,
        "ConvTranspose": layers.conv_transpose,
        "MaxPool": layers.max_pool,
        "AveragePool": layers.average_pool,
        "GlobalAveragePool": layers.global_average_pool,
        "GlobalMaxPool": layers.global_max_pool,
        "BatchNormalization": layers.batch_norm,
        "LayerNormalization": layers.layer_norm,
        "RMSNormalization": layers.rms_norm,
        "InstanceNormalization": layers.instance_norm,
        "GroupNormalization": layers.group_norm,
        "LpNormalization": layers.lp_norm,
        "OneHot": layers.one_hot,
        "Resize": layers.resize,
        # Shapes and moves
        "Shape": shapes.shape,
        "Size": shapes.size,
        "ConstantOfShape": shapes.constant_of_shape,
        "Range": shapes.arange,
        "EyeLike": shapes.eye_like,
        "Reshape": shapes.reshape,
        "Flatten": shapes.flatten,
        "Transpose": shapes.transpose,
        "Squeeze": shapes.squeeze,
        "Unsqueeze": shapes.unsqueeze,
        "Concat": shapes.concat,
        "Split": shapes.split,
        "Slice": shapes.slice_,
        "Expand": shapes.expand,
        "Tile": shapes.tile,
        "Pad": shapes.pad,
        "Gather": shapes.gather,
        "GatherElements": shapes.gather_elements,
        "GatherND": shapes.gather_nd,
        "ScatterElements": shapes.scatter_elements,
        "ScatterND": shapes.scatter_nd,
        "Trilu": shapes.triangle,
        "NonZero": shapes.non_zero,
        "ReverseSequence": shapes.reverse_sequence,
        # Reductions
        "ReduceSum": reduction(reductions.total),
        "ReduceMean": reduction(reductions.mean),
        "ReduceMax": reduction(torch.amax),
        "ReduceMin": reduction(torch.amin),
        "ReduceProd": reduction(reductions.product),
        "ReduceL1": reduction(lambda x, axes, keep: x.abs().sum(axes, keep)),
        "ReduceL2": reduction(lambda x, axes, keep: (x * x).sum(axes, keep).sqrt()),
        "ReduceSumSquare": reduction(lambda x, axes, keep: (x * x).sum(axes, keep)),
        "ReduceLogSum": reduction(lambda x, axes, keep: x.sum(axes, keep).log()),
        "ReduceLogSumExp": reduction(reductions.log_sum_exp),
        "ArgMax": reductions.arg_max,
        "ArgMin": reductions.arg_min,
        "TopK": reductions.top_k,
        "CumSum": reductions.cumulative_sum,
    }.items()
}
