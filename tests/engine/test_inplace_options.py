"""Functions that are told to work in place, of which tensors have no method of that name."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from whence import relevance

FUNCTIONS: dict[str, Callable[[Tensor, bool], Tensor]] = {
    "leaky_relu": lambda z, inplace: F.leaky_relu(z, 0.1, inplace=inplace),
    "elu": lambda z, inplace: F.elu(z, inplace=inplace),
    "silu": lambda z, inplace: F.silu(z, inplace=inplace),
    "hardtanh": lambda z, inplace: F.hardtanh(z, inplace=inplace),
    "relu": lambda z, inplace: F.relu(z, inplace=inplace),
}


class Activated(nn.Module):
    def __init__(self, name: str, *, inplace: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.name, self.inplace = name, inplace

    def forward(self, x: Tensor) -> Tensor:
        return self.head(FUNCTIONS[self.name](self.inner(x), self.inplace))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_place_is_as_out_of_place(name: str) -> None:
    x = torch.randn(2, 3, dtype=torch.float64)
    one, other = (relevance(Activated(name, inplace=inplace).double(), x, target=1).check() for inplace in (True, False))
    assert_close(one.relevance, other.relevance)
