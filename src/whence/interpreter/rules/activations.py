"""Activations: a neuron's relevance is that of its pre-activation, so it passes through unchanged."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whence.choice import Choice
from whence.interpreter.record.graph import Graph, graph_of
from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.step import (
    NORMALISER,
    POSITIVE,
    SOURCE,
    SQUASHED,
    Arriving,
    Backward,
    Gate,
    Owners,
    Rule,
    Step,
    Value,
)
from whence.interpreter.rules.axes import reduced_owners

SIGMOID = Gate("it is squashed into [0, 1]")
NORMALISES = Gate("it is a normaliser, which scales and carries no content", NORMALISER, is_choice=True)
EXPONENTIAL = Gate("it is an exponential, which is positive and scales", POSITIVE, is_choice=True)
SIGN = Gate("it is a sign, which carries no size", is_choice=True)
STEP_SIZE = Gate("it is a softplus, a positive step size", POSITIVE, is_choice=True)


FINITE = frozenset(
    "tanh sigmoid relu relu6 elu selu gelu silu softplus leaky_relu hardtanh hardsigmoid softmax hardswish".split()
)


class Activation(Rule):
    """An elementwise function of a neuron.

    `gate`: why the result is a gate; a function of a gate always is one. `squashes`: whether it changes the sign of some
    scores, and so of their relevance; as a model's last step, relevance starts before it. `is_choice`: it is seldom used as an
    activation (exp, √z), so that passing relevance through it is a choice.
    """

    def __init__(
        self,
        *,
        gate: Gate | Callable[[Step], Gate | None] | None = None,
        squashes: bool = False,
        is_choice: bool = False,
    ) -> None:
        self.gate, self.squashes, self.is_choice = gate, squashes, is_choice

    def gate_of(self, step: Step) -> Gate | None:
        own = self.gate if self.gate is None or isinstance(self.gate, Gate) else self.gate(step)
        given = step.inputs[0].gate
        if given is None:
            return own
        return given if own is None else own._replace(is_choice=given.is_choice)

    def is_finite(self, step: Step) -> bool:
        return step.name in FINITE

    def log_of(self, step: Step) -> int | None:
        if step.name == "log":
            return step.inputs[0].rank
        return SQUASHED if step.name == "log_sigmoid" else None

    def receivers(self, step: Step) -> Sequence[Value]:
        others = step.inputs[1:] if step.name != "pow" else ()
        if others or step.arguments[0][0] not in step.inputs[:1]:
            raise NoRule("its bounds or slopes depend on the input")
        if step.inputs[0].tensor.is_complex() and step.name != "abs":
            raise NoRule("it is not linear, and its input is complex")
        return [value for value in step.inputs[:1] if value.is_live]  # of a power, the base

    def choice(self, step: Step) -> Choice | None:
        if not self.is_choice or step.inputs[0].is_gate or step.product != "all":
            return None
        why = "it is taken for an activation, so relevance passes through it unchanged"
        return Choice(step.layer, step.name, "no gate", why)

    def reads(self, step: Step) -> Sequence[Value]:
        is_plain = type(self).hand_back is Activation.hand_back and not step.inputs[0].tensor.is_complex()
        return () if is_plain else super().reads(step)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        z, r = step.inputs[0].tensor, arriving[0].r
        if z.is_complex():  # its absolute value: the q for which Re(conj(q) z) is r
            back.deliver(step, step.inputs[0], q=torch.where(z == 0, 0.0, r * z / (z * z.conj()).real.clamp(min=1e-300)))
            back.absorb(step, "stabiliser", torch.where(z == 0, r, 0.0), step.outputs[0])  # zero has no direction
            return
        back.deliver(step, step.inputs[0], r=r)


def within_unit(step: Step) -> Gate | None:
    """The gate that a clamp or hardtanh is if it keeps its result within [0, 1]."""
    args, kwargs = step.arguments
    low, high = (*args[1:], None, None)[:2]
    low, high = kwargs.get("min", kwargs.get("min_val", low)), kwargs.get("max", kwargs.get("max_val", high))
    is_unit = isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 <= low <= high <= 1
    return SIGMOID if is_unit else None


def exponential(step: Step) -> Gate | None:
    """The gate that an exponential is: as sure as a sigmoid if its exponent is made of gates and numbers, as in exp(−c · g)."""
    made, log = step.inputs[0].step, step.inputs[0].log
    if step.inputs[0].tensor.is_complex():
        return None
    if log is not None:  # of a factor's logarithm: the factor again
        return None if log == SOURCE else SIGMOID
    if made is None or not made.rule.combines or not all(each.is_gate for each in made.inputs):
        return EXPONENTIAL
    return SIGMOID._replace(is_choice=any(each.gate is not None and each.gate.is_choice for each in made.inputs))


def power(step: Step) -> Gate | None:
    """The gate that a power is: a normaliser if its exponent is negative, as in z ** −0.5."""
    args, kwargs = step.arguments
    exponent = kwargs.get("exponent", args[1] if len(args) > 1 else 1.0)
    return NORMALISES if isinstance(exponent, (int, float)) and exponent < 0 else None


class Softmax(Activation):
    """Weights that sum to one: a gate, as in attention. As a model's last step, relevance starts from the scores before it."""

    def __init__(self, *, is_log: bool = False) -> None:
        super().__init__(gate=None if is_log else SIGMOID, squashes=True, is_choice=True)

    def gate_of(self, step: Step) -> Gate | None:
        return self.gate if isinstance(self.gate, Gate) else None


class Mirrored(Activation):
    """One score (B, 1) as the scores −z / 2 and z / 2 of two classes: each is an activation of z."""

    def gate_of(self, step: Step) -> Gate | None:
        return None

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        back.deliver(step, step.inputs[0], r=arriving[0].r.sum(-1, keepdim=True))


class LogSum(Activation):
    """log Σ exp(a): relevance is that of the sum, and goes to its terms exp(a) in proportion, which is PyTorch's derivative."""

    def __init__(self) -> None:
        super().__init__(is_choice=True)

    def run(self, step: Step) -> object:
        result, step.saved = graph_of(step)
        return result

    def log_of(self, step: Step) -> int | None:
        return step.inputs[0].log

    def choice(self, step: Step) -> Choice | None:
        return None if step.inputs[0].log is not None else super().choice(step)

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        return reduced_owners(step, owners)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        back.deliver(step, step.inputs[0], r=step.saved.adjoint([arriving[0].r])[0])


class RunningProduct(Rule):
    """A product of many factors; of gates, it is a gate again. Each factor gets an equal part."""

    def gate_of(self, step: Step) -> Gate | None:
        return step.inputs[0].gate

    def choice(self, step: Step) -> Choice | None:
        return Choice(step.layer, step.name, "no gate", "each of the factors gets an equal part")

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        return reduced_owners(step, owners)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        """The derivative of a running sum, or of a sum, in place of the product's; divided by the number of factors."""
        assert arriving[0] is not None and arriving[0].r is not None
        summed = torch.cumsum if step.name == "cumprod" else torch.sum
        args, kwargs = step.arguments
        with torch.enable_grad():
            ones = torch.ones_like(step.inputs[0].tensor, requires_grad=True)
            counts = summed(ones, *args[1:], **kwargs)
        r = arriving[0].r / counts.detach()
        back.deliver(step, step.inputs[0], r=Graph([ones], [counts]).adjoint([r])[0])
