"""Calls that relevance cannot pass through, and their errors."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import overrides

from whence.engine.marks import Function
from whence.errors import NoRuleError

WAY_OUT = "or use a method that needs no rules, such as method=whence.GradientXInput()."


def no_rule(function: Function, layer: str, reason: str = "") -> NoRuleError:
    """The error for a call without a rule: which function, in which layer, why, and what to do."""
    name = name_of(function)
    because = f": {reason}" if reason else ""
    return NoRuleError(f"no rule for {name} ({place(layer)}){because}. Add one with @whence.handles({name}), {WAY_OUT}")


class Blocked(NamedTuple):
    """A call that relevance cannot pass through."""

    function: Function
    layer: str
    reason: str = ""


def blocked(calls: Sequence[Blocked]) -> NoRuleError:
    """The error for all calls of a model that relevance cannot pass through."""
    if len(calls) == 1:
        return no_rule(*calls[0])
    found = "; ".join(
        f"({n}) {name_of(call.function)} ({place(call.layer)}){f': {call.reason}' if call.reason else ''}"
        for n, call in enumerate(calls, 1)
    )
    return NoRuleError(f"{len(calls)} calls have no rule: {found}. Add rules with @whence.handles(function), {WAY_OUT}")


def name_of(function: Function) -> str:
    """A function's full name."""
    return overrides.resolve_name(function) or f"torch.{getattr(function, '__name__', repr(function)).strip('_')}"


def place(layer: str) -> str:
    """Where a call was made, in words."""
    return f"called in {layer!r}" if layer else "called in the model itself"


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
