"""Values at rest in layers and spellings of PyTorch's, against the derivation by replaced slopes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn, sigmoid
from torch.nn import functional as F
from torch.testing import assert_close

import whence
from tests.oracle import detached
from whence import LRP


class Net(nn.Module):
    """Layers, what a case makes of them, and a dense layer."""

    def __init__(self, function: Callable[["Net", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.w, self.g, self.norm = nn.Linear(3, 3), nn.Parameter(torch.randn(3, 3)), torch.randn(3), nn.LayerNorm(3)
        self.conv, self.bilinear = nn.Conv1d(3, 3, 3, padding=1), nn.Bilinear(3, 3, 3)
        self.attention, self.prelu = nn.MultiheadAttention(3, 1, batch_first=True), nn.PReLU(3)
        self.encoder = nn.TransformerEncoderLayer(3, 1, 4, 0.0, batch_first=True)
        self.function, self.g = function, self.g.double()
        self.double().eval()
        self.out = nn.Linear(self.function(self, X).flatten(1).shape[1], 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.function(self, x).flatten(1))


def filled(m: Net, x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for t in range(3):
        out[:, t] = sigmoid(m.a(x[:, t]))
    return out.sum(1).tanh()


X = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
LATER = torch.tensor([False, True, False])
CASES: dict[str, Callable[[Net, Tensor], Tensor]] = {
    "attention": lambda m, x: m.attention(sigmoid(x), sigmoid(x), sigmoid(x))[0].tanh(),
    "encoder": lambda m, x: m.encoder(sigmoid(x)),
    "scores of two": lambda m, x: F.scaled_dot_product_attention(sigmoid(x), sigmoid(x), sigmoid(x)).tanh(),
    "norm": lambda m, x: m.norm(sigmoid(x)).tanh(),
    "bilinear": lambda m, x: m.bilinear(sigmoid(x), sigmoid(m.a(x))),
    "convolution": lambda m, x: m.conv(sigmoid(x)).tanh(),
    "addmm": lambda m, x: torch.addmm(sigmoid(x[:, 0]), sigmoid(x[:, 1]), m.w),
    "glu": lambda m, x: F.glu(torch.cat([sigmoid(x), x], -1)).tanh(),
    "prelu": lambda m, x: m.prelu(sigmoid(x).transpose(1, 2) - 0.4),
    "cumprod": lambda m, x: sigmoid(x).cumprod(1),
    "prod": lambda m, x: sigmoid(x).prod(1).tanh(),
    "lerp": lambda m, x: torch.lerp(x, sigmoid(m.a(x)), sigmoid(x)).tanh(),
    "quotient": lambda m, x: sigmoid(x) / (1 + sigmoid(m.a(x))),
    "softsign by hand": lambda m, x: (x / (1 + m.a(x).abs())).tanh(),
    "former state": lambda m, x: sigmoid(x) * m.g + sigmoid(m.a(x)) * x,
    "scaled": lambda m, x: (sigmoid(x) * m.g).tanh(),
    "where": lambda m, x: torch.where(x > 0, sigmoid(x), x.exp()).tanh(),
    "masked_fill": lambda m, x: sigmoid(x).masked_fill(x > 0.5, 0.0).sum(1).tanh(),
    "max": lambda m, x: (sigmoid(x).amax(1) - 0.3).tanh(),
    "average": lambda m, x: (F.avg_pool1d(sigmoid(x), 3) - 0.3).tanh(),
    "masked softmax": lambda m, x: m.a(x).masked_fill(LATER, -float("inf")).softmax(-1).tanh(),
    "softmax of softmax": lambda m, x: m.a(x).softmax(-1).softmax(-1).tanh(),
    "log_softmax": lambda m, x: m.a(x).log_softmax(1).tanh(),
    "logsumexp": lambda m, x: sigmoid(m.a(x)).logsumexp(-1).tanh(),
    "three exponentials": lambda m, x: (-(-x).exp()).exp().tanh(),
    "powers": lambda m, x: ((sigmoid(x) + 1).pow(-2) + (1 + x.square()).rsqrt()).tanh(),
    "two layers": lambda m, x: sigmoid(m.a(sigmoid(m.a(x)))),
    "around a layer": lambda m, x: (m.a(sigmoid(x)) + sigmoid(x)).tanh(),
    "in place": filled,
}


@pytest.mark.parametrize("product", ["all", "half"])
@pytest.mark.parametrize("name", CASES)
def test_values_at_rest_are_those_of_replaced_slopes(name: str, product: whence.equations.Product) -> None:
    model = Net(CASES[name])
    found = whence.relevance(model, X, target=1, method=LRP(epsilon=1e-13, product=product)).relevance
    (expected,), _ = detached.relevance(model, X, 1, product=product)
    # ε moves a share by 1e-13 over a sum, and the engine's secants are those of three nodes where values are close
    assert_close(found, expected, rtol=1e-6, atol=1e-8)
