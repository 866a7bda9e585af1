"""Numbers that do not add up are never returned without a word."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.models.cells import ZOO
from whence import LRP, ConservationError, InputError, relevance


class Cancelling(nn.Module):
    """Large numbers of both signs that cancel, up to a small one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.x = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.x(x).abs().sum((1, 2))
        return torch.relu(1e6 * z + z) - torch.relu(1e6 * z)


def test_single_precision_that_is_not_enough_gives_way_to_double() -> None:
    model, x = Cancelling(), torch.randn(2, 5, 3)
    assert not relevance(model, x, check=False).is_balanced()
    found = relevance(model, x)
    assert found.score.dtype == found.relevance.dtype == torch.float64
    assert found.is_balanced()
    assert next(model.parameters()).dtype == torch.float32
    assert_close(found.relevance, relevance(model.double(), x.double()).relevance)


def test_where_double_precision_is_impossible_an_error_is_raised() -> None:
    class Single(Cancelling):
        def forward(self, x: Tensor) -> Tensor:
            if x.dtype != torch.float32:
                raise TypeError("single precision alone")
            return super().forward(x)

    with pytest.raises(ConservationError, match=r"relevance \+ absorbed .*gap"):
        relevance(Single(), torch.randn(2, 5, 3))


@pytest.mark.parametrize("product", ["all", "half", "prop", "abs"])
def test_a_mask_of_infinities_leaves_no_nan_behind(product: Any) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.out = nn.Linear(4, 1), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            scores = self.a(x).masked_fill(torch.tensor([[False], [True], [False]]), -torch.inf)
            weights = torch.exp(scores - scores.amax(1, keepdim=True))
            return self.out((weights * x).sum(1) / weights.sum(1))

    model, x = Masked().double(), torch.randn(2, 3, 4).double()
    result = relevance(model, x, target=0, method=LRP(product=product))
    assert all(bool(each.isfinite().all()) for each in (result.relevance, *result.absorbed.values()))
    result.check(1e-9)


def test_what_a_rule_cannot_do_is_said() -> None:
    torch.manual_seed(0)
    model, x = ZOO["peephole LSTM"](3, 16, 1).double().eval(), torch.randn(1, 60, 3).double()
    with pytest.raises((ConservationError, InputError), match=r"prop|amounts"):
        relevance(model, x, method=LRP(product="prop", epsilon=1e-9))
