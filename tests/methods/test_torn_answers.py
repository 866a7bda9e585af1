"""What is explained is the model as it is now: no call leaves anything behind, or reads what another one left."""

import copy
import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from whence.corpus.storage import storage_of
from whence.methods import predicting
from whence.text.tokenizer import TreebankTokenizer
from whence.training.lock import sole_use

B, T, E, H, C = 3, 5, 4, 6, 3


class Ended(nn.Module):
    """An LSTM, a hidden dense layer whose activation may be exchanged, and an end that may be, too."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.hidden, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, H), nn.Linear(H, 1)
        self.other, self.scale = nn.Linear(H, H), nn.Parameter(torch.zeros(1))
        self.act: nn.Module = nn.ReLU()
        self.end: nn.Module = nn.Sigmoid()
        self.is_other, self.shift = False, 1.0

    def forward(self, x: Tensor) -> Tensor:
        h = self.lstm(x)[0][:, -1]
        h = h + self.scale * (self.other if self.is_other else self.hidden)(h)  # a ReZero connection
        return self.end(self.head(self.act(5 * h - self.shift)))


def made(change: Callable[[Any], None] | None = None) -> Any:
    torch.manual_seed(0)
    model = Ended().double().eval()
    if change is not None:
        change(model)
    return model


def end_removed(model: Any) -> None:
    model.end = nn.Identity()


def rezero_trained(model: Any) -> None:
    with torch.no_grad():
        model.scale.fill_(0.7)


def larger_than_the_shift(model: Any) -> None:
    model.shift = -3.0


def another_layer_runs(model: Any) -> None:
    rezero_trained(model)
    model.is_other = True


def weights_negated(model: Any) -> None:
    model.head.weight.data = -model.head.weight.data.clone()
    model.hidden.weight.data = 2 * model.hidden.weight.data


def weights_copied(model: Any) -> None:
    rezero_trained(model)
    for each in model.parameters():
        each.data = each.data.clone()
    model.head.weight.data.mul_(-1)


class Bounded(nn.Module):
    """x · tanh(x) + 1: what the 1 scores is absorbed in the name of the layer."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tanh(x) + 1


class Either(nn.Module):
    """One of two layers that compute the same."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, C)
        self.one, self.other, self.is_other = Bounded(), Bounded(), False

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.other if self.is_other else self.one)(self.lstm(x)[0][:, -1]))


def test_the_ledger_names_the_layer_that_runs() -> None:
    torch.manual_seed(0)
    model, x = Either().double(), torch.randn(B, T, E, dtype=torch.float64)
    before = {name for _ in range(3) for name in whence.relevance(model, x, target=0).absorbed}
    model.is_other = True
    after = set(whence.relevance(model, x, target=0).absorbed)
    assert any(name.startswith("one.") for name in before)
    assert after == {name.replace("one.", "other.") for name in before}


class Certain(nn.Module):
    """One output for two classes, with an end that may be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(6, E), nn.LSTM(E, H, batch_first=True), nn.Linear(H, 1)
        self.end: nn.Module = nn.Sigmoid()

    def forward(self, ids: Tensor) -> Tensor:
        return self.end(self.head(self.lstm(self.words(ids))[0][:, -1])).squeeze(-1)


def test_an_output_is_a_probability_only_as_long_as_it_is_one() -> None:
    torch.manual_seed(0)
    module = Certain()
    rest = TreebankTokenizer(), whence.Vocabulary("a good bad film ,".split()), ["bad", "good"]
    pipeline = whence.Pipeline(module, *rest)
    texts = ["a good film", "a bad , bad film"]
    for _ in range(3):
        whence.explain(pipeline, texts)
    module.end = nn.Identity()
    found = whence.explain(pipeline, texts, target="good")
    for text, explanation in zip(texts, found, strict=True):
        forms = [token.form for token in pipeline.tokenizer.tokens(text)]
        logit = float(module(torch.tensor([pipeline.vocabulary.ids(forms)])).detach())
        assert explanation.scores["good"] - explanation.scores["bad"] == pytest.approx(logit, abs=1e-6)
    fresh = whence.explain(whence.Pipeline(copy.deepcopy(module), *rest), texts, target="good")
    assert [each.relevance for each in found] == [each.relevance for each in fresh]


CHANGES = [end_removed, rezero_trained, larger_than_the_shift, another_layer_runs, weights_negated, weights_copied]
METHODS = [whence.LRP(), whence.LRP(head="gamma"), whence.LRP(head="alpha-beta"), whence.LRP(product="half", delta=1.0)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_changed_model_is_explained_as_one_that_was_always_so(change: Callable[[Any], None], method: whence.LRP) -> None:
    model = made()
    x = torch.randn(B, T, E, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for _ in range(3):
        whence.relevance(model, 0.1 * x, method=method)
    change(model)
    found, expected = (whence.relevance(each, x, method=method).check() for each in (model, made(change)))
    assert_close(found.relevance, expected.relevance, rtol=0, atol=0)
    assert_close(dict(found.absorbed), dict(expected.absorbed), rtol=0, atol=0)
    assert_close(found.score, expected.score, rtol=0, atol=0)
    assert found.choices == expected.choices
    if isinstance(model.end, nn.Identity):
        assert_close(found.score, model(x)[:, 0].detach())
    if model.is_other:
        assert not any(name.startswith("hidden.") for name in found.absorbed)
        assert method.delta == 1 or any(name.startswith("other.") for name in found.absorbed)


class Noting(nn.Module):
    """Keeps what it attended to as an attribute, and counts its calls, which change its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.key, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, 1), nn.Linear(H, C)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        h = self.lstm(x)[0]
        self.attention = self.key(h).softmax(1)
        return self.head((self.attention * h).sum(1)) * self.calls


@pytest.mark.parametrize("method", ["lrp", "gi", "ig", "occlusion"])
def test_two_threads_leave_none_of_their_values_behind(method: str) -> None:
    """The second call begins while the values of the first are there, and ends after it."""
    torch.manual_seed(0)
    model, x = Noting().double(), torch.randn(B, T, E, dtype=torch.float64)
    has_run = {name: threading.Event() for name in ("first", "second")}
    may_end = {"first": has_run["second"], "second": threading.Event()}
    found: dict[str, whence.Result] = {}

    def explained(name: str, rows: Tensor) -> None:
        def target(output: Tensor) -> Tensor:
            has_run[name].set()
            assert may_end[name].wait(30)
            return output[:, 0]

        found[name] = whence.relevance(model, rows, target=target, method=method)

    given = {"first": x, "second": x[:1]}
    expected = {
        name: whence.relevance(model, rows, target=lambda output: output[:, 0], method=method) for name, rows in given.items()
    }
    threads = {name: threading.Thread(target=explained, args=(name, rows)) for name, rows in given.items()}
    threads["first"].start()
    assert has_run["first"].wait(30)
    threads["second"].start()
    threads["first"].join()
    may_end["second"].set()
    threads["second"].join()
    assert model.calls == 0 and "attention" not in vars(model)
    for name, each in expected.items():
        assert_close(found[name].relevance, each.relevance)
        assert_close(found[name].score, each.score)


def test_many_threads_on_a_model_that_changes_itself() -> None:
    torch.manual_seed(0)
    model, inputs = Noting().double(), torch.randn(8, B, T, E, dtype=torch.float64)
    expected = [whence.relevance(copy.deepcopy(model), x, target=0).relevance for x in inputs]
    found: list[list[Tensor]] = [[] for _ in inputs]

    def work(n: int) -> None:
        for _ in range(3):
            found[n].append(whence.relevance(model, inputs[n], target=0).relevance)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert model.calls == 0 and "attention" not in vars(model) and not predicting._STATES
    for own, each in zip(found, expected, strict=True):
        assert len(own) == 3
        for one in own:
            assert_close(one, each)


@pytest.mark.parametrize("kind", ["corpus", "training"])
def test_an_interrupt_as_soon_as_a_lock_is_taken_lets_it_go(kind: str, tmp_path: Path) -> None:
    locked = storage_of(str(tmp_path)).locked if kind == "corpus" else lambda: sole_use(tmp_path)
    code = (inspect.unwrap(locked) if kind == "corpus" else inspect.unwrap(sole_use)).__code__

    def run(at: int) -> BaseException | None:
        """The interrupt that came at a line of the lock's own code, if it has so many."""
        lines = 0

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal lines
            if frame.f_code is not code:
                return None
            lines += event == "line"
            if lines == at:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        try:
            sys.settrace(trace)
            with locked():
                sys.settrace(None)
                return None
        except KeyboardInterrupt as error:
            return error  # its traceback keeps the lock alive
        finally:
            sys.settrace(None)

    kept: list[BaseException] = []
    while (interrupt := run(1 + len(kept))) is not None:
        kept.append(interrupt)
    assert len(kept) > 5
