"""Contextual decomposition as a method: equal to the oracle, adding up to the score, for every form of input and target."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import whence
from tests.models import BiLSTM, Packing, StudentLSTM, Tagger, TwoEncoders
from tests.oracle import decomposition as oracle
from tests.oracle.targets import against_rest
from tests.test_no_trace import assert_same, state_of
from whence import ContextualDecomposition, NoRuleError, Result
from whence.methods import decomposition

LAYERS: dict[str, Callable[..., nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN}
CELLS: dict[str, Callable[..., nn.RNNCellBase]] = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn_tanh": nn.RNNCell}


class Reader(nn.Module):
    """A recurrent layer between a change of its input and a head of its last output."""

    def __init__(self, layer: nn.RNNBase, change: Callable[[Tensor], Tensor] = lambda x: x, classes: int = 3) -> None:
        super().__init__()
        self.layer, self.change = layer, change
        self.fc = nn.Linear(layer.hidden_size * (1 + layer.bidirectional), classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer(self.change(x))[0][:, -1])


class Head(nn.Module):
    """An nn.LSTM, and whatever is made of its outputs."""

    def __init__(self, head: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.lstm, self.head, self.fc = nn.LSTM(4, 3, batch_first=True), head, nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.head(self.lstm(x)[0]))


def make(model: nn.Module) -> nn.Module:
    """The model in double precision, with weights that are large enough for gates far from linear."""
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.7)
    return model.double()


def cd(model: nn.Module, inputs: object, **options: object) -> Result:
    return whence.relevance(model, inputs, **{"target": 0, "method": "cd", **options})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(3, 5, 4, dtype=torch.float64)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", LAYERS)
def test_the_relevance_of_a_step_is_the_part_that_the_oracle_finds(kind: str, options: dict[str, int], x: Tensor) -> None:
    model = make(Reader(LAYERS[kind](4, 3, batch_first=True, **options)))
    assert isinstance(model, Reader)
    found = cd(model, x, target=1)
    head, rows = model.fc.weight[1].detach(), model.layer.num_layers * (1 + model.layer.bidirectional)
    states = [torch.zeros(rows, 3).numpy()] * (1 + (kind == "lstm"))
    for b in range(3):
        for t in range(5):
            inside = [step == t for step in range(5)]
            outputs, _ = oracle.network(kind, x[b].numpy(), inside, oracle.weights_of(model.layer), states)
            expected = head @ torch.tensor(outputs[-1], dtype=torch.float64)[:, 0]
            assert_close(found.relevance[b, t].sum(), expected, rtol=0, atol=1e-10)
    assert_close(found.relevance, found.relevance[..., :1].expand_as(x))  # the features of a step share evenly
    assert_close(found.absorbed["bias"], model.fc.bias[1].detach().expand(3))
    assert set(found.absorbed) == {"bias", "interactions"}
    found.check(1e-9)


@pytest.mark.parametrize("kind", CELLS)
def test_a_loop_over_cells_is_decomposed_like_the_layer(kind: str, x: Tensor) -> None:
    layer = make(LAYERS[kind](4, 3, num_layers=2, batch_first=True))
    assert isinstance(layer, nn.RNNBase)

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.ModuleList([CELLS[kind](4, 3), CELLS[kind](3, 3)])
            for k, cell in enumerate(self.cells):
                cell.load_state_dict({name: getattr(layer, f"{name}_l{k}") for name, _ in cell.named_parameters()})

        def forward(self, x: Tensor) -> Tensor:
            states: list[Any] = [None, None]
            h = x[:, 0]
            for t in range(x.shape[1]):
                h = x[:, t]
                for k, cell in enumerate(self.cells):
                    states[k] = cell(h, states[k])
                    h = states[k][0] if kind == "lstm" else states[k]
            return h

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)[0][:, -1]

    one, other = cd(Loop().double(), x), cd(Last(), x)
    assert_close(one.score, other.score)
    assert_close(one.relevance, other.relevance, rtol=0, atol=1e-12)


@st.composite
def taggers(draw: st.DrawFn) -> tuple[nn.Module, Tensor, tuple[tuple[Tensor, ...], ...], bool]:
    """Every nn.LSTM under every head that contextual decomposition knows, with and without initial states."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    options = {"num_layers": draw(st.integers(1, 2)), "bidirectional": draw(st.booleans()), "batch_first": draw(st.booleans())}
    lstm = nn.LSTM(4, 3, proj_size=draw(st.sampled_from([0, 2])), bias=draw(st.booleans()), **options)
    model = make(Tagger(lstm, draw(st.sampled_from(["last", "final", "mean", "max"])), 2))
    batch, steps = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    x = torch.randn((batch, steps, 4) if options["batch_first"] else (steps, batch, 4), dtype=torch.float64)
    x = x * (torch.rand(x.shape) > 0.3)
    if draw(st.booleans()):
        return model, x, (), options["batch_first"]
    rows = options["num_layers"] * (1 + options["bidirectional"])
    state = tuple(torch.randn(rows, batch, size, dtype=torch.float64) for size in (lstm.proj_size or 3, 3))
    return model, x, (state,), options["batch_first"]


@settings(max_examples=40)
@given(taggers())
def test_everything_adds_up_and_a_sample_is_the_same_alone(
    case: tuple[nn.Module, Tensor, tuple[tuple[Tensor, ...], ...], bool],
) -> None:
    model, x, args, batch_first = case
    found = cd(model, x, args=args).check(1e-9)
    for b in range(len(found.score)):
        one = x[b : b + 1] if batch_first else x[:, b : b + 1]
        own = tuple(tuple(each[:, b : b + 1] for each in state) for state in args)
        alone = cd(model, one, args=own)
        assert_close(alone.relevance, found.relevance[b : b + 1] if batch_first else found.relevance[:, b : b + 1])
        assert_close(alone.score[0], found.score[b])


def test_one_step_takes_all_but_the_bias(x: Tensor) -> None:
    model = make(Reader(nn.GRU(4, 3, batch_first=True)))
    found = cd(model, x[:, :1])
    assert_close(found.relevance.sum((1, 2)) + found.absorbed["bias"], found.score)
    assert "interactions" not in found.absorbed or found.absorbed["interactions"].abs().max() < 1e-12


@pytest.mark.parametrize("head", ["final", "mean", "max"])
def test_ragged_batches_are_decomposed_as_each_sentence_alone(head: str, x: Tensor) -> None:
    model, lengths = make(Packing(4, 3, 2, head=head)), torch.tensor([2, 5, 3])
    found = cd(model, x, args=(lengths,)).check(1e-9)
    for b, length in enumerate(lengths.tolist()):
        alone = cd(model, x[b : b + 1, :length], args=(lengths[b : b + 1],))
        assert_close(found.relevance[b, :length], alone.relevance[0], rtol=0, atol=1e-12)
        assert not found.relevance[b, length:].any()


def test_packed_and_padded_inputs(x: Tensor) -> None:
    model, lengths = make(BiLSTM(4, 3, 2)), [5, 1, 3]
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    padded = cd(model, x, lengths=lengths)
    found, sizes = nn.utils.rnn.pad_packed_sequence(cd(model, packed).relevance, batch_first=True)
    assert sizes.tolist() == lengths
    assert_close(found, padded.relevance, rtol=0, atol=1e-12)


def test_several_inputs(x: Tensor) -> None:
    model = make(TwoEncoders(4, 3, 2))
    found = cd(model, (x, x.flip(1))).check(1e-9)
    assert [each.shape for each in found.relevance] == [x.shape, x.shape]
    assert all(bool(each.any()) for each in found.relevance)


def test_token_ids_have_the_relevance_of_their_vectors() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.reader = nn.Embedding(7, 4), Reader(nn.LSTM(4, 3, batch_first=True))

        def forward(self, ids: Tensor) -> Tensor:
            return self.reader(self.embedding(ids))

    model, ids = make(Words()), torch.tensor([[1, 2, 3], [4, 4, 0]])
    assert isinstance(model, Words)
    assert_close(cd(model, ids).relevance, cd(model.reader, model.embedding(ids).detach()).relevance)


@pytest.mark.parametrize(
    "change",
    [
        nn.Linear(4, 4, bias=False),
        nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh()),
        lambda x: x.flip(1).contiguous().flip(1),
        lambda x: torch.cat([x[..., 2:], x[..., :2]], -1) * 2.0 - x,
        lambda x: x.masked_fill(torch.tensor([True, False, True, False]), 0.0),
    ],
    ids=["linear", "activation", "moves", "sums", "mask"],
)
def test_a_change_of_each_step_is_the_same_as_changed_inputs(change: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model = make(Reader(nn.LSTM(4, 3, batch_first=True, num_layers=2), change))
    assert isinstance(model, Reader)
    with torch.no_grad():
        changed = change(x)
    plain = Reader(model.layer).double()
    plain.fc = model.fc
    assert_close(cd(model, x).relevance.sum(-1), cd(plain, changed).relevance.sum(-1), rtol=0, atol=1e-12)


def test_a_bias_before_a_recurrent_layer_belongs_to_the_step_that_it_is_added_at(x: Tensor) -> None:
    model = make(Reader(nn.LSTM(4, 3, batch_first=True), nn.Linear(4, 4)))
    assert isinstance(model, Reader)
    found, plain = cd(model, x[:, :1]), Reader(model.layer).double()
    plain.fc = model.fc
    with torch.no_grad():
        changed = model.change(x[:, :1])
    assert_close(found.relevance.sum((1, 2)), cd(plain, changed).relevance.sum((1, 2)), rtol=0, atol=1e-12)


def written_by_step(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for t in range(5):
        out[:, t] = x[:, t] * (t + 1)
    return out


def written_in_a_view(x: Tensor) -> Tensor:
    out = x.clone()
    rows = out[:, 1:3]
    out.mul_(2.0)
    rows[:, 0] += x[:, 4]
    rows[:, 1, ::2] = 0.0
    return torch.cat([out, rows], dim=1)


def joined_like_the_view(x: Tensor) -> Tensor:
    rows = torch.stack([2 * x[:, 1] + x[:, 4], 2 * x[:, 2] * torch.tensor([0.0, 1.0, 0.0, 1.0])], 1)
    return torch.cat([2 * x[:, :1], rows, 2 * x[:, 3:], rows], 1)


@pytest.mark.parametrize(
    ("writes", "moves"),
    [
        (written_by_step, lambda x: torch.stack([x[:, t] * (t + 1) for t in range(5)], 1)),
        (written_in_a_view, joined_like_the_view),
    ],
    ids=["by step", "in a view"],
)
def test_parts_are_written_in_place_as_the_values_are(
    writes: Callable[[Tensor], Tensor], moves: Callable[[Tensor], Tensor], x: Tensor
) -> None:
    one, other = (make(Reader(nn.LSTM(4, 3, batch_first=True), change)) for change in (writes, moves))
    found, expected = cd(one, x).check(1e-9), cd(other, x)
    assert_close(found.relevance, expected.relevance, rtol=0, atol=1e-12)
    assert_close(found.absorbed, expected.absorbed, rtol=0, atol=1e-12)


def test_an_input_that_all_samples_share_is_refused(x: Tensor) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = Reader(nn.LSTM(4, 3, batch_first=True))

        def forward(self, x: Tensor, shared: Tensor) -> Tensor:
            return self.reader(x + shared)

    with pytest.raises(whence.InputError, match="no axis of the inputs holds 3 samples"):
        cd(make(Shared()), (x, x[0]))


def test_targets(x: Tensor) -> None:
    model = make(BiLSTM(4, 3, 3))
    each = [cd(model, x, target=c).relevance for c in range(3)]
    everything = cd(model, x, target="all").check(1e-9)
    assert_close(everything.relevance, torch.stack(each))
    assert_close(cd(model, x, target=[0, 2, 1]).relevance, torch.stack([each[c][b] for b, c in enumerate([0, 2, 1])]))
    assert_close(cd(model, x, target=whence.contrast(0, 2)).check(1e-9).relevance, each[0] - each[2])
    weights = np.stack([against_rest(scores, 1) for scores in everything.score.T.numpy()])
    rest = cd(model, x, target=whence.contrast(1, "rest")).check(1e-9).relevance
    assert_close(rest, torch.einsum("bc,cbte->bte", torch.from_numpy(weights), torch.stack(each)))
    predicted = everything.score.argmax(0).tolist()
    assert_close(cd(model, x, target="predicted").relevance, torch.stack([each[c][b] for b, c in enumerate(predicted)]))
    assert_close(cd(model, x, target=lambda scores: 2 * scores[:, 0] - scores[:, 1]).relevance, 2 * each[0] - each[1])


def test_every_step_of_the_output(x: Tensor) -> None:
    model = make(Tagger(nn.LSTM(4, 3, batch_first=True), "all", 2))
    found = cd(model, x, target=("all", 1)).check(1e-9)
    assert found.relevance.shape == (5, *x.shape)
    for t in range(5):
        assert not found.relevance[t, :, t + 1 :].any()  # later steps cannot matter
        assert_close(found.relevance[t], cd(model, x, target=(t, 1)).relevance)


def test_a_model_that_ends_in_softmax_is_explained_from_its_scores(x: Tensor) -> None:
    model = make(BiLSTM(4, 3, 3))

    class Probabilities(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            return self.model(x).softmax(-1)

    found = cd(Probabilities(), x)
    assert_close(found.relevance, cd(model, x).relevance)
    assert "it ends the model" in str(found.choices[0])


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (lambda y: (y.sum(-1, keepdim=True).softmax(1) * y).sum(1), "softmax"),
        (lambda y: y[:, -1] * y[:, 0], "mul"),
        (lambda y: nn.functional.layer_norm(y[:, -1], (3,)), "layer_norm"),
        (lambda y: y[:, -1].log(), "log"),
        (lambda y: torch.sinc(y[:, -1]), "sinc"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(head: Callable[[Tensor], Tensor], named: str, x: Tensor) -> None:
    model = make(Head(head))
    message = (
        rf"contextual decomposition has no rule for torch\.[\w.]*{named}.* \(called in the model itself\).*; it knows recurr"
    )
    with pytest.raises(NoRuleError, match=message):
        cd(model, x.abs() if named == "log" else x)


def test_what_is_not_linear_is_refused_in_every_precision(x: Tensor) -> None:
    model = make(Head(lambda y: y[:, -1] * y[:, 0])).bfloat16()
    with pytest.raises(NoRuleError, match="contextual decomposition has no rule for"):
        cd(model, x.bfloat16(), check=False)


def test_a_hand_written_cell_is_refused_and_not_answered_differently(x: Tensor) -> None:
    lstm = nn.LSTM(4, 3, batch_first=True).double()
    with pytest.raises(NoRuleError, match="contextual decomposition has no rule for"):
        cd(StudentLSTM(lstm, nn.Linear(3, 2).double(), "one").double(), x)


def test_many_phrases_go_in_several_passes(monkeypatch: pytest.MonkeyPatch, x: Tensor) -> None:
    model = make(BiLSTM(4, 3, 3))
    whole = cd(model, x, target="all")
    monkeypatch.setattr(decomposition, "LARGEST", 1)
    pieces = cd(model, x, target="all")
    assert_close(pieces.relevance, whole.relevance)
    assert_close(pieces.absorbed, whole.absorbed)


def test_directions_and_layers_inside_are_not_answered(x: Tensor) -> None:
    with pytest.raises(whence.InputError, match="at= and memory= need"):
        cd(make(BiLSTM(4, 3, 2)), x, at="lstm")
    with pytest.raises(whence.InputError, match="ContextualDecomposition does not keep the directions apart"):
        whence.explain("sst-bilstm", "fine", method=ContextualDecomposition(), encoders=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision(dtype: torch.dtype, x: Tensor) -> None:
    model = make(BiLSTM(4, 3, 2))
    exact = cd(model, x).relevance
    found = cd(model.to(dtype), x.to(dtype), check=False)
    assert found.relevance.dtype == dtype
    # bfloat16 has eight bits, of which differences of nearly equal gates lose some
    assert_close(found.relevance.double(), exact, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.1)


def test_numbers_without_features_are_steps_of_their_own() -> None:
    model = make(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    x = torch.randn(2, 3, dtype=torch.float64)
    found = cd(model, x).check(1e-9)
    first, act, last = model.children()
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    w, b, z = first.weight.detach(), first.bias.detach(), first(x).detach()
    for d in range(3):
        beta = x[:, d : d + 1] * w[:, d]
        part = (act(beta + b) - act(b) + act(z) - act(z - beta)) / 2
        assert_close(found.relevance[:, d], part @ last.weight[0].detach())
    assert_close(found.absorbed["bias"], (act(b) @ last.weight[0] + last.bias[0]).detach().expand(2))


def test_it_leaves_no_trace_and_follows_its_inputs_device(x: Tensor) -> None:
    model = make(Tagger(nn.LSTM(4, 3, batch_first=True, num_layers=2, dropout=0.5), "max", 2)).train()
    before = state_of(model)
    found = cd(model, x)
    assert_same(before, state_of(model))
    with torch.device("meta"):
        assert cd(model, x).relevance.equal(found.relevance)


def test_an_unbatched_input_and_samples_in_blocks_have_the_same_steps(x: Tensor) -> None:
    lstm = make(nn.LSTM(4, 3, batch_first=True, bidirectional=True))
    assert isinstance(lstm, nn.LSTM)
    model = Tagger(lstm, "last", 2).double()
    batch = cd(model, x)
    assert_close(cd(model, x[1]).relevance, batch.relevance[1])

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, rows: Tensor) -> Tensor:
            return self.model(rows.view(3, 5, 4))

    assert_close(cd(Blocks(), x.reshape(15, 4)).relevance.view(3, 5, 4), batch.relevance)
