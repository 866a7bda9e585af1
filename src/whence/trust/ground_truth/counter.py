"""LSTMs that count marked steps or detect them: every mark has an equal share of the score, and no other step has any."""

import math
from functools import cache, partial

import torch
from torch import Tensor

from whence.trust.ground_truth.agreement import DECIDING, agreement
from whence.trust.ground_truth.handbuilt import FULLY, HandBuilt, Unit, always_open
from whence.trust.ground_truth.task import Exam, Task, case
from whence.trust.ground_truth.traits import RANDOM

SEQUENCES, STEPS = 32, 12
MARKS = (2, 5)  # in a sequence, both ends included
ONE = 0.05  # what a mark adds to the cell: tanh of five of them is 2 % less than their sum


def counter() -> HandBuilt:
    """score = tanh(n · ONE) / ONE ≈ n for n marked steps: a mark adds ONE to the cell, through the candidate."""
    return HandBuilt(i=always_open(1), f=always_open(1), g=Unit([math.atanh(ONE)], 0.0), o=always_open(1), scale=1 / ONE)


def gated_counter() -> HandBuilt:
    """The same score; the candidate is always ONE, and a mark opens the input gate for it."""
    i, g = Unit([2 * FULLY], -FULLY), Unit([0.0], math.atanh(ONE))
    return HandBuilt(i=i, f=always_open(1), g=g, o=always_open(1), scale=1 / ONE)


def detector() -> HandBuilt:
    """score = tanh(n · tanh 3): 0 without marks, and close to 1 from two on."""
    return HandBuilt(i=always_open(1), f=always_open(1), g=Unit([3.0], 0.0), o=always_open(1), scale=1.0)


def marks(seed: int = 0) -> Tensor:
    """Sequences (B, T, 1) with 1 at marked steps and 0 at all others."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(MARKS[0], MARKS[1] + 1, (SEQUENCES, 1), generator=generator)
    order = torch.rand(SEQUENCES, STEPS, generator=generator).argsort(1).argsort(1)
    return (order < numbers)[..., None].double()


def _exam(model: HandBuilt, truth: Tensor) -> Exam:
    return Exam((case(model, marks(), truth),), partial(agreement, truth=[truth]))


@cache
def _counted() -> Exam:
    return _exam(counter(), marks()[..., 0])


@cache
def _gated() -> Exam:
    return _exam(gated_counter(), marks()[..., 0])


@cache
def _detected() -> Exam:
    """The score is close to 1 and does not change when marks are exchanged: each of n marks has the share 1/n."""
    marked = marks()[..., 0]
    return _exam(detector(), marked / marked.sum(1, keepdim=True))


COUNTER = Task(
    name="counter",
    title="An LSTM counts marked steps: each mark has an equal share of the score",
    prepare=_counted,
    deciding=DECIDING,
    causes={
        "gradient alone": "the gradient is almost the same at a marked step and at any other; it tells how the score would "
        "react to a mark, not where one is",
        **RANDOM,
    },
)

GATED_COUNTER = Task(
    name="gated-counter",
    title="An LSTM counts marked steps, and a mark does nothing but open the input gate",
    prepare=_gated,
    deciding=DECIDING,
    causes={
        "lrp": "the marks act on the input gate alone, and LRP gives a gate no relevance; the bias of the candidate "
        "absorbs the score, and the marks get {size:.1%} of it",
        "local": "the gate is fully open or closed, and the gradient of a saturated gate is 0",
        **RANDOM,
    },
)

DETECTOR = Task(
    name="detector",
    title="An LSTM tells whether there are marked steps: marks that say the same share the score equally",
    prepare=_detected,
    deciding=DECIDING,
    causes={
        "local": "the score is saturated from two marks on, so its gradient is close to 0 at marked steps",
        "one at a time": "without one mark, the others still say the same, and the score hardly falls; the marks get "
        "{size:.0%} of their shares",
        "phrases": "a mark gets the mean of what it adds before and after all the others, however many there are, so that "
        "the shares do not add up; the marks get {size:.0%} of theirs",
        **RANDOM,
    },
)
