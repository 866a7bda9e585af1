"""The same numbers as Captum's, where it has the method."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import IntegratedGradients, Occlusion, Shapley, SmoothGrad, relevance

attr: Any = pytest.importorskip("captum.attr", reason="Captum is not installed; the dev extra has it")
X = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5, "check_dtype": False}  # Captum weighs and masks in single precision


class Classifier(nn.Module):
    """A bidirectional GRU with a state of its own for every sample."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.out = nn.GRU(4, 6, batch_first=True, bidirectional=True), nn.Linear(12, 3)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return self.out(self.gru(x, state.transpose(0, 1).contiguous())[0].mean(1))


@pytest.fixture
def model() -> nn.Module:
    return Classifier().double()


@pytest.fixture
def state() -> Tensor:
    return torch.randn(3, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("steps", [1, 5, 64])
@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_integrated_gradients(model: nn.Module, state: Tensor, steps: int, baseline: float) -> None:
    method = IntegratedGradients(steps=steps, most=steps, baseline=baseline)
    found = relevance(model, X, target=1, method=method, args=(state,))
    expected = attr.IntegratedGradients(model).attribute(
        X, baseline, target=1, n_steps=steps, method="gausslegendre", additional_forward_args=(state,)
    )
    assert_close(found.relevance, expected, **CLOSE)


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_occlusion(model: nn.Module, state: Tensor, window: int) -> None:
    """Captum gives the whole drop to every feature of a step; here the features share it."""
    found = relevance(model, X, target=1, method=Occlusion(window=window), args=(state,))
    expected = attr.Occlusion(model).attribute(X, sliding_window_shapes=(window, 4), target=1, additional_forward_args=(state,))
    assert_close(found.relevance, expected / 4, **CLOSE)


def test_the_gradient(model: nn.Module, state: Tensor) -> None:
    found = relevance(model, X, target=1, method=SmoothGrad(noise=0.0), args=(state,))
    expected = attr.Saliency(model).attribute(X.clone().requires_grad_(), target=1, abs=False, additional_forward_args=(state,))
    assert_close(found.relevance, expected, **CLOSE)


def steps_of(x: Tensor) -> Tensor:
    """Captum's feature mask: a number for every step."""
    return torch.arange(x.shape[1])[None, :, None].repeat(1, 1, x.shape[2])


def test_shapley_values(model: nn.Module, state: Tensor) -> None:
    two = X[:, :2]
    found = relevance(model, two, target=1, method=Shapley(samples=2), args=(state,))
    expected = attr.ShapleyValues(model).attribute(two, target=1, feature_mask=steps_of(two), additional_forward_args=(state,))
    assert_close(found.relevance, expected / 4, **CLOSE)
    exact = attr.ShapleyValues(model).attribute(X, target=1, feature_mask=steps_of(X), additional_forward_args=(state,))
    sampled = relevance(model, X, target=1, method=Shapley(samples=2000), by_step=True, args=(state,))
    assert_close(sampled.relevance, exact[..., 0], rtol=0, atol=4 * float(sampled.errors.max()), check_dtype=False)
    assert float(sampled.errors.max()) < 0.01 * float(exact.abs().max())


def test_sampled_shapley_values(model: nn.Module, state: Tensor) -> None:
    torch.manual_seed(0)
    expected = attr.ShapleyValueSampling(model).attribute(
        X, target=1, feature_mask=steps_of(X), n_samples=500, additional_forward_args=(state,)
    )
    found = relevance(model, X, target=1, method=Shapley(samples=500), by_step=True, args=(state,))
    # both are samples: Captum's orders are independent, so its error is at least ours
    assert_close(found.relevance, expected[..., 0], rtol=0, atol=0.02 * float(expected.abs().max()), check_dtype=False)
    assert_close(found.relevance.sum(1), expected[..., 0].sum(1), **CLOSE)
