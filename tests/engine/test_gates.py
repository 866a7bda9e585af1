"""What counts as a gate: combinations of gates that cannot turn negative, and no others."""

from collections.abc import Callable
from typing import Any, cast

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
    """Then both factors are sources, and share what comes beyond rest; who does not want that choice asks for strict=True."""
    model, x = Gated(combine).double(), torch.randn(2, 3, dtype=torch.float64)
    found = relevance(model, x)
    assert [choice.operation for choice in found.choices] == ["mul"]
    assert "get a half each" in str(found.choices[0])
    found = relevance(model, x, method=LRP(epsilon=0.0))
    f, i, s = (layer(x) for layer in (model.f, model.i, model.source))
    gate, rest = combine(f.sigmoid(), i.sigmoid()), combine(*torch.full((2, 2, 4), 0.5, dtype=torch.float64))

    def given(layer: nn.Linear, z: Tensor, amount: Tensor) -> Tensor:
        return x * ((amount / z) @ layer.weight)

    of_gate = s.tanh() / 2  # the multiplier of the gate; each of f and i changes it by itself
    half = torch.full_like(f, 0.5)
    expected = given(model.source, s, s.tanh() * (gate + rest) / 2)
    expected = expected + given(model.f, f, of_gate * (combine(f.sigmoid(), half) - combine(half, half)))
    expected = expected + given(model.i, i, of_gate * (combine(half, i.sigmoid()) - combine(half, half)))
    assert_close(found.relevance, expected.detach())
    with pytest.raises(
        NoRuleError, match=r"no rule for torch.Tensor.mul .* strict=True makes no choice .*whence.gate\(tensor\)"
    ):
        relevance(model, x, method=LRP(strict=True))


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


class Attended(nn.Module):
    """Two live factors in one einsum, or the same spelled out."""

    def __init__(self, spelling: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.spelling = nn.Linear(3, 4), nn.Linear(3, 4), spelling

    def forward(self, x: Tensor) -> Tensor:
        return self.spelling(self.a(x).tanh(), self.b(x).tanh()).flatten(1).sum(1)


@pytest.mark.parametrize(
    ("einsum", "spelled"),
    [
        ("bth,bsh->bts", lambda a, b: (a[:, :, None] * b[:, None]).sum(-1)),
        ("bth,bth->bh", lambda a, b: (a * b).sum(1)),
        ("b t h, b t h -> b t h", lambda a, b: a * b),
        ("bth,bsh->bsth", lambda a, b: a[:, None] * b[:, :, None]),
    ],
)
@pytest.mark.parametrize("product", ["half", "prop", "abs"])
def test_an_einsum_is_the_products_it_is_made_of(einsum: str, spelled: Callable[..., Tensor], product: str) -> None:
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    method = LRP(epsilon=0.1, product=product)  # type: ignore[arg-type]
    one, other = (
        relevance(Attended(spelling).double(), x, method=method).check(1e-10)
        for spelling in (lambda a, b: torch.einsum(einsum, a, b), spelled)
    )
    assert_close(one.relevance, other.relevance)


def test_an_einsum_of_one_operand_is_a_sum() -> None:
    class One(nn.Module):
        def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Tensor) -> Tensor:
            return self.function(x.tanh())

    x = torch.randn(2, 3, 4, dtype=torch.float64)
    found = relevance(One(lambda x: torch.einsum("bte->b", x)), x)
    assert_close(found.relevance, relevance(One(lambda x: x.sum((1, 2))), x).relevance)


@pytest.mark.parametrize("affine", [True, False])
def test_a_norm_by_size_with_and_without_weights(affine: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4, elementwise_affine=affine), nn.Linear(4, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    found = relevance(model, x, target=1, method=LRP(epsilon=0.0)).relevance
    z = model[0](x)
    per_unit = cast(Tensor, model[2].weight)[1] * model[1](z) / z  # the normaliser is a gate, and takes nothing
    assert_close(found, (x * (per_unit @ model[0].weight)).detach())


class Features(nn.Module):
    """Features out of a sigmoid, and something constant beside them."""

    def __init__(self, beside: Callable[["Features", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.x, self.out, self.beside = nn.Linear(3, 4), nn.Linear(4, 2), beside
        self.w = nn.Parameter(torch.randn(4))
        self.register_buffer("scale", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.beside(self, torch.sigmoid(self.x(x)))


MASK = torch.tensor([[1.0], [1.0], [0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("beside", "same"),
    [
        (lambda m, h: (h * m.w).sum(-1), lambda m, h: h @ m.w),
        (lambda m, h: (m.w * h).sum(-1), lambda m, h: h @ m.w),
        (lambda m, h: (h * m.scale).sum(-1), lambda m, h: h @ m.scale),
        (lambda m, h: (h * torch.exp(m.w)).sum(-1), lambda m, h: h @ torch.exp(m.w)),
        (lambda m, h: (h * m.w[None, None]).sum(-1), lambda m, h: h @ m.w),
    ],
)
def test_a_weight_beside_a_sigmoid_is_a_weight(beside: Any, same: Any) -> None:
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    for pick in (0, -1):
        target = lambda output, pick=pick: output[:, pick]  # noqa: E731
        found = relevance(Features(beside).double(), x, target=target, method=LRP(epsilon=0.0))
        assert found.relevance.any()
        expected = relevance(Features(same).double(), x, target=target, method=LRP(epsilon=0.0))
        assert_close(found.relevance, expected.relevance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ones", [MASK, MASK.expand(2, 3, 4), torch.ones(3, 1, dtype=torch.float64)])
def test_a_masked_mean_is_the_same_with_numbers_and_with_booleans(ones: Tensor) -> None:
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    number = Features(lambda m, h: m.out((h * ones).sum(1) / ones.sum(-2).mean())).double()
    boolean = Features(lambda m, h: m.out((h * ones.bool()).sum(1) / ones.sum(-2).mean())).double()
    found, expected = (relevance(model, x, target=0) for model in (number, boolean))
    assert found.relevance.any()
    assert_close(found.relevance, expected.relevance)


@pytest.mark.parametrize("state", ["zeros", "given", "trained"])
def test_an_initial_state_beside_a_gate_stays_one(state: str) -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.f, self.g, self.c0 = nn.Linear(3, 4), nn.Linear(3, 4), nn.Parameter(torch.randn(1, 4))

        def forward(self, x: Tensor, given: Tensor) -> Tensor:
            start = {"zeros": torch.zeros_like(given), "given": given, "trained": self.c0.expand(len(x), 4)}[state]
            f = torch.sigmoid(self.f(x))
            return (f * start + (1 - f) * torch.tanh(self.g(x))).sum(-1)

    model, x, given = Cell().double(), torch.randn(2, 3).double(), torch.randn(2, 4).double()
    found = relevance(model, x, args=(given,), method=LRP(epsilon=0.0))
    f, z = model.f(x).sigmoid(), model.g(x)
    expected = x * (((1 - f) * z.tanh() / z) @ model.g.weight)
    assert_close(found.relevance, expected.detach())
