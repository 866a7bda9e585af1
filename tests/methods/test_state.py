"""Models that keep something between calls: they are explained as they would answer now, and left as they were."""

import copy
from collections import deque
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, SensitivityAnalysis, relevance

METHODS = [LRP(), LRP(product="half"), GradientXInput(), SensitivityAnalysis(), *PERTURBING]


class Keeping(nn.Module):
    """An LSTM whose state goes on from call to call, kept in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way, self.calls = way, 0
        self.words, self.lstm, self.out = nn.Embedding(9, 4), nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)
        start = torch.randn(2, 1, 2, 3)
        self.hidden: Any = tuple(start)
        self.states: Any = {"list": [start], "dictionary": {"h": [start]}, "deque": deque([start])}.get(way, [start])
        self.register_buffer("buffer", start.clone())
        self.plain = start.clone()

    def forward(self, ids: Tensor) -> Tensor:
        self.calls += 1
        kept = {
            "attribute": lambda: tuple(self.hidden),
            "list": lambda: tuple(self.states[-1]),
            "dictionary": lambda: tuple(self.states["h"][-1]),
            "deque": lambda: tuple(self.states[-1]),
            "buffer in place": lambda: tuple(self.buffer.clone()),
            "tensor in place": lambda: tuple(self.plain.clone()),
            "buffer anew": lambda: tuple(self.buffer),
        }[self.way]()
        states, hidden = self.lstm(self.words(ids), kept)
        new = torch.stack(hidden)
        if self.way == "attribute":
            self.hidden = tuple(each.detach() for each in hidden)
        elif self.way in ("list", "deque"):
            self.states.append(new.detach())
        elif self.way == "dictionary":
            self.states["h"].append(new.detach())
        elif self.way == "buffer in place":
            self.buffer.copy_(new.detach())
        elif self.way == "tensor in place":
            self.plain.mul_(0).add_(new.detach())
        else:
            self.buffer = new.detach()
        return self.out(states[:, -1])


WAYS = ["attribute", "list", "dictionary", "deque", "buffer in place", "tensor in place", "buffer anew"]


def contents(model: Keeping) -> list[Any]:
    kept = [model.hidden, model.states, model.buffer, model.plain, model.calls]
    return copy.deepcopy(kept)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_the_next_answer_is_explained_and_the_state_stays(way: str, method: Any) -> None:
    model, ids = Keeping(way).double(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    model.hidden = tuple(each.double() for each in model.hidden)
    model.plain = model.plain.double()
    for states in (model.states["h"],) if isinstance(model.states, dict) else (model.states,):
        states[0] = states[0].double()
    expected = copy.deepcopy(model)(ids)[:, 1].detach()
    before, held = contents(model), model.buffer
    first = relevance(model, ids, target=1, method=method)
    second = relevance(model, ids, target=1, method=method)
    assert_close(first.score, expected)
    assert_close(first.relevance, second.relevance, rtol=0, atol=0)
    assert_close(contents(model), before, rtol=0, atol=0)
    assert model.buffer is held
    assert_close(model(ids)[:, 1].detach(), expected)


def test_a_model_that_draws_random_numbers_goes_on_drawing() -> None:
    class Noisy(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward((input + 0.1 * torch.randn_like(input)).sum(1))

    model, x = Noisy(4, 2).double(), torch.randn(2, 5, 4).double()
    torch.manual_seed(3)
    expected = model(x)[:, 0].detach()
    torch.manual_seed(3)
    assert_close(relevance(model, x, target=0).score, expected)
