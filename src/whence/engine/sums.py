"""Additions: part of an open sum. PyTorch's own calls on the sum, and on its wire."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.engine import neurons
from whence.engine.activations import passed
from whence.engine.marks import (
    KEY,
    PART,
    SQUASHED,
    WHOLE,
    Args,
    Before,
    Gate,
    Known,
    Kwargs,
    Mark,
    ModelCall,
    Node,
    OpenSum,
    Owner,
    common_gate,
    common_log,
)
from whence.engine.resting import KIND
from whence.engine.rule import NoRule, Rule, is_number
from whence.engine.run import ModelRun
from whence.equations import Sides, sides_of


class Fixed(NamedTuple):
    """A constant part of a sum, and what absorbs its relevance."""

    call: ModelCall
    kind: str
    part: Tensor


Term = tuple[Any, Any]  # an operand, and its constant scale
Reader = Callable[..., Sequence[Term]]
MIXED = "it computes with the sums of a dense layer, and the signs of their contributions are lost"


class Sum(Rule):
    """An elementwise sum of scaled terms; constants among them are biases."""

    words = "sum"
    combines = has_sides = True

    def __init__(self, read: Reader) -> None:
        self.read = read

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        rests = any([mark is not None and mark.rests for mark in call.marks])
        if rests:
            run.settle(
                [(x, mark) for x, mark in zip(call.tensors, call.marks, strict=True) if mark is not None and mark.is_live]
            )
            rests = any([mark is not None and mark.rests for mark in call.marks])
        if self.read in PLAIN and not rests and not kwargs and (two := _two_live(call)) is not None:
            return self._of_two(run, call, args[0], args[1], *two)
        if self.read is add and not rests and not kwargs and _has_plain_bias(run, call, args):
            return self._with_bias(run, call, args[0], args[1])
        try:
            terms = self.read(*args, **kwargs)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        known = dict(zip(map(id, call.tensors), call.marks, strict=True))
        marked = [(each, mark) for each, _ in terms if (mark := known.get(id(each))) is not None]
        live = [(each, mark) for each, mark in marked if mark.node.is_live]
        call.terms, call.is_scale, call.sources = len(marked), len(terms) == 1, tuple([mark.node for _, mark in live])
        gate = common_gate(call.inputs)
        gate, is_activation = (None, False) if gate is None else _gate_of(call, gate, terms, known)
        if is_activation and live:  # 1 − σ(a) is σ(−a): its relevance is that of a
            x, mark = live[0]
            y = call.function(*[x.detach() if arg is x else arg for arg in args], **kwargs)
            is_sum, rest = mark.stands_apart, None
            if mark.rest is not None and not is_sum:
                rest = call.function(*[run.rest_of(x.detach(), mark) if arg is x else arg for arg in args], **kwargs)
            facts: dict[str, Any] = {"gate": gate, "owner": run.agreed(call, live, y), "rest": rest}
            y = passed(run, call, x, mark, y, is_late=True, is_infinite=mark.is_infinite, **facts)
            if is_sum:
                made = partial(self.made, run, call, args, kwargs, terms, known, live)
                run.put_off(y, [x], lambda: _at_rest(run, y, made))
            return y
        made = partial(self.made, run, call, args, kwargs, terms, known, live)
        z, own, fixed = made()
        is_infinite = any([node.is_infinite for node in call.inputs])
        if len(live) < 2 and not is_infinite:
            is_infinite = not _are_finite(run, terms, known)
        log, owner = common_log(call.inputs), run.agreed(call, live, z)
        if self.read is negate and (maker := call.inputs[0].call) is not None and maker.name == "softplus":
            log = SQUASHED  # −softplus(z) is log σ(−z)
        run.put(z, call, is_live=bool(live), gate=gate, sum=own, log=log, owner=owner, is_infinite=is_infinite)
        for each in fixed:
            absorb(run, each, z, own)
        if call.is_scale and live and live[0][1].before is not None:
            versions = tuple((x, x._version) for x, _ in live)
            cast(Mark, z.__dict__[KEY]).before = Before(call, args, kwargs, 0, False, versions)
        if rests and not z.is_complex():
            run.put_off(z, [x for x, _ in live], lambda: _at_rest(run, z, made))
            note_log_sums(call, z, live)
        if len(live) == 1:
            mark, source = cast(Mark, z.__dict__[KEY]), live[0][1]
            mark.state, mark.partition = source.state, source.partition if len(terms) > 1 else None
        return z

    def made(
        self,
        run: ModelRun,
        call: ModelCall,
        args: Args,
        kwargs: Kwargs,
        terms: Sequence[Term],
        known: Mapping[int, Mark | None],
        live: Sequence[tuple[Tensor, Mark]],
        *,
        rests: bool = False,
    ) -> tuple[Tensor, OpenSum, list[Fixed]]:
        """The sum on the graph, what it is made of, and its constants. `rests`: with its value at rest."""
        opened = {id(x): run.rested(x, mark) for x, mark in live} if rests else _opened(run, call, live, terms)
        z = call.function(*[_on_graph(run, arg, opened) for arg in args], **kwargs)
        parts = [scaled_sum(opened[id(each)][1], scale) for each, scale in terms if id(each) in opened]
        fixed: list[Fixed] = []
        if len(parts) < len(terms):
            constants = [(term, known.get(id(term[0]))) for term in terms if id(term[0]) not in opened]
            is_head = not rests and _has_sides(live)
            parts += [_constant(run, call, z, *each, fixed, is_head=is_head, rests=rests) for each in constants]
        return z, _joined(run, call, z, parts, is_live=bool(live)), fixed

    def _of_two(self, run: ModelRun, call: ModelCall, a: Tensor, b: Tensor, one: Mark, other: Mark) -> Tensor:
        """a + b or a − b, as most sums are."""
        call.terms, call.sources, scale = 2, (one.node, other.node), -1 if self.read is subtract else 1
        is_infinite = one.node.is_infinite or other.node.is_infinite
        if one.sum is None and other.sum is None and a.shape == b.shape and a.dtype == b.dtype and not is_infinite:
            (first, x), (second, y) = run.carried(a, one), run.carried(b, other)
            made = neurons.Added.apply(first, second, (x, y), scale, run)
            z, wire = made if run.shares else (made, None)
            own = OpenSum(call, wire, 2.0)
        else:
            (x, own), (y, more) = run.opened(a, one, is_thin=True), run.opened(b, other, is_thin=True)
            z = call.function(x, y)
            own = _joined(run, call, z, [own, scaled_sum(more, scale)], is_live=True)
        owner = run.agreed(call, [(a, one), (b, other)], z)
        run.put(z, call, sum=own, log=common_log(call.inputs), owner=owner, is_infinite=is_infinite)
        if self.read is subtract and a.shape == z.shape != b.shape:
            run.remember(cast(Mark, z.__dict__[KEY])).shifted = Known(a, one, a._version), Known(b, other, b._version)
        return z

    def _with_bias(self, run: ModelRun, call: ModelCall, x: Tensor, bias: Any) -> Tensor:
        """z + b, where b is a finite constant."""
        mark = cast(Mark, call.marks[0])
        call.terms, call.sources = 1, (mark.node,)
        z, own = run.opened(x, mark, is_thin=True)
        value = run.constant(bias) if isinstance(bias, Tensor) else run.full(z, bias)
        z = neurons.Biased.apply(z, value, call, run)
        own = _joined(run, call, z, [own, OpenSum(call, None, 0.0, value)], is_live=True)
        return run.put(z, call, sum=own, owner=run.agreed(call, [(x, mark)], z), is_infinite=mark.is_infinite)


def at_rest(run: ModelRun, call: ModelCall, y: Tensor, args: Args, kwargs: Kwargs, read: Reader) -> None:
    """Note how a sum that was put as something else stands with its value at rest."""
    terms = read(*args, **kwargs)
    known = dict(zip(map(id, call.tensors), call.marks, strict=True))
    live = [(each, mark) for each, _ in terms if (mark := known.get(id(each))) is not None and mark.is_live]
    made = partial(Sum(read).made, run, call, args, kwargs, terms, known, live)
    run.put_off(y, [x for x, _ in live], lambda: _at_rest(run, y, made))


def _at_rest(run: ModelRun, y: Tensor, made: Callable[..., tuple[Tensor, OpenSum, list[Fixed]]]) -> tuple[Tensor, OpenSum]:
    """The sum y with its value at rest."""
    z, own, fixed = made(rests=True)
    for each in fixed:
        absorb(run, each, z, own, cast(Mark, y.__dict__[KEY]).node)
    return z, own


class BehindGate(Sum):
    """A gate times a constant: a scaled activation; or a former state, where a gate times a source is added to it."""

    multiplies = True

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        z = super().follow(run, call, args, kwargs)
        (constant,) = (each for each, mark in zip(call.tensors, call.marks, strict=True) if mark is None)
        # an initial state (B, H) has as many axes as the gate, also one that is trained
        is_whole = constant.dim() == z.dim() <= 2 and (run.is_given(constant) or run.is_held(constant))
        cast(Mark, z.__dict__[KEY]).state = WHOLE if is_whole else PART
        return z


def _has_plain_bias(run: ModelRun, call: ModelCall, args: Args) -> bool:
    """Whether a call adds a finite constant to a real number that is no gate, no logarithm and no sum of the head."""
    mark = call.marks[0] if len(args) == 2 and args[0] is call.tensors[0] else None
    if mark is None or not mark.is_live or len(call.inputs) > 1 or mark.gate is not None or mark.log is not None:
        return False
    if mark.sum is not None and mark.sum.sides is not None:
        return False
    x, bias = args
    if isinstance(bias, Tensor):
        return bias.dtype == x.dtype and not x.is_complex() and run.is_finite(bias)
    return is_number(bias) and not isinstance(bias, complex) and not x.is_complex()


def _two_live(call: ModelCall) -> tuple[Mark, Mark] | None:
    """The marks of two real operands that depend on what is explained, no gates and no sums of the head; None for others."""
    if len(call.marks) != 2:
        return None
    one, other = call.marks
    if one is None or other is None or one is other or not (one.node.is_live and other.node.is_live):
        return None
    if (
        (one.node.gate is not None and other.node.gate is not None)
        or call.tensors[0].is_complex()
        or call.tensors[1].is_complex()
    ):
        return None
    return None if any([mark.sum is not None and mark.sum.sides is not None for mark in (one, other)]) else (one, other)


def _has_sides(live: Sequence[tuple[Tensor, Mark]]) -> bool:
    """Whether one of them is a sum of the head."""
    return any([mark.sum is not None and mark.sum.sides is not None for _, mark in live])


def _opened(
    run: ModelRun, call: ModelCall, live: Sequence[tuple[Tensor, Mark]], terms: Sequence[Term]
) -> dict[int, tuple[Tensor, OpenSum]]:
    """The live operands as open sums; of the head, with their sides."""
    if _has_sides(live):
        return {id(x): run.sided(x, mark) for x, mark in live}
    opened = {id(x): run.opened(x, mark, is_thin=True, rests=False) for x, mark in live}
    if any([each.is_complex() if isinstance(each, Tensor) else type(each) is complex for term in terms for each in term]):
        for x, mark in live:
            z, own = opened[id(x)]
            opened[id(x)] = run.less_bias(call, z, own.bias, mark.node), own
    return opened


def _on_graph(run: ModelRun, operand: Any, opened: dict[int, tuple[Tensor, OpenSum]]) -> Any:
    if id(operand) in opened:
        return opened[id(operand)][0]
    return run.constant(operand) if isinstance(operand, Tensor) else operand


def _joined(run: ModelRun, call: ModelCall, z: Tensor, parts: Sequence[OpenSum], *, is_live: bool) -> OpenSum:
    """The open sum z of several parts."""
    own = OpenSum(call, parts[0].wire, parts[0].count, parts[0].bias, rest=parts[0].rest)
    for part in parts[1:]:
        own.wire, own.bias, own.rest = _plus(own.wire, part.wire), _plus(own.bias, part.bias), _plus(own.rest, part.rest)
        own.count = None if own.count is None or part.count is None else own.count + part.count
    if own.wire is None and run.shares and is_live:
        own.wire, own.count = run.full(z, 0.0), 0.0
    if own.wire is not None and own.wire.shape[:-1] != z.shape[:-1]:
        own.wire = own.wire.expand(z.shape)
    if own.rest is not None:
        own.rest = own.rest.to(z.dtype).expand(z.shape)
    if own.bias is not None:
        wants_bias = (run.rules.delta != 0 or not is_live) and not z.is_complex()
        own.bias = own.bias.to(z.dtype).expand(z.shape) if wants_bias else None
    if is_live and parts[0].sides is not None:
        own.sides = _total_sides([part.sides for part in parts], z)
        own.bias_sides = None if own.bias is None else _total_sides([part.bias_sides for part in parts], z)
    return own


def _plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _total_sides(parts: Sequence[Sides | None], z: Tensor) -> Sides:
    found = Sides(torch.zeros_like(z), torch.zeros_like(z))
    for part in parts:
        found = found if part is None else Sides(found.up + part.up, found.down + part.down)
    return found


def _constant(
    run: ModelRun,
    call: ModelCall,
    z: Tensor,
    term: Term,
    mark: Mark | None,
    fixed: list[Fixed],
    *,
    is_head: bool,
    rests: bool,
) -> OpenSum:
    """A constant term: a bias, or lower neurons that no relevance goes on to. What it absorbs is added to `fixed`.

    `rests`: it is part of a sum with a value at rest, and stays as it is there.
    """
    operand, scale = term
    value = _value(run, z, operand)
    value = value if is_one(scale) else value * scale
    sides = sides_of(value) if is_head else None
    if rests:
        fixed.append(Fixed(call, KIND, value))
        return OpenSum(call, None, 0.0, rest=value.expand(z.shape))
    if mark is None:
        fixed.append(Fixed(call, "bias", value))
        return OpenSum(call, None, 0.0, value, sides, sides)
    own = mark.sum or OpenSum(call, None, 1.0)
    if run.shares:
        wire = run.full(z, cast(float, own.count)) if own.wire is None else own.wire.expand(z.shape)
        own = replace(own, wire=wire)
    own = replace(scaled_sum(own, scale), sides=sides, bias_sides=None)
    if own.wire is not None:
        fixed.append(Fixed(call, "share", own.wire))
    if own.bias is not None and not is_head:
        fixed.append(Fixed(mark.call or call, "bias", own.bias))
        value = value - own.bias
    fixed.append(Fixed(call, "constant", value))
    return own


def _value(run: ModelRun, z: Tensor, constant: Any) -> Tensor:
    """A constant term with 0 in place of a mask's infinities: an infinite sum hands nothing back."""
    if not isinstance(constant, Tensor):
        return run.full(z, constant)
    if run.is_finite(constant) or not constant.is_floating_point():
        return run.captured(constant).detach().to(z)
    return constant.detach().nan_to_num(0.0, 0.0, 0.0).to(z)


def absorb(run: ModelRun, fixed: Fixed, z: Tensor, own: OpenSum, node: Node | None = None) -> None:
    """Enter what a constant part of an open sum absorbs, when relevance comes back to the sum, to its sides or to its wire."""
    call, kind, part = fixed
    node = node or cast(ModelCall, run.current).outputs[-1]

    def tap(tensor: Tensor | None, part: Tensor) -> None:
        def note(q: Tensor) -> None:
            if kind == "bias" and not q.is_complex():
                run.ledger.absorb_bias(call, part, q, node)
            else:
                amount = part * q.conj()
                name = "constant" if kind == "share" else kind
                run.ledger.absorb(call, name, amount.real if amount.is_complex() else amount, node, tuple(q.shape))

        run.tap(tensor, note)

    if kind == "share":
        tap(own.wire, part)
    elif own.sides is None:
        tap(z, part)
    else:
        for side, each in zip(own.sides, sides_of(part), strict=True):
            tap(side, each)


def scaled_sum(own: OpenSum, scale: Any) -> OpenSum:
    """A term after it is scaled: a negative scale turns positive contributions into negative ones."""
    if is_one(scale):
        return own
    scale, factor = scale.detach() if isinstance(scale, Tensor) else scale, connected(scale)
    wire = own.wire if own.wire is None or is_one(factor) else own.wire * factor
    count = None if own.count is None or isinstance(factor, Tensor) else own.count * factor
    sides, biases = (None if each is None else _scaled_sides(each, scale) for each in (own.sides, own.bias_sides))
    bias, rest = (None if part is None else part * scale for part in (own.bias, own.rest))
    return OpenSum(own.call, wire, count, bias, sides, biases, rest=rest)


def note_log_sums(call: ModelCall, y: Tensor, live: Sequence[tuple[Tensor, Mark]]) -> None:
    """Note where a log Σ exp is part of a sum, and where z − log Σ exp(z), recognised by its numbers, is a log_softmax."""
    mark = cast(Mark, y.__dict__[KEY])
    axes = {each.log_sums for _, each in live if each.log_sums is not None}
    if len(axes) != 1:
        return
    (mark.log_sums,) = axes
    (z, own), *rest = live
    if (
        len(rest) != 1
        or len(cast(Any, mark.log_sums)) != 1
        or own.log_sums is not None
        or not (z.shape == y.shape != rest[0][0].shape)
    ):
        return
    if is_close(y, z.detach().log_softmax(cast(Any, mark.log_sums)[0])):
        scores = unshifted(Known(z, own, z._version), mark.log_sums)[0].tensor
        mark.before = Before(call, (scores,), {}, 0, squashes=True)


def unshifted(known: Known, axes: tuple[int, ...]) -> tuple[Known, Known | None]:
    """z and m in the place of z − m, where m is the same along the axes: it does not matter to what normalises over them."""
    shifted = known.mark.shifted
    if shifted is None or not all(each.is_current for each in (known, *shifted)):
        return known, None
    z, m = shifted
    padded = (1,) * (z.tensor.dim() - m.tensor.dim()) + tuple(m.tensor.shape)
    return shifted if all(padded[axis] == 1 for axis in axes) else (known, None)


def is_close(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers but for rounding."""
    some = max(100 * torch.finfo(one.dtype).eps, 1e-6)  # people add 1e-9 to what they divide by
    return one.shape == other.shape and bool(torch.allclose(one.detach(), other.detach(), rtol=some, atol=some))


def _scaled_sides(sides: Sides, scale: Any) -> Sides:
    if isinstance(scale, Tensor):
        return Sides(torch.where(scale >= 0, *sides) * scale, torch.where(scale >= 0, *sides[::-1]) * scale)
    return Sides(sides.up * scale, sides.down * scale) if scale >= 0 else Sides(sides.down * scale, sides.up * scale)


def is_one(scale: Any) -> bool:
    """Whether a scale is the number 1."""
    return not isinstance(scale, Tensor) and scale == 1


def connected(scale: Any) -> Any:
    """1 where a term takes part in its sum, 0 where a zero scale (a mask) leaves it out."""
    if isinstance(scale, Tensor):
        return (scale != 0).to(scale.dtype if not scale.is_complex() else scale.real.dtype)
    return float(scale != 0)


def _are_finite(run: ModelRun, terms: Sequence[Term], known: Mapping[int, Mark | None]) -> bool:
    """Whether constants and scales are known to hold no infinities."""
    for operand, scale in terms:
        is_scaled = known.get(id(operand)) is not None
        given = scale if is_scaled else operand
        if not (run.is_finite(given) if isinstance(given, Tensor) else is_scaled or is_number(given)):
            return False
    return True


def _gate_of(call: ModelCall, gate: Gate, terms: Sequence[Term], known: Mapping[int, Mark | None]) -> tuple[Gate | None, bool]:
    """A sum of gates and numbers only, such as 1 − g and f + i, is a gate if it cannot be negative; so is g · mask.

    Also whether it is one minus a gate, or another shift of a single gate that stays within [0, 1].
    """
    lowest = highest = 0.0
    for operand, scale in terms:
        mark = known.get(id(operand))
        ends, scales = (0.0, 1.0) if mark is not None else _bounds(operand), _bounds(scale)
        if ends is None or scales is None or (mark is None and ends[0] != ends[1]):
            return None, False
        products = [end * each for end in ends for each in scales]
        lowest, highest = lowest + min(products), highest + max(products)
    if lowest < 0:
        return None, False
    is_shift = len(call.inputs) == 1 and not any(isinstance(scale, Tensor) for _, scale in terms)
    return gate, is_shift and highest <= 1


def _bounds(constant: Any) -> tuple[float, float] | None:
    """The smallest and the largest number of a constant; None if it has none, or complex ones."""
    if isinstance(constant, Tensor):
        has_bounds = constant.numel() > 0 and not constant.is_complex()
        return (float(constant.detach().min()), float(constant.detach().max())) if has_bounds else None
    return None if isinstance(constant, complex) else (float(constant), float(constant))


class Reduction(Rule):
    """A sum or mean over axes, or a running sum."""

    words = "sum over an axis"
    has_sides = True

    def __init__(self, *, is_mean: bool = False, is_running: bool = False) -> None:
        self.is_mean, self.is_running = is_mean, is_running
        self.words = "running sum" if is_running else self.words

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        x, rest, mark = args[0], args[1:], run.look(args[0])
        if mark is None:
            raise NoRule("its axes depend on the input")
        call.sources = tuple(node for node in call.inputs if node.is_live)
        out, found = self._reduced(run, call, x, mark, rest, kwargs)
        known: dict[str, Any] = {"gate": mark.gate, "log": mark.log, "is_infinite": mark.is_infinite}
        owner = reduced_owner(run, call, x, mark, out, args, kwargs)
        run.put(out, call, is_live=mark.is_live, sum=found, owner=owner, **known)
        if mark.rests:
            run.put_off(out, [x], lambda: self._reduced(run, call, x, mark, rest, kwargs, rests=True))
        if mark.exponent is not None and call.name == "sum" and "dtype" not in kwargs:
            axes = axes_of(x, kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None)))
            run.remember(cast(Mark, out.__dict__[KEY])).partition = mark.exponent, axes
        return out

    def _reduced(
        self, run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, rest: Args, kwargs: Kwargs, *, rests: bool = False
    ) -> tuple[Tensor, OpenSum]:
        if mark.is_live:
            z, own = run.opened(x, mark, rests=rests)
        else:
            z, own = x, mark.sum or OpenSum(call, None, 1.0)
        out = call.function(z, *rest, **kwargs)
        found = replace(own, wire=None).each(lambda part: call.function(part, *rest, **kwargs))
        found.call, found.count = (
            call,
            None if own.count is None or self.is_running else own.count * (x.numel() // max(out.numel(), 1)),
        )
        if run.shares:
            wire = run.full(z, 1.0 if own.count is None else own.count) if own.wire is None else own.wire
            more = {key: each for key, each in kwargs.items() if key != "dtype"}
            found.wire = (call.function if self.is_running else torch.sum)(wire, *rest, **more)
        return out, found


def axes_of(x: Tensor, given: Any) -> tuple[int, ...]:
    """The axes that a call names, counted from the left; all of them, unless it names some."""
    axes = range(x.dim()) if given is None or given in ((), []) else [given] if isinstance(given, int) else given
    return tuple(axis % x.dim() for axis in axes)


def reduced_owner(run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Owner:
    """The owner of a result that one axis or several were reduced to, or run over: all axes, unless the call names some."""
    if run.samples.is_one or not mark.is_live:
        return None
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    axes = axes_of(x, given)
    owner = run.samples.reduced(call, mark.owner, x.shape, axes, x.device, keeps=y.dim() == x.dim())
    return run.samples.told(owner.expand(y.shape)) if isinstance(owner, Tensor) else owner


def add(input: Any, other: Any, *, alpha: float = 1) -> Sequence[Term]:
    """a + alpha·b."""
    return (input, 1), (other, alpha)


def subtract(input: Any, other: Any, *, alpha: float = 1) -> Sequence[Term]:
    """a − alpha·b."""
    return (input, 1), (other, -alpha)


def subtract_from(input: Any, other: Any, *, alpha: float = 1) -> Sequence[Term]:
    """b − alpha·a."""
    return (other, 1), (input, -alpha)


PLAIN = (add, subtract)


def negate(input: Any) -> Sequence[Term]:
    """−a."""
    return ((input, -1),)


def scaled(a: Any, b: Any) -> Sequence[Term]:
    """a·b with a constant b."""
    return ((a, b),)


def scaled_by_first(a: Any, b: Any) -> Sequence[Term]:
    """a·b with a constant a."""
    return ((b, a),)


def divided(a: Tensor, b: Any, *, rounding_mode: None = None) -> Sequence[Term]:
    """a / b with a constant b."""
    if isinstance(b, Tensor):
        b = (b if b.is_floating_point() or b.is_complex() else b.to(a.dtype)).detach()
    return ((a, 1 / b),)
