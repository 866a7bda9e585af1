"""One number for every step where a recurrent layer is not alone in reading its input: nothing is summed too early."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import relevance


class Turned(nn.Module):
    """Reads its steps in another order, by a recurrent layer and past it."""

    def __init__(self, past: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head, self.past = nn.LSTM(4, 3, batch_first=True), nn.Linear(7, 2), past

    def forward(self, x: Tensor) -> Tensor:
        turned = x.index_select(1, torch.tensor([2, 0, 1]))
        return self.head(torch.cat([self.layer(turned)[0][:, -1], self.past(x, turned)[:, 1]], dim=-1))


@pytest.mark.parametrize("past", [lambda x, turned: x, lambda x, turned: turned], ids=["the input", "what was moved"])
def test_by_step_is_the_sum_over_the_features(past: Callable[[Tensor, Tensor], Tensor]) -> None:
    model, x = Turned(past).double(), torch.randn(2, 3, 4, dtype=torch.float64)
    whole, found = (relevance(model, x, target=1, by_step=by_step) for by_step in (False, True))
    assert found.relevance.shape == (2, 3)
    assert_close(found.relevance, whole.relevance.sum(-1))
    assert_close(found.explained, whole.explained)
