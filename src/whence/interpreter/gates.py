"""Products: which factor is the gate and which the source, decided by where the factors came from."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.interpreter import sums, weighted
from whence.interpreter.rule import Arriving, NoRule, Rule
from whence.interpreter.trace import Arguments, Step, Value
from whence.rules.equations import product_all

if TYPE_CHECKING:
    from whence.interpreter.sweep import Sweep


class Product(Rule):
    """gate ⊙ source: the source takes all the relevance, the gate none."""

    def is_gate(self, step: Step) -> bool:
        return all(not isinstance(factor, Value) or factor.is_gate for factor in step.arguments[0][:2])

    def receivers(self, step: Step) -> Sequence[Value]:
        source = source_of(*step.arguments[0][:2])
        return [source] if isinstance(source, Value) and source.is_live else []

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        source = source_of(*step.arguments[0][:2])
        r = product_all(arriving[0].r)
        if isinstance(source, Value) and source.is_live:
            sweep.deliver(step, source, r=sums.reduced(r, source.tensor.shape))
        else:
            sweep.book(step, "constant", r, step.outputs[0])


def source_of(a: Any, b: Any) -> Value | Tensor:
    """The factor that carries the content of a product."""
    gates = [isinstance(factor, Value) and factor.is_gate for factor in (a, b)]
    if gates[0] == gates[1]:
        raise NoRule(
            "both factors are gates (each came out of a sigmoid or softmax)"
            if gates[0]
            else "neither factor is a gate (none came out of a sigmoid, one minus it, or a softmax)"
        )
    return b if gates[0] else a


SCALE = sums.Sum(sums.scaled)
WEIGHT = weighted.Weighted(weighted.elementwise)
PRODUCT = Product()


def multiplication(arguments: Arguments, is_trained: Callable[[Any], bool]) -> Rule:
    """The rule for a ⊙ b: a gate times its source, a trained weight, or a constant scale."""
    a, b = arguments[0][:2]
    live = [factor for factor in (a, b) if isinstance(factor, Value) and factor.is_live]
    if len(live) != 1:
        if not all(isinstance(factor, Value) and factor.is_gate for factor in (a, b)):
            source_of(a, b)
        return PRODUCT
    other = b if live[0] is a else a
    if isinstance(other, (int, float)) or (isinstance(other, Tensor) and not other.is_floating_point()):
        return SCALE
    if live[0].is_gate:
        return PRODUCT
    return WEIGHT if is_trained(other) else SCALE


DIVISION = sums.Sum(sums.divided)


def division(arguments: Arguments, is_trained: Callable[[Any], bool]) -> Rule:
    """The rule for a / b: a scale, when b is constant."""
    if arguments[1].get("rounding_mode") is not None:
        raise NoRule("it rounds")
    if isinstance(arguments[0][1], Value) and arguments[0][1].is_live:
        raise NoRule("the divisor depends on the input")
    return DIVISION
