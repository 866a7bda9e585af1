"""nn.GRU and nn.RNN, with all their options, have the relevance of the same cell written by hand."""

from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.testing import assert_close

from tests.strategies import LRPS, SEEDS
from whence import LRP, GradientXInput, relevance


class Final(nn.Module):
    """The last layer's final states under a linear head."""

    def __init__(self, layer: nn.GRU | nn.RNN, classes: int = 3) -> None:
        super().__init__()
        self.layer = layer
        self.fc = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), classes)

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        h = self.layer(x, state)[1]
        return self.fc(torch.cat([h[-2], h[-1]], -1) if self.layer.bidirectional else h[-1])


class ByHand(nn.Module):
    """One direction, one layer, from the formulas; the initial state is a constant."""

    def __init__(self, model: Final) -> None:
        super().__init__()
        self.layer, self.fc = model.layer, model.fc

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        layer = self.layer
        w_ih, w_hh, b_ih, b_hh = cast(
            list[Tensor], [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]
        )
        h = torch.zeros(len(x), layer.hidden_size, dtype=x.dtype) if state is None else state[0]
        for t in range(x.shape[1]):
            from_x, from_h = x[:, t] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
            if isinstance(layer, nn.RNN):
                h = torch.relu(from_x + from_h) if layer.nonlinearity == "relu" else torch.tanh(from_x + from_h)
                continue
            (r_x, z_x, n_x), (r_h, z_h, n_h) = from_x.chunk(3, 1), from_h.chunk(3, 1)
            r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
            h = (1 - z) * torch.tanh(n_x + r * n_h) + z * h
        return self.fc(h)


LAYERS = {
    "gru": lambda **options: nn.GRU(4, 3, **options),
    "rnn": lambda **options: nn.RNN(4, 3, **options),
    "relu": lambda **options: nn.RNN(4, 3, nonlinearity="relu", **options),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize(
    "method", [LRP(), LRP(delta=1.0), LRP(epsilon=0.1, delta=0.5, stabiliser="absorbed"), LRP(stabiliser="absorbed")], ids=str
)
def test_the_layer_is_the_cell_by_hand(kind: str, with_state: bool, method: LRP) -> None:
    torch.manual_seed(0)
    model = Final(LAYERS[kind](batch_first=True)).double()
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    args = (torch.randn(1, 3, 3, dtype=torch.float64),) if with_state else ()
    found = relevance(model, x, target=1, method=method, args=args).check(1e-12)
    by_hand = relevance(ByHand(model), x, target=1, method=method, args=args).check(1e-12)
    assert_close(found.relevance, by_hand.relevance, rtol=1e-10, atol=1e-13)
    assert_close(found.score, model(x, *args)[:, 1].detach())


@pytest.mark.parametrize("kind", LAYERS)
def test_a_cell_in_a_loop_is_the_layer(kind: str) -> None:
    class Loop(nn.Module):
        def __init__(self, model: Final) -> None:
            super().__init__()
            options = {"nonlinearity": model.layer.nonlinearity} if isinstance(model.layer, nn.RNN) else {}
            self.cell, self.fc = (nn.GRUCell if kind == "gru" else nn.RNNCell)(4, 3, **options).double(), model.fc
            self.cell.load_state_dict({k.removesuffix("_l0"): v for k, v in model.layer.state_dict().items()})

        def forward(self, x: Tensor) -> Tensor:
            h = None
            for x_t in x.unbind(1):
                h = self.cell(x_t, h)
            return self.fc(h)

    torch.manual_seed(0)
    model = Final(LAYERS[kind](batch_first=True)).double()
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    assert_close(relevance(Loop(model), x, target=1).relevance, relevance(model, x, target=1).relevance, rtol=1e-10, atol=1e-13)


@settings(max_examples=100)
@given(
    seed=SEEDS,
    kind=st.sampled_from(sorted(LAYERS)),
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    batch_first=st.booleans(),
    bias=st.booleans(),
    batch=st.integers(1, 4),
    steps=st.integers(1, 6),
    method=LRPS,
)
def test_relevance_and_absorbed_are_the_score(
    seed: int, kind: str, layers: int, bidirectional: bool, batch_first: bool, bias: bool, batch: int, steps: int, method: LRP
) -> None:
    torch.manual_seed(seed)
    layer = LAYERS[kind](num_layers=layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
    model = Final(layer).double()
    x = torch.randn((batch, steps, 4) if batch_first else (steps, batch, 4), dtype=torch.float64)
    result = relevance(model, x, target=2, method=method)
    scale = 1 + result.relevance.abs().sum().item()  # cancelling amounts round at their own size
    result.check(1e-9 * scale)
    assert_close(result.score, model(x)[:, 2].detach())


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), GradientXInput()], ids=str)
def test_alone_padded_and_packed_are_the_same(kind: str, method: LRP) -> None:
    torch.manual_seed(1)
    model = Final(LAYERS[kind](batch_first=True, bidirectional=True, num_layers=2)).double()
    sentences = [torch.randn(size, 4, dtype=torch.float64) for size in (3, 7, 1, 5)]
    padded = relevance(model, pad_sequence(sentences, batch_first=True), target=0, method=method, lengths=[3, 7, 1, 5])
    packed = relevance(model, pack_sequence(sentences, enforce_sorted=False), target=0, method=method)
    unpacked, _ = torch.nn.utils.rnn.pad_packed_sequence(packed.relevance, batch_first=True)
    assert_close(unpacked, padded.relevance, rtol=0, atol=1e-12)
    for n, x in enumerate(sentences):
        single = relevance(model, x[None], target=0, method=method)
        assert_close(padded.relevance[n, : len(x)], single.relevance[0], rtol=0, atol=1e-12)
