"""Products: which factor is the gate and which the source, decided by the call that made each factor, or by the user."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, overrides

from whence.engine import neurons, sums, weighted
from whence.engine.marks import (
    MARKED,
    NORMALISER,
    POSITIVE,
    SQUASHED,
    Args,
    Gate,
    Kwargs,
    Mark,
    ModelCall,
    Node,
    common_gate,
    common_log,
)
from whence.engine.rule import NoRule, Rule, is_number
from whence.engine.run import ModelRun
from whence.engine.sources import decide_factors
from whence.equations import Product
from whence.errors import InputError


class GatedProduct(Rule):
    """gate ⊙ source: the paper's rule gives all relevance to the source, the other rules give a part to each factor.

    Under the paper's rule, two sources (or two gates of one rank) get a half each.
    """

    words = "product"
    multiplies = combines = True

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        a, b = args[:2]
        if run.rules.product == "all" and len(args) == 2 and _are_live(call):
            found = self._opened(run, call, a, b, *cast(Sequence[Mark], call.marks))
            if found is not None:
                return found
        marks = [run.look(each) if isinstance(each, Tensor) else None for each in (a, b)]
        live = [mark is not None and mark.is_live for mark in marks]
        with torch.no_grad():
            y = call.function(*(each.detach() if isinstance(each, Tensor) else each for each in (a, b)), *args[2:], **kwargs)
        is_infinite = any(mark.is_infinite for mark in marks if mark) or not all(
            mark is not None or is_number(each) or run.is_finite(each) for each, mark in zip((a, b), marks, strict=True)
        )
        owner = run.agreed(call, [(each, m) for each, m in zip((a, b), marks, strict=True) if m is not None], y)
        settings: dict[str, Any] = {"gate": self._gate(marks), "owner": owner, "is_infinite": is_infinite}
        if not any(live):
            return run.put(y, call, is_live=False, **settings)
        if run.rules.product != "all":
            return self._share(run, call, (a, b), y, live, settings)
        decide_factors(call, [mark.node for mark in marks if mark is not None and mark.is_live])
        ranks = [0 if mark is None else mark.rank for mark in marks]
        places = [0, 1] if ranks[0] == ranks[1] else [int(ranks[0] > ranks[1])]
        sources = [run.finished((a, b)[n], cast(Mark, marks[n])) for n in places if live[n]]
        call.sources = tuple(dict.fromkeys(cast(Mark, marks[n]).node for n in places if live[n]))
        if len(sources) == len(places):
            y = neurons.Passed.apply(sources[0], [y]) if len(sources) == 1 else neurons.Split.apply([y], *sources)
            return run.put(y, call, **settings)
        return self._absorb(run, call, sources, y, settings)  # the source, or one of two, is a constant

    def _opened(self, run: ModelRun, call: ModelCall, a: Tensor, b: Tensor, one: Mark, other: Mark) -> Tensor | None:
        """A gate that opens or closes a source, as the paper has it; None if it is not so plain."""
        if one.node.gate is None:
            source, x, gate = one, a, other.node.gate
        else:
            source, x, gate = other, b, one.node.gate
        if gate is None or source.node.gate is not None or gate.is_choice:
            return None
        y = call.function(a.detach(), b.detach())
        call.sources = (source.node,)
        y = neurons.Passed.apply(run.finished(x, source), [y])
        owner = run.agreed(call, [(a, one), (b, other)], y)
        return run.put(y, call, owner=owner, is_infinite=one.is_infinite or other.is_infinite)

    def _gate(self, marks: Sequence[Mark | None]) -> Gate | None:
        factors = [mark.node for mark in marks if mark is not None]
        gate = common_gate(factors)
        if gate is not None and {factor.rank for factor in factors} == {NORMALISER, POSITIVE}:
            return gate._replace(rank=SQUASHED)  # exp(a) / Σ exp(a), a softmax by hand
        return gate

    def _absorb(self, run: ModelRun, call: ModelCall, sources: Sequence[Tensor], y: Tensor, settings: dict[str, Any]) -> Tensor:
        """All of the relevance stops at a constant source, or a half of it."""
        if not sources:
            node = Node(call, owner=settings["owner"])
            return run.put(neurons.Absorbed.apply(run.anchor, [y], None, node, run), call, **settings)
        node = Node(call, owner=settings["owner"])
        half = neurons.Absorbed.apply(run.anchor, [y.clone()], None, node, run)
        return run.put(neurons.Split.apply([y], sources[0], half), call, **settings)

    def _share(
        self,
        run: ModelRun,
        call: ModelCall,
        factors: tuple[Any, Any],
        y: Tensor,
        live: Sequence[bool],
        settings: dict[str, Any],
    ) -> Tensor:
        """A part for each factor, by the rules half, prop or abs."""
        call.sources = tuple(node for node in call.inputs if node.is_live)
        tensors = [
            run.finished(each, cast(Mark, run.look(each)))
            if is_live
            else (each.detach() if isinstance(each, Tensor) else torch.as_tensor(each, device=y.device)).to(y)
            for each, is_live in zip(factors, live, strict=True)
        ]
        node = Node(call, owner=settings["owner"])
        values = (tensors[0].detach(), tensors[1].detach())
        return run.put(neurons.Multiplied.apply([y], *tensors, values, live, node, run), call, **settings)


class LogProduct(Rule):
    """log a + log b: relevance is that of the product a · b, and goes to the factors as in one; numbers beside them scale."""

    words = "product, by its logarithms"

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        pairs = [(each, mark) for each in args[:2] if isinstance(each, Tensor) and (mark := run.look(each)) is not None]
        living = [(each, mark) for each, mark in pairs if mark.is_live]
        marks = list(dict.fromkeys(mark.node for _, mark in living))
        lowest = common_log(marks)
        call.sources = tuple(mark for mark in marks if run.rules.product != "all" or mark.log == lowest)
        if run.rules.product == "all" and len(marks) > 1 and len({mark.log for mark in marks}) == 1:
            call.decide("no gate", "logarithms are added; each of the factors gets an equal part")
        with torch.no_grad():
            y = call.function(*(each.detach() if isinstance(each, Tensor) else each for each in args), **kwargs)
        owner = run.agreed(call, living, y)
        own = {id(mark.node): run.finished(each, mark) for each, mark in living}
        sources = [own[id(mark)] for mark in call.sources]
        if run.rules.product == "all" or len(marks) != 2:
            found = neurons.Passed.apply(sources[0], [y]) if len(sources) == 1 else neurons.Split.apply([y], *sources)
        else:
            values = (sources[0].detach().exp(), sources[1].detach().exp())
            node = Node(call, owner=owner)
            found = neurons.Multiplied.apply([y], *sources, values, (True, True), node, run)
        is_infinite = any(mark.is_infinite for _, mark in pairs)
        return run.put(found, call, log=common_log([mark.node for _, mark in pairs]), owner=owner, is_infinite=is_infinite)


RuleFor = Callable[[ModelRun, Args, Kwargs], Rule]


def addition(read: sums.Reader) -> RuleFor:
    """The rule for a sum: of logarithms it is a product."""
    plain, of_logs = sums.Sum(read), LogProduct()

    def rule(run: ModelRun, args: Args, kwargs: Kwargs) -> Rule:
        is_log = False
        for mark in cast(ModelCall, run.current).marks:
            if mark is not None and mark.node.is_live:
                if mark.node.log is None:
                    return plain
                is_log = True
        return of_logs if is_log else plain

    return rule


def _are_live(call: ModelCall) -> bool:
    """Whether a call has two operands, which both depend on what is explained."""
    marks = call.marks
    if len(marks) != 2:
        return False
    one, other = marks
    return one is not None and other is not None and one.node.is_live and other.node.is_live


SCALE, DIVISION = sums.Scale(), sums.Scale(divides=True)
WEIGHT = weighted.Weighted(weighted.elementwise)
PRODUCT = GatedProduct()


def multiplication(run: ModelRun, args: Args, kwargs: Kwargs) -> Rule:
    """The rule for a ⊙ b: a gate times its source, a trained weight, or a constant scale."""
    a, b = args[:2]
    if _are_live(cast(ModelCall, run.current)) and not (a.is_complex() or b.is_complex()):
        return PRODUCT
    marks = [run.look(each) if isinstance(each, Tensor) else None for each in (a, b)]
    live = [n for n, mark in enumerate(marks) if mark is not None and mark.is_live]
    is_complex = any(isinstance(each, Tensor) and each.is_complex() for each in (a, b))
    if is_complex and (len(live) == 2 or all(isinstance(each, Tensor) for each in (a, b))):
        return WEIGHT
    if len(live) != 1:
        return PRODUCT
    own, other = marks[live[0]], (b, a)[live[0]]
    if is_number(other) or isinstance(other, bool) or (isinstance(other, Tensor) and not other.is_floating_point()):
        return SCALE
    assert own is not None
    if own.gate is not None and (marks[1 - live[0]] is not None or not is_weight(other, (a, b)[live[0]], run)):
        return PRODUCT  # the constant is an initial state behind its gate
    return WEIGHT if run.is_trained(other) else SCALE


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
    return b.reciprocal() * a


def turned_matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """b @ a, as `Tensor.__rmatmul__` is called."""
    return matrix_product(b, a)


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
    found = [tensor.select(dim, 0)]
    for n in range(1, tensor.shape[dim]):
        found.append(found[-1] * tensor.select(dim, n))
    return torch.stack(found, dim)


def whole_product(tensor: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: None = None) -> Tensor:
    """torch.prod as one product after the other."""
    tensor, axis = (tensor.reshape(-1), 0) if dim is None else (tensor, dim)
    found = running_product(tensor, axis).select(axis, -1)
    return found.unsqueeze(axis) if keepdim else found


Apart = Callable[[Sequence[Node | None], Product], Callable[..., Tensor] | None]


def if_both_get_relevance(taken_apart: Callable[..., Tensor]) -> Apart:
    """Splits a call whose first two factors are live into elementwise products, if both get relevance."""
    return lambda live, product: taken_apart if product != "all" and sum(m is not None for m in live[:2]) > 1 else None


def if_any_get_relevance(taken_apart: Callable[..., Tensor]) -> Apart:
    """The same, for any number of factors."""
    return lambda live, product: taken_apart if product != "all" and sum(m is not None for m in live) > 1 else None


def if_no_gates(taken_apart: Callable[..., Tensor]) -> Apart:
    """Splits a running product; one of gates is a gate, to which the paper's rule gives nothing."""
    return lambda live, product: taken_apart if product != "all" or live[0] is None or live[0].gate is None else None


def unless_dense(taken_apart: Callable[..., Tensor]) -> Apart:
    """Splits torch.addmm into a product and a sum, unless it is a dense layer: b + x W with a live x alone."""
    return lambda live, product: None if [node is not None for node in live] == [False, True, False] else taken_apart


def quotient_apart(live: Sequence[Node | None], product: Product) -> Callable[..., Tensor] | None:
    """Splits a division by a live tensor into a product with its reciprocal."""
    return quotient if len(live) > 1 and live[1] is not None else None
