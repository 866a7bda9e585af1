"""How many lower neurons a sum has, however it is put together: where much is shared, the books show a wrong count."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from whence import LRP, relevance

LAYER = nn.Linear(4, 4).double()
FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "a running sum of neurons": lambda x: x.tanh().cumsum(1),
    "a running sum of sums": lambda x: LAYER(x).cumsum(1),
    "neurons beside sums": lambda x: torch.cat([x.tanh(), LAYER(x)], 1),
    "neurons and padding": lambda x: torch.nn.functional.pad(x.tanh() + x, (0, 0, 1, 2)),
    "sums and padding": lambda x: torch.nn.functional.pad(LAYER(x), (0, 0, 1, 2)),
    "a mean of sums of several sizes": lambda x: torch.cat([x.tanh(), LAYER(x)], 1).mean(1, keepdim=True),
    "sums with some left out": lambda x: LAYER(x) + x.tanh() * torch.tensor([0.0, 1, 0, 2], dtype=torch.float64),
}


class Summed(nn.Module):
    def __init__(self, form: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.form = LAYER, form

    def forward(self, x: Tensor) -> Tensor:
        return self.form(x).sum((1, 2))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("method", [LRP(epsilon=0.5), LRP(epsilon=0.5, delta=1.0), LRP(0.5, 0.4, "absorbed")], ids=str)
def test_the_books_balance(name: str, method: LRP) -> None:
    torch.manual_seed(0)
    relevance(Summed(FORMS[name]), torch.randn(2, 3, 4, dtype=torch.float64), method=method).check(1e-12)


def test_every_input_of_a_layer_norm_shares_its_stabiliser() -> None:
    model, x = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)).double(), torch.randn(3, 4, dtype=torch.float64)
    result = relevance(model, x, target=1, method=LRP(epsilon=0.5)).check(1e-12)
    assert set(result.absorbed) == {"1.bias"}  # the norm's own bias is zero, and no stabiliser keeps anything
