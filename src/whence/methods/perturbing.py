"""What methods share that run the model on other inputs: which scores are explained, and these scores for any variants.

Everything that depends on the model's answer, such as the predicted class, is decided once, at the given inputs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations, count, product

import torch
from torch import Tensor

from whence.engine.samples import owners_by_derivative
from whence.errors import InputError
from whence.methods.forward import Followed, Forward, require_finite
from whence.methods.gradient import MOST, NoDerivativeError, cut_off, derivative, logarithms, require_finite_derivative
from whence.methods.layout import Layout, candidates, shaken, single
from whence.methods.method import Method, Question
from whence.methods.mixing import mixed_samples
from whence.methods.padding import without_padding
from whence.methods.predicting import predicting
from whence.methods.rows import Axes, can_take, readings, with_rows
from whence.methods.runs import Runs, changed, laid
from whence.methods.state import State
from whence.methods.target import (
    Selection,
    batch_axes,
    is_against_rest,
    likeliest_first,
    require_scores,
    select,
)
from whence.result import Result

BATCH = 256  # rows that the model is given at once
Variants = Callable[[range], Sequence[Tensor]]  # the explained tensors (V, S, U, ...) of the variants in a range


@dataclass(frozen=True, eq=False)
class Study:
    """A forward pass at the given inputs, and the means to ask for the explained scores at others.

    Tensors are ordered by samples and steps (B, U, ...), see `Layout`. `axes` says how the model is called with several
    variants at once; None if it can only be called with its own samples.
    """

    runs: Runs
    tensors: list[Tensor]  # the explained tensors, as the model reads them
    layouts: list[Layout]
    ordered: list[Tensor]
    selection: Selection
    scores: Tensor  # (K, B), double
    output: Tensor  # what the model gave
    score_of: Callable[[Tensor], Tensor]  # what is explained of the model's output
    axes: Axes | None
    tables: Sequence[Tensor | None]  # for token ids the table they were looked up in

    @property
    def samples(self) -> Tensor:
        """The numbers of all samples."""
        return torch.arange(self.scores.shape[1], device=self.tensors[0].device)

    def scores_at(self, variants: int, make: Variants, *, batch: int) -> Tensor:
        """The explained scores (K, V, B) of variants of all samples, of which as many share a call as `batch` rows hold."""
        parts = self._parts(variants, batch, len(self.samples))
        found = [self._scores(make(part), self.samples, self.runs.output).double() for part in parts]
        return torch.cat([self.scores[:, None][:, :0], *found], 1)

    def derivative_at(self, weights: Tensor, make: Variants, *, batch: int, samples: Tensor | None = None) -> list[Tensor]:
        """Σ_v weights_v ∂f/∂x at variant v, (K, S, U, ...) for each explained tensor; of some samples (default: all)."""
        chosen = self.samples if samples is None else samples
        totals = [
            torch.zeros(len(self.scores), len(chosen), *each.shape[1:], dtype=torch.double, device=each.device)
            for each in self.ordered
        ]
        for part in self._parts(len(weights), batch, len(chosen)):
            leaves = [each.detach().clone().requires_grad_() for each in make(part)]
            with torch.enable_grad():
                scores = self._scores(leaves, chosen, partial(self.runs.graph, leaves=leaves))
                own = weights[part.start : part.stop].to(scores)
                try:
                    rows = [derivative((own @ each).sum(), leaves) for each in scores]
                except NoDerivativeError:
                    raise cut_off(self.runs.choices) from None
            for total, each in zip(totals, zip(*rows, strict=True), strict=True):
                total += torch.stack(each).double().sum(1)
        require_finite_derivative(totals)
        return totals

    def _parts(self, variants: int, batch: int, samples: int) -> list[range]:
        """The variants that share a call."""
        size = 1 if self.axes is None else max(1, batch // samples)
        return [range(start, min(start + size, variants)) for start in range(0, variants, size)]

    def _scores(self, ordered: Sequence[Tensor], samples: Tensor, run: Callable[[Sequence[Tensor], Forward], Tensor]) -> Tensor:
        """The explained scores (K, V, S) of the variants (V, S, U, ...)."""
        variants, axis = len(ordered[0]), self.selection.batch_axis
        if self.axes is None or (variants == 1 and len(samples) == self.scores.shape[1]):
            assert variants == 1
            whole = [own.index_copy(0, samples, each[0]) for own, each in zip(self.ordered, ordered, strict=True)]
            scores = self.selection.scores(self._usable(run(self.laid(whole), self.runs.forward)))
            return scores[:, None, samples.to(scores.device)]
        rows = samples.repeat(variants)
        flat = [each.flatten(0, 1) for each in ordered]
        forward, given = with_rows(self.runs.forward, self.layouts, rows, flat, self.axes)
        assert axis is not None
        mask = self.selection.mask
        chosen = self.selection._replace(mask=mask.index_select(axis + 1, rows.to(mask.device)))
        return chosen.scores(self._usable(run(given, forward))).view(-1, variants, len(samples))

    def _usable(self, output: Tensor) -> Tensor:
        """What is explained of an output, if it is finite."""
        scores = self.score_of(output)
        if bool(scores.isnan().any()):
            raise InputError("the model returned nan for inputs between the given ones and the baseline, or near them")
        return scores

    def laid(self, ordered: Sequence[Tensor]) -> list[Tensor]:
        """Explained tensors for a call with the model's own samples."""
        return laid(self.layouts, ordered, self.tensors)

    def result(
        self,
        relevance: Sequence[Tensor],
        method: Method,
        *,
        absorbed: Mapping[str, Tensor] | None = None,
        allowed: Mapping[str, Tensor] | None = None,
        errors: Sequence[Tensor] | None = None,
        is_shared_out: bool = False,
    ) -> Result:
        """The result of a method that found this relevance (K, B, U, ...); with `is_shared_out` it adds up to the score."""
        chosen, dtype = self.selection, self.output.dtype

        def shaped(amounts: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
            return {name: chosen.shaped(amount.to(dtype)) for name, amount in (amounts or {}).items()}

        by_step = [each.double().reshape(*each.shape[:3], -1).sum(3) for each in relevance]  # (K, B, U)
        own = (each * layout.is_there for each, layout in zip(by_step, self.layouts, strict=True))
        total = sum((each.sum(2) for each in own), start=torch.zeros_like(self.scores))
        return Result(
            self._wrapped(relevance),
            chosen.shaped(self.scores.to(dtype)),
            chosen.target,
            method,
            absorbed=shaped(absorbed),
            explained=chosen.shaped(total.to(dtype)) if is_shared_out else None,
            output=None if callable(self.runs.target) else self.output,
            errors=None if errors is None else self._wrapped(errors),
            allowed=shaped(allowed),
            choices=self.runs.choices if method.takes_derivatives else (),
        )

    def _wrapped(self, relevance: Sequence[Tensor]) -> object:
        found = [
            self.selection.led(layout.whole(each.to(own.dtype)))
            for layout, each, own in zip(self.layouts, relevance, self.tensors, strict=True)
        ]
        return self.runs.forward.inputs.wrapped(found, len(self.selection.lead))

    def spread(self, amounts: Tensor, number: int) -> Tensor:
        """Amounts per step (K, B, U), each shared evenly by the features of its step: (K, B, U, ...)."""
        features = self.layouts[number].features
        return (amounts / math.prod(features)).view(*amounts.shape, *(1,) * len(features)).expand(*amounts.shape, *features)


class Perturbing(Method):
    """A method that runs the model on other inputs than the given ones; a subclass implements `studied`."""

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Explain by a study of the model, which is in evaluation mode meanwhile."""
        with predicting(forward.parts) as state, torch.no_grad():
            return self.studied(study(forward, question, state, self.score_of))

    def score_of(self, output: Tensor) -> Tensor:
        """What is explained of the model's output: the scores, unless a method says otherwise."""
        return output

    def studied(self, study: Study) -> Result:
        """Explain what a study looks at."""
        raise NotImplementedError


def study(forward: Forward, question: Question, state: State, score_of: Callable[[Tensor], Tensor]) -> Study:
    """Run the model on the given inputs, find its samples, and decide which scores are explained."""
    target, mode = question.target, Followed()
    runs = Runs(forward, target, state)
    output, tensors, known = runs.run(forward, None, mode)
    tensors = [each.detach().clone() for each in tensors]
    require_finite(tensors)
    scores = require_scores(output, target, inputs=tensors)
    picks = None if callable(target) else target
    axes = batch_axes(scores, picks, inputs=tensors, time_first=forward.parts.is_time_first)
    axis, layouts = _separated(runs, scores, axes, tensors, known)
    explained = score_of(scores)
    before = logarithms(scores) if is_against_rest(picks) else None
    selection = select(explained, picks, batch_axis=axis, before=before)
    layouts = without_padding(runs, scores, axis, layouts, tensors)
    ordered = [layout.ordered(each) for layout, each in zip(layouts, tensors, strict=True)]
    others = shaken(ordered)
    changed = runs.output(laid(layouts, others, tensors))
    amounts = selection.scores(explained)
    if torch.equal(selection.scores(score_of(changed)), amounts):
        _require_dependent(runs, selection, tensors)
    return Study(
        runs,
        tensors,
        layouts,
        ordered,
        selection._replace(target=target) if callable(target) else selection,
        amounts.double(),
        scores,
        score_of,
        _readable(runs, (scores, changed), axis, layouts, (ordered, others)),
        [each[0] if each else None for each in mode.ids.tables] if mode.ids else [None] * len(tensors),
    )


def _require_dependent(runs: Runs, selection: Selection, tensors: Sequence[Tensor]) -> None:
    """Refuse scores that do not depend on the inputs: they stay the same for zeros, and have no derivative."""
    here, at_zero = (runs.output(each) for each in (tensors, [torch.zeros_like(each) for each in tensors]))
    if here.shape == at_zero.shape and torch.equal(selection.scores(here), selection.scores(at_zero)):
        leaves = [each.clone().requires_grad_() for each in tensors]
        with torch.enable_grad():
            derivative(selection.scores(runs.graph(leaves, leaves=leaves)).sum(), leaves)


def _separated(
    runs: Runs, scores: Tensor, axes: Sequence[int | None], tensors: Sequence[Tensor], known: Sequence[Tensor | None]
) -> tuple[int | None, list[Layout]]:
    """The axis of the samples of the scores, and where they lie in the explained tensors; raises if they mix."""
    time_first = runs.forward.parts.is_time_first
    for axis in likeliest_first(axes, scores):
        if axis is None or scores.shape[axis] == 1:
            parts = zip(tensors, known, strict=True)
            return axis, [single(each, own, is_batch=axis is not None, time_first=time_first) for each, own in parts]
        samples = scores.shape[axis]
        for layouts in product(*(candidates(each, samples, own) for each, own in zip(tensors, known, strict=True))):
            if _are_separate(runs, scores, axis, layouts, tensors):
                return axis, list(layouts)
    for axis in axes:
        found = None if axis is None else _by_derivative(runs, scores, axis, tensors, known)
        if found is not None:
            return axis, found
    raise mixed_samples(scores, axes, tensors, runs.forward, runs.target)


def _are_separate(runs: Runs, scores: Tensor, axis: int, layouts: Sequence[Layout], tensors: Sequence[Tensor]) -> bool:
    """Whether every sample's scores depend only on the same sample of each tensor.

    The inputs of a group of samples are changed; no other sample's scores may change. For every two samples there is a group
    that holds one and not the other: each sample is in half of the groups, no two in the same ones.
    """
    samples = scores.shape[axis]
    groups = next(n for n in count(2) if math.comb(n, n // 2) >= samples)
    member = torch.zeros(samples, groups, dtype=torch.bool, device="cpu")
    for row, own in zip(member, combinations(range(groups), groups // 2), strict=False):
        row[list(own)] = True
    ordered = [layout.ordered(each) for layout, each in zip(layouts, tensors, strict=True)]
    others = shaken(ordered)
    for group in member.T:
        given = [
            torch.where(group.to(own.device).view(-1, *(1,) * (own.dim() - 1)), other, own)
            for own, other in zip(ordered, others, strict=True)
        ]
        output = runs.output(laid(layouts, given, tensors))
        if output.shape != scores.shape or bool((changed(output, scores, axis).cpu() & ~group).any()):
            return False
    return True


def _by_derivative(
    runs: Runs, scores: Tensor, axis: int, tensors: Sequence[Tensor], known: Sequence[Tensor | None]
) -> list[Layout] | None:
    """Where samples of any number of rows lie, found by the score that changes with each element; None if they mix."""
    if scores.shape[axis] > MOST:
        return None
    leaves = [each.clone().requires_grad_() for each in tensors]
    again = runs.graph(leaves, leaves=leaves)
    if not again.requires_grad:
        return None
    with torch.enable_grad():
        signs = 1 - 2 * torch.randint(2, again.shape, generator=torch.Generator().manual_seed(0), device="cpu").to(again)
        owners = owners_by_derivative(signs * again, leaves, axis, known)
    if owners is None:
        return None
    layouts = [Layout.by_element(each, scores.shape[axis]) for each in owners]
    return layouts if _are_separate(runs, scores, axis, layouts, tensors) else None


def _readable(
    runs: Runs,
    outputs: tuple[Tensor, Tensor],
    axis: int | None,
    layouts: Sequence[Layout],
    inputs: tuple[Sequence[Tensor], Sequence[Tensor]],
) -> Axes | None:
    """How the model can be called with several variants at once: the first way in which two of them give what each gives alone.

    `outputs` are what the model gave for two `inputs`, ordered by samples and steps.
    """
    if axis is None or not can_take(runs.forward, layouts):
        return None
    expected, samples = torch.cat(outputs, axis), outputs[0].shape[axis]
    rows = torch.arange(samples, device=inputs[0][0].device).repeat(2)
    both = [torch.cat(each) for each in zip(*inputs, strict=True)]
    tolerance = 1e3 * torch.finfo(expected.dtype).eps * float(expected.masked_fill(~expected.isfinite(), 0).abs().amax())
    for axes in readings(runs.forward, samples):
        with suppress(Exception):  # a model may not take another number of rows at all
            forward, given = with_rows(runs.forward, layouts, rows, both, axes)
            found = runs.output(given, forward)
            if found.shape == expected.shape and bool(((found == expected) | ((found - expected).abs() <= tolerance)).all()):
                return axes
    return None
