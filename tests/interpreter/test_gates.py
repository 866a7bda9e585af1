"""What counts as a gate: combinations of gates that cannot turn negative, and no others."""

from collections.abc import Callable
from typing import cast

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


def test_an_einsum_of_one_operand_is_refused_by_name() -> None:
    class One(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.einsum("bte->b", x.tanh())

    with pytest.raises(NoRuleError, match="an einsum of 1 operands is not a weighted connection"):
        relevance(One(), torch.randn(2, 3, 4))


@pytest.mark.parametrize("affine", [True, False])
def test_a_norm_by_size_with_and_without_weights(affine: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4, elementwise_affine=affine), nn.Linear(4, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    found = relevance(model, x, target=1, method=LRP(epsilon=0.0)).relevance
    z = model[0](x)
    per_unit = cast(Tensor, model[2].weight)[1] * model[1](z) / z  # the normaliser is a gate, and takes nothing
    assert_close(found, (x * (per_unit @ model[0].weight)).detach())
