"""More of Captum's methods that ours equal: squares and products of gradients, ablation; odd sizes, ids, several inputs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import GradientXInput, IntegratedGradients, Occlusion, SensitivityAnalysis, relevance

attr: Any = pytest.importorskip("captum.attr", reason="Captum is not installed; the dev extra has it")
SIZES = [(1, 1, 1, 1), (3, 1, 2, 1), (1, 7, 3, 5), (5, 3, 1, 2)]  # samples, steps, features, classes


class Small(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.out = nn.LSTM(features, 3, batch_first=True, bidirectional=True), nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0].mean(1))


class Pair(nn.Module):
    """A series and fixed features, which scale its state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.out = nn.GRU(3, 5, batch_first=True), nn.Linear(2, 5)

    def forward(self, x: Tensor, fixed: Tensor) -> Tensor:
        return (self.gru(x)[0][:, -1] * self.out(fixed)).sum(1)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.lstm, self.out = nn.Embedding(9, 3), nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.lstm(self.embedding(ids))[0][:, -1])


def drawn(samples: int, steps: int, features: int, classes: int) -> tuple[Any, Tensor, list[int]]:
    """A model, inputs, and a target for each sample."""
    x = torch.randn(samples, steps, features, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return Small(features, classes).double().eval(), x, [n % classes for n in range(samples)]


@pytest.mark.parametrize("sizes", SIZES)
def test_sensitivity_is_the_square_of_saliency(sizes: tuple[int, int, int, int]) -> None:
    model, x, target = drawn(*sizes)
    found = relevance(model, x, target=target, method=SensitivityAnalysis()).relevance
    for is_absolute in (True, False):
        expected = attr.Saliency(model).attribute(x.clone().requires_grad_(), target=target, abs=is_absolute)
        assert_close(found, expected.square())


@pytest.mark.parametrize("sizes", SIZES)
def test_gradient_input(sizes: tuple[int, int, int, int]) -> None:
    model, x, target = drawn(*sizes)
    expected = attr.InputXGradient(model).attribute(x.clone().requires_grad_(), target=target)
    assert_close(relevance(model, x, target=target, method=GradientXInput()).relevance, expected)


@pytest.mark.parametrize("sizes", SIZES)
def test_integrated_gradients(sizes: tuple[int, int, int, int]) -> None:
    model, x, target = drawn(*sizes)
    found = relevance(model, x, target=target, method=IntegratedGradients(steps=7, most=7)).relevance
    expected = attr.IntegratedGradients(model).attribute(x, target=target, n_steps=7, method="gausslegendre")
    assert_close(found, expected, rtol=0, atol=1e-6)  # Captum weighs in single precision


@pytest.mark.parametrize("sizes", SIZES)
def test_occlusion_of_a_step_is_ablation_of_its_features(sizes: tuple[int, int, int, int]) -> None:
    model, x, target = drawn(*sizes)
    steps = torch.arange(x.shape[1])[None, :, None].expand(1, *x.shape[1:])
    found = relevance(model, x, target=target, method=Occlusion(), by_step=True).relevance
    ablated = attr.FeatureAblation(model).attribute(x, target=target, feature_mask=steps)
    occluded = attr.Occlusion(model).attribute(x, sliding_window_shapes=(1, x.shape[2]), target=target)
    for expected in (ablated, occluded):
        assert_close(found, expected[..., 0], rtol=0, atol=1e-6, check_dtype=False)  # Captum masks in single precision


def test_several_inputs() -> None:
    model = Pair().double().eval()
    given = (torch.randn(2, 3, 3, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64))
    live = tuple(each.clone().requires_grad_() for each in given)
    for method, expected in (
        (GradientXInput(), attr.InputXGradient(model).attribute(live)),
        (SensitivityAnalysis(), tuple(each.square() for each in attr.Saliency(model).attribute(live))),
        (IntegratedGradients(steps=9, most=9), attr.IntegratedGradients(model).attribute(given, n_steps=9)),
    ):
        for one, other in zip(relevance(model, given, method=method).relevance, expected, strict=True):
            assert_close(one, other, rtol=0, atol=1e-6)


def test_token_ids_and_layers_of_captum() -> None:
    model, ids = Tokens().double().eval(), torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    gi = attr.LayerGradientXActivation(model, model.embedding).attribute(ids, target=1)
    assert_close(relevance(model, ids, target=1, method=GradientXInput()).relevance, gi)
    baseline = model.embedding(torch.zeros_like(ids)).detach()  # that of id 0 in every step
    ig = attr.LayerIntegratedGradients(model, model.embedding).attribute(ids, torch.zeros_like(ids), target=1, n_steps=9)
    found = relevance(model, ids, target=1, method=IntegratedGradients(steps=9, most=9, baseline=baseline)).relevance
    assert_close(found, ig, rtol=0, atol=1e-6)
