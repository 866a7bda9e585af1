"""Fig. 3: accuracy as words are deleted.

The most relevant words are deleted first where the model was right, the least relevant first where it was wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.bootstrap import Band, mean_band
from whence.evaluation.deletion import Order, deletion_order, predictions_without, random_orders
from whence.experiments.published import DELETION_WORDS, DELETIONS, RANDOM_RUNS
from whence.experiments.test_set import Report, TestSet, forward_size
from whence.explanation import Explanation

Side = Literal["correct", "wrong"]
ORDERS: dict[Side, Order] = {"correct": "decreasing", "wrong": "increasing"}


class Curves(NamedTuple):
    """One panel: for each method, whether the model is right after each number of deletions (sentences, deletions + 1).

    The entry "random" is the mean of several runs; their accuracies are in `runs` (runs, deletions + 1).
    """

    hits: dict[str, NDArray[np.float64]]
    runs: NDArray[np.float64]

    @property
    def sentences(self) -> int:
        """The number of sentences in the panel."""
        return len(self.hits["random"])

    def accuracy(self, method: str) -> NDArray[np.float64]:
        """The accuracy after each number of deletions."""
        return self.hits[method].mean(0)

    def band(self, method: str) -> Band:
        """The 95 % band of the accuracy."""
        return mean_band(self.hits[method])


def fig3(
    test: TestSet, explanations: Mapping[str, Sequence[Explanation]], *, report: Report = lambda n: None
) -> dict[Side, Curves]:
    """Both panels, from each method's explanations of all sentences for their labels; an empty panel is left out."""
    long = test.at_least(DELETION_WORDS)
    found: dict[Side, Curves] = {}
    for side, order in ORDERS.items():
        rows = [n for n in long if test.is_correct[n] == (side == "correct")]
        if rows:
            found[side] = _curves(test, rows, order, explanations, report)
    return found


def _curves(
    test: TestSet, rows: list[int], order: Order, explanations: Mapping[str, Sequence[Explanation]], report: Report
) -> Curves:
    hits: dict[str, NDArray[np.float64]] = {}
    for method, found in explanations.items():
        hits[method] = _hits(test, rows, [deletion_order(found[n], order) for n in rows], report)
    lengths = [len(test.words[n]) for n in rows]
    runs = [_hits(test, rows, random_orders(lengths, seed=seed), report) for seed in range(RANDOM_RUNS)]
    hits["random"] = np.mean(runs, axis=0)
    return Curves(hits, np.stack([run.mean(0) for run in runs]))


def _hits(test: TestSet, rows: list[int], orders: Sequence[Sequence[int]], report: Report) -> NDArray[np.float64]:
    """Whether the model is right about each sentence after each number of deletions (sentences, deletions + 1)."""
    found = np.empty((len(rows), DELETIONS + 1))
    for part in test.parts(rows, size=forward_size):
        own = [rows[k] for k in part]
        predicted = predictions_without(
            test.pipeline,
            [test.texts[n] for n in own],
            [orders[k] for k in part],
            words=[test.words[n] for n in own],
            steps=DELETIONS,
        )
        found[part] = predicted == np.asarray([test.labels[n] for n in own])[:, None]
        report(len(part))
    return found
