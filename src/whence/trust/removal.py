"""Samples without their most or least relevant units, and what the model says about them."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.trust.subject import Mask, Numbers, Reading, Report, Subject, silent

DELETIONS = 5  # as in the paper
LEVELS = 10  # of AOPC: that many parts of a sample are taken away one after another
FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)
Counts = NDArray[np.int64]
UNITS = 2**24  # of masks that are kept at once


class Plan(NamedTuple):
    """How many units of a sample are taken away, or kept, for each measure."""

    deletions: Counts  # 0, 1, … DELETIONS times `at_once`
    levels: Counts  # from 0 to all of them
    fractions: Counts


def plan(length: int, *, at_once: int = 1) -> Plan:
    """The plan for a sample of that many units. At least one unit is taken away for a fraction."""
    steps = np.minimum(np.arange(DELETIONS + 1) * at_once, length)
    levels = np.round(np.linspace(0, length, min(length, LEVELS) + 1)).astype(np.int64)
    fractions = np.ceil(np.asarray(FRACTIONS) * length - 1e-9).astype(np.int64)
    return Plan(steps, levels, fractions)


def masks(relevance: Numbers, own: Plan) -> dict[str, Mask]:
    """What is taken away for each measure (counts, units); ties are in the order of the sample.

    deleted, aopc, removed: the most relevant units. reversed: the least relevant ones. inserted, kept: all but the
    most relevant ones.
    """
    first, last = _rank(-relevance), _rank(relevance)

    def gone(rank: Counts, counts: Counts) -> Mask:
        return rank[None, :] < counts[:, None]

    return {
        "deleted": gone(first, own.deletions),
        "reversed": gone(last, own.deletions),
        "inserted": ~gone(first, own.deletions),
        "aopc": gone(first, own.levels),
        "removed": gone(first, own.fractions),
        "kept": ~gone(first, own.fractions),
    }


def _rank(values: Numbers) -> Counts:
    found = np.empty(len(values), dtype=np.int64)
    found[np.argsort(values, kind="stable")] = np.arange(len(values))
    return found


Variants = dict[str, Mask]  # by any key, the masks of a sample's variants (variants, units)


def readings(
    subject: Subject, wanted: Callable[[int], Variants], *, report: Report = silent
) -> Iterator[tuple[int, dict[str, Reading]]]:
    """For every sample its number, and what the model says about its variants, by key; the same variant is run once."""
    part: dict[int, Variants] = {}
    for n in range(len(subject)):
        part[n] = wanted(n)
        if sum(mask.size for each in part.values() for mask in each.values()) > UNITS:
            yield from _read(subject, part)
            report(len(part))
            part = {}
    yield from _read(subject, part)
    report(len(part))


def _read(subject: Subject, part: Mapping[int, Variants]) -> Iterator[tuple[int, dict[str, Reading]]]:
    unique: list[Mask] = []
    owners: list[int] = []
    places: dict[int, NDArray[np.int64]] = {}
    for n, variants in part.items():
        every = np.concatenate(list(variants.values()))
        _, first, inverse = np.unique(np.packbits(every, axis=1), axis=0, return_index=True, return_inverse=True)
        places[n] = inverse.reshape(-1) + len(unique)
        unique.extend(every[first])
        owners.extend([n] * len(first))
    said = subject.read(subject.scores(owners, unique), subject.of[owners]) if owners else None
    for n, variants in part.items():
        assert said is not None
        ends = np.cumsum([len(each) for each in variants.values()])[:-1]
        own = np.split(places[n], ends)
        yield n, {key: said.at(own[k]) for k, key in enumerate(variants)}
