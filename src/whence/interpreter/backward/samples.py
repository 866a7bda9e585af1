"""Which sample of the batch each element belongs to, found by following the samples through the recorded steps.

The ledger is kept per sample, but a tensor inside a model does not say where its batch axis is: (B, T, E), (T, B, E),
packed rows, flattened. So the samples of every explained input are numbered along a candidate axis, and these numbers are
passed through the same calls as the data. The axis is accepted if no step mixes two samples. Numbers start at 1; 0 marks
constants, which belong to no sample.
"""

from collections.abc import Callable, Sequence, Set
from itertools import product
from typing import cast

import torch
from torch import Tensor

from whence.errors import InputError
from whence.interpreter.record.refusal import unforeseen
from whence.interpreter.record.step import MixedSamplesError, Owners, Step, Trace, Value


def completed(owner: Tensor, *, keep: int = 0) -> Tensor:
    """Assign elements without an owner to the sample that owns all others along an axis; axes of size `keep` are skipped."""
    for axis in reversed(range(owner.dim())):
        if owner.numel() == 0 or (owner != 0).all():
            break
        highest = owner.amax(axis, keepdim=True)
        if (
            owner.shape[axis] == keep and len(cast(Tensor, highest[highest != 0].unique())) < 2
        ):  # the samples themselves may lie along it
            continue
        if not ((owner != highest) & (owner != 0)).any():  # otherwise several samples lie along this axis
            owner = torch.where(owner == 0, highest, owner)
    return owner


class Samples:
    """The number of samples, and sums over each sample of anything that was recorded."""

    def __init__(self, count: int, owners: Owners | None) -> None:
        self.count = count
        self.is_derived = False  # whether they were found by derivatives, which depend on the numbers
        self.owners = owners  # None: a single sample owns everything
        self._columns: dict[Value, Tensor | None] = {}
        self._owned: set[Value] = set()  # terms of sums that belong to samples
        self._axes: dict[Value, int | None] = {}  # by value the axis along which its samples lie in order, if there is one

    def totals(self, amount: Tensor, value: Value) -> Tensor:
        """Sum an amount (K, *shape of value) over each sample: (K, B)."""
        if self.owners is None:
            return amount.reshape(len(amount), -1).sum(1, keepdim=True)
        axis = self.whole_axis(value)
        if axis is not None:
            whole = amount if amount.shape[1:] == value.tensor.shape else amount.expand(len(amount), *value.tensor.shape)
            return whole.sum([n for n in range(1, whole.dim()) if n != axis + 1])
        owner = completed(self.owners[value], keep=self.count).expand(value.tensor.shape).reshape(-1).long()
        flat = amount.expand(len(amount), *value.tensor.shape).reshape(len(amount), -1)
        sums = flat.new_zeros(len(amount), self.count + 1).index_add(1, owner, flat)
        if (sums[:, 0] != 0).any():
            raise InputError(
                f"cannot tell which sample a constant in {value.step.layer if value.step else 'the inputs'!r} belongs to; "
                "explain the samples one at a time"
            )
        return sums[:, 1:]

    def settle(self, trace: Trace, scores: Value, axis: int | None) -> None:
        """Give constants, which belong to no sample, the owners of what became of them, from the scores back to the inputs."""
        if self.owners is None or axis is None or not self.owners.partial:
            return
        numbers = _numbers(self.count, scores.tensor.device)
        self.owners[scores] = numbers.view([-1 if n == axis else 1 for n in range(scores.tensor.dim())]).expand(
            scores.tensor.shape
        )
        for step in reversed(trace.steps):
            self._complete(step)

    def _complete(self, step: Step) -> None:
        """Give constants among the inputs of a step the owners of what the step made of them."""
        assert self.owners is not None
        for value in step.inputs:
            if value.is_live and value in self.owners.partial:
                for out in (each for each in step.outputs if each in self.owners):
                    found = step.rule.owners_back(step, value, out, self.owners[out].expand(out.tensor.shape))
                    if found is not None:
                        own = self.owners[value].expand(value.tensor.shape)
                        self.owners[value] = torch.where(own == 0, found, own)

    def whole_axis(self, value: Value) -> int | None:
        """The axis along which the samples of a value lie in order, if the strides of its owners show it; None otherwise."""
        if self.owners is None:
            return None
        if value not in self._axes:
            self._axes[value] = self._found_axis(value)
        return self._axes[value]

    def _found_axis(self, value: Value) -> int | None:
        assert self.owners is not None
        owner = self.owners[value]
        if owner.shape != value.tensor.shape or owner.dim() < 2:
            return None
        axes = [axis for axis in range(owner.dim()) if owner.stride(axis) != 0]
        if len(axes) != 1 or owner.shape[axes[0]] != self.count:
            return None
        row = owner[tuple(slice(None) if axis == axes[0] else 0 for axis in range(owner.dim()))]
        return axes[0] if torch.equal(row, _numbers(self.count, owner.device)) else None

    def columns(self, value: Value) -> Tensor | None:
        """The sample numbers along the second-to-last axis of a value (..., n, ·); None if they are 1, 2, … in order."""
        assert self.owners is not None
        if value not in self._columns:
            owner = self.owners[value].expand(value.tensor.shape)
            found = owner.reshape(-1, *owner.shape[-2:])[0, :, 0].long()
            in_order = torch.arange(1, self.count + 1, device=found.device)
            self._columns[value] = None if torch.equal(found, in_order) else found
        return self._columns[value]

    def compact(self) -> None:
        """Keep the owners of values whose samples lie along an axis without a tensor of their size for each."""
        if self.owners is None:
            return
        self._axes.clear()
        numbers: dict[torch.device, Tensor] = {}
        for value, owner in self.owners.items():
            axis, shape = self.axis_of(value), value.tensor.shape
            if axis is not None and owner.shape == shape and bool(owner.all()):
                own = numbers.setdefault(owner.device, _numbers(self.count, owner.device))
                self.owners[value] = own.view([-1 if n == axis else 1 for n in range(owner.dim())]).expand(shape)

    def adopt(self, term: Value, total: Value) -> None:
        """Give a term that belongs to no sample (a constant behind a gate) the owners of the sum it is added to."""
        if self.owners is None or term in self._owned:
            return
        if term.tensor.shape == total.tensor.shape and not self.owners[term].any():
            self.owners[term] = self.owners[total]
            self._axes.pop(term, None)
        self._owned.add(term)

    def axis_of(self, value: Value) -> int | None:
        """The axis of a value along which its samples lie; None for a single sample, or if no axis fits."""
        if self.owners is None:
            return None
        owner = completed(self.owners[value], keep=self.count).expand(value.tensor.shape)
        for axis, size in enumerate(owner.shape):
            if size != self.count:
                continue
            shape = [1] * owner.dim()
            shape[axis] = size
            numbers = _numbers(self.count, owner.device).view(shape)
            if ((owner == numbers) | (owner == 0)).all() and owner.any():
                return axis
        return None


def _numbers(count: int, device: torch.device) -> Tensor:
    return torch.arange(1, count + 1, dtype=torch.float64, device=device)


def follow(trace: Trace, starts: Sequence[Tensor], count: int, required: Set[Step] | None) -> Owners:
    """The owners of all live values, given those of the explained inputs; only `required` steps must keep samples apart."""
    owners = Owners(zip(trace.leaves, starts, strict=True))
    owners.count = count
    for step in trace.steps:
        if any(value.is_live for value in step.inputs):
            if any(value in owners.partial for value in step.inputs):
                owners.partial.update(step.outputs)
            try:
                owners.update(zip(step.outputs, step.rule.owners(step, owners), strict=True))
            except MixedSamplesError:
                if required is None or step in required:
                    raise
                owners.update((value, torch.zeros_like(value.tensor, dtype=torch.float64)) for value in step.outputs)
            except RuntimeError as error:
                raise unforeseen(step, error) from error
    return owners


def find_samples(
    trace: Trace,
    count: int,
    *,
    known: Sequence[Tensor | None],
    required: Set[Step] | None = None,
    accept: Callable[["Samples"], bool] = lambda samples: True,
) -> Samples | None:
    """Find the samples of a batch of `count`; None if no axis of the inputs holds that many separate samples.

    They must be separate only in the `required` steps, those that relevance passes through. `known` holds for every input its
    owners if they are known beforehand (packed rows), None if they are to be found. `accept` may reject a result.
    """
    if count == 1:
        return Samples(1, None)
    candidates: list[list[Tensor]] = []
    for leaf, given in zip(trace.leaves, known, strict=True):
        shape = leaf.tensor.shape
        if given is not None:
            candidates.append([given.view(-1, *(1,) * (len(shape) - 1)).expand(shape)])
            continue
        numbers = _numbers(count, leaf.tensor.device)
        along = [(axis, numbers) for axis, size in enumerate(shape) if size == count]
        for axis, size in enumerate(shape):  # samples in blocks of an axis, or in turn, as where steps and samples are joined
            if size > count and size % count == 0:
                along += [(axis, numbers.repeat_interleave(size // count)), (axis, numbers.repeat(size // count))]
        candidates.append([own.view([-1 if a == axis else 1 for a in range(len(shape))]).expand(shape) for axis, own in along])
    for starts in product(*candidates):
        try:
            samples = Samples(count, follow(trace, starts, count, required))
        except MixedSamplesError:
            continue
        if accept(samples):
            return samples
    return None


def owners_by_derivative(
    scores: Tensor, inputs: Sequence[Tensor], axis: int, known: Sequence[Tensor | None]
) -> list[Tensor] | None:
    """The owners of the explained inputs, each found by the score that changes with it; None if several do.

    This finds samples of any number of rows. Samples that lie along an axis in another order are not accepted: each one's
    relevance would be taken for another's. `scores` are computed from `inputs` with a graph; `known` are owners of rows.
    """
    found = [torch.zeros_like(tensor, dtype=torch.float64) for tensor in inputs]
    for n in range(scores.shape[axis]):
        each = torch.autograd.grad(scores.select(axis, n).sum(), list(inputs), retain_graph=True, materialize_grads=True)
        for into, derivative in zip(found, each, strict=True):
            # what cancels, such as the maximum that a softmax subtracts, leaves a little behind
            touched = derivative.abs() > 1e3 * torch.finfo(derivative.dtype).eps * derivative.abs().max()
            if bool((touched & (into != 0)).any()):
                return None
            into[touched] = n + 1
    count = scores.shape[axis]
    if any(_is_out_of_order(own, count, rows) for own, rows in zip(found, known, strict=True)):
        return None
    return [completed(own, keep=count) for own in found]


def _is_out_of_order(owner: Tensor, count: int, rows: Tensor | None) -> bool:
    """Whether samples lie along an axis as long as there are samples, or in known rows, but not in their order."""
    if rows is not None:
        expected = rows.view(-1, *(1,) * (owner.dim() - 1))
        return bool(((owner != expected) & (owner != 0)).any())
    for axis in range(owner.dim()):
        if owner.shape[axis] == count:
            others = [n for n in range(owner.dim()) if n != axis]
            highest = owner.amax(others, keepdim=True) if others else owner
            is_whole = not bool(((owner != highest) & (owner != 0)).any())
            if is_whole and not torch.equal(highest.reshape(-1), _numbers(count, owner.device)):
                return True
    return False
