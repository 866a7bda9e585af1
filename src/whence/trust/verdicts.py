"""What the measurements say against a method: each check that it fails, in a sentence."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from whence.evaluation.bootstrap import mean_band
from whence.trust.contestants import RANDOM
from whence.trust.faithfulness import Faithfulness
from whence.trust.sanity import Sanity
from whence.trust.subject import Numbers

SAME = 0.5  # a similarity above it, after a change that takes away all sense, means that relevance hardly depends on the model
FEW = 8  # samples, below which an interval means nothing
LITTLE = 0.1  # of what separates random relevance from the best order


class Flag(NamedTuple):
    """A check that a method fails."""

    check: str
    sentence: str


def flags(name: str, relevance: Sequence[Numbers], found: Faithfulness | None, sane: Sanity | None) -> list[Flag]:
    """Everything that speaks against a method."""
    made = _constant(relevance)
    if len(relevance) < FEW:
        return [*made, Flag("few", f"{len(relevance)} samples are too few for a verdict; give at least {FEW}")]
    if found is not None:
        made += [*_random(name, found), *_borrowed(name, found)]
    if sane is not None:
        made += _insensitive(name, sane)
    return made


def _constant(relevance: Sequence[Numbers]) -> list[Flag]:
    several = [each for each in relevance if len(each) > 1]
    flat = sum(float(np.ptp(each)) == 0 for each in several)
    if not several or 2 * flat <= len(several):
        return []
    return [Flag("constant", f"all units have the same relevance in {flat} of {len(several)} samples")]


def _random(name: str, found: Faithfulness) -> list[Flag]:
    """Whether a method finds units that matter sooner than chance does."""
    gain = _known(found.measured[name].aopc - found.measured[RANDOM].aopc)
    if not len(gain):
        return [Flag("random", "the model's output is not finite without some units, so that nothing can be said")]
    low, high = mean_band(gain)
    shown = f"AOPC differs by {gain.mean():+.3f} (95 %: {float(low):+.3f} to {float(high):+.3f})"
    if high < 0:
        return [Flag("random", f"worse than random relevance: {shown}; is its sign right?")]
    if low <= 0:
        return [Flag("random", f"not shown to be better than random relevance on {len(gain)} samples: {shown}")]
    part = _known(_part_of_possible(name, found))
    if len(part) and float(mean_band(part).high) < LITTLE:
        return [Flag("random", f"hardly better than random relevance: {part.mean():.0%} of what the best order gains")]
    return []


def _part_of_possible(name: str, found: Faithfulness) -> Numbers:
    """For every sample, what a method gains over random relevance, relative to the mean gain of the best order."""
    rows = list(found.searched)
    chance = found.measured[RANDOM].aopc[rows]
    possible = float(np.nanmean(found.highest - chance)) if len(_known(found.highest - chance)) else 0.0
    return (found.measured[name].aopc[rows] - chance) / possible if possible > 0 else np.empty(0)


def _known(values: Numbers) -> Numbers:
    """The values of samples for which the model's output was finite throughout."""
    return values[np.isfinite(values)]


def _borrowed(name: str, found: Faithfulness) -> list[Flag]:
    """Whether relevance belongs to its own sample."""
    if name not in found.beyond_borrowed:
        return []
    gain = _known(found.beyond_borrowed[name])
    if not len(gain):
        return []
    low, high = mean_band(gain)
    if low > 0:
        return []
    return [
        Flag(
            "borrowed",
            f"not shown to be better than its own relevance for another sample: AOPC differs by {gain.mean():+.3f} (95 %: "
            f"{float(low):+.3f} to {float(high):+.3f})",
        )
    ]


def _insensitive(name: str, sane: Sanity) -> list[Flag]:
    """Whether relevance stays the same when the model has lost all sense."""
    checks: Mapping[str, tuple[Numbers, str]] = {
        "weights": (sane.weights[name][-1] if sane.weights.get(name) else np.empty(0), "all layers have random weights"),
        "labels": (sane.labels.get(name, np.empty(0)), "the model was trained on permuted labels"),
    }
    made: list[Flag] = []
    for check, (similarities, when) in checks.items():
        known = _known(similarities)
        if len(known) and float(mean_band(known).low) > SAME:
            made.append(Flag(check, f"relevance stays much the same when {when}: similarity {known.mean():.2f}"))
    return made
