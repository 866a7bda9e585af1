"""Calls that relevance cannot pass through, and their errors."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import overrides

from whence.engine.marks import Function
from whence.errors import NoRuleError

BY_DERIVATIVES = "use a method that needs no rules, such as method=whence.GradientXInput()"
BY_OTHER_INPUTS = (
    "use a method that needs neither rules nor derivatives, such as method=whence.Occlusion() or method=whence.Shapley()"
)
LEAVES = "numbers leave the tensors here, and relevance cannot follow"
# their derivative is 0 or there is none, and so it is for everything before them
STEPS = frozenset("round floor ceil trunc fix heaviside floor_divide bernoulli poisson nextafter".split())


def no_rule(function: Function, layer: str, reason: str = "", *, is_cut: bool = False) -> NoRuleError:
    """The error for a call without a rule: which function, in which layer, why, and what to do.

    `is_cut`: the model makes the call where PyTorch's graph is switched off.
    """
    name = name_of(function)
    because = f": {reason}" if reason else ""
    way_out = BY_OTHER_INPUTS if is_cut or is_flat(function, reason) else BY_DERIVATIVES
    return NoRuleError(f"no rule for {name} ({place(layer)}){because}. Add one with @whence.handles({name}), or {way_out}.")


def is_flat(function: Function, reason: str = "") -> bool:
    """Whether a derivative ends at a function that was refused for this reason."""
    *_, name = name_of(function).split(".")
    return reason == LEAVES or name.strip("_") in STEPS or "quantized" in name_of(function)


class Blocked(NamedTuple):
    """A call that relevance cannot pass through."""

    function: Function
    layer: str
    reason: str = ""
    is_cut: bool = False


def blocked(calls: Sequence[Blocked]) -> NoRuleError:
    """The error for all calls of a model that relevance cannot pass through."""
    if len(calls) == 1:
        (call,) = calls
        return no_rule(call.function, call.layer, call.reason, is_cut=call.is_cut)
    found = "; ".join(
        f"({n}) {name_of(call.function)} ({place(call.layer)}){f': {call.reason}' if call.reason else ''}"
        for n, call in enumerate(calls, 1)
    )
    way_out = BY_OTHER_INPUTS if any(call.is_cut or is_flat(call.function, call.reason) for call in calls) else BY_DERIVATIVES
    return NoRuleError(f"{len(calls)} calls have no rule: {found}. Add rules with @whence.handles(function), or {way_out}.")


def name_of(function: Function) -> str:
    """A function's full name."""
    return overrides.resolve_name(function) or f"torch.{getattr(function, '__name__', repr(function)).strip('_')}"


def place(layer: str) -> str:
    """Where a call was made, in words."""
    return f"called in {layer!r}" if layer else "called in the model itself"


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
