"""Additions. They are part of a weighted sum, and hand on its coefficient q and share s unchanged."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import absorbed_by_bias
from whence.interpreter.record.graph import graph_of
from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.step import Arriving, Backward, FanIn, Operand, Owners, Rule, Step, Value


class Term(NamedTuple):
    """One term of an elementwise sum: an operand times a constant scale."""

    operand: Operand
    scale: Tensor | float = 1.0


Reader = Callable[..., Sequence[Term]]


class Sum(Rule):
    """An elementwise sum of scaled terms; constants among them are biases."""

    in_sum = combines = True

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

    def is_gate(self, step: Step) -> bool:
        """A sum of gates and numbers only, such as 1 − g and f + i, is a gate if it cannot be negative."""
        lowest = 0.0
        for operand, scale in self.terms(step):
            if isinstance(operand, Tensor) or isinstance(scale, Tensor) or (isinstance(operand, Value) and not operand.is_gate):
                return False
            lowest += min(scale, 0.0) if isinstance(operand, Value) else operand * scale
        return lowest >= 0

    def continues_sum(self, step: Step) -> bool:
        return not self._is_complement(step)

    def _is_complement(self, step: Step) -> bool:
        """Whether it is one minus a gate, or another shift of a single gate that stays within [0, 1]."""
        if len(step.inputs) != 1 or not self.is_gate(step):
            return False
        scales = [float(scale) for operand, scale in self.terms(step) if isinstance(operand, Value)]
        at_zero = sum(float(operand) * float(scale) for operand, scale in self.terms(step) if not isinstance(operand, Value))
        return max(at_zero, at_zero + sum(scales)) <= 1

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        total: FanIn = 0
        for operand, scale in self.terms(step):
            if isinstance(operand, Value):
                total = total + fan_ins.get(operand, 1) * connected(scale)
        return [total]

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        total: Tensor | None = None
        for operand, scale in self.terms(step):
            own = biases.get(operand) if isinstance(operand, Value) else finite(operand)
            if own is not None:
                scaled = torch.zeros_like(step.outputs[0].tensor) + own * scale
                total = scaled if total is None else total + scaled
        return [total]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        (out,) = step.outputs
        if out.is_gate and not out.in_sum:  # 1 − σ(a) is σ(−a): its relevance is that of a
            assert arriving[0] is not None and arriving[0].r is not None
            back.deliver(step, step.inputs[0], r=reduced(arriving[0].r, step.inputs[0].tensor.shape))
            return
        q, s = back.unfinished(step, out, arriving[0])
        for operand, scale in self.terms(step):
            scaled_q = q * scale
            scaled_s = None if s is None else s * connected(scale)
            if not isinstance(operand, Value):
                bias = torch.as_tensor(finite(operand), dtype=q.dtype, device=q.device)
                back.absorb(step, "bias", absorbed_by_bias(bias, q=scaled_q, rules=back.rules), out)
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


class Reduction(Rule):
    """A sum or mean over axes."""

    in_sum = True

    def __init__(self, *, is_mean: bool = False) -> None:
        self.is_mean = is_mean

    def run(self, step: Step) -> object:
        result, step.saved = graph_of(step)
        return result

    def is_gate(self, step: Step) -> bool:
        return step.inputs[0].is_gate  # such as the sum that attention weights are divided by

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

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        owner = owners[step.inputs[0]]
        common = owners.reduced(step, owner, reduced_axes(step, owner.dim()))
        return [common.reshape(step.outputs[0].tensor.shape)]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        q, s = back.unfinished(step, step.outputs[0], arriving[0])
        (of_input,) = step.saved.adjoint([q])
        shared = None
        if s is not None:
            (shared,) = step.saved.adjoint([s])
            shared = shared * self._terms(step) if self.is_mean else shared
        back.deliver(step, step.inputs[0], q=of_input, s=shared)


class Cumulative(Reduction):
    """A running sum: every element is the sum of those up to it."""

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        each = fan_ins.get(step.inputs[0], 1)
        return [step.again(lambda value: torch.zeros_like(value.tensor) + each)]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        owner = owners[step.inputs[0]]
        return [owners.reduced(step, owner, reduced_axes(step, owner.dim())).expand(step.outputs[0].tensor.shape)]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        q, s = back.unfinished(step, step.outputs[0], arriving[0])
        (of_input,) = step.saved.adjoint([q])
        shared = None if s is None else step.saved.adjoint([s])[0]
        back.deliver(step, step.inputs[0], q=of_input, s=shared)


def reduced_axes(step: Step, dimensions: int) -> Sequence[int]:
    """The axes of a sum or mean: all of them, unless the call names some."""
    args, kwargs = step.arguments
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if given is None or given in ((), []):
        return range(dimensions)
    return [given] if isinstance(given, int) else list(given)


def connected(scale: Tensor | float) -> Tensor | float:
    """1 where a term takes part in its sum, 0 where a zero scale (a mask) leaves it out."""
    return (scale != 0).to(scale.dtype) if isinstance(scale, Tensor) else float(scale != 0)


def finite(constant: Tensor | float) -> Tensor | float:
    """A constant term with 0 in place of a mask's infinities: an infinite sum hands nothing back."""
    return constant.nan_to_num(0.0, 0.0, 0.0) if isinstance(constant, Tensor) and constant.is_floating_point() else constant


def reduced(back: Tensor, shape: Sequence[int]) -> Tensor:
    """Undo broadcasting: sum (K, *out) to (K, *shape)."""
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
