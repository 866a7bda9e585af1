"""Token ids in every form: packed, in bags, beside other tables; the model runs once, and is told nothing of it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.testing import assert_close

import whence
from whence import LRP, GradientXInput, SensitivityAnalysis, relevance

METHODS = [LRP(), LRP(delta=1.0, product="half"), SensitivityAnalysis(), GradientXInput()]
LENGTHS = [3, 5, 1]


class Packed(nn.Module):
    """Reads packed ids, as character models do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.gru, self.out = nn.Embedding(9, 4), nn.GRU(4, 3), nn.Linear(3, 2)

    def forward(self, ids: PackedSequence) -> Tensor:
        vectors = self.words(ids.data)
        return self.out(self.gru(ids._replace(data=vectors))[1][0])


def sentences() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randint(9, (length,)) for length in LENGTHS]


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_packed_ids_are_explained_as_their_vectors_are(method: Any, enforce_sorted: bool) -> None:
    model = Packed().double()
    texts = sorted(sentences(), key=len, reverse=True) if enforce_sorted else sentences()
    packed = pack_sequence(texts, enforce_sorted=enforce_sorted)
    found = relevance(model, packed, target=1, method=method)
    assert isinstance(found.relevance, PackedSequence)
    assert found.relevance.data.shape == (9, 4)
    assert_close(found.score, model(packed)[:, 1].detach())
    padded, _ = pad_packed_sequence(found.relevance, batch_first=True)
    for n, text in enumerate(texts):
        alone = relevance(model, pack_sequence([text]), target=1, method=method)
        assert_close(padded[n, : len(text)], alone.relevance.data)


def test_packed_ids_by_step_and_for_all_classes() -> None:
    model, packed = Packed().double(), pack_sequence(sentences(), enforce_sorted=False)
    for_all = relevance(model, packed, target="all", by_step=True).check(1e-10)
    assert isinstance(for_all.relevance, tuple) and len(for_all.relevance) == 2
    whole = relevance(model, packed, target=1)
    assert_close(for_all.relevance[1].data, whole.relevance.data.sum(-1))


def test_ids_that_the_model_packs_itself() -> None:
    class Packing(Packed):
        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().forward(pack_padded_sequence(ids, lengths, batch_first=True, enforce_sorted=False))

    model, texts = Packing().double(), sentences()
    padded = nn.utils.rnn.pad_sequence(texts, batch_first=True)
    found = relevance(model, padded, target=1, kwargs={"lengths": torch.tensor(LENGTHS)}).check(1e-10)
    expected = relevance(Packed().double(), pack_sequence(texts, enforce_sorted=False), target=1)
    assert_close(found.relevance[0, :3], pad_packed_sequence(expected.relevance, batch_first=True)[0][0, :3])
    assert not found.relevance[2, 1:].any()  # the padding


class Counting(nn.Module):
    """Counts its calls, and keeps a state between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.lstm, self.out = nn.Embedding(9, 4), nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)
        self.calls = 0

    def forward(self, ids: Tensor) -> Tensor:
        self.calls += 1
        return self.out(self.lstm(self.words(ids))[0][:, -1])


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_model_runs_once(method: Any) -> None:
    model = Counting()
    relevance(model, torch.tensor([[1, 2, 3]]), target=0, method=method)
    assert model.calls == 1


def test_a_position_that_follows_from_the_ids_is_looked_up_in_its_own_table() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.positions, self.out = nn.Embedding(9, 4), nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, ids: Tensor) -> Tensor:
            return self.out((self.words(ids) + self.positions((ids != 0).cumsum(1))).tanh().sum(1))

    ids = torch.tensor([[1, 2, 0], [4, 5, 6]])
    model = Positions().double()
    found = relevance(model, ids, target=0, embedding="words").check(1e-10)
    assert_close(found.score, model(ids)[:, 0].detach())


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_ids_in_one_line_are_no_bags_unless_they_are_looked_up_as_such(method: Any) -> None:
    """One id per sample, beside rising whole numbers of another meaning."""

    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.out = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, ids: Tensor, years: Tensor) -> Tensor:
            return self.out(self.words(ids).tanh() * years[:, None])

    model, ids, years = Single().double(), torch.tensor([3, 1, 2]), torch.tensor([0, 1, 2])
    found = relevance(model, ids, target=0, method=method, args=(years,))
    assert_close(found.score, model(ids, years)[:, 0].detach())
    last = relevance(model, ids[2:], target=0, method=method, args=(years[2:],))
    assert_close(found.relevance[2:], last.relevance)


@pytest.mark.parametrize("read", [lambda ids: ids.float(), lambda ids: ids / 9], ids=["float", "divided"])
def test_ids_that_are_used_as_numbers_are_refused(read: Callable[[Tensor], Tensor]) -> None:
    class Numbers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.lstm(read(ids).unsqueeze(-1))[0][:, -1])

    for method in (LRP(), GradientXInput()):
        with pytest.raises(whence.InputError, match=r"inputs\[0\] are whole numbers, but the model looks them up in no"):
            relevance(Numbers(), torch.tensor([[1, 2, 3]]), target=0, method=method)
