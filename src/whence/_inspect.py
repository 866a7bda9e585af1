"""The public function `inspect`: model and inputs in, what relevance will do in the model out. It explains nothing."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from whence._batches import batches, cut
from whence._relevance import ask, require_initialised, required_module, unwrapped
from whence.engine.back import way_back
from whence.engine.head import NO_HEAD, Head, head_of
from whence.engine.held import named_layers
from whence.engine.marks import ModelCall, Node
from whence.engine.refusal import BY_DERIVATIVES, BY_OTHER_INPUTS, is_flat, name_of
from whence.engine.samples import Samples
from whence.engine.scripted import require_python
from whence.engine.starts import Origin, Start, choices_of, path_of, start_of
from whence.engine.words import factors_in_words, rule_in_words
from whence.errors import InputError, NoRuleError, WeightsError, WhenceError
from whence.inspection import INPUTS, Arrow, Flow, Inspection, Part, Row
from whence.methods.following import Following, Ran, following
from whence.methods.forward import Forward, require_finite
from whence.methods.inputs import Given, Inputs, read
from whence.methods.lrp import LRP
from whence.methods.method import Method, Question
from whence.methods.predicting import predicting
from whence.methods.probe import require_whole
from whence.methods.registry import method_of
from whence.methods.target import INDEPENDENT, Target, describe
from whence.methods.weights import require_finite_weights
from whence.models.pipeline import Pipeline
from whence.trees import floats_of

ADVICE = "add a rule with @whence.handles({}), or {}"


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

    It needs no target: relevance is followed from all numbers of the output. Where it can pass, the model is also asked about
    the signs of what it predicts, as with `check="model"` of `relevance`; `doubt` says if it contradicts them. `inputs`,
    `args`, `kwargs`, `call` and `embedding` are those of `relevance`; of a pipeline, `inputs` is a text. If the model returns
    more than scores, pick them with `call`: `call=lambda model, x: model(x)[0]`.

    A model that cannot be followed gives an inspection too: its last row says why. Only wrong inputs raise an error.

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
    """Follow one run of the model, and relevance back through it."""
    require_finite(forward.inputs.tensors)
    empty = Inspection(name, _sizes(forward.inputs), {"name": method.name, **method.settings()}, ())
    try:
        forward = unwrapped(forward)
        require_initialised(forward.parts)
        require_finite_weights(forward.parts)
        require_python(forward.parts)
    except (InputError, WeightsError, NoRuleError) as error:  # it is the model that is refused here
        return replace(empty, parts=(_whole(forward.model, str(error)),))
    with predicting(forward.parts) as state, following(forward, None, method.rules, state) as found:
        try:
            ran = found.ran(is_survey=True, is_safe=True)
        except NoRuleError as error:
            return _unknown(empty, found, str(error))
        try:
            inspection = _surveyed(empty, found, ran, method)
        except (WhenceError, RuntimeError) as error:
            return _unknown(empty, found, str(error))
    return replace(inspection, doubt=_doubt(forward, method)) if inspection.is_explainable else inspection


def _doubt(forward: Forward, method: LRP) -> str | None:
    """What the model itself says of the relevance of what it predicts: its score, its class, or that of the last step."""
    lenient = replace(method, strict=False)
    for target in (None, "predicted", (-1, "predicted")):
        with suppress(WhenceError):
            return ask(forward, Question(target, asks_model=True), lenient).doubt
    return None


def _unknown(empty: Inspection, found: Following, reason: str) -> Inspection:
    """What was followed, and why it is not known where relevance goes."""
    calls = [call for call in found.runs[0].calls if call.outputs]
    parts, _ = _parts([(call, _row(call, "unknown")) for call in calls], found.forward.model)
    return replace(empty, parts=(*parts, _whole(found.forward.model, reason)))


def _sizes(inputs: Inputs) -> str:
    """The inputs in words, with their shapes."""
    return ", ".join(
        f"{name}{'' if tensor.is_floating_point() else ', token ids'} {tuple(tensor.shape)}"
        for name, tensor in zip(inputs.names, inputs.tensors, strict=True)
    )


class UnitOrigin(Origin):
    """A tensor that a survey starts from: every number gets 1, since amounts mean nothing here, and none must be 0."""

    def amounts(self) -> Tensor:
        """The relevance (1, *shape) to start with."""
        return torch.ones_like(self.mask)


Places = Mapping[ModelCall, Collection[str]]


class Survey(NamedTuple):
    """A run, where relevance starts in it, the calls that it passes, where it is absorbed, and why some calls refuse it."""

    ran: Ran
    outputs: Sequence[Node]  # of what the model returned, as far as it depends on the inputs
    start: Start
    path: Mapping[ModelCall, None]
    head: Head
    places: Places
    refused: dict[ModelCall, str]

    def received(self, call: ModelCall) -> Sequence[Node]:
        """The inputs of a call that relevance goes on to."""
        return tuple(dict.fromkeys(call.sources)) if call in self.path else ()


def _survey_of(ran: Ran, method: LRP) -> Survey:
    """Where relevance starts and what it passes: what is known before anything goes back."""
    run = ran.run
    found = [(tensor, run.look(tensor)) for tensor in floats_of(ran.output) if tensor.is_floating_point()]
    live = [(tensor, mark) for tensor, mark in found if mark is not None and mark.is_live]
    starts = [start_of(run, tensor, mark, torch.ones_like(tensor.detach())[None]) for tensor, mark in live]
    origins = {id(origin.tensor): UnitOrigin(*origin) for start in starts for origin in start.origins}
    start = Start(list(origins.values()), list(dict.fromkeys(end for start in starts for end in start.ends)))
    path = dict.fromkeys(path_of(run.calls, start.nodes))
    head = head_of(run.calls, path) if method.head != "epsilon" else Head()
    return Survey(
        ran, [mark.node for _, mark in live], start, path, head, cast(Places, run.places), _refused(start, path, head, method)
    )


def _refused(start: Start, path: Iterable[ModelCall], head: Head, method: LRP) -> dict[ModelCall, str]:
    """Why relevance cannot pass some calls."""
    refused: dict[ModelCall, str] = {}
    for call in path:
        if method.strict and call.choice is not None:
            refused[call] = f"strict=True makes no choice ({call.choice.gate}; {call.choice.why})"
        if call.refused is not None:
            refused[call] = call.refused or "it has no rule"
    refused.update((call, f'head="{method.head}" cannot be applied: {reason}') for call, reason in head.refused.items())
    if method.strict:
        refused.update((end, "it ends the model, and strict=True does not start before it") for end in start.ends)
    return refused


def _surveyed(empty: Inspection, found: Following, ran: Ran, method: LRP) -> Inspection:
    survey = _survey_of(ran, method)
    if survey.head.layers and not survey.head.refused:
        numbers = [n for n, call in enumerate(ran.run.calls) if call in survey.head.layers]
        survey = _survey_of(found.ran(is_survey=True, is_safe=True, head=numbers), method)
    model, (run, output, _) = found.forward.model, survey.ran
    wrong = _wrong_whole(found, survey)
    if not any(tensor.is_floating_point() for tensor in floats_of(output)):
        wrong = f"the model returned {describe(output)}, and no numbers; pick its scores with call=lambda model, x: …"
    wrong = wrong or ("" if survey.outputs else INDEPENDENT)
    wrong = wrong or (NO_HEAD.format(method.head) if method.head != "epsilon" and survey.head.is_empty else "")
    if survey.outputs:
        run.samples = Samples(1, [None] * len(run.leaves))
        try:
            way_back(run, survey.start)
        except (WhenceError, RuntimeError) as error:
            wrong = wrong or str(error)
    survey.refused.update((call, call.refused or "it has no rule") for call in survey.path if call.refused is not None)
    flows = _flows(survey)
    rows = [(call, _row(call, flows[call], survey)) for call in run.calls]
    rows = [(call, _head_row(row, method) if call in survey.head.layers else row) for call, row in rows]
    parts, homes = _parts(rows, model)
    parts += [_whole(model, wrong)] if wrong else []
    choices = choices_of(survey.path.keys(), survey.start.ends)
    return replace(empty, parts=tuple(parts), arrows=_arrows(homes, len(parts), survey, flows), choices=choices)


def _wrong_whole(found: Following, survey: Survey) -> str:
    """Why the model cannot be explained although every call can: samples are mixed, or something was not seen."""
    output = survey.ran.output
    if not isinstance(output, Tensor):
        return ""
    try:
        require_whole(found, survey.ran)
        # samples cannot be followed through calls without a rule
        if survey.outputs and not survey.refused and output.dim() <= 3:
            _require_separate(found, survey.ran, output)
    except (WhenceError, RuntimeError) as error:
        return str(error)
    return ""


def _require_separate(found: Following, ran: Ran, output: Tensor) -> None:
    """Refuse a model whose samples influence each other, whatever a target may be: a class, or a step and a class."""
    targets: Sequence[Target] = ((0,), (0,), (0, (0, 0)), ((0, 0),))[output.dim()]
    wrong: list[InputError] = []
    for target in targets:
        found.target = target
        try:
            found.picked(lambda run, start: None, ran=ran)
            return
        except InputError as error:
            wrong.append(error)
    raise wrong[0]


def _flows(survey: Survey) -> dict[ModelCall, Flow]:
    """What relevance does at every call."""
    after = _makers(survey.outputs, until=survey.start.nodes)
    used = _makers(survey.outputs)

    def flow(call: ModelCall) -> Flow:
        if call in survey.path:
            return "passes"
        if not any(node.is_live for node in call.outputs):
            return "constant"
        return "after" if call in after else "gate" if call in used else "unused"

    return {call: flow(call) for call in survey.ran.run.calls}


def _makers(nodes: Iterable[Node], *, until: Collection[Node] = ()) -> set[ModelCall]:
    """All calls that values were computed by, back to the values `until`."""
    found, waiting = set[ModelCall](), list(nodes)
    while waiting:
        node = waiting.pop()
        if node in until or node.call is None or node.call in found:
            continue
        found.add(node.call)
        waiting += node.call.inputs
    return found


def _row(call: ModelCall, flow: Flow, survey: Survey | None = None) -> Row:
    """The row of one call."""
    refused = "" if survey is None else survey.refused.get(call, "")
    choice = call.choice if flow == "passes" and not refused else None
    gate, source, why = factors_in_words(call, () if survey is None else survey.received(call))
    made = call.outputs[0].gate
    if flow == "gate" and made is not None:
        gate, source, why = "its result", "", made.why
    return Row(
        call.layer,
        call.name,
        rule_in_words(call),
        flow,
        gate if flow in ("gate", "passes") else "",
        source,
        why if flow in ("gate", "passes") else "",
        () if survey is None else tuple(survey.places.get(call, ())),
        "" if choice is None else f"{choice.gate}; {choice.why}",
        refused,
        _advice(call, refused),
    )


def _head_row(row: Row, method: LRP) -> Row:
    return row._replace(rule=f"{row.rule}, {'γ' if method.head == 'gamma' else 'αβ'} rule")


def _advice(call: ModelCall, refused: str) -> str:
    if not refused:
        return ""
    if refused.startswith("head="):
        return 'use head="epsilon"'
    if refused.startswith("strict=True"):
        return "mark the gate with whence.gate(tensor), or leave strict=True out"
    if "strict=True" in refused:
        return "let the model return the scores before it, or leave strict=True out"
    way_out = BY_OTHER_INPUTS if call.cut or is_flat(call.function, refused) else BY_DERIVATIVES
    return ADVICE.format(name_of(call.function), way_out)


def _whole(model: nn.Module, reason: str) -> Part:
    """A part that says why the model as a whole is refused."""
    return Part("", type(model).__name__, (Row("", "", "cannot be explained", "unknown", refused=reason),))


@dataclass(eq=False)
class Draft:
    """A part while it is put together: its rows by what makes them one kind, and their calls."""

    layer: str
    rows: dict[Row, Row]


def _parts(given: Sequence[tuple[ModelCall, Row]], model: nn.Module) -> tuple[list[Part], dict[ModelCall, int]]:
    """The parts of a run, and the number of each call's part.

    A row joins an earlier one of its kind if no layer that runs only once runs in between: that is a loop. Otherwise it goes
    into the last part, or into a new one if that is of another layer.
    """
    times = Counter(layer for layer, _ in groupby(given, key=lambda each: each[0].layer))
    drafts, homes = list[Draft](), dict[ModelCall, int]()
    for call, row in given:
        home = _earlier(drafts, row, times)
        if home is None:
            if not drafts or drafts[-1].layer != row.layer:
                drafts.append(Draft(row.layer, {}))
            home = len(drafts) - 1
        kind, rows = _kind(row), drafts[home].rows
        rows[kind] = _joined(rows[kind], row) if kind in rows else row
        homes[call] = home
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


def _arrows(homes: Mapping[ModelCall, int], count: int, survey: Survey, flows: Mapping[ModelCall, Flow]) -> tuple[Arrow, ...]:
    """The arrows between parts; that of a gate is left out where relevance goes too."""

    def home(node: Node) -> int:
        return INPUTS if node.call is None else homes[node.call]

    found = {Arrow(count, home(node)): None for node in survey.start.nodes}
    for call, here in homes.items():
        received = survey.received(call)
        found.update((Arrow(here, home(node)), None) for node in received)
        if flows[call] in ("passes", "gate"):
            gates = [node for node in call.inputs if node.is_live and node not in received]
            found.update((Arrow(here, home(node), "gate"), None) for node in gates)
    return tuple(a for a in found if a.start != a.end and (a.kind == "relevance" or Arrow(a.start, a.end) not in found))
