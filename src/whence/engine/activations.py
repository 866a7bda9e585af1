"""Activations: a neuron's relevance is that of its pre-activation, so it passes through unchanged."""

from collections.abc import Callable
from dataclasses import replace
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
    Known,
    Kwargs,
    Late,
    Mark,
    ModelCall,
    Node,
    OpenSum,
    Owner,
    Rest,
)
from whence.engine.resting import Secant
from whence.engine.rule import NoRule, Rule, detached
from whence.engine.run import ModelRun
from whence.equations import derivative, secant

SIGMOID = Gate("it is squashed into [0, 1]")
NORMALISES = Gate("it is a normaliser, which scales and carries no content", NORMALISER, is_choice=True)
EXPONENTIAL = Gate("it is an exponential, which is positive and scales", POSITIVE, is_choice=True)
SIGN = Gate("it is a sign, which carries no size", is_choice=True)
STEP_SIZE = Gate("it is a softplus, a positive step size", POSITIVE, is_choice=True)

FINITE = frozenset(
    "tanh sigmoid relu relu6 elu selu gelu silu softplus leaky_relu hardtanh hardsigmoid softmax hardswish".split()
)
# those that are 0 at 0
ZERO = frozenset(
    "tanh relu relu6 leaky_relu elu selu celu gelu silu mish softsign tanhshrink hardswish prelu erf sqrt abs sin atan log1p "
    "expm1 sinh asinh sign sgn nan_to_num two_scores".split()
)
HALF = 0.5
WHOLE = "it is taken for an activation, so relevance passes through it unchanged"
AT_REST = "it is taken for an activation, and explained against its value at 0"
GateFor = Callable[[Mark, Args, Kwargs], Gate | None]


class Activation(Rule):
    """An elementwise function of a neuron.

    `gate`: why the result is a gate; a function of a gate always is one. `squashes`: whether it changes the sign of some
    scores, and so of their relevance; as a model's last step, relevance starts before it. `is_choice`: it is seldom used as an
    activation (exp, √z), so that passing relevance through it is a choice.
    """

    def __init__(
        self,
        *,
        gate: Gate | GateFor | None = None,
        squashes: bool = False,
        is_choice: bool = False,
        words: str = "activation",
    ) -> None:
        self.gate, self.squashes, self.is_choice, self.words = gate, squashes, is_choice, words

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        mark = run.look(x) if isinstance(x, Tensor) else None
        if mark is None or (len(call.inputs) > 1 and call.name != "pow"):
            raise NoRule("its bounds or slopes depend on the input")
        if x.is_complex() and call.name != "abs":
            raise NoRule("it is not linear, and its input is complex")
        y = call.function(x.detach(), *map(detached, args[1:]), **{key: detached(each) for key, each in kwargs.items()})
        if self.is_choice and mark.gate is None and run.rules.product == "all" and mark.is_live:
            call.decide("no gate", WHOLE if call.name in ZERO else AT_REST)
        gate, owner = self._gate(mark, args, kwargs), run.agreed(call, [(x, mark)], y)
        log = mark.rank if call.name == "log" else SQUASHED if call.name == "log_sigmoid" else None
        is_late, is_infinite = gate is SIGMOID and type(self) is Activation, mark.is_infinite or call.name not in FINITE
        known: dict[str, Any] = {"gate": gate, "log": log, "owner": owner, "is_infinite": is_infinite}
        y = self._put(run, call, args, kwargs, mark, y, is_late=is_late, **known)
        if self.squashes and mark.is_live:
            cast(Mark, y.__dict__[KEY]).before = Before(call, args, kwargs, 0, squashes=True)
        return y

    def _put(
        self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, mark: Mark, y: Tensor, *, is_late: bool, **known: Any
    ) -> Tensor:
        x = args[0]
        is_zero = (call.name in ZERO and not mark.rests) or (
            call.name == "exp" and mark.log is not None and (mark.log == SOURCE or not mark.rests)
        )
        if not mark.is_live or x.is_complex() or is_zero:
            return passed(run, call, x, mark, y, is_late=is_late, **known)

        def again(z: Tensor) -> Tensor:
            return call.function(z, *map(detached, args[1:]), **{key: detached(each) for key, each in kwargs.items()})

        if mark.stands_apart:
            y = passed(run, call, x, mark, y, is_late=is_late, **known)
            run.put_off(y, [x], lambda: at_secant(run, call, x, mark, y.detach(), again, known["owner"]))
            return y
        rest = HALF if call.name == "sigmoid" and mark.rest is None else _rest(run, again, x, mark, y)
        y = passed(run, call, x, mark, y, is_late=is_late, rest=rest, **known)
        if call.name == "exp" and mark.rest is None:
            run.remember(cast(Mark, y.__dict__[KEY])).exponent = Known(x, mark, x._version)
        return y

    def _gate(self, mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
        own = self.gate if self.gate is None or isinstance(self.gate, Gate) else self.gate(mark, args, kwargs)
        if mark.gate is None:
            return own
        return mark.gate if own is None else own._replace(is_choice=mark.gate.is_choice)


class Joint(Activation):
    """A function of several numbers at once, whose result is a gate or not, whatever they are.

    It gives weights that sum to one, as in attention, or makes the scores −z / 2 and z / 2 of two classes of one score z.
    """

    def _gate(self, mark: Mark, args: Args, kwargs: Kwargs) -> Gate | None:
        return self.gate if isinstance(self.gate, Gate) else None

    def _put(
        self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, mark: Mark, y: Tensor, *, is_late: bool, **known: Any
    ) -> Tensor:
        return passed(run, call, args[0], mark, y, is_late=is_late, **known)


def passed(run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, *, is_late: bool, **known: Any) -> Tensor:
    """The neuron y that is an activation of x.

    `is_late`: it may be put on the graph when it is asked for as a neuron, which gates seldom are.
    """
    if not mark.is_live:
        return run.put(y, call, is_live=False, **known)
    call.sources = (mark.node,)
    if is_late and run.puts_off and y.dtype == x.dtype and y.shape == x.shape and mark.carrier is None:
        run.put(y, call, **known)
        cast(Mark, y.__dict__[KEY]).late = mark.late or Late(x, mark, x._version)
        return y
    if x.is_complex():
        return run.put(neurons.Magnitude.apply(run.at(x, mark), [y], Node(call, owner=mark.owner), run), call, **known)
    y = run.activated(x, mark, y) if y.shape == x.shape else neurons.Passed.apply(run.finished(x, mark), [y])
    return run.put(y, call, **known)


def at_secant(
    run: ModelRun, call: ModelCall, x: Tensor, mark: Mark, y: Tensor, again: Callable[[Tensor], Tensor], owner: Owner
) -> tuple[Tensor, OpenSum]:
    """The elementwise function y of a sum with a value at rest."""
    z, own = run.rested(x, mark)
    rest, numbers = cast(Tensor, own.rest), run.captured(z.detach())
    found = Secant.apply(z, [y], lambda: secant(again, numbers, rest), Node(call, owner=owner), run)
    return found, replace(own, call=call, bias=None, rest=again(rest))


def _rest(run: ModelRun, again: Callable[[Tensor], Tensor], x: Tensor, mark: Mark, y: Tensor) -> Rest:
    """The value at rest of an activation. Where there is none at z = 0, as of log z, the tangent's."""
    before = mark.rest() if callable(mark.rest) else mark.rest
    try:
        start = torch.tensor(before or 0.0, dtype=torch.float64) if not isinstance(before, Tensor) else before
        found = again(start)
        if found.shape != start.shape or found.dtype != start.dtype:
            raise RuntimeError
    except RuntimeError:  # it takes tensors of its own
        found = again(run.rest_of(x.detach(), replace(mark, sum=None, resting=None)).clone())
    if bool(found.isfinite().all()):
        return found if found.dim() else (float(found) or None)

    def tangent() -> Tensor:
        at = x.detach()
        way = at if before is None else at - before
        return torch.where(found.isfinite(), found.to(y), (y.detach() - derivative(again, at) * way).nan_to_num(0.0, 0.0, 0.0))

    return tangent


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
