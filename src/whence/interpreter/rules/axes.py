"""The axes that a call is about, read from its arguments."""

from collections.abc import Sequence

from torch import Tensor

from whence.interpreter.record.step import Owners, Step


def reduced_axes(step: Step, dimensions: int) -> Sequence[int]:
    """The axes of a sum or mean: all of them, unless the call names some."""
    args, kwargs = step.arguments
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if given is None or given in ((), []):
        return range(dimensions)
    return [given] if isinstance(given, int) else list(given)


def reduced_owners(step: Step, owners: Owners) -> Sequence[Tensor]:
    """The owners of a result that one axis or several were reduced to, or run over."""
    (value,), (out,) = step.inputs, step.outputs
    joint = owners.reduced(step, owners[value], reduced_axes(step, value.tensor.dim()))
    return [joint.expand(out.tensor.shape) if joint.dim() == out.tensor.dim() else joint.reshape(out.tensor.shape)]
