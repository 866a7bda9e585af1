"""A padded batch, explained length by length: samples of one length form a batch of their own, without padding."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError, NoRuleError, TargetError
from whence.methods.asking import answered
from whence.methods.following import input_axis
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question
from whence.methods.predicting import predicting
from whence.methods.target import Contrast, Index, Target, is_mixed
from whence.result import ModelAnswer, Result
from whence.trees import floats_of, mapped


class Padding(NamedTuple):
    """A padded batch: the axis of its samples (time is the other of the first two), its steps, and the samples' lengths."""

    axis: int
    steps: int
    lengths: list[int]

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.lengths)


def relevance_by_length(forward: Forward, question: Question, method: Method, lengths: object) -> Result:
    """Explain every sample of a padded batch as if it were alone."""
    if forward.inputs.tells_lengths:
        raise InputError("inputs are packed and tell their own lengths; leave out lengths=")
    tensors = forward.inputs.tensors
    padding = _padding(forward, tensors[0], lengths)
    forward = _told_lengths(forward, tensors, padding)
    parts: list[tuple[Tensor, Result]] = []
    for size in sorted(set(padding.lengths)):
        rows = torch.tensor([n for n, length in enumerate(padding.lengths) if length == size], device="cpu")
        group = tuple(_cut_input(tensor, rows, size, padding, is_first=n == 0) for n, tensor in enumerate(tensors))
        require_finite(group)
        cut = replace(
            forward,
            inputs=replace(forward.inputs, tensors=group),
            args=[_cut_argument(each, f"args[{n}]", rows, size, padding) for n, each in enumerate(forward.args)],
            kwargs={name: _cut_argument(each, name, rows, size, padding) for name, each in forward.kwargs.items()},
        )
        try:
            part = answered(cut, question._replace(target=_cut_target(question.target, rows, padding), by_step=False), method)
        except TargetError as error:
            raise TargetError(f"sample {int(rows[0])}, of length {size}: {error}") from None
        if part.score.shape[-1:] != (len(rows),):
            raise InputError(
                f"lengths has {padding.samples} entries, but the model gave {part.score.numel()} scores for {len(rows)} of the "
                "samples; are the samples along the axis that lengths counts?"
            )
        parts.append((rows, part))
    result = _joined(parts, forward, question.target, padding)
    return result.by_step() if question.by_step else result


def _padding(forward: Forward, tensor: Tensor, lengths: object) -> Padding:
    """Where the samples of a padded tensor lie, and their lengths, checked."""
    given = cast(object, lengths.tolist()) if isinstance(lengths, (Tensor, np.ndarray)) else lengths
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in cast(list[object], given)
    ):
        raise InputError(f"lengths is {lengths!r}; give one whole number per sample")
    sizes = [int(n) for n in cast(list[int], given)]
    if tensor.dim() < 2:
        raise InputError(f"inputs of shape {tuple(tensor.shape)} are no padded batch; lengths= needs (samples, steps, ...)")
    axes = [axis for axis in ((1, 0) if forward.parts.is_time_first else (0, 1)) if tensor.shape[axis] == len(sizes)]
    if not axes:
        raise InputError(f"lengths has {len(sizes)} entries for inputs of shape {tuple(tensor.shape)}; give one per sample")
    axis = axes[0]
    if len(axes) == 2 and len(sizes) > 1 and tensor.is_floating_point():
        # as many steps as samples: follow the samples to find their axis
        try:
            with predicting(forward.parts) as state:
                found = input_axis(forward, len(sizes), state)
            axis = found if found in axes else axis
        except NoRuleError:
            pass
    steps = tensor.shape[1 - axis]
    for n, size in enumerate(sizes):
        if not 1 <= size <= steps:
            raise InputError(f"lengths[{n}] is {size}; a sample has between 1 and {steps} steps")
    return Padding(axis, steps, sizes)


def _told_lengths(forward: Forward, tensors: Sequence[Tensor], padding: Padding) -> Forward:
    """Pass the lengths to a model whose forward has a parameter `lengths`, unless the caller already does."""
    signature = inspect.signature(forward.model.forward)
    if "lengths" not in signature.parameters:
        return forward
    try:
        args, kwargs = forward.arguments(forward.inputs.form(tensors))
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return forward
    if "lengths" in given:
        return forward
    return replace(forward, kwargs={**forward.kwargs, "lengths": torch.tensor(padding.lengths, device="cpu")})


def _cut_input(tensor: Tensor, rows: Tensor, size: int, padding: Padding, *, is_first: bool) -> Tensor:
    """The samples of one length: sequences without their padding, any other input as one row per sample."""
    is_sequence, axis = _place(tensor, padding, is_first=is_first)
    if not is_sequence and tensor.shape == (padding.samples, padding.steps):
        raise InputError(
            f"with lengths=, an input of shape {tuple(tensor.shape)} may hold one number per step or a row of features; "
            "give a sequence as (samples, steps, 1), or explain each length in a call of its own"
        )
    if tensor.shape[axis] != padding.samples:
        raise InputError(f"inputs of shape {tuple(tensor.shape)} do not hold the {padding.samples} samples that lengths counts")
    found = tensor.index_select(axis, rows.to(tensor.device))
    return found.narrow(1 - axis, 0, size) if is_sequence else found


def _place(tensor: Tensor, padding: Padding, *, is_first: bool) -> tuple[bool, int]:
    """Whether an input is a padded sequence, and the axis of its samples."""
    is_sequence = is_first or (tensor.dim() > 2 and tensor.shape[1 - padding.axis] == padding.steps)
    return is_sequence, padding.axis if is_sequence else 0


def _cut_argument(thing: object, name: str, rows: Tensor, size: int, padding: Padding) -> object:
    """The samples' rows of a further argument, if its shape shows that it has one row per sample."""
    if isinstance(thing, (tuple, list)):
        cut = [_cut_argument(each, f"{name}[{n}]", rows, size, padding) for n, each in enumerate(cast(list[object], thing))]
        return tuple(cut) if isinstance(thing, tuple) else cut
    if not isinstance(thing, Tensor) or padding.samples not in thing.shape[:2] or len(rows) == padding.samples == 1:
        return _cut_time(thing, size, padding) if isinstance(thing, Tensor) and len(rows) == padding.samples else thing
    readings = set(_readings(thing, padding))
    if len(readings) != 1:
        raise InputError(
            f"with lengths=, {name} of shape {tuple(thing.shape)} may hold one row per sample, a state, or one thing for all; "
            "put it into inputs=(x, ...) if it has a row per sample, or explain each length in a call of its own"
        )
    axis, has_time = readings.pop()
    found = thing.index_select(axis, rows.to(thing.device))
    return found.narrow(1 - axis, 0, size) if has_time else found


def _readings(thing: Tensor, padding: Padding) -> list[tuple[int, bool]]:
    """The ways in which an argument may hold the samples: along which axis, and whether the other one is padded time."""
    shape, found = thing.shape, list[tuple[int, bool]]()
    is_count = not thing.is_floating_point()
    if thing.dim() < 3 and not is_count:
        return []  # one row per sample, or a table that all samples share: only the caller knows
    if thing.dim() == 1:
        return [(0, False)] if thing.tolist() == padding.lengths else []
    sequence = shape[padding.axis] == padding.samples and shape[1 - padding.axis] == padding.steps
    if sequence:
        found.append((padding.axis, True))
    if shape[0] == padding.samples and not (sequence and padding.axis == 0):
        found += [(0, False), (-1, False)]  # one row per sample, or as many rows that all samples share
    if thing.dim() == 3 and shape[1] == padding.samples and not (sequence and padding.axis == 1):
        found.append((1, False))
    return found


def _cut_time(thing: Tensor, size: int, padding: Padding) -> Tensor:
    """An argument of a batch whose samples all have one length: only its padding is removed."""
    is_sequence = thing.dim() > 1 and thing.shape[padding.axis] == padding.samples and size < padding.steps
    if is_sequence and thing.shape[1 - padding.axis] == padding.steps:
        return thing.narrow(1 - padding.axis, 0, size)
    return thing


def _cut_target(target: Target, rows: Tensor, padding: Padding) -> Target:
    if isinstance(target, (str, tuple)) or not isinstance(target, (Sequence, Tensor, np.ndarray)):
        return cast(Target, target)
    if is_mixed(cast(Target, target)) and len(cast(Sequence[object], target)) == padding.samples:
        each = cast(Sequence[Index | str | Contrast], target)
        return [each[n] for n in cast(list[int], rows.tolist())]
    try:
        given = torch.as_tensor(cast(object, target), device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise TargetError(f"target {target!r} is not known; use a class index or one per sample") from None
    if given.dim() == 1 and len(given) != padding.samples:
        raise TargetError(f"target names {len(given)} classes for {padding.samples} samples; give one for all or one for each")
    return given[rows.to(given.device)] if given.dim() == 1 else given


def _joined(parts: Sequence[tuple[Tensor, Result]], forward: Forward, target: Target, padding: Padding) -> Result:
    """The results of all lengths as one, in the order of the batch; padding has relevance 0."""
    if isinstance(target, tuple) and target[0] == "all":
        longest = max(part.score.shape[0] for _, part in parts)
        parts = [(rows, _with_steps(part, longest)) for rows, part in parts]
    first = parts[0][1]
    if len({part.score.shape[:-1] for _, part in parts}) > 1:
        raise TargetError('the number of classes depends on the length, so there is no target="all"; explain each length alone')
    sampled = [(rows, part.errors) for rows, part in parts if part.errors is not None]
    scores = _gathered(parts, [part.score for _, part in parts])
    targets = [part.target for _, part in parts]
    return Result(
        relevance=_assembled([(rows, part.relevance) for rows, part in parts], first.score.dim() - 1, forward, padding),
        score=scores,
        target=_gathered(parts, targets) if all(isinstance(each, Tensor) for each in targets) else target,
        method=first.method,
        absorbed=_gathered_by_name(parts, [part.absorbed for _, part in parts]),
        explained=None if first.explained is None else _gathered(parts, [part.explained for _, part in parts]),
        gaps=_gathered_by_name(parts, [part.gaps for _, part in parts]),
        errors=_assembled(sampled, first.score.dim() - 1, forward, padding) if sampled else None,
        allowed=_gathered_by_name(parts, [part.allowed for _, part in parts]),
        answer=_answers(parts),
        shared_out=_where_known(parts, [part.shared_out for _, part in parts]),
        fitting_epsilon=_where_known(parts, [part.fitting_epsilon for _, part in parts]),
    )


def _where_known(parts: Sequence[tuple[Tensor, Result]], amounts: Sequence[Tensor | None]) -> Tensor | None:
    """Amounts of every length as one, NaN where a length has none; None if none has any."""
    if all(each is None for each in amounts):
        return None
    filled = [
        torch.full_like(part.score, torch.nan) if each is None else each for (_, part), each in zip(parts, amounts, strict=True)
    ]
    return _gathered(parts, filled)


def _answers(parts: Sequence[tuple[Tensor, Result]]) -> ModelAnswer | None:
    """What the model says of all samples, if it was asked."""
    given = [part.answer for _, part in parts if part.answer is not None]
    return ModelAnswer(*(_gathered(parts, own) for own in zip(*given, strict=True))) if given else None


def _assembled(parts: Sequence[tuple[Tensor, object]], lead: int, forward: Forward, padding: Padding) -> object:
    """Amounts of every length in the form of the inputs, with this many leading axes; 0 in the padding."""
    tensors, first = forward.inputs.tensors, floats_of(parts[0][1])
    whole = [  # for ids, with the embedding's dimensions last
        each.new_zeros(*each.shape[:lead], *tensor.shape, *each.shape[lead + tensor.dim() :])
        for tensor, each in zip(tensors, first, strict=True)
    ]
    for rows, part in parts:
        for n, (into, each) in enumerate(zip(whole, floats_of(part), strict=True)):
            axis = lead + _place(tensors[n], padding, is_first=n == 0)[1]
            cut = each.movedim(axis, 0)
            region = (rows.to(into.device), *(slice(0, size) for size in cut.shape[1:]))
            into.movedim(axis, 0)[region] = cut
    return forward.inputs.wrapped(whole, lead)


def _with_steps(part: Result, steps: int) -> Result:
    """A result for all output steps, with 0 for those that its samples do not have."""

    def filled(amount: Tensor) -> Tensor:
        return torch.cat([amount, amount.new_zeros(steps - len(amount), *amount.shape[1:])])

    return replace(
        part,
        relevance=mapped(filled, part.relevance),
        score=filled(part.score),
        explained=None if part.explained is None else filled(part.explained),
        absorbed={name: filled(amount) for name, amount in part.absorbed.items()},
        gaps={name: filled(amount) for name, amount in part.gaps.items()},
        errors=None if part.errors is None else mapped(filled, part.errors),
        allowed={name: filled(amount) for name, amount in part.allowed.items()},
        answer=None if part.answer is None else ModelAnswer(*map(filled, part.answer)),
        shared_out=None if part.shared_out is None else filled(part.shared_out),
        fitting_epsilon=None if part.fitting_epsilon is None else filled(part.fitting_epsilon),
    )


def _gathered(parts: Sequence[tuple[Tensor, Result]], amounts: Sequence[Tensor | None]) -> Tensor:
    """Amounts (..., group) of every length as one (..., B), 0 where a length has none."""
    some = next(amount for amount in amounts if amount is not None)
    total = some.new_zeros(*some.shape[:-1], sum(len(rows) for rows, _ in parts))
    for (rows, _), amount in zip(parts, amounts, strict=True):
        if amount is not None:
            total[..., rows.to(total.device)] = amount
    return total


def _gathered_by_name(parts: Sequence[tuple[Tensor, Result]], ledgers: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    names = sorted({name for ledger in ledgers for name in ledger})
    return {name: _gathered(parts, [ledger.get(name) for ledger in ledgers]) for name in names}
