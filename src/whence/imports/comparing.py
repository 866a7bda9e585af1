"""What shows that an imported model is the right one: its outputs beside those of a reference or of another runtime."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from whence.errors import ModelError
from whence.quoting import quoted, shortened

TOLERANCE = 1e-4  # times the size of an output, if that is more than 1


@dataclass(frozen=True)
class Difference:
    """The largest difference of two sets of outputs, and the names of those that were not all NaN or infinite."""

    largest: float
    compared: frozenset[str]

    def __or__(self, other: "Difference") -> "Difference":
        """Both together."""
        return Difference(max(self.largest, other.largest), self.compared | other.compared)


NOTHING = Difference(0.0, frozenset())


def against_reference(names: Sequence[str], run: Callable[[list[Tensor]], Sequence[Tensor]], reference: object) -> str:
    """The proof by outputs that the user has; refused if the model gives others, or if they could prove nothing."""
    inputs, expected = _read(reference)
    difference = difference_of(names, run(inputs), expected, "the reference")
    return f"compared with the reference: largest difference {difference.largest:.0e}"


def _read(reference: object) -> tuple[list[Tensor], list[Tensor]]:
    if not isinstance(reference, (tuple, list)) or len(cast("Sequence[object]", reference)) != 2:
        raise ModelError("reference must be (inputs, outputs)")
    inputs, outputs = (tensors(each) for each in cast("Sequence[object]", reference))
    if not all(each.numel() for each in outputs):
        shapes = ", ".join(str(tuple(each.shape)) for each in outputs)
        raise ModelError(f"the reference compares nothing: its outputs are of shapes {shapes}; give at least one sample")
    if not all(bool(each.isfinite().all()) for each in outputs):
        raise ModelError(
            "the outputs of the reference are not all finite; give inputs for which the model's numbers are finite"
        )
    return inputs, outputs


def tensors(given: object) -> list[Tensor]:
    """One array or several; all floats are in single precision."""
    several = cast("Sequence[object]", given) if isinstance(given, (tuple, list)) else [given]
    try:
        found = [torch.as_tensor(each) for each in several]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"the reference holds something that is no array: {shortened(error)}") from None
    return [each.float() if each.is_floating_point() else each for each in found]


def difference_of(names: Sequence[str], found: Sequence[Tensor], expected: Sequence[Tensor], whose: str) -> Difference:
    """The difference of two sets of outputs, refused if it is more than rounding. NaN is equal to NaN."""
    if len(found) != len(expected):
        raise ModelError(f"{whose} has {len(expected)} outputs; the model has {len(found)}: {', '.join(names)}")
    total = NOTHING
    for name, mine, other in zip(names, found, expected, strict=True):
        if mine.shape != other.shape:
            raise ModelError(f"the output {quoted(name)} is {tuple(mine.shape)}; by {whose} it is {tuple(other.shape)}")
        one, two = mine.double().cpu(), other.double().cpu()
        is_same = (one == two) | (one.isnan() & two.isnan())
        gap = torch.where(is_same, 0.0, (one - two).abs())
        is_right = is_same | (gap <= TOLERANCE * two.abs().clamp(min=1.0))
        if not bool(is_right.all()):
            raise ModelError(f"the output {quoted(name)} differs {_by(gap)} from {whose}; it is not the same model")
        largest = float(gap.max()) if gap.numel() else 0.0
        total |= Difference(largest, frozenset([] if two.numel() and not bool(two.isfinite().any()) else [name]))
    return total


def _by(gap: Tensor) -> str:
    """How much two outputs differ."""
    return "in what is NaN" if bool(gap.isnan().any()) else f"by {float(gap.max()):.3g}"


def proof_of(difference: Difference, names: Sequence[str], whose: str, count: int) -> str:
    """What a comparison on random inputs shows; nothing, if an output never had a finite number."""
    missing = [quoted(name) for name in names if name not in difference.compared]
    if missing:
        return (
            f"not compared: on random inputs, no number of the output {', '.join(missing)} is finite; "
            "give reference=(inputs, outputs)"
        )
    return f"compared with {whose} on {count} inputs: largest difference {difference.largest:.0e}"
