"""Shapley values by sampled permutations: what each step adds to the score, in the mean over all orders of the steps."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.methods.baseline import Baseline, baselines, plain
from whence.methods.perturbing import BATCH, Perturbing, Study
from whence.methods.settings import require_count
from whence.result import Result


@dataclass(frozen=True)
class Shapley(Perturbing):
    """R_t = mean over orders π of f_c(steps up to t in π) − f_c(steps before t in π), shared evenly by the step's features.

    A step that is not there yet is at the baseline. Every order adds up to f_c(x) − f_c(baseline). Orders come in pairs, one
    the reverse of the other (Mitchell et al. 2022). `result.errors` holds the standard errors, from the differences between
    the pairs.
    """

    name = "shapley"
    label = "Shapley values"
    short = "Shapley"
    shares_runs = True
    adds_up = True

    samples: int = 64  # orders
    seed: int = 0
    baseline: Baseline = "zero"
    batch: int = BATCH  # rows that the model is given at once

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("batch", 1), ("seed", 0)):
            require_count(name, getattr(self, name), least=least)
        object.__setattr__(self, "baseline", plain(self.baseline))

    def work(self, steps: int, *, targets: int = 1) -> int:
        """The model runs for every step of every order; that gives the scores of all targets."""
        return self.samples * steps * max(1, steps - 1)

    def studied(self, study: Study) -> Result:
        """Add the steps one by one, in many orders."""
        start = baselines(study, self.baseline)
        first = study.scores_at(1, lambda part: [each[None] for each in start], batch=self.batch)[:, 0]  # (K, B)
        players, pairs = sum(_steps(study)), -(-self.samples // 2)
        mean, squares = torch.zeros(2, *first.shape, players, dtype=torch.double, device=first.device)
        at_once = max(1, self.batch // (first.shape[1] * players))  # pairs whose variants fill a call
        for done in range(0, pairs, at_once):
            orders = self._orders(study, range(done, min(done + at_once, pairs)))
            for own in torch.split(self._gains(study, start, first, orders), 2, dim=1):
                mean += own.sum(1) / self.samples
                squares += own.sum(1).square() / (own.shape[1] * self.samples)
        # the means of the pairs are independent
        errors = ((squares - mean.square()).clamp(min=0) / (pairs - 1)).sqrt() if pairs > 1 else None
        return study.result(
            _by_tensor(study, mean),
            self,
            absorbed={"baseline score": first},
            errors=None if errors is None else _by_tensor(study, errors),
            is_shared_out=True,
        )

    def _orders(self, study: Study, pairs: range) -> Tensor:
        """Orders of all steps, each followed by its reverse."""
        found = [order for pair in pairs for order in _pair(study, [self.seed, pair])]
        return torch.stack(found)[: self.samples - 2 * pairs.start]

    def _gains(self, study: Study, start: list[Tensor], first: Tensor, orders: Tensor) -> Tensor:
        """What each step adds to the score when steps come in these orders: (K, orders, B, players)."""
        players = orders.shape[1]
        rank = orders.argsort(1)
        ranks = torch.split(rank, _steps(study), dim=1)

        def partial(part: range) -> list[Tensor]:
            """The inputs with the first 1, 2, … steps of the first order, then of the next."""
            variants = torch.arange(part.start, part.stop, device=orders.device)
            order, present = variants // (players - 1), variants % (players - 1) + 1
            return [
                torch.where((own[order] < present[:, None]).view(len(part), 1, -1, *(1,) * (x.dim() - 2)), x, x0)
                for own, x, x0 in zip(ranks, study.ordered, start, strict=True)
            ]

        found = study.scores_at(len(orders) * (players - 1), partial, batch=self.batch)
        before, after = (each[:, None, None].expand(-1, len(orders), 1, -1) for each in (first, study.scores))
        between = found.reshape(len(first), len(orders), players - 1, first.shape[1])
        gains = torch.cat([before, between, after], 2).diff(dim=2)  # in the order
        return gains.gather(2, rank.to(gains.device)[None, :, :, None].expand_as(gains)).transpose(2, 3)


def _steps(study: Study) -> list[int]:
    """The number of steps of every explained tensor; all of them are players."""
    return [layout.place.shape[1] for layout in study.layouts]


def _pair(study: Study, seed: list[int]) -> tuple[Tensor, Tensor]:
    """An order of all steps and its reverse.

    Every step draws a number, one after another, and steps are sorted by it: padding does not change the order of the others.
    """
    drawn = [np.random.default_rng([*seed, number]).random(steps) for number, steps in enumerate(_steps(study))]
    order = torch.from_numpy(np.concatenate(drawn).argsort(kind="stable")).to(study.tensors[0].device)
    return order, order.flip(0)


def _by_tensor(study: Study, amounts: Tensor) -> list[Tensor]:
    """Amounts (K, B, players) of the steps of every explained tensor, shared by their features."""
    return [study.spread(part, number) for number, part in enumerate(torch.split(amounts, _steps(study), dim=2))]
