"""Weighted connections: a live tensor times constant weights, or times a gate that acts as weights.

Each spelling (linear, matmul, einsum, convolution, an elementwise weight, a normalisation) is read as a `Weighting`, and
the weighted rule is applied to that. Its input is a layer of finished neurons; its output is an open sum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whence.choice import Choice
from whence.equations import Sides, absorbed_by_bias, sides_of
from whence.interpreter.record.graph import Graph
from whence.interpreter.record.refusal import NoRule, Refused
from whence.interpreter.record.step import Arriving, Backward, FanIn, MixedSamplesError, Open, Owners, Rule, Step, Value
from whence.interpreter.rules.linear import real_part
from whence.interpreter.rules.sources import chosen_gate

Plain = TypeVar("Plain", bound=Tensor | None)


@dataclass(frozen=True, eq=False)
class Weighting:
    """One weighted connection: z = apply(data, *weights) + bias.

    `dense`: the axes over which every input element is connected to every output element, as the last one of a linear
    layer is; None if the connections have to be found by running `apply`. A weight that is `solid` connects also where it is
    zero: a trained weight does, a mask does not.
    """

    data: Value
    weights: tuple[Tensor, ...]
    bias: Tensor | None
    apply: Callable[..., Tensor]
    dense: tuple[int, ...] | None = None
    solid: tuple[bool, ...] = ()
    back: Callable[..., Tensor] | None = None  # from q and the weights to q's part of every input element; None: by derivative
    needs_trained: bool = False  # whether `dense` and `back` hold only for trained weights, which connect also where they are 0
    has_one_path: bool = True  # whether an input element goes into an output element by one weight, not by several
    window: "Window | None" = None  # of a convolution whose weights are all trained

    def connections(self) -> list[Tensor]:
        """For every weight 1 where it connects, 0 where it does not."""
        return [
            torch.ones_like(weight) if solid else (weight != 0).to(weight.dtype)
            for weight, solid in zip(self.weights, self.solid, strict=True)
        ]


class Window(NamedTuple):
    """How a convolution connects, if all its weights do: every output channel sees the same places of all input channels."""

    fan_in: Callable[[], Tensor]  # the number of lower neurons by place, (1, 1, *places)
    spread: Callable[[Tensor], Tensor]  # from shares (K, B, C, *places) to their sum for every input element


class Source(NamedTuple):
    """A weighted connection, and PyTorch's derivative of it if that is needed."""

    weighting: Weighting
    graph: Graph | None

    def part(self, q: Tensor) -> Tensor:
        """q's part of every input element."""
        if self.graph is not None:
            return self.graph.adjoint([q])[0]
        assert self.weighting.back is not None
        return self.weighting.back(q, *self.weighting.weights)


Reader = Callable[..., Sequence[Weighting]]


class Weighted(Rule):
    """The paper's weighted rule, for any spelling of a linear map. Of several sources, each gets an equal part.

    `read` gives the connections of a call, one for each source. `is_dense`: whether such a call connects inputs with outputs as
    a dense layer or a convolution does; an elementwise weight and a normalisation do not.
    """

    in_sum = has_sides = True

    def __init__(self, read: Reader, *, is_dense: bool = False) -> None:
        self.read, self.is_dense = read, is_dense

    def is_layer(self, step: Step) -> bool:
        """Whether the call is a dense layer: one factor depends on the explained inputs, and the model holds all others."""
        if not self.is_dense or len(step.saved) != 1 or sum(value.is_live for value in step.inputs) != 1:
            return False
        return all(step.is_held(leaf) for leaf in step.leaves if isinstance(leaf, Tensor) and leaf.is_floating_point())

    def sideless(self, step: Step) -> str:
        """Why the positive contributions cannot be told from the negative ones; empty if they can."""
        weighting: Weighting = step.saved[0].weighting
        if weighting.data.tensor.is_complex() or step.outputs[0].tensor.is_complex():
            return "complex numbers have no sign"
        if len(weighting.weights) > 1 or not weighting.has_one_path:
            return "an input goes to an output by several weights, which may differ in sign"
        return ""

    def run(self, step: Step) -> object:
        args, kwargs = step.arguments
        try:
            weightings = self.read(*args, **kwargs)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        if step.product != "all" and sum(value.is_live for value in step.inputs) > 1:
            raise NoRule(f"several factors depend on the input, and product={step.product!r} cannot be applied to it")
        sources, out = list[Source](), torch.empty(0)
        for weighting in weightings:
            if not isinstance(weighting.data, Value):
                raise NoRule("its input is a constant and its weight depends on the input")
            if weighting.needs_trained and not all(map(step.is_trained, weighting.weights)):
                weighting = replace(weighting, back=None, dense=None)
            weights = tuple(_kept(w, step, is_derived=weighting.back is None) for w in weighting.weights)
            solid = tuple(len(weightings) > 1 or step.is_trained(weight) for weight in weighting.weights)
            window = weighting.window if all(solid) else None
            weighting = replace(weighting, weights=weights, solid=solid, window=window)
            if weighting.back is not None:
                out, graph = weighting.apply(weighting.data.tensor, *weights), None
            else:
                graph = _derived(weighting)
                out = graph.outputs[0]
            sources.append(Source(weighting, graph))
        step.saved = sources
        bias = sources[0].weighting.bias
        return out.detach() if bias is None else out.detach() + bias.detach()

    def lasts(self, step: Step) -> bool:
        (source, *others) = step.saved
        return not others and source.graph is None and all(isinstance(w, nn.Parameter) for w in source.weighting.weights)

    def is_finite(self, step: Step) -> bool:
        return step.has_finite_constants()

    def receivers(self, step: Step) -> Sequence[Value]:
        return [source.weighting.data for source in step.saved]

    def choice(self, step: Step) -> Choice | None:
        return chosen_gate(step, [leaf for leaf in step.inputs if leaf.is_live])

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        weighting: Weighting = step.saved[0].weighting
        data = weighting.data.tensor
        if data.is_complex() or step.outputs[0].tensor.is_complex():
            return [0]
        if weighting.dense is not None:
            return [torch.Size([data.shape[axis] for axis in weighting.dense]).numel()]
        if weighting.window is not None:
            return [weighting.window.fan_in()]
        return [weighting.apply(torch.ones_like(data), *weighting.connections())]

    def counts_alike(self, step: Step) -> bool:
        weighting: Weighting = step.saved[0].weighting
        return weighting.dense is not None or weighting.window is not None

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        bias: Tensor | None = step.saved[0].weighting.bias
        return [None if bias is None else bias.detach()]

    def sides(self, step: Step, known: Mapping[Value, Sides], *, of_bias: bool = False) -> Sequence[Sides]:
        weighting: Weighting = step.saved[0].weighting
        zeros, bias = torch.zeros_like(step.outputs[0].tensor), weighting.bias
        own = Sides(zeros, zeros) if bias is None else sides_of(zeros + bias.detach())
        if of_bias:
            return [own]
        x, w = sides_of(weighting.data.tensor), sides_of(weighting.weights[0])
        up = weighting.apply(x.up, w.up) + weighting.apply(x.down, w.down) + own.up
        down = weighting.apply(x.up, w.down) + weighting.apply(x.down, w.up) + own.down
        return [Sides(up, down)]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        (out,) = step.outputs
        found = [self._owners_of(step, source.weighting, owners) for source in step.saved if source.weighting.data.is_live]
        return [owners.agreed(step, found).expand(out.tensor.shape)]

    def _owners_of(self, step: Step, weighting: Weighting, owners: Owners) -> Tensor:
        owner = owners[weighting.data]
        if weighting.dense is not None:
            return owners.reduced(step, owner, weighting.dense).expand(step.outputs[0].tensor.shape)
        ones = [torch.ones_like(weight, dtype=torch.float64) for weight in weighting.weights]
        count = weighting.apply((owner != 0).double(), *ones).clamp(min=1)
        mean = weighting.apply(owner, *ones) / count
        variance = weighting.apply(owner * owner, *ones) / count - mean * mean
        if (variance > 1e-6 * (1 + mean * mean)).any():
            raise MixedSamplesError(step)
        return torch.round(mean)

    def owners_back(self, step: Step, value: Value, out: Value, owner: Tensor) -> Tensor | None:
        weighting: Weighting = step.saved[0].weighting
        if weighting.dense != (-1,) or not owner.shape[-1]:
            return super().owners_back(step, value, out, owner)
        return owner[..., :1].expand(value.tensor.shape)

    def reads(self, step: Step) -> Sequence[Value]:
        return *step.inputs, *step.outputs

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        sources: Sequence[Source] = step.saved
        (out,) = step.outputs
        given = back.unfinished(step, out, arriving[0])
        if given.n is not None:
            self._hand_back_sides(step, given, back)
            return
        q, s, _ = given
        bias = sources[0].weighting.bias
        if bias is not None:
            back.absorb(step, "bias", absorbed_by_bias(bias, q=q, rules=back.rules), out)
        if len(sources) > 1:
            q, s = q / len(sources), None if s is None else s / len(sources)
        for source in sources:
            weighting = source.weighting
            if weighting.data.tensor.is_complex():
                part = source.part(q)
                if (given := back.biases.get(weighting.data)) is not None:
                    back.absorb(step, "bias", real_part(back.rules.delta * given, part), weighting.data)
                back.deliver(step, weighting.data, q=part)
                continue
            r = weighting.data.tensor * source.part(q)
            back.deliver(step, weighting.data, r=r if s is None or out.tensor.is_complex() else r + _shared(weighting, s))

    def _hand_back_sides(self, step: Step, given: Open, back: Backward) -> None:
        """The same where positive and negative contributions have coefficients of their own."""
        weighting: Weighting = step.saved[0].weighting
        (out,), (q, s, _) = step.outputs, given
        if weighting.bias is not None:
            kept = sides_of(weighting.bias.detach()).total(given.sides)
            back.absorb(step, "bias", (1 - back.rules.delta) * kept, out)
        x, w = sides_of(weighting.data.tensor), sides_of(weighting.weights[0])
        up, down = (_source(replace(weighting, weights=(each,))) for each in w)
        r = x.up * (up.part(q) + down.part(given.sides.down)) + x.down * (down.part(q) + up.part(given.sides.down))
        back.deliver(step, weighting.data, r=r if s is None else r + _shared(weighting, s))


def _kept(weight: Tensor, step: Step, *, is_derived: bool) -> Tensor:
    """A weight as the record keeps it: a trained one as it is, without a graph, of another one a copy."""
    if step.is_trained(weight):
        return weight.detach() if is_derived else weight
    is_watched = step.is_watched and any(weight is value.tensor for value in step.inputs)
    return weight.detach() if is_watched else weight.detach().clone()


def _source(weighting: Weighting) -> Source:
    return Source(weighting, None if weighting.back is not None else _derived(weighting))


def _derived(weighting: Weighting) -> Graph:
    """PyTorch's derivative of a connection."""
    with torch.enable_grad():
        alias = weighting.data.tensor.detach().requires_grad_()
        out = weighting.apply(alias, *weighting.weights)
    return Graph([alias], [out], lambda: _derived(weighting))


def _shared(weighting: Weighting, s: Tensor) -> Tensor:
    """Every lower neuron's shares, summed over the neurons it is connected to."""
    data = weighting.data.tensor
    if weighting.dense is not None:
        return s.sum(weighting.dense, keepdim=True).expand(len(s), *data.shape)
    if weighting.window is not None:
        return weighting.window.spread(s)
    with torch.enable_grad():
        ones = torch.ones_like(data, requires_grad=True)
        connected = weighting.apply(ones, *weighting.connections())
    return Graph([ones], [connected]).adjoint([s])[0]


def connections(
    function: Callable[..., Tensor], operands: Sequence[Value | Tensor], *, bias: Tensor | None = None
) -> list[Weighting]:
    """The connections of a function that is linear in each operand: one for each source, with the other operands as weights.

    The sources are the live operands of the lowest rank; the others are gates. Constants alone (an initial state) may be one.
    """
    values = [operand for operand in operands if isinstance(operand, Value)]
    live = [value for value in values if value.is_live] or values
    lowest = min((value.rank for value in live), default=0)

    def weighting(place: int) -> Weighting:
        others = [n for n in range(len(operands)) if n != place]

        def apply(data: Tensor, *weights: Tensor) -> Tensor:
            given = dict(zip(others, weights, strict=True)) | {place: data}
            return function(*(given[n] for n in range(len(operands))))

        return Weighting(cast(Value, operands[place]), tuple(plain(operands[n]) for n in others), bias, apply)

    sources = {id(value) for value in live if value.rank == lowest}
    return [weighting(n) for n, operand in enumerate(operands) if id(operand) in sources]


def plain(operand: Value | Tensor) -> Tensor:
    """The tensor of a value or of a constant; sparse weights are written out."""
    found = operand.tensor if isinstance(operand, Value) else operand
    return found if found.layout == torch.strided else found.to_dense()


def constant(thing: Value | Plain) -> Tensor | Plain:
    """A weight or bias as a plain tensor; raises if it depends on the input."""
    if isinstance(thing, Value) and thing.is_live:
        raise NoRule("its weight or bias depends on the input")
    return thing.tensor if isinstance(thing, Value) else thing


def linear(input: Value | Tensor, weight: Value | Tensor, bias: Value | Tensor | None = None) -> Sequence[Weighting]:
    """F.linear: z = x Wᵀ + b."""
    bias = constant(bias)
    if isinstance(weight, Value) and weight.is_live:
        return connections(F.linear, (input, weight), bias=bias)
    weight = plain(weight)
    if weight.dim() != 2:
        return [Weighting(cast(Value, input), (weight,), bias, F.linear)]
    return [Weighting(cast(Value, input), (weight,), bias, F.linear, dense=(-1,), back=torch.matmul)]


def matmul(a: Value | Tensor, b: Value | Tensor) -> Sequence[Weighting]:
    """a @ b, the weights on either side."""
    if isinstance(a, Value) and isinstance(b, Tensor) and b.dim() == 2 and all(map(is_usual, (a.tensor, b))):
        return [Weighting(a, (b,), None, torch.matmul, dense=(-1,), back=_through, needs_trained=True)]
    return connections(torch.matmul, (a, b))


def is_usual(tensor: Tensor) -> bool:
    """Whether a tensor holds real numbers, and is not sparse."""
    return tensor.layout == torch.strided and not tensor.is_complex()


def _through(q: Tensor, weight: Tensor) -> Tensor:
    """q's part of every input element of x @ W."""
    return torch.matmul(q, weight.transpose(0, 1))


def matmul_from_right(a: Value | Tensor, b: Value | Tensor) -> Sequence[Weighting]:
    """b @ a, as Tensor.__rmatmul__ is called."""
    return connections(torch.matmul, (b, a))


def einsum(equation: str, *operands: Value | Tensor | Sequence[Value | Tensor]) -> Sequence[Weighting]:
    """einsum of any number of operands."""
    if not isinstance(equation, str):
        raise NoRule("its operands come before their axes; write the equation as a string")
    is_list = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    factors = cast(Sequence[Value | Tensor], operands[0] if is_list else operands)
    found = connections(lambda *tensors: torch.einsum(equation, *tensors), factors)
    return [replace(each, has_one_path=_has_one_path(equation, factors.index(each.data))) for each in found]


def _has_one_path(equation: str, place: int) -> bool:
    """Whether no axis is summed that the operand at `place` does not have."""
    names, arrow, out = equation.replace(" ", "").partition("->")
    operands = names.split(",")
    if not arrow:  # the result has the letters that occur once
        out = "".join(letter for letter in names if names.count(letter) == 1)
    return all(letter in operands[place] + out for letter in set(names) - {",", "."})


def bilinear(
    input1: Value | Tensor, input2: Value | Tensor, weight: Value | Tensor, bias: Value | Tensor | None = None
) -> Sequence[Weighting]:
    """F.bilinear: z_k = x₁ᵀ W_k x₂ + b_k."""
    return connections(F.bilinear, (input1, input2, weight), bias=constant(bias))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: None = None) -> Tensor:
    """torch.tensordot, with a type."""
    return cast(Callable[..., Tensor], torch.tensordot)(a, b, dims)


def product_of(function: Callable[..., Tensor]) -> Callable[..., Sequence[Weighting]]:
    """A function that is linear in each of its two tensors: torch.outer, torch.tensordot."""

    def read(a: Value | Tensor, b: Value | Tensor, *settings: object, **more: object) -> Sequence[Weighting]:
        def multiplied(one: Tensor, other: Tensor) -> Tensor:
            return function(one, other, *settings, **more)

        return connections(multiplied, (a, b))

    return read


def elementwise(a: Value | Tensor, b: Value | Tensor) -> Sequence[Weighting]:
    """a ⊙ b with a trained weight."""
    return connections(torch.mul, (a, b))


def layer_norm(
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | Tensor | None = None,
    bias: Value | Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Sequence[Weighting]:
    """Layer normalisation with its normaliser taken as a constant:  z = (x − mean x) · γ/σ + β."""
    weight, bias = constant(weight), constant(bias)
    axes = tuple(range(-len(normalized_shape), 0))
    scale = (input.tensor.var(axes, unbiased=False, keepdim=True) + eps).rsqrt()
    scale = scale if weight is None else scale * weight

    def normed(x: Tensor, w: Tensor) -> Tensor:
        return (x - x.mean(axes, keepdim=True)) * w

    return [Weighting(input, (scale,), bias, normed, dense=axes)]


def batch_norm(
    input: Value,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Value | Tensor | None = None,
    bias: Value | Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Sequence[Weighting]:
    """Batch normalisation as a fixed scale and shift, one per channel, from its running statistics."""
    if running_mean is None or running_var is None or training:
        raise Refused("it uses the statistics of the batch, so samples influence each other")
    weight, bias = constant(weight), constant(bias)
    shape = (-1, *(1,) * (input.tensor.dim() - 2))
    scale = (running_var + eps).rsqrt() if weight is None else (running_var + eps).rsqrt() * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return [Weighting(input, (scale.view(shape),), shift.view(shape), torch.mul)]
