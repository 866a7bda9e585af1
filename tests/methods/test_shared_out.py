"""How much of the relevance the stabiliser shared out: `result.shared_out`, and what `result.doubt` says of it."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whence
from whence.result import Result

X = torch.randn(4, 12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Scaled(nn.Module):
    """A regression whose output is in any unit."""

    def __init__(self, unit: float, layer: type[nn.LSTM] | type[nn.GRU] = nn.LSTM) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.out = layer(5, 16, batch_first=True), nn.Linear(16, 1)
        with torch.no_grad():
            self.out.weight.mul_(unit * 10)
            self.out.bias.mul_(unit)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """One score per sample."""
        return self.out(self.layer(x)[0][:, -1])[:, 0]


def shared(unit: float, layer: type[nn.LSTM] | type[nn.GRU] = nn.LSTM, x: Tensor = X, **settings: Any) -> Result:
    return whence.relevance(Scaled(unit, layer), x, **settings)


def counted(result: Result) -> Tensor:
    assert result.shared_out is not None and result.shared_out.shape == result.score.shape
    return result.shared_out


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_an_output_in_small_units_is_told(layer: type[nn.LSTM] | type[nn.GRU]) -> None:
    usual, small = shared(1.0, layer), shared(1e-4, layer)
    assert usual.shared_out is None and usual.doubt is None
    assert shared(1.0, layer, check="model").doubt is None
    assert bool((counted(small) > 0.5).all())
    assert small.doubt is not None and "4 of 4 explanations are in doubt" in small.doubt
    assert "epsilon=0.001 is large beside the amounts of this call: what it shared out evenly is" in small.doubt
    assert 'or stabiliser="absorbed"' in small.doubt and small.doubt in repr(small)


def test_it_is_what_came_by_shares() -> None:
    """The relevance without shares is that with the stabiliser absorbed, which shares none of it with δ = 0."""
    result = shared(1e-3)
    own = shared(1e-3, method=whence.LRP(stabiliser="absorbed")).relevance
    whole = result.relevance
    torch.testing.assert_close(counted(result), (whole - own).abs().sum((1, 2)) / whole.abs().sum((1, 2)))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("unit", [1e-3, 1e-4, 1e-6])
def test_the_epsilon_that_is_named_fits(layer: type[nn.LSTM] | type[nn.GRU], unit: float) -> None:
    result = shared(unit, layer)
    assert result.fitting_epsilon is not None
    for n, epsilon in enumerate(result.fitting_epsilon.tolist()):
        again = shared(unit, layer, X[n : n + 1], method=whence.LRP(epsilon=epsilon), check="model")
        assert again.doubt is None
        own = shared(unit, layer, X[n : n + 1], method=whence.LRP(epsilon=epsilon, stabiliser="absorbed")).relevance
        assert float((again.relevance - own).abs().sum()) < 0.2 * float(again.relevance.abs().sum())


def test_a_sample_is_counted_as_if_it_were_alone() -> None:
    x = X * torch.tensor([1.0, 30.0, 0.01, 1.0], dtype=torch.float64)[:, None, None]
    for unit in (1e-3, 1e-2, 1e-1):
        together, lengths = shared(unit, x=x).shared_out, shared(unit, x=x, lengths=[12, 12, 12, 12]).shared_out
        nothing = torch.full((1,), torch.nan, dtype=torch.float64)
        alone = [shared(unit, x=x[n : n + 1]).shared_out for n in range(len(x))]
        expected = torch.cat([nothing if each is None else each for each in alone])
        for found in (together, lengths):
            torch.testing.assert_close(expected if found is None else found, expected, equal_nan=True)
            assert (found is None) == bool(expected.isnan().all())


def test_it_is_counted_for_every_target_and_length() -> None:
    class Two(Scaled):
        def forward(self, x: Tensor) -> Tensor:
            one = super().forward(x)
            return torch.stack([one, 3 * one], 1)

    every = whence.relevance(Two(1e-4), X, target="all")
    torch.testing.assert_close(counted(every)[0], counted(whence.relevance(Two(1e-4), X, target=0)))
    padded = shared(1e-4, x=X, lengths=[12, 7, 7, 3])
    torch.testing.assert_close(counted(padded)[1:2], counted(shared(1e-4, x=X[1:2, :7])))


@pytest.mark.parametrize("method", [whence.LRP(stabiliser="absorbed"), whence.LRP(epsilon=0.0), whence.GradientXInput()])
def test_what_shares_nothing_counts_nothing(method: Any) -> None:
    result = shared(1e-4, method=method, check="model")
    assert result.shared_out is None
