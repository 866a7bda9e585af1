"""Layer-wise relevance propagation: the paper's method, on a recorded forward pass."""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from types import CellType, FunctionType
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from whence.choice import Choice
from whence.equations import Product, Rules, Stabiliser
from whence.errors import InputError, TargetError
from whence.interpreter.backward.backward_pass import BackwardPass
from whence.interpreter.backward.path import Start, choices_of, require_strict, required_steps, scores_at, starts_of
from whence.interpreter.backward.samples import Samples, find_samples, follow, owners_by_derivative
from whence.interpreter.record.layers import Layers, leave, named_layers
from whence.interpreter.record.recorder import Recorder
from whence.interpreter.record.scripted import require_python
from whence.interpreter.record.step import MixedSamplesError, Value
from whence.interpreter.rules.table import TABLE
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question, is_time_first
from whence.methods.predicting import predicting
from whence.methods.probe import Randomness, replayed, require_whole
from whence.methods.state import State
from whence.methods.target import (
    INDEPENDENT,
    Selection,
    Target,
    batch_axes,
    is_against_rest,
    likeliest_first,
    mixed_samples,
    require_scores,
    select,
)
from whence.result import Result
from whence.trees import leaves_of, mapped


class Record(NamedTuple):
    """The record of a forward pass, its output (or what a callable target made of it), and the outputs of the layer `at`."""

    recorder: Recorder
    output: object
    middle: list[object]
    owners: Sequence[Tensor | None]  # of the rows of every explained tensor, if known beforehand


@contextmanager
def recording(
    forward: Forward, product: Product = "all", *, at: str | None = None, state: State | None = None
) -> Generator[Callable[[Target], Record]]:
    """A function that runs the model once and returns its record, which is valid inside the context.

    The parts of a record refer to each other. These cycles are broken at the end, also after an error, so that memory is freed
    at once and not by the garbage collector.
    """
    tensors = forward.inputs.copies()
    layers = Layers(forward.model, kept=at)
    recorder = Recorder(tensors, forward.model, layers, TABLE, product=product)
    recorder.ids = forward.ids_of(tensors, recorder.start)
    recorder.accept(
        (forward.args, dict(forward.kwargs), [] if state is None else state.tensors(), _closed_over(forward.caller))
    )

    def run(target: Target) -> Record:
        layers.snapshot = recorder.snapshot
        with layers.watched(), recorder:
            output = forward.call(tensors, recorder.ids)
            found = target(output) if callable(target) else output
        return Record(recorder, found, layers.outputs, forward.owners(recorder.ids))

    try:
        yield run
    finally:
        layers.snapshot = leave
        recorder.trace.forget()


def _closed_over(caller: object) -> list[object]:
    """What a user's function holds: constants, where it calls the model."""
    if not isinstance(caller, FunctionType):
        return []
    cells = [cell.cell_contents for cell in caller.__closure__ or () if cell != CellType()]
    named = [caller.__globals__.get(name) for name in caller.__code__.co_names]
    return [*cells, *(caller.__defaults__ or ()), *(caller.__kwdefaults__ or {}).values(), *named]


def input_axis(forward: Forward, samples: int) -> int | None:
    """The axis of the first input along which that many samples lie, found by following them; None if there is no such axis."""
    with predicting(forward.model), torch.no_grad(), recording(forward) as record:
        recorder, _, _, owners = record(None)
        trace = recorder.trace
        found = find_samples(trace, samples, known=owners)
        return None if found is None else found.axis_of(trace.leaves[0])


def require_layer(model: nn.Module, name: str) -> None:
    """Refuse a name that no layer of the model has."""
    known = [each for each, _ in named_layers(model) if each]
    if not isinstance(name, str):
        raise InputError(f"at is a {type(name).__name__}; give the name of a layer, such as at={known[0]!r}")
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.3) or known[:5]
        raise InputError(f"there is no layer {name!r} in the model; it has {', '.join(near) or 'none'}")


def _ask_for(back: BackwardPass, at: str | None, middle: Sequence[object]) -> None:
    """Request the relevance of a layer's output. Relevance stops there, unless the layer runs several times."""
    if at is not None and not any(isinstance(leaf, (Value, Tensor)) for leaf in leaves_of(middle)):
        given = f"it gave a {type(middle[0]).__name__}" if middle else "it does not run"
        raise InputError(f"the layer {at!r} gives no tensor to explain: {given}")
    back.stops = {leaf: None for leaf in leaves_of(middle) if isinstance(leaf, Value)}
    back.goes_on = len(middle) > 1


def _lie_along(axis: int | None, scores: Value, samples: Samples) -> bool:
    """Whether the samples of the scores lie along an axis; raises if the scores are made of constants alone."""
    if samples.owners is not None and not samples.owners[scores].any():
        raise TargetError(INDEPENDENT)
    return samples.count == 1 or samples.axis_of(scores) == axis


def _pairs(found: Sequence[Tensor], back: BackwardPass) -> Iterable[tuple[Tensor, Value]]:
    return zip(found, back.trace.leaves, strict=True)


def _amounts(absorbed: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    """The absorbed amounts that are not all 0; one GPU synchronisation for all."""
    if not absorbed:
        return []
    is_any = cast(list[bool], torch.stack(list(absorbed.values())).flatten(1).any(1).tolist())
    return [each for each, is_there in zip(absorbed.items(), is_any, strict=True) if is_there]


def _explained_by(back: BackwardPass, found: Sequence[Tensor], zero: Tensor, *, at: str | None) -> Tensor:
    """The relevance (K, B) of the inputs, or of the layer `at`; what bypassed that layer counts as absorbed by the inputs."""
    totals = back.samples.totals
    # a sum over the last axis is spread along it again, so that it is counted once
    shares = [
        r if r.shape[1:] == leaf.tensor.shape else (r / leaf.tensor.shape[-1]).expand(len(r), *leaf.tensor.shape)
        for r, leaf in _pairs(found, back)
    ]
    explained = sum((totals(r, leaf) for r, leaf in _pairs(shares, back)), start=zero)
    if at is None or back.goes_on:
        return explained
    if explained.any():
        back.absorbed["inputs"] = explained
    return sum((totals(r, stop) for stop, r in back.stops.items() if r is not None), start=zero)


def _scores_of(output: Tensor, start: Start) -> Tensor:
    """The scores of all classes: the model's output, or what it was before the function that ends the model."""
    values = list(start.masks)
    return values[0].tensor if len(values) == 1 and start.ends and values[0].tensor.shape == output.shape else output


def _before_end(recorder: Recorder, value: Value, output: Tensor) -> Tensor:
    """The scores of all classes before the function that ends the model, for their probabilities."""
    start = starts_of(recorder.trace, value, torch.ones_like(output)[None])
    found = _scores_of(output, start)
    if start.ends and found is output:
        raise TargetError(
            f"the scores before the {start.ends[0].name} that ends the model are not one tensor like its output, so there are "
            'no probabilities for contrast(a, "rest"); let the model return its scores, or use contrast(a, b)'
        )
    return found


def _middle(outputs: Sequence[object], back: BackwardPass, selection: Selection) -> object:
    """The relevance of a layer's output, in the same form; for several calls a tuple."""

    def of(leaf: object) -> object:
        if not isinstance(leaf, Value):  # whole numbers stay as they are; what does not depend on the inputs has no relevance
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
                return leaf
            return selection.led(leaf.new_zeros(len(selection.mask), *leaf.shape))
        r = back.stops[leaf]
        return selection.led(leaf.tensor.new_zeros(len(selection.mask), *leaf.tensor.shape) if r is None else r)

    found = [mapped(of, output) for output in outputs]
    return found[0] if len(found) == 1 else tuple(found)


@dataclass(frozen=True)
class LRP(Method):
    """Layer-wise relevance propagation with the paper's rule for gates.

    The paper's own LRP is `LRP()`, its LRP_cons `LRP(delta=1.0)`, the authors' released code `LRP(stabiliser="absorbed")`.
    """

    name = "lrp"
    label = "LRP"
    answers = frozenset({"direction", "at", "memory"})
    sums_by_step = True

    epsilon: float = 1e-3
    delta: float = 0.0
    stabiliser: Stabiliser = "shared"
    product: Product = "all"
    strict: bool = False  # refuse a model that needs a choice, such as which of two factors is the gate, instead of choosing

    def __post_init__(self) -> None:
        if not isinstance(self.strict, bool):
            raise InputError(f"strict is {self.strict!r}; it must be True or False")
        for name in ("epsilon", "delta"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), (int, float)):
                raise InputError(f"{name} is {getattr(self, name)!r}; it must be a number")
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon is {self.epsilon}; a stabiliser must be a finite number ≥ 0, such as 0.001")
        if not 0 <= self.delta <= 1:
            raise InputError(f"delta is {self.delta}; the part of a bias that is shared out lies between 0 and 1")
        if self.stabiliser not in ("shared", "absorbed"):
            raise InputError(f'stabiliser is {self.stabiliser!r}; it is "shared" (the paper) or "absorbed" (the released code)')
        if self.product not in ("all", "half", "prop", "abs"):
            raise InputError(f'product is {self.product!r}; a product follows "all" (the paper), "half", "prop" or "abs"')

    @property
    def rules(self) -> Rules:
        """The rules with this method's settings."""
        return Rules(self.epsilon, self.delta, self.stabiliser, self.product)

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Record one forward pass, then hand the score back through it."""
        target, at = question.target, question.at
        require_python(forward.model)
        if at is not None:
            require_layer(forward.model, at)
        if question.memory and not any(isinstance(module, nn.RNNBase) for module in forward.model.modules()):
            raise InputError("memory= tells of nn.LSTM, nn.GRU and nn.RNN layers, and the model has none; use at= for a cell")
        before = Randomness()
        with (
            predicting(forward.model) as state,
            torch.no_grad(),
            recording(forward, self.product, at=at, state=state) as record,
        ):
            recorded = record(target)
            require_finite([leaf.tensor for leaf in recorded.recorder.trace.leaves])
            trace, output = recorded.recorder.trace, recorded.output
            selection, samples, start, choices = self._explained(recorded, target, forward, state, before)
            starts = scores_at(start)
            back = BackwardPass(trace, self.rules, samples, direction=question.direction)
            back.memory, back.by_step = {} if question.memory else None, question.by_step
            _ask_for(back, at, recorded.middle)
            found = back.run(starts)
            scores = torch.stack([samples.totals(amount, value) for value, amount in starts]).sum(0)
            self._require_finite(found, back.absorbed)
            explained = _explained_by(back, found, torch.zeros_like(scores), at=at)
            gap = scores - explained - sum(back.absorbed.values(), start=torch.zeros_like(scores))
            gaps: dict[str, Tensor] = {}
            if not (gap.abs() <= 100 * torch.finfo(gap.dtype).eps ** 0.75 * scores.abs().clamp(min=1)).all():
                audit = BackwardPass(trace, self.rules, samples, audit=True)
                audit.run(starts)
                gaps = audit.gaps
            whole = forward.inputs.wrapped([selection.led(r) for r in found], len(selection.lead))
            result = Result(
                relevance=whole if at is None else _middle(recorded.middle, back, selection),
                score=selection.shaped(scores),
                target=selection.target,
                method=self,
                absorbed={name: selection.shaped(amount) for name, amount in _amounts(back.absorbed)},
                explained=selection.shaped(explained),
                memory={name: selection.shaped(amount) for name, amount in (back.memory or {}).items()},
                gaps={name: selection.shaped(amount) for name, amount in gaps.items()},
                output=_scores_of(output, start) if isinstance(output, Tensor) and not callable(target) else None,
                choices=choices,
            )
            if question.check and isinstance(output, Tensor):
                value = recorded.recorder.value_of(output)
                require_whole(
                    forward, recorded.recorder, output, value, target, state=state, before=before, mask=selection.mask
                )
        return result.by_step() if question.by_step else result

    def _require_finite(self, found: Sequence[Tensor], absorbed: Mapping[str, Tensor]) -> None:
        if not all(math.isfinite(r.sum().item()) or bool(r.isfinite().all()) for r in (*found, *absorbed.values())):
            raise InputError(
                f"the relevance is not finite: with epsilon = {self.epsilon:g} and product = {self.product!r} amounts "
                f"grew beyond what {found[0].dtype} holds; use another epsilon, double precision, or another product rule"
            )

    def _explained(
        self, record: Record, target: Target, forward: Forward, state: State, before: Randomness
    ) -> tuple[Selection, Samples, Start, tuple[Choice, ...]]:
        """The scores to explain, the samples they belong to, where relevance starts, and what had to be decided."""
        recorder = record.recorder
        leaves = [leaf.tensor for leaf in recorder.trace.leaves]
        scores = require_scores(record.output, target, inputs=leaves)
        value = recorder.value_of(scores)
        if value is None or not value.is_live:
            require_whole(forward, recorder, scores, value, target, state=state, before=before)
            raise TargetError(INDEPENDENT)
        picks = None if callable(target) else target
        axes = batch_axes(scores, picks, inputs=leaves, time_first=is_time_first(forward.model))
        before_end = _before_end(recorder, value, scores) if is_against_rest(picks) else None
        for axis in likeliest_first(axes, scores):
            is_wrong = False
            try:
                selection = select(scores, picks, batch_axis=axis, before=before_end)
            except TargetError:  # it counts only if the samples do lie along this axis
                selection, is_wrong = Selection(torch.ones_like(scores)[None], axis, picks), True
            start = starts_of(recorder.trace, value, selection.mask)
            if self.strict:
                require_strict(start.ends)
            required = required_steps(recorder.trace, start.masks.keys(), is_strict=self.strict)
            samples = find_samples(
                recorder.trace,
                1 if axis is None else scores.shape[axis],
                known=record.owners,
                required=required,
                accept=lambda samples, axis=axis: _lie_along(axis, value, samples),
            )
            if samples is not None and is_wrong:
                select(scores, picks, batch_axis=axis)
            if samples is not None:
                samples.settle(recorder.trace, value, axis)
                selection = selection._replace(target=target) if callable(target) else selection
                return selection, samples, start, choices_of(recorder.trace, required, start.ends)
        found = self._in_any_order(record, value, scores, picks, axes)
        if found is None:
            raise mixed_samples(scores, axes, leaves)
        return found

    def _in_any_order(
        self, record: Record, value: Value, scores: Tensor, picks: Target, axes: Sequence[int | None]
    ) -> tuple[Selection, Samples, Start, tuple[Choice, ...]] | None:
        """The same for samples that lie in the inputs in any order, found by the score that changes with each element."""
        trace = record.recorder.trace
        with torch.enable_grad():
            inputs = [leaf.tensor.detach().requires_grad_() for leaf in trace.leaves]
            again = replayed(trace, inputs, value)
        for axis in axes:
            if axis is None or again.shape != scores.shape or not again.requires_grad:
                continue
            with torch.enable_grad():
                owners = owners_by_derivative(again, inputs, axis, record.owners)
            if owners is None:
                continue
            before_end = _before_end(record.recorder, value, scores) if is_against_rest(picks) else None
            selection = select(scores, picks, batch_axis=axis, before=before_end)
            start = starts_of(trace, value, selection.mask)
            required = required_steps(trace, start.masks.keys(), is_strict=self.strict)
            try:
                samples = Samples(scores.shape[axis], follow(trace, owners, scores.shape[axis], required))
            except MixedSamplesError:
                continue
            if _lie_along(axis, value, samples):
                samples.settle(trace, value, axis)
                return selection, samples, start, choices_of(trace, required, start.ends)
        return None
