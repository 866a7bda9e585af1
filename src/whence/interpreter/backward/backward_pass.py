"""The backward pass: relevance goes from the score through every step to the inputs; a ledger keeps what was absorbed."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, overrides

from whence.equations import (
    Rules,
    Sides,
    absorbed_by_stabiliser,
    coefficient,
    share,
    sides_alpha_beta,
    sides_gamma,
    sides_of,
    sign,
    stabiliser,
    stabiliser_of_sides,
)
from whence.errors import InputError
from whence.interpreter.backward.samples import Samples
from whence.interpreter.record.refusal import unforeseen
from whence.interpreter.record.step import Arriving, FanIn, Index, Open, Rule, Step, Trace, Value


class Structure(NamedTuple):
    """What follows from the structure of a record, whatever its numbers: worked out once, for all calls like it."""

    path: Sequence[Step]  # the steps that relevance passes, in order
    fan_ins: Mapping[Value, FanIn]  # of the sums for which it follows from the structure
    shared: Collection[Value]  # those of them that have a lower neuron everywhere
    counted: Sequence[Step]  # the steps whose fan-in or bias depends on numbers
    users: Counter[Value]  # how many steps use a value
    infinite: Collection[Value]  # that may hold infinities, as those of a mask


class BackwardPass:
    """One backward pass, from the score to the inputs.

    `absorbed` is the ledger: amounts (K, B) by layer and by what absorbed them. With `audit`, `gaps` holds for each layer the
    relevance (K, B) that arrived but was neither handed on nor absorbed. With a `direction`, the first layer of a bidirectional
    network hands on only what came through that direction. The sums of the steps `head` follow `rules.head`.
    """

    _adds_parts = True  # whether what arrives at parts of a value is added up in place

    def __init__(
        self,
        trace: Trace,
        rules: Rules,
        samples: Samples,
        *,
        audit: bool = False,
        direction: int | None = None,
        head: Collection[Step] = (),
        known: Structure | None = None,
    ) -> None:
        self.trace = trace
        self._path = trace.steps if known is None else known.path
        self.rules = rules
        self.samples = samples
        self.audit = audit
        self.direction = direction
        self.head = head
        self.stops: dict[Value, Tensor | None] = {}  # values whose relevance is requested, and that relevance (K, *shape)
        self.goes_on = False  # whether relevance is also handed on from there
        self.memory: dict[str, Tensor] | None = None  # by layer, (K, B, T + 1); None if not requested
        self.by_step = False  # whether only sums over the last axis of the inputs are needed
        self.absorbed: dict[str, Tensor] = {}
        self.gaps: dict[str, Tensor] = {}
        self.fan_ins: dict[Value, FanIn] = {} if known is None else dict(known.fan_ins)
        self.biases: dict[Value, Tensor | None] = {}
        self.sides: dict[Value, Sides] = {}  # of the sums of the head: their positive and negative contributions
        self.bias_sides: dict[Value, Sides] = {}  # and those of biases among them, if a part of these is shared out
        self._shared: Collection[Value] = () if known is None else known.shared
        self._users: Counter[Value] | None = None if known is None else known.users
        self.together: dict[Step, Any] = {}
        self._alike: dict[tuple[Rule, str], list[Step]] = {}
        self._ends: list[Callable[[], None]] = []
        self._arriving: dict[Value, Arriving] = {}
        self._parts: dict[Value, dict[str, Tensor]] = {}  # what arrived at parts of a value, added up in memory of its own
        self._entries: dict[tuple[str, int], tuple[Tensor, Value]] = {}  # amounts for the ledger that are still to be summed
        self.infinite = infinite_values(trace) if known is None else known.infinite
        for step in trace.steps if known is None else known.counted:
            self._count_sum(step)
        self._count_sides(head)

    def _count_sum(self, step: Step) -> None:
        """Compute the fan-in and bias of an open sum; this is done in the order of the steps."""
        if not any(value.in_sum for value in step.outputs):
            return
        if self.rules.shares:
            self.fan_ins.update(zip(step.outputs, step.rule.fan_in(step, self.fan_ins), strict=True))
        if self._has_bias(step):
            self.biases.update(zip(step.outputs, step.rule.bias(step, self.biases), strict=True))

    def _has_bias(self, step: Step) -> bool:
        return self.rules.delta != 0 or not step.outputs[0].is_live

    def structure(self, steps: Collection[Step]) -> Structure:
        """What later calls of the same structure need not work out again; relevance passes these steps."""
        known: dict[Value, FanIn] = {}
        for step in self.trace.steps:
            is_known = step.rule.counts_alike(step) and all(value in known for value in step.inputs if value.in_sum)
            for value in step.outputs:
                if (found := self.fan_ins.get(value)) is not None and (is_known or not isinstance(found, Tensor)):
                    known[value] = found
        counted = [
            step
            for step in self.trace.steps
            if any(value.in_sum for value in step.outputs)
            and (self._has_bias(step) or any(value not in known for value in step.outputs if value in self.fan_ins))
        ]
        path = [step for step in self.trace.steps if step in steps]
        shared = {value for value, found in known.items() if bool(torch.as_tensor(found > 0).all())}
        return Structure(path, known, shared, counted, self._used_by(), self.infinite)

    def _used_by(self) -> Counter[Value]:
        if self._users is None:
            self._users = Counter(used for step in self.trace.steps for used in step.inputs)
        return self._users

    def _count_sides(self, head: Collection[Step]) -> None:
        """Compute the positive and the negative contributions to every sum of the head, in the order of the steps."""
        for step in self.trace.steps if head else ():
            if step in head:
                self.sides.update(zip(step.outputs, step.rule.sides(step, self.sides), strict=True))
                if self.rules.delta != 0:
                    biases = step.rule.sides(step, self.bias_sides, of_bias=True)
                    self.bias_sides.update(zip(step.outputs, biases, strict=True))

    def run(self, starts: Sequence[tuple[Value, Tensor]]) -> list[Tensor]:
        """Start with relevance (K, *shape) at some values, and return the relevance of every explained input."""
        self._arriving.update((value, Arriving(r=relevance)) for value, relevance in starts)
        targets = len(starts[0][1])
        for step in reversed(self._path):
            arriving = [self._taken(value) for value in step.outputs]
            if all(each is None for each in arriving):
                continue
            if self.audit:
                self._audit(step, arriving)
            if self.stops:
                arriving = [self._stopped(value, each) for value, each in zip(step.outputs, arriving, strict=True)]
                if all(each is None for each in arriving):
                    continue
            try:
                step.rule.hand_back(step, arriving, self)
            except RuntimeError as error:
                raise unforeseen(step, error) from error
        ended = [self._stopped(leaf, self._taken(leaf)) for leaf in self.trace.leaves]
        self._settle()
        found = [None if each is None else each.r for each in ended]
        return [
            leaf.tensor.new_zeros(targets, *leaf.tensor.shape) if r is None else r
            for leaf, r in zip(self.trace.leaves, found, strict=True)
        ]

    def _taken(self, value: Value) -> Arriving | None:
        """What has arrived at a value, as a whole and at parts of it."""
        arriving, parts = self._arriving.pop(value, None), self._parts.pop(value, None)
        if parts is None:
            return arriving
        return Arriving(**parts) if arriving is None else _sum(arriving, Arriving(**parts))

    def wants_sums(self, value: Value) -> bool:
        """Whether sums over the last axis are enough: with `by_step`, for an explained input or one with moved rows."""
        if not self.by_step:
            return False
        users = self._used_by()
        while users[value] == 1 and value.step is not None and value.step.rule.moves_rows(value.step):
            (value,) = value.step.inputs
        return users[value] == 1 and value.step is None and value.tensor.dim() > 1

    def _stopped(self, value: Value, arriving: Arriving | None) -> Arriving | None:
        """Store the relevance of a requested value, and return what is handed on from it."""
        if arriving is None or value not in self.stops:
            return arriving
        self.stops[value] = self.held(value, arriving)
        return arriving if self.goes_on else None

    def deliver(
        self,
        step: Step,
        value: Value,
        *,
        r: Tensor | None = None,
        q: Tensor | None = None,
        s: Tensor | None = None,
        n: Tensor | None = None,
    ) -> None:
        """Hand a step's relevance on to one of its inputs. For an input outside the open sum, q and s become relevance.

        Where the sides differ, so they do for a term of the sum that is no layer of the head: it is one contribution.
        """
        if n is not None and value not in self.sides:
            paid = self.held(value, Arriving(q=q, s=s, n=n))
            r, q, s, n = paid if r is None else r + paid, None, None, None
        if q is not None and not value.in_sum:
            q = q.real if q.is_complex() else q
            paid = value.tensor * q
            if value in self.infinite:  # as a mask makes it: then q is 0
                paid = torch.where(q == 0, 0.0, paid)
            paid = paid if s is None else paid + s
            r, q, s = paid if r is None else r + paid, None, None
        if self.rules.epsilon == 0 and any(each is not None and not each.isfinite().all() for each in (r, q, n)):
            raise InputError(
                f"epsilon=0 divides by zero: a weighted sum in {step.layer or 'the model'!r} is exactly 0; use epsilon > 0"
            )
        tensor = value.tensor
        if tensor.is_complex():
            s = None  # its lower neurons are not counted
        elif q is not None and q.is_complex():
            q = q.real
        given = Arriving(r, q, s, n)
        # relevance takes the precision of the value it reaches; at a cast's output it keeps its own, so that nothing is lost
        is_cast = value.step is not None and value.step.rule.casts
        if not is_cast and not given.has_only(tensor.dtype):
            given = Arriving(*(each if each is None else each.to(tensor.dtype) for each in given))
        known = self._arriving.get(value)
        self._arriving[value] = given if known is None else _sum(known, given)
        if self.audit:
            self._note(step, -self.samples.totals(self.held(value, given), value))

    def deliver_part(self, step: Step, value: Value, index: Index, amounts: Mapping[str, Tensor]) -> None:
        """Hand relevance on to the elements of an input that an index picks; all parts of a value are added up in one place."""
        if self.audit or not self._adds_parts:
            wholes = {name: amount.new_zeros(len(amount), *value.tensor.shape) for name, amount in amounts.items()}
            for name, whole in wholes.items():
                whole[index] = amounts[name]
            self.deliver(step, value, **wholes)
            return
        parts = self._parts.setdefault(value, {})
        for name, amount in amounts.items():
            if name not in parts:
                parts[name] = amount.new_zeros(len(amount), *value.tensor.shape, dtype=value.tensor.dtype)
            parts[name][index].add_(amount)  # integers and slices give a view

    def unfinished(self, step: Step, value: Value, arriving: Arriving | None) -> Open:
        """What is handed back inside an open sum; relevance that arrived at it as a finished neuron is converted."""
        assert arriving is not None
        if value in self.sides:
            return self._unfinished_head(step, value, arriving)
        q, s = arriving.q, arriving.s
        if arriving.r is not None:
            z = value.tensor
            known = None if self.rules.epsilon == 0 else stabiliser(z, self.rules.epsilon)
            own = coefficient(z, r_out=arriving.r, epsilon=self.rules.epsilon, known=known)
            q = own if q is None else q + own
            if self.rules.returned != 1:
                self.absorb(step, "stabiliser", absorbed_by_stabiliser(z, q=own, rules=self.rules), value)
            if value in self.infinite and z.isinf().any():  # the infinity of a mask absorbs what arrives there
                self.absorb(step, "constant", torch.where(z.isinf(), arriving.r, 0.0), value)
            if self.rules.shares:
                fan_in, bias = self.fan_ins[value], self.biases.get(value)
                is_shared = value in self._shared
                shared = share(z, q=own, bias=bias, fan_in=fan_in, rules=self.rules, known=known, is_shared=is_shared)
                s = shared if s is None else s + shared
                if not is_shared and (isinstance(fan_in, Tensor) or fan_in == 0):
                    self._keep_unshared(step, value, own, fan_in)
        assert q is not None
        return Open(q, s)

    def _unfinished_head(self, step: Step, value: Value, arriving: Arriving) -> Open:
        """The same for a sum of the head, whose positive and negative contributions have coefficients of their own."""
        if arriving.r is None:
            assert arriving.q is not None
            return Open(arriving.q, arriving.s, arriving.n)
        z, r = value.tensor, arriving.r
        if z.isinf().any():
            self.absorb(step, "constant", torch.where(z.isinf(), r, 0.0), value)
            r = torch.where(z.isinf(), 0.0, r)
        rule = sides_gamma if self.rules.head == "gamma" else sides_alpha_beta
        own = rule(z, self.sides[value], r_out=r, rules=self.rules)
        extra = stabiliser_of_sides(z, q=own, rules=self.rules)
        self.absorb(step, "stabiliser", (1 - self.rules.returned) * extra, value)
        shared: Tensor | None = None
        if self.rules.shares:
            left = self.rules.returned * extra
            left = left + self.rules.delta * self.bias_sides[value].total(own) if value in self.bias_sides else left
            fan_in = torch.as_tensor(self.fan_ins[value], dtype=z.dtype, device=z.device)
            shared = torch.where(fan_in > 0, left / fan_in.clamp(min=1), 0.0)
            self.absorb(step, "stabiliser", torch.where(fan_in > 0, 0.0, left), value)
        found = Arriving(q=own.up, s=shared, n=own.down)
        q, s, n = (_sum(found, arriving) if arriving.q is not None else found)[1:]
        assert q is not None
        return Open(q, s, n)

    def _keep_unshared(self, step: Step, value: Value, q: Tensor, fan_in: FanIn) -> None:
        """Absorb the share of a sum that has no lower neurons, because all of it is masked."""
        nobody = torch.as_tensor(fan_in == 0, device=q.device)
        if nobody.any():
            left = self.rules.returned * self.rules.epsilon * sign(value.tensor)
            bias = self.biases.get(value)
            left = left if bias is None else left + self.rules.delta * bias
            self.absorb(step, "stabiliser", torch.where(nobody, left * q, 0.0), value)

    def held(self, value: Value, arriving: Arriving) -> Tensor:
        """What arrived at a value, as relevance:  r + (v − δ b) q + N s, with q for each side where they differ."""
        total: Tensor | float = 0.0
        if arriving.r is not None:
            total = total + arriving.r
        if arriving.q is not None and arriving.n is not None:
            own, q = self.sides.get(value) or sides_of(value.tensor), Sides(arriving.q, arriving.n)
            total = total + Sides(*(side.nan_to_num(0.0, 0.0, 0.0) for side in own)).total(q)
            if value in self.bias_sides:
                total = total - self.rules.delta * self.bias_sides[value].total(q)
        elif arriving.q is not None:
            bias = self.biases.get(value)
            own = value.tensor if bias is None else value.tensor - self.rules.delta * bias
            if own.is_complex():
                return (own * arriving.q.conj()).real
            total = total + own.nan_to_num(0.0, 0.0, 0.0) * arriving.q  # an infinite sum (a mask's) has no coefficient
        if arriving.s is not None:
            total = total + self.fan_ins.get(value, 1) * arriving.s
        assert isinstance(total, Tensor)
        return total

    def absorb(self, step: Step, kind: str, amount: Tensor, value: Value, *, part: str = "") -> None:
        """Enter an amount (K, *shape of value) into the ledger. Those of one shape are added up before they are summed."""
        key = ".".join(filter(None, (step.layer, part, kind)))
        axis = self.samples.whole_axis(value)
        if self.audit or axis is None or amount.shape[1:] != value.tensor.shape or amount.dtype != value.tensor.dtype:
            self._enter(step, kind, self.samples.totals(amount, value), part)
            return
        entry = hash((key, axis, amount.shape))
        known = self._entries.get((key, entry))
        if key not in self.absorbed:
            self.absorbed[key] = amount.new_zeros(())
        self._entries[key, entry] = (amount if known is None else known[0] + amount), value

    def alike(self, step: Step) -> Sequence[Step]:
        """The steps that relevance passes with the same rule in the same layer, in order."""
        if not self._alike:
            for each in self._path:
                self._alike.setdefault((each.rule, each.layer), []).append(each)
        return self._alike[step.rule, step.layer]

    def at_end(self, enter: Callable[[], None]) -> None:
        """Call a function after the last step, before the ledger is closed."""
        self._ends.append(enter)

    def _settle(self) -> None:
        """Sum what is still to be entered into the ledger."""
        for enter in self._ends:
            enter()
        for (key, _), (amount, value) in self._entries.items():
            self.absorbed[key] = self.absorbed[key] + self.samples.totals(amount, value)
        self._entries.clear()

    def absorb_columns(self, step: Step, kind: str, amount: Tensor, value: Value, *, part: str = "") -> None:
        """Enter an amount (K, n) that lies along the second-to-last axis of a value (..., n, ·)."""
        if self.samples.owners is None:
            self._enter(step, kind, amount.sum(1, keepdim=True), part)
        elif (columns := self.samples.columns(value)) is None:
            self._enter(step, kind, amount, part)
        else:
            sums = amount.new_zeros(len(amount), self.samples.count + 1).index_add(1, columns, amount)
            self._enter(step, kind, sums[:, 1:], part)

    def is_in_order(self, value: Value) -> bool:
        """Whether the samples of a value (..., n, ·) lie in order along its second-to-last axis."""
        return self.samples.owners is None or self.samples.columns(value) is None

    def adopt(self, term: Value, total: Value) -> None:
        """Give a term that belongs to no sample (a constant behind a gate) the owners of the sum it is added to."""
        self.samples.adopt(term, total)

    def remember(self, step: Step, amount: Tensor, value: Value, *, part: str) -> None:
        """Keep the relevance (K, n, T + 1) that states carry; its axis n is the second-to-last one of a value (..., n, ·)."""
        assert self.memory is not None
        if self.samples.owners is not None and (columns := self.samples.columns(value)) is not None:
            amount = amount.new_zeros(len(amount), self.samples.count, amount.shape[-1]).index_copy(1, columns - 1, amount)
        key = ".".join(filter(None, (step.layer, part)))
        calls = sum(known.partition("#")[0] == key for known in self.memory)
        self.memory[f"{key}#{calls + 1}" if calls else key] = amount  # a layer may run several times; the last call comes first

    def _enter(self, step: Step, kind: str, totals: Tensor, part: str) -> None:
        key = ".".join(filter(None, (step.layer, part, kind)))
        self.absorbed[key] = self.absorbed[key] + totals if key in self.absorbed else totals
        if self.audit:
            self._note(step, -totals)

    def _audit(self, step: Step, arriving: Sequence[Arriving | None]) -> None:
        for value, each in zip(step.outputs, arriving, strict=True):
            if each is not None:
                self._note(step, self.samples.totals(self.held(value, each), value))

    def _note(self, step: Step, totals: Tensor) -> None:
        layer = step.layer or f"{overrides.resolve_name(step.function) or step.name} in the model itself"
        self.gaps[layer] = self.gaps[layer] + totals if layer in self.gaps else totals


def infinite_values(trace: Trace) -> set[Value]:
    """The values that may hold infinities: everything that is made by a call that can make them, or of such values."""
    found: set[Value] = set()
    for step in trace.steps:
        if not found.isdisjoint(step.inputs) or not step.rule.is_finite(step):
            found.update(step.outputs)
    return found


def _sum(one: Arriving, other: Arriving) -> Arriving:
    """Add what arrived at a value from two of its users."""
    pairs = zip(one, other, strict=True)
    return Arriving(*(b if a is None else a if b is None else a + b for a, b in pairs))
