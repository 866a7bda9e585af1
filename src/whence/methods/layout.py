"""Where the samples and steps of an explained tensor lie, so that methods see (samples, steps, features) whatever its form.

Samples may lie along any axis, in packed rows, or in blocks. Which of these it is, `separation` finds out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows of a tensor, one for every step of every sample, and the features of each row.

    The axes `front` are moved to the front and joined into rows (R, ...). `place` (B, U) holds the row of every sample's steps,
    −1 where a sample has fewer. Below, *ordered* means the form (B, U, ...), with zeros where a sample has no such step.
    """

    front: tuple[int, ...]
    shape: tuple[int, ...]
    place: Tensor
    sample_axis: int | None = None  # the axis along which the samples lie in their order, if there is one

    @staticmethod
    def along(tensor: Tensor, axis: int | None) -> "Layout":
        """Samples along an axis, or a single one; steps along the first other axis."""
        others = [each for each in range(tensor.dim()) if each != axis]
        front = (*(() if axis is None else (axis,)), *others[:1])
        samples = 1 if axis is None else tensor.shape[axis]
        steps = tensor.shape[others[0]] if others else 1
        place = torch.arange(samples * steps, device=tensor.device).view(samples, steps)
        return Layout(front, tuple(tensor.shape), place, axis)

    @staticmethod
    def owned(tensor: Tensor, owner: Tensor, count: int, axis: int = 0) -> "Layout":
        """Rows along an axis that belong to the samples `owner` (R,), from 1 on; 0 marks rows that belong to none."""
        return Layout((axis,), tuple(tensor.shape), _places(owner, count))

    @staticmethod
    def by_element(owner: Tensor, count: int) -> "Layout":
        """Samples of which each element has an owner: rows where the owner changes along one axis only, else elements."""
        for axis in range(owner.dim()):
            along = owner.movedim(axis, 0).reshape(owner.shape[axis], -1)
            if bool((along == along[:, :1]).all()):
                return Layout((axis,), tuple(owner.shape), _places(along[:, 0], count))
        return Layout(tuple(range(owner.dim())), tuple(owner.shape), _places(owner.reshape(-1), count))

    def cut(self, lengths: Tensor) -> "Layout":
        """The same with this many steps (B,) of each sample."""
        steps = torch.arange(self.place.shape[1], device=self.place.device)
        return replace(self, place=self.place.masked_fill(steps >= lengths[:, None], -1))

    @property
    def is_there(self) -> Tensor:
        """Which steps (B, U) a sample has."""
        return self.place >= 0

    @property
    def features(self) -> tuple[int, ...]:
        """The shape of one step."""
        return tuple(size for axis, size in enumerate(self.shape) if axis not in self.front)

    def rows(self, tensor: Tensor) -> Tensor:
        """The rows (R, ...) of a tensor."""
        moved = tensor.movedim(self.front, tuple(range(len(self.front))))
        return moved.flatten(0, len(self.front) - 1)

    def ordered(self, tensor: Tensor) -> Tensor:
        """A tensor by samples and steps (B, U, ...)."""
        found = self.rows(tensor)[self.place.clamp(min=0)]
        return found.masked_fill(~self.is_there.view(*self.place.shape, *(1,) * len(self.features)), 0)

    def whole(self, ordered: Tensor, *, rest: Tensor | None = None) -> Tensor:
        """The tensors (K, *shape) that are ordered as (K, B, U, ...); `rest` holds what belongs to no sample, else it is 0."""
        count, is_there = len(ordered), self.is_there
        sizes = [self.shape[axis] for axis in self.front]
        rows = ordered.new_zeros(count, math.prod(sizes), *self.features)
        if rest is not None:
            rows = rows + self.rows(rest)
        rows = rows.index_copy(1, self.place[is_there], ordered[:, is_there].to(rows.dtype))
        back = tuple(axis + 1 for axis in self.front)
        return rows.reshape(count, *sizes, *self.features).movedim(tuple(range(1, len(back) + 1)), back)

    def samples_along_axis(self, ordered: Tensor) -> Tensor:
        """Any number of samples (M, U, ...) in the form of the tensor, along its axis of samples."""
        assert self.sample_axis is not None
        if len(self.front) == 1:
            return ordered[:, 0].movedim(0, self.sample_axis)
        return ordered.movedim((0, 1), self.front)


def _places(owner: Tensor, count: int) -> Tensor:
    """The rows (B, U) of each sample in their order, −1 where a sample has fewer than others."""
    rows = [(owner == n + 1).nonzero()[:, 0] for n in range(count)]
    longest = max(1, *(len(each) for each in rows)) if rows else 1
    place = torch.full((count, longest), -1, dtype=torch.long, device=owner.device)
    for n, each in enumerate(rows):
        place[n, : len(each)] = each
    return place


def candidates(tensor: Tensor, count: int, known: Tensor | None) -> list[Layout]:
    """The ways in which a tensor may hold `count` samples, likeliest first; `known` are the owners of its rows."""
    if known is not None:
        return [Layout.owned(tensor, known, count)]
    found = [Layout.along(tensor, axis) for axis, size in enumerate(tensor.shape) if size == count]
    numbers = torch.arange(1, count + 1, device=tensor.device)
    for axis, size in enumerate(tensor.shape):  # blocks of an axis, or in turn, as where steps and samples are joined
        if size > count and size % count == 0:
            found.append(Layout.owned(tensor, numbers.repeat_interleave(size // count), count, axis))
            found.append(Layout.owned(tensor, numbers.repeat(size // count), count, axis))
    return found


def single(tensor: Tensor, known: Tensor | None, *, is_batch: bool, time_first: bool) -> Layout:
    """The layout of one sample; a batch of one has an axis of size 1, usually the first, or the second with time first."""
    if known is not None:
        return Layout.owned(tensor, known, 1)
    axes = [axis for axis in ((1, 0) if time_first else (0, 1)) if axis < tensor.dim() and tensor.shape[axis] == 1]
    return Layout.along(tensor, axes[0] if is_batch and axes else None)


def shaken(ordered: Sequence[Tensor], *, by: float = 0.3) -> list[Tensor]:
    """Tensors with every number changed by up to `by` times their size; the same change on every call, for every sample."""
    found: list[Tensor] = []
    for number, each in enumerate(ordered):
        generator = torch.Generator().manual_seed(number)
        drawn = torch.rand(each.shape[1:], generator=generator, dtype=torch.float64, device="cpu") - 0.5
        drawn = drawn + 0.5 * drawn.sign()  # of either sign, between 0.5 and 1
        size = each.double().square().flatten(1).mean(1).sqrt()
        size = torch.where(size > 0, size, 1.0).view(-1, *(1,) * (each.dim() - 1))
        found.append(each + (by * size * drawn.to(each.device)).to(each.dtype))
    return found
