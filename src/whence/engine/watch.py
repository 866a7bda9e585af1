"""What arrives at the output of a layer that `at=` names."""

import torch
from torch import Tensor

from whence.engine.marks import Owner
from whence.engine.samples import Samples


class Watch:
    """What arrives at a layer's output on the way back, (*shape) for every target."""

    def __init__(self, like: Tensor, owner: Owner) -> None:
        self._like, self._owner = like.detach(), owner
        self.amounts: dict[int, Tensor] = {}

    def of(self, target: int) -> Tensor:
        """What arrived, zeros if nothing did."""
        found = self.amounts.get(target)
        return torch.zeros_like(self._like) if found is None else found

    def totals(self, samples: Samples, target: int) -> Tensor:
        """The sum of what arrived over each sample (B,)."""
        return samples.totals(self.of(target), self._owner, tuple(self._like.shape), "")

    def note(self, target: int, amount: Tensor) -> None:
        """Add what arrived."""
        known = self.amounts.get(target)
        self.amounts[target] = amount if known is None else known + amount
