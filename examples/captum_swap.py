"""Captum: a program that uses Integrated Gradients, and the same program with LRP; one line differs.

An LSTM reads ten numbers, of which one is marked, and says whether the marked one is positive. A good explanation points there.
"""

from typing import Any

import torch
from captum.attr import IntegratedGradients  # pyright: ignore[reportMissingTypeStubs] - Captum has none
from torch import Tensor, nn

import whence.captum


class Reader(nn.Module):
    """From a series (B, T, 2), numbers and marks, to two scores."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(2, 24, batch_first=True), nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The scores for negative and positive."""
        return self.out(self.lstm(x)[0][:, -1])


def drawn(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Series, the number of each one's marked step, and its class."""
    numbers, marked = torch.randn(count, 10), torch.randint(0, 10, (count,))
    marks = nn.functional.one_hot(marked, 10).float()
    return torch.stack([numbers, marks], -1), marked, ((numbers * marks).sum(1) > 0).long()


def trained() -> Reader:
    """A model that has learned the task, in evaluation mode."""
    model = Reader()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(400):
        series, _, label = drawn(64)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(series), label).backward()
        optimiser.step()
    return model.eval()


def pointed(attribution: Any, series: Tensor, marked: Tensor, predicted: Tensor) -> float:
    """How often the step with the largest relevance of its number is the marked one."""
    found, delta = attribution.attribute(series, target=predicted, return_convergence_delta=True)
    assert float(delta.abs().max()) < 0.01
    return float((found[..., 0].abs().argmax(1) == marked).float().mean())


def main() -> None:
    """Train, explain 200 new series with both, and say how often each points at the marked number."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for small matrices a second thread gains nothing
    model = trained()
    series, marked, label = drawn(200)
    predicted = model(series).argmax(1)
    print(f"right answers: {(predicted == label).float().mean():.0%}")
    for name, attribution in (
        ("Integrated Gradients", IntegratedGradients(model)),
        ("LRP", whence.captum.LRP(model)),
    ):
        print(f"{name} points at the marked number in {pointed(attribution, series, marked, predicted):.0%} of the series")


if __name__ == "__main__":
    main()
