"""The model as a witness of its explanation: its scores without what is said to speak for them, or against them.

No rule is shared with the explanation: the model runs twice more, and that is all.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple, cast

import torch
from torch import Tensor

from whence.engine.back import rows_of
from whence.engine.marks import Node, Owner
from whence.engine.run import ModelRun
from whence.engine.samples import completed
from whence.engine.starts import Start, start_of
from whence.errors import WhenceError
from whence.methods.following import Following, Picked
from whence.methods.layout import Layout, single
from whence.result import ModelAnswer, Result
from whence.trees import floats_of

ROUNDING = 16  # units in the last place by which a score may differ from itself


class Witness(NamedTuple):
    """A model that can be asked for its scores without some steps of its inputs, by samples and steps (B, U, ...)."""

    layouts: Sequence[Layout]
    scores: Tensor  # (K, B), those that were explained
    shaped: Callable[[Tensor], Tensor]  # amounts (K, B) in the form of `Result.score`
    scores_without: Callable[[Sequence[Tensor]], Tensor]  # (K, B) without the steps (B, U) that are True, by explained tensor

    def without(self, taken: Sequence[Tensor]) -> Tensor:
        """The scores (K, B) without steps that are True in (K, B, U), a run for every target; NaN if the model cannot say."""
        found = self.scores.double().clone()
        for k in range(len(found)):
            own = [each[k] for each in taken]
            if any(bool(each.any()) for each in own):
                found[k] = self._asked(own)[k]
        return found

    def _asked(self, taken: Sequence[Tensor]) -> Tensor:
        try:
            return self.scores_without(taken).double()
        except torch.OutOfMemoryError:
            raise
        except (WhenceError, RuntimeError, ValueError, LookupError, ArithmeticError):  # the model takes no such inputs
            return torch.full_like(self.scores, torch.nan, dtype=torch.double)


def answer_of(witness: Witness, result: Result, words: Tensor | None = None) -> ModelAnswer:
    """Ask the model about a result. `words` (B, U): the number of the word that a step belongs to, −1 for none.

    With R_t the relevance of step t, S⁺ and S⁻ the steps where that of the word is positive or negative, and P, N its amounts:

        Δ⁺ = f(x) − f(x without S⁺)        Δ⁻ = f(x without S⁻) − f(x)
        agreement = (P Δ⁺ + N Δ⁻) / (P |Δ⁺| + N |Δ⁻|)

    Differences within rounding count as 0. A sample's answer depends on no other sample.
    """
    amounts = [_by_step(layout, rows) for layout, rows in zip(witness.layouts, _rows(witness, result), strict=True)]
    signs = [(each if words is None else _by_word(each, words)).sign() for each in amounts]
    up, down = (witness.without([each == side for each in signs]) for side in (1, -1))
    f = witness.scores.double()
    rounding = ROUNDING * torch.finfo(result.score.dtype).eps * torch.stack([f, up, down]).abs().amax(0)
    falls, rises = (torch.where(each.abs() <= rounding, 0.0, each) for each in (f - up, down - f))
    speak_for, against = (
        sum((torch.where(own == side, each.abs(), 0.0).sum(2) for each, own in zip(amounts, signs, strict=True)), start=0 * f)
        for side in (1, -1)
    )
    moved = speak_for * falls.abs() + against * rises.abs()
    agreement = torch.where(moved == 0, 0.0, (speak_for * falls + against * rises) / torch.where(moved == 0, 1.0, moved))
    return ModelAnswer(*(witness.shaped(each).to(result.score.dtype) for each in (up, down, agreement)))


def _rows(witness: Witness, result: Result) -> list[Tensor]:
    """The relevance (K, *shape) of every explained tensor; one number for every step is spread evenly over its features."""
    leaves, count = floats_of(result.relevance), len(witness.scores)
    if len(leaves) != len(witness.layouts):  # packed inputs, for several targets
        leaves = [torch.stack(leaves)]

    def whole(amount: Tensor, layout: Layout) -> Tensor:
        if amount.numel() == count * math.prod(layout.shape):
            return amount.reshape(count, *layout.shape)
        return amount.reshape(count, *layout.shape[:-1], 1).expand(count, *layout.shape) / layout.shape[-1]

    return [whole(each, layout) for each, layout in zip(leaves, witness.layouts, strict=True)]


def _by_step(layout: Layout, relevance: Tensor) -> Tensor:
    """Relevance (K, *shape) summed over the features of every step: (K, B, U)."""
    return torch.stack([layout.ordered(each.double()).reshape(*layout.place.shape, -1).sum(2) for each in relevance])


def _by_word(amounts: Tensor, words: Tensor) -> Tensor:
    """For every step (K, B, U) the sum over its word; 0 for steps of no word."""
    place, is_there = words.clamp(min=0).expand_as(amounts), words >= 0
    return (amounts * is_there).new_zeros(amounts.shape).scatter_add(2, place, amounts * is_there).gather(2, place) * is_there


def followed(found: Following, picked: Picked, *, is_safe: bool) -> Witness:
    """The model of a run that was followed: its scores are those before a function that ends the model, as in this run."""
    run, selection = picked.ran.run, picked.selection
    pairs = zip(cast(Sequence[Tensor], run.leaves), cast(Sequence[Node], run.starts), strict=True)
    layouts = [_layout(found, picked, leaf, node.owner) for leaf, node in pairs]

    def scores_without(taken: Sequence[Tensor]) -> Tensor:
        def moved(number: int, tensor: Tensor) -> Tensor:
            return tensor.masked_fill(_whole(layouts[number], taken[number]), 0)

        again = found.ran(move=moved, is_safe=is_safe)
        return explained_scores(again.run, start_of(again.run, *found.scores(again), selection.mask))

    return Witness(layouts, explained_scores(run, picked.start), selection.shaped, scores_without)


def _whole(layout: Layout, taken: Tensor) -> Tensor:
    """Steps (B, U) as elements of the explained tensor."""
    features = layout.features
    spread = taken.view(1, *taken.shape, *(1,) * len(features)).expand(1, *taken.shape, *features)
    return layout.whole(spread)[0]


def explained_scores(run: ModelRun, start: Start) -> Tensor:
    """The explained scores (K, B) of a run."""
    amounts = ((origin.amounts(), origin.mark.owner) for origin in start.origins)
    return reduce(
        torch.add, [rows_of([run.samples.totals(own, owner, tuple(own.shape), "") for own in each]) for each, owner in amounts]
    )


def _layout(found: Following, picked: Picked, tensor: Tensor, owner: Owner) -> Layout:
    samples, is_batch = picked.ran.run.samples, picked.selection.batch_axis is not None
    if samples.is_one:
        return single(tensor, None, is_batch=is_batch, time_first=found.forward.parts.is_time_first)
    axis = samples.axis_of(owner, tensor.shape, tensor.device)
    if axis is not None:
        return Layout.along(tensor, axis)
    return Layout.by_element(completed(samples.numbers(owner, tensor.shape, tensor.device)), samples.count)
