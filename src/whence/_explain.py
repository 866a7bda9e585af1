"""The public function `explain`: pipeline and texts in, explanations out. Only here do texts and methods meet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence._batches import Cut, Text, batches, cut, require_scores_of, scores_of
from whence._relevance import Check, ask, check_of
from whence.data.columns import column_of, is_missing
from whence.errors import InputError, TargetError, WhenceError
from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.methods.registry import method_of
from whence.methods.target import Contrast, Target
from whence.models.bundled import load_any
from whence.models.labels import class_of_label, labels_read
from whence.models.pipeline import Pipeline, class_of
from whence.result import Result
from whence.text.words import word_groups

BATCH = 256
TRIES = 64  # texts that fail before one is explained: then the model itself may be at fault
K = TypeVar("K")
V = TypeVar("V")
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
    labels: object = ...,
    check: Check = ...,
) -> Explanation: ...
@overload
def explain(
    pipeline: Pipeline | str | Path,
    texts: Iterable[object],
    *,
    target: Targets = ...,
    method: Method | str | None = ...,
    encoders: bool = ...,
    deleted: Deleted | None = ...,
    labels: object = ...,
    check: Check = ...,
) -> Explanations: ...
def explain(
    pipeline: Pipeline | str | Path,
    texts: str | Iterable[object],
    *,
    target: Targets = "predicted",
    method: Method | str | None = None,
    encoders: bool = False,
    deleted: Deleted | None = None,
    labels: object = None,
    check: Check = True,
) -> Explanation | Explanations:
    """Explain a text, or many of them in batches: a list, or a column of pandas, polars, Arrow or Hugging Face `datasets`.

    A tuple or list of words among the texts is one that is split already. A text that cannot be explained (empty, None, NaN,
    not text) is an entry whose `error` says why; it keeps its place and stops nothing. A single text raises instead.

    `pipeline`: a `Pipeline`, or the name or folder of one; for many calls it is faster to load it once.

    `target`: a class by name or number, `"predicted"`, `whence.contrast("positive", "rest")`, or a list with one of these for
    every text; or `"all"`, which gives one explanation per class for every text, in order. `encoders=True` also keeps the
    relevance of each direction of a bidirectional layer.

    `deleted`: the numbers of a text's tokens that are deleted, or a list of such lists, one for every text. Their vectors are
    set to zero, as in the paper's experiment; the text keeps its length. `labels`: the true class of every text, by name or
    number, which is shown beside the predicted one. `check` is that of `relevance`; with `check="model"`, the model is asked
    without the words that are said to speak for the target and without those against it, and `explanation.doubt` says if its
    answer contradicts the signs.

        pipeline = whence.load("sst-bilstm")
        print(whence.explain(pipeline, "neither funny nor suspenseful"))
        whence.explain(pipeline, frame["review"]).to_pandas()
    """
    pipeline = _pipeline(pipeline)
    if not isinstance(texts, str):
        return explain_column(
            pipeline, texts, target=target, method=method, encoders=encoders, deleted=deleted, labels=labels, check=check
        )
    (truth,), _ = _labels(pipeline, cast(object, labels) if isinstance(labels, (list, tuple)) else [labels], 1, None)
    wanted = _targets(pipeline, target, 1)
    cuts = [cut(pipeline, text_of(texts))]
    (found,) = _explained_all(pipeline, cuts, wanted, method_of(method), encoders=encoders, deleted=deleted, check=check)
    marked = found if truth is None else [replace(each, label=truth) for each in found]
    return marked[0] if wanted != "all" else Explanations(marked)


def explain_column(
    pipeline: Pipeline,
    texts: object,
    *,
    target: Targets = "predicted",
    method: Method | str | None = None,
    encoders: bool = False,
    deleted: Deleted | None = None,
    labels: object = None,
    sound: bool = False,
    check: Check = True,
) -> Explanations:
    """Explain a column of texts; `sound` says that the model has explained some before, so that it cannot be at fault."""
    given, index = column_of(texts, "texts")
    truth, note = _labels(pipeline, labels, len(given), index)
    wanted = _targets(pipeline, target, len(given))
    rows = _explained_each(
        pipeline, given, wanted, method_of(method), encoders=encoders, deleted=deleted, sound=sound, check=check
    )
    placed = [replace(each, row=n, label=truth[n]) for n, own in enumerate(rows) for each in own]
    return Explanations(placed, index=index, note=note)


def explain_all(
    pipeline: Pipeline,
    texts: Sequence[Text],
    *,
    target: Targets = "predicted",
    method: Method | None = None,
    encoders: bool = False,
    deleted: Deleted | None = None,
    check: Check = True,
) -> Explanations:
    """Explain texts of which each one is needed: the first that cannot be explained raises."""
    cuts = [cut(pipeline, text, name=f"text {n + 1}") for n, text in enumerate(texts)]
    wanted = _targets(pipeline, target, len(cuts))
    found = _explained_all(pipeline, cuts, wanted, method_of(method), encoders=encoders, deleted=deleted, check=check)
    return Explanations(explanation for own in found for explanation in own)


def _pipeline(given: object) -> Pipeline:
    found = load_any(given) if isinstance(given, (str, Path)) else given
    if not isinstance(found, Pipeline):
        raise InputError(f"the pipeline is a {type(found).__name__}; give a whence.Pipeline, or a model by name or folder")
    return found


def _explained_all(
    pipeline: Pipeline,
    cuts: Sequence[Cut],
    wanted: One | list[One],
    method: Method,
    *,
    encoders: bool,
    deleted: Deleted | None,
    check: Check,
) -> list[list[Explanation]]:
    """For every text its explanation, or one for every class."""
    gone = _deleted(deleted, cuts, single=len(cuts) == 1)
    found: list[list[Explanation]] = [[] for _ in cuts]
    for rows, forward in batches(pipeline, cuts, size=BATCH, deleted=gone):
        own = [(cuts[n], gone[n]) for n in rows]
        batch = _explained(pipeline, own, forward, _chosen(wanted, rows), method, encoders=encoders, check=check)
        for n, explanations in zip(rows, batch, strict=True):
            found[n] = explanations
    return found


def _chosen(wanted: One | list[One], rows: Sequence[int]) -> One | list[One]:
    return [wanted[n] for n in rows] if isinstance(wanted, list) else wanted


def _explained_each(
    pipeline: Pipeline,
    given: Sequence[object],
    wanted: One | list[One],
    method: Method,
    *,
    encoders: bool,
    deleted: Deleted | None,
    sound: bool,
    check: Check,
) -> list[list[Explanation]]:
    """The same, where a text that cannot be explained has an entry with its error.

    If the model fails on all texts, or on many and on the longest one, it is at fault: then its error is raised.
    """
    cuts, failed = dict[int, Cut](), dict[int, str]()
    for n, each in enumerate(given):
        try:
            cuts[n] = cut(pipeline, text_of(each))
        except InputError as error:
            failed[n] = str(error)
    gone = dict(enumerate(_deleted(deleted, [cuts.get(n) for n in range(len(given))], single=False)))

    def work(rows: Sequence[int], forward: Forward) -> list[list[Explanation]]:
        own = [(cuts[n], gone[n]) for n in rows]
        return _explained(pipeline, own, forward, _chosen(wanted, rows), method, encoders=encoders, check=check)

    found: list[list[Explanation]] = [[] for _ in given]
    faults = list[Exception]()
    for n, explanations in attempted(pipeline, cuts, work, deleted=gone):
        if isinstance(explanations, Exception):
            failed[n] = reason(explanations)
            faults.append(explanations)
            if not sound and len(faults) == min(TRIES, len(cuts)):
                longest = max(cuts, key=lambda n: len(cuts[n].forms))
                ((_, last),) = attempted(pipeline, {longest: cuts[longest]}, work, deleted=gone)
                if isinstance(last, Exception):
                    raise faults[0]
        else:
            found[n], sound = explanations, True
    for n, error in failed.items():
        text = given[n]
        found[n] = [Explanation.failed(text if isinstance(text, str) else "", error, model=pipeline.name)]
    return found


def attempted(
    pipeline: Pipeline,
    cuts: Mapping[K, Cut],
    work: Callable[[list[K], Forward], Sequence[V]],
    *,
    deleted: Mapping[K, Sequence[int]] | None = None,
) -> Iterator[tuple[K, V | Exception]]:
    """What `work` gives for every text, or why it gives nothing. A batch that fails is tried again in halves."""
    keys = list(cuts)
    gone = None if deleted is None else [deleted[key] for key in keys]
    for rows, forward in batches(pipeline, [cuts[key] for key in keys], size=BATCH, deleted=gone):
        own = [keys[n] for n in rows]
        try:
            done = work(own, forward)
        except Exception as error:
            if "CUDA error" in str(error):  # the device works no longer
                raise
            if len(own) == 1:
                yield own[0], error
                continue
            for half in (own[: len(own) // 2], own[len(own) // 2 :]):
                yield from attempted(pipeline, {key: cuts[key] for key in half}, work, deleted=deleted)
            continue
        yield from zip(own, done, strict=True)


def reason(error: Exception) -> str:
    """Why a text could not be explained."""
    if isinstance(error, WhenceError):
        return str(error)
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
        return "the text needs more memory than there is"
    return f"the model failed: {type(error).__name__}: {str(error)[:200]}"


def text_of(given: object) -> Text:
    """A text, or its words if it is split already; raises for anything else."""
    if isinstance(given, str):
        if not given.isascii():
            _require_characters(given)
        if not given.strip():
            raise InputError("the text is empty")
        return given
    words = tuple(cast(Sequence[object], given)) if isinstance(given, (tuple, list)) else ()
    if words and all(isinstance(word, str) for word in words):
        split = cast(tuple[str, ...], words)
        _require_characters(" ".join(split))
        return split
    if is_missing(cast(object, given)):
        raise InputError("there is no text")
    shown, kind = repr(cast(object, given)), type(cast(object, given)).__name__
    raise InputError(f"{shown[:40]}{'…' * (len(shown) > 40)} is not a text but a {kind}")


def _require_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the text is not valid UTF-8 (at character {error.start:,})") from None


def _labels(pipeline: Pipeline, labels: object, count: int, index: Any) -> tuple[list[str | None], str]:
    """The true class of every text by its name, None where it is not known, and a note. `index` is pandas' of the texts."""
    if labels is None:
        return [None] * count, ""
    given, own = column_of(labels, "labels")
    if len(given) != count:
        raise InputError(f"there are {len(given)} labels for {count} texts; give one for each, None where it is not known")
    if index is not None and own is not None and not index.equals(own):
        raise InputError("texts and labels have different indexes; give two columns of the same table")
    note = labels_read(pipeline.classes, (each for each in given if not is_missing(each)))
    return [_class_name(pipeline.classes, each) for each in given], note


def _class_name(classes: Sequence[str], label: object) -> str | None:
    """A label as the class that it names or numbers; one that is none of the model's stays as it is, a gap is None."""
    written = label.strip() if isinstance(label, str) else label
    if is_missing(written) or written == "":
        return None
    found = class_of_label(classes, written)
    return str(written) if found is None else classes[found]


def _deleted(deleted: Deleted | None, cuts: Sequence[Cut | None], *, single: bool) -> list[list[int]]:
    """The deleted tokens of every text, in order; a text that could not be cut (None) may have any."""
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
            is_number = isinstance(token, Integral) and not isinstance(token, bool) and token >= 0
            if each is None and not is_number:
                raise InputError(f"deleted[{n}] holds {token!r}; give the numbers of tokens, from 0 on")
            if each is not None and not (is_number and token < len(each.forms)):
                raise InputError(f"deleted[{n}] holds {token!r}; text {n + 1} has the tokens 0 to {len(each.forms) - 1}")
    return [sorted({int(token) for token in tokens}) for tokens in lists]


def _targets(pipeline: Pipeline, target: Targets, count: int) -> One | list[One]:
    """The target of all texts, or a list with that of each; classes are numbers."""
    listed = getattr(target, "tolist", None) or getattr(target, "to_list", None) or (lambda: target)
    given = cast(object, listed())  # numbers of NumPy, PyTorch, pandas and polars
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
    check: Check,
) -> list[list[Explanation]]:
    """For every text of a batch (with its deleted tokens) its explanation, or one for every class."""
    result, scores = answered(pipeline, forward, target, method, cuts=[each for each, _ in texts], check=check)
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
        result.doubts(),
    )
    each = target if isinstance(target, list) else [target] * len(texts)
    return [_assembled(pipeline, text, numbers[n], batch, n, each[n], method) for n, text in enumerate(texts)]


def answered(
    pipeline: Pipeline,
    forward: Forward,
    target: One | list[One],
    method: Method,
    *,
    cuts: Sequence[Cut] = (),
    check: Check = True,
) -> tuple[Result, Tensor]:
    """The relevance of every token of a batch, and the scores (B, C) of its texts; `cuts` are needed for `check="model"`."""
    is_checked, asks_model = check_of(check)
    words = _words(pipeline, cuts, forward.inputs.tensors[0]) if asks_model else None
    question = Question(cast(Target, target), by_step=True, check=is_checked, asks_model=asks_model, words=words)
    try:
        result = ask(forward, question, method)
    except (InputError, TargetError):
        scores_of(pipeline, forward)  # a module whose output is not finite scores is reported first
        raise
    output = forward.predict().output if result.output is None else result.output  # a method of the user's need not keep it
    return result, require_scores_of(pipeline, output, len(forward.inputs.tensors[0]))


def _words(pipeline: Pipeline, cuts: Sequence[Cut], ids: Tensor) -> Tensor:
    """The number of every token's word (B, T); −1 for padding, and for tokens that stand for nothing in the text."""
    found = torch.full_like(ids, -1)
    for row, each in enumerate(cuts):
        for number, group in enumerate(word_groups(each.text, each.spans, each.shown(pipeline))):
            if any(start < end for start, end in each.spans[group.start : group.stop]):
                found[row, group.start : group.stop] = number
    return found


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
    doubts: list[str | None]  # of all scores, one class after the other


def _assembled(
    pipeline: Pipeline, cut_text: tuple[Cut, list[int]], ids: Sequence[int], batch: Batch, row: int, target: One, method: Method
) -> list[Explanation]:
    ((text, _, spans), deleted), classes, outputs = cut_text, pipeline.classes, batch.outputs[row]
    is_all, best = target == "all", outputs.index(max(outputs))
    one, other = (target.one, target.other) if isinstance(target, Contrast) else (target, None)
    chosen = list(range(len(classes))) if is_all else [best if one == "predicted" else cast(int, one)]
    versus = "" if other is None else "rest" if other == "rest" else classes[best if other == "predicted" else cast(int, other)]
    is_other = bool(versus) or not method.explains_score  # something else than the target's score is explained
    shown = cut_text[0].shown(pipeline)
    unknown_id = pipeline.vocabulary.unknown
    unknown = tuple(number == unknown_id for number in ids[: len(spans)])

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
            doubt=batch.doubts[k * len(batch.outputs) + row],
        )
        for k, index in enumerate(chosen)
    ]
