"""A sample is explained the same alone, padded, packed, or anywhere in a batch; padding gets exactly nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_sequence
from torch.testing import assert_close

from tests.models import BiLSTM, Packing, Tagger
from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, InputError, SensitivityAnalysis, relevance

LENGTHS = [3, 7, 1, 7, 5, 2]
METHODS = [LRP(), LRP(delta=1.0), LRP(delta=0.5, stabiliser="absorbed"), SensitivityAnalysis(), GradientXInput(), *PERTURBING]


@pytest.fixture
def sentences() -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(length, 4, dtype=torch.float64) for length in LENGTHS]


@pytest.fixture
def model() -> BiLSTM:
    torch.manual_seed(4)
    return BiLSTM(4, 3, 5).double()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_alone_padded_packed_and_shuffled_are_the_same(sentences: list[Tensor], model: BiLSTM, method: LRP) -> None:
    targets = [0, 1, 2, 3, 4, 0]
    alone = [relevance(model, x[None], target=t, method=method) for x, t in zip(sentences, targets, strict=True)]
    padded = pad_sequence(sentences, batch_first=True)
    padded_result = relevance(model, padded, target=targets, method=method, lengths=LENGTHS)
    packed = relevance(model, pack_sequence(sentences, enforce_sorted=False), target=targets, method=method)
    order = [4, 2, 0, 5, 1, 3]
    shuffled = relevance(
        model, padded[order], target=[targets[n] for n in order], method=method, lengths=torch.tensor(LENGTHS)[order]
    )
    from_packed, _ = torch.nn.utils.rnn.pad_packed_sequence(packed.relevance, batch_first=True)
    for n, single in enumerate(alone):
        size = LENGTHS[n]
        place = order.index(n)
        for found in (padded_result.relevance[n], from_packed[n], shuffled.relevance[place]):
            assert_close(found[:size], single.relevance[0], rtol=0, atol=1e-12)
            assert (found[size:] == 0).all()
        for found in (padded_result.score[n], packed.score[n], shuffled.score[place]):
            assert_close(found, single.score[0], rtol=0, atol=1e-12)
        for name, amount in single.absorbed.items():
            for result, row in ((padded_result, n), (packed, n), (shuffled, place)):
                assert_close(result.absorbed[name][row], amount[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("head", ["final", "mean", "max"])
@pytest.mark.parametrize("method", METHODS[:3], ids=str)
def test_packing_inside_the_model(sentences: list[Tensor], head: str, method: LRP) -> None:
    torch.manual_seed(5)
    model = Packing(4, 3, 2, head=head).double()
    padded, lengths = pad_sequence(sentences, batch_first=True), torch.tensor(LENGTHS)
    batch = relevance(model, padded, target=1, method=method, args=(lengths,))
    batch.check(1e-12)
    for n, x in enumerate(sentences):
        single = relevance(model, x[None], target=1, method=method, args=(lengths[n : n + 1],))
        assert_close(batch.relevance[n, : len(x)], single.relevance[0], rtol=0, atol=1e-12)
        assert (batch.relevance[n, len(x) :] == 0).all()
    by_lengths = relevance(model, padded, target=1, method=method, lengths=lengths)
    assert_close(by_lengths.relevance, batch.relevance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("head", ["last", "mean", "max"])
def test_a_model_that_knows_no_lengths_is_explained_without_padding(sentences: list[Tensor], head: str) -> None:
    torch.manual_seed(6)
    model = Tagger(nn.LSTM(4, 3), head, 2).double()  # time first
    padded = pad_sequence(sentences)
    padded[3:, 0] = 1e6  # what stands in the padding does not matter
    result = relevance(model, padded, target=0, lengths=LENGTHS).check(1e-12)
    for n, x in enumerate(sentences):
        single = relevance(model, x[:, None], target=0)
        assert_close(result.relevance[: len(x), n], single.relevance[:, 0], rtol=0, atol=1e-12)
        assert (result.relevance[len(x) :, n] == 0).all()


def test_padding_may_hold_anything(sentences: list[Tensor], model: BiLSTM) -> None:
    padded = pad_sequence(sentences, batch_first=True)
    filled = pad_sequence(sentences, batch_first=True, padding_value=float("nan"))
    expected = relevance(model, padded, target="predicted", lengths=LENGTHS)
    found = relevance(model, filled, target="predicted", lengths=LENGTHS)
    assert found.relevance.equal(expected.relevance)
    assert found.target.tolist() == [int(model(x[None]).argmax()) for x in sentences]


def test_all_classes_of_a_padded_and_of_a_packed_batch(sentences: list[Tensor], model: BiLSTM) -> None:
    padded = relevance(model, pad_sequence(sentences, batch_first=True), target="all", lengths=LENGTHS)
    packed = relevance(model, pack_sequence(sentences, enforce_sorted=False), target="all")
    assert padded.relevance.shape == (5, 6, 7, 4)
    assert len(packed.relevance) == 5
    for c in range(5):
        unpacked, _ = torch.nn.utils.rnn.pad_packed_sequence(packed.relevance[c], batch_first=True)
        assert_close(unpacked, padded.relevance[c], rtol=0, atol=1e-12)
    padded.check(1e-12)
    packed.check(1e-12)


def test_sorted_packing(sentences: list[Tensor], model: BiLSTM) -> None:
    ordered = sorted(sentences, key=len, reverse=True)
    lengths = torch.tensor([len(x) for x in ordered])
    packed = pack_padded_sequence(pad_sequence(ordered), lengths)
    result = relevance(model, packed, target=0).check(1e-12)
    assert result.relevance.data.shape == packed.data.shape
    expected = relevance(model, pad_sequence(ordered, batch_first=True), target=0, lengths=lengths)
    assert_close(result.score, expected.score)
    assert_close(torch.nn.utils.rnn.pad_packed_sequence(result.relevance, batch_first=True)[0], expected.relevance)


def test_several_inputs_and_states_follow_their_lengths() -> None:
    class Static(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.fc = nn.LSTM(4, 3, batch_first=True), nn.Linear(5, 2)

        def forward(self, x: Tensor, static: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
            return self.fc(torch.cat([self.lstm(x, state)[0][:, -1], static], dim=1))

    torch.manual_seed(7)
    model = Static().double()
    x, static = torch.randn(3, 6, 4, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    state = (torch.randn(1, 3, 3, dtype=torch.float64), torch.randn(1, 3, 3, dtype=torch.float64))
    result = relevance(model, (x, static), target=1, lengths=[6, 2, 2], args=(state,)).check(1e-12)
    for n, size in enumerate([6, 2, 2]):
        one_state = (state[0][:, n : n + 1], state[1][:, n : n + 1])
        single = relevance(model, (x[n : n + 1, :size], static[n : n + 1]), target=1, args=(one_state,))
        assert_close(result.relevance[0][n, :size], single.relevance[0][0])
        assert_close(result.relevance[1][n], single.relevance[1][0])
        assert_close(result.absorbed["lstm.initial_state"][n], single.absorbed["lstm.initial_state"][0])


def test_samples_that_influence_each_other_are_refused(model: BiLSTM) -> None:
    class Mixing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scores = model(x)
            return scores - scores.mean(0)

    with pytest.raises(InputError, match=r"no axis of the inputs holds 3 samples that do not influence each other"):
        relevance(Mixing(), torch.randn(3, 2, 4, dtype=torch.float64), target=0)


class Transposing(nn.Module):
    """Batch first outside, time first inside: its flag says nothing of its inputs."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(4, 3, batch_first=batch_first), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        states = self.lstm(x.transpose(0, 1))[0]
        return self.fc(states[:, -1] if self.lstm.batch_first else states[-1])


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("lengths", [[1, 2, 2], [3, 2, 1], [2, 2, 3]])
@pytest.mark.parametrize("method", [LRP(), SensitivityAnalysis()], ids=str)
def test_as_many_steps_as_samples(batch_first: bool, lengths: list[int], method: LRP) -> None:
    torch.manual_seed(8)
    model = Transposing(batch_first=batch_first).double()
    x = torch.randn(3, 3, 4, dtype=torch.float64)
    result = relevance(model, x, target=0, lengths=lengths, method=method)
    for n, size in enumerate(lengths):
        place = (slice(0, size), slice(n, n + 1)) if batch_first else (slice(n, n + 1), slice(0, size))
        single = relevance(model, x[place], target=0, method=method)
        assert_close(result.relevance[place], single.relevance, rtol=0, atol=1e-12)
        assert_close(result.score[n], single.score[0])


class TwoSequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(
        self, x: Tensor, other: Tensor | None = None, *, mask: Tensor | None = None, scale: Tensor | float = 1.0
    ) -> Tensor:
        states = self.lstm(x if other is None else x + other)[0]
        return self.fc(states.mean(1) if mask is None else (states * mask.unsqueeze(-1)).sum(1)) * scale


def test_further_arguments_are_cut_where_their_shape_is_plain_and_refused_where_not() -> None:
    torch.manual_seed(9)
    model, lengths = TwoSequences().double(), [7, 5, 3]
    x, other = torch.randn(2, 3, 7, 4, dtype=torch.float64)
    mask = torch.arange(7)[None] < torch.tensor(lengths)[:, None]
    result = relevance(model, x, target=1, lengths=lengths, args=(other,), kwargs={"mask": mask})
    for n, size in enumerate(lengths):
        more = {"args": (other[n : n + 1, :size],), "kwargs": {"mask": mask[n : n + 1, :size]}}
        assert_close(result.relevance[n : n + 1, :size], relevance(model, x[n : n + 1, :size], target=1, **more).relevance)
    for doubtful in (torch.tensor([1.0, 2.0, 3.0]), torch.randn(3, 3), torch.arange(3), torch.randn(3, 5, 1)):
        with pytest.raises(InputError, match=r"with lengths=, scale of shape .* may hold one row per sample"):
            relevance(model, x, target=1, lengths=lengths, kwargs={"scale": doubtful})


def test_static_inputs_of_a_time_first_model() -> None:
    class Static(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.fc = nn.LSTM(4, 3), nn.Linear(7, 2)

        def forward(self, x: Tensor, static: Tensor) -> Tensor:
            return self.fc(torch.cat([self.lstm(x)[0][-1], static], dim=-1))

    torch.manual_seed(10)
    model = Static().double()
    x, static = torch.randn(7, 4, 4, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64)
    result = relevance(model, (x, static), target=1, lengths=[7, 3, 5, 1]).check(1e-12)
    single = relevance(model, (x[:3, 1:2], static[1:2]), target=1)
    with pytest.raises(InputError, match=r"an input of shape \(4, 4\) may hold one number per step"):
        relevance(model, (x[:4], static), target=1, lengths=[4, 3, 2, 1])
    assert_close(result.relevance[0][:3, 1], single.relevance[0][:, 0])
    assert_close(result.relevance[1][1], single.relevance[1][0])


def test_lengths_given_to_the_model_by_the_caller(sentences: list[Tensor]) -> None:
    torch.manual_seed(5)
    model = Packing(4, 3, 2).double()
    padded, lengths = pad_sequence(sentences, batch_first=True), torch.tensor(LENGTHS)
    once = relevance(model, padded, target=1, lengths=LENGTHS)
    twice = relevance(model, padded, target=1, lengths=LENGTHS, args=(lengths,))
    assert once.relevance.equal(twice.relevance)


def test_threads_share_a_model_in_training(sentences: list[Tensor]) -> None:
    torch.manual_seed(11)
    model = Tagger(nn.LSTM(4, 3, num_layers=2, dropout=0.5, batch_first=True), "mean", 2, deep=True).double().train()
    expected = [relevance(model, x[None], target=0).relevance for x in sentences]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: relevance(model, x[None], target=0).relevance, sentences * 5))
    assert all(one.equal(other) for one, other in zip(found, expected * 5, strict=True))
    assert all(module.training for module in model.modules())
