"""The public door of the method wing: model, inputs, target and method in, a result out."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from whence.errors import InputError, TargetError, WeightsError
from whence.methods.forward import Forward, Inputs
from whence.methods.lrp import LRP
from whence.methods.method import Method, is_time_first
from whence.methods.target import Target
from whence.result import Result


def relevance(
    model: nn.Module,
    inputs: Inputs,
    *,
    target: Target = None,
    method: Method | None = None,
    lengths: Sequence[int] | Tensor | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Result:
    """Explain one score per sample of an unmodified model.

    `inputs`: a float tensor, a tuple of them (relevance for each), or a `PackedSequence`; whatever else the model takes goes
    into `args` and `kwargs`. `target`: a class index or one per sample, `"predicted"`, `"all"` (a leading axis of classes),
    `(time step, class)`, or a callable from the model's output to one score per sample. `lengths`: how many steps of each
    sample of a padded batch are real; every sample is then explained as if it were alone.

        result = whence.relevance(model, inputs, target=3, method=whence.LRP(epsilon=1e-3))
        result.check().relevance
    """
    method = LRP() if method is None else method
    tensors = _explained_tensors(inputs)
    _require_finite_weights(model)
    if lengths is None:
        _require_finite(tensors)
        return method.relevance(Forward(model, inputs, args, kwargs), target)
    return _by_length(model, inputs, lengths, target=target, method=method, args=args, kwargs=kwargs or {})


def _explained_tensors(inputs: Inputs) -> tuple[Tensor, ...]:
    found = inputs if isinstance(inputs, tuple) and not isinstance(inputs, PackedSequence) else (inputs,)
    if not found:
        raise InputError("inputs is an empty tuple; give at least one float tensor")
    tensors: list[Tensor] = []
    for each in cast(tuple[Any, ...], found):
        tensor = each.data if isinstance(each, PackedSequence) else each
        if not isinstance(tensor, Tensor):
            raise InputError(f"inputs holds a {type(tensor).__name__}; explained inputs are float tensors")
        if not tensor.is_floating_point():
            raise InputError(
                f"inputs are of type {tensor.dtype}; relevance needs numbers that can carry it: "
                "embed first, or explain the embedding's output"
            )
        if tensor.dim() == 0 or tensor.numel() == 0:
            raise InputError(
                f"inputs of shape {tuple(tensor.shape)} hold an empty sequence or no sample; there is nothing to explain"
            )
        tensors.append(tensor)
    return tuple(tensors)


def _require_finite(tensors: Sequence[Tensor]) -> None:
    for n, tensor in enumerate(tensors):
        if not bool(tensor.sum().isfinite()) and not bool(tensor.isfinite().all()):
            place = (~tensor.isfinite()).nonzero()[0].tolist()
            name = "inputs" if len(tensors) == 1 else f"inputs[{n}]"
            raise InputError(f"{name}{place} is {tensor[tuple(place)].item()}; inputs must be finite numbers")


def _require_finite_weights(model: nn.Module) -> None:
    """A sum shows a NaN or infinity at a tenth of the price of looking at every number."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and not bool(tensor.detach().sum().isfinite()) and not bool(tensor.isfinite().all()):
            place = (~tensor.isfinite()).nonzero()[0].tolist()
            raise WeightsError(
                f"{name}{place} is {tensor[tuple(place)].item()}; the model's weights must be finite: was its training cut off?"
            )


def _by_length(
    model: nn.Module,
    inputs: Inputs,
    lengths: Sequence[int] | Tensor,
    *,
    target: Target,
    method: Method,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Result:
    """Explain a padded batch: samples of one length together, cut to that length, so that padding has no say at all."""
    if isinstance(inputs, PackedSequence):
        raise InputError("inputs are packed and tell their own lengths; leave out lengths=")
    tensors = inputs if isinstance(inputs, tuple) else (inputs,)
    axis, sizes = _lengths(tensors[0], lengths, time_first=is_time_first(model))
    if "lengths" in inspect.signature(model.forward).parameters and "lengths" not in kwargs:
        kwargs = {**kwargs, "lengths": torch.tensor(sizes)}
    padded = tensors[0].shape[1 - axis]
    parts: list[tuple[Tensor, Result]] = []
    for size in sorted(set(sizes)):
        rows = torch.tensor([n for n, length in enumerate(sizes) if length == size])

        def cut(thing: Any, rows: Tensor = rows, size: int = size) -> Any:
            return _cut(thing, rows, size, axis=axis, samples=len(sizes), padded=padded)

        group = tuple(cut(tensor) for tensor in tensors)
        _require_finite(group)
        forward = Forward(
            model,
            group if isinstance(inputs, tuple) else group[0],
            [_rows(each, rows, samples=len(sizes)) for each in args],
            {name: _rows(each, rows, samples=len(sizes)) for name, each in kwargs.items()},
        )
        parts.append((rows, method.relevance(forward, _target_rows(target, rows, samples=len(sizes)))))
    return _joined(parts, tensors, inputs, target, axis)


def _lengths(tensor: Tensor, lengths: Sequence[int] | Tensor, *, time_first: bool) -> tuple[int, list[int]]:
    """The batch axis of a padded tensor, and its lengths, checked."""
    sizes = [int(length) for length in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if tensor.dim() < 2:
        raise InputError(f"inputs of shape {tuple(tensor.shape)} are no padded batch; lengths= needs (samples, steps, ...)")
    axes = [axis for axis in ((1, 0) if time_first else (0, 1)) if tensor.shape[axis] == len(sizes)]
    if not axes:
        raise InputError(f"lengths has {len(sizes)} entries for inputs of shape {tuple(tensor.shape)}; give one per sample")
    steps = tensor.shape[1 - axes[0]]
    for n, size in enumerate(sizes):
        if not 1 <= size <= steps:
            raise InputError(f"lengths[{n}] is {size}; a sample has between 1 and {steps} steps")
    return axes[0], sizes


def _cut(thing: Tensor, rows: Tensor, size: int, *, axis: int, samples: int, padded: int) -> Tensor:
    """The rows of one length, without their padding."""
    axis = axis if thing.dim() > axis and thing.shape[axis] == samples else 0
    found = thing.index_select(axis, rows.to(thing.device))
    has_time = thing.dim() > 2 and found.shape[1 - axis] == padded
    return found.narrow(1 - axis, 0, size) if has_time or (thing.dim() == 2 and axis == 1) else found


def _rows(thing: Any, rows: Tensor, *, samples: int) -> Any:
    """The rows of a further argument that has one per sample: along its first axis, or the second as states do."""
    if isinstance(thing, tuple):
        return tuple(_rows(each, rows, samples=samples) for each in cast(tuple[Any, ...], thing))
    if not isinstance(thing, Tensor) or samples not in thing.shape[:2]:
        return thing
    is_state = thing.dim() == 3 and thing.shape[1] == samples
    return thing.index_select(1 if is_state else 0, rows.to(thing.device))


def _target_rows(target: Target, rows: Tensor, *, samples: int) -> Target:
    if isinstance(target, (str, tuple)) or not isinstance(target, (Sequence, Tensor, np.ndarray)):
        return cast(Target, target)
    given = torch.as_tensor(target)
    if given.dim() == 1 and len(given) != samples:
        raise TargetError(f"target names {len(given)} classes for {samples} samples; give one for all or one for each")
    return given[rows.to(given.device)] if given.dim() == 1 else given


def _joined(parts: list[tuple[Tensor, Result]], tensors: Sequence[Tensor], inputs: Inputs, target: Target, axis: int) -> Result:
    """The results of all lengths as one, in the order of the batch; padding has relevance 0."""
    first = parts[0][1]
    is_all = isinstance(target, str) and target == "all"
    lead = (first.score.shape[0],) if is_all else ()
    count = sum(len(rows) for rows, _ in parts)
    whole = [tensor.new_zeros(*lead, *tensor.shape) for tensor in tensors]

    def gathered(amounts: Sequence[Tensor | None]) -> Tensor:
        total = first.score.new_zeros(*lead, count)
        for (rows, _), amount in zip(parts, amounts, strict=True):
            if amount is not None:
                total[..., rows.to(total.device)] = amount
        return total

    for rows, part in parts:
        found = part.relevance if isinstance(inputs, tuple) else (part.relevance,)
        for into, each in zip(whole, cast(tuple[Tensor, ...], found), strict=True):
            batch = len(lead) + (axis if into.dim() - len(lead) > 2 else 0)
            view = into.movedim(batch, 0)
            cut = each.movedim(batch, 0)
            region = tuple(slice(0, size) for size in cut.shape[1:])
            view[(rows.to(into.device), *region)] = cut
    absorbed = {name for _, part in parts for name in part.absorbed}
    gaps = {name for _, part in parts for name in part.gaps}
    targets = [part.target for _, part in parts]
    joined_target: Any = target
    if all(isinstance(each, Tensor) for each in targets):
        joined_target = torch.zeros(count, dtype=torch.long).index_copy(
            0, torch.cat([rows for rows, _ in parts]), torch.cat([each.cpu() for each in cast(list[Tensor], targets)])
        )
    return Result(
        relevance=tuple(whole) if isinstance(inputs, tuple) else whole[0],
        score=gathered([part.score for _, part in parts]),
        target=joined_target,
        method=first.method,
        absorbed={name: gathered([part.absorbed.get(name) for _, part in parts]) for name in sorted(absorbed)},
        explained=None if first.explained is None else gathered([part.explained for _, part in parts]),
        gaps={name: gathered([part.gaps.get(name) for _, part in parts]) for name in sorted(gaps)},
    )
