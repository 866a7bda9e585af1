"""Additions: part of an open sum. PyTorch's own calls on the sum, and on its wire."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.engine import neurons
from whence.engine.marks import KEY, SQUASHED, Args, Gate, Kwargs, Late, Mark, ModelCall, Node, OpenSum, common_gate, common_log
from whence.engine.rule import NoRule, Rule, is_number
from whence.engine.run import ModelRun
from whence.equations import Sides, absorbed_by_bias, sides_of


class Term(NamedTuple):
    """One term of an elementwise sum: an operand times a constant scale."""

    operand: Any
    scale: Any = 1.0


Reader = Callable[..., Sequence[Term]]
MIXED = "it computes with the sums of a dense layer, and the signs of their contributions are lost"


class Sum(Rule):
    """An elementwise sum of scaled terms; constants among them are biases."""

    words = "sum"
    combines = has_sides = True

    def __init__(self, read: Reader) -> None:
        self.read = read

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        if len(args) == 2 and not kwargs and self.read in (add, subtract):
            found = self._of_two(run, call, *args)
            if found is not None:
                return found
        try:
            terms = self.read(*args, **kwargs)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        marks = [run.look(operand) if isinstance(operand, Tensor) else None for operand, _ in terms]
        call.terms = sum(mark is not None for mark in marks)
        if len(terms) == 1:
            call.is_scale = True
        gate, is_complement = _gate_of(call, terms, marks)
        live = [(t.operand, mark) for t, mark in zip(terms, marks, strict=True) if mark is not None and mark.is_live]
        call.sources = tuple(mark.node for _, mark in live)
        if is_complement and live:  # 1 − σ(a) is σ(−a): its relevance is that of a
            ((x, mark),) = live
            y = call.function(*[x.detach() if arg is x else arg for arg in args], **kwargs)
            owner = run.agreed(call, live, y)
            if run.puts_off and y.dtype == x.dtype:
                run.put(y, call, gate=gate, owner=owner, is_infinite=mark.is_infinite)
                cast(Mark, y.__dict__[KEY]).late = Late(x, mark, x._version)
                return y
            y = neurons.Passed.apply(run.finished(x, mark), [y])
            return run.put(y, call, gate=gate, owner=owner, is_infinite=mark.is_infinite)
        is_head = any(mark.sum is not None and mark.sum.sides is not None for _, mark in live)
        opened = {id(x): run.sided(x, mark) if is_head else run.opened(x, mark) for x, mark in live}
        if any(t.is_complex() for t in call.tensors):
            opened = {
                id(x): (run.less_bias(call, opened[id(x)][0], opened[id(x)][1].bias, mark.node), opened[id(x)][1])
                for x, mark in live
            }

        def term(thing: Any) -> Any:
            if not isinstance(thing, Tensor):
                return thing
            return opened[id(thing)][0] if id(thing) in opened else run.constant(thing)

        z = call.function(*map(term, args), **{key: term(each) for key, each in kwargs.items()})
        found = Totals(run, call, z, [(*each, mark) for each, mark in zip(terms, marks, strict=True)], opened)
        is_infinite = any(mark.is_infinite for mark in marks if mark is not None) or not found.is_finite
        log = common_log(call.inputs)
        if self.read is negate and marks[0] is not None and marks[0].call is not None and marks[0].call.name == "softplus":
            log = SQUASHED  # −softplus(z) is log σ(−z)
        owner = run.agreed(call, live, z)
        run.put(z, call, is_live=bool(live), gate=gate, sum=found.sum, log=log, owner=owner, is_infinite=is_infinite)
        found.tap(z, call.outputs[-1])
        return z

    def _of_two(self, run: ModelRun, call: ModelCall, a: Any, b: Any) -> Tensor | None:
        """a ± b, where both are part of what is explained; None if it is not so plain."""
        marks = call.marks
        if (
            a is b
            or not marks
            or any([m is not None and (not m.is_live or (m.sum is not None and m.sum.sides is not None)) for m in marks])
        ):
            return None
        if any([t.is_complex() for t in call.tensors]):
            return None
        if len(marks) != 2 or marks[0] is None or marks[1] is None:
            return self._with_bias(run, call, a, b)
        one, other = cast(Sequence[Mark], marks)
        if one.gate is not None and other.gate is not None:
            return None
        call.terms, call.sources = 2, (one.node, other.node)
        wire = bias = None
        if (
            one.sum is None
            and other.sum is None
            and a.shape == b.shape
            and a.dtype == b.dtype
            and not (one.is_infinite or other.is_infinite)
        ):
            made = neurons.Added.apply(run.finished(a, one), run.finished(b, other), call.function, self.read is subtract, run)
            z, wire = made if run.shares else (made, None)
            owner = run.agreed(call, [(a, one), (b, other)], z)
            return run.put(z, call, sum=OpenSum(call, wire, 2.0), log=common_log(call.inputs), owner=owner)
        (first, own), (second, more) = run.opened(a, one, is_thin=True), run.opened(b, other, is_thin=True)
        z = call.function(first, second)
        if own.wire is not None and more.wire is not None:
            wire = own.wire + more.wire
            wire = wire if wire.shape[:-1] == z.shape[:-1] else wire.expand(z.shape)
        if own.bias is not None or more.bias is not None:
            bias = call.function(*(torch.zeros_like(z) if each is None else each for each in (own.bias, more.bias)))
        count = None if own.count is None or more.count is None else own.count + more.count
        owner = run.agreed(call, [(a, one), (b, other)], z)
        log = common_log(call.inputs)
        is_infinite = one.is_infinite or other.is_infinite
        return run.put(z, call, sum=OpenSum(call, wire, count, bias), log=log, owner=owner, is_infinite=is_infinite)

    def _with_bias(self, run: ModelRun, call: ModelCall, a: Any, b: Any) -> Tensor | None:
        """z + b with a finite constant b."""
        mark = run.look(a) if isinstance(a, Tensor) else None
        if mark is None or self.read is not add or mark.gate is not None or mark.log is not None or run.is_audit:
            return None
        if not (is_number(b) or (isinstance(b, Tensor) and run.is_finite(b) and b.dtype == a.dtype)):
            return None
        z, own = run.opened(a, mark, is_thin=True)
        bias = run.constant(b) if isinstance(b, Tensor) else z.new_full((), b)
        node = Node(call)
        z = neurons.Biased.apply(z, bias, node, run)
        call.terms, call.sources = 1, (mark.node,)
        wire = own.wire if own.wire is None or own.wire.shape[:-1] == z.shape[:-1] else own.wire.expand(z.shape)
        kept = None
        if run.rules.delta != 0:
            kept = (bias if own.bias is None else own.bias + bias).expand(z.shape)
        node.owner = owner = (
            run.agreed(call, [(a, mark)], z)
            if z.shape == a.shape
            else run.samples.agreed(call, [(mark.owner, a.shape)], z.shape, z.device)
        )
        return run.put(z, call, sum=OpenSum(call, wire, own.count, kept), owner=owner, is_infinite=mark.is_infinite)


class Totals:
    """What the terms of a sum z make up: the wire, the biases, the sides, and the constants among them."""

    def __init__(
        self,
        run: ModelRun,
        call: ModelCall,
        z: Tensor,
        terms: Sequence[tuple[Any, Any, Mark | None]],
        opened: dict[int, tuple[Tensor, OpenSum]],
    ) -> None:
        self.run, self.call, self.is_complex = run, call, z.is_complex()
        self.constants: list[tuple[Any, Any]] = []  # and their scales
        self.dead: list[tuple[Tensor, Any, Mark]] = []  # lower neurons that are constants
        self.is_finite = True
        wire: Tensor | None = None
        count: float | None = 0.0
        bias: Tensor | None = None
        wants_bias = (run.rules.delta != 0 or not opened) and not z.is_complex()
        for operand, scale, mark in terms:
            own: OpenSum | None = None
            if isinstance(operand, Tensor) and id(operand) in opened:
                own = opened[id(operand)][1]
            elif mark is not None:
                own = mark.sum or OpenSum(call, None, 1.0)
                self.dead.append((run.captured(operand), run.captured(scale), mark))
            else:
                self.constants.append((run.captured(operand), run.captured(scale)))
                self.is_finite = self.is_finite and (is_number(operand) or run.is_trained(operand))
            factor = connected(scale)
            self.is_finite = self.is_finite and not isinstance(scale, Tensor)
            if own is not None and run.shares:
                own_count = own.count if not isinstance(factor, Tensor) else None
                mine = own.wire
                if mine is None and own.count is not None:
                    mine = run.full(z, own.count) if mark is not None and not mark.is_live else None
                if mine is not None and not (isinstance(factor, float) and factor == 1.0):
                    mine = mine * factor
                if mine is not None:
                    wire = mine if wire is None else wire + mine
                count = (
                    None
                    if count is None or own_count is None
                    else count + own_count * (factor if isinstance(factor, float) else 1)
                )
            if wants_bias:
                given = own.bias if own is not None else finite(operand)
                if given is not None:
                    bias = given * scale if bias is None else bias + given * scale
        if wire is not None and wire.shape != z.shape:
            wire = wire.expand(z.shape)
        if bias is not None:
            bias = torch.as_tensor(bias, dtype=z.dtype, device=z.device).expand(z.shape)
        if wire is None and run.shares and opened:
            wire, count = run.full(z, 0.0), 0.0
        self.sum = OpenSum(call, wire, count, bias, None)
        self.fixed: list[tuple[Sides, str]] = []  # of a sum of the head: the sides of its constants, and what they are
        if any(own.sides is not None for _, own in opened.values()):
            self.sum.sides, biases = self._sides(z, terms, opened)
            self.sum.bias_sides = biases if bias is not None else None

    def _sides(
        self, z: Tensor, terms: Sequence[tuple[Any, Any, Mark | None]], opened: dict[int, tuple[Tensor, OpenSum]]
    ) -> tuple[Sides, Sides]:
        """The positive and the negative contributions, and those of biases; a negative scale exchanges them."""
        total = biases = Sides(torch.zeros_like(z), torch.zeros_like(z))
        for operand, scale, mark in terms:
            bias: Sides | None = None
            if isinstance(operand, Tensor) and id(operand) in opened:
                known = opened[id(operand)][1]
                own = scaled_sides(cast(Sides, known.sides), scale)
                bias = None if known.bias_sides is None else scaled_sides(known.bias_sides, scale)
            else:
                given = torch.as_tensor(finite(operand) * scale, dtype=z.dtype, device=z.device).detach()
                own = sides_of(given)
                bias = own if mark is None else None
                self.fixed.append((own, "bias" if mark is None else "constant"))
            total = Sides(total.up + own.up, total.down + own.down)
            biases = biases if bias is None else Sides(biases.up + bias.up, biases.down + bias.down)
        return total, biases

    def tap(self, z: Tensor, node: Node) -> None:
        """Enter what constants absorb, when it comes back to the sum z."""
        run, rules = self.run, self.run.rules
        for parts, kind in self.fixed:
            for side, part in zip(cast(Sides, self.sum.sides), parts, strict=True):
                run.tap(side, lambda q, part=part, kind=kind: self._absorb_side(q, part, kind, node))
        shape = tuple(z.shape)
        wire = self.sum.wire
        del self.sum  # it leads back to the hooks that hold this
        if self.dead:
            run.tap(wire, lambda s: self._absorb_shares(s, node, shape))
        if self.fixed:
            return
        if (self.constants and (rules.delta != 1 or self.is_complex)) or self.dead:
            run.tap(z, lambda q: self._absorb(q, node, shape))

    def _absorb_side(self, q: Tensor, part: Tensor, kind: str, node: Node) -> None:
        """Enter what a constant in a sum of the head absorbs on one side."""
        stopped = absorbed_by_bias(part, q=q, rules=self.run.rules) if kind == "bias" else part * q
        self.run.ledger.absorb(self.call, kind, stopped, node, tuple(q.shape))

    def _absorb(self, q: Tensor, node: Node, shape: tuple[int, ...]) -> None:
        ledger, rules = self.run.ledger, self.run.rules
        for constant, scale in self.constants:
            own_q = q * (scale.conj() if isinstance(scale, Tensor) else scale.conjugate()) if not is_one(scale) else q
            bias = torch.as_tensor(finite(constant), dtype=q.dtype, device=q.device)
            if q.is_complex() or self.is_complex:
                ledger.absorb(self.call, "bias", (bias * own_q.conj()).real, node, shape)
            else:
                ledger.absorb(self.call, "bias", absorbed_by_bias(bias, q=own_q, rules=rules), node, shape)
        for value, scale, own in self.dead:
            own_q, bias = q * scale, None if own.sum is None else own.sum.bias
            amount = value.detach().nan_to_num(0.0, 0.0, 0.0)
            if bias is not None:
                if rules.delta != 1:
                    ledger.absorb(own.call or self.call, "bias", absorbed_by_bias(bias, q=own_q, rules=rules), node, shape)
                amount = amount - bias
            ledger.absorb(self.call, "constant", amount * own_q, node, shape)

    def _absorb_shares(self, s: Tensor, node: Node, shape: tuple[int, ...]) -> None:
        for _, scale, own in self.dead:
            count = 1.0 if own.sum is None else own.sum.count if own.sum.count is not None else cast(Tensor, own.sum.wire)
            self.run.ledger.absorb(self.call, "constant", s * count * connected(scale), node, shape)


def scaled_sides(sides: Sides, scale: Any) -> Sides:
    """The sides of a term after it is scaled: a negative scale turns positive contributions into negative ones."""
    if isinstance(scale, Tensor):
        keeps = scale >= 0
        return Sides(torch.where(keeps, *sides) * scale, torch.where(keeps, *sides[::-1]) * scale)
    return Sides(sides.up * scale, sides.down * scale) if scale >= 0 else Sides(sides.down * scale, sides.up * scale)


def is_one(scale: Any) -> bool:
    """Whether a scale is the number 1."""
    return not isinstance(scale, Tensor) and scale == 1


def _gate_of(call: ModelCall, terms: Sequence[Term], marks: Sequence[Mark | None]) -> tuple[Gate | None, bool]:
    """A sum of gates and numbers only, such as 1 − g and f + i, is a gate if it cannot be negative; so is g · mask.

    Also whether it is one minus a gate, or another shift of a single gate that stays within [0, 1].
    """
    if not all(mark.gate is not None for mark in call.inputs):
        return None, False
    lowest = 0.0
    for (operand, scale), mark in zip(terms, marks, strict=True):
        smallest, constant = smallest_of(scale), None if mark is not None else level(operand)
        if smallest is None or (constant is None and mark is None):
            return None, False
        lowest += min(smallest, 0.0) if constant is None else constant * smallest
    if lowest < 0:
        return None, False
    gate = common_gate(call.inputs)
    if gate is None or len(call.inputs) != 1 or any(isinstance(scale, Tensor) for _, scale in terms):
        return gate, False
    scales = [float(scale) for (_, scale), mark in zip(terms, marks, strict=True) if mark is not None]
    at_zero = sum((level(t.operand) or 0.0) * float(t.scale) for t, mark in zip(terms, marks, strict=True) if mark is None)
    return gate, max(at_zero, at_zero + sum(scales)) <= 1


class Reduction(Rule):
    """A sum or mean over axes, or a running sum."""

    words = "sum over an axis"
    has_sides = True

    def __init__(self, *, is_mean: bool = False, is_running: bool = False) -> None:
        self.is_mean, self.is_running = is_mean, is_running
        self.words = "running sum" if is_running else self.words

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        x, rest = args[0], args[1:]
        mark = run.look(x)
        if mark is None:
            raise NoRule("its axes depend on the input")
        call.sources = tuple(each for each in call.inputs if each.is_live)
        z, own = run.opened(x, mark) if mark.is_live else (x, mark.sum or OpenSum(call, None, 1.0))
        out = call.function(z, *rest, **kwargs)
        wire = own.wire
        if run.shares and wire is None:
            wire = run.full(z, own.count if own.count is not None else 1.0)
        more = {key: each for key, each in kwargs.items() if key != "dtype"}
        counts = (
            None
            if wire is None
            else (call.function(wire, *rest, **more) if self.is_running else torch.sum(wire, *rest, **more))
        )
        terms = x.numel() // max(out.numel(), 1)
        count = None if own.count is None or self.is_running else own.count * terms
        bias = None if own.bias is None else call.function(own.bias, *rest, **kwargs)
        axes = reduced_axes(args, kwargs, x.dim())
        owner = mark.owner
        if not run.samples.is_one:
            owner = run.samples.reduced(call, owner, x.shape, axes, x.device, keeps=self.is_running or out.dim() == x.dim())
            owner = run.samples.numbers(owner, out.shape, x.device) if isinstance(owner, Tensor) else owner
            owner = run.samples.told(owner) if isinstance(owner, Tensor) else owner
        sides = self._sides(call, own.sides, rest, kwargs)
        found = OpenSum(call, counts, count, bias, sides, self._sides(call, own.bias_sides, rest, kwargs))
        return run.put(
            out, call, is_live=mark.is_live, gate=mark.gate, sum=found, log=mark.log, owner=owner, is_infinite=mark.is_infinite
        )

    def _sides(self, call: ModelCall, sides: Sides | None, rest: Args, kwargs: Kwargs) -> Sides | None:
        return None if sides is None else Sides(*(call.function(each, *rest, **kwargs) for each in sides))


def reduced_axes(args: Args, kwargs: Kwargs, dimensions: int) -> Sequence[int]:
    """The axes of a sum or mean: all of them, unless the call names some."""
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if given is None or given in ((), []):
        return range(dimensions)
    return [given] if isinstance(given, int) else list(given)


def level(constant: Any) -> float | None:
    """A constant as one number; None if it holds several, or complex ones."""
    if isinstance(constant, Tensor):
        constant = constant.detach()
        if not constant.numel() or constant.is_complex() or bool((constant != constant.reshape(-1)[0]).any()):
            return None
        return float(constant.reshape(-1)[0])
    return None if isinstance(constant, complex) else float(constant)


def smallest_of(scale: Any) -> float | None:
    """The smallest number of a scale; None if it has none."""
    if isinstance(scale, Tensor):
        return float(scale.min()) if scale.numel() and not scale.is_complex() else None
    return None if isinstance(scale, complex) else float(scale)


def connected(scale: Any) -> Any:
    """1 where a term takes part in its sum, 0 where a zero scale (a mask) leaves it out."""
    if isinstance(scale, Tensor):
        return (scale != 0).to(scale.dtype if not scale.is_complex() else scale.real.dtype)
    return float(scale != 0)


def finite(constant: Any) -> Any:
    """A constant term with 0 in place of a mask's infinities: an infinite sum hands nothing back."""
    return (
        constant.detach().nan_to_num(0.0, 0.0, 0.0)
        if isinstance(constant, Tensor) and constant.is_floating_point()
        else constant
    )


def add(input: Any, other: Any, *, alpha: float = 1) -> Sequence[Term]:
    """a + alpha·b."""
    return Term(input), Term(other, alpha)


def subtract(input: Any, other: Any, *, alpha: float = 1) -> Sequence[Term]:
    """a − alpha·b."""
    return Term(input), Term(other, -alpha)


def subtract_from(input: Any, other: Any, *, alpha: float = 1) -> Sequence[Term]:
    """b − alpha·a."""
    return Term(other), Term(input, -alpha)


def negate(input: Any) -> Sequence[Term]:
    """−a."""
    return (Term(input, -1.0),)


class Scale(Sum):
    """A live operand times a constant, or divided by one."""

    def _scaled(self, run: ModelRun, call: ModelCall, x: Tensor, scale: Any) -> Tensor | None:
        """c · x; None if it is not so plain."""
        mark = run.look(x)
        own = None if mark is None else mark.sum
        if mark is None or not mark.is_live or mark.gate is not None or mark.log is not None or x.is_complex():
            return None
        if (own is not None and own.sides is not None) or not (
            is_number(scale) or (isinstance(scale, Tensor) and run.is_finite(scale))
        ):
            return None
        if isinstance(scale, complex) or (isinstance(scale, Tensor) and not scale.is_floating_point()):
            return None
        call.terms, call.sources = 1, (mark.node,)
        call.is_scale = True
        z, own = run.opened(x, mark)
        scale = run.constant(scale) if isinstance(scale, Tensor) else scale
        z = z * scale
        wire, bias, factor = own.wire, own.bias, connected(scale)
        if wire is not None and not (isinstance(factor, float) and factor == 1.0):
            wire = wire * factor
        if wire is not None and wire.shape != z.shape:
            wire = wire.expand(z.shape)
        bias = None if bias is None else bias * scale
        count = own.count if not isinstance(factor, Tensor) and factor == 1 else None
        owner = run.samples.agreed(call, [(mark.owner, x.shape)], z.shape, z.device) if not run.samples.is_one else None
        return run.put(z, call, sum=OpenSum(call, wire, count, bias), owner=owner, is_infinite=mark.is_infinite)

    def __init__(self, *, divides: bool = False) -> None:
        super().__init__(divided if divides else scaled)

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        if self.read is scaled and isinstance(args[1], Tensor) and (mark := run.look(args[1])) is not None and mark.is_live:
            args = (args[1], args[0], *args[2:])  # the live one first
        elif self.read is scaled and not (isinstance(args[0], Tensor) and run.look(args[0]) is not None):
            args = (args[1], args[0], *args[2:])
        if self.read is scaled and len(args) == 2 and not kwargs:
            found = self._scaled(run, call, *args)
            if found is not None:
                return found
        return super().follow(run, call, args, kwargs)


def scaled(a: Any, b: Any) -> Sequence[Term]:
    """a·b with a constant b."""
    return (Term(a, b.detach() if isinstance(b, Tensor) else b),)


def divided(a: Tensor, b: Any, *, rounding_mode: None = None) -> Sequence[Term]:
    """a / b with a constant b."""
    if isinstance(b, Tensor):
        b = (b if b.is_floating_point() or b.is_complex() else b.to(a.dtype)).detach()
    return (Term(a, 1 / b),)
