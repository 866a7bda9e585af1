"""Token ids, several inputs, all steps at once, contrasts, layers in the middle, and what states remember."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import whence
from tests.models.networks import Seq2Seq
from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, SensitivityAnalysis

METHODS = [LRP(), LRP(delta=1.0, product="abs"), SensitivityAnalysis(), GradientXInput(), *PERTURBING]


class Tagger(nn.Module):
    """Scores for every step, from ids or from their vectors."""

    def __init__(self, kind: str = "lstm", *, bidirectional: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind]
        self.words = nn.Embedding(11, 4)
        self.encoder = layer(4, 5, num_layers=2, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(10 if bidirectional else 5, 3)

    def forward(self, ids: Tensor) -> Tensor:
        vectors = ids if ids.is_floating_point() else self.words(ids)
        return self.head(self.encoder(vectors)[0])


IDS = torch.tensor([[1, 4, 4, 0, 7, 2], [10, 3, 1, 1, 5, 9]])


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_all_steps_at_once_are_each_step_on_its_own(kind: str, method: whence.LRP) -> None:
    model = Tagger(kind).double()
    x = model.words(IDS).detach()
    every = whence.relevance(model, x, target=("all", 1), method=method)
    assert every.relevance.shape == (6, 2, 6, 4)
    assert every.score.shape == (6, 2)
    both = whence.relevance(model, x, target=("all", "all"), method=method)
    assert both.relevance.shape == (6, 3, 2, 6, 4)
    best = whence.relevance(model, x, target=("all", "predicted"), method=method)
    chosen = model(x).argmax(-1)
    for t in range(6):
        one = whence.relevance(model, x, target=(t, 1), method=method)
        assert_close(every.relevance[t], one.relevance, rtol=1e-10, atol=1e-12)
        assert_close(every.score[t], one.score)
        assert_close(both.relevance[t, 1], one.relevance, rtol=1e-10, atol=1e-12)
        assert_close(whence.relevance(model, x, target=(t, "all"), method=method).relevance, both.relevance[t])
        for b in range(2):
            assert_close(best.relevance[t, b], both.relevance[t, chosen[b, t], b])
    if isinstance(method, LRP):
        every.check(1e-10)


def test_all_steps_of_a_ragged_batch() -> None:
    model = Tagger().double()
    x = model.words(IDS).detach()
    padded = whence.relevance(model, x, target=("all", 2), lengths=[6, 4]).check(1e-10)
    assert padded.relevance.shape == (6, 2, 6, 4)
    alone = whence.relevance(model, x[1:, :4], target=("all", 2))
    assert_close(padded.relevance[:4, 1, :4], alone.relevance[:, 0], rtol=1e-10, atol=1e-12)
    assert not padded.relevance[4:, 1].any()
    assert not padded.relevance[:, 1, 4:].any()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (("some", 1), r"is not \(time step, class\), two whole numbers or \"all\""),
        (("predicted", 1), "is not"),
        ((0, "best"), "is not"),
        ((6, 0), r"time step 6 does not exist: the model gave 6 time steps"),
        (("all", 3), r"target 3 does not exist"),
        (("all", 1, 2), "is not"),
    ],
)
def test_steps_that_do_not_exist(target: Any, message: str) -> None:
    with pytest.raises(whence.TargetError, match=message):
        whence.relevance(Tagger().double(), IDS, target=target)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_ids_are_explained_by_their_vectors(method: whence.LRP) -> None:
    model = Tagger().double()
    by_id = whence.relevance(model, IDS, target=(3, 0), method=method)
    by_vector = whence.relevance(model, model.words(IDS).detach(), target=(3, 0), method=method)
    assert by_id.relevance.shape == (2, 6, 4)
    assert_close(by_id.relevance, by_vector.relevance)
    named = whence.relevance(model, IDS, target=(3, 0), method=method, embedding="words")
    assert_close(named.relevance, by_vector.relevance)


ODD = ["two tables", "reversed", "start", "copied", "indexed", "written"]


class OddReader(nn.Module):
    """Looks its words up one at a time, time first, from characters, or in a bag; some words twice."""

    def __init__(self, style: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.style = style
        self.table, self.other = nn.Embedding(11, 4), nn.Embedding(11, 4)
        mode = style.removeprefix("bag ").removeprefix("offsets ")
        self.bag = nn.EmbeddingBag(11, 4, mode=mode if mode in ("sum", "mean", "max") else "mean", padding_idx=1)
        self.gru, self.out = nn.GRU(4, 4), nn.Linear(4, 11)
        if style == "tied":
            self.out.weight = self.table.weight

    def forward(self, ids: Tensor, offsets: Tensor | None = None) -> Tensor:
        if self.style.startswith("bag"):
            return self.out(torch.tanh(self.bag(ids)))
        if self.style.startswith("offsets"):
            return self.out(torch.tanh(self.bag(ids, offsets)))
        if self.style == "time first":
            return self.out(self.gru(self.table(ids.T))[0][-1])
        if self.style == "one at a time":
            return self.out(self.gru(torch.stack([self.table(ids[:, t]) for t in range(ids.shape[1])]))[0][-1])
        if self.style == "characters":
            return self.out(self.gru(self.table(ids.view(2, 3, 2)).mean(2).transpose(0, 1))[0][-1])
        if self.style == "two tables":
            return self.out(self.gru((self.table(ids) + self.other(ids)).transpose(0, 1))[0][-1])
        if self.style in ("reversed", "start", "copied", "indexed"):
            both = {
                "reversed": lambda: self.table(ids) + self.table(ids.flip(1)),
                "start": lambda: self.table(torch.cat([torch.zeros_like(ids[:, :1]), ids], 1)),
                "copied": lambda: torch.nn.functional.embedding(ids.clone().contiguous(), self.table.weight),
                "indexed": lambda: self.table.weight[ids],
            }
            return self.out(self.gru(both[self.style]().transpose(0, 1))[0][-1])
        if self.style == "written":
            mask = (ids != 0).unsqueeze(-1)
            vectors = self.table(ids) * mask
            ids.fill_(0)
            return self.out(self.gru(vectors.transpose(0, 1))[0][-1])
        if self.style == "sorted":
            return self.out(self.gru(self.table(ids.sort(1).values).transpose(0, 1))[0][-1])
        mask = (ids != 0).unsqueeze(-1)
        return self.out(self.gru((self.table(ids) * mask).transpose(0, 1))[0][-1])


@pytest.mark.parametrize(
    "style",
    ["time first", "one at a time", "characters", "masked", "tied", "bag sum", "bag mean", "bag max", *ODD],
)
def test_ids_go_many_ways(style: str) -> None:
    model = OddReader(style).double()
    name = "other" if style == "two tables" else None
    result = whence.relevance(model, IDS, target=2, embedding=name).check(1e-10)
    assert result.relevance.shape == (2, 6, 4)
    assert_close(result.score, model(IDS.clone())[:, 2].detach())
    if style == "masked":
        assert not result.relevance[IDS == 0].any()
    if style.startswith("bag"):
        assert not result.relevance[IDS == 1].any()  # the padding


def test_bags_cut_by_offsets() -> None:
    model = OddReader("offsets sum").double()
    ids, offsets = IDS.flatten(), torch.tensor([0, 5])
    result = whence.relevance(model, ids, target=2, kwargs={"offsets": offsets}).check(1e-10)
    assert result.relevance.shape == (12, 4)
    first = whence.relevance(model, ids[:5], target=2, kwargs={"offsets": torch.tensor([0])})
    assert_close(result.relevance[:5], first.relevance)


@pytest.mark.parametrize(
    ("style", "name", "message"),
    [
        ("two tables", None, r"the ids of inputs go into 2 layers \(table, other\); name one by embedding="),
        ("sorted", None, r"the ids of inputs\[0\] are changed before they are looked up"),
        ("masked", "tables", r"there is no nn.Embedding 'tables'; the model has table, other, bag"),
    ],
)
def test_ids_that_cannot_be_followed(style: str, name: str | None, message: str) -> None:
    with pytest.raises(whence.InputError, match=message):
        whence.relevance(OddReader(style).double(), IDS, target=2, embedding=name)


def test_ids_and_numbers_together() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.lstm = nn.Embedding(11, 4), nn.LSTM(6, 5, batch_first=True)
            self.out = nn.Linear(8, 2)

        def forward(self, series: Tensor, ids: Tensor, fixed: Tensor) -> Tensor:
            h = self.lstm(torch.cat([series, self.words(ids)], -1))[0][:, -1]
            return self.out(torch.cat([h, fixed], -1))

    model = Mixed().double()
    series, fixed = torch.randn(2, 6, 2).double(), torch.randn(2, 3).double()
    result = whence.relevance(model, (series, IDS, fixed), target=1).check(1e-10)
    assert [tuple(each.shape) for each in result.relevance] == [(2, 6, 2), (2, 6, 4), (2, 3)]


def test_a_contrast_is_the_difference_of_two_classes() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x = torch.randn(4, 2, 4, dtype=torch.float64)
    found = whence.relevance(model, x, target=whence.contrast(2, 0), method=LRP(epsilon=0.0)).check(1e-10)
    every = whence.relevance(model, x, target="all", method=LRP(epsilon=0.0))
    assert_close(found.relevance, every.relevance[2] - every.relevance[0], rtol=1e-9, atol=1e-11)
    assert_close(found.score, every.score[2] - every.score[0])
    with pytest.raises(whence.TargetError, match="target 3 does not exist"):
        whence.relevance(model, x, target=whence.contrast(3, 0))


def test_sequence_to_sequence() -> None:
    torch.manual_seed(0)
    model = Seq2Seq(4, 3, 5).double()
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    every = whence.relevance(model, x, target=("all", "predicted")).check(1e-9)
    assert every.relevance.shape == (3, 2, 7, 4)


@pytest.mark.parametrize("output", ["dict", "tuple"])
def test_several_outputs(output: str) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.flow, self.risk = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 1), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> object:
            h = self.lstm(x)[0][:, -1]
            found = {"flow": self.flow(h), "risk": self.risk(h)}
            return found if output == "dict" else tuple(found.values())

    model, x = Two().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    with pytest.raises(whence.TargetError, match=r"the model returned a (dict|tuple).*target=lambda output"):
        whence.relevance(model, x, target=0)
    risk = whence.relevance(model, x, target=lambda out: (out["risk"] if output == "dict" else out[1])[:, 1]).check(1e-12)
    assert "risk.bias" in risk.absorbed


@pytest.mark.parametrize("layer", ["words", "encoder", "head"])
@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), LRP(stabiliser="absorbed")], ids=str)
def test_relevance_in_the_middle(layer: str, method: LRP) -> None:
    model = Tagger().double()
    found = whence.relevance(model, IDS, target=(3, 1), at=layer, method=method).check(1e-10)
    if layer == "words":
        assert_close(found.relevance, whence.relevance(model, IDS, target=(3, 1), method=method).relevance)
    elif layer == "encoder":
        states, finals = found.relevance
        assert states.shape == (2, 6, 10)
        assert states[:, 3].any()
        assert not states[:, :3].any()
        assert not finals[0].any()
        own = whence.relevance(model.head, model.encoder(model.words(IDS))[0][:, 3].detach(), target=1, method=method)
        assert_close(states[:, 3], own.relevance, rtol=1e-10, atol=1e-12)
    else:
        assert_close(found.relevance[:, 3, 1], found.score)
    every = whence.relevance(model, IDS, target=("all", 1), at=layer, method=method).check(1e-10)
    part = every.relevance[0] if layer == "encoder" else every.relevance
    assert_close(part[3], found.relevance[0] if layer == "encoder" else found.relevance)


def test_what_goes_past_a_layer_is_in_the_books() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out((x + torch.tanh(self.inner(x))).sum(1))

    result = whence.relevance(Residual().double(), torch.randn(2, 3, 4).double(), target=0, at="inner").check(1e-12)
    assert result.absorbed["inputs"].any()


def test_a_layer_that_runs_many_times_and_one_that_is_not_there() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.out = nn.GRUCell(4, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = None
            for x_t in x.unbind(1):
                h = self.cell(x_t, h)
            return self.out(h)

    model, x = Loop().double(), torch.randn(2, 5, 4).double()
    result = whence.relevance(model, x, target=0, at="cell")
    assert len(result.relevance) == 5
    assert result.relevance[-1].any()
    with pytest.raises(whence.InputError, match=r"there is no layer 'cel' in the model; did you mean cell"):
        whence.relevance(model, x, target=0, at="cel")
    with pytest.raises(whence.InputError, match=r"at= and memory= need method=LRP"):
        whence.relevance(model, x, target=0, at="cell", method=GradientXInput())


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_memory_is_what_earlier_steps_and_the_initial_state_get(kind: str) -> None:
    """With δ = 1 only the initial state absorbs, so that the books say what every state of one direction carries."""
    torch.manual_seed(0)
    layer = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind](4, 3, batch_first=True)
    model = nn.Sequential()
    model.add_module("layer", layer)

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.out = layer, nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.layer(x)[0][:, 4])

    x = torch.randn(2, 7, 4, dtype=torch.float64)
    result = whence.relevance(Head().double(), x, target=1, method=LRP(delta=1.0), memory=True).check(1e-10)
    carried = result.memory["layer.l0"]
    assert carried.shape == (2, 8)
    initial = result.absorbed.get("layer.initial_state", torch.zeros(2, dtype=torch.float64))
    for t in range(5):
        before = result.relevance[:, :t].sum((1, 2)) + initial
        assert_close(carried[:, t], before, rtol=1e-9, atol=1e-11)
    assert not carried[:, 5:].any()


def test_memory_of_a_packed_batch_in_both_directions() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.out = nn.LSTM(4, 3, batch_first=True, bidirectional=True), nn.Linear(6, 2)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            h = self.lstm(packed)[1][0]
            return self.out(torch.cat([h[0], h[1]], -1))

    model, x, lengths = Packed().double(), torch.randn(3, 6, 4).double(), torch.tensor([2, 6, 4])
    method = LRP(delta=1.0)
    together = whence.relevance(model, x, target=0, method=method, memory=True, args=(lengths,))
    for n, length in enumerate(lengths.tolist()):
        alone = whence.relevance(model, x[n : n + 1, :length], target=0, method=method, memory=True, args=(lengths[n : n + 1],))
        for name in ("lstm.l0", "lstm.l0_reverse"):
            assert_close(together.memory[name][n, : length + 1], alone.memory[name][0], rtol=1e-10, atol=1e-12)
            assert not together.memory[name][n, length + 1 :].any()
        assert alone.memory["lstm.l0_reverse"][0, 0] != 0  # the backward direction ends at the first word


def test_ids_of_a_padded_batch() -> None:
    model = Tagger().double()
    padded = whence.relevance(model, IDS, target=(0, 2), lengths=[6, 4]).check(1e-10)
    assert padded.relevance.shape == (2, 6, 4)
    alone = whence.relevance(model, IDS[1:, :4], target=(0, 2))
    assert_close(padded.relevance[1, :4], alone.relevance[0], rtol=1e-10, atol=1e-12)
    assert not padded.relevance[1, 4:].any()


def test_a_layer_that_gives_packed_states() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.out = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            states, (h, _) = self.lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
            return self.out(h[-1] + states.data.mean() * 0)

    model, x = Packed().double(), torch.randn(2, 5, 4).double()
    result = whence.relevance(model, x[:1], target=0, at="lstm", args=(torch.tensor([4]),)).check(1e-10)
    states, (h, _) = result.relevance
    assert states.data.shape == (4, 3)
    assert h.any()


@pytest.mark.parametrize("head", [nn.Sigmoid(), nn.Softplus(), nn.LogSigmoid(), nn.Hardsigmoid(), nn.Softmax(-1)], ids=str)
def test_before_a_head_that_turns_the_sign_relevance_starts(head: nn.Module) -> None:
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(8, 3), head).double(), torch.randn(2, 2, 4).double()
    found, expected = whence.relevance(model, x, target=0), whence.relevance(model[:2], x, target=0)
    torch.testing.assert_close(found.score, expected.score)
    torch.testing.assert_close(found.relevance, expected.relevance)
    torch.testing.assert_close(found.output, expected.output)
    with pytest.raises(whence.NoRuleError, match="it ends the model, and strict=True does not start before it"):
        whence.relevance(model, x, target=0, method=whence.LRP(strict=True))
    inner = nn.Sequential(nn.Flatten(), nn.Linear(8, 3), head, nn.Linear(3, 2)).double()
    whence.relevance(inner, x, target=0).check(1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: whence.relevance(m, x, target=0, at=m), "at is a Sequential; give the name of a layer, such as at='0'"),
        (lambda m, x: whence.relevance(m, x, target=0, memory=True), "the model has none"),
    ],
)
def test_what_was_meant_is_said(call: Callable[..., Any], message: str) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 3)).double()
    with pytest.raises(whence.WhenceError, match=message):
        call(model, torch.randn(2, 2, 4).double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_runs(dtype: torch.dtype) -> None:
    model = Tagger(bidirectional=False).to(dtype)
    x = torch.randn(2, 5, 4).to(dtype)
    result = whence.relevance(model, x, target=(4, 1)).check()
    exact = whence.relevance(Tagger(bidirectional=False), x.float(), target=(4, 1))
    assert_close(result.relevance.float().sum((1, 2)), exact.relevance.sum((1, 2)), rtol=0.2, atol=0.05)


def test_ids_are_told_apart_by_where_they_stand_not_by_their_number() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.out = nn.Embedding(11, 4), nn.Linear(4, 2)

        def forward(self, first: Tensor, second: Tensor) -> Tensor:
            return self.out(self.table(first)[:, 0] + 3 * self.table(second.flip(1))[:, 0])

    same = torch.full((2, 3), 5)
    model = Two().double()
    first, second = whence.relevance(model, (same, same.clone()), target=0).check(1e-12).relevance
    assert first[:, 0].any()
    assert not first[:, 1:].any()
    assert second[:, 2].any()
    assert not second[:, :2].any()


def test_an_embedding_of_the_users_own_kind() -> None:
    class Scaled(nn.Embedding):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 8

    model = Tagger().double()
    model.words = Scaled(11, 4).double()
    result = whence.relevance(model, IDS, target=(3, 1)).check(1e-10)
    assert_close(result.score, model(IDS)[:, 3, 1].detach())


def test_explaining_ids_in_threads() -> None:
    model = Tagger().double()
    expected = whence.relevance(model, IDS, target=(3, 1)).relevance
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: whence.relevance(model, IDS, target=(3, 1)).relevance, range(12)):
            assert_close(found, expected)


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_samples_and_steps_are_not_taken_for_each_other(method: LRP) -> None:
    model, x = nn.Linear(4, 2).double(), torch.randn(3, 6, 4).double()
    one = whence.relevance(model, x, target=(5, 1), method=method)
    assert_close(one.score, model(x)[:, 5, 1].detach())
    assert whence.relevance(model, x, target=("all", 1), method=method).relevance.shape == (6, 3, 6, 4)


def test_a_layer_changed_in_place_unused_or_of_an_odd_kind() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.unused, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            h += x
            return self.out(torch.tanh(h).sum(1))

    class Plain(Odd):
        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.tanh(self.inner(x) + x).sum(1))

    x = torch.randn(2, 3, 4).double()
    one, other = (whence.relevance(kind().double(), x, target=0, at="inner").check(1e-10) for kind in (Odd, Plain))
    assert_close(one.relevance, other.relevance)
    with pytest.raises(whence.InputError, match="the layer 'unused' gives no tensor to explain: it does not run"):
        whence.relevance(Odd().double(), x, target=0, at="unused")
