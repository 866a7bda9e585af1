"""Contextual decomposition of recurrent layers: equal to the oracle, part by part, and to the layer as a whole."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.oracle import decomposition as oracle
from whence.recurrent.cells import CELLS
from whence.recurrent.decomposition import decomposed
from whence.recurrent.parts import Parts, apart, product, settled
from whence.recurrent.weights import by_layer

KINDS: dict[str, Callable[..., nn.RNNBase]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": partial(nn.RNN, nonlinearity="relu"),
}


def make(kind: str, **options: object) -> nn.RNNBase:
    torch.manual_seed(0)
    layer = KINDS[kind](4, 3, **options).double()
    for weight in layer.parameters():  # large enough for gates that are far from linear
        nn.init.normal_(weight, std=0.7)
    return layer


def initial(layer: nn.RNNBase, batch: int) -> list[Tensor]:
    """Initial states other than zero."""
    rows = layer.num_layers * (1 + layer.bidirectional)
    sizes = [layer.proj_size or layer.hidden_size] + [layer.hidden_size] * isinstance(layer, nn.LSTM)
    return [torch.randn(rows, batch, size, dtype=torch.float64) for size in sizes]


def parts_of(
    kind: str, layer: nn.RNNBase, x: Tensor, inside: Tensor, states: Sequence[Tensor], lengths: Tensor | None = None
) -> tuple[Parts, list[Parts]]:
    """Our parts for x (T, B, E), phrases (N, T, B, 1) and states (·, B, ·)."""
    cell, flat = CELLS[kind], list(layer.parameters())
    layers = by_layer(cell.weights, flat, has_biases=layer.bias, directions=1 + layer.bidirectional, layers=layer.num_layers)

    def rest(state: Tensor) -> Parts:
        return Parts(state, torch.zeros_like(state).expand(len(inside), *state.shape), torch.zeros_like(state))

    given = Parts(x, x * inside, torch.zeros_like(x))
    return decomposed(cell, given, layers, states=[rest(state) for state in states], inside=inside, lengths=lengths)


def every_phrase(steps: int) -> Tensor:
    """All phrases of a sentence (N, T, 1, 1), also those with a gap, and none."""
    sets = [each for size in range(steps + 1) for each in combinations(range(steps), size)]
    return torch.tensor([[t in each for t in range(steps)] for each in sets]).double()[..., None, None]


OPTIONS = [
    {},
    {"bidirectional": True},
    {"num_layers": 2},
    {"num_layers": 2, "bidirectional": True},
    {"bias": False},
]


@pytest.mark.parametrize(
    ("kind", "options"), [*((kind, each) for kind in KINDS for each in OPTIONS), ("lstm", {"proj_size": 2})], ids=str
)
def test_every_phrase_has_the_parts_of_the_oracle(kind: str, options: dict[str, object]) -> None:
    layer = make(kind, **options)
    x, states, phrases = torch.randn(4, 1, 4, dtype=torch.float64), initial(layer, 1), every_phrase(4)
    outputs, finals = parts_of(kind, layer, x, phrases, states)
    with torch.no_grad():
        expected, _ = layer(x, tuple(states) if kind == "lstm" else states[0])
    assert_close(outputs.whole, expected, rtol=0, atol=1e-12)
    assert not outputs.bias.any() and not any(final.bias.any() for final in finals)
    arrays = [state[:, 0].numpy() for state in states]
    for n, phrase in enumerate(phrases[:, :, 0, 0].bool().tolist()):
        read, ends = oracle.network(kind, x[:, 0].numpy(), phrase, oracle.weights_of(layer), arrays)
        triples = torch.tensor(read, dtype=torch.float64)  # (T, ·, 3)
        assert_close(outputs.phrase[n, :, 0], triples[..., 0], rtol=0, atol=1e-10)
        assert_close(outputs.rest[n, :, 0], triples[..., 1], rtol=0, atol=1e-10)
        for final, own in zip(finals, zip(*ends, strict=True), strict=True):
            assert_close(final.phrase[n, :, 0], torch.tensor(own, dtype=torch.float64)[..., 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_ragged_batch_is_decomposed_as_each_sentence_alone(kind: str, options: dict[str, object]) -> None:
    layer = make(kind, **options)
    lengths, x, states = [4, 2, 1], torch.randn(4, 3, 4, dtype=torch.float64), initial(layer, 3)
    inside = (torch.rand(5, 4, 3, 1) > 0.5).double()
    outputs, finals = parts_of(kind, layer, x, inside, states, torch.tensor(lengths))
    for b, length in enumerate(lengths):
        one = slice(b, b + 1)
        alone, ends = parts_of(kind, layer, x[:length, one], inside[:, :length, one], [state[:, one] for state in states])
        assert_close(outputs.phrase[:, :length, one], alone.phrase, rtol=0, atol=1e-12)
        assert not outputs.phrase[:, length:, b].any() and not outputs.whole[length:, b].any()
        for final, end in zip(finals, ends, strict=True):
            assert_close(final.phrase[:, :, one], end.phrase, rtol=0, atol=1e-12)
            assert_close(final.whole[:, one], end.whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_without_initial_states_the_whole_sentence_leaves_no_rest(kind: str) -> None:
    layer = make(kind, num_layers=2, bidirectional=True)
    x, states = torch.randn(3, 2, 4, dtype=torch.float64), initial(layer, 2)
    everything = torch.ones(1, 3, 2, 1, dtype=torch.float64)
    outputs, _ = parts_of(kind, layer, x, everything, [torch.zeros_like(state) for state in states])
    assert_close(outputs.rest, torch.zeros_like(outputs.rest), rtol=0, atol=1e-12)
    outputs, _ = parts_of(kind, layer, x, everything, states)
    assert outputs.rest.abs().max() > 1e-3


def test_the_rules_for_parts_are_those_of_the_oracle() -> None:
    torch.manual_seed(0)
    one, other = (Parts(whole, torch.randn(4, 5), torch.randn(5)) for whole in torch.randn(2, 5))
    found = apart(torch.sigmoid, one), product(one, other), settled(one, torch.tensor([[1.0], [0.0], [1.0], [0.0]]))
    for n in range(4):
        for j in range(5):
            first, second = ((float(each.phrase[n, j]), float(each.rest[n, j]), float(each.bias[j])) for each in (one, other))
            expected = (
                oracle.linearised(oracle.sigmoid, first),
                oracle.product(first, second),
                oracle.settled(first, n % 2 == 0),
            )
            for parts, triple in zip(found, expected, strict=True):
                ours = torch.stack([parts.phrase[n, j], parts.rest[n, j], parts.bias[j]])
                assert_close(ours, torch.tensor(triple), rtol=1e-5, atol=1e-6)  # single precision
