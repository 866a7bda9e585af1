"""Additions. They are part of a weighted sum, and hand on its coefficient q and share s unchanged."""

import cmath
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import Sides, absorbed_by_bias, sides_of
from whence.interpreter.record.graph import graph_of
from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.step import (
    SQUASHED,
    Arriving,
    Backward,
    FanIn,
    Gate,
    Open,
    Operand,
    Owners,
    Rule,
    Step,
    Value,
    common_gate,
    common_log,
)
from whence.interpreter.rules.axes import reduced_axes
from whence.interpreter.rules.linear import real_part


class Term(NamedTuple):
    """One term of an elementwise sum: an operand times a constant scale."""

    operand: Operand
    scale: Tensor | float = 1.0


Reader = Callable[..., Sequence[Term]]


class Sum(Rule):
    """An elementwise sum of scaled terms; constants among them are biases."""

    in_sum = combines = has_sides = True

    def __init__(self, read: Reader) -> None:
        self.read = read

    def terms(self, step: Step) -> Sequence[Term]:
        """The call's terms."""
        args, kwargs = step.arguments
        return self.read(*args, **kwargs)

    def run(self, step: Step) -> object:
        try:
            self.terms(step)
        except TypeError:
            raise NoRule("it is called with arguments that are not understood") from None
        return super().run(step)

    def lasts(self, step: Step) -> bool:
        return True

    def is_finite(self, step: Step) -> bool:
        return self.read is not divided and all(map(_is_number, step.leaves)) and step.has_finite_constants()

    def gate_of(self, step: Step) -> Gate | None:
        """A sum of gates and numbers only, such as 1 − g and f + i, is a gate if it cannot be negative; so is g · mask."""
        if not all(value.is_gate for value in step.inputs):
            return None
        lowest = 0.0
        for operand, scale in self.terms(step):
            smallest, constant = smallest_of(scale), None if isinstance(operand, Value) else level(operand)
            if smallest is None or (constant is None and not isinstance(operand, Value)):
                return None
            lowest += min(smallest, 0.0) if constant is None else constant * smallest
        return common_gate(step.inputs) if lowest >= 0 else None

    def continues_sum(self, step: Step) -> bool:
        return not self._is_complement(step)

    def _is_complement(self, step: Step) -> bool:
        """Whether it is one minus a gate, or another shift of a single gate that stays within [0, 1]."""
        has_tensors = any(isinstance(scale, Tensor) for _, scale in self.terms(step))
        if len(step.inputs) != 1 or has_tensors or self.gate_of(step) is None:
            return False
        scales = [float(scale) for operand, scale in self.terms(step) if isinstance(operand, Value)]
        constants = [(level(operand) or 0.0, scale) for operand, scale in self.terms(step) if not isinstance(operand, Value)]
        at_zero = sum(constant * float(scale) for constant, scale in constants)
        return max(at_zero, at_zero + sum(scales)) <= 1

    def log_of(self, step: Step) -> int | None:
        """−softplus(z) is log σ(−z). A sum of logarithms is the logarithm of a product."""
        if self.read is negate and step.inputs[0].step is not None and step.inputs[0].step.name == "softplus":
            return SQUASHED
        return common_log(step.inputs)

    def scaled(self, step: Step, amount: Tensor) -> Sequence[tuple[Value, Tensor]]:
        terms = [(operand, scale) for operand, scale in self.terms(step) if isinstance(operand, Value) and operand.is_live]
        if len(terms) < len(self.terms(step)):
            return []
        return [(operand, reduced(amount * scale, operand.tensor.shape)) for operand, scale in terms]

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        total: FanIn = 0
        for operand, scale in self.terms(step):
            if isinstance(operand, Value):
                total = total + fan_ins.get(operand, 1) * connected(scale)
        return [total]

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        total: Tensor | None = None
        is_complex = step.outputs[0].tensor.is_complex()  # its own constants are absorbed as a whole
        for operand, scale in self.terms(step):
            own = biases.get(operand) if isinstance(operand, Value) else None if is_complex else finite(operand)
            if own is not None:
                scaled = torch.zeros_like(step.outputs[0].tensor) + own * scale
                total = scaled if total is None else total + scaled
        return [total]

    def sides(self, step: Step, known: Mapping[Value, Sides], *, of_bias: bool = False) -> Sequence[Sides]:
        up = down = torch.zeros_like(step.outputs[0].tensor)
        for operand, scale in self.terms(step):
            if isinstance(operand, Value):
                if operand not in known and of_bias:
                    continue
                own = known.get(operand) or sides_of(operand.tensor)
            else:
                own = sides_of(torch.as_tensor(operand, dtype=up.dtype, device=up.device))
            own = swapped(own, scale)
            up, down = up + own.up * scale, down + own.down * scale
        return [Sides(up, down)]

    def reads(self, step: Step) -> Sequence[Value]:
        (out,) = step.outputs
        if out.is_gate and not out.in_sum:
            return ()
        open_terms = {operand for operand, _ in self.terms(step) if isinstance(operand, Value) and not _needs(operand)}
        return out, *(value for value in step.inputs if value not in open_terms)

    def finishes(self, step: Step, value: Value, finished: set[Value]) -> bool:
        return not value.in_sum or not step.outputs[0].in_sum

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        (out,) = step.outputs
        if out.is_gate and not out.in_sum:  # 1 − σ(a) is σ(−a): its relevance is that of a
            assert arriving[0] is not None and arriving[0].r is not None
            back.deliver(step, step.inputs[0], r=reduced(arriving[0].r, step.inputs[0].tensor.shape))
            return
        given = back.unfinished(step, out, arriving[0])
        if given.n is not None:
            self._hand_back_sides(step, given, back)
            return
        q, s, _ = given
        for operand, scale in self.terms(step):
            scaled_q, scaled_s = q, s
            if isinstance(scale, Tensor) or scale != 1:
                scaled_q = q * (scale.conj() if isinstance(scale, Tensor) else scale.conjugate())
                scaled_s = None if s is None else s * connected(scale)
            if not isinstance(operand, Value):
                bias = torch.as_tensor(finite(operand), dtype=q.dtype, device=q.device)
                is_complex = out.tensor.is_complex()
                kept = real_part(bias, scaled_q) if is_complex else absorbed_by_bias(bias, q=scaled_q, rules=back.rules)
                back.absorb(step, "bias", kept, out)
            elif operand.is_live:
                shape = operand.tensor.shape
                back.adopt(operand, out)
                back.deliver(
                    step, operand, q=reduced(scaled_q, shape), s=None if scaled_s is None else reduced(scaled_s, shape)
                )
            else:
                given = back.held(operand, Arriving(q=scaled_q, s=scaled_s))
                if (bias := back.biases.get(operand)) is not None:
                    kept = absorbed_by_bias(bias, q=scaled_q, rules=back.rules)
                    back.absorb(operand.step or step, "bias", kept, out)
                    given = given - kept
                back.absorb(step, "constant", given, out)

    def _hand_back_sides(self, step: Step, given: Open, back: Backward) -> None:
        """The same where positive and negative contributions have coefficients of their own."""
        (out,) = step.outputs
        for operand, scale in self.terms(step):
            own = swapped(given.sides, scale)
            q, n = own.up * scale, own.down * scale
            s = None if given.s is None else given.s * connected(scale)
            if not isinstance(operand, Value):
                bias = torch.as_tensor(finite(operand), dtype=q.dtype, device=q.device)
                back.absorb(step, "bias", (1 - back.rules.delta) * sides_of(bias).total(Sides(q, n)), out)
            elif operand.is_live:
                back.adopt(operand, out)
                q, n, s = (None if each is None else reduced(each, operand.tensor.shape) for each in (q, n, s))
                back.deliver(step, operand, q=q, n=n, s=s)
            else:
                back.absorb(step, "constant", back.held(operand, Arriving(q=q, n=n, s=s)), out)


class Reduction(Rule):
    """A sum or mean over axes."""

    in_sum = has_sides = True

    def __init__(self, *, is_mean: bool = False) -> None:
        self.is_mean = is_mean

    def is_finite(self, step: Step) -> bool:
        return True

    def gate_of(self, step: Step) -> Gate | None:
        return step.inputs[0].gate  # such as the sum that attention weights are divided by

    def log_of(self, step: Step) -> int | None:
        return step.inputs[0].log  # the running sum of logarithms is that of a running product

    def reads(self, step: Step) -> Sequence[Value]:
        (value,) = step.inputs
        return (value, *step.outputs) if _needs(value) else step.outputs

    def finishes(self, step: Step, value: Value, finished: set[Value]) -> bool:
        return not value.in_sum

    def _terms(self, step: Step) -> int:
        return step.inputs[0].tensor.numel() // max(step.outputs[0].tensor.numel(), 1)

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        terms, each = self._terms(step), fan_ins.get(step.inputs[0], 1)
        if not isinstance(each, Tensor):
            return [each * terms]
        summed = step.again(lambda value: torch.zeros_like(value.tensor) + each)
        return [summed * terms if self.is_mean else summed]

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        own = biases.get(step.inputs[0])
        return [None if own is None else step.again(lambda value: own.expand(value.tensor.shape))]

    def sides(self, step: Step, known: Mapping[Value, Sides], *, of_bias: bool = False) -> Sequence[Sides]:
        up, down = known[step.inputs[0]]
        return [Sides(step.again(lambda value: up), step.again(lambda value: down))]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        owner = owners[step.inputs[0]]
        common = owners.reduced(step, owner, reduced_axes(step, owner.dim()))
        return [common.reshape(step.outputs[0].tensor.shape)]

    def owners_back(self, step: Step, value: Value, out: Value, owner: Tensor) -> Tensor | None:
        shape = list(value.tensor.shape)
        for axis in reduced_axes(step, len(shape)):
            shape[axis] = 1
        return owner.reshape(shape).expand(value.tensor.shape)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        q, s, n = back.unfinished(step, step.outputs[0], arriving[0])
        parts = self._terms(step) if self.is_mean else 1
        of_input, negative = (None if each is None else self._spread(step, each / parts) for each in (q, n))
        back.deliver(step, step.inputs[0], q=of_input, s=None if s is None else self._spread(step, s), n=negative)

    def _spread(self, step: Step, amount: Tensor) -> Tensor:
        """An amount (K, *shape of the result) at every term of the sum."""
        shape = step.inputs[0].tensor.shape
        axes = {axis % len(shape) for axis in reduced_axes(step, len(shape))} if shape else ()
        kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
        return amount.reshape(len(amount), *kept).expand(len(amount), *shape)


class Cumulative(Reduction):
    """A running sum: every element is the sum of those up to it."""

    def run(self, step: Step) -> object:
        result, step.saved = graph_of(step)
        return result

    def reads(self, step: Step) -> Sequence[Value]:
        return *step.inputs, *step.outputs

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        each = fan_ins.get(step.inputs[0], 1)
        return [step.again(lambda value: torch.zeros_like(value.tensor) + each)]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        owner = owners[step.inputs[0]]
        return [owners.reduced(step, owner, reduced_axes(step, owner.dim())).expand(step.outputs[0].tensor.shape)]

    def owners_back(self, step: Step, value: Value, out: Value, owner: Tensor) -> Tensor | None:
        return owner

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        given = back.unfinished(step, step.outputs[0], arriving[0])
        q, s, n = (None if each is None else step.saved.adjoint([each])[0] for each in given)
        back.deliver(step, step.inputs[0], q=q, s=s, n=n)


def _needs(term: Value) -> bool:
    """Whether the numbers of a term are needed: not if it is part of the open sum itself."""
    return not term.in_sum or not term.is_live or term.tensor.is_complex()


def _is_number(thing: object) -> bool:
    """Whether something is no number, or a finite one."""
    return not isinstance(thing, (float, complex)) or cmath.isfinite(thing)


def level(constant: Tensor | complex) -> float | None:
    """A constant as one number; None if it holds several, or complex ones."""
    if isinstance(constant, Tensor):
        if not constant.numel() or constant.is_complex() or bool((constant != constant.reshape(-1)[0]).any()):
            return None
        return float(constant.reshape(-1)[0])
    return None if isinstance(constant, complex) else float(constant)


def smallest_of(scale: Tensor | complex) -> float | None:
    """The smallest number of a scale; None if it has none."""
    if isinstance(scale, Tensor):
        return float(scale.min()) if scale.numel() and not scale.is_complex() else None
    return None if isinstance(scale, complex) else float(scale)


def connected(scale: Tensor | float) -> Tensor | float:
    """1 where a term takes part in its sum, 0 where a zero scale (a mask) leaves it out."""
    return (scale != 0).to(scale.dtype) if isinstance(scale, Tensor) else float(scale != 0)


def swapped(sides: Sides, scale: Tensor | float) -> Sides:
    """The sides of a term before it is scaled: a negative scale turns positive contributions into negative ones."""
    if isinstance(scale, Tensor):
        return Sides(torch.where(scale >= 0, *sides), torch.where(scale >= 0, *sides[::-1]))
    return sides if scale >= 0 else Sides(sides.down, sides.up)


def finite(constant: Tensor | float) -> Tensor | float:
    """A constant term with 0 in place of a mask's infinities: an infinite sum hands nothing back."""
    return constant.nan_to_num(0.0, 0.0, 0.0) if isinstance(constant, Tensor) and constant.is_floating_point() else constant


def reduced(back: Tensor, shape: Sequence[int]) -> Tensor:
    """Undo broadcasting: sum (K, *out) to (K, *shape)."""
    if back.shape[1:] == shape:
        return back
    padded = (len(back), *(1,) * (back.dim() - 1 - len(shape)), *shape)
    return back.sum_to_size(padded).reshape(len(back), *shape)


def add(a: Operand, b: Operand, *, alpha: float = 1) -> Sequence[Term]:
    """a + alpha·b."""
    return Term(a), Term(b, alpha)


def subtract(a: Operand, b: Operand, *, alpha: float = 1) -> Sequence[Term]:
    """a − alpha·b."""
    return Term(a), Term(b, -alpha)


def subtract_from(a: Operand, b: Operand, *, alpha: float = 1) -> Sequence[Term]:
    """b − alpha·a."""
    return Term(b), Term(a, -alpha)


def negate(a: Operand) -> Sequence[Term]:
    """−a."""
    return (Term(a, -1.0),)


def scaled(a: Operand, b: Operand) -> Sequence[Term]:
    """a·b, one of them a constant."""
    if not isinstance(a, Value) or (isinstance(b, Value) and b.is_live):
        a, b = b, a
    return (Term(a, b.tensor if isinstance(b, Value) else b),)


def divided(a: Value, b: Operand, *, rounding_mode: None = None) -> Sequence[Term]:
    """a / b with a constant b."""
    b = b.tensor if isinstance(b, Value) else b
    if isinstance(b, Tensor) and not b.is_floating_point():
        b = b.to(a.tensor.dtype)  # whole numbers divide in the dividend's precision
    return (Term(a, 1 / b),)
