"""Cells and networks of every kind: the books balance by every rule, and relevance is that of an independent derivation."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import whence
from tests.models.cells import ZOO
from tests.models.networks import NETWORKS
from tests.oracle import detached
from tests.strategies import SEEDS
from whence import LRP
from whence.equations import Product, Stabiliser

PRODUCTS: list[Product] = ["all", "half", "prop", "abs"]
EVERYTHING = {**ZOO, **NETWORKS}


def made(name: str, seed: int, *, sizes: tuple[int, int, int] = (4, 4, 3)) -> nn.Module:
    torch.manual_seed(seed)
    return EVERYTHING[name](*sizes).double().eval()


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("name", EVERYTHING)
@settings(max_examples=5)
@given(
    seed=SEEDS,
    batch=st.sampled_from([1, 2, 3]),
    steps=st.sampled_from([1, 2, 4]),
    delta=st.sampled_from([0.0, 0.3, 1.0]),
    stabiliser=st.sampled_from(["shared", "absorbed"]),
    epsilon=st.sampled_from([1e-3, 0.1]),
)
def test_the_books_balance(
    name: str, product: Product, seed: int, batch: int, steps: int, delta: float, stabiliser: Stabiliser, epsilon: float
) -> None:
    model = made(name, seed)
    x = torch.randn(batch, steps, 4, dtype=torch.float64)
    method = LRP(epsilon=epsilon, delta=delta, stabiliser=stabiliser, product=product)
    result = whence.relevance(model, x, target=1, method=method)
    total = result.relevance.sum((1, 2)) + sum(result.absorbed.values())
    # by the proportional rule relevance can grow large and cancel again; amounts round at their own size
    scale = 1 + result.relevance.abs().sum().item() + sum(float(each.abs().sum()) for each in result.absorbed.values())
    assert_close(total, result.score, rtol=1e-8, atol=1e-8 * scale)
    with torch.no_grad():
        assert_close(result.score, model(x)[:, 1], rtol=1e-10, atol=1e-10)


FUSED = ("nn.", "bi-GRU", "encoder–decoder", "conv1d", "highway", "weight,")  # their recurrent layers have oracles of their own


LOGS = "minGRU, log space (logcumsumexp)"  # tests/engine/test_published.py compares it with one that has no logarithms
BY_HAND = [(name, product) for name in ZOO for product in PRODUCTS if not name.startswith(FUSED) and name != LOGS]


@pytest.mark.parametrize(("name", "product"), BY_HAND)
def test_relevance_is_that_of_autograd_with_replaced_slopes(name: str, product: Product) -> None:
    model = made(name, 1, sizes=(4, 3, 2))
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    if name.startswith("sLSTM") and product != "all":  # i − m is exactly zero where i is the running maximum m
        with pytest.raises(whence.InputError, match="epsilon=0 divides by zero"):
            whence.relevance(model, x, target=1, method=LRP(epsilon=0.0, product=product))
        return
    found = whence.relevance(model, x, target=1, method=LRP(epsilon=0.0, product=product)).relevance
    (expected,), _ = detached.relevance(model, x, 1, product=product)
    assert_close(found, expected, rtol=1e-9, atol=1e-10 * float(expected.abs().max()))


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_sample_is_explained_the_same_alone_and_in_a_batch(name: str) -> None:
    model = made(name, 2)
    x = torch.randn(3, 4, 4, dtype=torch.float64)
    together = whence.relevance(model, x, target="all")
    for n in range(3):
        alone = whence.relevance(model, x[n : n + 1], target="all")
        assert_close(together.relevance[:, n], alone.relevance[:, 0], rtol=1e-9, atol=1e-11)


def test_attention_spelled_out_is_the_same() -> None:
    """nn.MultiheadAttention against its formula, weights and all."""

    class Plain(nn.Module):
        def __init__(self, layer: nn.MultiheadAttention) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            layer = self.layer
            q, k, v = torch.nn.functional.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
            found = []
            for q_h, k_h, v_h in zip(q.chunk(2, -1), k.chunk(2, -1), v.chunk(2, -1), strict=True):
                weights = (q_h @ k_h.transpose(1, 2) / 2**0.5).softmax(-1)
                found.append(weights @ v_h)
            return layer.out_proj(torch.cat(found, -1)).sum(1)

    class Own(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x, x, x)[0].sum(1)

    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True).double().eval()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    for product in PRODUCTS:
        one, other = (whence.relevance(make(layer), x, target=1, method=LRP(product=product)) for make in (Own, Plain))
        assert_close(one.relevance, other.relevance, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["bool", "float", "padding", "unbatched", "separate"])
def test_multi_head_attention_with_its_options(kind: str) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.MultiheadAttention(4, 2, batch_first=True, kdim=3 if kind == "separate" else None)
            self.keys = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            later = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
            options = {
                "bool": {"attn_mask": later},
                "float": {"attn_mask": torch.zeros(later.shape, dtype=x.dtype).masked_fill(later, float("-inf"))},
                "padding": {
                    "key_padding_mask": torch.zeros(x.shape[:-1], dtype=torch.bool).index_fill(1, torch.tensor([0]), True)
                }
                if x.dim() == 3
                else {},
            }
            keys = self.keys(x) if kind == "separate" else x
            return self.layer(x, keys, x, **options.get(kind, {}))[0].sum(-2)

    torch.manual_seed(1)
    model = Masked().double().eval()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    x = x[0] if kind == "unbatched" else x
    result = whence.relevance(model, x, target=1).check(1e-10)
    assert_close(result.score, model(x)[..., 1].detach())
    if kind == "padding":
        assert not result.relevance[:, 0].any()


def test_a_person_can_say_which_factor_is_the_gate() -> None:
    class Bilinear(nn.Module):
        def __init__(self, mark: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b, self.out, self.mark = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 2), mark

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.a(x.mean(1))
            return self.out((whence.gate(a) if self.mark else a) * self.b(x[:, 0]))

    x = torch.randn(2, 5, 4, dtype=torch.float64)
    halved = whence.relevance(Bilinear(False).double(), x, target=0)
    assert_close(
        halved.relevance, whence.relevance(Bilinear(False).double(), x, target=0, method=LRP(product="half")).relevance
    )
    with pytest.raises(whence.NoRuleError, match=r"linear and linear get a half each.*whence.gate\(tensor\)"):
        whence.relevance(Bilinear(False).double(), x, target=0, method=LRP(strict=True))
    marked = whence.relevance(Bilinear(True).double(), x, target=0).check(1e-12)
    assert not marked.relevance[:, 1:].any()
    for product in PRODUCTS[1:]:
        both = whence.relevance(Bilinear(False).double(), x, target=0, method=LRP(product=product)).check(1e-10)
        same = whence.relevance(Bilinear(True).double(), x, target=0, method=LRP(product=product))
        assert both.relevance[:, 1:].any()
        assert_close(both.relevance, same.relevance)
    with pytest.raises(whence.InputError, match=r"whence.gate marks a tensor, not a float"):
        whence.gate(cast(Any, 0.5))
    assert whence.gate(x) is x


@pytest.mark.parametrize("product", PRODUCTS)
def test_before_a_softmax_at_the_end_relevance_starts_by_every_rule(product: Product) -> None:
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(8, 3), nn.Softmax(-1)).double(), torch.randn(2, 2, 4).double()
    found = whence.relevance(model, x, target=0, method=LRP(product=product))
    expected = whence.relevance(model[:2], x, target=0, method=LRP(product=product))
    assert_close(found.score, expected.score)
    assert_close(found.relevance, expected.relevance)
    assert "starts from the scores before it" in str(found.choices[0])


def test_running_sums_are_sums() -> None:
    class Running(nn.Module):
        def __init__(self, style: str) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.style, self.x, self.out = style, nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.x(x)
            summed = z.cumsum(1)[:, 2] if self.style == "cumsum" else z[:, :3].sum(1)
            return self.out(torch.tanh(summed))

    x = torch.randn(2, 5, 4, dtype=torch.float64)
    for method in (LRP(), LRP(delta=1.0), LRP(stabiliser="absorbed")):
        one, other = (
            whence.relevance(Running(style).double(), x, target=1, method=method).check(1e-12) for style in ("cumsum", "sum")
        )
        assert_close(one.relevance, other.relevance, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, g: (g / g.sum(-1, keepdim=True)) * x,
        lambda x, g: g**2 * x,
        lambda x, g: g.softmax(-1).cumsum(-1) * x,
        lambda x, g: torch.special.expit(g) * x,
        lambda x, g: torch.exp(-2.0 * g) * x,
        lambda x, g: (g.softmax(1) + torch.tensor([0.0, 0, float("-inf"), 0, 0]).double()[:, None]).softmax(1) * x,
        lambda x, g: nn.functional.rms_norm(x, (4,)) + 0 * g,
        lambda x, g: nn.functional.normalize(x, dim=-1) + 0 * g,
        lambda x, g: torch.broadcast_tensors(x, g)[0] * g,
    ],
)
@pytest.mark.parametrize("product", ["all", "half"])
def test_more_that_gates_are_made_of(function: Callable[..., Any], product: Product) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(function(x, torch.sigmoid(self.a(x))).sum(1))

    whence.relevance(Model().double(), torch.randn(3, 5, 4).double(), target=1, method=LRP(product=product)).check(1e-9)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.div(x, x.sigmoid() + 0.1, rounding_mode="floor"), "it rounds"),
        (lambda x: torch.zeros(4).double().fill_(x[0, 0, 0]) + x, "no rule for torch.Tensor.fill_"),
        (lambda x: _placed_twice(x), "several elements in one place"),
    ],
)
def test_what_would_be_silently_wrong_is_refused(function: Callable[..., Any], message: str) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x).sum(1)

    with pytest.raises(whence.NoRuleError, match=message):
        whence.relevance(Model(), torch.randn(1, 5, 4).double(), target=1)


def _placed_twice(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, [0, 0]] = x[:, :2]
    return y


def test_whole_numbers_made_of_inputs_and_products_of_gates() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.to(torch.long).dtype == x.type(torch.int64).dtype
            return (x.sigmoid().prod(1, keepdim=True) * x).sum(1)

    whence.relevance(Model(), torch.randn(3, 5, 4).double(), target=1).check(1e-12)
