"""Weighted connections: finished neurons times constant weights, or times a gate that acts as weights, become an open sum.

Each spelling (linear, matmul, einsum, convolution, an elementwise weight, a normalisation) is read as a `Weighting`. PyTorch's
own call makes the sum; the same call on ones makes its wire.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.engine import neurons
from whence.engine.marks import Args, Kwargs, Mark, ModelCall, Node, OpenSum, Owner
from whence.engine.rule import NoRule, Refused, Rule
from whence.engine.run import ModelRun
from whence.engine.sources import decide_factors
from whence.equations import Sides, absorbed_by_bias, sides_of
from whence.trees import floats_of


@dataclass(frozen=True, eq=False)
class Weighting:
    """One weighted connection: z = apply(data, *weights) + bias.

    `dense`: the axes over which every input element is connected to every output element, as the last one of a linear
    layer is; None if the connections have to be found by applying it to ones. `has_one_path`: an input element goes into an
    output element by one weight, not by several. `places`: how a convolution connects, where all channels are alike.
    """

    data: Tensor
    weights: tuple[Tensor, ...]
    bias: Tensor | None
    apply: Callable[..., Tensor]
    dense: tuple[int, ...] | None = None
    is_linear: bool = False
    has_one_path: bool = True
    places: Callable[[Tensor, Tensor], Tensor] | None = None
    owner: Callable[[int], int | None] | None = None  # the axis where samples lie in the result, from that in the data


class Reading:
    """The operands of a call: tensors, their marks, and which of them are the sources."""

    def __init__(self, run: ModelRun, call: ModelCall) -> None:
        self.run, self.call = run, call

    def mark(self, operand: Any) -> Mark | None:
        """The mark of an operand; None for a constant."""
        return self.run.look(operand) if isinstance(operand, Tensor) else None

    def is_live(self, operand: Any) -> bool:
        """Whether an operand depends on what is explained."""
        mark = self.mark(operand)
        return mark is not None and mark.is_live

    def constant(self, operand: Any) -> Any:
        """A weight or bias as a plain tensor; raises if it depends on the input."""
        if self.is_live(operand):
            raise NoRule("its weight or bias depends on the input")
        return self.run.constant(operand) if isinstance(operand, Tensor) else operand

    def plain(self, operand: Tensor) -> Tensor:
        """A weight as a plain tensor; sparse weights are written out."""
        found = self.run.apart_from_writes(operand.detach()) if self.is_live(operand) else self.run.constant(operand)
        return found if found.layout == torch.strided else found.to_dense()

    def connections(
        self, function: Callable[..., Tensor], operands: Sequence[Tensor], *, bias: Tensor | None = None
    ) -> list[Weighting]:
        """The connections of a function that is linear in each operand: one for each source, with the others as weights.

        The sources are the live operands of the lowest rank; the others are gates. Where nothing is live, as in an initial
        state, constants are the sources.
        """
        marks = [self.mark(operand) for operand in operands]
        known = [mark for mark in marks if mark is not None]
        candidates = [mark for mark in known if mark.is_live] or known
        lowest = min((mark.rank for mark in candidates), default=0)
        sources = [mark for mark in candidates if mark.rank == lowest]

        def weighting(place: int) -> Weighting:
            others = [n for n in range(len(operands)) if n != place]

            def apply(data: Tensor, *weights: Tensor) -> Tensor:
                given = dict(zip(others, weights, strict=True)) | {place: data}
                return function(*(given[n] for n in range(len(operands))))

            return Weighting(operands[place], tuple(self.plain(operands[n]) for n in others), bias, apply)

        return [weighting(n) for n, mark in enumerate(marks) if mark is not None and any(mark is each for each in sources)]


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
        if not kwargs and self.read in (linear, matmul) and _is_plain(run, call):
            weight = args[1] if self.read is linear else args[1].t()
            return _of_parameters(run, call, args[0], weight.detach(), *args[2:])
        try:
            weightings = self.read(Reading(run, call), *args, **kwargs)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        live = [node for node in call.inputs if node.is_live]
        if run.rules.product != "all" and len(live) > 1:
            raise NoRule(f"several factors depend on the input, and product={run.rules.product!r} cannot be applied to it")
        marks = [run.look(weighting.data) for weighting in weightings]
        if any(mark is None for mark in marks):
            raise NoRule("its input is a constant and its weight depends on the input")
        sources = [(weighting, cast(Mark, mark)) for weighting, mark in zip(weightings, marks, strict=True)]
        call.sources = tuple(mark.node for _, mark in sources if mark.is_live)
        if len(live) > 1:
            decide_factors(call, live)
        self._note_layer(run, call, sources, args, kwargs)
        is_infinite = any(node.is_infinite for node in call.inputs)
        if len(run.calls) - 1 in run.head and len(sources) == 1 and sources[0][1].is_live:
            return _of_head(run, call, *sources[0])
        if len(sources) == 1 and sources[0][0].is_linear and sources[0][1].is_live:
            weighting, mark = sources[0]
            return _dense(run, call, weighting.data, mark, weighting.weights[0], weighting.bias, is_infinite=is_infinite)
        if self.read is layer_norm and sources[0][1].is_live:
            return _normalised(run, call, *sources[0], is_infinite=is_infinite)
        if self.read is elementwise and len(sources) == 1 and sources[0][1].is_live and not is_infinite:
            found = _by_element(run, call, *sources[0])
            if found is not None:
                return found
        return _general(run, call, sources, is_infinite=is_infinite)

    def _note_layer(
        self, run: ModelRun, call: ModelCall, sources: Sequence[tuple[Weighting, Mark]], args: Args, kwargs: Kwargs
    ) -> None:
        """Note the weights of a dense layer: one factor depends on the explained inputs, and the model holds all others."""
        if len(sources) != 1 or sum(node.is_live for node in call.inputs) != 1:
            return
        weighting, _ = sources[0]
        call.weights = weighting.weights
        others = [t for t in floats_of((args, dict(kwargs))) if t is not weighting.data]
        call.is_trained = all(map(run.is_trained, others))
        call.is_layer = self.is_dense and all(map(run.is_held, others))
        if weighting.data.is_complex() or any(weight.is_complex() for weight in weighting.weights):
            call.sideless = "complex numbers have no sign"
        elif len(weighting.weights) > 1 or not weighting.has_one_path:
            call.sideless = "an input goes to an output by several weights, which may differ in sign"


def _is_plain(run: ModelRun, call: ModelCall) -> bool:
    """Whether the first operand is what is explained, and all others are parameters."""
    if len(call.tensors) < 2:
        return False
    source, weight = call.marks[0], call.tensors[1]
    return (
        source is not None
        and source.is_live
        and not any(call.marks[1:])
        and all([run.is_parameter(tensor) for tensor in call.tensors[1:]])
        and weight.dim() == 2
        and weight.is_floating_point()
        and call.tensors[0].dim() > 1
        and not call.tensors[0].is_complex()
        and len(run.calls) - 1 not in run.head
    )


def _of_parameters(run: ModelRun, call: ModelCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer as most models have it."""
    source = cast(Mark, call.marks[0])
    call.sources, call.weights = (source.node,), (weight,)
    call.is_trained = call.is_layer = True
    bias = None if bias is None else bias.detach()
    return _dense(run, call, x, source, weight, bias, is_infinite=source.is_infinite)


def _dense(
    run: ModelRun, call: ModelCall, x: Tensor, source: Mark, weight: Tensor, bias: Tensor | None, *, is_infinite: bool
) -> Tensor:
    """A dense layer: one function on the graph."""
    x = run.finished(x, source)
    node = Node(call, is_infinite=is_infinite)
    made = neurons.Dense.apply(x, weight, bias, node, run)
    z, wire = made if run.shares else (made, None)
    owner = source.owner
    if not run.samples.is_one and not (isinstance(owner, int) and owner != -1):
        owner = run.samples.reduced(call, owner, x.shape, (-1,), x.device)
        if isinstance(owner, Tensor):
            owner = run.samples.told(owner.expand(z.shape))
    node.owner = owner
    kept = None if bias is None or run.rules.delta == 0 else bias.expand(z.shape)
    return run.put(z, call, sum=OpenSum(call, wire, float(x.shape[-1]), kept), owner=owner, is_infinite=is_infinite)


def _normalised(run: ModelRun, call: ModelCall, weighting: Weighting, source: Mark, *, is_infinite: bool) -> Tensor:
    """A layer normalisation: one function on the graph."""
    x, node, axes = run.finished(weighting.data, source), Node(call), cast(tuple[int, ...], weighting.dense)
    count, bias = float(torch.Size([x.shape[axis] for axis in axes]).numel()), weighting.bias
    made = neurons.Normalised.apply(x, weighting.weights[0], bias, axes, count, node, run)
    z, wire = made if run.shares else (made, None)
    node.owner = owner = _owner(run, call, [(weighting, source)], z)
    kept = None if bias is None or run.rules.delta == 0 else bias.expand(z.shape)
    return run.put(z, call, sum=OpenSum(call, wire, count, kept), owner=owner, is_infinite=is_infinite)


def _by_element(run: ModelRun, call: ModelCall, weighting: Weighting, source: Mark) -> Tensor | None:
    """A trained weight for every element: each neuron is a sum of one term."""
    x, (weight,) = run.finished(weighting.data, source), weighting.weights
    if x.is_complex() or weight.is_complex() or not run.is_trained(weight) or x.dtype != weight.dtype:
        return None
    made = neurons.Opened.apply(x, False, run)
    z, wire = made if run.shares else (made, None)
    z = z * weight
    wire = wire if wire is None or wire.shape == z.shape else wire.expand(z.shape)
    owner = _owner(run, call, [(weighting, source)], z)
    return run.put(z, call, sum=OpenSum(call, wire, 1.0), owner=owner)


def _general(run: ModelRun, call: ModelCall, sources: Sequence[tuple[Weighting, Mark]], *, is_infinite: bool) -> Tensor:
    """Any other connection, by PyTorch's own call; of several sources, each gets an equal part."""
    is_live, parts = sources[0][1].is_live, len(sources)
    z: Tensor | None = None
    wire: Tensor | None = None
    count: float | None = None
    for weighting, mark in sources:
        data = weighting.data
        if not is_live:
            own_z, own_wire = run.constant(data), None
        elif data.is_complex():
            own_z, own = run.opened(data, mark)
            own_wire, own_z = None, run.less_bias(call, own_z, own.bias, mark.node)
        else:
            data = run.finished(data, mark)
            made = neurons.Opened.apply(data, mark.is_infinite, run)
            own_z, own_wire = made if run.shares else (made, None)
        applied = weighting.apply(run.apart_from_writes(own_z), *weighting.weights)
        if data.is_complex() or applied.is_complex():
            own_wire, count = None, 0.0
        elif run.shares:
            solid = [parts > 1 or run.is_trained(weight) for weight in weighting.weights]
            if weighting.dense is not None:
                count = float(torch.Size([data.shape[axis] for axis in weighting.dense]).numel())
            own_wire = _wire(run, weighting, data if own_wire is None else own_wire, applied, solid, is_live=is_live)
        z = applied / parts if z is None and parts > 1 else applied if z is None else z + applied / parts
        if own_wire is not None:
            own_wire = own_wire / parts if parts > 1 else own_wire
            wire = own_wire if wire is None else wire + own_wire
    assert z is not None
    bias = sources[0][0].bias
    if bias is not None:
        z = z + bias.detach()
    if wire is None and run.shares:
        wire, count = run.full(z, 0.0 if count is None else count), 0.0 if count is None else count
    wants_bias = bias is not None and (run.rules.delta != 0 or not is_live)
    owner = _owner(run, call, sources, z)
    found = OpenSum(call, wire, count, cast(Tensor, bias).detach().expand(z.shape) if wants_bias else None)
    run.put(z, call, is_live=is_live, sum=found, owner=owner, is_infinite=is_infinite)
    if bias is not None and run.rules.delta != 1:
        own, held = call.outputs[-1], run.captured(bias.detach())
        run.tap(z, lambda q: run.ledger.absorb_bias(call, held, q, own))
    return z


def _wire(run: ModelRun, weighting: Weighting, given: Tensor, z: Tensor, solid: Sequence[bool], *, is_live: bool) -> Tensor:
    """The number of lower neurons of every element, on the graph of the data's own wire."""
    ones = given if is_live else run.full(given, 1.0)
    if weighting.dense is not None:
        total = ones.sum(weighting.dense, keepdim=True)
        return total.expand(z.shape)
    if weighting.places is not None and all(solid):
        return weighting.places(ones, z)
    connected = [
        torch.ones_like(weight) if is_solid else (weight != 0).to(weight.dtype)
        for weight, is_solid in zip(weighting.weights, solid, strict=True)
    ]
    return weighting.apply(ones, *connected)


def _owner(run: ModelRun, call: ModelCall, sources: Sequence[tuple[Weighting, Mark]], z: Tensor) -> Owner:
    """The owner of the result."""
    if run.samples.is_one:
        return None
    found: list[Owner] = []
    for weighting, mark in sources:
        owner, shape = mark.owner, weighting.data.shape
        if owner is None:
            continue
        if weighting.dense is not None:
            owner = run.samples.reduced(call, owner, shape, weighting.dense, z.device)
        elif isinstance(owner, int) and weighting.owner is not None and (moved := weighting.owner(owner)) is not None:
            owner = moved
        else:
            ones = [torch.ones_like(weight, dtype=torch.float64) for weight in weighting.weights]
            with torch.no_grad():
                owner = run.samples.spread(
                    call, lambda numbers, by=weighting.apply, ones=ones: by(numbers, *ones), (owner, shape), z.device
                )
        found.append(owner)
    return run.samples.agreed(call, [(owner, z.shape) for owner in found], z.shape, z.device)


def _of_head(run: ModelRun, call: ModelCall, weighting: Weighting, source: Mark) -> Tensor:
    """A dense layer of the head: positive and negative contributions apart."""
    x, (weight,) = run.finished(weighting.data, source), weighting.weights
    made = neurons.OpenedSides.apply(x, run)
    (up, down), ones = made[:2], made[2] if run.shares else None
    plus, minus = sides_of(weight)
    z = weighting.apply(x.detach(), weight)
    rises = weighting.apply(up, plus) + weighting.apply(down, minus)
    falls = weighting.apply(up, minus) + weighting.apply(down, plus)
    bias = weighting.bias
    if bias is not None:
        z = z + bias.detach()
        above, below = sides_of(bias.detach())
        rises, falls = rises + above, falls + below
    wire = None if ones is None else _wire(run, weighting, ones, z, [run.is_trained(weight)], is_live=True)
    count = float(torch.Size([x.shape[axis] for axis in weighting.dense]).numel()) if weighting.dense is not None else None
    wants_bias = bias is not None and run.rules.delta != 0
    expanded = cast(Tensor, bias).detach().expand(z.shape) if wants_bias else None
    biases = None if expanded is None else sides_of(expanded)
    found = OpenSum(call, wire, count, expanded, Sides(rises, falls), biases)
    run.put(z, call, sum=found, owner=_owner(run, call, [(weighting, source)], z), is_infinite=source.is_infinite)
    if bias is not None and run.rules.delta != 1:
        tap_sides(run, call, found.sides, call.outputs[-1], bias.detach())
    return z


def tap_sides(run: ModelRun, call: ModelCall, sides: Sides | None, node: Node, bias: Tensor) -> None:
    """Enter what a bias of the head absorbs on either side."""
    assert sides is not None
    for side, own in zip(sides, sides_of(bias), strict=True):
        run.tap(
            side,
            lambda q, own=own: run.ledger.absorb(
                call, "bias", absorbed_by_bias(own, q=q, rules=run.rules), node, tuple(q.shape)
            ),
        )


# Readers


def linear(reading: Reading, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Sequence[Weighting]:
    """F.linear: z = x Wᵀ + b."""
    bias = reading.constant(bias)
    if reading.is_live(weight):
        return reading.connections(F.linear, (input, weight), bias=bias)
    weight = reading.plain(weight)
    if weight.dim() != 2:
        return [Weighting(input, (weight,), bias, F.linear)]
    return [
        Weighting(input, (weight,), bias, F.linear, dense=(-1,), is_linear=not weight.is_complex() and not input.is_complex())
    ]


def addmm(
    reading: Reading, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Sequence[Weighting]:
    """torch.addmm: β b + α x W, with constants b and W."""
    weight, bias = reading.constant(mat2), reading.constant(input)
    weight, bias = weight if alpha == 1 else alpha * weight, bias if beta == 1 else beta * bias
    return [Weighting(mat1, (weight.t(),), bias, F.linear, dense=(-1,), is_linear=is_usual(mat1) and is_usual(weight))]


def matmul(reading: Reading, a: Tensor, b: Tensor) -> Sequence[Weighting]:
    """a @ b, the weights on either side."""
    if (
        reading.mark(a) is not None
        and reading.mark(b) is None
        and b.dim() == 2
        and is_usual(a)
        and is_usual(b)
        and reading.run.is_trained(b)
    ):
        weight = reading.constant(b)
        if reading.is_live(a):
            return [Weighting(a, (weight.t(),), None, F.linear, dense=(-1,), is_linear=True)]
        return [Weighting(a, (weight,), None, torch.matmul, dense=(-1,))]
    return [_by_rows(each, a, b) for each in reading.connections(torch.matmul, (a, b))]


def _by_rows(weighting: Weighting, a: Tensor, b: Tensor) -> Weighting:
    """With the axes of a matrix product: all but the one that is summed over stay where they are."""
    if a.dim() < 2 or b.dim() < 2:
        return weighting
    summed = -1 if weighting.data is a else -2

    def owner(lane: int) -> int | None:
        return None if lane == summed or weighting.data.dim() < max(a.dim(), b.dim()) else lane

    return weighting if a is b else replace(weighting, owner=owner)


def is_usual(tensor: Tensor) -> bool:
    """Whether a tensor holds real numbers, and is not sparse."""
    return tensor.layout == torch.strided and not tensor.is_complex()


def matmul_from_right(reading: Reading, a: Tensor, b: Tensor) -> Sequence[Weighting]:
    """b @ a, as Tensor.__rmatmul__ is called."""
    return reading.connections(torch.matmul, (b, a))


def einsum(reading: Reading, equation: str, *operands: Any) -> Sequence[Weighting]:
    """einsum of any number of operands."""
    if not isinstance(equation, str):
        raise NoRule("its operands come before their axes; write the equation as a string")
    is_list = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    factors = cast(Sequence[Tensor], operands[0] if is_list else operands)
    found = reading.connections(lambda *tensors: torch.einsum(equation, *tensors), factors)
    places = [next(n for n, factor in enumerate(factors) if factor is each.data) for each in found]
    return [replace(each, has_one_path=_has_one_path(equation, place)) for each, place in zip(found, places, strict=True)]


def _has_one_path(equation: str, place: int) -> bool:
    """Whether no axis is summed that the operand at `place` does not have."""
    names, arrow, out = equation.replace(" ", "").partition("->")
    operands = names.split(",")
    if not arrow:  # the result has the letters that occur once
        out = "".join(letter for letter in names if names.count(letter) == 1)
    return all(letter in operands[place] + out for letter in set(names) - {",", "."})


def bilinear(
    reading: Reading, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Sequence[Weighting]:
    """F.bilinear: z_k = x₁ᵀ W_k x₂ + b_k."""
    return reading.connections(F.bilinear, (input1, input2, weight), bias=reading.constant(bias))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: None = None) -> Tensor:
    """torch.tensordot, with a type."""
    return cast(Callable[..., Tensor], torch.tensordot)(a, b, dims)


def product_of(function: Callable[..., Tensor]) -> Reader:
    """A function that is linear in each of its two tensors: torch.outer, torch.tensordot."""

    def read(reading: Reading, a: Tensor, b: Tensor, *settings: object, **more: object) -> Sequence[Weighting]:
        def multiplied(one: Tensor, other: Tensor) -> Tensor:
            return function(one, other, *settings, **more)

        return reading.connections(multiplied, (a, b))

    return read


def _same_lane(lane: int) -> int | None:
    """Samples lie along the same axis in the result as in the data."""
    return lane


def elementwise(reading: Reading, a: Any, b: Any) -> Sequence[Weighting]:
    """a ⊙ b with a trained weight."""
    return [
        replace(each, owner=_same_lane) if each.data.dim() == max(a.dim(), b.dim()) else each
        for each in reading.connections(torch.mul, (a, b))
    ]


def layer_norm(
    reading: Reading,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Sequence[Weighting]:
    """Layer normalisation with its normaliser taken as a constant:  z = (x − mean x) · γ/σ + β."""
    weight, bias = reading.constant(weight), reading.constant(bias)
    axes = tuple(range(-len(normalized_shape), 0))
    scale = (input.detach().var(axes, unbiased=False, keepdim=True) + eps).rsqrt()
    scale = scale if weight is None else scale * weight

    def normed(x: Tensor, w: Tensor) -> Tensor:
        return (x - x.mean(axes, keepdim=True)) * w

    return [Weighting(input, (scale,), bias, normed, dense=axes)]


def batch_norm(
    reading: Reading,
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
    weight, bias = reading.constant(weight), reading.constant(bias)
    shape = (-1, *(1,) * (input.dim() - 2))
    scale = (running_var + eps).rsqrt() if weight is None else (running_var + eps).rsqrt() * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return [Weighting(input, (scale.view(shape),), shift.view(shape), torch.mul, owner=_same_lane)]


def convolution(function: Callable[..., Tensor]) -> Reader:
    """A convolution by its function: F.conv1d, F.conv2d or F.conv3d, or a transposed one."""

    def read(
        reading: Reading, input: Tensor, weight: Tensor, bias: Tensor | None = None, *settings: Any, **more: Any
    ) -> Sequence[Weighting]:
        bias = reading.constant(bias)
        if bias is not None:
            bias = bias.view(-1, *(1,) * (weight.dim() - 2))

        def convolved(x: Tensor, w: Tensor) -> Tensor:
            return function(x, w, None, *settings, **more)

        found = reading.connections(convolved, (input, weight), bias=bias)
        if input.dim() != weight.dim() or reading.mark(weight) is not None or not is_usual(input):
            return found
        groups = more.get("groups", settings[3] if len(settings) > 3 else 1)

        def places(ones: Tensor, z: Tensor) -> Tensor:
            """Every output channel sees the same places of all input channels: one channel stands for all."""
            kernel = weight.detach().new_ones(1, 1, *weight.shape[2:])
            return convolved(ones.sum(1, keepdim=True), kernel).expand(z.shape)

        def owner(lane: int) -> int | None:
            return lane if lane == -input.dim() else None

        can_stand = function in DIRECT and groups == 1
        return [replace(each, places=places if can_stand else None, owner=owner) for each in found]

    return read


DIRECT = (F.conv1d, F.conv2d, F.conv3d)
