"""Activations: a neuron's relevance is that of its pre-activation, so it passes through unchanged."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from whence.engine import neurons
from whence.engine.marks import (
    KEY,
    NORMALISER,
    POSITIVE,
    SOURCE,
    SQUASHED,
    Args,
    Before,
    Gate,
    Kwargs,
    Late,
    Mark,
    ModelCall,
    Node,
    Owner,
)
from whence.engine.rule import NoRule, Rule, detached
from whence.engine.run import ModelRun
from whence.engine.sums import reduced_axes

SIGMOID = Gate("it is squashed into [0, 1]")
NORMALISES = Gate("it is a normaliser, which scales and carries no content", NORMALISER, is_choice=True)
EXPONENTIAL = Gate("it is an exponential, which is positive and scales", POSITIVE, is_choice=True)
SIGN = Gate("it is a sign, which carries no size", is_choice=True)
STEP_SIZE = Gate("it is a softplus, a positive step size", POSITIVE, is_choice=True)

FINITE = frozenset(
    "tanh sigmoid relu relu6 elu selu gelu silu softplus leaky_relu hardtanh hardsigmoid softmax hardswish".split()
)
GateFor = Callable[[Mark, Args, Kwargs], Gate | None]


class Activation(Rule):
    """An elementwise function of a neuron.

    `gate`: why the result is a gate; a function of a gate always is one. `squashes`: whether it changes the sign of some
    scores, and so of their relevance; as a model's last step, relevance starts before it. `is_choice`: it is seldom used as an
    activation (exp, √z), so that passing relevance through it is a choice.
    """

    words = "activation"

    def __init__(self, *, gate: Gate | GateFor | None = None, squashes: bool = False, is_choice: bool = False) -> None:
        self.gate, self.squashes, self.is_choice = gate, squashes, is_choice

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        mark = run.look(x) if isinstance(x, Tensor) else None
        if mark is None or (len(call.inputs) > 1 and call.name != "pow"):
            raise NoRule("its bounds or slopes depend on the input")
        if x.is_complex() and call.name != "abs":
            raise NoRule("it is not linear, and its input is complex")
        y = call.function(x.detach(), *map(detached, args[1:]), **{key: detached(each) for key, each in kwargs.items()})
        gate = self._gate(mark, args, kwargs)
        if self.is_choice and mark.gate is None and run.rules.product == "all" and mark.is_live and self._is_decided(mark):
            call.decide("no gate", "it is taken for an activation, so relevance passes through it unchanged")
        log = mark.rank if call.name == "log" else SQUASHED if call.name == "log_sigmoid" else self._log(mark)
        is_infinite = mark.is_infinite or call.name not in FINITE
        owner = self._owner(run, call, x, mark, y, args, kwargs)
        if mark.is_live and gate is SIGMOID and run.puts_off and type(self) is Activation:
            call.sources = (mark.node,)
            run.put(y, call, gate=gate, log=log, owner=owner, is_infinite=is_infinite)
            found = cast(Mark, y.__dict__[KEY])
            found.late, found.before = Late(x, mark, x._version), Before(call, args, kwargs, 0, squashes=True)
            return y
        if mark.is_live:
            call.sources = (mark.node,)
            y = self._on_graph(run, call, x, mark, y, args, kwargs)
        y = run.put(y, call, is_live=mark.is_live, gate=gate, log=log, owner=owner, is_infinite=is_infinite)
        if self.squashes and mark.is_live:
            cast(Mark, y.__dict__[KEY]).before = Before(call, args, kwargs, 0, squashes=True)
        return y

    def _on_graph(self, run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Tensor:
        """The result, with the way back to the neuron."""
        if x.is_complex():
            own = Node(call, owner=mark.owner)
            return neurons.Magnitude.apply(run.at(x, mark), [y], own, run)
        return run.activated(x, mark, y)

    def _gate(self, mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
        own = self.gate if self.gate is None or isinstance(self.gate, Gate) else self.gate(mark, args, kwargs)
        if mark.gate is None:
            return own
        return mark.gate if own is None else own._replace(is_choice=mark.gate.is_choice)

    def _is_decided(self, mark: Mark) -> bool:
        return True

    def _log(self, mark: Mark) -> int | None:
        return None

    def _owner(self, run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Owner:
        return run.agreed(call, [(x, mark)], y)


def within_unit(mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
    """The gate that a clamp or hardtanh is if it keeps its result within [0, 1]."""
    low, high = (*args[1:], None, None)[:2]
    low, high = kwargs.get("min", kwargs.get("min_val", low)), kwargs.get("max", kwargs.get("max_val", high))
    is_unit = isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 <= low <= high <= 1
    return SIGMOID if is_unit else None


def exponential(mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
    """The gate that an exponential is: as sure as a sigmoid if its exponent is made of gates and numbers, as in exp(−c · g)."""
    made = mark.call
    if args[0].is_complex():
        return None
    if mark.log is not None:  # of a factor's logarithm: the factor again
        return None if mark.log == SOURCE else SIGMOID
    if made is None or not made.rule.combines or any(each.gate is None for each in made.inputs):
        return EXPONENTIAL
    return SIGMOID._replace(is_choice=any(each.gate is not None and each.gate.is_choice for each in made.inputs))


def power(mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
    """The gate that a power is: a normaliser if its exponent is negative, as in z ** −0.5."""
    exponent = kwargs.get("exponent", args[1] if len(args) > 1 else 1.0)
    return NORMALISES if isinstance(exponent, (int, float)) and exponent < 0 else None


class Softmax(Activation):
    """Weights that sum to one: a gate, as in attention. As a model's last step, relevance starts from the scores before it."""

    words = "softmax"

    def __init__(self, *, is_log: bool = False) -> None:
        super().__init__(gate=None if is_log else SIGMOID, squashes=True, is_choice=True)

    def _gate(self, mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
        return self.gate if isinstance(self.gate, Gate) else None


class Mirrored(Activation):
    """One score (B, 1) as the scores −z / 2 and z / 2 of two classes: each is an activation of z."""

    def _gate(self, mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
        return None

    def _on_graph(self, run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Tensor:
        return neurons.Passed.apply(run.finished(x, mark), [y])


class LogSum(Activation):
    """log Σ exp(a): relevance is that of the sum, and goes to its terms exp(a) in proportion, which is PyTorch's derivative."""

    words = "sum, by its logarithms"

    def __init__(self) -> None:
        super().__init__(is_choice=True)

    def _on_graph(self, run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Tensor:
        return call.function(run.finished(x, mark), *args[1:], **kwargs)

    def _is_decided(self, mark: Mark) -> bool:
        return mark.log is None

    def _log(self, mark: Mark) -> int | None:
        return mark.log

    def _owner(self, run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Owner:
        return _reduced_owner(run, call, x, mark, y, args, kwargs)


class RunningProduct(Rule):
    """A product of many factors; of gates, it is a gate again. Each factor gets an equal part."""

    words = "product over an axis"

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        x, mark = args[0], cast(Mark, run.look(args[0]))
        call.decide("no gate", "each of the factors gets an equal part")
        summed = torch.cumsum if call.name == "cumprod" else torch.sum
        with torch.no_grad():
            y = call.function(x.detach(), *args[1:], **kwargs)
        owner = _reduced_owner(run, call, x, mark, y, args, kwargs)
        if mark.is_live:
            call.sources = (mark.node,)
            own = run.finished(x, mark)
            counts = summed(run.full(x, 1.0), *args[1:], **kwargs)
            y = neurons.Weighed.apply(summed(own, *args[1:], **kwargs), [y], counts.reciprocal())
        return run.put(y, call, is_live=mark.is_live, gate=mark.gate, owner=owner, is_infinite=True)


def _reduced_owner(run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, args: Args, kwargs: Kwargs) -> Owner:
    """The owner of a result that one axis or several were reduced to, or run over."""
    if run.samples.is_one or not mark.is_live:
        return None
    axes = reduced_axes(args, kwargs, x.dim())
    owner = run.samples.reduced(call, mark.owner, x.shape, axes, x.device, keeps=y.dim() == x.dim())
    return run.samples.told(owner.expand(y.shape)) if isinstance(owner, Tensor) else owner
