"""From what the user gave to what is evaluated: which class is explained in each sample, and which samples cannot be used."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence._batches import Text, cut
from whence.engine.held import ModelParts
from whence.errors import DataError, InputError, ModelError, TargetError
from whence.methods.predicting import predicting
from whence.models.pipeline import Pipeline, class_of
from whence.models.series import SeriesModel
from whence.trust.subject import Subject, hold_probabilities
from whence.trust.tensors import Tensors, Units
from whence.trust.texts import Texts

Of = Literal["label", "predicted"] | int | str
Kind = Literal["classes", "numbers"]


class Entered(NamedTuple):
    """What is evaluated, the numbers of its samples as given, why others were left out, and which output is explained."""

    subject: Subject
    rows: list[int]
    left_out: dict[str, int]
    explained: str = ""  # in words, where a model gives several outputs and no label says which


def texts_of(pipeline: Pipeline, texts: Sequence[object], labels: Sequence[object] | None, *, of: Of | None) -> Entered:
    """Texts with their labels; a text that is none, or that has no word, is left out."""
    if isinstance(texts, (str, bytes)) or not (isinstance(texts, Sequence) or hasattr(texts, "tolist")):
        raise InputError(f"texts is a {type(texts).__name__}; give a list of texts")
    texts, labels = _listed(texts), None if labels is None else _listed(labels)
    _require_as_many(labels, len(texts), "texts")
    reasons: Counter[str] = Counter()
    rows: list[int] = []
    for n, text in enumerate(texts):
        try:
            cut(pipeline, cast(Text, text))
            rows.append(n)
        except InputError:
            reasons["not a text" if not isinstance(text, (str, tuple)) else "no word in it"] += 1
    known = None if labels is None else np.array([_label(pipeline, labels[n], n) for n in rows], dtype=np.int64)
    made = Texts(
        name=pipeline.name,
        of=np.zeros(len(rows), dtype=np.int64),
        labels=known,
        has_classes=True,
        pipeline=pipeline,
        texts=[cast(Text, texts[n]) for n in rows],
    )
    return _usable(made, rows, reasons, of)


def tensors_of(
    model: nn.Module | SeriesModel,
    inputs: object,
    labels: Sequence[object] | Tensor | NDArray[Any] | None,
    *,
    of: Of | None,
    units: Units,
    lengths: Sequence[int] | Tensor | None,
    baseline: object,
    call: Callable[[Any, Any], object] | None,
    kind: Kind | None,
) -> Entered:
    """Samples in a tensor, with their labels."""
    given = _required(inputs, units, kind)
    module, x = (model.module, _standardised(model, given)) if isinstance(model, SeriesModel) else (model, given)
    labels = None if labels is None else _listed(labels)
    _require_as_many(labels, len(x), "samples")
    rows, reasons = _finite(x)
    if isinstance(model, SeriesModel) and baseline is not None:
        baseline = _standardised(model, _baseline(baseline, given))
    reference, sizes = _baseline(baseline, x), _sizes(lengths, x)
    made = Tensors(
        name=model.name if isinstance(model, SeriesModel) else type(module).__name__,
        of=np.zeros(len(rows), dtype=np.int64),
        labels=None,
        has_classes=False,
        model=module,
        inputs=x[rows],
        units=units,
        sizes=None if sizes is None else sizes[rows],
        baseline=reference if len(reference) == 1 else reference[rows],
        call=call,
        batch_axis=1 if ModelParts(module).is_time_first and x.dim() > 2 else 0,
        is_single=False,
        centre=model.output_centre if isinstance(model, SeriesModel) else (),
        scale=model.output_scale if isinstance(model, SeriesModel) else (),
    )
    known = None if labels is None else [(n, labels[n]) for n in rows]
    if isinstance(model, SeriesModel):
        kind, of = "numbers", model.outputs.index(of) if isinstance(of, str) and of in model.outputs else of
    subject = _labelled(made, known, kind)
    if of is None and known and not subject.has_classes and not subject.is_single:
        outputs = _width(subject)
        raise TargetError(
            f"the labels are numbers, and the model gives {outputs} outputs: say which of them is evaluated with "
            f"of=0 … {outputs - 1}"
        )
    found = _usable(subject, rows, reasons, of)
    return found._replace(explained=_told(found.subject, model, is_guessed=kind is None and labels is None))


def _told(subject: Subject, model: nn.Module | SeriesModel, *, is_guessed: bool) -> str:
    """Which of several outputs is explained; nothing where there is one without a name, or where labels name classes."""
    number = int(subject.of[0])
    if isinstance(model, SeriesModel) and model.outputs:
        return model.outputs[number] + (f" in {model.unit}" if model.unit else "")
    if cast(Tensors, subject).is_single:
        return ""
    if not subject.has_classes:
        return f"output {number}"
    if not is_guessed or subject.are_probabilities:
        return ""
    return 'outputs taken for scores of classes (if they are numbers, give kind="numbers" and of=)'


def _required(inputs: object, units: Units, kind: Kind | None) -> Tensor:
    """The samples, if they are a tensor whose units can be taken away."""
    if units not in ("steps", "features"):
        raise InputError(f'units is {units!r}; steps or features are taken away: give "steps" or "features"')
    if kind not in (None, "classes", "numbers"):
        raise InputError(f'kind is {kind!r}; outputs are "classes" or "numbers"')
    if not isinstance(inputs, Tensor) or inputs.dim() < 2:
        given = f"of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else f"a {type(inputs).__name__}"
        raise InputError(f"the samples are {given}; give a tensor (samples, steps, features), or token ids (samples, steps)")
    if not inputs.is_floating_point() and units == "features":
        raise InputError("token ids have no features; leave out units=")
    return inputs


def _sizes(lengths: Sequence[int] | Tensor | None, x: Tensor) -> NDArray[np.int64] | None:
    """The number of steps of each sample, if they are given."""
    if lengths is None:
        return None
    found = np.asarray(lengths)
    if (
        not np.issubdtype(found.dtype, np.integer)
        or found.shape != (len(x),)
        or found.min(initial=1) < 1
        or found.max(initial=1) > x.shape[1]
    ):
        raise InputError(f"lengths must be one number from 1 to {x.shape[1]} for each of {len(x)} samples")
    return found.astype(np.int64)


def _labelled(subject: Tensors, labels: Sequence[tuple[int, object]] | None, kind: Kind | None) -> Tensors:
    """The subject with its labels (each with the number of its sample), as classes if outputs and labels can be."""
    if not len(subject):
        return subject
    values = None if labels is None else [label for _, label in labels]
    outputs = _width(subject)
    is_number = kind == "numbers" or (kind is None and _has_fractions(values))
    are_two = values is not None and all(isinstance(each, (int, float)) and each in (0, 1) for each in values)
    has_classes = not is_number and (outputs > 1 or are_two or kind == "classes")
    known = None
    if has_classes and labels is not None:
        known = np.array([_class_number(label, max(outputs, 2), n) for n, label in labels], dtype=np.int64)
    return replace(subject, has_classes=has_classes, labels=known, is_single=outputs == 1)


def _finite(x: Tensor) -> tuple[list[int], Counter[str]]:
    """The samples whose numbers are all finite, and why others are left out."""
    if not x.is_floating_point() or bool(x.isfinite().all()):
        return list(range(len(x))), Counter()
    rows = cast(list[int], x.flatten(1).isfinite().all(1).nonzero()[:, 0].tolist())
    return rows, Counter({"its numbers are not finite": len(x) - len(rows)})


def _usable(subject: Subject, rows: list[int], reasons: Counter[str], of: Of | None) -> Entered:
    """The samples about which the model says something, and the class that is explained in each."""
    if not len(subject):
        told = "; ".join(f"{count} left out: {reason}" for reason, count in reasons.items())
        raise DataError(f"there is no sample to evaluate{f' ({told})' if told else ''}; give at least one")
    every = range(len(subject))
    scores = subject.scores(every, subject.untouched(every))
    if subject.has_classes and hold_probabilities(scores, _one_output(subject)):
        subject = replace(subject, are_probabilities=True)
        scores = subject.scores(every, subject.untouched(every))
    finite = np.isfinite(scores).all(1)
    if not finite.all():
        reasons["the model's output is not finite"] += int((~finite).sum())
        if not finite.any():
            raise ModelError("the model's output is not finite for any sample; was its training cut off?")
        chosen = np.flatnonzero(finite).tolist()
        subject, rows, scores = subject.some(chosen), [rows[n] for n in chosen], scores[finite]
    return Entered(replace(subject, of=_explained(subject, scores, of)), rows, dict(reasons))


def _one_output(subject: Subject) -> Tensor:
    """What the model gives for the first samples, with its graph."""
    with predicting(ModelParts(subject.module)), torch.enable_grad():
        return next(subject.some([0]).outputs())[0]


def _explained(subject: Subject, scores: NDArray[np.float64], of: Of | None) -> NDArray[np.int64]:
    """The class, or the output, that is explained in each sample."""
    of = of if of is not None else "label" if subject.labels is not None else "predicted" if subject.has_classes else 0
    if of == "label":
        if subject.labels is None:
            raise TargetError('of="label" needs labels, which are classes of the model; give them, or of="predicted"')
        return subject.labels
    if of == "predicted":
        if not subject.has_classes:
            raise TargetError('of="predicted" needs a model of classes; give the number of an output')
        return scores.argmax(1)
    number = class_of(subject.pipeline.classes, of) if isinstance(subject, Texts) and isinstance(of, str) else of
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < scores.shape[1]:
        raise TargetError(
            f'of is {of!r}; give "label", "predicted", or one of the model\'s {scores.shape[1]} outputs, from 0 on'
        )
    return np.full(len(subject), int(number), dtype=np.int64)


def _listed(things: object) -> list[object]:
    """A list from a sequence, an array or a tensor, of Python's own numbers; a column is one number per row."""
    given = cast(Any, things)
    if not hasattr(given, "tolist"):
        if not isinstance(things, Sequence):
            raise InputError(f"labels is a {type(things).__name__}; give a list, an array or a tensor with one for each sample")
        return list(cast(Sequence[object], things))
    shape = tuple(cast(Sequence[int], getattr(given, "shape", (0,))))
    if len(shape) != 1 and not (len(shape) == 2 and shape[1] == 1):
        raise InputError(f"labels has the shape {shape}; give one for each sample")
    return cast(list[object], given.reshape(shape[0]).tolist() if len(shape) == 2 else given.tolist())


def _require_as_many(labels: object, count: int, things: str) -> None:
    if labels is not None and len(cast(Sequence[object], labels)) != count:
        raise InputError(f"there are {count} {things} and {len(cast(Sequence[object], labels))} labels; give one for each")


def _label(pipeline: Pipeline, label: object, n: int) -> int:
    """The number of a class that is given by name or by number; a name that is a number comes first."""
    if isinstance(label, (float, np.number)) and float(cast(float, label)).is_integer():
        label = int(cast(float, label))
    if isinstance(label, (str, int)) and not isinstance(label, bool):
        found = class_of(pipeline.classes, str(label).strip())
        if found is not None:
            return found
        if str(label).strip().isdecimal() and len(str(label)) < 10 and int(label) < len(pipeline.classes):
            return int(label)
    raise DataError(
        f"the label of text {n + 1} is {_shown(cast(object, label))}; {pipeline.name} knows {', '.join(pipeline.classes)}, or "
        f"0 to {len(pipeline.classes) - 1}"
    )


def _shown(label: object) -> str:
    return repr(label) if len(repr(label)) <= 60 else f"{repr(label)[:60]}…"


def _class_number(label: object, classes: int, n: int) -> int:
    if isinstance(label, (int, float)) and not isinstance(label, bool) and float(label).is_integer() and 0 <= label < classes:
        return int(label)
    if isinstance(label, bool):
        return int(label)
    raise DataError(f"the label of sample {n + 1} is {label!r}; the model has the classes 0 to {classes - 1}")


def _has_fractions(labels: list[object] | None) -> bool:
    """Whether labels are numbers to be predicted rather than classes."""
    for n, label in enumerate(labels or []):
        if not isinstance(label, (int, float)) or not math.isfinite(label):
            raise DataError(f"the label of sample {n + 1} is {_shown(label)}; labels are classes, or finite numbers")
    return any(isinstance(each, float) and not each.is_integer() for each in labels or [])


def _width(subject: Tensors) -> int:
    """The number of outputs that the model gives for a sample."""
    return subject.scores([0], subject.untouched([0])).shape[1]


def _baseline(baseline: object, x: Tensor) -> Tensor:
    """What a unit is set to: a tensor of the same number of axes as the samples, with one sample or as many as there are."""
    if isinstance(baseline, str) and baseline != "zero":
        raise InputError(f'baseline is {baseline!r}; give "zero", a number or a tensor')
    if not x.is_floating_point() and not (baseline is None or baseline == "zero"):
        raise InputError("the vectors of token ids are set to zero; leave out baseline=")
    value = 0.0 if baseline is None or isinstance(baseline, str) else baseline
    found = torch.as_tensor(value, dtype=x.dtype if x.is_floating_point() else None, device=x.device)
    try:
        whole = found.expand(x.shape) if found.dim() == x.dim() else found.expand(x.shape[1:])[None]
    except RuntimeError:
        raise InputError(
            f"baseline has the shape {tuple(found.shape)}; give a number, or a tensor that fits samples of {tuple(x.shape[1:])}"
        ) from None
    if whole.is_floating_point() and not bool(whole.isfinite().all()):
        raise InputError("baseline has numbers that are not finite")
    return whole


def _standardised(model: SeriesModel, x: Tensor) -> Tensor:
    """Series as the model's module reads them."""
    if model.features and x.shape[-1] != len(model.features):
        raise InputError(f"the series have {x.shape[-1]} features; {model.name} reads {len(model.features)}")
    if not model.feature_centre and not model.feature_scale:
        return x
    width = x.shape[-1]
    centre = torch.tensor(model.feature_centre or [0.0] * width, dtype=x.dtype)
    scale = torch.tensor(model.feature_scale or [1.0] * width, dtype=x.dtype)
    return (x - centre) / scale
