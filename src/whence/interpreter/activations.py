"""Activations: a neuron's relevance is that of its pre-activation, so it passes through unchanged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.interpreter.rule import Arriving, NoRule, Rule
from whence.interpreter.trace import Step, Value

if TYPE_CHECKING:
    from whence.interpreter.samples import Owners
    from whence.interpreter.sweep import Sweep


class Activation(Rule):
    """An elementwise function of a neuron."""

    def is_gate(self, step: Step) -> bool:
        if step.name in ("sigmoid", "hardsigmoid") or step.inputs[0].is_gate:  # what is made of a gate alone is one too
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


def made_of_gates(value: Value) -> bool:
    """Whether a value is a sum of gates and numbers alone, also a negative one: −c · g."""
    step = value.step
    return step is not None and step.name in ("mul", "neg", "add", "sub", "rsub") and all(each.is_gate for each in step.inputs)


class Rescaling(Activation):
    """An elementwise function that is no neuron's activation, but that gates and normalisers are made with: exp, 1 / z, √z."""

    def is_gate(self, step: Step) -> bool:
        return super().is_gate(step) or (step.name == "exp" and made_of_gates(step.inputs[0]))

    def receivers(self, step: Step) -> Sequence[Value]:
        if (step.product == "all" or step.name == "pow") and not step.inputs[0].is_gate:
            raise NoRule("")
        return super().receivers(step)


class Softmax(Rule):
    """Weights that sum to one: a gate, as attention uses it.

    Where a rule for products gives gates relevance, it passes to the scores; that of a softmax the model ends in has no rule.
    """

    def is_gate(self, step: Step) -> bool:
        return step.name != "log_softmax"

    def receivers(self, step: Step) -> Sequence[Value]:
        if step.product == "all" or step.name == "log_softmax":
            raise NoRule("relevance starts from scores, before the softmax; let the model return those")
        return super().receivers(step)

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        sweep.deliver(step, step.inputs[0], r=arriving[0].r)


class RunningProduct(Rule):
    """Gates multiplied up: a gate again. Relevance does not go on from it."""

    def is_gate(self, step: Step) -> bool:
        return step.inputs[0].is_gate

    def receivers(self, step: Step) -> Sequence[Value]:
        raise NoRule("many factors are multiplied at once, and none of them is the source")

    def owners(self, step: Step, owners: "Owners") -> Sequence[Tensor]:
        return [
            torch.zeros_like(value.tensor, dtype=torch.float64) for value in step.outputs
        ]  # as a gate's, they do not matter
