"""The methods that are compared, each for what it explains, and the controls that they have to beat."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from whence.errors import InputError
from whence.methods.method import Method
from whence.methods.random_relevance import Random
from whence.methods.registry import METHODS, method_of
from whence.trust.subject import Against, Numbers, Subject

RANDOM = "random"
RUNS = 3  # random orders, of which the mean is taken


class Contestant(NamedTuple):
    """A method that explains the score of a class, or this score against the rest."""

    name: str
    method: Method
    against: Against


def contestants(
    methods: Mapping[str, Method | str] | Sequence[Method | str] | str | None, targets: Sequence[str]
) -> list[Contestant]:
    """All methods with all targets; random relevance is left out, being the control of every evaluation."""
    wrong = [each for each in targets if each not in ("score", "rest")]
    if wrong or not targets or isinstance(targets, str):
        raise InputError(f'targets is {targets!r}; give a list of "score" and "rest"')
    named = _named(methods)
    if not named and methods is not None and len(methods) == 0:
        raise InputError("methods is empty; give methods, such as methods=[whence.LRP(), 'gi'], or leave it out for all")
    return [
        Contestant(name if against == "score" else f"{name}:rest", method, against)
        for name, method in named.items()
        for against in cast(list[Against], list(dict.fromkeys(targets)))
        if not isinstance(method, Random)
    ]


def _named(methods: Mapping[str, Method | str] | Sequence[Method | str] | str | None) -> dict[str, Method]:
    """Methods by name; a name that would occur twice also has the settings."""
    if isinstance(methods, Mapping):
        return {name: method_of(method) for name, method in methods.items()}
    given = list(METHODS) if methods is None else [methods] if isinstance(methods, (str, Method)) else list(methods)
    found = list(dict.fromkeys(method_of(each) for each in given))
    counts = Counter(each.name for each in found)
    return {each.name if counts[each.name] == 1 else label_of(each): each for each in found}


def label_of(method: Method) -> str:
    """The name of a method with the settings that are not its defaults, such as lrp(delta=1.0)."""
    try:
        usual = type(method)().settings()
    except TypeError:  # a method of the user's that has no defaults
        usual = {}
    own = ", ".join(f"{key}={value}" for key, value in method.settings().items() if key not in usual or usual[key] != value)
    return f"{method.name}({own})" if own else method.name


def random_relevance(lengths: Sequence[int], *, run: int, seed: int) -> list[Numbers]:
    """Relevance without any meaning, for every sample."""
    generator = np.random.default_rng([seed, run])
    return [generator.standard_normal(length) for length in lengths]


def borrowed(relevance: Sequence[Numbers], lengths: Sequence[int]) -> list[Numbers]:
    """For every sample, the relevance of another sample of about the same length, stretched to its own.

    What a method gains over this depends on the sample itself; the rest it owes to the positions of the units.
    """
    order = sorted(range(len(lengths)), key=lambda n: lengths[n])
    found: list[Numbers] = [np.empty(0)] * len(lengths)
    for place, n in enumerate(order):
        other = relevance[order[_neighbour(place, len(order))]]
        found[n] = other[np.arange(lengths[n]) * len(other) // lengths[n]]
    return found


def _neighbour(place: int, count: int) -> int:
    """The other place of a pair of neighbours; the last of an odd number of places takes the one before it."""
    return min(place ^ 1, count - 1) if place ^ 1 < count else max(place - 1, 0)


def chosen_rows(subject: Subject, most: int, *, seed: int, shortest: int = 1, longest: int | None = None) -> list[int]:
    """At most that many samples, drawn at random, in order."""
    fits = [n for n, length in enumerate(subject.lengths) if length >= shortest and (longest is None or length <= longest)]
    if len(fits) > most:
        fits = sorted(np.random.default_rng(seed).choice(fits, size=most, replace=False).tolist())
    return fits
