"""The public function `explain`: pipeline and texts in, explanations out. Only here do texts and methods meet."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence._batches import Cut, Text, batches, cut, require_scores_of, scores_of
from whence._relevance import ask
from whence.errors import InputError, TargetError
from whence.explanation import Explanation, Explanations
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.methods.registry import method_of
from whence.methods.target import Contrast, Target
from whence.models.bundled import load_any
from whence.models.pipeline import Pipeline, class_of
from whence.result import Result

BATCH = 256
One = str | int | Contrast  # the target of one text
Targets = One | np.integer[Any] | Sequence[One] | Tensor | NDArray[Any]
Deleted = Sequence[int] | Sequence[Sequence[int]]  # token numbers of a text, or of every text
Numbers = list[Any]  # lists of numbers in lists, as `Tensor.tolist` gives them


@overload
def explain(  # pyright: ignore[reportOverlappingOverload] - here a string is not a list of texts
    pipeline: Pipeline | str | Path,
    texts: str,
    *,
    target: Targets = ...,
    method: Method | str | None = ...,
    encoders: bool = ...,
    deleted: Deleted | None = ...,
) -> Explanation: ...
@overload
def explain(
    pipeline: Pipeline | str | Path,
    texts: Sequence[Text],
    *,
    target: Targets = ...,
    method: Method | str | None = ...,
    encoders: bool = ...,
    deleted: Deleted | None = ...,
) -> Explanations: ...
def explain(
    pipeline: Pipeline | str | Path,
    texts: str | Sequence[Text],
    *,
    target: Targets = "predicted",
    method: Method | str | None = None,
    encoders: bool = False,
    deleted: Deleted | None = None,
) -> Explanation | Explanations:
    """Explain a text, or a list of them in batches; a tuple in the list is a text that is already split into words.

    `pipeline`: a `Pipeline`, or the name or folder of one; for many calls it is faster to load it once.

    `target`: a class by name or number, `"predicted"`, `whence.contrast("positive", "rest")`, or a list with one of these for
    every text; or `"all"`, which gives one explanation per class for every text, in order. `encoders=True` also keeps the
    relevance of each direction of a bidirectional layer.

    `deleted`: the numbers of a text's tokens that are deleted, or a list of such lists, one for every text. Their vectors are
    set to zero, as in the paper's experiment; the text keeps its length.

        pipeline = whence.load("sst-bilstm")
        print(whence.explain(pipeline, "neither funny nor suspenseful"))
    """
    method = method_of(method)
    if isinstance(pipeline, (str, Path)):
        pipeline = load_any(pipeline)
    if not isinstance(pipeline, Pipeline):
        raise InputError(f"the pipeline is a {type(pipeline).__name__}; give a whence.Pipeline, or a model by name or folder")
    if not isinstance(texts, (str, Sequence)):
        raise InputError(f"texts is a {type(texts).__name__}; give a string or a list of strings")
    single = isinstance(texts, str)
    given: list[Text] = [texts] if isinstance(texts, str) else list(texts)
    wanted = _targets(pipeline, target, len(given))
    cuts = [cut(pipeline, text, name="the text" if single else f"text {n + 1}") for n, text in enumerate(given)]
    gone = _deleted(deleted, cuts, single=single)
    found: list[list[Explanation]] = [[] for _ in given]
    for rows, forward in batches(pipeline, cuts, size=BATCH, deleted=gone):
        chosen = [wanted[n] for n in rows] if isinstance(wanted, list) else wanted
        own = [(cuts[n], gone[n]) for n in rows]
        batch = _explained(pipeline, own, forward, chosen, method, encoders=encoders)
        for n, explanations in zip(rows, batch, strict=True):
            found[n] = explanations
    flat = [explanation for explanations in found for explanation in explanations]
    return flat[0] if single and wanted != "all" else Explanations(flat)


def _deleted(deleted: Deleted | None, cuts: Sequence[Cut], *, single: bool) -> list[list[int]]:
    """The deleted tokens of every text, in order."""
    if deleted is None:
        return [[] for _ in cuts]
    if not isinstance(deleted, Sequence) or isinstance(deleted, str):
        raise InputError(f"deleted is a {type(deleted).__name__}; give the numbers of tokens, or a list of them for every text")
    is_flat = single and not any(isinstance(each, Sequence) for each in deleted)
    lists = cast(Sequence[Sequence[int]], [deleted] if is_flat else deleted)
    if len(lists) != len(cuts):
        raise InputError(
            f"deleted has {len(lists)} lists for {len(cuts)} texts; give one for each, empty where none is deleted"
        )
    for n, (tokens, each) in enumerate(zip(lists, cuts, strict=True)):
        if not isinstance(tokens, Sequence) or isinstance(tokens, str):
            raise InputError(f"deleted[{n}] is a {type(tokens).__name__}; give a list of token numbers for every text")
        for token in tokens:
            if not isinstance(token, Integral) or isinstance(token, bool) or not 0 <= token < len(each.forms):
                raise InputError(f"deleted[{n}] holds {token!r}; text {n + 1} has the tokens 0 to {len(each.forms) - 1}")
    return [sorted({int(token) for token in tokens}) for tokens in lists]


def _targets(pipeline: Pipeline, target: Targets, count: int) -> One | list[One]:
    """The target of all texts, or a list with that of each; classes are numbers."""
    given = cast(object, getattr(target, "tolist", lambda: target)())  # NumPy's and PyTorch's numbers
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        return target_of(pipeline, cast(One, given))
    classes = cast(Sequence[One], given)
    if len(classes) != count:
        raise TargetError(f"there are {len(classes)} targets for {count} texts; give one for each, or one for all")
    found = [target_of(pipeline, each) for each in classes]
    if "all" in found:
        raise TargetError('a list of targets names one for every text; "all" stands alone')
    return found


def target_of(pipeline: Pipeline, target: One) -> One:
    """The target as an index, or "predicted", or "all", or a contrast of these."""
    if isinstance(target, Contrast):
        one, other = (each if each == "rest" else target_of(pipeline, cast(One, each)) for each in (target.one, target.other))
        if "all" in (one, other):
            raise TargetError(f'{target!r}: give two classes, or a class and "rest"; "all" stands alone')
        return Contrast(cast(str | int, one), cast(str | int, other))
    if isinstance(target, Integral) and not isinstance(target, bool):
        target = int(target)
        if not 0 <= target < len(pipeline.classes):
            raise TargetError(f"target {target} does not exist: {pipeline.name} has {len(pipeline.classes)} classes, from 0 on")
        return target
    if target in ("predicted", "all"):
        return target
    if (found := class_of(pipeline.classes, target)) is not None:
        return found
    known = ", ".join(pipeline.classes)
    raise TargetError(f'there is no class {target!r}; {pipeline.name} knows {known}; "predicted" and "all" are possible too')


def _explained(
    pipeline: Pipeline,
    texts: Sequence[tuple[Cut, list[int]]],
    forward: Forward,
    target: One | list[One],
    method: Method,
    *,
    encoders: bool,
) -> list[list[Explanation]]:
    """For every text of a batch (with its deleted tokens) its explanation, or one for every class."""
    result, scores = answered(pipeline, forward, target, method)
    shares = _directions(method, forward, cast(Target, target), result) if encoders else []
    numbers = cast(list[list[int]], forward.inputs.tensors[0].tolist())
    batch = Batch(
        scores.tolist(),
        result.relevance.tolist(),
        result.score.tolist(),
        {name: amount.tolist() for name, amount in result.absorbed.items()},
        [share.relevance.tolist() for share in shares],
        method.settings(),
        tuple(map(str, result.choices)),
        None if result.errors is None else cast(Tensor, result.errors).tolist(),
    )
    each = target if isinstance(target, list) else [target] * len(texts)
    return [_assembled(pipeline, text, numbers[n], batch, n, each[n], method) for n, text in enumerate(texts)]


def answered(pipeline: Pipeline, forward: Forward, target: One | list[One], method: Method) -> tuple[Result, Tensor]:
    """The relevance of every token of a batch, and the scores (B, C) of its texts."""
    try:
        result = ask(forward, Question(cast(Target, target), by_step=True), method)
    except (InputError, TargetError):
        scores_of(pipeline, forward)  # a module whose output is not finite scores is reported first
        raise
    output = forward.predict().output if result.output is None else result.output  # a method of the user's need not keep it
    return result, require_scores_of(pipeline, output, len(forward.inputs.tensors[0]))


def _directions(method: Method, forward: Forward, target: Target, whole: Result) -> list[Result]:
    """The relevance of the forward and of the backward direction, two results that add up to the whole."""
    shares = [ask(forward, Question(target, direction=d), method).by_step() for d in (0, 1)]
    if not method.is_additive:
        return shares
    together = cast(Tensor, shares[0].relevance) + cast(Tensor, shares[1].relevance)
    if not torch.allclose(together, cast(Tensor, whole.relevance), rtol=1e-3, atol=1e-4):
        raise InputError("encoders=True needs a model whose first recurrent layer alone reads the words, in both directions")
    return shares


class Batch(NamedTuple):
    """What was found for all texts of a batch, as plain numbers; several classes are a leading axis."""

    outputs: list[list[float]]  # every class's score for every text
    relevance: Numbers
    scores: Numbers
    absorbed: dict[str, Numbers]
    encoders: list[Numbers]
    settings: dict[str, object]
    choices: tuple[str, ...]
    errors: Numbers | None


def _assembled(
    pipeline: Pipeline, cut_text: tuple[Cut, list[int]], ids: Sequence[int], batch: Batch, row: int, target: One, method: Method
) -> list[Explanation]:
    ((text, _, spans), deleted), classes, outputs = cut_text, pipeline.classes, batch.outputs[row]
    is_all, best = target == "all", outputs.index(max(outputs))
    one, other = (target.one, target.other) if isinstance(target, Contrast) else (target, None)
    chosen = list(range(len(classes))) if is_all else [best if one == "predicted" else cast(int, one)]
    versus = "" if other is None else "rest" if other == "rest" else classes[best if other == "predicted" else cast(int, other)]
    is_other = bool(versus) or not method.explains_score  # something else than the target's score is explained
    shown = tuple(text[start:end] for start, end in spans)
    unknown = tuple(number == 0 for number in ids[: len(spans)])

    def own(found: Numbers, k: int) -> Any:
        return found[k][row] if is_all else found[row]

    return [
        Explanation(
            text=text,
            tokens=shown,
            spans=spans,
            unknown=unknown,
            relevance=tuple(own(batch.relevance, k)[: len(spans)]),
            scores=dict(zip(classes, outputs, strict=True)) | ({} if is_other else {classes[index]: own(batch.scores, k)}),
            predicted=classes[best],
            target=classes[index],
            method={"name": method.name, **batch.settings},
            absorbed={name: own(amount, k) for name, amount in batch.absorbed.items()},
            model=pipeline.name,
            choices=batch.choices,
            is_signed=method.is_signed,
            encoders=tuple(tuple(own(share, k)[: len(spans)]) for share in batch.encoders),
            versus=versus,
            difference=own(batch.scores, k) if is_other else None,
            deleted=tuple(deleted),
            errors=() if batch.errors is None else tuple(own(batch.errors, k)[: len(spans)]),
        )
        for k, index in enumerate(chosen)
    ]
