"""Right and wrong answers to a task, made from its truth."""

from collections.abc import Callable

import torch
from torch import Tensor

from whence.trust.ground_truth.task import Outcome, Task


def shuffled(truth: Tensor) -> Tensor:
    """Every sample's numbers in a random order of their own."""
    flat = truth.flatten(1)
    order = torch.rand(flat.shape, generator=torch.Generator().manual_seed(1)).argsort(1)
    return flat.gather(1, order).view_as(truth)


WRONG: dict[str, Callable[[Tensor], Tensor]] = {
    "shuffled": shuffled,
    "sign-flipped": lambda truth: -truth,
    "constant": torch.ones_like,
    "zero": torch.zeros_like,
    "of another sample": lambda truth: truth.roll(1, 0),
}


def judged(task: Task, change: Callable[[Tensor], Tensor]) -> Outcome:
    """The outcome of the right answer, changed."""
    return task.judged([change(case.truth) for case in task.prepare().cases])


def require_fair(task: Task) -> None:
    """The right answer gets 1 and passes; wrong ones fail, each with a reason."""
    right = judged(task, lambda truth: truth)
    assert abs(right.value - 1) < 1e-6  # numbers of the arithmetic tasks are drawn in single precision
    assert right.passes and right.reason == ""
    assert abs(right.chance) < 0.6
    for name, change in WRONG.items():
        outcome = judged(task, change)
        assert not outcome.passes, name
        assert outcome.value < 0.75, name
        assert "and 0.9 is needed" in outcome.reason, name
