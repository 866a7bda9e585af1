"""The rules for products on their own, ties and zeros included."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whence.equations import Rules, product, product_abs

GATE, SOURCE, R = torch.tensor([1.0, 0, 0, -2, 3]), torch.tensor([3.0, 0, -1, 2, 0]), torch.tensor([4.0, 2, 1, -6, 5])


def test_by_absolute_size_and_a_half_where_both_are_zero() -> None:
    r_gate, r_source = product_abs(GATE, SOURCE, r_out=R)
    assert_close(r_gate, torch.tensor([1.0, 1, 0, -3, 5]))
    assert_close(r_source, torch.tensor([3.0, 1, 1, -3, 0]))


@pytest.mark.parametrize(
    ("rules", "r_gate", "r_source"),
    [
        (Rules(product="all"), [0.0, 0, 0, 0, 0], [4.0, 2, 1, -6, 5]),
        (Rules(product="half"), [2, 1, 0.5, -3, 2.5], [2, 1, 0.5, -3, 2.5]),
        (Rules(product="abs"), [1.0, 1, 0, -3, 5], [3.0, 1, 1, -3, 0]),
        (Rules(product="prop", epsilon=1.0), [1.2, 1, 0.25, 9, 4.375], [2.8, 1, 0.75, -15, 0.625]),
        (Rules(product="prop", epsilon=1.0, stabiliser="absorbed"), [0.8, 0, 0, 12, 3.75], [2.4, 0, 0.5, -12, 0]),
    ],
)
def test_what_each_factor_gets(rules: Rules, r_gate: list[float], r_source: list[float]) -> None:
    found: tuple[Tensor, Tensor] = product(GATE, SOURCE, r_out=R, rules=rules)
    assert_close(found[0], torch.tensor(r_gate))
    assert_close(found[1], torch.tensor(r_source))
