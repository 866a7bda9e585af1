"""Toy tasks with known relevance: add or subtract the two marked numbers of a sequence (Arras et al. 2019).

A step is (unmarked number, first marked number, second marked number), two of them zero. The result is n_a + n_b or n_a − n_b.
So the relevance of the two marked steps should be n_a and ± n_b, and that of all other steps 0.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Task = Literal["add", "subtract"]
TRAIN, VALIDATE, TEST = (4, 10), (11, 12), (13, 14)  # lengths, both ends included


class Sums(NamedTuple):
    """Sequences of one length, the positions of the marked numbers, and the results."""

    x: Tensor  # (B, T, 3)
    a: Tensor  # (B,) the position of the first marked number
    b: Tensor  # (B,) the position of the second one, after the first
    y: Tensor  # (B,)

    @property
    def numbers(self) -> tuple[Tensor, Tensor]:
        """n_a and n_b."""
        rows = torch.arange(len(self.x))
        return self.x[rows, self.a, 1], self.x[rows, self.b, 2]


def sums(task: Task, count: int, length: int, generator: torch.Generator) -> Sums:
    """Draw sequences with numbers between −1 and 1."""
    numbers = torch.rand(count, length, generator=generator) * 2 - 1
    a, b = torch.rand(count, length, generator=generator).topk(2).indices.sort(1).values.unbind(1)
    rows, steps = torch.arange(count), torch.arange(length)
    is_a, is_b = steps == a[:, None], steps == b[:, None]
    x = torch.stack([numbers * ~(is_a | is_b), numbers * is_a, numbers * is_b], dim=-1)
    second = numbers[rows, b] if task == "add" else -numbers[rows, b]
    return Sums(x, a, b, numbers[rows, a] + second)
