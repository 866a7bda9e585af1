"""Weighted connections: finished neurons times constant weights, or times a gate that acts as weights, become an open sum.

Each spelling (linear, matmul, einsum, convolution, an elementwise weight, a normalisation) is read as a `Weighting`. PyTorch's
own call makes the sum; the same call on ones makes its wire.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.engine import neurons
from whence.engine.marks import WHOLE, Args, Kwargs, Mark, ModelCall, OpenSum, Owner
from whence.engine.resting import KIND
from whence.engine.rule import NoRule, Refused, Rule
from whence.engine.run import ModelRun
from whence.engine.sides import OpenedSides
from whence.engine.sources import decide_factors
from whence.engine.sums import Fixed, absorb
from whence.equations import Sides, sides_of


@dataclass(eq=False, slots=True)
class Weighting:
    """One weighted connection: z = apply(data, *weights) + bias.

    `dense`: the axes over which every input element is connected to every output element, as the last one of a linear
    layer is; none for an elementwise weight; None if the connections have to be found by applying it to ones. `has_one_path`:
    an input element goes into an output element by one weight, not by several. `places`: how a convolution connects, where
    all channels are alike. `owner`: the axis where samples lie in the result, from that in the data.
    """

    data: Tensor
    weights: tuple[Tensor, ...]
    bias: Tensor | None
    apply: Callable[..., Tensor]
    dense: tuple[int, ...] | None = None
    has_one_path: bool = True
    places: Callable[[Tensor, Tensor], Tensor] | None = None
    owner: Callable[[int], int | None] | None = None

    @property
    def count(self) -> float | None:
        """The number of lower neurons, where it is the same everywhere."""
        if self.dense == (-1,):
            return float(self.data.shape[-1])
        return None if self.dense is None else float(math.prod([self.data.shape[axis] for axis in self.dense]))


Source = tuple[Weighting, Mark]
Reader = Callable[..., Sequence[Weighting]]


class Weighted(Rule):
    """The paper's weighted rule, for any spelling of a linear map. Of several sources, each gets an equal part.

    `read` gives the connections of a call, one for each source. `is_dense`: whether such a call connects inputs with outputs as
    a dense layer or a convolution does; an elementwise weight and a normalisation do not.
    """

    words = "weighted connection"
    has_sides = True

    def __init__(self, read: Reader, *, is_dense: bool = False) -> None:
        self.read, self.is_dense = read, is_dense

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        source = call.marks[0]
        if self.read is linear and source is not None and not kwargs and _has_parameters(run, call):
            weight, bias = call.tensors[1].detach(), call.tensors[2].detach() if len(call.tensors) > 2 else None
            call.sources, call.weights, call.is_trained, call.is_layer = (source.node,), (weight,), True, True
            is_plain = weight.dim() == 2 and weight.layout == torch.strided and not source.rests
            if is_plain and len(run.calls) - 1 not in run.head:
                return _dense(run, call, args[0], source, weight, bias)
            return _summed(run, call, [(dense(args[0], weight, bias)[0], source)])
        try:
            weightings = self.read(run, *args, **kwargs)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        live = [node for node in call.inputs if node.is_live]
        if run.rules.product != "all" and len(live) > 1:
            raise NoRule(f"several factors depend on the input, and product={run.rules.product!r} cannot be applied to it")
        sources = [(weighting, mark) for weighting in weightings if (mark := run.look(weighting.data)) is not None]
        if len(sources) < len(weightings):
            raise NoRule("its input is a constant and its weight depends on the input")
        call.sources = tuple([mark.node for _, mark in sources if mark.node.is_live])
        if len(live) > 1:
            decide_factors(call, live)
        elif len(live) == len(sources) == 1:
            self._note_layer(run, call, weightings[0])
        return _summed(run, call, sources)

    def _note_layer(self, run: ModelRun, call: ModelCall, weighting: Weighting) -> None:
        """Note the weights of a dense layer: one factor depends on the explained inputs, and the model holds all others."""
        call.weights, data = weighting.weights, weighting.data
        factors = call.tensors[1:] if self.read is addmm else call.tensors
        others = [t for t in factors if t is not data and (t.is_floating_point() or t.is_complex())]
        call.is_trained = all([run.is_trained(t) for t in others])
        call.is_layer = self.is_dense and (call.is_trained or all([run.is_held(t) for t in others]))
        if data.is_complex() or any([weight.is_complex() for weight in weighting.weights]):
            call.sideless = "complex numbers have no sign"
        elif len(weighting.weights) > 1 or not weighting.has_one_path:
            call.sideless = "an input goes to an output by several weights, which may differ in sign"


def _has_parameters(run: ModelRun, call: ModelCall) -> bool:
    """Whether all but the first operand, which is live, are parameters: this is common, and quick to read."""
    x, weight, *_ = call.tensors
    return (
        call.inputs[0].is_live
        and not any(call.marks[1:])
        and not x.is_complex()
        and weight.is_floating_point()
        and all([run.is_parameter(tensor) for tensor in call.tensors[1:]])
    )


def _summed(run: ModelRun, call: ModelCall, sources: Sequence[Source]) -> Tensor:
    """The open sum that a call makes of its sources, with its bias."""
    (weighting, mark), *others = sources
    bias, is_live = weighting.bias, mark.node.is_live
    own = OpenSum(call, None, weighting.count if not mark.stands_apart else None)
    if is_live and not others and len(run.calls) - 1 in run.head:
        z, own.wire, own.sides = _of_head(run, weighting, mark)
    elif (
        is_live
        and not others
        and weighting.apply is F.linear
        and weighting.dense
        and is_usual(weighting.data)
        and not mark.rests
    ):
        return _dense(run, call, weighting.data, mark, weighting.weights[0], bias)
    else:
        z, own.wire = _joined(run, call, sources)
        z = z if bias is None else neurons.Biased.apply(z, bias, call, run)
    if own.wire is None and run.shares:
        own.wire, own.count = run.full(z, 0.0), 0.0
    elif own.wire is not None and (own.sides is not None or not is_live):
        own.wire = own.wire.expand(z.shape)
    if bias is not None and (run.rules.delta != 0 or not is_live):
        own.bias = bias.expand(z.shape)
        own.bias_sides = None if own.sides is None else sides_of(own.bias)
    is_infinite = any([node.is_infinite for node in call.inputs])
    run.put(z, call, is_live=is_live, sum=own, owner=_owner(run, call, sources, z), is_infinite=is_infinite)
    if own.sides is not None and bias is not None:
        absorb(run, Fixed(call, "bias", run.captured(bias)), z, own)
    if mark.rests and is_live and not others and _scales(run, call, weighting):
        run.put_off(z, [weighting.data], lambda: _at_rest(run, call, weighting, mark))
    return z


def _scales(run: ModelRun, call: ModelCall, weighting: Weighting) -> bool:
    """Whether constants only scale and add up values at rest, as those of softmax(z) @ numbers: no weights were trained."""
    is_one = sum([mark is not None and mark.is_live for mark in call.marks or ()]) == 1
    return is_one and all([weight.dim() == 1 or not run.is_trained(weight) for weight in weighting.weights])


def _at_rest(run: ModelRun, call: ModelCall, weighting: Weighting, mark: Mark) -> tuple[Tensor, OpenSum]:
    """A sum with a value at rest, of others: its constants are part of what it is at rest."""
    data, own = run.rested(weighting.data, mark)
    z, rest = (weighting.apply(each, *weighting.weights) for each in (data, cast(Tensor, own.rest).contiguous()))
    wire = None if own.wire is None else _wire(run, weighting, own.wire.expand(data.shape), z, parts=1)
    found = OpenSum(call, wire, None, rest=rest)
    if weighting.bias is not None:
        z, found.rest = z + weighting.bias, rest + weighting.bias
        absorb(run, Fixed(call, KIND, weighting.bias.expand(z.shape)), z, found, call.outputs[0])
    return z, found


def _dense(run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A dense layer of finished neurons."""
    carrier, x = run.carried(x, mark)
    made, owner, samples = neurons.Dense.apply(carrier, [x], weight, bias, call, run), mark.owner, run.samples
    z, wire = made if run.shares else (made, None)
    own = OpenSum(call, wire, float(x.shape[-1]), None if bias is None or run.rules.delta == 0 else bias.expand(z.shape))
    if not (samples.is_one or (isinstance(owner, int) and owner != -1)):
        owner = samples.reduced(call, owner, x.shape, (-1,), z.device)
        owner = samples.agreed(call, [(owner, z.shape)], z.shape, z.device)
    return run.put(z, call, sum=own, owner=owner, is_infinite=any([node.is_infinite for node in call.inputs]))


def _of_head(run: ModelRun, weighting: Weighting, mark: Mark) -> tuple[Tensor, Tensor | None, Sides]:
    """A dense layer of the head: positive and negative contributions apart."""
    (x, rest), (weight,), apply = run.changed(weighting.data, mark), weighting.weights, weighting.apply
    made = OpenedSides.apply(x, rest, mark.node, run)
    up, down = made[:2]
    plus, minus = sides_of(weight)
    z, bias = apply(x.detach(), weight), weighting.bias
    sides = Sides(apply(up, plus) + apply(down, minus), apply(up, minus) + apply(down, plus))
    if bias is not None:
        z, sides = z + bias, Sides(*(side + part for side, part in zip(sides, sides_of(bias), strict=True)))
    return z, _wire(run, weighting, made[2], z, parts=1) if run.shares else None, sides


def _joined(run: ModelRun, call: ModelCall, sources: Sequence[Source]) -> tuple[Tensor, Tensor | None]:
    """A sum of one source or several, and its wire: PyTorch's own calls."""
    found = list[tuple[Tensor, Tensor | None]]()
    for weighting, mark in sources:
        x, ones = _opened(run, call, weighting, mark)
        z = weighting.apply(run.apart_from_writes(x), *weighting.weights)
        is_usual = ones is not None and run.shares and not z.is_complex()
        found.append((z, _wire(run, weighting, cast(Tensor, ones), z, parts=len(sources)) if is_usual else None))
    if len(sources) == 1:
        return found[0]
    parts = [z / len(sources) for z, _ in found]
    wires = [wire / len(sources) for _, wire in found if wire is not None]
    return sum(parts[1:], start=parts[0]), sum(wires[1:], start=wires[0]) if wires else None


def _opened(run: ModelRun, call: ModelCall, weighting: Weighting, mark: Mark) -> tuple[Tensor, Tensor | None]:
    """A source as it goes into the sum, and its wire; complex numbers have none."""
    data = weighting.data
    if not mark.is_live:
        return run.constant(data), run.full(data, 1.0)
    if data.is_complex():
        z, own = run.opened(data, mark)
        return run.less_bias(call, z, own.bias, mark.node), None
    if mark.rests or mark.state:
        if mark.state == WHOLE and all([run.is_trained(weight) for weight in weighting.weights]):
            run.settle([(data, mark)], is_state=True)
        z, own = run.opened(data, mark, rests=not _scales(run, call, weighting))  # what only scales is put off
        return z, None if own.wire is None else own.wire.expand(z.shape)
    carrier, x = run.carried(data, mark)
    made = neurons.Opened.apply(carrier, [x], mark.is_infinite, run, weighting.dense == (-1,))
    return made if run.shares else (made, None)


def _wire(run: ModelRun, weighting: Weighting, ones: Tensor, z: Tensor, *, parts: int) -> Tensor:
    """The number of lower neurons of every element, on the graph of the data's own wire."""
    if weighting.dense is not None:
        is_whole = bool(weighting.dense) and ones.shape == weighting.data.shape
        wire = ones.sum(weighting.dense, keepdim=True) if is_whole else ones
        return wire if wire.shape[:-1] == z.shape[:-1] else wire.expand(z.shape)
    is_solid = [parts > 1 or run.is_trained(weight) for weight in weighting.weights]
    if weighting.places is not None and all(is_solid):
        return weighting.places(ones, z)
    connected = [
        torch.ones_like(weight) if whole else (weight != 0).to(weight.dtype)
        for weight, whole in zip(weighting.weights, is_solid, strict=True)
    ]
    return weighting.apply(ones, *connected)


def _owner(run: ModelRun, call: ModelCall, sources: Sequence[Source], z: Tensor) -> Owner:
    """The owner of the result."""
    if run.samples.is_one:
        return None
    found: list[Owner] = []
    for weighting, mark in sources:
        owner, shape = mark.owner, weighting.data.shape
        if owner is None:
            continue
        if weighting.dense is not None:
            if isinstance(owner, int) and owner not in weighting.dense and len(sources) == 1:
                return owner
            owner = run.samples.reduced(call, owner, shape, weighting.dense, z.device)
        elif isinstance(owner, int) and weighting.owner is not None and (moved := weighting.owner(owner)) is not None:
            owner = moved
        else:
            ones = [torch.ones_like(weight, dtype=torch.float64) for weight in weighting.weights]
            numbers = run.samples.numbers(owner, shape, z.device)
            owner = run.samples.spread(call, lambda of, by=weighting.apply, n=numbers, ones=ones: by(of(n), *ones))
        found.append(owner)
    return run.samples.agreed(call, [(owner, z.shape) for owner in found], z.shape, z.device)


def is_usual(tensor: Tensor) -> bool:
    """Whether a tensor holds real numbers, and is not sparse."""
    return tensor.layout == torch.strided and not tensor.is_complex()


# Readers


def constant(run: ModelRun, operand: Any) -> Any:
    """A weight or bias as a plain tensor; raises if it depends on the input."""
    if not isinstance(operand, Tensor):
        return operand
    mark = run.look(operand)
    if mark is not None and mark.is_live:
        raise NoRule("its weight or bias depends on the input")
    return run.constant(operand)


def connections(
    run: ModelRun, function: Callable[..., Tensor], operands: Sequence[Tensor], *, bias: Tensor | None = None
) -> list[Weighting]:
    """The connections of a function that is linear in each operand: one for each source, with the others as weights.

    The sources are the live operands of the lowest rank; the others are gates. Where nothing is live, as in an initial
    state, constants are the sources.
    """
    marks = [run.look(operand) for operand in operands]
    known = [mark for mark in marks if mark is not None]
    candidates = [mark for mark in known if mark.is_live] or known
    lowest = min([mark.rank for mark in candidates], default=0)

    def plain(operand: Tensor, mark: Mark | None) -> Tensor:
        is_live = mark is not None and mark.is_live
        found = run.apart_from_writes(operand.detach()) if is_live else run.constant(operand)
        return found if found.layout == torch.strided else found.to_dense()

    def weighting(place: int) -> Weighting:
        def apply(data: Tensor, *weights: Tensor) -> Tensor:
            return function(*weights[:place], data, *weights[place:])

        pairs = zip(operands, marks, strict=True)
        weights = tuple(plain(*pair) for n, pair in enumerate(pairs) if n != place)
        return Weighting(operands[place], weights, bias, apply)

    return [weighting(n) for n, mark in enumerate(marks) if mark in candidates and mark.rank == lowest]


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Sequence[Weighting]:
    """A dense layer: z = x Wᵀ + b, with constants W and b."""
    weight = weight if weight.layout == torch.strided else weight.to_dense()
    return [Weighting(data, (weight,), bias, F.linear, dense=(-1,) if weight.dim() == 2 else None)]


def linear(run: ModelRun, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Sequence[Weighting]:
    """F.linear: z = x Wᵀ + b."""
    bias, mark = constant(run, bias), run.look(weight)
    if mark is not None and mark.is_live:
        return connections(run, F.linear, (input, weight), bias=bias)
    return dense(input, run.constant(weight), bias)


def addmm(
    run: ModelRun, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Sequence[Weighting]:
    """torch.addmm: β b + α x W, with constants b and W."""
    weight, bias = constant(run, mat2), constant(run, input)
    return dense(mat1, (weight if alpha == 1 else alpha * weight).t(), bias if beta == 1 else beta * bias)


def matmul(run: ModelRun, a: Tensor, b: Tensor) -> Sequence[Weighting]:
    """a @ b, the weights on either side; all axes but the one that is summed over stay where they are."""
    if run.look(a) is not None and run.look(b) is None and b.dim() == 2 and is_usual(a) and is_usual(b) and run.is_trained(b):
        return dense(a, run.constant(b).t())
    found = connections(run, torch.matmul, (a, b))
    if a is b or a.dim() < 2 or b.dim() < 2:
        return found
    for each in found:
        summed, keeps = -1 if each.data is a else -2, each.data.dim() == max(a.dim(), b.dim())
        each.owner = lambda lane, summed=summed, keeps=keeps: lane if keeps and lane != summed else None
    return found


def einsum(run: ModelRun, equation: str, *operands: Any) -> Sequence[Weighting]:
    """einsum of any number of operands."""
    if not isinstance(equation, str):
        raise NoRule("its operands come before their axes; write the equation as a string")
    is_list = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    factors = cast(Sequence[Tensor], operands[0] if is_list else operands)
    found = connections(run, lambda *tensors: torch.einsum(equation, *tensors), factors)
    for each in found:
        place = next(n for n, factor in enumerate(factors) if factor is each.data)
        each.has_one_path = _has_one_path(equation, place)
    return found


def _has_one_path(equation: str, place: int) -> bool:
    """Whether no axis is summed that the operand at `place` does not have."""
    names, arrow, out = equation.replace(" ", "").partition("->")
    operands = names.split(",")
    if not arrow:  # the result has the letters that occur once
        out = "".join(letter for letter in names if names.count(letter) == 1)
    return all(letter in operands[place] + out for letter in set(names) - {",", "."})


def bilinear(run: ModelRun, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Sequence[Weighting]:
    """F.bilinear: z_k = x₁ᵀ W_k x₂ + b_k."""
    return connections(run, F.bilinear, (input1, input2, weight), bias=constant(run, bias))


def product_of(function: Callable[..., Tensor]) -> Reader:
    """A function that is linear in each of its two tensors: torch.outer, torch.tensordot."""

    def read(run: ModelRun, a: Tensor, b: Tensor, *settings: object, **more: object) -> Sequence[Weighting]:
        return connections(run, lambda *factors: function(*factors, *settings, **more), (a, b))

    return read


def elementwise(run: ModelRun, a: Tensor, b: Tensor) -> Sequence[Weighting]:
    """a ⊙ b with a trained weight: every neuron is a sum of one term."""
    return [replace(each, dense=()) for each in connections(run, torch.mul, (a, b))]


def layer_norm(
    run: ModelRun,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Sequence[Weighting]:
    """Layer normalisation with its normaliser taken as a constant:  z = (x − mean x) · γ/σ + β."""
    weight, bias = constant(run, weight), constant(run, bias)
    axes = tuple(range(-len(normalized_shape), 0))
    scale = torch.native_layer_norm(input.detach(), normalized_shape, None, None, eps)[2].to(input.dtype)  # 1/σ
    scale = scale if weight is None else scale * weight

    def normed(x: Tensor, w: Tensor) -> Tensor:
        return neurons.Centred.apply(x, w, axes, run)

    return [Weighting(input, (scale,), bias, normed, dense=axes)]


def batch_norm(
    run: ModelRun,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Sequence[Weighting]:
    """Batch normalisation as a fixed scale and shift, one per channel, from its running statistics."""
    if running_mean is None or running_var is None or training:
        raise Refused("it uses the statistics of the batch, so samples influence each other")
    weight, bias = constant(run, weight), constant(run, bias)
    shape = (-1, *(1,) * (input.dim() - 2))
    scale = (running_var + eps).rsqrt() if weight is None else (running_var + eps).rsqrt() * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return [Weighting(input, (scale.view(shape),), shift.view(shape), torch.mul, owner=lambda lane: lane)]


def convolution(function: Callable[..., Tensor]) -> Reader:
    """A convolution by its function: F.conv1d, F.conv2d or F.conv3d, or a transposed one."""

    def read(
        run: ModelRun, input: Tensor, weight: Tensor, bias: Tensor | None = None, *settings: Any, **more: Any
    ) -> Sequence[Weighting]:
        bias = constant(run, bias)
        if bias is not None:
            bias = bias.view(-1, *(1,) * (weight.dim() - 2))

        def convolved(x: Tensor, w: Tensor) -> Tensor:
            return function(x, w, None, *settings, **more)

        found = connections(run, convolved, (input, weight), bias=bias)
        if input.dim() != weight.dim() or run.look(weight) is not None or not is_usual(input):
            return found
        groups = more.get("groups", settings[3] if len(settings) > 3 else 1)

        def places(ones: Tensor, z: Tensor) -> Tensor:
            """Every output channel sees the same places of all input channels: one channel stands for all."""
            kernel = weight.detach().new_ones(1, 1, *weight.shape[2:])
            return convolved(ones.sum(1, keepdim=True), kernel).expand(z.shape)

        for each in found:
            each.places = places if function in DIRECT and groups == 1 else None
            each.owner = lambda lane: lane if lane == -input.dim() else None
        return found

    return read


DIRECT = (F.conv1d, F.conv2d, F.conv3d)
