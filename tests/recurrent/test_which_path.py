"""Which path a layer takes on a GPU, asked on a machine that need not have one."""

import pytest
import torch
from torch import nn

from whence.recurrent import dispatch
from whence.recurrent.native.compiled import is_off
from whence.recurrent.weights import lstm_weights

WEIGHTS = lstm_weights(*nn.LSTM(4, 3).parameters(), has_biases=True)
WIDE = lstm_weights(*nn.LSTM(1, 300, device="meta").parameters(), has_biases=True)
X = torch.zeros(2, 3, 4)


@pytest.fixture
def fine_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHENCE_TRITON", raising=False)
    monkeypatch.setattr(dispatch, "_against_gpu", lambda device: None)
    monkeypatch.setattr(dispatch, "processors", lambda device: 37)


@pytest.mark.usefixtures("fine_gpu")
def test_nothing_is_said_against_the_kernels_where_they_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatch._against_triton(WEIGHTS, X, 2) is None
    monkeypatch.setenv("WHENCE_TRITON", "1")
    assert dispatch._against_triton(WEIGHTS, X, 2) is None


@pytest.mark.usefixtures("fine_gpu")
def test_what_is_said_against_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatch._against_triton(WEIGHTS, X.double(), 2) == "the Triton kernels have single precision"
    needed = dispatch.programs_that_meet(300, 2)
    assert needed == 38
    assert dispatch._against_triton(WIDE, X, 1) is None
    assert dispatch._against_triton(WIDE, X, 2) == "38 programs would have to meet, and the GPU has 37 processors"
    monkeypatch.setattr(dispatch, "_against_gpu", lambda device: "there is no Triton")
    assert dispatch._against_triton(WEIGHTS, X, 2) == "there is no Triton"
    monkeypatch.setenv("WHENCE_TRITON", "off")
    assert dispatch._against_triton(WEIGHTS, X, 2) == "WHENCE_TRITON is off"


@pytest.mark.parametrize(
    ("word", "off"), [("0", True), (" Off ", True), ("no", True), ("FALSE", True), ("1", False), ("", False)]
)
def test_a_variable_says_no(word: str, off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHENCE_TRITON", word)
    assert is_off("WHENCE_TRITON") is off
