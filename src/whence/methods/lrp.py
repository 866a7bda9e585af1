"""Layer-wise relevance propagation: the paper's method, on a recorded forward pass."""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from whence.equations import Product, Rules, Stabiliser
from whence.errors import InputError, TargetError
from whence.interpreter.backward.backward_pass import BackwardPass, required_steps
from whence.interpreter.backward.samples import Samples, find_samples
from whence.interpreter.record.layers import Layers, leave, named_layers
from whence.interpreter.record.recorder import Recorder
from whence.interpreter.record.step import Value
from whence.interpreter.rules.table import TABLE
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question, is_time_first
from whence.methods.predicting import predicting
from whence.methods.target import (
    INDEPENDENT,
    Selection,
    Target,
    batch_axes,
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
def recording(forward: Forward, product: Product = "all", *, at: str | None = None) -> Generator[Callable[[Target], Record]]:
    """A function that runs the model once and returns its record, which is valid inside the context.

    The parts of a record refer to each other. These cycles are broken at the end, also after an error, so that memory is freed
    at once and not by the garbage collector.
    """
    tensors = forward.inputs.copies()
    layers = Layers(forward.model, kept=at)
    recorder = Recorder(tensors, forward.model, layers, TABLE, product=product)
    recorder.ids = forward.ids_of(tensors, recorder.start)

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

    def __post_init__(self) -> None:
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
        if at is not None:
            require_layer(forward.model, at)
        if question.memory and not any(isinstance(module, nn.RNNBase) for module in forward.model.modules()):
            raise InputError("memory= tells of nn.LSTM, nn.GRU and nn.RNN layers, and the model has none; use at= for a cell")
        with predicting(forward.model), torch.no_grad(), recording(forward, self.product, at=at) as record:
            recorded = record(target)
            require_finite([leaf.tensor for leaf in recorded.recorder.trace.leaves])
            trace, output = recorded.recorder.trace, recorded.output
            selection, samples, value = self._explained(recorded, target, forward)
            start = selection.mask * value.tensor
            back = BackwardPass(trace, self.rules, samples, direction=question.direction)
            back.memory, back.by_step = {} if question.memory else None, question.by_step
            _ask_for(back, at, recorded.middle)
            found = back.run(value, start)
            scores = selection.scores(value.tensor)
            self._require_finite(found)
            explained = _explained_by(back, found, torch.zeros_like(scores), at=at)
            gap = scores - explained - sum(back.absorbed.values(), start=torch.zeros_like(scores))
            gaps: dict[str, Tensor] = {}
            if not (gap.abs() <= 100 * torch.finfo(gap.dtype).eps ** 0.75 * scores.abs().clamp(min=1)).all():
                audit = BackwardPass(trace, self.rules, samples, audit=True)
                audit.run(value, start)
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
                output=output if isinstance(output, Tensor) and not callable(target) else None,
            )
        return result.by_step() if question.by_step else result

    def _require_finite(self, found: Sequence[Tensor]) -> None:
        if not all(math.isfinite(r.sum().item()) or bool(r.isfinite().all()) for r in found):
            raise InputError(
                f"the relevance is not finite: with epsilon = {self.epsilon:g} and product = {self.product!r} amounts "
                f"grew beyond what {found[0].dtype} holds; use another epsilon, double precision, or another product rule"
            )

    def _explained(self, record: Record, target: Target, forward: Forward) -> tuple[Selection, Samples, Value]:
        """The scores to explain, the samples they belong to, and their value on the record."""
        recorder = record.recorder
        leaves = [leaf.tensor for leaf in recorder.trace.leaves]
        scores = require_scores(record.output, target, inputs=leaves)
        value = recorder.value_of(scores)
        if value is None or not value.is_live:
            raise TargetError(INDEPENDENT)
        required = required_steps(recorder.trace, value)
        picks = None if callable(target) else target
        axes = batch_axes(scores, picks, inputs=leaves, time_first=is_time_first(forward.model))
        for axis in likeliest_first(axes, scores):
            count = 1 if axis is None else scores.shape[axis]
            samples = find_samples(
                recorder.trace,
                count,
                known=record.owners,
                required=required,
                accept=lambda samples, axis=axis: _lie_along(axis, value, samples),
            )
            if samples is not None:
                selection = select(scores, picks, batch_axis=axis)
                return (selection._replace(target=target) if callable(target) else selection), samples, value
        raise mixed_samples(scores, axes, leaves)
