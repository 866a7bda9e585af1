"""What counts as a gate: combinations of gates that cannot turn negative, and no others."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import LRP, NoRuleError, relevance


class Gated(nn.Module):
    """A combination of two gates f and i, times a source."""

    def __init__(self, combine: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.f, self.i, self.source, self.combine = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(3, 4), combine

    def forward(self, x: Tensor) -> Tensor:
        gate = self.combine(self.f(x).sigmoid(), self.i(x).sigmoid())
        return (gate * self.source(x).tanh()).sum(-1)


@pytest.mark.parametrize(
    "combine",
    [
        lambda f, i: f - 1,
        lambda f, i: -f,
        lambda f, i: f - i,
        lambda f, i: 0.5 - f,
        lambda f, i: 1 - f - i,
        lambda f, i: -2 * f,
    ],
    ids=["f - 1", "-f", "f - i", "0.5 - f", "1 - f - i", "-2 f"],
)
def test_what_may_turn_negative_is_no_gate(combine: Callable[[Tensor, Tensor], Tensor]) -> None:
    with pytest.raises(NoRuleError, match="neither factor is a gate"):
        relevance(Gated(combine), torch.randn(2, 3))


@pytest.mark.parametrize(
    "combine",
    [lambda f, i: 1 - f, lambda f, i: f + i, lambda f, i: 3 * f, lambda f, i: f / 2, lambda f, i: f * i],
    ids=["1 - f", "f + i", "3 f", "f / 2", "f i"],
)
def test_what_cannot_turn_negative_is_one(combine: Callable[[Tensor, Tensor], Tensor]) -> None:
    model, x = Gated(combine).double(), torch.randn(2, 3, dtype=torch.float64)
    found = relevance(model, x, method=LRP(epsilon=0.0)).relevance
    gate = combine(model.f(x).sigmoid(), model.i(x).sigmoid())
    z = model.source(x)
    per_unit = gate * z.tanh() / z  # of the source's sums: the gate takes nothing
    assert_close(found, (x * (per_unit @ model.source.weight)).detach())
