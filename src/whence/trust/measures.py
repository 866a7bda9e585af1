"""How well relevance predicts what the model does without the units it points to: one number per sample and measure.

With f the probability of the class that is explained (or the number that the model gives), x∖k a sample without its k most
relevant units, and x_k these units alone:

    AOPC               mean over levels k of f(x) − f(x∖k), from no unit to all of them        higher is better
    separation         mean over k = 1 to 5 of f(x without its k least relevant) − f(x∖k)      higher is better
    comprehensiveness  mean over 1, 5, 10, 20 and 50 % of the units of f(x) − f(x∖k)           higher is better
    sufficiency        the same of f(x) − f(x_k)                                               lower is better
    log_odds           the same of log odds f(x) − log odds f(x∖k)                             higher is better
    sparsity           the Gini coefficient of |R|: 0 if all units have the same, near 1 if one has all

Deletion curves are the paper's: whether the model is right after k deletions, of the most relevant units where it was right,
and of the least relevant ones where it was wrong. Insertion is the reverse: only the k most relevant units are there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from whence.trust.subject import Numbers, Reading

MEASURES = ("separation", "aopc", "comprehensiveness", "sufficiency", "log_odds", "sparsity")


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of one method for every sample."""

    aopc: Numbers  # (N,)
    separation: Numbers  # (N,)
    removed: Numbers  # (N, fractions): f(x) − f(x∖k)
    kept: Numbers  # (N, fractions): f(x) − f(x_k)
    odds: Numbers  # (N, fractions)
    sparsity: Numbers  # (N,)
    deleted: Numbers  # (N, deletions + 1): is the model right? For numbers: f
    reversed: Numbers
    inserted: Numbers

    @property
    def comprehensiveness(self) -> Numbers:
        """The mean over all fractions."""
        return self.removed.mean(1)

    @property
    def sufficiency(self) -> Numbers:
        """The mean over all fractions."""
        return self.kept.mean(1)

    @property
    def log_odds(self) -> Numbers:
        """The mean over all fractions."""
        return self.odds.mean(1)


NAMES = tuple(each.name for each in fields(Measured))
Row = dict[str, Numbers]  # one sample's part of each field of Measured


def measured(rows: Sequence[Row]) -> Measured:
    """The measures of many samples."""
    return Measured(**{name: np.stack([row[name] for row in rows]) for name in NAMES})


def row_of(said: Mapping[str, Reading], relevance: Numbers, label: int | None) -> Row:
    """The measures of one sample, from what the model said about its variants."""
    whole = Reading(*(each[0] for each in said["deleted"]))

    def hits(kind: str) -> Numbers:
        return said[kind].value if label is None else (said[kind].predicted == label).astype(float)

    return {
        "aopc": (whole.value - said["aopc"].value).mean(),
        "separation": (said["reversed"].value - said["deleted"].value)[1:].mean(),
        "removed": whole.value - said["removed"].value,
        "kept": whole.value - said["kept"].value,
        "odds": whole.odds - said["removed"].odds,
        "sparsity": np.asarray(gini(relevance)),
        "deleted": hits("deleted"),
        "reversed": hits("reversed"),
        "inserted": hits("inserted"),
    }


def mean_row(rows: Sequence[Row]) -> Row:
    """The mean over several runs of one sample, such as random orders."""
    return {name: np.mean([row[name] for row in rows], axis=0) for name in NAMES}


def gini(relevance: Numbers) -> float:
    """The Gini coefficient of |R|: Σ_i (2i − n − 1) |R|_i / (n Σ |R|), with |R| in increasing order; 0 if there is none."""
    amounts, n = np.sort(np.abs(relevance)), len(relevance)
    total = amounts.sum()
    return float(((2 * np.arange(1, n + 1) - n - 1) * amounts).sum() / (n * total)) if total > 0 else 0.0


def similarity(one: Numbers, other: Numbers) -> float:
    """Spearman's correlation of two samples' relevance: that of the ranks, ties at their mean rank.

    1 if both are constant, 0 if one of them is: there is no order to compare.
    """
    ranks = [_mean_ranks(each) for each in (one, other)]
    spreads = [each.std() for each in ranks]
    if min(spreads) == 0:
        return float(max(spreads) == 0)
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / (spreads[0] * spreads[1]))


def _mean_ranks(values: Numbers) -> Numbers:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse.reshape(-1)]
