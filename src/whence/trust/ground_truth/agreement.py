"""How relevance agrees with true contributions of steps: in place and sign, in proportion, and in size."""

from collections.abc import Sequence

import torch
from torch import Tensor

TINY = 1e-300  # keeps a quotient of zeros at 0
DECIDING = ("share", "correlation", "amount")


def agreement(answer: Sequence[Tensor], truth: Sequence[Tensor]) -> dict[str, float]:
    """Means over all samples; R relevance, C the true contribution, sums over the steps of a sample.

        share        Σ R·sign(C) / Σ |R|      1 if all relevance lies on steps that contribute, with the right sign
        where        the same for |R|         1 if all relevance lies on steps that contribute
        correlation  of R and C
        size         Σ R·C / Σ C²             1 if relevance is as large as the contributions
        amount       1 − |1 − size|, or 0 if that is negative

    answer and truth: (B, T) each.
    """
    rows = [_by_sample(r, c) for r, c in zip(answer, truth, strict=True)]
    names = ("share", "where", "correlation", "size", "amount")
    return {name: float(mean) for name, mean in zip(names, torch.cat(rows, dim=1).mean(1), strict=True)}


def _by_sample(r: Tensor, c: Tensor) -> Tensor:
    total = r.abs().sum(1).clamp(min=TINY)
    share = (r * c.sign()).sum(1) / total
    where = (r * c.sign()).abs().sum(1) / total
    size = (r * c).sum(1) / c.square().sum(1)
    amount = (1 - (1 - size).abs()).clamp(min=0)
    return torch.stack([share, where, correlations(r, c), size, amount])


def correlations(r: Tensor, c: Tensor) -> Tensor:
    """The correlation in every row; 0 where one of both is constant."""
    r, c = r - r.mean(1, keepdim=True), c - c.mean(1, keepdim=True)
    sizes: Tensor = r.square().sum(1).sqrt() * c.square().sum(1).sqrt()
    return (r * c).sum(1) / sizes.clamp(min=TINY)
