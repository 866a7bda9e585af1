"""An LSTM that copies the value at a marked step to the end: all relevance belongs to that step."""

from functools import cache, partial

import torch
from torch import Tensor

from whence.trust.ground_truth.agreement import DECIDING, agreement
from whence.trust.ground_truth.handbuilt import FULLY, HandBuilt, Unit, always_open
from whence.trust.ground_truth.task import Exam, Task, case
from whence.trust.ground_truth.traits import RANDOM

SEQUENCES, STEPS = 32, 12
SMALL = 0.2  # the candidate is tanh(SMALL · value): close to linear
LEAST = 0.2  # of |value|, so that every score has a size worth sharing


def copier() -> HandBuilt:
    """score = tanh(tanh(SMALL · v)) / SMALL ≈ v, v the value at the marked step; features are (value, mark).

    A mark opens the input gate and closes the forget gate; at all other steps it is the other way round.
    """
    i, f = Unit([0.0, 2 * FULLY], -FULLY), Unit([0.0, -2 * FULLY], FULLY)
    return HandBuilt(i=i, f=f, g=Unit([SMALL, 0.0], 0.0), o=always_open(2), scale=1 / SMALL)


def marked_values(seed: int = 0) -> Tensor:
    """Sequences (B, T, 2) of values between −1 and 1, one of them marked."""
    generator = torch.Generator().manual_seed(seed)
    sizes = LEAST + (1 - LEAST) * torch.rand(SEQUENCES, STEPS, dtype=torch.float64, generator=generator)
    signs = 2.0 * torch.randint(0, 2, (SEQUENCES, STEPS), generator=generator) - 1
    places = torch.randint(0, STEPS, (SEQUENCES, 1), generator=generator)
    return torch.stack([sizes * signs, torch.zeros_like(sizes).scatter(1, places, 1.0)], dim=-1)


@cache
def _copied() -> Exam:
    x = marked_values()
    truth = x[..., 0] * x[..., 1]
    return Exam((case(copier(), x, truth),), partial(agreement, truth=[truth]))


COPY = Task(
    name="copy",
    title="An LSTM copies the value at a marked step to the end: all relevance belongs to that step",
    prepare=_copied,
    deciding=DECIDING,
    causes={
        "gradient alone": "{where:.0%} of it lies at the right step, but the gradient there is the same for positive and "
        "negative values",
        "unsigned": "it has no sign, although a negative value lowers the score",
        **RANDOM,
    },
)
