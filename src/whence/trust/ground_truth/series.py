"""A GRU that reads a rectangle of steps and features in a series: only its cells matter, and they differ for each sample."""

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whence.errors import ModelError
from whence.trust.ground_truth.task import Exam, Task, case
from whence.trust.ground_truth.traits import RANDOM

STEPS, FEATURES = 20, 6
LONG, WIDE = 4, 2  # steps and features of the rectangle
NOISE = 0.1  # the deviation of all cells; those of the rectangle are raised or lowered by 0.5 to 1
PART = 0.8  # of the training series have a rectangle; the result for the others is 0
TRAINING_STEPS = 600
SERIES = 40
CLOSE = 0.15  # the largest error allowed, in root mean square
THRESHOLDS = 100


class Drawn(NamedTuple):
    """Series, by how much the rectangle is raised or lowered, and which cells are in it."""

    x: Tensor  # (B, T, F)
    y: Tensor  # (B,)
    is_salient: Tensor  # (B, T, F)


def drawn(count: int, generator: torch.Generator, *, part: float = 1.0) -> Drawn:
    """Series of noise; `part` of them have a rectangle at a random place."""
    y = 0.5 + 0.5 * torch.rand(count, generator=generator)
    y = y * (2 * torch.randint(0, 2, (count,), generator=generator) - 1) * (torch.rand(count, generator=generator) < part)
    is_step = _run(count, STEPS, LONG, generator)
    is_salient = is_step[:, :, None] & _run(count, FEATURES, WIDE, generator)[:, None]
    return Drawn(
        NOISE * torch.randn(count, STEPS, FEATURES, generator=generator) + is_salient * y[:, None, None], y, is_salient
    )


def _run(count: int, size: int, length: int, generator: torch.Generator) -> Tensor:
    """Masks (B, size) of `length` neighbours at a random place."""
    start = torch.randint(0, size - length + 1, (count, 1), generator=generator)
    return (torch.arange(size) >= start) & (torch.arange(size) < start + length)


class Reader(nn.Module):
    """A GRU, and one score from its last state."""

    def __init__(self, generator: torch.Generator, *, hidden: int = 16) -> None:
        super().__init__()
        self.gru = nn.GRU(FEATURES, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)
        with torch.no_grad():
            for each in self.parameters():
                each.copy_(hidden**-0.5 * (2 * torch.rand(each.shape, generator=generator) - 1))

    def forward(self, x: Tensor) -> Tensor:
        """One score for each series (B, T, F)."""
        return self.head(self.gru(x)[0][:, -1])[:, 0]


def trained(generator: torch.Generator) -> Reader:
    """A model whose score is the height of the rectangle."""
    model = Reader(generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: 1 - k / TRAINING_STEPS)
    for _ in range(TRAINING_STEPS):
        data = drawn(64, generator, part=PART)
        loss = (model(data.x) - data.y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model.double().eval()


class Learned(NamedTuple):
    """Root mean square errors of a model: with the rectangle, and from 0 when the rectangle is blanked out."""

    whole: float
    blanked: float


@torch.no_grad()
def learned(model: Reader, data: Drawn) -> Learned:
    """Measure a model on series."""
    errors = (model(data.x) - data.y, model(data.x * ~data.is_salient))
    return Learned(*(float(each.square().mean().sqrt()) for each in errors))


@cache
def _exam() -> Exam:
    generator = torch.Generator().manual_seed(0)
    model = trained(generator)
    data = drawn(SERIES, generator)
    data = data._replace(x=data.x.double())
    found = learned(model, data)
    if max(found) > CLOSE:
        raise ModelError(f"the model of the task 'series' has not learned it: {found}; errors of at most {CLOSE} were needed")
    truth = data.is_salient.double()
    return Exam((case(model, data.x, truth, target=partial(_toward, data.y.sign())),), partial(_measured, truth=truth))


def _toward(sign: Tensor, score: Tensor) -> Tensor:
    """The score in the direction of the rectangle, so that its cells speak for it."""
    return score * sign.to(score)


def _measured(answer: Sequence[Tensor], truth: Tensor) -> dict[str, float]:
    """How well relevance, with its sign, finds the salient cells.

    - cell_precision: the area under precision over recall, cells in the order of relevance
    - step_precision: the same for steps, with the sum over their features
    - area_precision, area_recall: with relevance divided by its maximum, precision and recall of the cells above a threshold,
      averaged over thresholds from 0 to 1 (Crabbé and van der Schaar 2021)
    """
    r, is_salient = answer[0], truth > 0
    precision, recall = _areas(r.flatten(1), is_salient.flatten(1))
    return {
        "cell_precision": _average_precision(r.flatten(1), is_salient.flatten(1)),
        "step_precision": _average_precision(r.sum(-1), is_salient.any(-1)),
        "area_precision": precision,
        "area_recall": recall,
    }


def _average_precision(r: Tensor, is_salient: Tensor) -> float:
    """The mean precision at every salient entry of (B, N); equal ones are in random order."""
    shuffled = torch.rand(r.shape, generator=torch.Generator().manual_seed(0)).argsort(1)
    r, is_salient = r.gather(1, shuffled), is_salient.gather(1, shuffled)
    hits = is_salient.gather(1, r.argsort(dim=1, descending=True, stable=True)).double()
    precision = hits.cumsum(1) / torch.arange(1, r.shape[1] + 1)
    return float(((precision * hits).sum(1) / hits.sum(1)).mean())


def _areas(r: Tensor, is_salient: Tensor) -> tuple[float, float]:
    mask = r.clamp(min=0) / r.amax(1, keepdim=True).clamp(min=1e-300)
    thresholds = torch.arange(THRESHOLDS, dtype=torch.float64) / THRESHOLDS
    is_above = mask[..., None] > thresholds  # (B, N, thresholds)
    hits = (is_above & is_salient[..., None]).sum(1).double()
    precision = hits / is_above.sum(1).clamp(min=1)
    recall = hits / is_salient.sum(1)[:, None]
    return float(precision.mean()), float(recall.mean())


SERIES_TASK = Task(
    name="series",
    title="A GRU reads a rectangle of steps and features in a series: only its cells should have relevance",
    prepare=_exam,
    deciding=("cell_precision",),
    causes={
        "whole steps": "it judges whole steps (their precision is {step_precision:.2f}), and the features of a step share its "
        "relevance evenly",
        "gradient alone": "any feature may hold the rectangle, so the gradient is about the same for all features of a step, "
        "salient or not",
        "plain gradient": "without the input, its sign is that of the question alone, not of the cell",
        **RANDOM,
    },
)
