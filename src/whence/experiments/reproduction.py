"""Measures everything that the paper reports, on a test set. `results` and `report` write it down."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from whence.evaluation.accuracy import Accuracy, accuracy
from whence.experiments.fig1_fig2_heatmaps import Panel, Printed, panels, printed
from whence.experiments.fig3_deletion import Curves, Side, fig3
from whence.experiments.fig4_position import Intervals, fig4
from whence.experiments.findings import (
    Finding,
    conserving_findings,
    deletion_findings,
    extreme_findings,
    negation_finding,
    polarity_findings,
    position_findings,
    shape_findings,
)
from whence.experiments.methods import further_of, methods_of
from whence.experiments.passes import cost_findings
from whence.experiments.prose import colour_findings, misleading_findings, sensitivity_findings
from whence.experiments.published import DELETION_WORDS, POSITION_WORDS, RANDOM_RUNS
from whence.experiments.table1_words import Ranked, table1
from whence.experiments.test_set import Report, TestSet, has_encoders
from whence.explanation import Explanation
from whence.methods.method import Method

Progress = Callable[[str, int, int], None]  # the current part, how much of it is done, and its total
FOR_ALL_CLASSES = ("sa", "lrp")  # the paper's two methods: Table 1 and Fig. 4 need them for every class


class Data(NamedTuple):
    """The hash of SST's files, and whether they are the published ones."""

    sha256: str
    is_official: bool


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Everything that was measured."""

    test: TestSet
    data: Data
    methods: Mapping[str, Method]
    accuracy: Accuracy
    printed: Printed
    panels: list[Panel]
    by_label: dict[str, list[Explanation]]  # by method, every sentence explained for its label
    words: list[dict[str, Ranked]]  # for every class, by method; methods that were added only for the last class
    deletion: dict[Side, Curves]
    position: dict[str, dict[str, list[Intervals]]]  # by method and part, for every class
    findings: list[Finding]

    @property
    def counts(self) -> dict[str, int]:
        """How many sentences there are, and how many are long enough for Fig. 3 and Fig. 4."""
        return {
            "sentences": len(self.test),
            "deletion": len(self.test.at_least(DELETION_WORDS)),
            "position": len(self.test.at_least(POSITION_WORDS)),
        }


class Clock:
    """The time that each part took, and the progress of the current one; `prefix` stands before the parts' names there."""

    def __init__(self, progress: Progress, prefix: str = "") -> None:
        self.seconds: dict[str, float] = {}
        self.progress = progress
        self.prefix = prefix

    @contextmanager
    def part(self, name: str, total: int = 1) -> Generator[Callable[[int], None]]:
        """Time the block, which may report how much more it has done."""
        start, done = time.perf_counter(), 0

        def report(more: int) -> None:
            nonlocal done
            done += more
            self.progress(self.prefix + name, done, total)

        report(0)
        yield report
        report(total - done)
        self.seconds[name] = time.perf_counter() - start


def reproduction(
    test: TestSet, data: Data, lexicon: Mapping[str, float], clock: Clock, methods: Mapping[str, Method] | None = None
) -> Reproduction:
    """Run every experiment of the paper on a test set."""
    methods = methods_of() if methods is None else methods
    with clock.part("accuracy", len(test)) as report:
        test.scored(report)
        right = accuracy(test.scores, test.labels)
    explained = _explained(test, methods, clock)
    with clock.part("table 1"):
        words = [
            {name: table1([each[c] for each in own]) for name, own in explained.for_all.items()}
            for c in range(len(test.pipeline.classes))
        ]
        words[-1] |= {name: table1(own) for name, own in explained.for_last.items()}
    with clock.part("fig. 3", len(test.at_least(DELETION_WORDS)) * (len(methods) + RANDOM_RUNS)) as report:
        deletion = fig3(test, explained.by_label, report=report)
    with clock.part("fig. 4"):
        long = test.at_least(POSITION_WORDS)
        position = {name: fig4([own[n] for n in long]) for name, own in explained.for_all.items()}
    own = printed(test)
    with clock.part("findings"):
        findings = _findings(test, methods, explained, deletion, position, own, lexicon)
    shown = panels(test, own)
    return Reproduction(test, data, methods, right, own, shown, explained.by_label, words, deletion, position, findings)


class Explained(NamedTuple):
    """The explanations by method: of every sentence for all classes, for its label, and for the last class."""

    for_all: dict[str, list[list[Explanation]]]
    by_label: dict[str, list[Explanation]]
    for_last: dict[str, list[Explanation]]  # by the methods that are not in the paper's Table 1 and were added


def _explained(test: TestSet, methods: Mapping[str, Method], clock: Clock) -> Explained:
    found = Explained({}, {}, {})
    further, last = further_of(methods), len(test.pipeline.classes) - 1
    others = [n for n, label in enumerate(test.labels) if label != last]
    total = len(methods) * len(test) + len(further) * len(others)
    with clock.part("explanations", total) as report:
        for name, method in methods.items():
            if name in FOR_ALL_CLASSES:
                own = _for_all_classes(test, methods, method, report)
                found.for_all[name] = own
                found.by_label[name] = [own[n][label] for n, label in enumerate(test.labels)]
            else:
                found.by_label[name] = test.explained(method, report=report)
            if name in further:
                rest = dict(zip(others, test.explained(method, rows=others, target=last, report=report), strict=True))
                found.for_last[name] = [rest.get(n, each) for n, each in enumerate(found.by_label[name])]
    return found


def _for_all_classes(test: TestSet, methods: Mapping[str, Method], method: Method, report: Report) -> list[list[Explanation]]:
    """The explanations of every sentence for all classes; those of long sentences by encoder too, if they can be separated."""
    long, encoders = test.at_least(POSITION_WORDS), has_encoders(test, methods)
    short = sorted(set(range(len(test))) - set(long))
    found = dict(zip(long, test.explained_for_all(method, rows=long, encoders=encoders, report=report), strict=True))
    found |= zip(short, test.explained_for_all(method, rows=short, encoders=False, report=report), strict=True)
    return [found[n] for n in range(len(test))]


def _findings(
    test: TestSet,
    methods: Mapping[str, Method],
    explained: Explained,
    deletion: Mapping[Side, Curves],
    position: Mapping[str, dict[str, list[Intervals]]],
    own: Printed,
    lexicon: Mapping[str, float],
) -> list[Finding]:
    """The paper's claims, always the same ones in the same order."""
    classes, (for_all, by_label, _) = test.pipeline.classes, explained
    return [
        *deletion_findings(deletion),
        *position_findings(position["lrp"], classes, "LRP"),
        *position_findings(position["sa"], classes, "SA"),
        *polarity_findings(for_all, classes, lexicon),
        negation_finding([each[0] for each in for_all["lrp"]], classes[0], lexicon),
        *conserving_findings(deletion, is_same=methods["lrp"] == methods["lrp_cons"]),
        *shape_findings(position["lrp"], classes, "LRP"),
        *shape_findings(position["sa"], classes, "SA"),
        *extreme_findings(for_all, classes, lexicon),
        *sensitivity_findings(by_label["sa"], by_label["lrp"], own),
        *colour_findings(by_label["lrp"], own),
        *misleading_findings(test, by_label["lrp"], own),
        *cost_findings(test, methods),
    ]
