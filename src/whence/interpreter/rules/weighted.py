"""Weighted connections: a live tensor times constant weights, or times a gate that acts as weights.

Each spelling (linear, matmul, einsum, convolution, an elementwise weight, a normalisation) is read as a `Weighting`, and
the weighted rule is applied to that. Its input is a layer of finished neurons; its output is an open sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.equations import absorbed_by_bias
from whence.interpreter.record.graph import Graph
from whence.interpreter.record.refusal import NoRule, Refused
from whence.interpreter.record.step import Arriving, Backward, FanIn, MixedSamplesError, Owners, Rule, Step, Value

Plain = TypeVar("Plain", bound=Tensor | None)


@dataclass(frozen=True, eq=False)
class Weighting:
    """One weighted connection: z = apply(data, weight) + bias.

    `dense`: the axes over which every input element is connected to every output element, as the last one of a linear
    layer is; None if the connections have to be found by running `apply`. A trained weight of zero still connects, a zero in
    a mask does not.
    """

    data: Value
    weight: Tensor
    bias: Tensor | None
    apply: Callable[[Tensor, Tensor], Tensor]
    dense: tuple[int, ...] | None = None
    is_trained: bool = False
    back: Callable[[Tensor], Tensor] | None = None  # from q to its part of every input element; None: by derivative


class Weighted(Rule):
    """The paper's weighted rule, for any spelling of a linear map."""

    in_sum = True

    def __init__(self, read: Callable[..., Weighting]) -> None:
        self.read = read

    def run(self, step: Step) -> object:
        args, kwargs = step.arguments
        try:
            weighting = self.read(*args, **kwargs)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        if not isinstance(weighting.data, Value):
            raise NoRule("its input is a constant and its weight depends on the input")
        is_trained = step.is_trained(weighting.weight)
        weighting = replace(weighting, is_trained=is_trained)
        if weighting.back is not None:
            out = weighting.apply(weighting.data.tensor, weighting.weight.detach())
            step.saved = weighting, None
        else:
            with torch.enable_grad():
                alias = weighting.data.tensor.detach().requires_grad_()
                out = weighting.apply(alias, weighting.weight.detach())
            step.saved = weighting, Graph([alias], [out])
        return out.detach() if weighting.bias is None else out.detach() + weighting.bias.detach()

    def receivers(self, step: Step) -> Sequence[Value]:
        return [step.saved[0].data]

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        weighting: Weighting = step.saved[0]
        data = weighting.data.tensor
        if weighting.dense is not None:
            return [torch.Size([data.shape[axis] for axis in weighting.dense]).numel()]
        return [weighting.apply(torch.ones_like(data), _connections(weighting))]

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        bias: Tensor | None = step.saved[0].bias
        return [None if bias is None else bias.detach()]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        weighting: Weighting = step.saved[0]
        (out,) = step.outputs
        owner = owners[weighting.data]
        if weighting.dense is not None:
            return [owners.reduced(step, owner, weighting.dense).expand(out.tensor.shape)]
        ones = torch.ones_like(weighting.weight, dtype=torch.float64)
        count = weighting.apply((owner != 0).double(), ones).clamp(min=1)
        mean = weighting.apply(owner, ones) / count
        variance = weighting.apply(owner * owner, ones) / count - mean * mean
        if (variance > 1e-6 * (1 + mean * mean)).any():
            raise MixedSamplesError(step)
        return [torch.round(mean)]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        weighting, graph = step.saved
        (out,) = step.outputs
        q, s = back.unfinished(step, out, arriving[0])
        if weighting.bias is not None:
            back.absorb(step, "bias", absorbed_by_bias(weighting.bias, q=q, rules=back.rules), out)
        r = weighting.data.tensor * (graph.adjoint([q])[0] if weighting.back is None else weighting.back(q))
        back.deliver(step, weighting.data, r=r if s is None else r + _shared(weighting, s))


def _connections(weighting: Weighting) -> Tensor:
    """1 for every weight that connects, 0 for one that is zero."""
    if weighting.is_trained:
        return torch.ones_like(weighting.weight)
    return (weighting.weight != 0).to(weighting.weight.dtype)


def _shared(weighting: Weighting, s: Tensor) -> Tensor:
    """Every lower neuron's shares, summed over the neurons it is connected to."""
    data = weighting.data.tensor
    if weighting.dense is not None:
        return s.sum(weighting.dense, keepdim=True).expand(len(s), *data.shape)
    with torch.enable_grad():
        ones = torch.ones_like(data, requires_grad=True)
        connected = weighting.apply(ones, _connections(weighting))
    return Graph([ones], [connected]).adjoint([s])[0]


def data_and_weight(a: Value | Tensor, b: Value | Tensor) -> tuple[Value, Tensor, bool]:
    """The factor that carries the content, the other one as plain weights, and whether the content comes first."""
    if isinstance(a, Value) and isinstance(b, Value) and a.is_live and b.is_live:
        if a.is_gate == b.is_gate:
            raise NoRule("both factors depend on the input and " + ("both are gates" if a.is_gate else "neither is a gate"))
        first = b.is_gate
    else:
        first = isinstance(a, Value) and (a.is_live or not (isinstance(b, Value) and b.is_live))
    data, weight = (a, b) if first else (b, a)
    assert isinstance(data, Value)
    return data, weight.tensor if isinstance(weight, Value) else weight, first


def constant(thing: Value | Plain) -> Tensor | Plain:
    """A weight or bias as a plain tensor; raises if it depends on the input."""
    if isinstance(thing, Value) and thing.is_live:
        raise NoRule("its weight or bias depends on the input")
    return thing.tensor if isinstance(thing, Value) else thing


def linear(input: Value, weight: Value | Tensor, bias: Value | Tensor | None = None) -> Weighting:
    """F.linear: z = x Wᵀ + b."""
    weight, bias = constant(weight), constant(bias)
    if weight.dim() != 2:
        return Weighting(input, weight, bias, F.linear)
    return Weighting(input, weight, bias, F.linear, dense=(-1,), back=lambda q: q @ weight.detach())


def matmul(a: Value | Tensor, b: Value | Tensor) -> Weighting:
    """a @ b, the weights on either side."""
    data, weight, first = data_and_weight(a, b)
    if first:
        return Weighting(data, weight, None, torch.matmul)
    return Weighting(data, weight, None, lambda x, w: w @ x)


def matmul_from_right(a: Value | Tensor, b: Value | Tensor) -> Weighting:
    """b @ a, as Tensor.__rmatmul__ is called."""
    return matmul(b, a)


def einsum(equation: str, *operands: Value | Tensor | Sequence[Value | Tensor]) -> Weighting:
    """einsum of two operands, one of them weights."""
    is_list = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    factors = cast(Sequence[Value | Tensor], operands[0] if is_list else operands)
    if len(factors) != 2:
        raise NoRule(f"an einsum of {len(factors)} operands is not a weighted connection; write it as products of two")
    data, weight, first = data_and_weight(*factors)
    if first:
        return Weighting(data, weight, None, lambda x, w: torch.einsum(equation, x, w))
    return Weighting(data, weight, None, lambda x, w: torch.einsum(equation, w, x))


def elementwise(a: Value | Tensor, b: Value | Tensor) -> Weighting:
    """a ⊙ b with a trained weight."""
    data, weight, _ = data_and_weight(a, b)
    return Weighting(data, weight, None, torch.mul)


def convolution(function: Callable[..., Tensor]) -> Callable[..., Weighting]:
    """A convolution by its function: F.conv1d, F.conv2d or F.conv3d."""

    def read(
        input: Value, weight: Value | Tensor, bias: Value | Tensor | None = None, *settings: object, **more: object
    ) -> Weighting:
        weight, bias = constant(weight), constant(bias)
        if bias is not None:
            bias = bias.view(-1, *(1,) * (weight.dim() - 2))
        return Weighting(input, weight, bias, lambda x, w: function(x, w, None, *settings, **more))

    return read


def layer_norm(
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | Tensor | None = None,
    bias: Value | Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Weighting:
    """Layer normalisation with its normaliser taken as a constant:  z = (x − mean x) · γ/σ + β."""
    weight, bias = constant(weight), constant(bias)
    axes = tuple(range(-len(normalized_shape), 0))
    scale = (input.tensor.var(axes, unbiased=False, keepdim=True) + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    return Weighting(input, scale, bias, lambda x, w: (x - x.mean(axes, keepdim=True)) * w, dense=axes)


def batch_norm(
    input: Value,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Value | Tensor | None = None,
    bias: Value | Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Weighting:
    """Batch normalisation as a fixed scale and shift, one per channel, from its running statistics."""
    if running_mean is None or running_var is None or training:
        raise Refused("it uses the statistics of the batch, so samples influence each other")
    weight, bias = constant(weight), constant(bias)
    shape = (-1, *(1,) * (input.tensor.dim() - 2))
    scale = (running_var + eps).rsqrt() if weight is None else (running_var + eps).rsqrt() * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return Weighting(input, scale.view(shape), shift.view(shape), torch.mul)
