"""What a kernel in C must not take on trust: shapes, precisions, memory that others write to, and its own file."""

import gc
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import LRP, InputError, NoRuleError, explain, load, relevance
from whence.recurrent import dispatch
from whence.recurrent.cells import GRU
from whence.recurrent.gru.weights import gru_weights
from whence.recurrent.native import buffers, compiled
from whence.recurrent.native.layer import kernels


class Loop(nn.Module):
    """A cell, step by step, from a given state."""

    def __init__(self, cell: str, state: Any = None) -> None:
        super().__init__()
        self.cell, self.head, self.state = (
            {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}[cell](5, 4),
            nn.Linear(4, 2),
            state,
        )

    def forward(self, x: Tensor) -> Tensor:
        state = self.state
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.head(state[0] if isinstance(state, tuple) else state)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize(
    "x", [torch.ones(3, 2, 6), torch.ones(3, 2, 4), torch.ones(3, 2, 5).double()], ids=["too wide", "too narrow", "double"]
)
def test_inputs_that_do_not_fit_are_refused(cell: str, x: Tensor) -> None:
    with pytest.raises(InputError, match="the model cannot run on inputs of shape"):
        relevance(Loop(cell), x, target=0)


@pytest.mark.parametrize(
    "state",
    [
        (torch.randn(1, 4), torch.randn(1, 4)),
        (torch.randn(300, 4), torch.randn(300, 1)),
        (torch.randn(300, 4), torch.randn(1, 4)),
        (torch.randn(300, 3), torch.randn(300, 4)),
    ],
    ids=["one row", "narrow c", "one row of c", "narrow h"],
)
def test_states_that_do_not_fit_are_refused(state: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(InputError, match=r"the model cannot run on inputs of shape .*hidden[01]"):
        relevance(Loop("lstm", state), torch.randn(300, 2, 5), target=0)


class Promoted(nn.Module):
    """Behind the layer, everything is in double precision."""

    def __init__(self, layer: type[nn.LSTM] | type[nn.GRU], how: str) -> None:
        super().__init__()
        self.layer, self.how = layer(5, 4, batch_first=True), how

    def forward(self, x: Tensor) -> Tensor:
        out, final = self.layer(x)
        if self.how == "product":
            return (final[0] if isinstance(final, tuple) else final)[-1] * torch.ones(4, dtype=torch.float64)
        return torch.cat([out[:, -1], out[:, 0].double()], -1)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("how", ["product", "cat"])
def test_relevance_that_arrives_in_another_precision(layer: type[nn.LSTM] | type[nn.GRU], how: str) -> None:
    torch.manual_seed(0)
    model, x = Promoted(layer, how), torch.randn(6, 7, 5)
    found = relevance(model, x, target=0, method=LRP(epsilon=0.1)).check()
    exact = relevance(model.double(), x.double(), target=0, method=LRP(epsilon=0.1)).relevance
    assert_close(found.relevance.double(), exact, rtol=1e-4, atol=1e-5)


class WritesOver(nn.Module):
    """Writes over what the layer was given, or started from, after it ran."""

    def __init__(self, layer: str, what: str) -> None:
        super().__init__()
        self.layer = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[layer](5, 4, batch_first=True)
        self.what = what

    def forward(self, x: Tensor) -> Tensor:
        given, h = x * 1.5, x[None, :, 0, :4] * 0.5
        states = (h, h.clone()) if isinstance(self.layer, nn.LSTM) else h
        out = self.layer(given, states)[0][:, -1]
        if self.what == "input":
            given.mul_(0.5)
        elif self.what == "state":
            h.mul_(3.0)
        return out


@pytest.mark.parametrize("layer", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("what", ["input", "state"])
@pytest.mark.parametrize(
    "settings", [{}, {"memory": True}, {"method": LRP(epsilon=0.0, delta=1.0)}, {"by_step": True}], ids=str
)
def test_what_is_written_over_later_changes_nothing(layer: str, what: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, x = WritesOver(layer, what).double(), torch.randn(6, 7, 5, dtype=torch.float64)
    found = relevance(model, x, target=0, **settings).check(1e-6)
    model.what = "nothing"
    assert_close(found.relevance, relevance(model, x, target=0, **settings).relevance)


@pytest.mark.parametrize("target", [0, "all"])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_single_sample_by_step_balances(target: Any, steps: int) -> None:
    model = Loop("lstm").double()
    model.cell = nn.LSTM(5, 4, batch_first=True).double()
    model.forward = lambda x: model.head(model.cell(x)[0][:, -1])  # type: ignore[method-assign]
    relevance(model, torch.randn(1, steps, 5, dtype=torch.float64), target=target, by_step=True).check(1e-9)


def test_one_text_is_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []
    inner = LRP.relevance
    monkeypatch.setattr(LRP, "relevance", lambda self, *args, **more: (runs.append(args), inner(self, *args, **more))[1])
    explain(load("sst-bilstm"), "neither funny nor suspenseful")
    assert len(runs) == 1


def test_weights_that_are_stored_with_the_other_sign() -> None:
    torch.manual_seed(0)
    model = Promoted(nn.LSTM, "cat").double()
    expected = relevance(model, x := torch.randn(2, 3, 5, dtype=torch.float64), target=0).relevance
    turned = cast(Any, torch)._neg_view(-cast(Tensor, model.layer.weight_hh_l0).detach())
    model.layer.weight_hh_l0 = nn.Parameter(turned)
    assert_close(relevance(model, x, target=0).relevance, expected)


def test_many_threads_borrow_memory_at_once() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for n in range(2000):
                mine = buffers.borrow((n % 7 + 1, 3), torch.float64).fill_(n)
                assert (mine == n).all()
                buffers.give_back(mine)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", None], ids=["empty", "cut short", "half"])
def test_a_damaged_kernel_is_built_again(damage: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.built.cache_clear()
    try:
        if kernels(GRU, torch.float32).library is None:
            pytest.skip("no C compiler")
        (library,) = (tmp_path / "whence" / "kernels").glob("*.so")
        whole = library.read_bytes()
        library.unlink()
        library.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
        compiled.built.cache_clear()
        assert kernels(GRU, torch.float32).reason.startswith("built by")
        assert len(library.read_bytes()) == len(whole)
    finally:
        compiled.built.cache_clear()


def test_a_compiler_with_options_and_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    weights = gru_weights(*nn.GRU(2, 2).parameters(), has_biases=True)
    for setting, reason in (("cc -O1", "built by"), ("false", "it could not be built by false")):
        compiled.built.cache_clear()
        monkeypatch.setenv("CC", setting)
        assert kernels(GRU, torch.float32).reason.startswith(reason)
    assert dispatch.path(GRU, weights, torch.zeros(1, 1, 2), product="all").name == "factored"
    compiled.built.cache_clear()


def gru_layer(change: dict[str, Tensor], x: Tensor | None = None) -> dispatch.Chosen:
    """Both directions of a GRU, the second with something else among its weights."""
    torch.manual_seed(0)
    first = gru_weights(torch.randn(12, 5), torch.randn(12, 4), torch.randn(12), torch.randn(12), has_biases=True)
    x = torch.randn(3, 2, 5) if x is None else x
    weights, states = [first, first._replace(**change)], [torch.zeros(2, x.shape[1], 4)]
    return dispatch.run_layer(GRU, x, weights, states, None, product="all")


@pytest.mark.parametrize(
    "change",
    [
        {"input": torch.ones(12, 4)},
        {"hidden": torch.ones(12, 3)},
        {"hidden": torch.ones(9, 4)},
        {"input_bias": torch.ones(3)},
        {"hidden_bias": torch.ones(12, 1)},
    ],
    ids=["narrow input", "narrow hidden", "short hidden", "short bias", "flat bias"],
)
def test_weights_that_do_not_fit_are_refused(change: dict[str, Tensor]) -> None:
    with pytest.raises(RuntimeError, match="weights have shape"):
        gru_layer(change)


def test_a_state_too_many_is_refused() -> None:
    weights = gru_weights(torch.randn(12, 5), torch.randn(12, 4), has_biases=False)
    with pytest.raises(RuntimeError, match="a recurrent layer with 1 states is given 2"):
        dispatch.run_layer(GRU, torch.randn(3, 2, 5), [weights], [torch.zeros(1, 2, 4)] * 2, None, product="all")


def test_a_layer_without_rows() -> None:
    layer = gru_layer({}, torch.zeros(3, 0, 5))
    swept = layer.relevance(torch.zeros(1, 3, 0, 8), [torch.zeros(1, 2, 0, 4)], LRP().rules)
    assert swept.x.shape == (1, 3, 0, 5)


def test_an_input_that_is_stored_with_the_other_sign_and_a_stabiliser_that_is_all_but_none() -> None:
    x, arriving, rules = torch.randn(3, 2, 5), [torch.ones(1, 2, 2, 4)], LRP(epsilon=0.1).rules
    expected = gru_layer({}, x).relevance(None, arriving, rules).x
    assert_close(
        gru_layer({}, cast(Any, torch)._neg_view(-x)).relevance(None, arriving, rules).x, expected, rtol=1e-4, atol=1e-4
    )
    assert gru_layer({}, x).relevance(None, arriving, LRP(epsilon=1e-40).rules).x.isfinite().all()


def test_memory_is_lent_while_the_collector_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector may run in the middle of lending; whatever it then finalises must not wait for the same lock."""

    class Collecting(dict[torch.dtype, list[Tensor]]):
        def __missing__(self, dtype: torch.dtype) -> list[Tensor]:
            gc.collect()
            return self.setdefault(dtype, [])

    def refused() -> None:
        model = nn.LSTM(5, 4, batch_first=True)
        with pytest.raises(NoRuleError):
            relevance(model, torch.randn(3, 2, 5), target=lambda output: torch.lgamma(output[0])[:, 0, 0])

    def work() -> None:
        gc.disable()
        try:
            refused()
            monkeypatch.setattr(buffers, "_free", Collecting())
            refused()
            done.set()
        finally:
            gc.enable()

    done = threading.Event()
    threading.Thread(target=work, daemon=True).start()
    assert done.wait(20)
