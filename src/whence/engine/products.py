"""Products: which factor is the gate and which the source, decided by the call that made each factor, or by the user."""

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, overrides

from whence.engine import neurons, sums, weighted
from whence.engine.marks import (
    KEY,
    MARKED,
    NORMALISER,
    POSITIVE,
    SOURCE,
    SQUASHED,
    Args,
    Gate,
    Kwargs,
    Late,
    Mark,
    ModelCall,
    Node,
    OpenSum,
    common_gate,
    common_log,
)
from whence.engine.normalisers import is_by_hand, softmax_by_hand
from whence.engine.resting import Means
from whence.engine.rule import NoRule, Rule, detached, is_number
from whence.engine.run import ModelRun
from whence.engine.sources import decide_factors
from whence.equations import Product
from whence.errors import InputError


class GatedProduct(Rule):
    """gate ⊙ source: the paper's rule gives all relevance to the source, the other rules give a part to each factor.

    Under the paper's rule, two sources (or two gates of one rank) get a half each. What a constant gets stops there.
    """

    words = "product"
    multiplies = combines = True

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        if run.rules.product == "all" and len(call.marks) == 2:
            one, other = call.marks
            if one is not None and other is not None and one.is_live and other.is_live:
                if one.gate is None and other.gate is not None and not other.gate.is_choice:
                    return self._gated(run, call, args[0], one, args[1], other)
                if other.gate is None and one.gate is not None and not one.gate.is_choice:
                    return self._gated(run, call, args[1], other, args[0], one)
        marks = iter(call.marks)
        factors = [(each, next(marks) if isinstance(each, Tensor) else None) for each in args]
        marked = [(each, mark) for each, mark in factors if mark is not None]
        nodes = [mark.node for _, mark in marked]
        live = [node for node in nodes if node.is_live]
        y = call.function(*[each.detach() if isinstance(each, Tensor) else each for each in args], **kwargs)
        owner, gate = run.agreed(call, marked, y), _gate(nodes)
        is_infinite = any([mark.node.is_infinite if mark is not None else not _is_finite(run, each) for each, mark in factors])
        if not live:
            return run.put(y, call, is_live=False, gate=gate, owner=owner, is_infinite=is_infinite)
        if run.rules.product != "all":
            y = self._shared(run, call, factors, y, Node(call, owner=owner))
            run.put(y, call, gate=gate, owner=owner, is_infinite=is_infinite)
            if len(live) == 2 and all([mark.rests for _, mark in marked]):
                self._means(run, call, y, marked)
            return y
        lowest = 0 if len(marked) < len(factors) else min([node.rank for node in nodes])
        sources = [(each, mark) for each, mark in factors if mark is None or mark.node.rank == lowest]
        rests = [mark is not None and mark.rests for _, mark in sources]
        if len(sources) == 1 and len(live) == 2 and any(rests) and sources[0][1] is not None:
            ((x, source),) = sources
            ((by, other),) = [(each, mark) for each, mark in marked if mark is not source]
            decide_factors(call, live)
            return self._gated(run, call, x, cast(Mark, source), by, other, is_gate=gate)
        are_means = len(live) == 2 and (any(rests) if len(sources) == 2 else all([mark.rests for _, mark in marked]))
        if not (are_means and lowest) and (
            len(sources) > 1 or any([node.gate is not None and node.gate.is_choice for node in live])
        ):
            decide_factors(call, live)
        call.sources = tuple(dict.fromkeys([mark.node for _, mark in sources if mark is not None and mark.node.is_live]))
        ends = [
            run.finished(each, mark)
            if mark is not None and mark.node.is_live
            else neurons.Absorbed.apply(run.anchor, [y.clone()], None, Node(call, owner=owner), run)
            for each, mark in sources
        ]
        run.put(y := _split(y, ends), call, gate=gate, owner=owner, is_infinite=is_infinite)
        if are_means:
            call.sources = tuple(dict.fromkeys(live))
            self._means(run, call, y, marked)
        return y

    def _gated(
        self, run: ModelRun, call: ModelCall, x: Tensor, source: Mark, by: Tensor, gate: Mark, *, is_gate: Gate | None = None
    ) -> Tensor:
        """A gate that opens or closes a source, as the paper has it. `is_gate`: why the product is a gate itself."""
        call.sources = (source.node,)
        y, rest = call.function(x.detach(), by.detach()), None
        if source.rests and not source.stands_apart:
            rest = call.function(run.rest_of(x.detach(), source), by.detach())
        is_late = run.puts_off and y.shape == x.shape and y.dtype == x.dtype and source.carrier is None
        y = y if is_late else neurons.Passed.apply(run.carried(x, source)[0], [y])
        owner = run.agreed(call, [(x, source), (by, gate)], y)
        run.put(y, call, gate=is_gate, owner=owner, is_infinite=source.is_infinite or gate.is_infinite, rest=rest)
        if is_late:
            cast(Mark, y.__dict__[KEY]).late = source.late or Late(x, source, x._version)
        cast(Mark, y.__dict__[KEY]).state = source.state
        if source.stands_apart:
            run.put_off(y, [x, by], lambda: self._weighed(run, call, x, source, by))
        return y

    def _weighed(self, run: ModelRun, call: ModelCall, x: Tensor, source: Mark, by: Tensor) -> tuple[Tensor, OpenSum]:
        """A gate times a source that is a sum with a value at rest: it acts as a weight."""
        z, own = run.rested(x, source)
        weight = run.constant(by.detach())
        y = run.apart_from_writes(z) * weight
        return y, replace(sums.scaled_sum(own, weight).each(lambda part: part.expand(y.shape)), call=call)

    def _means(self, run: ModelRun, call: ModelCall, y: Tensor, marked: Sequence[tuple[Tensor, Mark]]) -> None:
        """Note how a product of values with values at rest, such as probabilities, stands as a sum."""
        (a, one), (b, other) = marked
        owner = cast(Mark, y.__dict__[KEY]).owner

        def stand() -> tuple[Tensor, OpenSum]:
            (u, first), (v, second) = run.rested(a, one), run.rested(b, other)
            rests = cast(Tensor, first.rest), cast(Tensor, second.rest)
            z = Means.apply(u, v, rests, Node(call, owner=owner), run)
            wire = None if first.wire is None or second.wire is None else (first.wire + second.wire).expand(z.shape)
            return z, OpenSum(call, wire, None, rest=rests[0] * rests[1])

        run.put_off(y, [a, b], stand)

    def _shared(
        self, run: ModelRun, call: ModelCall, factors: Sequence[tuple[Any, Mark | None]], y: Tensor, node: Node
    ) -> Tensor:
        """A part for each factor, by the rules half, prop or abs."""
        call.sources = tuple(node for node in call.inputs if node.is_live)
        live = [mark is not None and mark.is_live for _, mark in factors]
        tensors = [
            run.finished(each, mark) if mark is not None and mark.is_live else torch.as_tensor(detached(each)).to(y)
            for each, mark in factors
        ]
        return neurons.Multiplied.apply([y], *tensors, (tensors[0].detach(), tensors[1].detach()), live, node, run)


def _split(y: Tensor, ends: Sequence[Tensor]) -> Tensor:
    """The product y, whose relevance goes to its sources in equal parts."""
    return neurons.Passed.apply(ends[0], [y]) if len(ends) == 1 else neurons.Split.apply([y], *ends)


def _is_finite(run: ModelRun, constant: Any) -> bool:
    return is_number(constant) or run.is_finite(constant)


def _gate(factors: Sequence[Node]) -> Gate | None:
    """The gate that a product of gates is."""
    gate = common_gate(factors)
    if gate is not None and {factor.rank for factor in factors} == {NORMALISER, POSITIVE}:
        return gate._replace(rank=SQUASHED)  # exp(a) / Σ exp(a), a softmax by hand
    return gate


class LogProduct(Rule):
    """log a + log b: relevance is that of the product a · b, and goes to the factors as in one; numbers beside them scale."""

    words = "product, by its logarithms"

    def __init__(self, read: sums.Reader) -> None:
        self.read = read

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        pairs = [(each, mark) for each in args[:2] if isinstance(each, Tensor) and (mark := run.look(each)) is not None]
        living = {mark.node: (each, mark) for each, mark in pairs if mark.is_live}
        y = call.function(*map(detached, args), **kwargs)
        owner = run.agreed(call, list(living.values()), y)
        is_whole, lowest = run.rules.product == "all", common_log(list(living))
        if is_whole and len(living) > 1 and len({node.log for node in living}) == 1:
            call.decide("no gate", "logarithms are added; each of the factors gets an equal part")
        call.sources = tuple(node for node in living if not is_whole or node.log == lowest)
        sources = [run.finished(*living[node]) for node in call.sources]
        if is_whole or len(living) != 2:
            found = _split(y, sources)
        else:
            values = (sources[0].detach().exp(), sources[1].detach().exp())
            found = neurons.Multiplied.apply([y], *sources, values, (True, True), Node(call, owner=owner), run)
        is_infinite = any(mark.is_infinite for _, mark in pairs)
        log = common_log([mark.node for _, mark in pairs])
        run.put(found, call, log=log, owner=owner, is_infinite=is_infinite)
        if log != SOURCE and len({node.log for node in living}) == 1 and any([mark.rests for _, mark in living.values()]):
            sums.at_rest(run, call, found, args, kwargs, self.read)
        return found


RuleFor = Callable[[ModelRun, Args, Kwargs], Rule]


def addition(read: sums.Reader) -> RuleFor:
    """The rule for a sum: of logarithms it is a product."""
    plain, of_logs = sums.Sum(read), LogProduct(read)

    def rule(run: ModelRun, args: Args, kwargs: Kwargs) -> Rule:
        live = [mark.node for mark in cast(ModelCall, run.current).marks if mark is not None and mark.is_live]
        return plain if common_log(live) is None else of_logs

    return rule


PRODUCT, WEIGHT = GatedProduct(), weighted.Weighted(weighted.elementwise)
BEHIND_GATE = sums.BehindGate(sums.scaled), sums.BehindGate(sums.scaled_by_first)
SCALES, DIVISION = (sums.Sum(sums.scaled), sums.Sum(sums.scaled_by_first)), sums.Sum(sums.divided)


def multiplication(run: ModelRun, args: Args, kwargs: Kwargs) -> Rule:
    """The rule for a ⊙ b: a gate times its source, a trained weight, or a constant scale."""
    call = cast(ModelCall, run.current)
    live = [mark is not None and mark.node.is_live for mark in call.marks]
    if len(live) == 2 and any([each.is_complex() for each in call.tensors]):
        return WEIGHT
    if sum(live) != 1:
        return PRODUCT
    x, mark = call.tensors[live.index(True)], cast(Mark, call.marks[live.index(True)])
    place = 0 if x is args[0] else 1
    other = args[1 - place]
    if not (isinstance(other, Tensor) and other.is_floating_point()):
        return SCALES[place]
    beside = call.marks[1 - place]
    if beside is not None and beside.call is not None and any([node.is_live for node in beside.call.inputs]):
        return SCALES[place]  # a constant that was put beside live values and taken out again
    if mark.rests and beside is None and run.rules.product == "all" and not run.is_zero(other):
        return BEHIND_GATE[place] if mark.gate is not None else SCALES[place]
    if mark.gate is not None and (beside is not None or not is_weight(other, x, run)):
        return PRODUCT  # the constant is an initial state behind its gate
    return WEIGHT if run.is_trained(other) and not mark.rests else SCALES[place]


def is_weight(constant: Tensor, beside: Tensor, run: ModelRun) -> bool:
    """Whether a constant beside a gate is a weight, so that the gate is an activation: a trained weight, a buffer or a mask.

    An initial state (B, H) has as many axes as the gate, also one that is trained.
    """
    if run.is_held(constant):
        return constant.dim() < beside.dim() or beside.dim() > 2
    return bool(((constant == 0) | (constant == 1)).all()) and bool(constant.any())


def division(run: ModelRun, args: Args, kwargs: Kwargs) -> Rule:
    """The rule for a / b: a scale, when b is constant."""
    if kwargs.get("rounding_mode") is not None:
        raise NoRule("it rounds")
    return DIVISION


def gate(tensor: Tensor) -> Tensor:
    """Mark a tensor as the gate of the products it is used in. It is returned unchanged, so the model computes the same.

    Use it for a gate that is not recognised, because it is not the result of a sigmoid or softmax:

        state = whence.gate(torch.exp(step * a)) * state + whence.gate(step * b) * x
    """
    if not isinstance(tensor, Tensor):
        raise InputError(f"whence.gate marks a tensor, not a {type(tensor).__name__}")
    if overrides.has_torch_function_unary(tensor):
        return overrides.handle_torch_function(gate, (tensor,), tensor)
    return tensor


class Marked(Rule):
    """A tensor that the user says is a gate."""

    words = "marked as a gate"
    moves = rearranges = True

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        mark = cast(Mark, run.look(args[0]))
        settings: dict[str, Any] = {"gate": Gate("it is marked with whence.gate", MARKED), "owner": mark.owner, "log": mark.log}
        call.sources = tuple(each for each in call.inputs if each.is_live)
        if not mark.is_live:
            return run.put(args[0].view_as(args[0]), call, is_live=False, **settings)
        x = run.finished(args[0], mark)
        return run.put(x.view_as(x), call, is_infinite=mark.is_infinite, **settings)


def matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b as elementwise products and sums, for rules that give relevance to both factors."""
    rows, columns = a if a.dim() > 1 else a[None], b if b.dim() > 1 else b[:, None]
    found = (rows.unsqueeze(-1) * columns.unsqueeze(-3)).sum(-2)
    found = found if b.dim() > 1 else found.squeeze(-1)
    return found if a.dim() > 1 else found.squeeze(-1 if b.dim() == 1 else -2)


def einsum_product(equation: str, *operands: Tensor | Sequence[Tensor]) -> Tensor:
    """An einsum as elementwise products and sums, two operands at a time."""
    factors = cast(Sequence[Tensor], operands[0] if len(operands) == 1 else operands)
    if not isinstance(equation, str):
        raise NoRule("its operands come before their axes; write the equation as a string")
    (*names, out), arrow = equation.replace(" ", "").replace("->", ",").split(","), "->" in equation
    if not arrow or "." in equation or any(len(set(each)) != len(each) for each in (*names, out)):
        raise NoRule("this equation cannot be taken apart; write out its result, each letter once per operand")
    if len(factors) > 2:  # the first two, then their product with the rest
        rest = "".join(names[2:]) + out
        joint = "".join(letter for letter in dict.fromkeys(names[0] + names[1]) if letter in rest)
        first = einsum_product(f"{names[0]},{names[1]}->{joint}", *factors[:2])
        return einsum_product(f"{','.join([joint, *names[2:]])}->{out}", first, *factors[2:])
    (a, b), (left, right) = factors, names
    summed = [letter for letter in dict.fromkeys(left + right) if letter not in out]
    letters = [*out, *summed]

    def aligned(tensor: Tensor, names: str) -> Tensor:
        tensor = tensor.permute([names.index(letter) for letter in letters if letter in names])
        for axis, letter in enumerate(letters):
            tensor = tensor if letter in names else tensor.unsqueeze(axis)
        return tensor

    product = aligned(a, left) * aligned(b, right)
    return product.sum(tuple(range(len(out), len(letters)))) if summed else product


def quotient(a: Tensor | float, b: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    """a / b as a product with 1 / b."""
    if rounding_mode is not None:
        raise NoRule("it rounds")
    found = b.reciprocal() * a
    return softmax_by_hand(found, cast(Tensor, a), b) if is_by_hand(a, b) else found


def linear_product(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear as elementwise products and sums."""
    found = matrix_product(input, weight.transpose(-1, -2) if weight.dim() > 1 else weight)
    return found if bias is None else found + bias


def bilinear_product(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.bilinear as elementwise products and sums."""
    rows, columns = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    found = einsum_product("nj,nkj->nk", columns, torch.einsum("ni,kij->nkj", rows, weight))
    found = found.reshape(*a.shape[:-1], found.shape[-1])
    return found if bias is None else found + bias


def running_product(tensor: Tensor, dim: int, *, dtype: None = None) -> Tensor:
    """torch.cumprod as one product after the other."""
    return torch.stack(list(itertools.accumulate(tensor.unbind(dim), operator.mul)), dim)


def whole_product(tensor: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: None = None) -> Tensor:
    """torch.prod as one product after the other."""
    tensor, axis = (tensor.reshape(-1), 0) if dim is None else (tensor, dim)
    found = running_product(tensor, axis).select(axis, -1)
    return found.unsqueeze(axis) if keepdim else found


Apart = Callable[[Sequence[Node | None], Product], Callable[..., Tensor] | None]


def if_several(taken_apart: Callable[..., Tensor], *, factors: int | None = None) -> Apart:
    """Splits a call into elementwise products if several of its first `factors` operands get relevance."""
    return lambda live, product: (
        taken_apart if product != "all" and len(live[:factors]) - live[:factors].count(None) > 1 else None
    )


def unless_dense(taken_apart: Callable[..., Tensor]) -> Apart:
    """Splits torch.addmm into a product and a sum, unless it is a dense layer: b + x W with a live x alone."""
    return lambda live, product: None if [node is not None for node in live] == [False, True, False] else taken_apart


def quotient_apart(live: Sequence[Node | None], product: Product) -> Callable[..., Tensor] | None:
    """Splits a division by a live tensor into a product with its reciprocal."""
    return quotient if len(live) > 1 and live[1] is not None else None
