"""The names of features, steps and outputs, from what the caller gave or by number."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time
from numbers import Integral
from typing import Any, cast

import numpy as np
from torch import Tensor

from whence.errors import InputError


def listed(given: object, what: str) -> list[object]:
    """Names that were given as any iterable: a list, an array, an index of a data frame."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InputError(f"{what} is {given!r}; give a list of names")
    return list(cast(Iterable[object], given))


def step_names(given: object, count: int) -> tuple[str, ...]:
    """The names of the steps; more than the sample has are the padding's."""
    if given is None:
        return ()
    names = [_step_name(each) for each in listed(given, "steps")]
    if len(names) < count:
        raise InputError(f"steps has {len(names)} names; the series has {count} steps")
    midnight = " 00:00:00"
    is_daily = all(name.endswith(midnight) for name in names)
    return tuple(name.removesuffix(midnight) if is_daily else name for name in names[:count])


def _step_name(given: object) -> str:
    if isinstance(given, np.datetime64):
        return str(cast(object, given)).replace("T", " ")
    if isinstance(given, datetime) and given.time() == time():
        return given.strftime("%Y-%m-%d 00:00:00")
    return f"{given:g}" if isinstance(given, float) else str(given)


def feature_names(given: object, parts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names of the features of every input: a list for a single one, a list or dictionary of lists for several."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        named = {str(key): listed(names, "features") for key, names in cast(Mapping[object, object], given).items()}
        unknown = [key for key in named if key not in parts]
        if unknown:
            raise InputError(f"features names the input {unknown[0]!r}; the inputs are {', '.join(map(repr, parts))}")
    elif len(parts) == 1:
        named = {parts[0]: listed(given, "features")}
    else:
        each = listed(given, "features")
        if len(each) != len(parts):
            raise InputError(f"features has {len(each)} entries for {len(parts)} inputs; give one list of names for each")
        named = {name: listed(names, "features") for name, names in zip(parts, each, strict=True) if names is not None}
    return {key: tuple(map(str, names)) for key, names in named.items()}


def output_names(target: Any, lead: tuple[int, ...], given: object, sample: int, *, row: str = "step") -> tuple[str, ...]:
    """A name for every explained output; `given` names the model's outputs or classes, and `row` says what a row of them is."""
    classes = None if given is None else [str(each) for each in listed(given, "outputs")]

    def named(number: object) -> str:
        if not isinstance(number, Integral):
            return str(number)
        if classes is None:
            return f"target {number}"
        if not -len(classes) <= int(number) < len(classes):
            raise InputError(f"outputs has {len(classes)} names; the result explains number {number}")
        return classes[int(number)]

    if isinstance(target, tuple):
        step, one = cast(tuple[object, object], target)
        steps = list(range(lead[0])) if step == "all" else [step]
        ones = list(range(lead[-1])) if one == "all" else [one]
        return tuple(f"{row} {s}, {named(k)}" for s in steps for k in ones)
    if isinstance(target, str) and target == "all":
        return tuple(named(k) for k in range(lead[0]))
    if isinstance(target, Tensor):
        return (named(int(target.reshape(-1)[sample if target.numel() > 1 else 0])),)
    if isinstance(target, list):
        return (named(cast(list[object], target)[sample]),)
    if isinstance(target, Integral):
        return (named(target),)
    return ("the score" if callable(target) else str(target),)
