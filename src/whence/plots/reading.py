"""Results and explanations of series as `Series`: one sample is picked, padding is left out, everything gets its name."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from whence._series import SeriesExplanation, numbered, told
from whence.data.frames import columns_of, order_of
from whence.errors import InputError
from whence.methods.registry import METHODS, method_class
from whence.plots.names import feature_names, listed, output_names, step_names
from whence.plots.series import Numbers, Part, Series
from whence.result import Result


@dataclass(frozen=True)
class Asked:
    """What the caller says about the numbers; see `whence.plot`."""

    inputs: object = None
    features: object = None
    steps: object = None
    outputs: Sequence[str] | None = None
    sample: int = 0
    lengths: object = None
    part: int | str | None = None
    batch_first: bool | None = None
    unit: str | None = None
    step: str = "step"


def series_of(explained: object, asked: Asked) -> Series:
    """A result, an explanation of a series, or several of one series, as what is drawn."""
    if isinstance(explained, Result):
        found = _of_result(explained, asked)
    else:
        found = _of_explanations(cast(Sequence[SeriesExplanation], explained), asked)
    for part in found.parts:
        _require_finite(part)
    return _with_part(found, asked.part)


def _require_finite(part: Part) -> None:
    for what, numbers in (("relevance", part.relevance), ("inputs", part.values)):
        if numbers is not None and not np.isfinite(numbers).all():
            place = tuple(int(n) for n in np.argwhere(~np.isfinite(numbers))[0])
            of = f" for {part.name}" if part.name else ""
            raise InputError(
                f"{what}{of} holds {numbers[place]} at step {place[-2]}, feature {part.features[place[-1]]!r}; "
                "only finite numbers can be drawn"
            )


def _with_part(series: Series, wanted: object) -> Series:
    """Only the input that the caller chose, by its key or number."""
    if wanted is None:
        return series
    names = [part.name for part in series.parts]
    for n, part in enumerate(series.parts):
        if wanted in (n, part.name) and not isinstance(wanted, bool):
            return replace(series, parts=(part,))
    raise InputError(f"part is {wanted!r}; the inputs are {', '.join(map(repr, names))}, numbered from 0")


def _of_explanations(given: Sequence[SeriesExplanation], asked: Asked) -> Series:
    first = given[0]
    shapes = [(len(each.relevance), each.features) for each in given]
    if len(set(shapes)) > 1:
        found = ", ".join(f"{steps} steps of {len(names)} features" for steps, names in dict.fromkeys(shapes))
        raise InputError(f"the explanations are of different series ({found}); give those of one series, one for each output")
    relevance = np.array([each.relevance for each in given], dtype=np.float64)
    names = feature_names(asked.features, [""]).get("", _names_of(first, asked.inputs))
    outputs = [each.output for each in given] if asked.outputs is None else listed(asked.outputs, "outputs")
    if len(outputs) != len(given):
        raise InputError(f"outputs has {len(outputs)} names for {len(given)} explanations")
    unit = first.unit if asked.unit is None else asked.unit
    known = first.features if set(first.features) == set(columns_of(asked.inputs)) else names
    values = None if asked.inputs is None else _array(asked.inputs, known)
    return Series(
        parts=(_part("", relevance, names, values),),
        outputs=tuple(map(str, outputs)),
        scores=np.array([each.score for each in given]),
        amounts=tuple(told(each, unit).replace("-", "−") for each in given),
        absorbed=np.array([sum(each.absorbed.values()) for each in given]) if all(each.absorbed for each in given) else None,
        method=_label(str(first.method.get("name"))),
        doubts=tuple(each.doubt for each in given),
        steps=step_names(asked.steps, relevance.shape[1]),
        step=asked.step,
        unit="" if any(each.before for each in given) else unit,  # relevance is not in the unit of what such a function gives
        is_signed=first.is_signed,
        ends=tuple(relevance.shape[1] - 1 if each.output_step is None else each.output_step for each in given),
    )


def _names_of(explanation: SeriesExplanation, inputs: object) -> tuple[str, ...]:
    """The names of the features: the explanation's, or those of a frame if the explanation only numbers them."""
    found = explanation.features
    return columns_of(inputs) or found if found == numbered(len(found)) else found


def _label(name: str) -> str:
    return method_class(name).label if name in METHODS else name


class _Layout(NamedTuple):
    """Where things are in a result's tensors: the sizes of the leading axes, how many samples (None: unbatched), which one."""

    lead: tuple[int, ...]
    samples: int | None
    sample: int
    length: int | None  # of the sample, if it is known
    batch_first: bool | None


def _of_result(result: Result, asked: Asked) -> Series:
    target: object = result.target
    axes = _leading_axes(target)
    samples = result.score.shape[-1] if result.score.dim() > axes else None
    sample = _sample(asked.sample, samples)
    tensors, told = _named_tensors(result.relevance)
    length = _length(asked.lengths, told, sample, samples)
    layout = _Layout(tuple(result.score.shape[:axes]), samples, sample, length, asked.batch_first)
    parts = _parts(tensors, layout, asked)
    longest = max((part.length for part in parts if part.has_steps), default=1)
    rows = _rows(result, layout)
    are_horizons = rows is not None and not any(_has_steps(each, rows, layout) for each in tensors.values())
    places = _output_steps(target, layout.lead, rows or longest)
    absorbed = sum((_amount(amount, layout) for amount in result.absorbed.values()), start=np.zeros(math.prod(layout.lead)))
    scores = _amount(result.score, layout)
    series = Series(
        parts=parts,
        outputs=output_names(target, layout.lead, asked.outputs, sample, row="horizon" if are_horizons else "step"),
        scores=scores,
        amounts=tuple(f"{score:.4g}{f' {asked.unit}' if asked.unit else ''}".replace("-", "−") for score in scores),
        absorbed=None if result.explained is None else absorbed,
        method=str(getattr(result.method, "label", type(result.method).__name__)),
        doubts=tuple(np.array(result.doubts(), dtype=object).reshape(result.score.shape)[..., sample].reshape(-1))
        if samples is not None
        else tuple(result.doubts()),
        sample="" if samples in (None, 1) else f"sample {sample} of {samples}",
        steps=step_names(asked.steps, longest),
        output_steps=places,
        are_horizons=are_horizons,
        ends=() if are_horizons else _ends(target, layout.lead, rows or longest),
        step=asked.step,
        unit=asked.unit or "",
        is_signed=bool(getattr(result.method, "is_signed", True)),
    )
    return _without_padding(series, length)


def _leading_axes(target: object) -> int:
    """How many axes a result has in front for a target: one for all classes, one for all steps."""
    if isinstance(target, tuple):
        return cast(tuple[object, ...], target).count("all")
    return int(isinstance(target, str) and target == "all")


def _amount(amount: Tensor, layout: _Layout) -> Numbers:
    """The amounts (K,) of the sample."""
    numbers = amount.detach().cpu().double().numpy()
    return (numbers if layout.samples is None else numbers[..., layout.sample]).reshape(-1)


def _rows(result: Result, layout: _Layout) -> int | None:
    """How many rows of outputs the model gives for a sample, if the target names one and their number is known."""
    target: object = result.target
    if not isinstance(target, tuple):
        return None
    if cast(tuple[object, ...], target)[0] == "all":
        return layout.lead[0]
    if result.output is None:
        return None
    return result.output.numel() // result.output.shape[-1] // (layout.samples or 1)


def _has_steps(relevance: Tensor, count: int, layout: _Layout) -> bool:
    """Whether an input has so many steps, with padding."""
    sizes = list(relevance.shape[len(layout.lead) :])
    if layout.samples in sizes:
        sizes.remove(layout.samples)
    return sizes[:1] == [count]


def _output_steps(target: object, lead: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """The row of every output: its step or horizon, if they belong to different ones, or of the only output."""
    if not isinstance(target, tuple):
        return ()
    step, one = cast(tuple[Any, Any], target)
    if step != "all":
        return () if one == "all" else (int(step) % rows,)
    return tuple(step for step in range(lead[0]) for _ in range(lead[1] if len(lead) > 1 else 1))


def _ends(target: object, lead: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """The step of every output, also if all are of one step."""
    step = cast(tuple[Any, Any], target)[0] if isinstance(target, tuple) else "all"
    return _output_steps(cast(object, target), lead, rows) if step == "all" else (int(step) % rows,) * math.prod(lead)


def _without_padding(series: Series, length: int | None) -> Series:
    """Without the outputs at steps that the sample does not have."""
    if length is None or series.are_horizons or not series.output_steps or max(series.output_steps) < length:
        return series
    return series.only([n for n, step in enumerate(series.output_steps) if step < length])


def _sample(wanted: object, samples: int | None) -> int:
    if not isinstance(wanted, Integral) or isinstance(wanted, bool):
        raise InputError(f"sample is {wanted!r}; give the number of one sample, counted from 0")
    count, number = 1 if samples is None else samples, int(wanted)
    if not -count <= number < count:
        raise InputError(f"sample {wanted} does not exist: the result has {count}, so samples run 0–{count - 1}")
    return number % count


def _named_tensors(relevance: object) -> tuple[dict[str, Tensor], list[int] | None]:
    """The tensors of a result by name, and the lengths that packed ones tell."""
    if _is_packed(relevance):
        padded, lengths = _unpacked(relevance)
        return {"": padded}, lengths
    if isinstance(relevance, Tensor):
        return {"": relevance}, None
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(relevance, Mapping):
        pairs = cast(Mapping[object, object], relevance).items()
    elif isinstance(relevance, (tuple, list)):
        pairs = ((f"input {n}", each) for n, each in enumerate(cast(Sequence[object], relevance)))
    found = {str(name): each for name, each in pairs if isinstance(each, Tensor) and each.is_floating_point()}
    if not found:
        kind = type(cast(object, relevance)).__name__
        raise InputError(f"relevance is a {kind} without a tensor of numbers, so there is nothing to draw")
    return found, None


def _is_packed(tree: object) -> bool:
    """Whether something is a packed sequence, or a tuple of them: one for each output."""
    if isinstance(tree, PackedSequence):
        return True
    return isinstance(tree, tuple) and tree != () and all(map(_is_packed, cast(tuple[object, ...], tree)))


def _unpacked(tree: Any) -> tuple[Tensor, list[int]]:
    """Packed sequences as one padded tensor (…, B, T, F), and the lengths."""
    if isinstance(tree, PackedSequence):
        padded, lengths = pad_packed_sequence(tree, batch_first=True)
        return padded, cast(list[int], lengths.tolist())
    each = [_unpacked(one) for one in tree]
    return torch.stack([padded for padded, _ in each]), each[0][1]


def _length(given: object, told: list[int] | None, sample: int, samples: int | None) -> int | None:
    if given is None:
        return None if told is None else told[sample]
    if told is not None:
        raise InputError("the result is packed and tells its own lengths; leave out lengths=")
    try:
        sizes = [int(n) for n in cast(Iterable[int], given)]
    except (TypeError, ValueError):
        raise InputError(f"lengths is {given!r}; give one whole number per sample") from None
    if len(sizes) != (samples or 1) or min(sizes) < 1:
        raise InputError(f"lengths is {sizes}; give one number above 0 for each of the {samples or 1} samples")
    return sizes[sample]


def _parts(tensors: Mapping[str, Tensor], layout: _Layout, asked: Asked) -> tuple[Part, ...]:
    """The inputs, each (K, T, F) without padding."""
    picked = {name: _picked(tensor, layout) for name, tensor in tensors.items()}
    features = (columns_of(asked.inputs) or None) if asked.features is None else asked.features
    named = feature_names(features, list(picked))
    values = _values(asked.inputs, tensors, layout, named)
    has_features = any(each.ndim > 2 for each in picked.values())
    found: list[Part] = []
    for name, each in picked.items():
        if each.ndim > 3:
            raise InputError(
                f"relevance{f' for {name}' if name else ''} has the shape {tuple(tensors[name].shape)}, which is "
                f"{each.ndim - 1} axes for a sample; plot draws (steps, features): sum over the others first"
            )
        is_row = has_features or len(named.get(name, ())) == each.shape[-1] > 1  # one number for every feature, not step
        is_static = each.ndim == 1 or (each.ndim == 2 and is_row)
        found.append(_part(name, each, named.get(name), values.get(name), length=layout.length, is_static=is_static))
    return tuple(found)


def _part(
    name: str,
    relevance: Numbers,
    names: Sequence[str] | None,
    values: Numbers | None,
    *,
    length: int | None = None,
    is_static: bool = False,
) -> Part:
    """Relevance (K, T, F), (K, T) or, if it is static, (K, F) or (K,), with names and values."""
    if relevance.ndim < 3:
        relevance = relevance.reshape(len(relevance), 1, -1) if is_static else relevance[..., None]
    count = relevance.shape[-1]
    if names is not None and len(names) != count:
        of = f" of {name}" if name else ""
        raise InputError(f"features has {len(names)} names{of}; the relevance has {count}: {relevance.shape[1:]}")
    if values is not None:
        values = values.reshape(relevance.shape[1:]) if values.size == relevance[0].size else values
        if values.shape != relevance.shape[1:]:
            raise InputError(
                f"inputs have the shape {values.shape} for one sample, the relevance {relevance.shape[1:]}; "
                "give the numbers that were explained, (steps, features)"
            )
    if not is_static and length is not None:
        relevance, values = relevance[:, :length], None if values is None else values[:length]
    shown = tuple(names) if names is not None else tuple(map(str, range(count))) if count > 1 else (name or "input",)
    return Part(name, relevance, shown, names is not None, values, not is_static)


def _picked(tensor: Tensor, layout: _Layout) -> Numbers:
    """The numbers (K, …) of one sample."""
    numbers = tensor.detach().cpu().double().numpy()
    lead = len(layout.lead)
    if layout.samples is not None:
        axis = _batch_axis(numbers.shape[lead:], layout)
        if axis is None and layout.samples > 1:
            raise InputError(f"relevance has the shape {numbers.shape}; no axis of it holds the {layout.samples} samples")
        numbers = numbers if axis is None else np.take(numbers, layout.sample, axis=lead + axis)  # None: a single vector
    return numbers.reshape(math.prod(layout.lead), *numbers.shape[lead:])


def _batch_axis(shape: tuple[int, ...], layout: _Layout) -> int | None:
    order = (1, 0) if layout.batch_first is False else (0, 1)
    return next((axis for axis in order if axis < len(shape) and shape[axis] == layout.samples), None)


def _values(
    given: object, tensors: Mapping[str, Tensor], layout: _Layout, named: Mapping[str, Sequence[str]]
) -> dict[str, Numbers]:
    """What the model read, by input: in the form that was explained, or that of one sample."""
    if given is None:
        return {}
    if _is_packed(given):
        each: dict[str, object] = {"": _unpacked(given)[0]}
    elif isinstance(given, Mapping):
        each = {str(key): value for key, value in cast(Mapping[object, object], given).items() if str(key) in tensors}
    elif len(tensors) > 1:
        items = listed(given, "inputs")
        if len(items) != len(tensors):
            raise InputError(f"inputs has {len(items)} entries; the result has {len(tensors)} inputs")
        each = dict(zip(tensors, items, strict=True))
    else:
        each = dict.fromkeys(tensors, given)
    arrays = {name: _array(value, named.get(name, ())) for name, value in each.items() if value is not None}
    return {name: _sample_values(values, tensors[name], layout) for name, values in arrays.items()}


def _sample_values(values: Numbers, relevance: Tensor, layout: _Layout) -> Numbers:
    whole = tuple(relevance.shape[len(layout.lead) :])
    if values.shape == whole[: values.ndim] and values.ndim < len(whole) and layout.samples is not None:
        raise InputError(
            f"inputs have the shape {values.shape}, the relevance {whole}: they are token ids, which have no height to draw; "
            "leave them out, and give the words as steps="
        )
    axis = _batch_axis(whole, layout) if layout.samples is not None else None
    return np.take(values, layout.sample, axis=axis) if axis is not None and values.ndim == len(whole) else values


def _array(given: object, names: Sequence[str]) -> Numbers:
    """Numbers as an array; the columns of a frame in the order of the features."""
    columns = columns_of(given)
    order = order_of(columns, names, "the relevance") if columns and names else None
    try:
        found = np.asarray(given.detach().cpu().double() if isinstance(given, Tensor) else given, dtype=np.float64)
        return found if order is None else found[:, order]
    except (TypeError, ValueError):
        raise InputError(f"inputs hold a {type(given).__name__} that is more than numbers; give rows of numbers") from None
