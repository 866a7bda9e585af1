"""Trained LSTMs that add or subtract two marked numbers (Arras et al. 2019): their relevance should be these numbers."""

from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import Tensor

from whence.data.toy import TEST, Sums, sums
from whence.data.toy import Task as Operation
from whence.experiments.toy import trained
from whence.trust.ground_truth.agreement import correlations
from whence.trust.ground_truth.task import Case, Exam, Task, case
from whence.trust.ground_truth.traits import RANDOM

MODELS, SEQUENCES = 2, 50  # so many sequences of each length for each model
TRAINING_STEPS = 1000
LEAST = 0.05  # of |y|: a ratio to almost 0 means nothing


def true_relevance(data: Sums, operation: Operation) -> Tensor:
    """n_a at its step, ± n_b at its own (B, T)."""
    return data.x[..., 1] + (1 if operation == "add" else -1) * data.x[..., 2]


def _measured(answer: Sequence[Tensor], data: Sequence[Sums], operation: Operation) -> dict[str, float]:
    """Over all models: the correlations of R_a with n_a and of R_b with ± n_b, and the mean ratio (R_a + R_b) / y."""
    rows: list[Tensor] = []
    for r, each in zip(answer, data, strict=True):
        r_a, r_b = (r.gather(1, place[:, None])[:, 0] for place in (each.a, each.b))
        rows.append(torch.stack([*each.numbers, r_a, r_b, each.y]).double())
    n_a, n_b, r_a, r_b, y = torch.cat(rows, dim=1)
    first, second = map(float, correlations(torch.stack([r_a, r_b]), torch.stack([n_a, n_b])))
    ratio = float(((r_a + r_b) / y)[y.abs() > LEAST].mean())
    amount = max(0.0, 1 - abs(1 - ratio))
    second = second if operation == "add" else -second
    return {"correlation_a": first, "correlation_b": second, "ratio": ratio, "amount": amount}


@cache
def _exam(operation: Operation) -> Exam:
    generator = torch.Generator().manual_seed(99)
    cases: list[Case] = []
    data: list[Sums] = []
    for model in trained(operation, MODELS, steps=TRAINING_STEPS):
        for length in range(TEST[0], TEST[1] + 1):
            drawn = sums(operation, SEQUENCES, length, generator)
            data.append(drawn)
            cases.append(case(model, drawn.x.double(), true_relevance(drawn, operation)))
    return Exam(tuple(cases), partial(_measured, data=data, operation=operation))


def _task(operation: Operation, title: str) -> Task:
    return Task(
        name=operation,
        title=title,
        prepare=partial(_exam, operation),
        deciding=("correlation_a", "correlation_b", "amount"),
        causes={
            "gradient alone": "the model is close to linear, so its gradient hardly depends on the numbers, and without the "
            "input it cannot follow them",
            "unsigned": "it has no sign, although the numbers have one",
            **RANDOM,
        },
    )


ADD = _task("add", "LSTMs with one cell add two marked numbers: relevance should be these numbers")
SUBTRACT = _task("subtract", "LSTMs with one cell subtract two marked numbers: the second one counts with the opposite sign")
