"""Every faster path is the reference: on odd sizes, ragged batches, given states, all settings of the rule."""

import copy
import importlib
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from whence import LRP
from whence.recurrent import dispatch
from whence.recurrent.cells import CELLS, LSTM
from whence.recurrent.directions import DirectionsLayer, Way
from whence.recurrent.lstm import plain
from whence.recurrent.lstm.weights import LSTMWeights, lstm_weights
from whence.recurrent.native import compiled
from whence.recurrent.native import layer as native
from whence.recurrent.triton import grid

METHODS = [LRP(), LRP(delta=1.0), LRP(epsilon=0.1, delta=0.4, stabiliser="absorbed"), LRP(stabiliser="absorbed")]
PATHS = [("lstm", "plain"), *((cell, "compiled") for cell in CELLS)]


@pytest.fixture
def unwritten_is_nan() -> Generator[None]:
    """Memory that is not written to holds NaN, so that it cannot pass for a result."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


SIZES = [(1, 1, 1, 1), (3, 5, 2, 4), (4, 63, 3, 5), (7, 65, 1, 3), (2, 127, 4, 2), (33, 3, 37, 3)]


class Case:
    """Both directions of a layer with everything that can arrive at it: sizes are embedding, state, batch and steps."""

    def __init__(
        self,
        cell: str,
        sizes: tuple[int, int, int, int],
        dtype: torch.dtype,
        *,
        ragged: bool = False,
        bias: bool = True,
        targets: int = 3,
    ) -> None:
        embedding, hidden, batch, steps = sizes
        generator = torch.Generator().manual_seed(sum(sizes))

        def numbers(*shape: int) -> Tensor:
            drawn = torch.randn(*shape, generator=generator, dtype=torch.float64) / 3
            return (drawn * (torch.rand(*shape, generator=generator) > 0.1)).to(dtype)

        self.cell, rows = CELLS[cell], CELLS[cell].gates * hidden
        parts = [[numbers(rows, embedding), numbers(rows, hidden), numbers(rows), numbers(rows)] for _ in range(2)]
        self.weights: list[Any] = [self.cell.weights(*(own if bias else own[:2]), has_biases=bias) for own in parts]
        self.x = numbers(steps, batch, embedding)
        self.states = [numbers(2, batch, hidden) for _ in self.cell.states]
        self.lengths = torch.linspace(steps, 1, batch).round().long() if ragged else None
        self.r_outputs: Tensor | None = numbers(targets, steps, batch, 2 * hidden)
        self.r_states = [numbers(targets, 2, batch, hidden) for _ in self.cell.states]
        if self.lengths is not None:
            active = (torch.arange(steps)[:, None] < self.lengths)[..., None]
            self.x, self.r_outputs = self.x * active, self.r_outputs * active

    def layer(self, name: str) -> Any:
        if name == "compiled":
            if native.kernels(self.cell, self.x.dtype).library is None:
                pytest.skip("no C compiler")
            return native.NativeLayer(self.cell, self.x, self.weights, self.states, self.lengths)
        if name == "triton":
            return gpu_layer().TritonLayer(self.cell, self.x, self.weights, self.states, self.lengths)
        return DirectionsLayer(self.cell, self.x, self.weights, self.states, self.lengths, way=cast(Way, name))

    def scaled(self, by: float) -> "Case":
        """With smaller weights, as large layers have."""
        self.weights = [type(own)(*(None if each is None else each * by for each in own)) for own in self.weights]
        return self

    def one_way(self) -> "Case":
        """The first direction alone."""
        hidden = self.states[0].shape[-1]
        self.weights, self.states = self.weights[:1], [state[:1] for state in self.states]
        self.r_states = [r[:, :1] for r in self.r_states]
        self.r_outputs = cast(Tensor, self.r_outputs)[..., :hidden]
        return self

    def cuda(self) -> "Case":
        """On the GPU."""

        def moved(thing: Any) -> Any:
            return [moved(each) for each in thing] if isinstance(thing, list) else None if thing is None else thing.cuda()

        self.weights = [type(own)(*(moved(each) for each in own)) for own in self.weights]
        for name in ("x", "states", "lengths", "r_outputs", "r_states"):
            setattr(self, name, moved(getattr(self, name)))
        return self

    def double(self) -> "Case":
        made = copy.copy(self)
        made.weights = [type(own)(*(None if each is None else each.double() for each in own)) for own in self.weights]
        made.x, made.states = self.x.double(), [state.double() for state in self.states]
        made.r_outputs = None if self.r_outputs is None else self.r_outputs.double()
        made.r_states = [r.double() for r in self.r_states]
        return made

    def check(self, method: LRP, name: str, tolerance: float, *, direction: int | None = None, by_step: bool = False) -> None:
        exact = self.double()
        mine, theirs = self.layer(name), exact.layer("reference")
        close(mine.outputs(), theirs.outputs(), tolerance)
        for found, expected in zip(mine.final(), theirs.final(), strict=True):
            close(found, expected, tolerance)
        settings = {"direction": direction, "by_step": by_step}
        swept = mine.relevance(self.r_outputs, self.r_states, method.rules, **settings)
        right = theirs.relevance(exact.r_outputs, exact.r_states, method.rules, **settings)
        for found, expected in zip((swept.x, *swept.states), (right.x, *right.states), strict=True):
            close(found, expected, tolerance)
        close(swept.bias, right.bias, tolerance)
        close(swept.stabiliser, right.stabiliser, tolerance)


def gpu_layer() -> Any:
    """The layer by Triton kernels, which the interpreter runs on the CPU."""
    pytest.importorskip("triton")
    found = importlib.import_module("whence.recurrent.triton.layer")
    if not found.IS_INTERPRETED:
        pytest.skip("there is a GPU: tests/test_cuda.py runs the kernels on it")
    return found


def close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Within a part of the largest amount: small ones are differences of large ones."""
    assert not found.isnan().any()
    assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * max(1e-3, float(expected.abs().max())))


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize(("cell", "name"), PATHS)
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_double_precision(cell: str, name: str, method: LRP, ragged: bool, sizes: tuple[int, int, int, int]) -> None:
    Case(cell, sizes, torch.float64, ragged=ragged).check(method, name, 1e-10)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize(("cell", "name"), PATHS)
@pytest.mark.parametrize(
    "method", [LRP(epsilon=0.1), LRP(epsilon=0.1, delta=1.0), LRP(epsilon=0.1, stabiliser="absorbed")], ids=str
)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sizes", [(60, 60, 5, 9), *SIZES], ids=str)
def test_single_precision(cell: str, name: str, method: LRP, ragged: bool, sizes: tuple[int, int, int, int]) -> None:
    """Against the reference in double precision; ε is large, for a small one magnifies rounding whatever the path."""
    Case(cell, sizes, torch.float32, ragged=ragged).check(method, name, 1e-4)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize(("cell", "name"), PATHS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_what_a_caller_may_ask_for(cell: str, name: str, method: LRP, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few or many targets, no biases, no relevance at the outputs, samples first in memory, one direction, sums by step,
    segments, threads."""
    for ragged in (False, True):
        for targets in (1, 5):
            Case(cell, (4, 6, 3, 5), torch.float64, ragged=ragged, targets=targets).check(method, name, 1e-10)
        case = Case(cell, (4, 6, 3, 5), torch.float64, ragged=ragged, bias=False)
        case.check(method, name, 1e-10)
        case = Case(cell, (4, 6, 9, 5), torch.float64, ragged=ragged)
        for direction in (None, 0, 1):
            for by_step in (False, True):
                case.check(method, name, 1e-10, direction=direction, by_step=by_step)
        case.x = case.x.transpose(0, 1).contiguous().transpose(0, 1)
        case.check(method, name, 1e-10)
        case.x = case.x.permute(2, 0, 1).contiguous().permute(1, 2, 0)  # and features last of all
        case.check(method, name, 1e-10)
        with monkeypatch.context() as patch:
            patch.setattr(native, "TAPE", 6000)
            case.check(method, name, 1e-10)
            patch.setattr(native, "WORTH_A_THREAD", 1)
            patch.setattr(torch, "get_num_threads", lambda: 2)
            case.check(method, name, 1e-10)
            patch.setattr(native, "TAPE", 28000)  # segments of a few steps each
            Case(cell, (4, 6, 9, 41), torch.float64, ragged=ragged).check(method, name, 1e-9)
        case.r_outputs = None
        case.check(method, name, 1e-10)


@pytest.mark.parametrize(
    "method", [LRP(epsilon=0.1), LRP(epsilon=0.1, delta=0.7), LRP(epsilon=0.1, stabiliser="absorbed")], ids=str
)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (4, 63, 3, 5), (7, 6, 9, 41)], ids=str)
def test_plain_with_the_factors_of_all_steps_at_once(
    method: LRP, sizes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "is_at_once", lambda tape: True)  # as on a GPU
    Case("lstm", sizes, torch.float64).check(method, "plain", 1e-10)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize(
    "method", [LRP(epsilon=0.1), LRP(epsilon=0.1, delta=0.7), LRP(epsilon=0.1, stabiliser="absorbed")], ids=str
)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (60, 60, 35, 3), (4, 63, 3, 5), (7, 65, 1, 3), (2, 127, 4, 2)], ids=str)
def test_triton(cell: str, method: LRP, ragged: bool, sizes: tuple[int, int, int, int]) -> None:
    Case(cell, sizes, torch.float32, ragged=ragged).check(method, "triton", 1e-4)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
def test_triton_where_programs_share_a_layer_and_what_a_caller_may_ask_for(cell: str) -> None:
    for hidden, ragged in ((140, True), (250, False)):
        Case(cell, (2, hidden, 3, 2), torch.float32, ragged=ragged).check(LRP(epsilon=0.1), "triton", 1e-4)
    case = Case(cell, (4, 6, 5, 3), torch.float32, ragged=True, bias=False)
    case.x = case.x.transpose(0, 1).contiguous().transpose(0, 1)
    for direction in (None, 0, 1):
        case.check(LRP(epsilon=0.1), "triton", 1e-4, direction=direction, by_step=direction != 0)
    case.r_outputs = None
    case.check(LRP(epsilon=0.1), "triton", 1e-4)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("hidden", [6, 140])
def test_triton_with_one_direction_and_numbers_that_count_in_64_bits(
    cell: str, hidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_layer()
    for part in ("layer", "packed", "product"):
        monkeypatch.setattr(importlib.import_module(f"whence.recurrent.triton.{part}"), "LARGE", 0)
    Case(cell, (5, hidden, 4, 3), torch.float32).one_way().check(LRP(epsilon=0.1), "triton", 1e-4)


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("hidden", [6, 70, 140])
@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # of what is far below zero: its sigmoid is zero
def test_triton_keeps_small_numbers_apart_from_large_ones(cell: str, hidden: int) -> None:
    """Samples, first states and rows of weights whose sizes differ by powers of ten, every sample for itself."""
    case = Case(cell, (5, hidden, 5, 3), torch.float32)
    powers = 10.0 ** torch.arange(-2, 3)
    # without gates, sums of 10⁴ are rounded to 10⁻³ by any path in single precision, the reference too
    largest = 1 if cell == "rnn_tanh" else 100
    case.x, case.states = case.x * powers[:, None], [state * largest * powers[:, None] for state in case.states]
    rows = 10.0 ** -(torch.arange(len(case.weights[0].input)) % 4)
    case.weights = [own._replace(input=own.input * rows[:, None], hidden=own.hidden * rows[:, None]) for own in case.weights]
    exact, rules = case.double(), LRP(epsilon=0.1).rules
    mine, theirs = case.layer("triton"), exact.layer("reference")
    found = mine.relevance(case.r_outputs, case.r_states, rules, direction=None, by_step=False)
    right = theirs.relevance(exact.r_outputs, exact.r_states, rules, direction=None, by_step=False)
    for sample in range(5):
        close(mine.outputs()[:, sample], theirs.outputs()[:, sample], 1e-5)
        close(found.x[:, :, sample], right.x[:, :, sample], 1e-4)
        for one, other in zip(found.states, right.states, strict=True):
            close(one[..., sample, :], other[..., sample, :], 1e-4)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("hidden", [6, 70])
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_triton_is_not_used_where_a_float16_split_would_lose_small_numbers(
    cell: str, hidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one huge unit of a first state, or a feature in units of its own, beside ordinary ones; and NaN."""
    gpu_layer()
    monkeypatch.setattr(dispatch, "path", lambda *_, **__: dispatch.Path("triton", ""))

    def path(case: Case) -> str:
        layer = dispatch.run_layer(case.cell, case.x, case.weights, case.states, None, product="all")
        return type(layer._layer).__name__

    def uneven(x: float = 1.0, u: float = 1.0, h: float = 1.0, *, dtype: torch.dtype = torch.float32) -> str:
        case = Case(cell, (5, hidden, 3, 2), dtype)
        case.x, case.states = case.x.clone(), [state.clone() for state in case.states]
        case.x[0, 1, 2], case.states[0][0, 1, 2] = x, h
        case.weights = [own._replace(input=own.input * u) for own in case.weights]
        return path(case)

    other = "TritonLayer" if hidden <= 64 else "DirectionsLayer"  # small layers keep what is large apart
    assert uneven() == uneven(x=1e4) == uneven(h=1e3) == uneven(x=1e9, u=1e-9) == "TritonLayer"
    assert uneven(h=1e8) == uneven(h=float("nan")) == uneven(h=-3e3, dtype=torch.float16) == other
    assert uneven(x=1e9) == uneven(x=float("inf")) == other


@pytest.mark.usefixtures("unwritten_is_nan")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_triton_keeps_a_huge_unit_of_a_first_state_apart_in_small_layers(cell: str) -> None:
    case = Case(cell, (5, 40, 3, 3), torch.float32)
    case.states[0][:, 1, 3], case.states[0][:, 2, :2] = 1e10, -3.0
    exact, rules = case.double(), LRP(epsilon=0.1).rules
    mine, theirs = case.layer("triton"), exact.layer("reference")
    found = mine.relevance(case.r_outputs, case.r_states, rules, direction=None, by_step=False)
    right = theirs.relevance(exact.r_outputs, exact.r_states, rules, direction=None, by_step=False)
    for sample in range(3):
        close(mine.outputs()[:, sample], theirs.outputs()[:, sample], 1e-5)
        close(found.x[:, :, sample], right.x[:, :, sample], 1e-4)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("size", [1, 7, 300])
def test_triton_numbers_split_into_float16_parts(size: int) -> None:
    gpu_layer()
    split = importlib.import_module("whence.recurrent.triton.split")
    generator = torch.Generator().manual_seed(size)
    numbers = torch.randn(7, size, generator=generator) * torch.tensor([1.0, 1e-3, 1e30, 1e-25, 3e4, 0.0, 1.0])[:, None]
    numbers[6, -1] = torch.inf
    made, scale = split.split_float16(numbers)
    assert made.shape[-1] % 8 == 0
    assert (made[..., size:] == 0).all()
    joined = (made.double().sum(0) * scale.double()[:, None])[:, :size]
    largest = numbers[:6].abs().amax(-1, keepdim=True).double()
    assert ((joined[:6] - numbers[:6].double()).abs() <= 2**-23 * numbers[:6].abs() + 2**-38 * largest).all()
    assert joined[6, -1].isnan()  # an infinity does not pass unseen
    filled, scale = split.split_float16(numbers[:2], 304, least=1.0)
    assert filled.shape == (2, 2, 304)
    assert (scale >= 2**-15).all()


def test_triton_computes_bfloat16_inputs_in_float32() -> None:
    case = Case("lstm", (5, 7, 4, 3), torch.bfloat16)
    layer = case.layer("triton")
    swept = layer.relevance(case.r_outputs, case.r_states, LRP(epsilon=0.1).rules, direction=None, by_step=False)
    exact = case.double()
    expected = exact.layer("reference").relevance(
        exact.r_outputs, exact.r_states, LRP(epsilon=0.1).rules, direction=None, by_step=False
    )
    assert layer.outputs().dtype == swept.x.dtype == torch.bfloat16
    close(swept.x, expected.x, 2**-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernels_activations_are_pytorchs(dtype: torch.dtype) -> None:
    """One cell with the wanted numbers as its sums: i and o wide open, the candidate a, so that h = tanh(tanh(a))."""
    a = torch.cat([torch.linspace(-30, 30, 301), torch.tensor([0.0, -0.0, 1e-8, -1e-3, 0.09, 0.11, 1e4, -1e4])]).to(dtype)
    weights = LSTMWeights(
        torch.tensor([[0.0], [0.0], [1.0], [0.0]]).to(dtype),
        torch.zeros(4, 1, dtype=dtype),
        torch.tensor([50.0, 0, 0, 50.0]).to(dtype),
        None,
    )
    if native.kernels(LSTM, dtype).library is None:
        pytest.skip("no C compiler")
    zero = torch.zeros(1, len(a), 1, dtype=dtype)
    layer = native.NativeLayer(LSTM, a[None, :, None], [weights], [zero, zero], None)
    tolerance = 4 * torch.finfo(dtype).eps
    assert_close(layer.final()[0][0, :, 0], a.tanh().tanh(), rtol=tolerance, atol=tolerance)


def test_a_layer_says_which_path_it_takes_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5, 2, 4)
    weights = lstm_weights(*nn.LSTM(4, 3).parameters(), has_biases=True)
    assert dispatch.path(LSTM, weights, x, product="all").name in ("plain", "compiled")
    assert dispatch.path(LSTM, weights, x, product="half").name == "factored"
    assert (
        dispatch.path(LSTM, weights, x.bfloat16(), product="all").reason == "there is no faster path for torch.bfloat16 on cpu"
    )
    assert dispatch.path(LSTM, weights, x[:0], product="all") == ("reference", "the input is empty")
    projected = lstm_weights(*nn.LSTM(4, 3, proj_size=2).parameters(), has_biases=True)
    assert dispatch.path(LSTM, projected, x, product="all") == ("factored", "there are no kernels for a projection")
    bare = replace(LSTM, native=None, plain=None)
    assert dispatch.path(bare, weights, x, product="all").name == "factored"
    bare = replace(bare, factored=None)
    assert dispatch.path(bare, weights, x, product="all") == ("reference", "there are no C kernels for nn.LSTM")
    compiled.built.cache_clear()
    monkeypatch.setenv("WHENCE_COMPILED", "0")
    assert dispatch.path(LSTM, weights, x, product="all") == ("plain", "WHENCE_COMPILED is 0")
    compiled.built.cache_clear()
    monkeypatch.setenv("WHENCE_COMPILED", "1")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert dispatch.path(LSTM, weights, x, product="all") == ("plain", "there is no C compiler no-such-compiler")
    compiled.built.cache_clear()
    monkeypatch.setenv("CC", "false")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert dispatch.path(LSTM, weights, x, product="all").reason.startswith("it could not be built")
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


def test_loading_a_kernel_leaves_the_processors_numbers_alone() -> None:
    """In a process of its own: a library linked with -ffast-math would make the smallest numbers zero everywhere."""
    code = """
import numpy as np, torch
from whence.recurrent.cells import CELLS
from whence.recurrent.native.layer import kernels
for cell in CELLS.values():
    for dtype in (torch.float32, torch.float64):
        kernels(cell, dtype)
assert np.float64(5e-324) * np.float64(1.0) > 0 and float(torch.tensor([1e-40]) * 1) > 0
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("hip", "capability", "reason"), [(None, (9, 0), None), ("6.2", (9, 4), "NVIDIA"), (None, (7, 5), "the GPU has 7.5")]
)
def test_gpus_that_the_kernels_are_not_for(
    hip: str | None, capability: tuple[int, int], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    monkeypatch.setenv("CC", "cc")
    found = dispatch._against_gpu.__wrapped__(torch.device("cuda"))
    assert (found is None) if reason is None else (reason in str(found))
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    assert "C compiler" in str(dispatch._against_gpu.__wrapped__(torch.device("cuda")))


@pytest.mark.parametrize("name", ["compiled", "triton"])
def test_biases_that_lie_apart_and_more_rows_than_one_launch_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("gru", (3, 5, 40, 2), torch.float32)
    spread = [torch.stack([own.input_bias, own.hidden_bias], -1) for own in case.weights]
    case.weights = [
        own._replace(input_bias=both[:, 0], hidden_bias=both[:, 1]) for own, both in zip(case.weights, spread, strict=True)
    ]
    monkeypatch.setattr(gpu_layer(), "MOST", 1)
    case.check(LRP(epsilon=0.1), name, 1e-4)


def test_steps_are_summed_before_they_are_rounded() -> None:
    case = Case("lstm", (40, 7, 4, 3), torch.float16)
    settings: dict[str, Any] = {"direction": None, "by_step": True}
    rules = LRP(epsilon=0.1).rules
    found = case.layer("triton").relevance(case.r_outputs, case.r_states, rules, **settings).x
    exact = case.double()
    right = exact.layer("reference").relevance(exact.r_outputs, exact.r_states, rules, **settings).x
    assert found.dtype == torch.float16
    close(found, right, 2**-10)


@pytest.mark.parametrize("memory", [227 * 1024, 163 * 1024, 99 * 1024])
@pytest.mark.parametrize("hidden", [3, 60, 128, 200, 512, 1024])
@pytest.mark.parametrize("is_back", [False, True])
def test_a_program_asks_for_no_more_memory_than_a_processor_has(memory: int, hidden: int, is_back: bool) -> None:
    for lines in (1, 64, 4096):
        best = grid.grid_for(hidden, lines, is_back=is_back)
        cut = grid.fitted(best, memory, is_back=is_back)
        weights = 8 * cut.units**2 if cut.is_held else 0
        needed = (cut.stages - 1) * grid.stage_of(cut, is_back=is_back)
        assert weights <= memory
        assert needed <= memory
        assert cut.stages >= 2
        if memory > 200 * 1024:
            assert cut == best


def test_a_layer_on_the_second_gpu_runs_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda device: device)
    assert dispatch._on(torch.device("cuda:1")) == torch.device("cuda:1")
    for here in ("cuda:0", "cpu"):
        with dispatch._on(torch.device(here)) as made:
            assert made is None
