"""Integrated Gradients: the gradient along the straight line from a baseline to the inputs."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from whence.methods.baseline import Baseline, baselines, plain
from whence.methods.perturbing import BATCH, Perturbing, Study
from whence.methods.settings import require_amount, require_count
from whence.result import Result


@dataclass(frozen=True)
class IntegratedGradients(Perturbing):
    """R_d = (x_d − x⁰_d) · ∫₀¹ ∂f_c/∂x_d (x⁰ + α (x − x⁰)) dα: it adds up to f_c(x) − f_c(x⁰) (Sundararajan et al. 2017).

    The integral is a Gauss–Legendre sum of `steps` points. What it misses of f_c(x) − f_c(x⁰) is the completeness gap. Where
    that is more than `tolerance` of the difference, the points are doubled, up to `most`.
    """

    takes_derivatives = True
    name = "ig"
    label = "Integrated Gradients"
    short = "IG"
    adds_up = True

    steps: int = 64
    baseline: Baseline = "zero"
    tolerance: float = 0.01
    most: int = 1024
    batch: int = BATCH  # rows that the model is given at once

    def __post_init__(self) -> None:
        for name in ("steps", "most", "batch"):
            require_count(name, getattr(self, name))
        require_amount("tolerance", self.tolerance)
        object.__setattr__(self, "baseline", plain(self.baseline))

    def work(self, steps: int, *, targets: int = 1) -> int:
        """The model runs forward for every point, and backward, about twice as long, for every target."""
        return self.steps * steps * (1 + 2 * targets)

    def studied(self, study: Study) -> Result:
        """Integrate the gradient, with more points for the samples that need them."""
        start = baselines(study, self.baseline)
        first = study.scores_at(1, lambda part: [each[None] for each in start], batch=self.batch)[:, 0]  # (K, B)
        change = study.scores - first
        relevance = [torch.zeros(*change.shape, *each.shape[1:], dtype=torch.double, device=each.device) for each in start]
        steps, is_open = self.steps, torch.ones_like(change, dtype=torch.bool)
        while True:
            self._integrate(study, start, relevance, is_open, steps)
            gap = change - _totals(relevance)
            amounts = study.scores.abs() + first.abs() + _totals([each.abs() for each in relevance])
            allowed = self.tolerance * change.abs() + 100 * torch.finfo(study.output.dtype).eps * amounts
            is_open, steps = gap.abs() > allowed, 2 * steps
            if steps > self.most or not bool(is_open.any()):
                break
        return study.result(
            relevance,
            self,
            absorbed={"baseline score": first, "completeness gap": gap},
            allowed={"completeness gap": allowed},
            is_shared_out=True,
        )

    def _integrate(self, study: Study, start: list[Tensor], relevance: list[Tensor], is_open: Tensor, steps: int) -> None:
        """Write the integrals of the scores (K, B) that are still open into `relevance`."""
        nodes, weights = gauss_legendre(steps)
        # scores of every step have an axis that may depend on which samples there are
        is_whole = study.output.dim() > 2
        samples = study.samples if is_whole else study.samples[is_open.any(0).to(study.samples.device)]
        ends = [(x0[samples], x[samples]) for x0, x in zip(start, study.ordered, strict=True)]

        def points(part: range) -> list[Tensor]:
            along = nodes[part.start : part.stop]
            return [_between(x0, x, along.to(x)) for x0, x in ends]

        totals = study.derivative_at(weights, points, batch=self.batch, samples=samples)
        for into, total, (x0, x) in zip(relevance, totals, ends, strict=True):
            chosen = is_open[:, samples.to(is_open.device)].to(into.device)
            chosen = chosen.view(*chosen.shape, *(1,) * (into.dim() - 2))
            into[:, samples] = torch.where(chosen, total * (x - x0).double(), into[:, samples])


@cache
def gauss_legendre(steps: int) -> tuple[Tensor, Tensor]:
    """The points and weights of Gauss and Legendre between 0 and 1."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2)


def _between(start: Tensor, end: Tensor, along: Tensor) -> Tensor:
    """Points (V, *shape) on the line between two tensors."""
    return start + along.view(-1, *(1,) * start.dim()) * (end - start)


def _totals(relevance: list[Tensor]) -> Tensor:
    return torch.stack([each.flatten(2).sum(2) for each in relevance]).sum(0)
