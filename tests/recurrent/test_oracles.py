"""nn.LSTM, nn.GRU and nn.RNN by every rule for products are the oracles, from initial states that are not zero."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from tests.models import cells
from tests.oracle import gru, lstm, rnn
from whence import LRP
from whence.equations import Product, Stabiliser

PRODUCTS: list[Product] = ["all", "half", "prop", "abs"]
SETTINGS = [(0.0, "shared"), (1.0, "shared"), (0.0, "absorbed"), (0.4, "absorbed")]


class Last(nn.Module):
    """The last state, weighted by a vector: its relevance for a score is known."""

    def __init__(self, layer: nn.Module, hidden: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(hidden, 1, bias=False)

    def forward(self, x: Tensor, *states: Tensor) -> Tensor:
        given = states[0] if len(states) == 1 else states
        return self.head(self.layer(x, given)[0][:, -1])


def head_relevance(head: nn.Linear, h: np.ndarray, method: LRP) -> np.ndarray:
    w = head.weight.detach().numpy()
    z = w @ h
    shared = method.stabiliser == "shared"
    return lstm.weighted(h, w, np.zeros(1), z, z, n=len(h), epsilon=method.epsilon, delta=method.delta, shared=shared)


def numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def close(found: Tensor, expected: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(expected).max()))  # by the proportional rule relevance can grow very large
    assert_close(found, torch.from_numpy(expected), rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("delta", "stabiliser"), SETTINGS)
@pytest.mark.parametrize(("size", "steps"), [(1, 1), (3, 5), (7, 3)])
def test_lstm(product: Product, delta: float, stabiliser: Stabiliser, size: int, steps: int) -> None:
    torch.manual_seed(size + steps)
    model = Last(nn.LSTM(size + 1, size, batch_first=True), size).double()
    x = torch.randn(2, steps, size + 1, dtype=torch.float64)
    h0, c0 = torch.randn(2, 1, 2, size, dtype=torch.float64)
    method = LRP(product=product, delta=delta, stabiliser=stabiliser)
    result = whence.relevance(model, x, method=method, args=(h0, c0))
    p = {name.removesuffix("_l0"): numbers(each) for name, each in model.layer.named_parameters()}
    weights = lstm.Weights.stacked(p["weight_ih"], p["weight_hh"], p["bias_ih"] + p["bias_hh"], "ifgo")
    for b in range(2):
        states = lstm.forward(numbers(x[b]), weights, numbers(h0[0, b]), numbers(c0[0, b]))
        settings = {"epsilon": 1e-3, "delta": delta, "shared": stabiliser == "shared", "product": product}
        r_x, r_h, r_c = lstm.lrp(states, weights, head_relevance(model.head, states.h[-1], method), **settings)
        close(result.relevance[b], r_x)
        close(result.absorbed["layer.initial_state"][b], np.array(r_h.sum() + r_c.sum()))


def gru_weights(layer: nn.Module) -> gru.Weights:
    p = {name.removesuffix("_l0"): numbers(each) for name, each in layer.named_parameters()}
    keys = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    U, W, bx, bh = (dict(zip("rzn", np.split(p[key], 3), strict=True)) for key in keys)
    return gru.Weights(U, W, bx, bh)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("delta", "stabiliser"), SETTINGS)
@pytest.mark.parametrize(("size", "steps"), [(1, 1), (3, 5), (7, 3)])
def test_gru(product: Product, delta: float, stabiliser: Stabiliser, size: int, steps: int) -> None:
    torch.manual_seed(size + steps)
    model = Last(nn.GRU(size + 1, size, batch_first=True), size).double()
    x, h0 = torch.randn(2, steps, size + 1, dtype=torch.float64), torch.randn(1, 2, size, dtype=torch.float64)
    method = LRP(product=product, delta=delta, stabiliser=stabiliser)
    result = whence.relevance(model, x, method=method, args=(h0,))
    weights = gru_weights(model.layer)
    for b in range(2):
        h = numbers(h0[0, b])
        for x_t in numbers(x[b]):
            h = gru.step(x_t, h, weights)["h"]
        settings = {"epsilon": 1e-3, "delta": delta, "shared": stabiliser == "shared", "product": product}
        r_x, r_h = gru.lrp(numbers(x[b]), weights, numbers(h0[0, b]), head_relevance(model.head, h, method), **settings)
        close(result.relevance[b], r_x)
        close(result.absorbed["layer.initial_state"][b], np.array(r_h.sum()))


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("delta", "stabiliser"), SETTINGS)
@pytest.mark.parametrize("reset_after", [True, False])
def test_gru_by_hand_in_both_conventions(product: Product, delta: float, stabiliser: Stabiliser, reset_after: bool) -> None:
    torch.manual_seed(3)
    model = cells.GRU(4, 3, 1, reset_after=reset_after).double()
    model.head = nn.Linear(3, 1, bias=False).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    method = LRP(product=product, delta=delta, stabiliser=stabiliser)
    result = whence.relevance(model, x, method=method).check(1e-8)
    u, w = np.split(numbers(model.gates.weight), [4], axis=1)
    none = np.zeros(3)
    weights = gru.Weights(
        U={"r": u[:3], "z": u[3:], "n": numbers(model.x.weight)},
        W={"r": w[:3], "z": w[3:], "n": numbers(model.h.weight)},
        bx={"r": numbers(model.gates.bias)[:3], "z": numbers(model.gates.bias)[3:], "n": numbers(model.x.bias)},
        bh={"r": none, "z": none, "n": numbers(model.h.bias)},
        reset_after=reset_after,
    )
    h = numbers(model.h0)
    for x_t in numbers(x[0]):
        h = gru.step(x_t, h, weights)["h"]
    settings = {"epsilon": 1e-3, "delta": delta, "shared": stabiliser == "shared", "product": product}
    r_x, _ = gru.lrp(numbers(x[0]), weights, numbers(model.h0), head_relevance(model.head, h, method), **settings)
    close(result.relevance[0], r_x)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize(("delta", "stabiliser"), SETTINGS)
@pytest.mark.parametrize(("size", "steps"), [(1, 1), (3, 5)])
def test_rnn(product: Product, nonlinearity: str, delta: float, stabiliser: Stabiliser, size: int, steps: int) -> None:
    torch.manual_seed(size + steps)
    model = Last(nn.RNN(size + 1, size, nonlinearity=nonlinearity, batch_first=True), size).double()
    x, h0 = torch.randn(2, steps, size + 1, dtype=torch.float64), torch.randn(1, 2, size, dtype=torch.float64)
    method = LRP(product=product, delta=delta, stabiliser=stabiliser)
    result = whence.relevance(model, x, method=method, args=(h0,))
    u, w, b1, b2 = (numbers(each) for each in model.layer.parameters())
    last = numbers(model.layer(x, h0)[0][:, -1])
    for b in range(2):
        settings = {"epsilon": 1e-3, "delta": delta, "shared": stabiliser == "shared", "relu": nonlinearity == "relu"}
        r_last = head_relevance(model.head, last[b], method)
        r_x, r_h = rnn.lrp(numbers(x[b]), u, w, b1 + b2, numbers(h0[0, b]), r_last, **settings)
        close(result.relevance[b], r_x)
        found = result.absorbed.get("layer.initial_state", torch.zeros(2, dtype=torch.float64))
        close(found[b], np.array(r_h.sum()))
