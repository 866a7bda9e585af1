"""Activations: a neuron's relevance is that of its pre-activation, so it passes through unchanged."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.step import Arriving, Backward, Owners, Rule, Step, Value


class Activation(Rule):
    """An elementwise function of a neuron.

    `gate`: whether the result is a gate; a function of a gate always is. `squashes`: whether it changes the sign of some
    scores, and so of their relevance; as a model's last step it is refused.
    """

    def __init__(self, *, gate: bool | Callable[[Step], bool] = False, squashes: bool = False) -> None:
        self.gate, self.squashes = gate, squashes

    def is_gate(self, step: Step) -> bool:
        return step.inputs[0].is_gate or (self.gate if isinstance(self.gate, bool) else self.gate(step))

    def squashed_by(self, step: Step, later: Iterable[Rule]) -> str:
        return step.name if self.squashes and all(rule.moves for rule in later) else ""

    def receivers(self, step: Step) -> Sequence[Value]:
        if list(step.inputs) != [step.arguments[0][0]]:
            raise NoRule("its bounds or slopes depend on the input")
        return super().receivers(step)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        back.deliver(step, step.inputs[0], r=arriving[0].r)


def is_unit(step: Step) -> bool:
    """Whether a clamp keeps its result within [0, 1]."""
    args, kwargs = step.arguments
    low, high = (*args[1:], None, None)[:2]
    low, high = kwargs.get("min", low), kwargs.get("max", high)
    return isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 <= low <= high <= 1


def is_exponent_of_gates(step: Step) -> bool:
    """Whether the exponent consists of gates and numbers only, as in exp(−c · g)."""
    made = step.inputs[0].step
    return made is not None and made.rule.combines and all(each.is_gate for each in made.inputs)


class Rescaling(Activation):
    """An elementwise function that is not an activation, but is used to compute gates and normalisers: exp, 1 / z, √z.

    Relevance passes through it if its input is a gate, or, unless it `is_for_gates`, under a product rule that gives gates
    relevance.
    """

    def __init__(
        self, *, gate: bool | Callable[[Step], bool] = False, squashes: bool = False, is_for_gates: bool = False
    ) -> None:
        super().__init__(gate=gate, squashes=squashes)
        self.is_for_gates = is_for_gates

    def receivers(self, step: Step) -> Sequence[Value]:
        if (step.product == "all" or self.is_for_gates) and not step.inputs[0].is_gate:
            raise NoRule("")
        return super().receivers(step)


class Softmax(Rule):
    """Weights that sum to one: a gate, as in attention.

    Under a product rule that gives gates relevance, the softmax passes it on to its input. As a model's last step it has no
    rule.
    """

    def __init__(self, *, is_log: bool = False) -> None:
        self.is_log = is_log

    def is_gate(self, step: Step) -> bool:
        return not self.is_log

    def squashed_by(self, step: Step, later: Iterable[Rule]) -> str:
        return "" if any(rule.multiplies for rule in later) else "softmax"

    def receivers(self, step: Step) -> Sequence[Value]:
        if step.product == "all" or self.is_log:
            raise NoRule("relevance starts from scores, before the softmax; let the model return those")
        return super().receivers(step)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        back.deliver(step, step.inputs[0], r=arriving[0].r)


class RunningProduct(Rule):
    """A product of many gates, which is a gate again. Relevance does not pass through it."""

    def is_gate(self, step: Step) -> bool:
        return step.inputs[0].is_gate

    def receivers(self, step: Step) -> Sequence[Value]:
        raise NoRule("many factors are multiplied at once, and none of them is the source")

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        # the owners of a gate are never needed
        return [torch.zeros_like(value.tensor, dtype=torch.float64) for value in step.outputs]
