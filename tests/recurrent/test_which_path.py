"""Which path a layer takes on a GPU, asked on a machine that need not have one."""

import pytest
import torch
from torch import nn

from whence.cli.doctor import doctor
from whence.equations import Product
from whence.recurrent import dispatch
from whence.recurrent.cells import CELLS, LSTM, RNN_RELU
from whence.recurrent.lstm.weights import lstm_weights
from whence.recurrent.native.compiled import is_off
from whence.recurrent.native.layer import kernels
from whence.recurrent.weights import tensors

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
    assert dispatch._against_triton(LSTM, WEIGHTS, X, 2) is None
    monkeypatch.setenv("WHENCE_TRITON", "1")
    assert dispatch._against_triton(LSTM, WEIGHTS, X, 2) is None


@pytest.mark.usefixtures("fine_gpu")
def test_what_is_said_against_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatch._against_triton(LSTM, WEIGHTS, X.double(), 2) == "the Triton kernels compute in float32"
    needed = dispatch.concurrent_programs(300, 2)
    assert needed == 38
    assert dispatch._against_triton(LSTM, WIDE, X, 1) is None
    assert (
        dispatch._against_triton(LSTM, WIDE, X, 2)
        == "38 programs would have to run at the same time, and the GPU has 37 processors"
    )
    monkeypatch.setattr(dispatch, "_against_gpu", lambda device: "there is no Triton")
    assert dispatch._against_triton(LSTM, WEIGHTS, X, 2) == "there is no Triton"
    monkeypatch.setenv("WHENCE_TRITON", "off")
    assert dispatch._against_triton(LSTM, WEIGHTS, X, 2) == "WHENCE_TRITON is off"


@pytest.mark.parametrize(
    ("word", "off"), [("0", True), (" Off ", True), ("no", True), ("FALSE", True), ("1", False), ("", False)]
)
def test_a_variable_says_no(word: str, off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHENCE_TRITON", word)
    assert is_off("WHENCE_TRITON") is off


@pytest.mark.parametrize("product", ["all", "half"])
def test_a_layer_that_ran_says_on_which_path(product: Product) -> None:
    layer = dispatch.run_layer(LSTM, X, [WEIGHTS], [torch.zeros(1, 3, 3)] * 2, None, product=product)
    assert layer.path == dispatch.path(LSTM, WEIGHTS, X, product=product, directions=1).name
    assert (layer.path == "factored") == (product == "half")


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("product", ["half", "prop", "abs"])
def test_a_layer_without_products_is_fast_by_every_rule_for_products(name: str, product: Product) -> None:
    cell = CELLS[name]
    if kernels(cell, torch.float32).library is None:
        pytest.skip("no C compiler")
    weights = cell.weights(*cell.module(4, 3).parameters(), has_biases=True)
    assert dispatch.path(cell, weights, X, product="all").name == "compiled"
    assert dispatch.path(cell, weights, X, product=product).name == ("factored" if cell.has_products else "compiled")


@pytest.mark.usefixtures("fine_gpu")
def test_a_cell_without_triton_kernels_says_so() -> None:
    weights = RNN_RELU.weights(*nn.RNN(4, 3).parameters(), has_biases=True)
    assert dispatch._against_triton(RNN_RELU, weights, X, 2) == "there are no Triton kernels for nn.RNN (ReLU)"


def test_every_cell_is_pytorchs_layer() -> None:
    """Its name, weights and states are those of the module: the registry and PyTorch cannot drift apart."""
    for name, cell in CELLS.items():
        module = cell.module(4, 3)
        weights = cell.weights(*module.parameters(), has_biases=True)
        assert name == cell.sequence_function == module.mode.lower() and cell.step_function == f"{name}_cell"
        assert hasattr(torch, name) and hasattr(torch, cell.step_function)
        assert weights.hidden_size == 3 and len(weights.input) == 3 * cell.gates
        assert {field: each.shape for field, each in tensors(weights).items()}.items() <= weights.shapes().items()
        states = module(torch.zeros(2, 5, 4))[1]
        assert len(cell.states) == len(weights.state_sizes) == (len(states) if isinstance(states, tuple) else 1)


def test_the_doctor_lists_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    lines = capsys.readouterr().out.splitlines()
    for cell in CELLS.values():
        labels = [
            *(f"{cell.label} on the CPU, {dtype}" for dtype in ("float32", "float64")),
            *(each for each, _ in cell.variants),
        ]
        labels.append(f'{cell.label} with product="half", "prop" or "abs"')
        for label in labels:
            assert len([line for line in lines if line.startswith(f"{label}: ") and line.endswith(")")]) == 1, label
    assert "nn.LSTM with a projection: factored (there are no kernels for a projection)" in lines
