"""Convolutions against the weighted rule on the matrix that they are, in NumPy."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence

EPSILON, DELTA = 0.01, 0.3
KINDS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
SIZES = {1: (7,), 2: (5, 4), 3: (3, 4, 3)}
SETTINGS: list[dict[str, Any]] = [
    {"kernel_size": 1},
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 2, "stride": 2, "padding": 1},
    {"kernel_size": 2, "dilation": 2, "padding": 2},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 2, "padding": "same"},  # one side gets more
    {"kernel_size": 3, "padding": "valid"},
    {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 3, "padding": 1, "bias": False},
]


class Scores(nn.Module):
    """Every element of a convolution's result is a score."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution: Any = convolution

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x).flatten(1)


def matrix_of(convolution: nn.Module, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The matrix (outputs, inputs) of a convolution without its bias."""
    size = int(np.prod(shape))
    zero = convolution(torch.zeros(1, *shape, dtype=torch.float64)).flatten(1)
    return (convolution(torch.eye(size, dtype=torch.float64).view(size, *shape)).flatten(1) - zero).detach().numpy().T


def expected(convolution: nn.Module, x: Tensor) -> np.ndarray[Any, Any]:
    """The relevance (outputs, B, inputs) of every input element for every output, by loops over samples and outputs."""
    weights = matrix_of(convolution, tuple(x.shape[1:]))
    ones = type(convolution)(**_settings(convolution)).double()
    nn.init.ones_(cast(Tensor, ones.weight))
    connected = matrix_of(ones, tuple(x.shape[1:])) != 0
    bias = convolution(torch.zeros_like(x[:1])).flatten(1)[0].detach().numpy()
    found = np.zeros((len(weights), len(x), weights.shape[1]))
    for b, row in enumerate(x.flatten(1).numpy()):
        z = weights @ row + bias
        for j in range(len(z)):
            s = 1.0 if z[j] >= 0 else -1.0
            share = (EPSILON * s + DELTA * bias[j]) / connected[j].sum()
            found[j, b] = (weights[j] * row + connected[j] * share) / (z[j] + EPSILON * s) * z[j]
    return found


def _settings(convolution: Any) -> dict[str, Any]:
    names = "in_channels out_channels kernel_size stride padding dilation groups padding_mode".split()
    return {name: getattr(convolution, name) for name in names} | {"bias": False}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("axes", KINDS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_convolution_is_its_matrix(axes: int, settings: dict[str, Any]) -> None:
    torch.manual_seed(axes)
    model = Scores(KINDS[axes](2, 4, **settings).double())
    with torch.no_grad():
        next(model.parameters()).view(-1)[3] = 0.0  # a trained weight connects also if it is 0
    method = whence.LRP(epsilon=EPSILON, delta=DELTA)
    for _ in range(3):
        x = torch.randn(3, 2, *SIZES[axes], dtype=torch.float64)
        right = torch.from_numpy(expected(model.convolution, x)).view(-1, *x.shape)
        assert_close(whence.relevance(model, x, target="all", method=method).check().relevance, right)
        assert_close(whence.relevance(model, x, target=5, method=method).check().relevance, right[5])


def test_weights_that_change_between_calls() -> None:
    torch.manual_seed(0)
    model = Scores(nn.Conv1d(2, 4, 3, padding=1).double())
    method = whence.LRP(epsilon=EPSILON, delta=DELTA)
    for _ in range(4):
        x = torch.randn(3, 2, 7, dtype=torch.float64)
        right = torch.from_numpy(expected(model.convolution, x)).view(-1, *x.shape)
        assert_close(whence.relevance(model, x, target="all", method=method).relevance, right)
        model.convolution.weight.data.mul_(-0.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_half_precision(axes: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Scores(KINDS[axes](2, 4, kernel_size=3, padding=1)).to(dtype)
    x = torch.randn(2, 2, *SIZES[axes]).to(dtype)
    method = whence.LRP(epsilon=0.1, delta=DELTA)
    found = whence.relevance(model, x, target=1, method=method).relevance.double()
    wanted = whence.relevance(model.double(), x.double(), target=1, method=method).relevance
    assert_close(found, wanted, rtol=0, atol=8 * torch.finfo(dtype).eps)
