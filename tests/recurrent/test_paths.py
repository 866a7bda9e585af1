"""Every faster path is the reference: on odd sizes, ragged batches, given states, all settings of the rule."""

import subprocess
import sys
from collections.abc import Generator

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from whence import LRP
from whence.recurrent import compiled, dispatch
from whence.recurrent.gru import cpu as gru_cpu
from whence.recurrent.gru import reference as gru_reference
from whence.recurrent.lstm import cpu, reference
from whence.recurrent.weights import GRUWeights, LSTMWeights, lstm_weights

METHODS = [LRP(), LRP(delta=1.0), LRP(epsilon=0.1, delta=0.4, stabiliser="absorbed"), LRP(stabiliser="absorbed")]
PATHS = ["plain", "compiled"]


@pytest.fixture
def unwritten_is_nan() -> Generator[None]:
    """Memory that is not written to holds NaN, so that it cannot pass for a result."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


class Case:
    """Both directions of a layer with everything that can arrive at it."""

    def __init__(self, sizes: tuple[int, int, int, int], dtype: torch.dtype, *, ragged: bool, bias: bool = True) -> None:
        embedding, hidden, batch, steps = sizes
        generator = torch.Generator().manual_seed(sum(sizes))

        def numbers(*shape: int) -> Tensor:
            drawn = torch.randn(*shape, generator=generator, dtype=torch.float64) / 3
            return (drawn * (torch.rand(*shape, generator=generator) > 0.1)).to(dtype)

        def weights() -> LSTMWeights:
            parts = [numbers(4 * hidden, embedding), numbers(4 * hidden, hidden)]
            return lstm_weights(*parts, *([numbers(4 * hidden), numbers(4 * hidden)] if bias else []), has_biases=bias)

        self.weights = [weights(), weights()]
        self.x = [numbers(steps, batch, embedding) for _ in range(2)]
        self.states = [(numbers(batch, hidden), numbers(batch, hidden)) for _ in range(2)]
        self.lengths = torch.linspace(steps, 1, batch).round().long() if ragged else None
        self.r_outputs = [numbers(3, steps, batch, hidden) for _ in range(2)]
        self.r_states = [(numbers(3, batch, hidden), numbers(3, batch, hidden)) for _ in range(2)]
        if self.lengths is not None:
            active = (torch.arange(steps)[:, None] < self.lengths)[..., None]
            self.x, self.r_outputs = [x * active for x in self.x], [r * active for r in self.r_outputs]

    def check(self, method: LRP, name: str, tolerance: float, *, with_outputs: bool = True) -> None:
        if name == "compiled" and compiled.built("lstm/steps.c", self.x[0].dtype).library is None:
            pytest.skip("no C compiler")
        is_compiled = name == "compiled"
        tape = cpu.forward(self.x, self.weights, states=self.states, lengths=self.lengths, compiled=is_compiled)
        given = self.r_outputs if with_outputs else [None, None]
        swept = cpu.relevance(tape, self.weights, r_outputs=given, r_states=self.r_states, rule=method.rule)
        for d, found in enumerate(swept):
            plain = reference.forward(
                self.x[d].double(),
                _double(self.weights[d]),
                states=tuple(s.double() for s in self.states[d]),
                lengths=self.lengths,
            )
            r_outputs = self.r_outputs[d].double() * with_outputs
            expected = reference.relevance(
                plain,
                _double(self.weights[d]),
                r_outputs=r_outputs,
                r_states=tuple(r.double() for r in self.r_states[d]),
                rule=method.rule,
            )
            close(tape.outputs()[d], plain.outputs(), tolerance)
            for mine, theirs in zip(tape.final()[d], plain.final(), strict=True):
                close(mine, theirs, tolerance)
            close(found.x, expected.x, tolerance)
            for mine, theirs in zip(found.states, expected.states, strict=True):
                close(mine, theirs, tolerance)
            close(found.bias, expected.bias, tolerance)
            close(found.stabiliser, expected.stabiliser, tolerance)


def _double(weights: LSTMWeights) -> LSTMWeights:
    return LSTMWeights(*(None if each is None else each.double() for each in weights))


def close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Within a part of the largest amount: small ones are differences of large ones."""
    assert not found.isnan().any()
    assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * max(1e-3, float(expected.abs().max())))


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 5, 2, 4), (4, 63, 3, 5), (7, 65, 1, 3), (2, 127, 4, 2)], ids=str)
def test_double_precision(name: str, method: LRP, ragged: bool, sizes: tuple[int, int, int, int]) -> None:
    Case(sizes, torch.float64, ragged=ragged).check(method, name, 1e-10)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    "method", [LRP(epsilon=0.1), LRP(epsilon=0.1, delta=1.0), LRP(epsilon=0.1, stabiliser="absorbed")], ids=str
)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (60, 60, 5, 9), (4, 63, 3, 5), (7, 65, 1, 3), (2, 127, 4, 2)], ids=str)
def test_single_precision(name: str, method: LRP, ragged: bool, sizes: tuple[int, int, int, int]) -> None:
    """Against the reference in double precision; ε is large, for a small one magnifies rounding whatever the path."""
    Case(sizes, torch.float32, ragged=ragged).check(method, name, 1e-4)


@pytest.mark.parametrize("name", PATHS)
def test_without_biases_and_without_relevance_at_outputs(name: str) -> None:
    for method in METHODS:
        Case((4, 6, 3, 5), torch.float64, ragged=True, bias=False).check(method, name, 1e-10)
        Case((4, 6, 3, 5), torch.float64, ragged=False).check(method, name, 1e-10, with_outputs=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernels_activations_are_pytorchs(dtype: torch.dtype) -> None:
    """One cell with the wanted numbers as its sums: i and o wide open, the candidate a, so that h = tanh(tanh(a))."""
    if compiled.built("lstm/steps.c", dtype).library is None:
        pytest.skip("no C compiler")
    a = torch.cat([torch.linspace(-30, 30, 301), torch.tensor([0.0, -0.0, 1e-8, -1e-3, 0.09, 0.11, 1e4, -1e4])]).to(dtype)
    weights = LSTMWeights(
        torch.tensor([[0.0], [0.0], [1.0], [0.0]]).to(dtype),
        torch.zeros(4, 1, dtype=dtype),
        torch.tensor([50.0, 0, 0, 50.0]).to(dtype),
        None,
    )
    zero = torch.zeros(len(a), 1, dtype=dtype)
    tape = cpu.forward([a[None, :, None]], [weights], states=[(zero, zero)], lengths=None)
    assert tape.is_compiled
    tolerance = 4 * torch.finfo(dtype).eps
    assert_close(tape.final()[0][0][:, 0], a.tanh().tanh(), rtol=tolerance, atol=tolerance)


def test_a_layer_says_which_path_it_takes_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    lstm, gru = nn.LSTM(4, 3), nn.GRU(4, 3)
    x = torch.randn(5, 2, 4)
    weights = lstm_weights(*lstm.parameters(), has_biases=True)
    assert dispatch.path(weights, x, product="all").name in ("plain", "compiled")
    assert dispatch.path(weights, x, product="half").name == "reference"
    assert dispatch.path(weights, x.bfloat16(), product="all").reason == "there is no faster path for torch.bfloat16 on cpu"
    assert dispatch.path(gru, x, product="all") == (
        "reference",
        "only nn.LSTM and nn.GRU have a faster path",
    )  # a layer is no weights
    compiled.built.cache_clear()
    monkeypatch.setenv("WHENCE_COMPILED", "0")
    assert dispatch.path(weights, x, product="all") == ("plain", "WHENCE_COMPILED is 0")
    compiled.built.cache_clear()
    monkeypatch.setenv("WHENCE_COMPILED", "1")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert dispatch.path(weights, x, product="all") == ("plain", "there is no C compiler")
    compiled.built.cache_clear()
    monkeypatch.setenv("CC", "false")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert dispatch.path(weights, x, product="all").reason.startswith("it could not be built")
    compiled.built.cache_clear()


def test_the_same_through_the_public_door(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential()

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(10, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0])

    model, x = Tagger().double(), torch.randn(3, 6, 4, dtype=torch.float64)
    found = {}
    for setting in ("1", "0"):
        compiled.built.cache_clear()
        monkeypatch.setenv("WHENCE_COMPILED", setting)
        found[setting] = whence.relevance(model, x, target=("all", 1)).check(1e-10).relevance
    monkeypatch.setattr(dispatch, "path", lambda *args, **kwargs: dispatch.Path("reference", "for this test"))
    slow = whence.relevance(model, x, target=("all", 1)).relevance
    compiled.built.cache_clear()
    assert_close(found["1"], slow, rtol=1e-9, atol=1e-11)
    assert_close(found["0"], slow, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("with_outputs", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 5, 2, 4), (4, 63, 3, 5), (7, 65, 1, 3), (2, 127, 4, 2)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_gru(method: LRP, ragged: bool, with_outputs: bool, sizes: tuple[int, int, int, int], bias: bool) -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-3)):
        if compiled.built("gru/steps.c", dtype).library is None:
            pytest.skip("no C compiler")
        if dtype == torch.float32 and method.epsilon < 0.1:
            continue  # a small ε magnifies rounding whatever the path
        case = Case(sizes, dtype, ragged=ragged)
        hidden = sizes[1]
        weights = [
            GRUWeights(
                own.input[: 3 * hidden],
                own.hidden[: 3 * hidden],
                *([own.bias[: 3 * hidden], own.bias[hidden:]] if bias else [None, None]),
            )
            for own in case.weights
        ]
        states, r_states = [own[:1] for own in case.states], [own[:1] for own in case.r_states]
        tape = gru_cpu.forward(case.x, weights, states=states, lengths=case.lengths)
        given = case.r_outputs if with_outputs else [None, None]
        for d, found in enumerate(gru_cpu.relevance(tape, weights, r_outputs=given, r_states=r_states, rule=method.rule)):
            exact = GRUWeights(*(None if each is None else each.double() for each in weights[d]))
            plain = gru_reference.forward(case.x[d].double(), exact, states=(states[d][0].double(),), lengths=case.lengths)
            expected = gru_reference.relevance(
                plain,
                exact,
                r_outputs=case.r_outputs[d].double() * with_outputs,
                r_states=(r_states[d][0].double(),),
                rule=method.rule,
            )
            close(tape.outputs()[d], plain.outputs(), tolerance)
            close(found.x, expected.x, tolerance)
            close(found.states[0], expected.states[0], tolerance)
            close(found.bias, expected.bias, tolerance)
            close(found.stabiliser, expected.stabiliser, tolerance)


def test_loading_a_kernel_leaves_the_processors_numbers_alone() -> None:
    """In a process of its own: a library linked with -ffast-math would make the smallest numbers zero everywhere."""
    code = """
import numpy as np, torch
from whence.recurrent.compiled import built
for source in ("lstm/steps.c", "gru/steps.c"):
    for dtype in (torch.float32, torch.float64):
        built(source, dtype)
assert np.float64(5e-324) * np.float64(1.0) > 0 and float(torch.tensor([1e-40]) * 1) > 0
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
