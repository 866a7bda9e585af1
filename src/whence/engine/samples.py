"""Which sample of the batch each element belongs to, followed through the calls of a run.

The ledger is kept per sample, but a tensor inside a model does not say where its batch axis is: (B, T, E), (T, B, E),
packed rows, flattened. So a run starts with a guess, the axis along which the samples of every input lie, and follows it. The
guess holds if no call that relevance passes mixes two samples, and the scores lie along their axis in order.

An owner is the axis along which samples lie in order, counted from the right (−2 in (T, B, E)); where they do not, a tensor of
their numbers from 1 on, with 0 for constants; None for what belongs to no sample.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from whence.engine.marks import ModelCall, Owner
from whence.errors import InputError

Owned = tuple[Owner, torch.Size]


def completed(owner: Tensor, *, keep: int = 0) -> Tensor:
    """Assign elements without an owner to the sample that owns all others along an axis; axes of size `keep` are skipped."""
    for axis in reversed(range(owner.dim())):
        if owner.numel() == 0 or (owner != 0).all():
            break
        highest = owner.amax(axis, keepdim=True)
        if owner.shape[axis] == keep and len(cast(Tensor, highest[highest != 0].unique())) < 2:
            continue  # the samples themselves may lie along it
        if not ((owner != highest) & (owner != 0)).any():  # otherwise several samples lie along this axis
            owner = torch.where(owner == 0, highest, owner)
    return owner


class Samples:
    """The guess of a run: how many samples there are, and where they lie in every explained input."""

    def __init__(self, count: int, starts: Sequence[Owner]) -> None:
        self.count = count
        self.starts = starts
        self._rows: dict[torch.device, Tensor] = {}

    @property
    def is_one(self) -> bool:
        """Whether there is a single sample, which owns everything."""
        return self.count == 1

    def is_same(self, other: "Samples") -> bool:
        """Whether two guesses are the same."""
        pairs = zip(self.starts, other.starts, strict=True)
        return self.count == other.count and all(isinstance(one, int) and one == two for one, two in pairs)

    def start(self, number: int, known: Tensor | None, shape: torch.Size) -> Owner:
        """The owner of an explained input; `known` are the sample numbers of its rows, where the model told them."""
        if self.is_one or known is None:
            return self.starts[number]
        return self.told(known.view(-1, *(1,) * (len(shape) - 1)).expand(shape))

    def row(self, device: torch.device) -> Tensor:
        """1, 2, …, the number of samples."""
        if device not in self._rows:
            self._rows[device] = torch.arange(1, self.count + 1, dtype=torch.float64, device=device)
        return self._rows[device]

    def numbers(self, owner: Owner, shape: Sequence[int], device: torch.device) -> Tensor:
        """The sample number of every element; an axis costs no memory."""
        if isinstance(owner, Tensor):
            return owner.expand(shape)
        if owner is None:
            return torch.zeros((), dtype=torch.float64, device=device).expand(shape)
        return self.row(device).as_strided(tuple(shape), [int(n == len(shape) + owner) for n in range(len(shape))])

    def told(self, numbers: Tensor) -> Owner:
        """An owner from the sample numbers of all elements: an axis, if samples lie along one in order."""
        lanes = [axis - numbers.dim() for axis, size in enumerate(numbers.shape) if size == self.count]
        rows = [self.numbers(lane, numbers.shape, numbers.device) for lane in lanes]
        for lane, row in zip(lanes, rows, strict=True):
            if torch.equal(numbers, row):
                return lane
        if not bool(numbers.any()):
            return None
        found = [lane for lane, row in zip(lanes, rows, strict=True) if bool(((numbers == row) | (numbers == 0)).all())]
        return found[0] if len(found) == 1 else numbers  # constants belong to the sample in whose row they lie

    def agreed(self, call: ModelCall, owned: Sequence[Owned], shape: Sequence[int], device: torch.device) -> Owner:
        """The common owner of operands that are combined elementwise; constants take the owner of the others."""
        known = [each for each in owned if each[0] is not None]
        if not known:
            return None
        first = known[0][0]
        if isinstance(first, int) and all(isinstance(owner, int) and owner == first for owner, _ in known):
            return first
        joint: Tensor | None = None
        for owner, own_shape in known:
            numbers = self.numbers(owner, own_shape, device).expand(shape)
            if joint is None:
                joint = numbers
                continue
            if bool(((joint != numbers) & (joint != 0) & (numbers != 0)).any()):
                call.is_mixed = True
                return None
            joint = torch.maximum(joint, numbers)
        return self.told(cast(Tensor, joint))

    def reduced(
        self,
        call: ModelCall,
        owner: Owner,
        shape: Sequence[int],
        axes: Sequence[int],
        device: torch.device,
        *,
        keeps: bool = True,
    ) -> Owner:
        """The common owner along `axes`, which stay with size 1 if `keeps`; None if several samples are combined."""
        if owner is None or not axes:
            return owner
        along = {axis % len(shape) for axis in axes}
        if isinstance(owner, int):
            place = len(shape) + owner
            if place in along:
                call.is_mixed = True
                return None
            return owner if keeps else owner + sum(axis > place for axis in along)
        numbers = self.numbers(owner, shape, device)
        if numbers.numel() == 0:
            return None
        highest = numbers.amax(tuple(along), keepdim=True)
        if bool(((numbers != highest) & (numbers != 0)).any()):
            call.is_mixed = True
            return None
        return highest if keeps else highest.squeeze(tuple(along))

    def spread(self, call: ModelCall, applied: Callable[[Callable[[Tensor], Tensor]], Tensor]) -> Owner:
        """The owner of the result of a linear map, which takes no negative number times an element.

        `applied`: the map of a function of the sample numbers.
        """
        count = applied(lambda numbers: (numbers != 0).double()).clamp(min=1e-9)
        mean = applied(Tensor.contiguous) / count
        variance = applied(torch.square) / count - mean * mean
        if bool((variance > 1e-6 * (1 + mean * mean)).any()):
            call.is_mixed = True
            return None
        return self.told(torch.round(mean))

    def totals(self, amount: Tensor, owner: Owner, shape: Sequence[int], where: str) -> Tensor:
        """Sum an amount that lies in a tensor of this shape over each sample: (B,)."""
        if self.is_one:
            return _whole(amount, shape).sum().reshape(1)
        if isinstance(owner, int):
            axes = [n for n in range(len(shape)) if n != len(shape) + owner]
            whole = _whole(amount, shape)
            return whole.sum(axes) if axes else whole
        numbers = completed(self.numbers(owner, shape, amount.device), keep=self.count).reshape(-1).long()
        flat = _whole(amount, shape).reshape(-1)
        sums = flat.new_zeros(self.count + 1).index_add(0, numbers, flat)
        if bool(sums[0] != 0):
            raise InputError(
                f"cannot tell which sample a constant in {where or 'the inputs'!r} belongs to; "
                "explain the samples one at a time"
            )
        return sums[1:]

    def columns(self, owner: Owner, shape: Sequence[int], device: torch.device) -> Tensor | None:
        """The sample numbers along the second-to-last axis of a tensor (..., n, ·); None if they are 1, 2, … in order."""
        if self.is_one or (isinstance(owner, int) and owner == -2):
            return None
        return self.numbers(owner, shape, device).reshape(-1, *shape[-2:])[0, :, 0].long()

    def of_columns(self, amount: Tensor, columns: Tensor | None) -> Tensor:
        """Sum amounts (K, n) by the sample numbers of their columns: (K, B)."""
        if self.is_one:
            return amount.sum(1, keepdim=True)
        if columns is None:
            return amount
        return amount.new_zeros(len(amount), self.count + 1).index_add(1, columns, amount)[:, 1:]

    def axis_of(self, owner: Owner, shape: Sequence[int], device: torch.device) -> int | None:
        """The axis along which samples lie; None for a single sample, or if no axis fits."""
        if not self.is_one and isinstance(owner, Tensor):
            owner = self.told(completed(self.numbers(owner, shape, device), keep=self.count))
        return None if self.is_one or not isinstance(owner, int) else owner + len(shape)


def _whole(amount: Tensor, shape: Sequence[int]) -> Tensor:
    return amount if amount.shape == shape else amount.expand(tuple(shape))


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
            numbers = torch.arange(1, count + 1, dtype=torch.float64, device=owner.device)
            if is_whole and not torch.equal(highest.reshape(-1), numbers):
                return True
    return False
