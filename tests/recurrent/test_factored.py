"""The backward pass by factors against the reference: every rule for products, projections, ragged batches, odd sizes."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whence.equations import Product, Rules, Stabiliser
from whence.recurrent.cells import CELLS
from whence.recurrent.weights import by_layer

SIZES = [(1, 1, 1, 2), (4, 3, 5, 3), (7, 9, 3, 63)]  # T, B, E, H


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("is_ragged", [False, True])
@pytest.mark.parametrize("has_biases", [False, True])
@pytest.mark.parametrize(("delta", "stabiliser"), [(0.0, "shared"), (0.4, "shared"), (0.4, "absorbed"), (1.0, "absorbed")])
@pytest.mark.parametrize("rule", ["all", "half", "prop", "abs"])
@pytest.mark.parametrize("kind", ["lstm", "lstm, projected", "gru"])
def test_factors_give_what_the_reference_gives(
    kind: str, rule: Product, delta: float, stabiliser: Stabiliser, has_biases: bool, is_ragged: bool, size: tuple[int, ...]
) -> None:
    torch.manual_seed(3)
    (steps, batch, inputs, hidden), cell = size, CELLS[kind.partition(",")[0]]
    more: dict[str, Any] = {"proj_size": max(1, hidden // 2)} if "projected" in kind else {}
    module = cell.module(inputs, hidden, bias=has_biases, **more).double()
    flat: Any = module._flat_weights
    ((weights,),) = by_layer(cell.weights, flat, has_biases=has_biases, directions=1, layers=1)
    x = torch.randn(steps, batch, inputs, dtype=torch.float64)
    x[0, 0] = 0.0
    states = tuple(torch.randn(batch, width, dtype=torch.float64) for width in weights.state_sizes)
    lengths = torch.randint(1, steps + 1, (batch,)).sort(descending=True).values if is_ragged else None
    with torch.no_grad():
        tape = cell.forward(x, weights, states=states, lengths=lengths)
        given: dict[str, Any] = {
            "r_outputs": torch.randn(2, *tape.outputs().shape, dtype=torch.float64),
            "r_states": tuple(torch.randn(2, *each.shape, dtype=torch.float64) for each in states),
            "rules": Rules(0.01, delta, stabiliser, rule),
        }
        assert cell.factored is not None
        found, expected = cell.factored(tape, weights, **given), cell.relevance(tape, weights, **given)
    for one, other in zip(found[:4], expected[:4], strict=True):
        _close(one, other)


def _close(found: object, expected: object) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):  # type: ignore[call-overload]
            _close(one, other)
        return
    assert isinstance(found, Tensor) and isinstance(expected, Tensor)
    assert_close(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, float(expected.abs().max())))  # differences of large amounts
