"""The public function `explain_series`: a model of series and the values of one in, the relevance of every value out."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from whence._relevance import Check, ask, check_of
from whence.data.frames import columns_of, order_of
from whence.engine.held import ModelParts
from whence.engine.refusal import first_line
from whence.errors import InputError, ModelError, TargetError, WhenceError
from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.method import Method, Question
from whence.methods.registry import method_of
from whence.methods.target import describe
from whence.models.bundled import load
from whence.models.series import SeriesModel
from whence.plotted import Plotted
from whence.quoting import quoted
from whence.result import Result

MOST = 200  # outputs that are named; a module that gives outputs for every step names those of the last steps


class Blank(NamedTuple):
    """A stretch that is replaced by the reference: the steps from `start` to before `end`, of these features or of all."""

    start: int
    end: int
    features: Sequence[int | str] | None = None


@dataclass(frozen=True)
class SeriesExplanation(Plotted):
    """Which values of a series spoke for an output (positive) and which against it (negative), in the output's unit.

    For LRP, score = Σ relevance + Σ absorbed. `score` is the output, or what it was before a softplus, sigmoid or the like that
    ends the module; `before` then names it.
    """

    features: tuple[str, ...]
    relevance: tuple[tuple[float, ...], ...]  # (T, F)
    outputs: Mapping[str, float]
    output: str  # the one explained
    score: float
    method: Mapping[str, Any]  # its name and settings
    reference: tuple[float, ...]  # what a blanked value becomes, by feature
    absorbed: Mapping[str, float] = field(default_factory=dict[str, float])
    unit: str = ""
    model: str = ""
    choices: tuple[str, ...] = ()  # what had to be decided about the model, such as which factor of a product is the gate
    is_signed: bool = True  # whether relevance can speak against the output; that of sensitivity analysis cannot
    output_step: int | None = None  # the step that the output belongs to, if the module gives outputs for every step
    before: str = ""  # the function that ends the module and is left out of the score, such as softplus
    doubt: str | None = None  # why the signs or amounts should not be believed

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {
            "model": self.model,
            "features": list(self.features),
            "steps": len(self.relevance),
            "outputs": dict(self.outputs),
            "output": self.output,
            "score": self.score,
            "unit": self.unit,
            "relevance": [list(row) for row in self.relevance],
            "absorbed": dict(self.absorbed),
            "method": dict(self.method),
            "reference": list(self.reference),
            **({"choices": list(self.choices)} if self.choices else {}),
            **({"doubt": self.doubt} if self.doubt else {}),
        }

    def __repr__(self) -> str:
        """The sums rather than all the numbers."""
        sums = ", ".join(f"{name} {sum(row[k] for row in self.relevance):+.4g}" for k, name in enumerate(self.features[:8]))
        more = ", …" if len(self.features) > 8 else ""
        return (
            f"SeriesExplanation of {self.output!r} = {told(self, self.unit)} over {len(self.relevance)} steps: "
            f"{sums}{more}, absorbed {sum(self.absorbed.values()):+.4g}{f'; in doubt: {self.doubt}' if self.doubt else ''}"
        )


def told(explanation: SeriesExplanation, unit: str) -> str:
    """The output in a unit, and the number that was explained if that is another one."""
    number = f"{explanation.outputs[explanation.output]:.4g}{f' {unit}' if unit else ''}"
    return f"{number} (explained: {explanation.score:.4g}, before {explanation.before})" if explanation.before else number


def explain_series(
    model: SeriesModel | nn.Module | str | Path,
    values: object,
    *,
    output: int | str = 0,
    method: Method | str | None = None,
    blank: Iterable[Blank | Mapping[str, Any] | Sequence[Any]] = (),
    features: Sequence[str] = (),
    check: Check = True,
) -> SeriesExplanation:
    """Explain one output of a model of series: how much every feature of every step contributed, in the output's unit.

    `model`: a `SeriesModel`, its name or folder, or a module that reads (B, T, F) floats. `values`: one row of numbers
    per step (T, F), as a list, an array, a tensor or a data frame; a single feature may be a plain list. `output`: the name or
    number of the output. `features` names the columns for a model that does not name them itself. The columns of a data frame
    are taken by their names, in any order; columns that are only numbered, by their order.

    The module reads x = (value − centre) / scale, and an output is centre + scale · z. The relevance of z is multiplied by the
    output's scale, and its centre is absorbed as "reference level", so that score = Σ relevance + Σ absorbed holds in the
    output's unit. A value at its centre has x = 0, and only the share of stabilisers and biases that
    LRP distributes evenly. `blank` lists stretches (start, end) or (start, end,
    features) that are replaced by the centres before the module sees them.

    The module runs in double precision if it can. `check` is that of `relevance`.

        model = whence.load("river-lstm")
        print(whence.explain_series(model, model.example_table().values, output="3 days"))
    """
    chosen = method_of(method)
    known = _model(model)
    numbers, names = _values(known, values, features)
    centre = torch.tensor(known.feature_centre or [0.0] * len(names), dtype=torch.float64)
    scale = torch.tensor(known.feature_scale or [1.0] * len(names), dtype=torch.float64)
    if not isinstance(blank, Iterable):
        raise InputError(f"blank is {quoted(blank)}; give a list of stretches (start, end) or (start, end, features)")
    for each in blank:
        start, end, columns = _blank(each, len(numbers), names)
        numbers[start:end, columns] = centre[columns]
    forward, found = _prediction(known, (numbers - centre) / scale)
    _require_memory(known, forward)
    index = _output(known, found, output)
    is_checked, asks_model = check_of(check)
    result = ask(forward, Question(_picked(found.places[index]), check=is_checked, asks_model=asks_model), chosen)
    return _assembled(known, names, found, index, result, chosen, reference=cast(list[float], centre.tolist()))


def _model(given: object) -> SeriesModel:
    if isinstance(given, (str, Path)):
        given = load(given)
    if isinstance(given, nn.Module):
        return SeriesModel(given)
    if not isinstance(given, SeriesModel):
        raise InputError(f"the model is a {type(given).__name__}; give a whence.SeriesModel, its name or folder, or a module")
    return given


def _values(model: SeriesModel, given: object, named: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    """The values (T, F) as a tensor of our own in double precision, and the features' names."""
    names, order = _ordered(model, columns_of(given), named)
    numbers = _numbers(given)
    if numbers.dim() == 1 and len(model.features) <= 1:
        numbers = numbers[:, None]
    if numbers.dim() != 2:
        raise InputError(f"values have the shape {tuple(numbers.shape)}; give rows of numbers, one row per step (T, F)")
    steps, count = numbers.shape
    if not steps or not count:
        raise InputError("the series is empty; give at least one step and one feature")
    names = names or numbered(count)
    if len(names) != count:
        owner = model.name if model.features else "the list of features"
        raise InputError(f"values have {count} columns; {owner} names {len(names)} features: {quoted(list(names))}")
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise InputError(f"features are {quoted(list(names))}; give different names, one for every column")
    numbers = numbers if order is None else numbers[:, order]
    wrong = (~numbers.isfinite()).nonzero()
    if len(wrong):
        step, column = cast(list[int], wrong[0].tolist())
        raise InputError(
            f"{quoted(names[column])} is {numbers[step, column].item()} at step {step}, counted from 0; "
            "all values must be finite numbers: fill gaps first"
        )
    return numbers, names


def numbered(count: int) -> tuple[str, ...]:
    """The names of features that nobody named."""
    return tuple(f"feature {n}" for n in range(count))


def _ordered(model: SeriesModel, columns: Sequence[str], named: Sequence[str]) -> tuple[tuple[str, ...], list[int] | None]:
    """The features' names in the model's order, and the number of each one's column; None if columns are used as they are."""
    order: list[int] | None = None
    for wanted, owner in ((tuple(named), "features="), (model.features, model.name)):
        if columns and wanted:
            places = order_of(columns, wanted, owner)
            order = places if order is None else [order[n] for n in places]
        columns = wanted or columns
    return tuple(columns), order


def _numbers(given: object) -> Tensor:
    if isinstance(given, np.ma.MaskedArray):
        given = cast(Any, given).astype(np.float64).filled(np.nan)  # a masked value is a gap
    try:
        if isinstance(given, Tensor):
            if given.is_complex():
                raise TypeError
            return given.detach().cpu().to_dense().double().clone()
        found = np.asarray(given)
        if found.dtype.kind not in "biufO":
            raise TypeError  # complex numbers and dates lose something on the way
        return torch.from_numpy(np.array(found, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    rows = list(cast(Sequence[object], given)) if isinstance(given, (list, tuple)) else []
    lengths = [len(cast(Sequence[object], row)) for row in rows if isinstance(row, (list, tuple))]
    for n, length in enumerate(lengths):
        if length != lengths[0]:
            raise InputError(
                f"step {n} has {length} values, step 0 has {lengths[0]}; give one number per feature at every step"
            )
    kind = type(cast(object, given)).__name__
    raise InputError(f"values are a {kind} that holds more than numbers; give rows of numbers, one row per step")


def _blank(given: object, steps: int, names: Sequence[str]) -> tuple[int, int, list[int]]:
    """The start and the end of a stretch, and the numbers of its features."""
    try:
        is_named = isinstance(given, Mapping)
        blank = Blank(**cast(dict[str, Any], given)) if is_named else Blank(*cast(Sequence[Any], given))
        start, end = (_whole(each) for each in blank[:2])
        columns = list(range(len(names)) if blank.features is None else blank.features)
    except (TypeError, ValueError):
        shown = quoted(cast(object, given))
        raise InputError(f"a blank is {shown}; give (start, end) or (start, end, features), as whole numbers") from None
    if not 0 <= start < end <= steps:
        raise InputError(f"a blank runs from step {start} to before {end}; the series has the steps 0 to {steps - 1}")
    return start, end, [_column(each, names) for each in columns]


def _whole(number: object) -> int:
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise TypeError
    return int(number)


def _column(given: object, names: Sequence[str]) -> int:
    if isinstance(given, str) and given in names:
        return names.index(given)
    if isinstance(given, Integral) and not isinstance(given, bool) and 0 <= int(given) < len(names):
        return int(given)
    raise InputError(f"a blank names the feature {quoted(given)}; the series has {quoted(list(names))}, numbered from 0")


class Prediction(NamedTuple):
    """What the module gave for a series: for every output its name, its place in the flattened tensor, its number and step."""

    names: Sequence[str]
    places: Sequence[int]
    numbers: Sequence[float]
    steps: Sequence[int | None]
    total: int  # of all outputs, also of those without a name


def _output(model: SeriesModel, found: Prediction, wanted: object) -> int:
    names = list(found.names)
    if isinstance(wanted, str) and wanted in names:
        return names.index(wanted)
    if isinstance(wanted, Integral) and not isinstance(wanted, bool) and 0 <= int(wanted) < len(names):
        return int(wanted)
    beyond = (
        f"; of {found.total} outputs, these {len(names)} have names: explain others with whence.relevance(module, x, target="
    )
    more = f"{beyond}(step, output))" if found.total > len(names) else ""
    raise TargetError(f"there is no output {quoted(wanted)}; {model.name} gives {quoted(names)}, numbered from 0{more}")


def _prediction(model: SeriesModel, x: Tensor) -> tuple[Forward, Prediction]:
    """The call of the module, in double precision if it can run in it, and what it gave."""
    weight = next((each for each in model.module.parameters() if each.is_floating_point()), torch.zeros(1))
    forward = Forward(model.module, read(x[None].to(weight.device, weight.dtype)))
    try:
        double = replace(forward.doubled(), inputs=read(x[None].to(weight.device)))
        given, forward = _called(double), double
    except Exception:  # it cannot be copied, insists on single precision, or fails, which the next line reports
        given = _called(forward)
    return forward, _named(model, given, forward)


def _require_memory(model: SeriesModel, forward: Forward) -> None:
    """Refuse a module with time-first layers whose last output depends on the last step alone: it takes steps for samples.

    The steps before it are all changed: the first alone may be forgotten in a long series.
    """
    (x,) = forward.inputs.tensors
    if x.shape[1] == 1 or not ModelParts(model.module).is_time_first:
        return
    other = x.clone()
    other[:, :-1] += 1
    if torch.equal(_called(forward).reshape(-1)[-1:], _called(replace(forward, inputs=read(other))).reshape(-1)[-1:]):
        raise ModelError(
            "the module's recurrent layers have batch_first=False, and its last output depends on the last step alone: it "
            "takes the steps for samples; let its forward read (samples, steps, features)"
        )


def _called(forward: Forward) -> Tensor:
    """The first tensor that the module gives; any failure of the module's becomes one sentence."""
    shape = tuple(forward.inputs.tensors[0].shape)
    try:
        output = forward.predict().output
    except WhenceError:
        raise
    except Exception as error:
        raise ModelError(
            f"the module failed on a series of shape {shape}: {type(error).__name__}: {first_line(error)}"
        ) from error
    found = _first(output)
    if not isinstance(found, Tensor) or not found.is_floating_point() or not found.numel():
        raise ModelError(f"the module gave {describe(output)}; it must give numbers, or a tuple whose first tensor holds them")
    if not bool(found.isfinite().all()):
        raise ModelError("the module's outputs are not finite numbers")
    return found


def _first(output: object) -> object:
    """The first tensor of an output, in the order in which the module gives them."""
    parts: Iterable[object] = ()
    if isinstance(output, Mapping):
        parts = cast(Mapping[object, object], output).values()
    elif isinstance(output, (tuple, list)):
        parts = cast(Sequence[object], output)
    return next((found for found in map(_first, parts) if isinstance(found, Tensor)), cast(object, output))


def _picked(place: int) -> Callable[[Any], Tensor]:
    """A target: one place of the module's first tensor, flattened; there is one sample."""
    return lambda output: cast(Tensor, _first(output)).reshape(1, -1)[:, place]


def _named(model: SeriesModel, given: Tensor, forward: Forward) -> Prediction:
    """A name for every output; of a module that gives some for every step, the last step's come first."""
    steps = forward.inputs.tensors[0].shape[1]
    shape = tuple(given.shape[1:]) if given.dim() > 1 else tuple(given.shape)  # without the axis of the one sample
    if len(shape) > 2 or (given.dim() > 1 and given.shape[0] != 1):
        raise ModelError(
            f"the module gave {describe(given)} for one series of shape (1, {steps}, features); it must read "
            "(samples, steps, features), as batch_first=True does, and give (samples, outputs) or (samples, steps, outputs)"
        )
    rows, columns = shape if len(shape) == 2 else (shape[0], 1) if shape else (1, 1)
    is_by_step = rows == steps and _follows_length(forward, given)
    if is_by_step:
        places = [row * columns + column for row in reversed(range(rows)) for column in range(columns)]
    else:
        places = list(range(rows * columns))
    flat = given.reshape(-1)
    names = _names(model, rows, columns, len(shape), is_by_step=is_by_step)
    places = places[: len(names)]
    of_step = [place // columns if is_by_step else None for place in places]
    return Prediction(names, places, [float(flat[place]) for place in places], of_step, rows * columns)


def _names(model: SeriesModel, rows: int, columns: int, axes: int, *, is_by_step: bool) -> Sequence[str]:
    count = rows * columns
    if model.outputs:
        if len(model.outputs) not in (count, columns if is_by_step else count):
            raise ModelError(f"the module gave {count} outputs; {model.name} names {len(model.outputs)}")
        return model.outputs
    order = [*reversed(range(rows))] if is_by_step else [*range(rows)]
    if count == 1:
        return ["output"]
    if axes == 1 and not is_by_step:
        return [f"output {n}" for n in order[:MOST]]
    word = "step" if is_by_step else "horizon"
    names = (f"{word} {row}" + (f", output {n}" if columns > 1 else "") for row in order for n in range(columns))
    return [name for name, _ in zip(names, range(MOST), strict=False)]


def _follows_length(forward: Forward, given: Tensor) -> bool:
    """Whether the module gives one row per step: then another number of steps gives another number of rows."""
    (x,) = forward.inputs.tensors
    other = x[:, 1:] if x.shape[1] > 1 else torch.cat([x, x], dim=1)
    try:
        return _called(replace(forward, inputs=read(other))).shape != given.shape
    except WhenceError:  # it reads series of one length only
        return False


def _before(result: Result) -> str:
    """The functions at the end of the module before which relevance starts."""
    return " and ".join(dict.fromkeys(each.operation for each in result.choices if "ends the model" in each.why)) or "its end"


def _assembled(
    model: SeriesModel,
    names: Sequence[str],
    found: Prediction,
    index: int,
    result: Result,
    method: Method,
    *,
    reference: Sequence[float],
) -> SeriesExplanation:
    """The explanation in the outputs' unit: z becomes centre + scale · z."""
    count = len(found.names)
    centres, scales = model.output_centre or (0.0,) * count, model.output_scale or (1.0,) * count
    centre, scale = centres[index], scales[index]
    outputs = {name: c + s * z for name, c, s, z in zip(found.names, centres, scales, found.numbers, strict=True)}
    score = centre + scale * float(result.score.reshape(-1)[0])
    output = found.names[index]
    if math.isclose(score, outputs[output], rel_tol=1e-6, abs_tol=1e-9 * abs(scale)):
        outputs[output] = score
    elif not result.choices:  # with one, the score may be the number before a function that ends the module
        raise ModelError(
            f"the module gave {outputs[output]:g}, and {score:g} when it was called again with the same numbers; switch off "
            "what is random in it, or what it remembers between calls"
        )
    absorbed = {name: scale * float(amount.reshape(-1)[0]) for name, amount in result.absorbed.items()}
    if result.explained is not None and centre:
        absorbed["reference level"] = centre
    factor = scale if method.is_signed else scale * scale  # sensitivity is a squared derivative
    relevance = factor * cast(Tensor, result.relevance)[0].double().cpu()
    if not all(map(math.isfinite, (score, *outputs.values(), *absorbed.values(), float(relevance.abs().sum())))):
        raise ModelError(f"output_centre {centre:g} and output_scale {scale:g} make numbers too large; choose a larger unit")
    return SeriesExplanation(
        features=tuple(names),
        relevance=tuple(tuple(row) for row in cast(list[list[float]], relevance.tolist())),
        outputs=outputs,
        output=output,
        score=score,
        method={"name": method.name, **method.settings()},
        reference=tuple(reference),
        absorbed=absorbed,
        unit=model.unit,
        model=model.name,
        choices=tuple(map(str, result.choices)),
        is_signed=method.is_signed,
        output_step=found.steps[index],
        before="" if outputs[output] == score else _before(result),
        doubt=result.doubt,
    )
