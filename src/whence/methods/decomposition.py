"""Contextual decomposition: what a phrase gives to the score, in a forward pass that keeps it apart from everything else."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from whence.choice import Choice
from whence.errors import InputError
from whence.interpreter.backward.path import choices_of, scores_at
from whence.interpreter.backward.samples import Samples, completed
from whence.interpreter.record.scripted import require_python
from whence.interpreter.record.step import Trace, Value
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question
from whence.methods.predicting import predicting
from whence.methods.probe import Randomness, require_whole
from whence.methods.recording import Picked, picked, recording, scores_of
from whence.methods.splitting import leading_to, split
from whence.methods.target import Selection, Target
from whence.result import Result

LARGEST = 2**24  # numbers of a part that are held at a time: more phrases go in several passes


class Phrases(NamedTuple):
    """Phrases of every sample: how many, and for some of them the masks (n, *shape) of every explained tensor."""

    number: int
    masks: Callable[[range], Sequence[Tensor]]


class Decomposition(NamedTuple):
    """What N phrases give to K scores of B samples."""

    phrases: Tensor  # (N, K, B)
    bias: Tensor  # (K, B), what constants alone give
    scores: Tensor  # (K, B)
    selection: Selection
    output: Tensor | None  # the scores of all classes, unless a callable target made something else of them
    choices: tuple[Choice, ...]


def decomposition(
    forward: Forward,
    target: Target,
    phrases: Callable[[Sequence[Value], Sequence[Tensor | None], Picked], Phrases],
    *,
    check: bool = True,
) -> Decomposition:
    """What each phrase gives to the explained scores; `phrases` makes them from the explained tensors and their samples."""
    require_python(forward.model)
    before = Randomness()
    with predicting(forward.model) as state, torch.no_grad(), recording(forward, state=state) as record:
        recorded = record(target)
        trace, output = recorded.recorder.trace, recorded.output
        require_finite([leaf.tensor for leaf in trace.leaves])
        chosen = picked(recorded, target, forward, required=leading_to, state=state, before=before)
        wanted = phrases(trace.leaves, recorded.owners, chosen)
        found, bias = _given_by(trace, chosen, wanted)
        if isinstance(output, Tensor) and check:
            value, mask = recorded.recorder.value_of(output), chosen.selection.mask
            require_whole(forward, recorded.recorder, output, value, target, state=state, before=before, mask=mask)
        amounts = [chosen.samples.totals(amount, value) for value, amount in scores_at(chosen.start)]
        return Decomposition(
            found,
            bias,
            torch.stack(amounts).sum(0),
            chosen.selection,
            scores_of(output, chosen.start) if isinstance(output, Tensor) and not callable(target) else None,
            choices_of(trace, (), chosen.start.ends),
        )


def _given_by(trace: Trace, chosen: Picked, phrases: Phrases) -> tuple[Tensor, Tensor]:
    """What the phrases (N, K, B) and constants alone (K, B) give to the scores, in as many passes as memory needs."""
    widest = max(value.tensor.numel() for step in trace.steps for value in (*step.inputs, *step.outputs))
    at_once = max(1, LARGEST // (4 * widest))  # a recurrent layer has up to four gates per unit
    given, bias = list[Tensor](), list[Tensor]()
    for first in range(0, phrases.number, at_once):
        numbers = range(first, min(first + at_once, phrases.number))
        known = split(trace, chosen.steps, phrases.masks(numbers))
        amounts, constants = list[Tensor](), list[Tensor]()
        for value, mask in chosen.start.masks.items():
            parts = known.of(value)
            amounts.append(_totals(parts.phrase, mask, value, chosen.samples))
            constants.append(_totals(parts.bias[None], mask, value, chosen.samples)[0])
        given.append(torch.stack(amounts).sum(0))
        bias = constants
    return torch.cat(given), torch.stack(bias).sum(0)


def _totals(part: Tensor, mask: Tensor, value: Value, samples: Samples) -> Tensor:
    """The scores (N, K, B) that masks (K, *shape) pick of a part (N, *shape)."""
    amount = torch.where(mask != 0, mask * part.unsqueeze(1), 0.0)  # (N, K, *shape)
    found = samples.totals(amount.flatten(0, 1), value)
    return found.view(*amount.shape[:2], -1)


class Steps(NamedTuple):
    """The steps of an explained tensor: each of its elements belongs to a step of a sample, counted from 0; −1 to none."""

    number: Tensor  # (*shape), expanded along the features of a step
    owner: Tensor  # (*shape), the sample, from 0 on
    longest: int  # steps of the longest sample
    features: int  # elements of a step

    @staticmethod
    def of(leaf: Value, known: Tensor | None, chosen: Picked) -> "Steps":
        """Steps are rows: the last axis holds the features of one. If a sample has one axis alone, each number is a step."""
        shape, samples = leaf.tensor.shape, chosen.samples
        owner = torch.ones(shape, device=leaf.tensor.device)
        if samples.owners is not None:
            owner = completed(samples.owners[leaf], keep=samples.count).expand(shape)
        is_along_axis = known is None and (samples.owners is None or samples.axis_of(leaf) is not None)
        axes = len(shape) - (chosen.selection.batch_axis is not None and is_along_axis)  # of one sample
        has_features = axes > 1 and bool((owner == owner[..., :1]).all())
        rows = (owner[..., 0] if has_features else owner).reshape(-1).long()
        number = _counted(rows, samples.count)
        spread = (*shape[:-1], 1) if has_features else shape
        return Steps(
            number.view(spread).expand(shape),
            (rows - 1).view(spread).expand(shape),
            int(number.max()) + 1,
            shape[-1] if has_features else 1,
        )


def _counted(owner: Tensor, count: int) -> Tensor:
    """The number of every row within its sample, from 0 on; −1 for rows that belong to none (owner 0)."""
    sizes = torch.bincount(owner, minlength=count + 1)
    order = owner.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    number = torch.empty_like(owner)
    number[order] = torch.arange(len(owner), device=owner.device) - starts[owner[order]]
    return number.masked_fill(owner == 0, -1)


def _each_step(steps: Sequence[Steps]) -> Phrases:
    """Every step of every explained tensor as a phrase of its own."""

    def masks(numbers: range) -> list[Tensor]:
        found: list[Tensor] = []
        first = 0
        for own in steps:
            wanted = torch.tensor(numbers, device=own.number.device) - first
            is_here = (wanted >= 0) & (wanted < own.longest)
            shape = (-1, *(1,) * own.number.dim())
            found.append((own.number == wanted.view(shape)) & is_here.view(shape))
            first += own.longest
        return found

    return Phrases(sum(own.longest for own in steps), masks)


@dataclass(frozen=True)
class ContextualDecomposition(Method):
    """Contextual decomposition (Murdoch et al., 2018): what every step gives to the score as a phrase of its own.

    The relevance of a step is the part β of the score for the phrase that is this step alone. It belongs to the step as a
    whole, and is spread evenly over its features. In `absorbed`, "bias" is what biases outside of recurrent layers give, and
    "interactions" is all the rest: what steps give only together, and what initial states give.
    """

    name = "cd"
    label = "contextual decomposition"
    short = "CD"
    shares_runs = True
    adds_up = True

    def work(self, steps: int, *, targets: int = 1) -> int:
        """Every step is a phrase, whose parts go through all steps; they take about three times as long as a forward pass."""
        return 3 * steps * steps

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Decompose the score for every step at once."""
        steps: list[Steps] = []

        def phrases(leaves: Sequence[Value], known: Sequence[Tensor | None], chosen: Picked) -> Phrases:
            steps[:] = [Steps.of(leaf, rows, chosen) for leaf, rows in zip(leaves, known, strict=True)]
            return _each_step(steps)

        found = decomposition(forward, question.target, phrases, check=question.check)
        require_finite_parts(found)
        chosen, explained = found.selection, found.phrases.sum(0)
        absorbed = {"bias": found.bias, "interactions": found.scores - explained - found.bias}
        return Result(
            relevance=forward.inputs.wrapped([chosen.led(each) for each in _relevance(found, steps)], len(chosen.lead)),
            score=chosen.shaped(found.scores),
            target=chosen.target,
            method=self,
            absorbed={name: chosen.shaped(amount) for name, amount in absorbed.items() if bool(amount.any())},
            explained=chosen.shaped(explained),
            output=found.output,
            choices=found.choices,
        )


def _relevance(found: Decomposition, steps: Sequence[Steps]) -> list[Tensor]:
    """The relevance (K, *shape) of every explained tensor."""
    given: list[Tensor] = []
    first = 0
    for own in steps:
        by_step = found.phrases[first : first + own.longest].transpose(0, 1)  # (K, steps, B)
        is_there = own.number >= 0
        amounts = by_step[:, own.number.clamp(min=0), own.owner.clamp(min=0)] / own.features
        given.append(torch.where(is_there, amounts, 0.0))
        first += own.longest
    return given


def require_finite_parts(found: Decomposition) -> None:
    """Refuse parts that are not finite."""
    if not math.isfinite(float(found.phrases.sum())) and not bool(found.phrases.isfinite().all()):
        raise InputError("the parts of the score are not finite: numbers inside the model grow too large; use double precision")
