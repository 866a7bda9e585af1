"""The content of results.json: all measurements as plain data."""

import math
from collections.abc import Mapping
from typing import NotRequired, TypedDict, cast

import torch

import whence
from whence.evaluation.bootstrap import Band
from whence.experiments import published
from whence.experiments.fig1_fig2_heatmaps import RULE
from whence.experiments.fig4_position import distributions
from whence.experiments.methods import further_of
from whence.experiments.reproduction import Reproduction
from whence.experiments.table1_words import Ranked, overlap
from whence.models.pipeline import fingerprint


class Heatmap(TypedDict):
    """A sentence of Fig. 1 and Fig. 2: its line in the test file, and the relevance of its words by both methods and others."""

    number: int
    label: str
    predicted: str
    words: list[str]
    sa: list[float]
    lrp: list[float]
    line: int
    in_paper: bool
    others: NotRequired[dict[str, list[float]]]


class Heatmaps(TypedDict):
    """The sentences of Fig. 1 and Fig. 2, how they were chosen, and why sentences of the paper are missing, by number."""

    rule: str
    sentences: list[Heatmap]
    missing: dict[str, str]


class Deletion(TypedDict):
    """Fig. 3. `correct` and `wrong`: by method, the accuracy after 0 to 5 deletions; the other keys are by panel."""

    correct: dict[str, list[float]]
    wrong: dict[str, list[float]]
    sentences: dict[str, int]
    bands: dict[str, dict[str, list[list[float]]]]
    random_deviation: dict[str, list[float]]


class Results(TypedDict):
    """The content of results.json; docs/paper.md says what each key holds."""

    whence: str
    torch: str
    model: dict[str, str]
    data: dict[str, object]
    classes: list[str]
    methods: dict[str, str]
    counts: dict[str, int]
    accuracy: dict[str, float | None]
    accuracy_bands: dict[str, list[float | None]]
    confusion: list[list[int]]
    heatmaps: Heatmaps
    table1: dict[str, object]
    fig3: Deletion
    fig4: dict[str, dict[str, dict[str, list[float]]]]
    findings: list[dict[str, object]]
    published: dict[str, object]
    seconds: dict[str, float]
    other_models: NotRequired[list["Results"]]


def results(found: Reproduction, seconds: Mapping[str, float]) -> Results:
    """All numbers. Two runs on one machine differ only in `seconds`. A number that is not finite becomes None."""
    pipeline = found.test.pipeline
    made = {
        "whence": whence.__version__,
        "torch": torch.__version__,
        "model": {"name": pipeline.name, "fingerprint": fingerprint(pipeline)},
        "data": found.data._asdict(),
        "classes": list(pipeline.classes),
        "methods": {name: repr(method) for name, method in found.methods.items()},
        "counts": found.counts,
        "accuracy": {"five": found.accuracy.five, "binary": found.accuracy.binary},
        "accuracy_bands": {"five": _pair(found.accuracy.five_band), "binary": _pair(found.accuracy.binary_band)},
        "confusion": found.test.confusion.tolist(),
        "heatmaps": _heatmaps(found),
        "table1": _table1(found),
        "fig3": _fig3(found),
        "fig4": {
            method: {
                part: {name: own.tolist() for name, own in zip(pipeline.classes, by_class, strict=True)}
                for part, by_class in distributions(intervals).items()
            }
            for method, intervals in found.position.items()
        },
        "findings": [finding.to_dict() for finding in found.findings],
        "published": {
            "counts": [published.SENTENCES, published.DELETION_SENTENCES, published.POSITION_SENTENCES],
            "accuracy": {"five": published.FIVE_CLASSES, "binary": published.TWO_CLASSES},
            "random_deviation": published.RANDOM_DEVIATION,
            "table1": {method: words._asdict() for method, words in published.TABLE1.items()},
            "sentences": {"lines": published.LINES, "as_remembered": published.REMEMBERED},
        },
        "seconds": {part: round(spent, 2) for part, spent in seconds.items()},
    }
    return cast(Results, _finite(made))


def _pair(band: Band) -> list[float]:
    return [float(end) for end in band]


def _heatmaps(found: Reproduction) -> Heatmaps:
    shown = [
        _heatmap(found, number, n, in_paper=panel.is_correct is None)
        for panel in found.panels
        for number, n in zip(panel.numbers, panel.rows, strict=True)
    ]
    return {"rule": RULE, "sentences": shown, "missing": {str(number): why for number, why in found.printed.missing.items()}}


def _heatmap(found: Reproduction, number: int, row: int, *, in_paper: bool) -> Heatmap:
    classes, own = found.test.pipeline.classes, {name: each[row] for name, each in found.by_label.items()}
    made: Heatmap = {
        "number": number,
        "label": classes[found.test.labels[row]],
        "predicted": classes[found.test.predicted[row]],
        "words": list(own["lrp"].tokens),
        "sa": list(own["sa"].relevance),
        "lrp": list(own["lrp"].relevance),
        "line": row + 1,
        "in_paper": in_paper,
    }
    if further := further_of(found.methods):
        made["others"] = {name: list(own[name].relevance) for name in further}
    return made


def _table1(found: Reproduction) -> dict[str, object]:
    classes = found.test.pipeline.classes
    by_class = [{method: _words(ranked) for method, ranked in own.items()} for own in found.words]
    target = len(classes) - 1  # very positive, whatever its name in the model
    return {
        "target": classes[target],
        **by_class[target],
        "overlap": {
            method: overlap(ranked, method) for method, ranked in found.words[target].items() if method in published.TABLE1
        },
        "other_classes": dict(zip(classes[:target], by_class, strict=False)),
    }


def _words(ranked: Ranked) -> dict[str, object]:
    return {
        "most": [each.word for each in ranked.most],
        "least": [each.word for each in ranked.least],
        "most_relevance": [each.relevance for each in ranked.most],
        "least_relevance": [each.relevance for each in ranked.least],
    }


def _fig3(found: Reproduction) -> Deletion:
    made: Deletion = {"correct": {}, "wrong": {}, "sentences": {}, "bands": {}, "random_deviation": {}}
    for side, curves in found.deletion.items():
        made[side] = {method: curves.accuracy(method).tolist() for method in curves.hits}
        made["sentences"][side] = curves.sentences
        made["bands"][side] = {method: [end.tolist() for end in curves.band(method)] for method in curves.hits}
        made["random_deviation"][side] = curves.runs.std(0).tolist()
    return made


def _finite(thing: object) -> object:
    """The same data with None in place of every number that is not finite."""
    if isinstance(thing, dict):
        return {key: _finite(each) for key, each in cast(dict[str, object], thing).items()}
    if isinstance(thing, (list, tuple)):
        return [_finite(each) for each in cast(list[object], thing)]
    return None if isinstance(thing, float) and not math.isfinite(thing) else thing
