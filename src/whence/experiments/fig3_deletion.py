"""Fig. 3: accuracy while words are deleted: the most relevant first where the model was right, the least where it was wrong."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.bootstrap import Band, mean_band
from whence.evaluation.deletion import Order, deletion_curve, predictions_without, random_orders
from whence.experiments.published import DELETION_WORDS, DELETIONS, RANDOM_RUNS
from whence.experiments.test_set import Report, TestSet
from whence.explanation import Explanation

Side = Literal["correct", "wrong"]
ORDERS: dict[Side, Order] = {"correct": "decreasing", "wrong": "increasing"}


class Curves(NamedTuple):
    """One panel: for each method whether the model is right after each number of deletions (sentences, deletions + 1).

    That of "random" is the mean of its runs, whose accuracies are in `runs` (runs, deletions + 1).
    """

    hits: dict[str, NDArray[np.float64]]
    runs: NDArray[np.float64]

    @property
    def sentences(self) -> int:
        """How many sentences the panel is made of."""
        return len(self.hits["random"])

    def accuracy(self, method: str) -> NDArray[np.float64]:
        """The curve."""
        return self.hits[method].mean(0)

    def band(self, method: str) -> Band:
        """Where the curve could lie with other sentences."""
        return mean_band(self.hits[method])


def fig3(
    test: TestSet, explanations: Mapping[str, Sequence[Explanation]], *, report: Report = lambda n: None
) -> dict[Side, Curves]:
    """Both panels, from each method's explanations of all sentences for their labels; without a panel that is empty."""
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
    texts, labels, words = [test.texts[n] for n in rows], [test.labels[n] for n in rows], [test.words[n] for n in rows]
    hits: dict[str, NDArray[np.float64]] = {}
    for method, found in explanations.items():
        own = [found[n] for n in rows]
        curve = deletion_curve(test.pipeline, texts, labels, own, order=order, words=words, steps=DELETIONS)
        hits[method] = curve.astype(float)
        report(len(rows))
    runs: list[NDArray[np.float64]] = []
    for seed in range(RANDOM_RUNS):
        orders = random_orders([len(each) for each in words], seed=seed)
        predicted = predictions_without(test.pipeline, texts, orders, words=words, steps=DELETIONS)
        runs.append((predicted == np.asarray(labels)[:, None]).astype(float))
        report(len(rows))
    hits["random"] = np.mean(runs, axis=0)
    return Curves(hits, np.stack([run.mean(0) for run in runs]))
