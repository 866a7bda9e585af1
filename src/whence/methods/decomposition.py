"""Contextual decomposition: what a phrase gives to the score, in a forward pass that keeps it apart from everything else."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.choice import Choice
from whence.engine.marks import Node
from whence.engine.rule import OverwrittenError
from whence.engine.run import ModelRun
from whence.engine.samples import Samples, completed
from whence.engine.scripted import require_python
from whence.engine.starts import Origin, Start, choices_of
from whence.equations import Rules
from whence.errors import InputError
from whence.methods.following import Picked, following, scores_of
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question
from whence.methods.predicting import predicting
from whence.methods.probe import require_whole
from whence.methods.splitting import NeededCalls, Sizes, Splitting, leading_to, require_no_cell_by_hand
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


Wanted = Callable[[Picked, Sequence[Tensor | None]], Phrases]  # the second: known sample numbers of the explained rows


def decomposition(forward: Forward, target: Target, phrases: Wanted, *, check: bool = True) -> Decomposition:
    """What each phrase gives to the explained scores, by one run that picks these, and one for as many phrases as fit."""
    require_python(forward.parts)
    require_finite(forward.inputs.tensors)
    with predicting(forward.parts) as state, following(forward, target, Rules(epsilon=0.0), state) as found:
        found.path, sizes, settings = leading_to, Sizes(), dict[str, Any]()
        try:
            picked = found.picked(_require_rules, observer=sizes)
        except OverwrittenError:
            settings["is_safe"] = True
            picked = found.picked(_require_rules, observer=sizes, **settings)
        (run, output, _), selection, start = picked
        require_no_cell_by_hand(leading_to(run.calls, start.nodes)[::-1])
        at_once = max(1, LARGEST // (4 * sizes.largest))  # a recurrent layer has up to four gates per unit
        needed, wanted = NeededCalls(run.calls, start.nodes), phrases(picked, forward.owners(run.ids))
        given, bias = list[Tensor](), torch.empty(0)
        for first in range(0, wanted.number, at_once):
            found.forget()
            known = Splitting(needed, wanted.masks(range(first, min(first + at_once, wanted.number))))
            amounts, bias = _parts_of(found.picked(_require_rules, observer=known, **settings), known)
            given.append(amounts)
        if isinstance(output, Tensor) and check:
            require_whole(found, picked.ran, picked.selection.mask)
        return Decomposition(
            torch.cat(given),
            bias,
            torch.stack([_totals(origin.tensor.detach()[None], origin, run.samples)[0] for origin in start.origins]).sum(0),
            selection,
            scores_of(output, start).detach() if isinstance(output, Tensor) and not callable(target) else None,
            choices_of((), start.ends),
        )


def _require_rules(run: ModelRun, start: Start) -> None:
    """Refuse a model with calls without a rule among those that the scores depend on."""
    leading_to(run.calls, start.nodes)


def _parts_of(picked: Picked, known: Splitting) -> tuple[Tensor, Tensor]:
    """What the phrases (N, K, B) and constants alone (K, B) give to the scores."""
    run, amounts, constants = picked.ran.run, list[Tensor](), list[Tensor]()
    for origin in picked.start.origins:
        split = known.of(run, origin.mark.node, origin.tensor)
        assert split is not None  # the scores need it
        amounts.append(_totals(split.parts.phrase, origin, run.samples))
        constants.append(_totals(split.parts.bias[None], origin, run.samples)[0])
    return torch.stack(amounts).sum(0), torch.stack(constants).sum(0)


def _totals(part: Tensor, origin: Origin, samples: Samples) -> Tensor:
    """The scores (N, K, B) that masks (K, *shape) pick of a part (N, *shape)."""
    amount = torch.where(origin.mask != 0, origin.mask * part.unsqueeze(1), 0.0).unsqueeze(-1).flatten(2)  # (N, K, numbers)
    if samples.is_one:
        return amount.sum(-1, keepdim=True)
    owner = completed(samples.numbers(origin.mark.owner, part.shape[1:], part.device), keep=samples.count)
    rows = owner.expand(part.shape[1:]).reshape(-1).long()
    return amount.new_zeros(*amount.shape[:2], samples.count + 1).index_add(-1, rows, amount)[..., 1:]


class Steps(NamedTuple):
    """The steps of an explained tensor: each of its elements belongs to a step of a sample, counted from 0; −1 to none."""

    number: Tensor  # (*shape), expanded along the features of a step
    owner: Tensor  # (*shape), the sample, from 0 on
    longest: int  # steps of the longest sample
    features: int  # elements of a step

    @staticmethod
    def of(number: int, known: Tensor | None, picked: Picked) -> "Steps":
        """Steps are rows: the last axis holds the features of one. If a sample has one axis alone, each number is a step."""
        run, leaf = picked.ran.run, cast(Tensor, picked.ran.run.leaves[number])
        shape, samples, given = leaf.shape, run.samples, cast(Node, run.starts[number]).owner
        owner = torch.ones(shape, device=leaf.device)
        if not samples.is_one:
            owner = completed(samples.numbers(given, shape, leaf.device), keep=samples.count).expand(shape)
        is_along_axis = known is None and (samples.is_one or samples.axis_of(given, shape, leaf.device) is not None)
        axes = len(shape) - (picked.selection.batch_axis is not None and is_along_axis)  # of one sample
        has_features = axes > 1 and bool((owner == owner[..., :1]).all())
        rows = (owner[..., 0] if has_features else owner).reshape(-1).long()
        numbers = _counted(rows, samples.count)
        spread = (*shape[:-1], 1) if has_features else shape
        return Steps(
            numbers.view(spread).expand(shape),
            (rows - 1).view(spread).expand(shape),
            int(numbers.max()) + 1,
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

        def phrases(picked: Picked, known: Sequence[Tensor | None]) -> Phrases:
            steps[:] = [Steps.of(number, rows, picked) for number, rows in enumerate(known)]
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
