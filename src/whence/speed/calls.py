"""What a whole call of `whence.relevance` costs, which is what users pay, relative to a prediction and to a gradient."""

import importlib.util
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whence._relevance import relevance
from whence.methods.lrp import LRP
from whence.speed.memory import peak
from whence.speed.models import (
    Attending,
    ConvolutionalLSTM,
    ConvolutionThenLSTM,
    EightLinears,
    EntityAware,
    HandWritten,
    HandWrittenGRU,
    LayerNormed,
    Layers,
    MaskedCell,
    MinGRU,
    WrittenInPlace,
)
from whence.speed.results import Value
from whence.speed.timing import interleaved, ratio


class Call(NamedTuple):
    """A model and the form of its input (B, T, features)."""

    name: str
    model: Callable[[], nn.Module]
    batch: int
    steps: int
    size: int
    dtype: torch.dtype = torch.float32
    method: LRP = LRP()
    is_written: bool = False  # its cell is written by hand


def _layers(label: str, layer: type[nn.RNNBase], size: int, batch: int, steps: int, *, layers: int = 1) -> Call:
    told = f"bi-{label} {size}/{size}{', two layers' if layers == 2 else ''}, B {batch:,}, T {steps}"
    return Call(told, partial(Layers, layer, size, layers=layers), batch, steps, size)


WRITTEN: dict[str, tuple[Callable[[int, int], nn.Module], int]] = {  # cells written by hand, and over how many steps
    "LSTM by hand": (HandWritten, 50),
    "LSTM by hand, written in place": (WrittenInPlace, 19),
    "LSTM of eight Linears": (EightLinears, 19),
    "minGRU loop": (MinGRU, 50),
    "GRU by hand": (HandWrittenGRU, 50),
    "EA-LSTM": (EntityAware, 50),
    "LSTMCell loop with a mask": (MaskedCell, 19),
    "LSTM by hand with LayerNorm": (LayerNormed, 50),
}


def _written(batch: int, size: int) -> tuple[Call, ...]:
    return tuple(
        Call(f"{name}, H {size}, B {batch}, T {steps}", partial(model, size, size), batch, steps, size, is_written=True)
        for name, (model, steps) in WRITTEN.items()
    )


CALLS = {
    "cpu": (
        _layers("LSTM", nn.LSTM, 60, 1, 20),
        _layers("LSTM", nn.LSTM, 60, 64, 20),
        _layers("LSTM", nn.LSTM, 60, 64, 20, layers=2),
        _layers("LSTM", nn.LSTM, 256, 32, 100),
        _layers("GRU", nn.GRU, 60, 64, 20),
        _layers("GRU", nn.GRU, 256, 32, 100),
        _layers("LSTM", nn.LSTM, 60, 64, 20)._replace(
            name='bi-LSTM 60/60, product="half", B 64, T 20', method=LRP(product="half", epsilon=0.1)
        ),
        _layers("LSTM", nn.LSTM, 60, 64, 20)._replace(
            name="bi-LSTM 60/60, projected to 30, B 64, T 20", model=partial(Layers, nn.LSTM, 60, projected=30)
        ),
        *_written(64, 60),
        Call("seq2seq with attention, H 64, B 32, T 50", partial(Attending, 32, 64), 32, 50, 32),
        Call("ConvLSTM, 8 channels, B 8, T 20", partial(ConvolutionalLSTM, 8), 8, 20, 32),
        Call("convolution + LSTM, H 64, B 32, T 100", partial(ConvolutionThenLSTM, 32, 64), 32, 100, 32),
    ),
    "cuda": (
        _layers("LSTM", nn.LSTM, 60, 64, 20),
        _layers("LSTM", nn.LSTM, 60, 4096, 20),
        _layers("LSTM", nn.LSTM, 256, 512, 100),
        _layers("GRU", nn.GRU, 60, 4096, 20),
        Call("RNN 128, B 256, T 100", partial(Layers, nn.RNN, 128, bidirectional=False), 256, 100, 128),
        _layers("LSTM", nn.LSTM, 64, 64, 50)._replace(name="bi-LSTM 64/64, double precision, B 64, T 50", dtype=torch.float64),
        *_written(256, 128),
    ),
}


WARMING = 2  # rounds before anything is timed


ON_TWO_THREADS = (
    _layers("LSTM", nn.LSTM, 60, 512, 20),
    _layers("LSTM", nn.LSTM, 256, 32, 100),
    _layers("GRU", nn.GRU, 256, 32, 100),
)


def measure_call(call: Call, *, device: str, repeats: int) -> dict[str, Value]:
    """Ratios of the medians of interleaved repeats. The first rounds only warm up."""
    torch.manual_seed(0)
    model = call.model().to(device, call.dtype).eval()
    x = torch.randn(call.batch, call.steps, call.size, device=device, dtype=call.dtype)

    def predict() -> None:
        with torch.no_grad():
            model(x)

    runs: dict[str, Callable[[], object]] = {
        "prediction": predict,
        "gradient": lambda: _gradient(model, x),
        "relevance": lambda: relevance(model, x, target=0, method=call.method),
        "asked": lambda: relevance(model, x, target=0, method=call.method, check="model"),
        "by_step": lambda: relevance(model, x, target=0, method=call.method, by_step=True),
        "all_by_step": lambda: relevance(model, x, target="all", method=call.method, by_step=True),
    }
    if call.is_written:
        fresh = iter([call.model().to(device, call.dtype).eval() for _ in range(repeats + 2 * WARMING)])
        runs["first"] = lambda: relevance(next(fresh), x, target=0, method=call.method)
    physioex = _physioex(model)
    if physioex is not None and call.method.product == "all":
        runs["physioex"] = lambda: physioex(x)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
        return _ratios(call, runs, device, repeats)


def _ratios(call: Call, runs: Mapping[str, Callable[[], object]], device: str, repeats: int) -> dict[str, Value]:
    for run in runs.values():
        for _ in range(WARMING):
            run()
    times = interleaved(runs, device, repeats)
    found: dict[str, Value] = {"name": call.name, "device": device}
    found |= ratio("relevance_over_prediction", times, "relevance", "prediction")
    found |= ratio("by_step_over_prediction", times, "by_step", "prediction")
    found |= ratio("asked_over_relevance", times, "asked", "relevance")
    found |= ratio("gradient_over_prediction", times, "gradient", "prediction")
    found |= ratio("relevance_over_gradient", times, "relevance", "gradient")
    if "first" in runs:
        found |= ratio("first_over_gradient", times, "first", "gradient")
    found |= ratio("all_classes_over_one", times, "all_by_step", "by_step")
    if "physioex" in runs:
        found |= ratio("physioex_over_prediction", times, "physioex", "prediction")
    found["memory_over_gradient"] = peak(runs["relevance"], device) / peak(runs["gradient"], device)
    return found


def _physioex(model: nn.Module) -> Callable[[Tensor], object] | None:
    """LRP of physioex, where it is installed and has rules for the model; it prepares a copy of the model once."""
    if not isinstance(model, Layers) or isinstance(model.encoder, nn.RNN) or getattr(model.encoder, "proj_size", 0):
        return None
    if not (importlib.util.find_spec("physioex") and importlib.util.find_spec("zennit")):
        return None
    explain: Any = importlib.import_module("physioex.explain")
    return explain.ModelLRP(model, out_index=0)


class Threads(NamedTuple):
    """The same call on one thread and on two."""

    name: str
    one_over_two: float


def measure_threads(calls: Sequence[Call], *, repeats: int) -> list[Threads]:
    """How much faster whole calls are on two threads than on one."""
    found: list[Threads] = []
    for call in calls:
        torch.manual_seed(0)
        model = call.model().eval()
        x = torch.randn(call.batch, call.steps, call.size)

        def on(threads: int, model: nn.Module = model, x: Tensor = x) -> Callable[[], object]:
            def run() -> None:
                torch.set_num_threads(threads)
                relevance(model, x, target=0)

            return run

        for _ in range(3):
            on(1)()
        times = interleaved({"one": on(1), "two": on(2)}, "cpu", repeats)
        found.append(Threads(call.name, statistics.median(times["one"]) / statistics.median(times["two"])))
    return found


def _gradient(model: nn.Module, x: Tensor) -> None:
    """The gradient of a score by the input; cuDNN has one in training mode alone, and there is no dropout here."""
    model.train(x.is_cuda)
    given = x.clone().requires_grad_()
    torch.autograd.grad(model(given)[:, 0].sum(), given)
    model.eval()
