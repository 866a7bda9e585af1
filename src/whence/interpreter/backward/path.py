"""The path of relevance through a record: where it starts, which steps it passes, and what had to be decided on the way."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.choice import Choice
from whence.interpreter.record.refusal import Blocked, NoRule, blocked
from whence.interpreter.record.step import Step, Trace, Value


class Start(NamedTuple):
    """Where relevance starts: masks (K, *shape) by value, and the functions at the end of the model that it starts before."""

    masks: Mapping[Value, Tensor]
    ends: Sequence[Step] = ()


def starts_of(trace: Trace, value: Value, mask: Tensor) -> Start:
    """The scores that a mask (K, *shape of value) picks, as they are before a softmax, sigmoid or the like ends the model.

    Only the picked elements matter: of cat([μ, softplus(σ)]), μ starts where it is.
    """
    if not _ends_squashed(trace, value):
        return Start({value: mask})
    pending, masks, ends = {value: mask}, dict[Value, Tensor](), list[Step]()
    for step in reversed(trace.steps):
        for out in step.outputs:
            own = pending.pop(out, None)
            if own is None or not bool(own.any()):
                continue
            parts = _before(step, out, own)
            if not parts:
                masks[out] = own
            elif step.rule.squashes:
                ends.append(step)
            for each, part in parts:
                pending[each] = pending[each] + part if each in pending else part
    return Start({**masks, **pending}, ends) if ends else Start({value: mask})


def _ends_squashed(trace: Trace, value: Value) -> bool:
    """Whether moves alone lead from a value back to a function that squashes."""
    reached = {value}
    for step in reversed(trace.steps):
        if reached.isdisjoint(step.outputs):
            continue
        if step.rule.squashes:
            return True
        if step.rule.moves or _is_contrast(step):
            reached.update(step.inputs)
    return False


def _is_contrast(step: Step) -> bool:
    """Whether it adds or subtracts results of one function that squashes, as a contrast of log-probabilities does."""
    if not step.rule.combines or step.rule.multiplies or not step.inputs:
        return False
    found = {_squashed_by(each) for each in step.inputs}
    return len(found) == 1 and None not in found


def _squashed_by(value: Value) -> Step | None:
    """The function that squashes to which moves of one tensor lead back; None if they lead elsewhere."""
    step = value.step
    while step is not None and step.rule.moves and len(step.inputs) == 1:
        step = step.inputs[0].step
    return step if step is not None and step.rule.squashes else None


def _before(step: Step, value: Value, mask: Tensor) -> Sequence[tuple[Value, Tensor]]:
    """What a mask picks of the inputs of a step that squashes, moves numbers, or is a contrast; nothing for any other step."""
    live = [each for each in step.inputs if each.is_live]
    if step.rule.squashes:
        return [(step.inputs[0], mask)]
    if step.rule.moves and hasattr(step.saved, "adjoint"):
        return list(zip(live, step.saved.adjoint([mask if each is value else None for each in step.outputs]), strict=True))
    if step.rule.moves:
        return list(zip(live, step.saved(mask), strict=True))
    return step.rule.scaled(step, mask) if _is_contrast(step) else []


def required_steps(trace: Trace, starts: Collection[Value], *, is_strict: bool = False) -> set[Step]:
    """The steps that relevance from `starts` passes through; raises if some of them have no rule, and names all of those.

    If `is_strict`, a step that needs a choice has no rule either.
    """
    reached, steps, refused = set(starts), set[Step](), list[Blocked]()
    for step in reversed(trace.steps):
        if reached.isdisjoint(step.outputs):
            continue
        try:
            reached.update(step.rule.receivers(step))
        except NoRule as reason:
            refused.append(Blocked(step.function, step.layer, str(reason)))
            reached.update(each for each in step.inputs if each.is_live)
        if is_strict and (choice := step.rule.choice(step)) is not None:
            mark = "; mark the gate with whence.gate(tensor)" if step.rule.combines else ""
            refused.append(
                Blocked(step.function, step.layer, f"strict=True makes no choice ({choice.gate}; {choice.why}){mark}")
            )
        steps.add(step)
    if refused:
        raise blocked(list(dict.fromkeys(reversed(refused))))
    return steps


def values_read(path: Sequence[Step], starts: Collection[Value]) -> set[Value]:
    """The values whose numbers a backward pass from `starts` through these steps needs."""
    finished, read = set(starts), set(starts)
    for step in reversed(path):
        outputs = set(step.outputs)
        read.update(each for each in step.rule.reads(step) if each in finished or each not in outputs or not each.in_sum)
        finished.update(each for each in step.inputs if step.rule.finishes(step, each, finished))
    return read


def choices_of(trace: Trace, steps: Collection[Step], ends: Sequence[Step]) -> tuple[Choice, ...]:
    """What had to be decided in these steps, and before which functions at the end of the model relevance starts."""
    before = "it ends the model, so relevance starts from the scores before it"
    found = Counter(Choice(step.layer, step.name, "no gate", before) for step in ends)
    made = (step.rule.choice(step) for step in trace.steps if step in steps)
    found.update(choice for choice in made if choice is not None)
    return tuple(choice._replace(times=times) for choice, times in found.items())


def scores_at(start: Start) -> list[tuple[Value, Tensor]]:
    """The amounts (K, *shape) that relevance starts with, by value; what no mask picks is 0, also if it is infinite."""
    return [(value, torch.where(mask != 0, mask * value.tensor, 0.0)) for value, mask in start.masks.items()]


def require_strict(ends: Sequence[Step]) -> None:
    """Refuse to start before the functions that end a model."""
    if ends:
        reason = (
            "it ends the model, and strict=True does not start before it; let the model return the scores, or leave strict out"
        )
        raise blocked([Blocked(end.function, end.layer, reason) for end in ends])
