"""Every method's relevance, measured by what the model does without the units that it points to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from whence.engine.refusal import first_line
from whence.errors import InputError, WhenceError
from whence.methods.method import Method
from whence.trust.bounds import LONGEST, bounds
from whence.trust.contestants import RANDOM, RUNS, Contestant, borrowed, chosen_rows, partners, random_relevance
from whence.trust.measures import Measured, Row, mean_row, measured, row_of
from whence.trust.removal import DELETIONS, Variants, masks, plan, readings
from whence.trust.subject import Numbers, Reading, Subject

Progress = Callable[[str, int, int], None]  # gets a part of the work, how much of it is done, and how much there is
SEARCHED = 100  # samples for which the best and the worst order are searched
COMPARED = 500  # samples for which relevance is also borrowed from others


@dataclass(frozen=True, eq=False)
class Relevances:
    """The relevance that every method gave, its price, and why a method gave none."""

    found: Mapping[str, list[Numbers]]
    seconds: Mapping[str, Numbers]  # for each sample, the mean of its batch
    errors: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """The measures of every method and of random relevance, under "random"."""

    measured: Mapping[str, Measured]
    beyond_borrowed: Mapping[str, Numbers]  # AOPC minus that of relevance borrowed from another sample, for some samples
    searched: Sequence[int]  # the samples whose lowest and highest AOPC were searched
    lowest: Numbers
    highest: Numbers
    is_long: np.ndarray[tuple[int], np.dtype[np.bool_]]  # samples with enough units for the deletion curves

    def normalised(self, name: str) -> Numbers:
        """(AOPC − lowest) / (highest − lowest) of the samples where there is a difference to be made."""
        aopc, room = self.measured[name].aopc[list(self.searched)], self.highest - self.lowest
        usable = room > 1e-9
        return (aopc[usable] - self.lowest[usable]) / room[usable]


def relevances(subject: Subject, entered: Sequence[Contestant], *, progress: Progress) -> Relevances:
    """Explain every sample with every method. A method that cannot is left out, with the reason."""
    found: dict[str, list[Numbers]] = {}
    seconds: dict[str, Numbers] = {}
    errors: dict[str, str] = {}
    for method, own in _by_method(entered).items():
        clock = _Clock(own[0].name, len(subject), progress)
        try:
            if len(own) == 2 and method.shares_runs:
                given = subject.relevance_both(method, report=clock)
                for each in own:
                    found[each.name], seconds[each.name] = _required(given[each.against], subject), clock.seconds
                continue
            for each in own:
                clock = _Clock(each.name, len(subject), progress)
                found[each.name] = _required(subject.relevance(method, against=each.against, report=clock), subject)
                seconds[each.name] = clock.seconds
        except Exception as error:  # of a method, or a model, of the user's
            told = str(error) if isinstance(error, WhenceError) else f"{type(error).__name__}: {first_line(error)}"
            errors |= {each.name: told for each in own if each.name not in found}
    return Relevances(found, seconds, errors)


def _by_method(entered: Sequence[Contestant]) -> dict[Method, list[Contestant]]:
    """The contestants grouped by method."""
    found: dict[Method, list[Contestant]] = {}
    for each in entered:
        found.setdefault(each.method, []).append(each)
    return found


class _Clock:
    """Measures how long each batch takes, and reports progress."""

    def __init__(self, name: str, total: int, progress: Progress) -> None:
        self._name, self._total, self._progress = name, total, progress
        self._last, self._spent = perf_counter(), list[tuple[int, float]]()

    def __call__(self, done: int) -> None:
        now = perf_counter()
        self._spent.append((done, now - self._last))
        self._last = now
        self._progress(f"explain: {self._name}", sum(number for number, _ in self._spent), self._total)

    @property
    def seconds(self) -> Numbers:
        """For each sample, the mean time of its batch."""
        return np.concatenate([np.full(number, part / number) for number, part in self._spent])


def _required(relevance: list[Numbers], subject: Subject) -> list[Numbers]:
    """Relevance with one finite number for every unit."""
    for n, (each, length) in enumerate(zip(relevance, subject.lengths, strict=True)):
        if len(each) != length or not np.isfinite(each).all():
            raise InputError(
                f"the method gave {'a number that is not finite' if len(each) == length else f'{len(each)} numbers'} for "
                f"sample {n + 1}; it must give a finite number for each of its {length} units"
            )
    return relevance


def faithfulness(subject: Subject, relevance: Mapping[str, list[Numbers]], *, seed: int, progress: Progress) -> Faithfulness:
    """Measure all relevance, and random relevance beside it."""
    runs = {f"\0{run}": random_relevance(subject.lengths.tolist(), run=run, seed=seed) for run in range(RUNS)}
    rows = _rows(subject, {**relevance, **runs}, progress)
    found = {name: measured([row[name] for row in rows]) for name in relevance}
    found[RANDOM] = measured([mean_row([row[name] for name in runs]) for row in rows])
    searched = chosen_rows(subject, SEARCHED, seed=seed, longest=LONGEST)
    lowest, highest = _bounds(subject, searched, found, progress)
    long = subject.lengths >= 2 * DELETIONS
    return Faithfulness(
        found,
        _beyond_borrowed(subject, relevance, found, seed, progress),
        searched,
        lowest,
        highest,
        long if long.any() else np.ones(len(subject), dtype=bool),
    )


def _rows(subject: Subject, relevance: Mapping[str, list[Numbers]], progress: Progress) -> list[dict[str, Row]]:
    """For every sample its measures, by method."""
    found: list[dict[str, Row]] = []

    def wanted(n: int) -> Variants:
        own = plan(subject.lengths[n], at_once=subject.at_once(int(subject.lengths[n])))
        return {f"{name}\n{kind}": mask for name, each in relevance.items() for kind, mask in masks(each[n], own).items()}

    for n, said in _reported(readings(subject, wanted), "measure", len(subject), progress):
        label = int(subject.of[n]) if subject.has_classes else None
        by_method: dict[str, dict[str, Reading]] = {name: {} for name in relevance}
        for key, each in said.items():
            name, kind = key.split("\n")
            by_method[name][kind] = each
        found.append({name: row_of(own, relevance[name][n], label) for name, own in by_method.items()})
    return found


def _reported(
    parts: Iterator[tuple[int, dict[str, Reading]]], name: str, total: int, progress: Progress
) -> Iterator[tuple[int, dict[str, Reading]]]:
    for done, part in enumerate(parts, start=1):
        yield part
        if done % 32 == 0 or done == total:
            progress(name, done, total)


def _bounds(subject: Subject, rows: list[int], found: Mapping[str, Measured], progress: Progress) -> tuple[Numbers, Numbers]:
    """The lowest and the highest AOPC, found by search or by a method."""
    if not rows:
        return np.empty(0), np.empty(0)
    total, done = 2 * int(subject.lengths[rows].sum()), 0

    def report(number: int) -> None:
        nonlocal done
        done += number
        progress("best orders", done, total)

    lowest, highest = bounds(subject, rows, report=report)
    for name, each in found.items():
        if name != RANDOM:
            lowest, highest = np.minimum(lowest, each.aopc[rows]), np.maximum(highest, each.aopc[rows])
    return lowest, highest


def _beyond_borrowed(
    subject: Subject, relevance: Mapping[str, list[Numbers]], found: Mapping[str, Measured], seed: int, progress: Progress
) -> dict[str, Numbers]:
    """For some samples, AOPC minus that of relevance borrowed from another sample of about the same length."""
    if len(subject) < 2 or not relevance:
        return {}
    rows = chosen_rows(subject, COMPARED, seed=seed)
    some = subject.some(rows)
    lengths, others = some.lengths.tolist(), partners(some)
    theirs = {name: borrowed([each[n] for n in rows], others) for name, each in relevance.items()}

    def wanted(n: int) -> Variants:
        own = plan(lengths[n])
        return {name: masks(each[n], own)["aopc"] for name, each in theirs.items()}

    aopc = np.empty((len(rows), len(theirs)))
    for n, said in _reported(readings(some, wanted), "borrowed relevance", len(rows), progress):
        aopc[n] = [float((each.value[0] - each.value).mean()) for each in said.values()]
    has_partner = np.array([other != n for n, other in enumerate(others)])
    return {name: (found[name].aopc[rows] - aopc[:, k])[has_partner] for k, name in enumerate(theirs)}
