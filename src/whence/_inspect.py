"""The public function `inspect`: model and inputs in, what relevance will do in the model out. It explains nothing."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from whence._batches import batches, cut
from whence._relevance import require_initialised, required_module, unwrapped
from whence.errors import InputError, NoRuleError, WeightsError, WhenceError
from whence.inspection import INPUTS, Arrow, Flow, Inspection, Part, Row
from whence.interpreter.backward.path import Start, choices_of, starts_of
from whence.interpreter.backward.samples import find_samples
from whence.interpreter.backward.survey import Survey
from whence.interpreter.record.layers import named_layers
from whence.interpreter.record.refusal import name_of
from whence.interpreter.record.step import Step, Trace, Value
from whence.interpreter.rules.head import NO_HEAD, Head, head_of
from whence.interpreter.rules.words import factors_in_words, rule_in_words
from whence.methods.forward import Forward, require_finite
from whence.methods.inputs import Given, Inputs, read
from whence.methods.lrp import LRP
from whence.methods.method import Method, is_time_first
from whence.methods.predicting import predicting
from whence.methods.probe import Randomness, require_whole
from whence.methods.recording import Record, lie_along, recording
from whence.methods.registry import method_of
from whence.methods.state import State
from whence.methods.target import INDEPENDENT, Target, batch_axes, describe, likeliest_first, mixed_samples
from whence.methods.weights import require_finite_weights
from whence.models.pipeline import Pipeline
from whence.trees import floats_of

ADVICE = "add a rule with @whence.handles({}), or use a method that needs no rules, such as method=whence.GradientXInput()"


def inspect(
    model: nn.Module | Pipeline,
    inputs: Given | str,
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    call: Callable[[Any, Any], object] | None = None,
    embedding: str | None = None,
    method: Method | str | None = None,
) -> Inspection:
    """Show what relevance will do in a model: which rule every operation follows, and where relevance is absorbed or refused.

    It needs no target: relevance is followed from all numbers of the output. `inputs`, `args`, `kwargs`, `call` and `embedding`
    are those of `relevance`; of a pipeline, `inputs` is a text. If the model returns more than scores, pick them with `call`:
    `call=lambda model, x: model(x)[0]`.

    A model that cannot be recorded gives an inspection too: its last row says why. Only wrong inputs raise an error.

        inspection = whence.inspect(model, inputs)
        inspection.is_explainable, inspection.choices, inspection.refused
    """
    chosen = method_of(method)
    if not isinstance(chosen, LRP):
        raise InputError(f"method is {type(chosen).__name__}, which needs no rules, so there is nothing to inspect; use LRP()")
    if isinstance(model, Pipeline):
        return inspected(_of_text(model, inputs), chosen, name=model.name)
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs or {}, Mapping):
        raise InputError("args is a tuple of further arguments of the model, kwargs a dictionary of them")
    if call is not None and (not callable(call) or args or kwargs):
        raise InputError("call is a function of the model and the inputs, and takes the place of args and kwargs")
    forward = Forward(required_module(model), read(inputs), args, kwargs or {}, embedding, call)
    return inspected(forward, chosen, name=type(model).__name__)


def _of_text(pipeline: Pipeline, text: object) -> Forward:
    if not isinstance(text, str):
        raise InputError(f"inputs is a {type(text).__name__}; for a pipeline, give a text")
    ((_, forward),) = batches(pipeline, [cut(pipeline, text)], size=1)
    return forward


def inspected(forward: Forward, method: LRP, *, name: str) -> Inspection:
    """Record one run of the model, and follow relevance through the record."""
    require_finite(forward.inputs.tensors)
    empty = Inspection(name, _sizes(forward.inputs), {"name": method.name, **method.settings()}, ())
    try:
        forward = unwrapped(forward)
        require_initialised(forward.model)
        require_finite_weights(forward.model)
    except (InputError, WeightsError) as error:  # it is the model that is refused here
        return replace(empty, parts=(_whole(forward.model, str(error)),))
    before, failures = Randomness(), list[str]()
    cautious = replace(forward, caller=_cautious(forward, failures))
    with predicting(forward.model) as state, torch.no_grad(), recording(cautious, method.product) as record:
        try:
            recorded = record(None)
        except InputError:  # token ids that the run did not come to
            if not failures:
                raise
            return replace(empty, parts=(_whole(forward.model, failures[0]),))
        if failures:
            return _unknown(empty, forward.model, recorded, failures[0])
        try:
            return _surveyed(empty, forward, recorded, method, state, before)
        except (WhenceError, RuntimeError) as error:
            return _unknown(empty, forward.model, recorded, str(error))


def _cautious(forward: Forward, failures: list[str]) -> Callable[[nn.Module, Any], object]:
    """Calls a model so that an operation which cannot be recorded ends the run, but not the record."""

    def call(model: nn.Module, form: object) -> object:
        try:
            return forward._called(form) if forward.caller is None else forward.caller(model, form)
        except NoRuleError as error:
            failures.append(str(error))
            return None

    return call


def _unknown(empty: Inspection, model: nn.Module, recorded: Record, reason: str) -> Inspection:
    """What was recorded, and why it is not known where relevance goes."""
    parts, _ = _parts([(step, _row(step, "unknown")) for step in recorded.recorder.trace.steps], model)
    return replace(empty, parts=(*parts, _whole(model, reason)))


def _sizes(inputs: Inputs) -> str:
    """The inputs in words, with their shapes."""
    return ", ".join(
        f"{name}{'' if tensor.is_floating_point() else ', token ids'} {tuple(tensor.shape)}"
        for name, tensor in zip(inputs.names, inputs.tensors, strict=True)
    )


def _surveyed(
    empty: Inspection, forward: Forward, recorded: Record, method: LRP, state: State, before: Randomness
) -> Inspection:
    trace = recorded.recorder.trace
    tensors = [tensor for tensor in floats_of(recorded.output) if tensor.is_floating_point()]
    found = [recorded.recorder.value_of(tensor) for tensor in tensors]
    outputs = [value for value in found if value is not None and value.is_live]
    starts = [starts_of(trace, value, torch.ones_like(value.tensor)[None]) for value in outputs]
    begin = Start({value: mask for start in starts for value, mask in start.masks.items()}, _ends(starts))
    head = head_of(trace, set(trace.steps)) if method.head != "epsilon" else Head()
    survey = Survey(trace, method.rules, is_strict=method.strict, head=head.sums)
    survey.look(begin.masks)
    head = head.among(survey.received)
    survey.refused.update((step, f'head="{method.head}" cannot be applied: {reason}') for step, reason in head.refused.items())
    if method.strict:
        survey.refused.update((end, "it ends the model, and strict=True does not start before it") for end in begin.ends)
    flows = _flows(trace, outputs, begin, survey)
    rows = [(step, _row(step, flows[step], survey)) for step in trace.steps]
    rows = [(step, _head_row(row, method) if step in head.layers else row) for step, row in rows]
    parts, homes = _parts(rows, forward.model)
    choices = choices_of(trace, survey.received.keys(), begin.ends)
    if not tensors:
        wrong = f"the model returned {describe(recorded.output)}, and no numbers; pick its scores with call=lambda model, x: …"
    else:
        wrong = _wrong_whole(forward, recorded, survey, state, before) or ("" if outputs else INDEPENDENT)
        wrong = wrong or (NO_HEAD.format(method.head) if method.head != "epsilon" and head.is_empty else "")
    parts += [_whole(forward.model, wrong)] if wrong else []
    return replace(empty, parts=tuple(parts), arrows=_arrows(homes, len(parts), begin, survey, flows), choices=choices)


def _ends(starts: Iterable[Start]) -> list[Step]:
    return list(dict.fromkeys(end for start in starts for end in start.ends))


def _wrong_whole(forward: Forward, recorded: Record, survey: Survey, state: State, before: Randomness) -> str:
    """Why the model cannot be explained although every operation can: samples are mixed, or something was not recorded."""
    output, recorder = recorded.output, recorded.recorder
    if not isinstance(output, Tensor):
        return ""
    value = recorder.value_of(output)
    try:
        require_whole(forward, recorder, output, value, None, state=state, before=before)
        # samples cannot be followed through calls without a rule
        if value is not None and value.is_live and not survey.refused and output.dim() <= 3:
            _require_separate(forward, recorded, output, value, survey)
    except (WhenceError, RuntimeError) as error:
        return str(error)
    return ""


def _require_separate(forward: Forward, recorded: Record, output: Tensor, value: Value, survey: Survey) -> None:
    """Refuse a model whose samples influence each other."""
    leaves = [leaf.tensor for leaf in recorded.recorder.trace.leaves]
    picks: tuple[Target, ...] = (None, 0, (0, 0))  # what a target may be: nothing, a class, a step and a class
    time_first = is_time_first(forward.model)
    axes = list(dict.fromkeys(a for pick in picks for a in batch_axes(output, pick, inputs=leaves, time_first=time_first)))
    for axis in likeliest_first([axis for axis in axes if axis is None or axis < output.dim()], output):
        samples = find_samples(
            recorded.recorder.trace,
            1 if axis is None else output.shape[axis],
            known=recorded.owners,
            required=survey.received.keys(),
            accept=lambda samples, axis=axis: lie_along(axis, value, samples),
        )
        if samples is not None:
            return
    raise mixed_samples(output, axes, leaves)


def _flows(trace: Trace, outputs: Iterable[Value], begin: Start, survey: Survey) -> dict[Step, Flow]:
    """What relevance does at every step."""
    after = _makers(outputs, until=begin.masks.keys())
    used = _makers(outputs)

    def flow(step: Step) -> Flow:
        if step in survey.received:
            return "passes"
        if not any(value.is_live for value in step.outputs):
            return "constant"
        return "after" if step in after else "gate" if step in used else "unused"

    return {step: flow(step) for step in trace.steps}


def _makers(values: Iterable[Value], *, until: Collection[Value] = ()) -> set[Step]:
    """All steps that values were computed by, back to the values `until`."""
    found, waiting = set[Step](), list(values)
    while waiting:
        value = waiting.pop()
        if value in until or value.step is None or value.step in found:
            continue
        found.add(value.step)
        waiting += value.step.inputs
    return found


def _row(step: Step, flow: Flow, survey: Survey | None = None) -> Row:
    """The row of one step."""
    reached = survey is not None and step in survey.received
    choice = step.rule.choice(step) if reached else None
    refused = "" if survey is None else survey.refused.get(step, "")
    gate, source, why = factors_in_words(step, survey.received[step] if survey is not None and reached else ())
    made = step.outputs[0].gate
    if flow == "gate" and made is not None:
        gate, source, why = "its result", "", made.why
    return Row(
        step.layer,
        step.name,
        rule_in_words(step),
        flow,
        gate if flow in ("gate", "passes") else "",
        source,
        why if flow in ("gate", "passes") else "",
        () if survey is None else tuple(survey.places.get(step, ())),
        "" if choice is None or refused else f"{choice.gate}; {choice.why}",
        refused,
        _advice(step, refused),
    )


def _head_row(row: Row, method: LRP) -> Row:
    return row._replace(rule=f"{row.rule}, {'γ' if method.head == 'gamma' else 'αβ'} rule")


def _advice(step: Step, refused: str) -> str:
    if not refused:
        return ""
    if refused.startswith("head="):
        return 'use head="epsilon"'
    if refused.startswith("strict=True"):
        return "mark the gate with whence.gate(tensor), or leave strict=True out"
    if "strict=True" in refused:
        return "let the model return the scores before it, or leave strict=True out"
    return ADVICE.format(name_of(step.function))


def _whole(model: nn.Module, reason: str) -> Part:
    """A part that says why the model as a whole is refused."""
    return Part("", type(model).__name__, (Row("", "", "cannot be explained", "unknown", refused=reason),))


@dataclass(eq=False)
class Draft:
    """A part while it is put together: its rows by what makes them one kind, and their steps."""

    layer: str
    rows: dict[Row, Row]


def _parts(given: Sequence[tuple[Step, Row]], model: nn.Module) -> tuple[list[Part], dict[Step, int]]:
    """The parts of a run, and the number of each step's part.

    A row joins an earlier one of its kind if no layer that runs only once runs in between: that is a loop. Otherwise it goes
    into the last part, or into a new one if that is of another layer.
    """
    times = Counter(layer for layer, _ in groupby(given, key=lambda each: each[0].layer))
    drafts, homes = list[Draft](), dict[Step, int]()
    for step, row in given:
        home = _earlier(drafts, row, times)
        if home is None:
            if not drafts or drafts[-1].layer != row.layer:
                drafts.append(Draft(row.layer, {}))
            home = len(drafts) - 1
        kind, rows = _kind(row), drafts[home].rows
        rows[kind] = _joined(rows[kind], row) if kind in rows else row
        homes[step] = home
    kinds = {name: _class_name(module) for name, module in named_layers(model)}
    return [Part(each.layer, kinds.get(each.layer, ""), tuple(each.rows.values())) for each in drafts], homes


def _earlier(drafts: Sequence[Draft], row: Row, times: Mapping[str, int]) -> int | None:
    """The number of the part that has a row of this kind already, if only layers that run repeatedly ran since."""
    kind = _kind(row)
    for number in reversed(range(len(drafts))):
        if drafts[number].layer == row.layer and kind in drafts[number].rows:
            return number
        if times[drafts[number].layer] == 1:
            return None
    return None


def _kind(row: Row) -> Row:
    """What rows of one kind have in common; sources and absorbed amounts may differ, as in the first turn of a loop."""
    return row._replace(source="", absorbs=(), times=1)


def _joined(one: Row, other: Row) -> Row:
    sources = dict.fromkeys(filter(None, (*one.source.split(", "), *other.source.split(", "))))
    absorbs = dict.fromkeys((*one.absorbs, *other.absorbs))
    return one._replace(source=", ".join(sources), absorbs=tuple(absorbs), times=one.times + other.times)


def _class_name(module: nn.Module) -> str:
    kind = type(module)
    return f"nn.{kind.__name__}" if kind.__module__.startswith("torch.nn.") else kind.__name__


def _arrows(
    homes: Mapping[Step, int], count: int, begin: Start, survey: Survey, flows: Mapping[Step, Flow]
) -> tuple[Arrow, ...]:
    """The arrows between parts; that of a gate is left out where relevance goes too."""

    def home(value: Value) -> int:
        return INPUTS if value.step is None else homes[value.step]

    found = {Arrow(count, home(value)): None for value in begin.masks}
    for step, here in homes.items():
        received = survey.received.get(step, {})
        found.update((Arrow(here, home(value)), None) for value in received)
        if flows[step] in ("passes", "gate"):
            gates = [value for value in step.inputs if value.is_live and value not in received]
            found.update((Arrow(here, home(value), "gate"), None) for value in gates)
    return tuple(a for a in found if a.start != a.end and (a.kind == "relevance" or Arrow(a.start, a.end) not in found))
