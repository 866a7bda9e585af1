"""Patterns of published models: the books balance by every rule, and relevance is that of an independent derivation."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from tests.models.cells import MinGRU
from tests.models.published import PUBLISHED
from tests.oracle import detached
from whence import LRP, relevance
from whence.equations import Product

PRODUCTS: list[Product] = ["all", "half", "prop", "abs"]


def made(name: str) -> nn.Module:
    torch.manual_seed(1)
    return PUBLISHED[name](4, 4, 3).double().eval()


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_books_balance(name: str, delta: float, product: Product) -> None:
    model, x = made(name), torch.randn(3, 5, 4, dtype=torch.float64)
    result = relevance(model, x, target=1, method=LRP(epsilon=0.1, delta=delta, product=product))
    largest = max(float(each.abs().max()) for each in (result.relevance, *result.absorbed.values()))
    assert_close(result.relevance.sum((1, 2)) + sum(result.absorbed.values()), result.score, rtol=1e-9, atol=1e-11 * largest)
    alone = relevance(model, x[1:2], target=1, method=LRP(epsilon=0.1, delta=delta, product=product))
    assert_close(result.relevance[1:2], alone.relevance, rtol=1e-8, atol=1e-11 * largest)


# compared with another model below; values at rest have an oracle of their own
APART = {"minGRU, log space of its authors", "features out of a sigmoid"}
DERIVED = [
    (name, product)
    for name in PUBLISHED
    for product in PRODUCTS
    # the derivation has no slope of a norm; and in the sLSTM i − m is exactly zero where i is the running maximum m
    if name not in APART and (product == "all" or not name.startswith(("normaliser", "sLSTM")))
]


@pytest.mark.parametrize(("name", "product"), DERIVED)
def test_relevance_is_that_of_autograd_with_replaced_slopes(name: str, product: Product) -> None:
    model, x = made(name), torch.randn(2, 5, 4, dtype=torch.float64)
    found = relevance(model, x, target=1, method=LRP(epsilon=1e-14, product=product, stabiliser="absorbed"))
    start = found.score if name.startswith("ends in") else None  # relevance starts before it
    (expected,), _ = detached.relevance(model, x, 1, product=product, start=start)
    assert_close(found.relevance, expected, rtol=1e-8, atol=1e-9 * float(found.relevance.abs().max()))


def test_log_space_is_another_way_to_compute_the_same() -> None:
    """With positive contents exp(log z + log n) is z · n, whose relevance is n's."""

    class Plain(MinGRU):
        def states(self, x: Tensor) -> Tensor:
            z, n = self.z(x).sigmoid(), self.n(x)
            n = n.abs()
            h = self.start(x)
            for t in range(x.shape[1]):
                h = (1 - z[:, t]) * h + z[:, t] * n[:, t]
            return h

    class Log(MinGRU):
        def states(self, x: Tensor) -> Tensor:
            z, n = self.z(x), self.n(x)
            values, kept = -nn.functional.softplus(-z) + n.abs().log(), (-nn.functional.softplus(z)).cumsum(1)
            return (kept + (values - kept).logcumsumexp(1)).exp()[:, -1]

    torch.manual_seed(0)
    log, plain, x = Log(4, 3, 2).double(), Plain(4, 3, 2).double(), torch.randn(2, 6, 4, dtype=torch.float64)
    plain.load_state_dict(log.state_dict())
    one, other = (relevance(model, x, target=0, method=LRP(epsilon=0.0)) for model in (log, plain))
    assert_close(one.score, other.score)
    assert_close(one.relevance, other.relevance, rtol=1e-8, atol=1e-10)


CHOSEN = {
    "sLSTM, nothing marked": "exp",
    "mLSTM, nothing marked": "matmul",
    "selective scan, nothing marked": "einsum",
    "silu(z) · y": "silu and linear get a half each",
    "tanh · tanh": "tanh and tanh get a half each",
    "normaliser: x / ‖x‖": "normaliser",
    "ends in log_softmax": "starts from the scores before it",
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_was_decided_is_told_or_refused(name: str) -> None:
    model, x = made(name), torch.randn(2, 5, 4, dtype=torch.float64)
    told = " ".join(map(str, relevance(model, x, target=1).choices))
    assert CHOSEN[name] in told
    with pytest.raises(whence.NoRuleError, match="strict=True"):
        relevance(model, x, target=1, method=LRP(strict=True))


def test_a_model_of_the_papers_kind_needs_no_choice() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.LSTM(4, 3, batch_first=True, bidirectional=True), nn.Linear(6, 2)

        def forward(self, x: Any) -> Tensor:
            h = self.cell(x)[0]
            return self.out((torch.softmax(h.sum(-1, keepdim=True), 1) * h).sum(1))

    result = relevance(Plain(), torch.randn(2, 5, 4), target=0, method=LRP(strict=True))
    assert result.choices == ()


def test_of_several_outputs_only_the_chosen_ones_matter() -> None:
    class Distribution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.mean, self.spread = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.lstm(x)[0][:, -1]
            return torch.cat([self.mean(h), nn.functional.softplus(self.spread(h))], -1)

    model, x = Distribution().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    mean, spread = relevance(model, x, target=0), relevance(model, x, target=2)
    assert not mean.choices
    assert_close(mean.score, model(x)[:, 0].detach())
    assert "softplus" in str(spread.choices[0])
    assert_close(spread.score, model.spread(model.lstm(x)[0][:, -1])[:, 0].detach())
    every = relevance(model, x, target="all")
    assert_close(every.relevance[0], mean.relevance)
    assert_close(every.relevance[2], spread.relevance)


def test_a_contrast_of_log_probabilities_is_one_of_scores() -> None:
    model, x = made("ends in log_softmax"), torch.randn(2, 5, 4, dtype=torch.float64)
    found = relevance(model, x, target=whence.contrast(2, 0), method=LRP(epsilon=0.0))
    assert_close(found.score, (model(x)[:, 2] - model(x)[:, 0]).detach())
    plain = made("ends in exp")
    plain.load_state_dict(model.state_dict())
    setattr(plain, "function", torch.clone)  # noqa: B010 - the scores as they are
    assert_close(found.relevance, relevance(plain, x, target=whence.contrast(2, 0), method=LRP(epsilon=0.0)).relevance)


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("work", ["a constant beside complex numbers", "a real sum beside them", "the size of a complex zero"])
def test_complex_sums_balance(work: str, delta: float) -> None:
    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.x, self.out = nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            z = self.x(x)
            if work == "a constant beside complex numbers":
                c = torch.complex(z, z) + 0.5
                return self.out((c * c).real.sum(1))
            if work == "a real sum beside them":
                h = torch.zeros(len(x), 3, dtype=torch.complex128)
                for t in range(x.shape[1]):
                    h = h * (0.5 + 0.3j) + z[:, t]
                return self.out(h.real)
            z = z.relu()
            return self.out(torch.complex(z, z).abs().sum(1))

    result = relevance(Complex().double(), torch.randn(2, 5, 4).double(), target=0, method=LRP(delta=delta))
    result.check(1e-10)
