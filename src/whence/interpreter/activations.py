"""Activations: a neuron's relevance is that of its pre-activation, so it passes through unchanged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.interpreter.rule import Arriving, NoRule, Rule
from whence.interpreter.trace import Step, Value

if TYPE_CHECKING:
    from whence.interpreter.sweep import Sweep


class Activation(Rule):
    """An elementwise function of a neuron."""

    def is_gate(self, step: Step) -> bool:
        if step.name in ("sigmoid", "hardsigmoid"):
            return True
        if step.name in ("clamp", "clip"):
            args, kwargs = step.arguments
            low, high = (*args[1:], None, None)[:2]
            low, high = kwargs.get("min", low), kwargs.get("max", high)
            return isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 <= low <= high <= 1
        return False

    def receivers(self, step: Step) -> Sequence[Value]:
        if list(step.inputs) != [step.arguments[0][0]]:
            raise NoRule("its bounds or slopes depend on the input")
        return super().receivers(step)

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        sweep.deliver(step, step.inputs[0], r=arriving[0].r)


class Softmax(Rule):
    """Weights that sum to one: a gate, as attention uses it. Relevance that ends at the softmax itself has no rule."""

    def is_gate(self, step: Step) -> bool:
        return step.name != "log_softmax"

    def receivers(self, step: Step) -> Sequence[Value]:
        raise NoRule("relevance starts from scores, before the softmax; let the model return those")
