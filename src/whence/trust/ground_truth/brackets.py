"""An LSTM that keeps the depth of brackets: an opening bracket contributes +1, a closing one −1, anything else nothing."""

import math
from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import Tensor

from whence.trust.ground_truth.agreement import DECIDING, agreement, correlations
from whence.trust.ground_truth.handbuilt import HandBuilt, Unit, always_open
from whence.trust.ground_truth.task import Exam, Task, case
from whence.trust.ground_truth.traits import RANDOM

SEQUENCES, STEPS = 32, 12
FEWEST = 4  # brackets in a sequence
DEEPEST = 5
ONE = 0.05  # what a bracket adds to the cell: tanh of five of them is 2 % less than their sum


def bracket_matcher() -> HandBuilt:
    """score = tanh(d · ONE) / ONE ≈ d for the depth d at the end; the features of a step are (opens, closes)."""
    g = Unit([math.atanh(ONE), -math.atanh(ONE)], 0.0)
    return HandBuilt(i=always_open(2), f=always_open(2), g=g, o=always_open(2), scale=1 / ONE)


def brackets(*, is_balanced: bool, seed: int = 0) -> Tensor:
    """Sequences (B, T, 2) of opening, closing and no brackets whose depth is never negative, and 0 at the end if balanced.

    In half of the unbalanced ones, the depth returns to 0 on the way.
    """
    generator = torch.Generator().manual_seed(seed)
    changes = torch.randint(-1, 2, (200 * SEQUENCES, STEPS), generator=generator)
    depth = changes.cumsum(1)
    is_fine = (depth >= 0).all(1) & (depth <= DEEPEST).all(1) & (changes.count_nonzero(1) >= FEWEST)
    chosen = changes[is_fine & ((depth[:, -1] == 0) == is_balanced)]
    x = torch.stack([chosen == 1, chosen == -1], dim=-1).double()
    if is_balanced:
        return x[:SEQUENCES]
    returns = returns_to_zero(x)
    return torch.cat([x[returns][: SEQUENCES // 2], x[~returns][: SEQUENCES // 2]])


def contributions(x: Tensor) -> Tensor:
    """+1 for opening and −1 for closing brackets (B, T)."""
    return x[..., 0] - x[..., 1]


def returns_to_zero(x: Tensor) -> Tensor:
    """Whether the depth is 0 again after a bracket and before the end (B,)."""
    changes = contributions(x)
    has_begun = changes.abs().cumsum(1) > 0
    return (has_begun & (changes.cumsum(1) == 0))[:, :-1].any(1)


@cache
def _unbalanced() -> Exam:
    x = brackets(is_balanced=False)
    truth, returns = contributions(x), returns_to_zero(x)

    def measured(answer: Sequence[Tensor]) -> dict[str, float]:
        each = correlations(answer[0], truth)
        return {
            **agreement(answer, [truth]),
            "back_at_zero": float(each[returns].mean()),
            "never_at_zero": float(each[~returns].mean()),
        }

    return Exam((case(bracket_matcher(), x, truth),), measured)


@cache
def _balanced() -> Exam:
    x = brackets(is_balanced=True)
    truth = contributions(x)
    return Exam((case(bracket_matcher(), x, truth),), partial(agreement, truth=[truth]))


_GRADIENTS = {
    "gradient alone": "the gradient is the same at every step, whatever bracket is there: its parts for opening and closing "
    "differ in sign alone",
    "unsigned": "it has no sign, and cannot tell an opening bracket from a closing one",
    **RANDOM,
}

BRACKETS = Task(
    name="brackets",
    title="An LSTM keeps the depth of brackets: +1 for an opening one, −1 for a closing one",
    prepare=_unbalanced,
    deciding=DECIDING,
    causes={
        "lrp": "where the depth returns to 0, the cell is 0, and LRP divides by its stabiliser; what passes to the "
        "brackets before has neither their size nor their sign (mean correlation {back_at_zero:.2f} in these sequences, "
        "{never_at_zero:.2f} in the others)",
        **_GRADIENTS,
    },
)

BALANCED_BRACKETS = Task(
    name="balanced-brackets",
    title="The same LSTM on balanced brackets, whose contributions cancel in a score of 0",
    prepare=_balanced,
    deciding=DECIDING,
    causes={
        "lrp": "LRP shares out the score, and the score is 0: every step gets 0",
        **_GRADIENTS,
    },
)
