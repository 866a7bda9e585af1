"""Token ids in every form: packed, in bags, beside other tables; the model runs once, and is told nothing of it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.testing import assert_close

import whence
from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, SensitivityAnalysis, relevance

METHODS = [LRP(), LRP(delta=1.0, product="half"), SensitivityAnalysis(), GradientXInput(), *PERTURBING]
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
    """Counts its calls, in a list of the caller's."""

    def __init__(self, count: Callable[[], None]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.lstm, self.out = nn.Embedding(9, 4), nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)
        self.count = count

    def forward(self, ids: Tensor) -> Tensor:
        self.count()
        return self.out(self.lstm(self.words(ids))[0][:, -1])


@pytest.mark.parametrize("method", METHODS[:4], ids=str)
def test_the_model_runs_once(method: Any) -> None:
    calls: list[int] = []
    relevance(Counting(lambda: calls.append(1)), torch.tensor([[1, 2, 3]]), target=0, method=method)
    assert len(calls) == 1


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
        with pytest.raises(whence.InputError, match=r"inputs are whole numbers, but the model looks them up in no"):
            relevance(Numbers(), torch.tensor([[1, 2, 3]]), target=0, method=method)


class Reading(nn.Module):
    """An embedding, and what a function makes of it and of the ids."""

    def __init__(self, read: Callable[["Reading", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.lstm, self.out = nn.Embedding(12, 5), nn.LSTM(5, 5, batch_first=True), nn.Linear(5, 3)
        self.read = read

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.read(self, ids))


def under_no_grad(model: Reading, ids: Tensor) -> Tensor:
    with torch.no_grad():
        vectors = model.words(ids)
    return model.lstm(vectors)[0].mean(1)


def under_inference_mode(model: Reading, ids: Tensor) -> Tensor:
    with torch.inference_mode():
        vectors = model.words(ids)
    return model.lstm(vectors.clone())[0].mean(1)


def shifted(model: Reading, ids: Tensor) -> Tensor:
    start = torch.ones(len(ids), 1, dtype=torch.long)
    return model.lstm(model.words(torch.cat([start, ids[:, :-1]], 1)))[0].mean(1)


def written_between(model: Reading, ids: Tensor) -> Tensor:
    vectors = model.words(ids)
    vectors[:, 0] = 0
    return (vectors + model.words(ids)).mean(1)


def scaled_between(model: Reading, ids: Tensor) -> Tensor:
    vectors = model.words(ids)
    vectors *= 2
    return (vectors + model.words(ids)).mean(1)


def into_a_buffer(model: Reading, ids: Tensor) -> Tensor:
    buffer = torch.empty_like(ids)
    torch.cat([ids[:, 2:], ids[:, :2]], 1, out=buffer)
    return (model.words(ids) * (buffer > 5).unsqueeze(-1)).mean(1)


def padded_bag(model: Reading, ids: Tensor) -> Tensor:
    return nn.functional.embedding_bag(ids, model.words.weight, padding_idx=-1)


def flat_bag(model: Reading, ids: Tensor) -> Tensor:
    return nn.functional.embedding_bag(ids.flatten(), model.words.weight, torch.arange(0, ids.numel(), ids.shape[1]))


def narrowed(model: Reading, ids: Tensor) -> Tensor:
    return model.lstm(model.words(ids.to(torch.int8).long()))[0].mean(1)


READINGS = [under_no_grad, under_inference_mode, shifted, written_between, scaled_between, into_a_buffer, padded_bag, flat_bag]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
@pytest.mark.parametrize("read", [*READINGS, narrowed])
def test_the_score_is_the_models_and_its_words_are_the_ones_it_read(read: Any, method: Any, batch: int) -> None:
    model = Reading(read).double()
    ids = torch.randint(12, (batch, 200 if read is narrowed else 4), generator=torch.Generator().manual_seed(batch))
    found = relevance(model, ids, target=1, method=method)
    with torch.no_grad():
        assert_close(found.score, model(ids)[:, 1])
    if isinstance(method, LRP):
        found.check(1e-10)
    assert (found.relevance != 0).any()
    if read is shifted:
        assert not found.relevance[:, -1].any()  # it is never read
    if read is narrowed:
        assert (found.relevance[:, 128:] != 0).any()


def test_ids_that_a_model_never_looks_up_may_be_anything() -> None:
    model = Reading(lambda model, ids: model.lstm(model.words(ids[:, :2]))[0].mean(1)).double()
    found = relevance(model, torch.tensor([[1, 2, -100], [3, 4, 99]]), target=1).check(1e-10)
    assert not found.relevance[:, 2].any()
    assert_close(found.relevance[0, :2], relevance(model, torch.tensor([[1, 2, 0]]), target=1).relevance[0, :2])


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_hidden_states_picked_by_ids_are_no_look_up(method: Any) -> None:
    """The state at the largest id, as some text encoders read it."""

    def pooled(model: Reading, ids: Tensor) -> Tensor:
        states = model.lstm(model.words(ids))[0]
        return states.reshape(-1, 5)[torch.arange(len(ids)) * ids.shape[1] + ids.argmax(1)] + states.mean(1)

    def picked(model: Reading, ids: Tensor) -> Tensor:
        states = model.lstm(model.words(ids))[0]
        return states[torch.arange(len(ids)), ids.argmax(1)] + states.mean(1)

    ids = torch.tensor([[1, 7, 3], [9, 2, 4]])
    found = relevance(Reading(pooled).double(), ids, target=1, method=method, embedding="words")
    expected = relevance(Reading(picked).double(), ids, target=1, method=method, embedding="words")
    assert_close(found.relevance, expected.relevance)


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_a_bag_beside_the_explained_table_keeps_its_weights_explained(method: Any) -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.bag, self.out = nn.Embedding(12, 5), nn.EmbeddingBag(12, 5, mode="sum"), nn.Linear(5, 3)

        def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
            return self.out(self.bag(ids, per_sample_weights=weights) + self.words(ids).mean(1))

    model, weights = Weighted().double(), torch.rand(2, 4).double()
    ids = torch.randint(12, (2, 4), generator=torch.Generator().manual_seed(0))
    found = relevance(model, (ids, weights), target=1, method=method, embedding="words")
    assert (found.relevance[1] != 0).all()


def test_an_unknown_embedding_is_refused_for_numbers_too() -> None:
    with pytest.raises(whence.InputError, match=r"there is no nn.Embedding 'nope'"):
        relevance(nn.Linear(3, 2), torch.randn(2, 3), target=0, embedding="nope")


def test_a_rule_of_the_users_for_a_move_does_not_lose_the_ids() -> None:
    from whence.engine.table import TABLE

    known = TABLE["getitem"]
    whence.handles(Tensor.__getitem__)(lambda call, relevance: torch.zeros_like(call.args[0]))
    try:
        model = Reading(lambda model, ids: model.words(ids[:, 1:]).tanh().sum(1)).double()
        assert relevance(model, torch.tensor([[1, 2, 3]]), target=1, method=GradientXInput()).relevance[:, 1:].all()
    finally:
        TABLE["getitem"] = known


@pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)
def test_packed_rows_of_any_shape(shape: tuple[int, ...]) -> None:
    class Summing(nn.Module):
        def forward(self, rows: PackedSequence) -> Tensor:
            data = rows.data.flatten(1) if rows.data.dim() > 1 else rows.data[:, None]
            padded, _ = pad_packed_sequence(rows._replace(data=data.tanh()), batch_first=True)
            return padded.sum(1)

    packed = pack_sequence([torch.randn(n, *shape).double() for n in (3, 2)])
    assert relevance(Summing(), packed, target=0).check(1e-10).relevance.data.shape == (5, *shape)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_one_hot_ids_are_explained_by_class(method: Any) -> None:
    class Hot(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.out = nn.LSTM(9, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, ids: Tensor) -> Tensor:
            vectors = nn.functional.one_hot(ids, 9).double() if ids.dtype == torch.long else ids
            return self.out(self.lstm(vectors)[0][:, -1])

    model, ids = Hot().double(), torch.tensor([[1, 2, 8], [0, 5, 5]])
    expected = relevance(model, nn.functional.one_hot(ids, 9).double(), target=0, method=method)
    assert_close(relevance(model, ids, target=0, method=method).relevance, expected.relevance, check_dtype=False)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("wrong", [9, -1])
def test_ids_that_are_not_in_the_table_are_refused_as_by_the_model(method: Any, wrong: int) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.words(ids).mean(1))

    with pytest.raises(whence.InputError, match="index out of range"):
        relevance(Reader(), torch.tensor([[0, wrong]]), target=0, method=method)
