"""A forward pass on the record, and the scores that are explained in it: what LRP and contextual decomposition start from."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import Product
from whence.errors import TargetError
from whence.interpreter.backward.path import Start, starts_of
from whence.interpreter.backward.samples import Samples, find_samples, follow, owners_by_derivative
from whence.interpreter.record.layers import Layers, leave
from whence.interpreter.record.recorder import Recorder
from whence.interpreter.record.step import MixedSamplesError, Step, Trace, Value
from whence.interpreter.rules.table import TABLE
from whence.methods.forward import Forward
from whence.methods.method import is_time_first
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


class Record(NamedTuple):
    """The record of a forward pass, its output (or what a callable target made of it), and the outputs of the layer `at`."""

    recorder: Recorder
    output: object
    middle: list[object]
    owners: Sequence[Tensor | None]  # of the rows of every explained tensor, if known beforehand
    ids: list[Tensor | None]  # the token ids of every input that has them, as the model got them


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
        ids = [None if tensor.is_floating_point() else tensor for tensor in tensors]
        return Record(recorder, found, layers.outputs, forward.owners(recorder.ids), ids)

    try:
        yield run
    finally:
        layers.snapshot = leave
        recorder.forget()


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
        recorded = record(None)
        trace = recorded.recorder.trace
        found = find_samples(trace, samples, known=recorded.owners)
        return None if found is None else found.axis_of(trace.leaves[0])


def lie_along(axis: int | None, scores: Value, samples: Samples) -> bool:
    """Whether the samples of the scores lie along an axis; raises if the scores are made of constants alone."""
    if samples.owners is not None and not samples.owners[scores].any():
        raise TargetError(INDEPENDENT)
    return samples.count == 1 or samples.axis_of(scores) == axis


class Picked(NamedTuple):
    """The scores to explain, the samples they belong to, where in the record they are, and the steps that lead there."""

    selection: Selection
    samples: Samples
    start: Start
    steps: set[Step]


Required = Callable[[Trace, Start], set[Step]]  # the steps that a method passes through, which must keep samples apart


def picked(record: Record, target: Target, forward: Forward, *, required: Required, state: State, before: Randomness) -> Picked:
    """The scores that a target picks; raises if they depend on no input, or if samples influence each other."""
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
        steps = required(recorder.trace, start)
        samples = find_samples(
            recorder.trace,
            1 if axis is None else scores.shape[axis],
            known=record.owners,
            required=steps,
            accept=lambda samples, axis=axis: lie_along(axis, value, samples),
        )
        if samples is not None and is_wrong:
            select(scores, picks, batch_axis=axis)
        if samples is not None:
            samples.settle(recorder.trace, value, axis)
            return Picked(selection._replace(target=target) if callable(target) else selection, samples, start, steps)
    found = _in_any_order(record, value, scores, picks, axes, required)
    if found is None:
        raise mixed_samples(scores, axes, leaves)
    return found


def _in_any_order(
    record: Record, value: Value, scores: Tensor, picks: Target, axes: Sequence[int | None], required: Required
) -> Picked | None:
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
        steps = required(trace, start)
        try:
            samples = Samples(scores.shape[axis], follow(trace, owners, scores.shape[axis], steps))
        except MixedSamplesError:
            continue
        if lie_along(axis, value, samples):
            samples.settle(trace, value, axis)
            samples.is_derived = True
            return Picked(selection, samples, start, steps)
    return None


def scores_of(output: Tensor, start: Start) -> Tensor:
    """The scores of all classes: the model's output, or what it was before the function that ends the model."""
    values = list(start.masks)
    return values[0].tensor if len(values) == 1 and start.ends and values[0].tensor.shape == output.shape else output


def _before_end(recorder: Recorder, value: Value, output: Tensor) -> Tensor:
    """The scores of all classes before the function that ends the model, for their probabilities."""
    start = starts_of(recorder.trace, value, torch.ones_like(output)[None])
    found = scores_of(output, start)
    if start.ends and found is output:
        raise TargetError(
            f"the scores before the {start.ends[0].name} that ends the model are not one tensor like its output, so there are "
            'no probabilities for contrast(a, "rest"); let the model return its scores, or use contrast(a, b)'
        )
    return found
