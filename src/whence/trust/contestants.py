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
    if not isinstance(targets, Sequence) or isinstance(targets, str) or not {*targets} or {*targets} - {"score", "rest"}:
        raise InputError(f'targets is {targets!r}; give a list of "score" and "rest"')
    named = _named(methods)
    taken = [name for name, method in named.items() if not _is_free(name, method)]
    if taken:
        raise InputError(f"a method is called {taken[0]!r}; give it a name of its own, of printable characters")
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
    if methods is not None and not isinstance(methods, (str, Method, Sequence)):
        raise InputError(f"methods is a {type(methods).__name__}; give a list of methods or of their names")
    given = list(METHODS) if methods is None else [methods] if isinstance(methods, (str, Method)) else list(methods)
    found = list(dict.fromkeys(method_of(each) for each in given))
    counts = Counter(each.name for each in found)
    return {each.name if counts[each.name] == 1 else label_of(each): each for each in found}


def _is_free(name: object, method: Method) -> bool:
    """Whether a method may have this name; "random" is that of the control."""
    return isinstance(name, str) and name.isprintable() and bool(name) and (name != RANDOM or isinstance(method, Random))


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


def borrowed(relevance: Sequence[Numbers], partners: Sequence[int]) -> list[Numbers]:
    """For every sample, the relevance of its partner, stretched to its own length.

    What a method gains over this depends on the sample itself; the rest it owes to the positions of the units.
    """
    found: list[Numbers] = []
    for own, partner in zip(relevance, partners, strict=True):
        other = relevance[partner]
        found.append(other[np.arange(len(own)) * len(other) // len(own)])
    return found


def partners(subject: Subject) -> list[int]:
    """For every sample, another one of about the same length and of other content; itself, if there is none."""
    order = sorted(range(len(subject)), key=lambda n: int(subject.lengths[n]))
    contents = [subject.content(n) for n in order]
    found = list(range(len(subject)))
    for place, n in enumerate(order):
        near = sorted(range(max(0, place - NEAR), min(len(order), place + NEAR + 1)), key=lambda k: abs(k - (place ^ 1)))
        found[n] = next((order[k] for k in near if contents[k] != contents[place]), n)
    return found


NEAR = 50  # places, in the order of length, among which a partner is looked for


def chosen_rows(subject: Subject, most: int, *, seed: int, shortest: int = 1, longest: int | None = None) -> list[int]:
    """At most that many samples, drawn at random, in order."""
    fits = [n for n, length in enumerate(subject.lengths) if length >= shortest and (longest is None or length <= longest)]
    if len(fits) > most:
        fits = sorted(np.random.default_rng(seed).choice(fits, size=most, replace=False).tolist())
    return fits
