"""One number for every step: the same as summing over the features, whatever the model, the method and the inputs."""

import gc
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.testing import assert_close

from tests.models import BiLSTM
from whence import LRP, GradientXInput, InputError, TargetError, relevance
from whence.recurrent import dispatch
from whence.recurrent.native import buffers


class TwoReaders(nn.Module):
    """The input goes into a recurrent layer and, past it, into the head: its relevance comes from both."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(4, 3, batch_first=True, bidirectional=True), nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.layer(x)[0][:, -1], x[:, -1]], dim=-1))


class Normed(nn.Module):
    """The recurrent layer reads something else than the input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer, self.head = nn.LayerNorm(4), nn.LSTM(4, 3, num_layers=2), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.norm(x.transpose(0, 1)))[0][-1])


@pytest.mark.parametrize(
    "model", [BiLSTM(4, 3, 5), TwoReaders(), Normed(), nn.Sequential(nn.Flatten(), nn.Linear(24, 2))], ids=str
)
@pytest.mark.parametrize(
    "method", [LRP(), LRP(delta=1.0), LRP(stabiliser="absorbed"), LRP(product="half"), GradientXInput()], ids=str
)
@pytest.mark.parametrize("target", [1, "all"])
def test_it_is_the_sum_over_the_features(model: nn.Module, method: LRP, target: Any) -> None:
    model, x = model.double(), torch.randn(3, 6, 4, dtype=torch.float64)
    whole = relevance(model, x, target=target, method=method)
    found = relevance(model, x, target=target, method=method, by_step=True)
    assert_close(found.relevance, whole.relevance.sum(-1), rtol=1e-10, atol=1e-12)
    assert_close(found.score, whole.score)
    if isinstance(method, LRP):
        found.check(1e-9)
        assert_close(found.explained, whole.explained)


@pytest.mark.parametrize("target", [0, "all"])
def test_packed_padded_and_embedded_inputs(target: Any) -> None:
    sentences = [torch.randn(length, 4, dtype=torch.float64) for length in (2, 6, 3)]
    model = BiLSTM(4, 3, 5).double()
    packed = pack_sequence(sentences, enforce_sorted=False)
    cases: list[Any] = [(packed, {}), (pad_sequence(sentences, batch_first=True), {"lengths": [2, 6, 3]})]
    for inputs, more in cases:
        whole = relevance(model, inputs, target=target, **more).relevance
        found = relevance(model, inputs, target=target, by_step=True, **more).relevance
        pairs: Any = zip(found, whole, strict=True) if isinstance(whole, tuple) and target == "all" else [(found, whole)]
        for one, other in pairs:
            assert_close(
                one if isinstance(one, Tensor) else one.data, (other if isinstance(other, Tensor) else other.data).sum(-1)
            )


def test_the_layer_really_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    inner = dispatch.Chosen.relevance

    def seen(self: dispatch.Chosen, *args: object, by_step: bool = False, **more: object) -> object:
        asked.append(by_step)
        return inner(self, *args, by_step=by_step, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(dispatch.Chosen, "relevance", seen)
    x = torch.randn(3, 6, 4)
    relevance(BiLSTM(4, 3, 5), x, target=0, by_step=True)
    relevance(BiLSTM(4, 3, 5), x, target=0)
    relevance(TwoReaders(), x, target=0, by_step=True)  # what else reads the inputs does not matter
    relevance(Normed(), x, target=0, by_step=True)  # two layers, and neither reads the inputs themselves
    assert asked == [True, False, True, False, False]


def test_a_layer_in_the_middle_has_no_steps_to_sum_by() -> None:
    with pytest.raises(InputError, match="leave it out with at="):
        relevance(BiLSTM(4, 3, 5), torch.randn(1, 2, 4), target=0, at="lstm", by_step=True)


def alive() -> Counter[str]:
    """How many objects there are, by type: tensors, and all of torch's and our own types."""
    names = [f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects()]
    return Counter(name for name in names if name.startswith(("torch", "whence")))


@pytest.mark.parametrize("by_step", [False, True])
@pytest.mark.parametrize("target", [0, "all"])
@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), LRP(head="gamma"), GradientXInput()], ids=str)
@pytest.mark.parametrize("model", [BiLSTM(4, 3, 5), TwoReaders(), Normed()], ids=str)
def test_nothing_is_left_for_the_garbage_collector(model: nn.Module, method: LRP, target: Any, by_step: bool) -> None:
    x = torch.randn(2, 3, 4)
    for _ in range(2):  # what is made once and lasts is there now
        relevance(model, x, target=target, method=method, by_step=by_step)
    gc.collect()
    gc.disable()
    try:
        before = alive()
        for _ in range(3):
            relevance(model, x, target=target, method=method, by_step=by_step)
        assert alive() - before == Counter()
    finally:
        gc.enable()


def test_nothing_is_left_after_an_error() -> None:
    model, x = BiLSTM(4, 3, 5), torch.randn(2, 3, 4)

    def refused() -> None:
        with pytest.raises(TargetError):
            relevance(model, x, target=7)

    refused()
    gc.collect()
    before = alive()
    refused()
    gc.collect()  # pytest and the traceback hold each other
    assert alive() - before == Counter()


def test_borrowed_memory_is_not_lent_twice_and_does_not_pile_up() -> None:
    first = buffers.borrow((3, 4), torch.float32)
    second = buffers.borrow((3, 4), torch.float32)
    assert first.data_ptr() != second.data_ptr()
    buffers.give_back(first)
    assert buffers.borrow((2,), torch.float32).data_ptr() == first.data_ptr()
    for _ in range(3):
        buffers.give_back(torch.empty(buffers.KEPT // 8))
    assert sum(each.nbytes for each in buffers._free[torch.float32]) <= buffers.KEPT
