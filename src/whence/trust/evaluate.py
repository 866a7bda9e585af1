"""The public function `evaluate`: a model, samples and labels in; how far each method can be trusted out."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

import whence
from whence.errors import InputError
from whence.methods.method import Method
from whence.models.bundled import load
from whence.models.pipeline import Pipeline
from whence.models.series import SeriesModel
from whence.threads import one_thread
from whence.trust.choose import candidates, with_recommendation
from whence.trust.contestants import RANDOM, Contestant, chosen_rows, contestants
from whence.trust.evaluation import Evaluation
from whence.trust.faithfulness import Faithfulness, Progress, Relevances, faithfulness, relevances
from whence.trust.ground_truth.suite import ground_truth, tasks
from whence.trust.results import Plain, Rows, faithful, figure, finite, sane
from whence.trust.sanity import SAMPLES, Sanity, sanity
from whence.trust.subject import Subject
from whence.trust.subjects import Entered, Kind, Of, tensors_of, texts_of
from whence.trust.tensors import Units
from whence.trust.verdicts import flags

Suite = Literal["faithfulness", "sanity", "ground-truth", "all"]
SUITES = ("faithfulness", "sanity", "ground-truth")


def _quiet(part: str, done: int, total: int) -> None:
    """Report nothing."""


def evaluate(
    model: Pipeline | SeriesModel | nn.Module | str | Path,
    samples: Sequence[Any] | Tensor = (),
    labels: Sequence[Any] | Tensor | None = None,
    *,
    methods: Mapping[str, Method | str] | Sequence[Method | str] | str | None = None,
    targets: Sequence[str] | None = None,
    suite: Suite | Sequence[Suite] = "faithfulness",
    of: Of | None = None,
    units: Units = "steps",
    lengths: Sequence[int] | Tensor | None = None,
    baseline: object = None,
    call: Callable[[Any, Any], object] | None = None,
    kind: Kind | None = None,
    choose: bool = False,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure how well methods explain a model: what happens without the words, steps or features that they point to?

    `model` and `samples`: a pipeline and texts, or any module and a tensor of its inputs, samples first. Of a tensor, `units`
    ("steps" or "features") are taken away by setting them to `baseline`, zero by default; `lengths` and `call` are those of
    `whence.relevance`.

    `labels`: the true classes. In each sample the score of its label is explained, of the predicted class without labels; `of`
    names another: "predicted", or a class or output. `kind="numbers"`: outputs are numbers, not scores of classes.

    `methods`: names or methods, or a dictionary of them; all by default. Random relevance is always measured beside them.
    `targets`: "score" (the default), "rest" (the score against all others), or both. `suite`: "faithfulness", "sanity",
    "ground-truth", a list of these, or "all"; "ground-truth" alone needs no samples. `choose`: also recommend a method; without
    `methods`, other settings of LRP are tried too, and without `targets` both. `limit`: that many samples, drawn at random.

        evaluation = whence.evaluate("sst-bilstm", texts, labels, methods=["lrp", "gi"])
        print(evaluation)
        evaluation.save("evaluation")
    """
    report, parts = progress or _quiet, _parts(suite)
    methods = candidates() if choose and methods is None else methods
    entered = contestants(methods, targets if targets is not None else ["score"])
    if choose and "faithfulness" not in parts:
        raise InputError('a method is recommended by how faithful it is; give suite="faithfulness" or "all"')
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed!r}; give a whole number from 0 to {2**32 - 1}")
    if parts == ["ground-truth"]:
        with one_thread():
            return Evaluation({**_head(str(getattr(model, "name", model))), **_truth(entered, report)}, tuple(entered))
    found = _limited(
        _entered(model, samples, labels, of=of, units=units, lengths=lengths, baseline=baseline, call=call, kind=kind),
        limit,
        seed,
    )
    if choose and targets is None and found.subject.has_classes:
        entered = contestants(methods, ["score", "rest"])
    if not found.subject.has_classes and any(each.against == "rest" for each in entered):
        raise InputError('the model gives numbers, not scores of classes, so there is no "rest"; leave it out of targets')
    with one_thread(), torch.inference_mode(False), torch.enable_grad():
        measured = evaluated(found, entered, parts=parts, seed=seed, progress=report)
    return with_recommendation(measured) if choose else measured


def _parts(suite: object) -> list[str]:
    """The suites that are wanted, in their order."""
    given = [suite] if isinstance(suite, str) or not isinstance(suite, Sequence) else list(cast(Sequence[object], suite))
    wanted = list(SUITES) if "all" in given else given
    unknown = [each for each in wanted if each not in SUITES]
    if unknown or not wanted:
        raise InputError(f"suite is {suite!r}; there are {', '.join(SUITES)} and all")
    return [each for each in SUITES if each in wanted]


def _entered(model: object, samples: Any, labels: Any, *, of: Of | None, units: Units, **more: Any) -> Entered:
    if isinstance(model, (str, Path)):
        model = load(model)
    if isinstance(model, Pipeline):
        return texts_of(model, samples, labels, of=of)
    if isinstance(model, (nn.Module, SeriesModel)):
        return tensors_of(model, samples, labels, of=of, units=units, **more)
    raise InputError(f"model is a {type(model).__name__}; give a whence.Pipeline, a torch.nn.Module, or the name of a model")


def _limited(found: Entered, limit: int | None, seed: int) -> Entered:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1):
        raise InputError(f"limit is {limit!r}; give a number of samples, at least 1")
    if limit is None or limit >= len(found.subject):
        return found
    rows = chosen_rows(found.subject, int(limit), seed=seed)
    return found._replace(subject=found.subject.some(rows), rows=[found.rows[n] for n in rows])


def evaluated(
    found: Entered, entered: Sequence[Contestant], *, parts: Sequence[str], seed: int, progress: Progress
) -> Evaluation:
    """Everything that the suites measure."""
    subject = found.subject
    given = relevances(subject, entered, progress=progress)
    faith = faithfulness(subject, given.found, seed=seed, progress=progress) if "faithfulness" in parts else None
    sane_found = _sanity(subject, entered, given, seed, progress) if "sanity" in parts else None
    right = _is_right(subject)
    results: Plain = {
        **_head(subject.name),
        "texts": len(subject),
        "explained": found.explained,
        "left_out": found.left_out,
        "accuracy": _accuracy(subject),
        "seed": seed,
        "methods": {each.name: _method(each, right, given, faith, sane_found) for each in entered},
        "sanity": {} if sane_found is None else sane(sane_found),
        **(_truth(entered, progress) if "ground-truth" in parts else {}),
    }
    if faith is not None:
        control = {"method": "random order", "target": "score"}
        results["methods"][RANDOM] = {**control, **faithful(RANDOM, faith, right)}
    return Evaluation(finite(results), tuple(entered), subject, found.rows, given.found, faith)


def _head(model: str) -> Plain:
    """What all results have."""
    nothing: Plain = {
        "texts": 0,
        "explained": "",
        "left_out": {},
        "accuracy": None,
        "seed": 0,
        "methods": {},
        "sanity": {},
        "ground_truth": {},
    }
    return {"whence": whence.__version__, "model": model, **nothing}


def _truth(entered: Sequence[Contestant], progress: Progress) -> Plain:
    """The tasks whose right answer is known; they have no classes, so that there is no rest."""
    methods = {each.name.removesuffix(":rest"): each.method for each in entered}
    by_task = ground_truth(methods, progress=lambda part, done, total: progress("ground truth", done, total))
    titles = {task.name: task.title for task in tasks()}
    made = {
        name: {"title": titles[name], "methods": {method: each._asdict() for method, each in found.items()}}
        for name, found in by_task.items()
    }
    return {"ground_truth": finite(made)}


def _sanity(subject: Subject, entered: Sequence[Contestant], given: Relevances, seed: int, progress: Progress) -> Sanity | None:
    rows = chosen_rows(subject, SAMPLES, seed=seed, shortest=3)
    if not rows:
        return None
    return sanity(subject, entered, rows=rows, relevance=dict(given.found), seed=seed, progress=progress)


def _is_right(subject: Subject) -> Rows | None:
    """Whether the model predicts the class that is explained: with labels, whether it is right."""
    return subject.whole().predicted == subject.of if subject.has_classes else None


def _accuracy(subject: Subject) -> float | None:
    return None if subject.labels is None else float((subject.whole().predicted == subject.labels).mean())


def _method(each: Contestant, right: Rows | None, given: Relevances, faith: Faithfulness | None, sane: Sanity | None) -> Plain:
    """What was found about one method."""
    made: Plain = {"method": repr(each.method), "target": each.against}
    if each.name in given.errors:
        return made | {"error": given.errors[each.name]}
    if faith is not None:
        made |= faithful(each.name, faith, right)
    made["seconds_per_text"] = figure(given.seconds[each.name])
    made["flags"] = [flag._asdict() for flag in flags(each.name, given.found[each.name], faith, sane)]
    return made
