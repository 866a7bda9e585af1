"""Labels, the true classes of texts, as a user's data has them: names of classes, or their numbers."""

from collections.abc import Iterable, Sequence
from typing import cast

from whence.models.pipeline import class_of
from whence.quoting import shortened

SHOWN = 5  # labels that a sentence names


def class_of_label(classes: Sequence[str], label: object) -> int | None:
    """The number of the class that a label names or, if there are several classes, numbers; None if it is no class.

    A model of one class cannot be right or wrong, and 0 and 1 are no classes of it. 3.0 is 3: pandas writes so where a column
    has gaps.
    """
    written = label.strip() if isinstance(label, str) else label
    found = class_of(classes, written)
    number = _number(written) if found is None and len(classes) > 1 else None
    return next((n for n in range(len(classes)) if n == number), found)


def _number(label: object) -> float | None:
    """A label that is a number, or reads as one."""
    try:
        return float(cast(str, label))
    except (TypeError, ValueError, OverflowError):
        return None


def labels_read(classes: Sequence[str], labels: Iterable[object]) -> str:
    """How labels were read, where that may surprise: all by number, or none as a class; otherwise nothing."""
    different = {str(label).strip(): label for label in labels}
    given = {written: class_of_label(classes, label) for written, label in different.items() if written}
    if not given:
        return ""
    more = ", …" if len(given) > SHOWN else ""
    if all(number is None for number in given.values()):
        such = ", ".join(repr(shortened(label)) for label in sorted(given)[:SHOWN])
        return f"no label is a class of the model: labels are {such}{more}; classes are {', '.join(classes)}"
    numbers = {label: number for label, number in given.items() if number is not None and class_of(classes, label) is None}
    if len(numbers) < sum(number is not None for number in given.values()):
        return ""
    pairs = sorted(numbers.items(), key=lambda pair: pair[1])[:SHOWN]
    return f"labels are numbers: {', '.join(f'{label} is {classes[number]!r}' for label, number in pairs)}{more}"
