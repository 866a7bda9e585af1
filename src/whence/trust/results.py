"""The content of results.json: all measurements as plain data."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.bootstrap import mean_band
from whence.trust.contestants import RANDOM
from whence.trust.faithfulness import Faithfulness
from whence.trust.measures import MEASURES, Measured
from whence.trust.removal import FRACTIONS
from whence.trust.sanity import Sanity
from whence.trust.subject import Numbers

Plain = dict[str, Any]  # texts, numbers, None, and lists and dictionaries of these
Rows = NDArray[np.bool_]


def figure(values: Numbers) -> Plain:
    """The mean over samples and its 95 % interval; None for what cannot be computed."""
    known = values[np.isfinite(values)]
    if not len(known):
        return {"value": None, "interval": None}
    low, high = mean_band(known)
    return {"value": float(known.mean()), "interval": [float(low), float(high)]}


def faithful(name: str, found: Faithfulness, is_right: Rows | None) -> Plain:
    """The measures of one method."""
    own, chance = found.measured[name], found.measured[RANDOM]
    made: Plain = {
        "deletion": _curves(own, found.is_long, is_right, ("deleted", "reversed")),
        "insertion": _curves(own, found.is_long, is_right, ("inserted", "inserted")),
    }
    for measure in MEASURES:
        values: Numbers = getattr(own, measure)
        made[measure] = figure(values)
        if name != RANDOM:
            made[measure]["against_random"] = figure(values - getattr(chance, measure))
        if is_right is not None:
            made[measure]["correct"], made[measure]["wrong"] = figure(values[is_right]), figure(values[~is_right])
    for measure, field in (("comprehensiveness", own.removed), ("sufficiency", own.kept), ("log_odds", own.odds)):
        made[measure]["at"] = {f"{part:g}": figure(field[:, k]) for k, part in enumerate(FRACTIONS)}
    made["normalised_aopc"] = figure(found.normalised(name))
    if name in found.beyond_borrowed:
        made["aopc"]["against_borrowed"] = figure(found.beyond_borrowed[name])
    return made


def _curves(own: Measured, long: Rows, is_right: Rows | None, kinds: tuple[str, str]) -> Plain:
    """Accuracy after 0, 1, … deletions where the model was first right and where it was first wrong; for numbers their mean."""
    if is_right is None:
        return _panel("all", cast(Numbers, getattr(own, kinds[0]))[long])
    right = _panel("correct", cast(Numbers, getattr(own, kinds[0]))[long & is_right])
    wrong = _panel("wrong", cast(Numbers, getattr(own, kinds[1]))[long & ~is_right])
    return {key: {**right[key], **wrong[key]} if isinstance(right[key], dict) else right[key] for key in right} | {
        "correct": right["correct"],
        "wrong": wrong["wrong"],
    }


def _panel(side: str, hits: Numbers) -> Plain:
    """A curve, its band, and its area: the mean over 1, 2, … deletions."""
    if not len(hits):
        return {side: [], "intervals": {side: []}, "area": {side: figure(np.empty(0))}, "texts": {side: 0}}
    low, high = mean_band(hits)
    return {
        side: hits.mean(0).tolist(),
        "intervals": {side: [[float(a), float(b)] for a, b in zip(low, high, strict=True)]},
        "area": {side: figure(hits[:, 1:].mean(1))},
        "texts": {side: len(hits)},
    }


def sane(found: Sanity) -> Plain:
    """The similarity of relevance after every change of the model, by method."""
    return {
        "layers": list(found.layers),
        "permuted_accuracy": found.permuted_accuracy,
        "methods": {
            name: {
                "weights": [figure(each) for each in by_layer],
                **{
                    what: figure(getattr(found, what)[name])
                    for what in ("labels", "shift", "noise")
                    if name in getattr(found, what)
                },
            }
            for name, by_layer in found.weights.items()
        },
    }


def finite(thing: object) -> Any:
    """The same with None in place of numbers that are not finite, which JSON does not have."""
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else None
    if isinstance(thing, Mapping):
        return {str(key): finite(each) for key, each in cast(Mapping[object, object], thing).items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [finite(each) for each in cast(Sequence[object], thing)]
    return thing
