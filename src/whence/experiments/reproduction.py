"""Measures everything that the paper reports, on a test set. `results` and `report` write it down."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from whence.evaluation.accuracy import Accuracy, accuracy
from whence.experiments.fig1_fig2_heatmaps import Panel, panels
from whence.experiments.fig3_deletion import Curves, Side, fig3
from whence.experiments.fig4_position import Intervals, fig4
from whence.experiments.findings import Finding, deletion_findings, negation_finding, polarity_findings, position_findings
from whence.experiments.published import DELETION_WORDS, POSITION_WORDS, RANDOM_RUNS
from whence.experiments.table1_words import Ranked, table1
from whence.experiments.test_set import METHODS, TestSet, has_encoders
from whence.explanation import Explanation

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
    accuracy: Accuracy
    panels: list[Panel]
    by_label: dict[str, list[Explanation]]  # by method, every sentence explained for its label
    words: list[dict[str, Ranked]]  # for every class, by method
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
    """The time that each part took, and the progress of the current one."""

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self.progress = progress

    @contextmanager
    def part(self, name: str, total: int = 1) -> Generator[Callable[[int], None]]:
        """Time the block, which may report how much more it has done."""
        start, done = time.perf_counter(), 0

        def report(more: int) -> None:
            nonlocal done
            done += more
            self.progress(name, done, total)

        report(0)
        yield report
        report(total - done)
        self.seconds[name] = time.perf_counter() - start


def reproduction(test: TestSet, data: Data, lexicon: Mapping[str, float], clock: Clock) -> Reproduction:
    """Run every experiment of the paper on a test set."""
    classes, count = test.pipeline.classes, len(test)
    with clock.part("accuracy", count) as report:
        test.scored(report)
        right = accuracy(test.scores, test.labels)
    long, short = test.at_least(POSITION_WORDS), [n for n, text in enumerate(test.texts) if len(text) < POSITION_WORDS]
    encoders = has_encoders(test)
    for_all: dict[str, list[list[Explanation]]] = {}
    by_label: dict[str, list[Explanation]] = {}
    with clock.part("explanations", len(METHODS) * count) as report:
        for name, method in METHODS.items():
            if name in FOR_ALL_CLASSES:
                found = dict(
                    zip(long, test.explained_for_all(method, rows=long, encoders=encoders, report=report), strict=True)
                )
                found |= zip(short, test.explained_for_all(method, rows=short, encoders=False, report=report), strict=True)
                for_all[name] = [found[n] for n in range(count)]
                by_label[name] = [found[n][label] for n, label in enumerate(test.labels)]
            else:
                by_label[name] = test.explained(method, report=report)
    with clock.part("table 1"):
        words = [{name: table1([each[c] for each in own]) for name, own in for_all.items()} for c in range(len(classes))]
    with clock.part("fig. 3", len(test.at_least(DELETION_WORDS)) * (len(METHODS) + RANDOM_RUNS)) as report:
        deletion = fig3(test, by_label, report=report)
    with clock.part("fig. 4"):
        position = {name: fig4([own[n] for n in long]) for name, own in for_all.items()}
    with clock.part("findings"):
        findings = [
            *deletion_findings(deletion),
            *position_findings(position["lrp"], classes, "LRP"),
            *position_findings(position["sa"], classes, "SA"),
            *polarity_findings(for_all, classes, lexicon),
            negation_finding([own[0] for own in for_all["lrp"]], classes[0], lexicon),
        ]
    return Reproduction(test, data, right, panels(test), by_label, words, deletion, position, findings)
