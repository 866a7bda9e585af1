"""The axes that a call is about, read from its arguments."""

from collections.abc import Sequence

from whence.interpreter.record.step import Step


def reduced_axes(step: Step, dimensions: int) -> Sequence[int]:
    """The axes of a sum or mean: all of them, unless the call names some."""
    args, kwargs = step.arguments
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if given is None or given in ((), []):
        return range(dimensions)
    return [given] if isinstance(given, int) else list(given)
