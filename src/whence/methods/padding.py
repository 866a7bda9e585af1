"""Padding: the last steps of samples that change nothing, whatever they are."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.methods.layout import Layout, shaken
from whence.methods.runs import Runs, changed, laid


def without_padding(
    runs: Runs, scores: Tensor, axis: int | None, layouts: Sequence[Layout], tensors: Sequence[Tensor]
) -> list[Layout]:
    """Layouts without the last steps of each sample that change nothing, such as padding; the first step always stays."""
    found = list(layouts)
    for number, layout in enumerate(layouts):
        ordered = [each.ordered(tensor) for each, tensor in zip(found, tensors, strict=True)]
        tail = Tail(runs, scores, axis, found, tensors, ordered, number)
        whole = layout.is_there.sum(1).clamp(min=1)
        is_last = tail.changes(whole - 1, ordered[number], shaken(ordered)[number], scores)  # a small change is often enough
        found[number] = layout.cut(whole if bool(is_last.all()) else torch.where(is_last, whole, _cut(tail.matters, whole)))
    return found


class Tail(NamedTuple):
    """The last steps of the samples in one explained tensor.

    A step that matters may be unable to change the output at x: a saturated gate stays saturated. So steps count as padding
    only if they change nothing in any of several surroundings, whatever they are replaced by.
    """

    runs: Runs
    scores: Tensor
    axis: int | None
    layouts: Sequence[Layout]
    tensors: Sequence[Tensor]
    ordered: Sequence[Tensor]
    number: int

    def matters(self, first: Tensor) -> Tensor:
        """In which samples (B,) the steps from `first` on matter."""
        own = self.ordered[self.number]
        others = [torch.zeros_like(own), *(shaken(self.ordered, by=by)[self.number] for by in (0.3, FAR, -FAR))]
        found = torch.zeros_like(first, dtype=torch.bool)
        for before in (own, *others):
            plain = self.scores if before is own else self._output(first, before, own)
            for after in others:
                found = found | self.changes(first, before, after, plain)
        return found

    def changes(self, first: Tensor, before: Tensor, after: Tensor, plain: Tensor) -> Tensor:
        """Which samples (B,) give another output than `plain`, with the steps up to `first` and from it on replaced."""
        return changed(self._output(first, before, after), plain, self.axis, rounding=0.0).to(first.device)

    def _output(self, first: Tensor, before: Tensor, after: Tensor) -> Tensor:
        steps = torch.arange(before.shape[1], device=before.device)
        is_later = (steps >= first[:, None]).view(*before.shape[:2], *(1,) * (before.dim() - 2))
        replaced = torch.where(is_later, after, before)
        variant = [replaced if n == self.number else each for n, each in enumerate(self.ordered)]
        return self.runs.output(laid(self.layouts, variant, self.tensors))


FAR = 10.0  # times the size of a sample's numbers


def _cut(matter: Callable[[Tensor], Tensor], whole: Tensor) -> Tensor:
    """The number of steps (B,), at least one, after which no step matters."""
    low, high = torch.ones_like(whole), whole
    while bool((low < high).any()):  # a step from `low` − 1 on matters, and none from `high` on
        middle = (low + high) // 2
        does = matter(middle)
        low, high = torch.where(does, middle + 1, low), torch.where(does, high, middle)
    return high
