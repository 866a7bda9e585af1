"""A default device that is not the inputs' changes nothing: what an explanation makes follows its inputs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, explain, load, relevance

METHODS = [LRP(), LRP(epsilon=0.0), LRP(delta=1.0, product="half"), LRP(product="prop"), GradientXInput(), *PERTURBING]


class Reader(nn.Module):
    """Words or vectors, packed or not, through a recurrent layer and attention over its steps."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 5)
        self.layer = getattr(nn, cell)(5, 4, batch_first=True, bidirectional=True)
        self.score, self.out = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x: Tensor | PackedSequence) -> Tensor:
        if isinstance(x, Tensor) and not x.is_floating_point():
            x = self.words(x)
        h: Any = self.layer(x)[0]
        h = pad_packed_sequence(h, batch_first=True)[0] if isinstance(h, PackedSequence) else h
        return self.out((self.score(h).softmax(1) * h).sum(1))


def calls(cell: str, method: Any) -> list[Any]:
    torch.manual_seed(0)
    with torch.device("cpu"):
        model, x, ids = Reader(cell).double(), torch.randn(3, 4, 5).double(), torch.randint(11, (3, 4))
        packed = pack_padded_sequence(x, torch.tensor([4, 3, 1]), batch_first=True)
    found = [
        relevance(model, x, target=[0, 1, 2], method=method),
        relevance(model, x, target="all", method=method, by_step=True),
        relevance(model, x, target="predicted", method=method, lengths=[4, 4, 2]),
        relevance(model, ids, target=1, method=method),
        relevance(model, packed, target=1, method=method),
    ]
    if isinstance(method, LRP):
        found.append(relevance(model, x, target=1, method=method, memory=True, at="layer"))
    flat = [each.relevance for each in found]
    return [each.data if isinstance(each, PackedSequence) else each[0] if isinstance(each, tuple) else each for each in flat]


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_relevance_follows_its_inputs_device(cell: str, method: Any) -> None:
    expected = calls(cell, method)
    with torch.device("meta"):
        found = calls(cell, method)
    for one, other in zip(found, expected, strict=True):
        assert one.equal(other)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_explain_follows_the_models_device(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_compiled:
        monkeypatch.setattr("whence.recurrent.dispatch.kernels", lambda *_: type("None", (), {"library": None, "reason": ""}))
    texts = ["a fine film", "neither funny nor suspenseful"]
    expected = explain(load("sst-bilstm"), texts, target="all")
    torch.set_default_device("meta")
    try:
        found = explain(load("sst-bilstm"), texts, target="all")
    finally:
        torch.set_default_device(None)
    assert found == expected
