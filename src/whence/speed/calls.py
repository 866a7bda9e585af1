"""What a whole call of `whence.relevance` costs, which is what users pay, relative to a prediction and to a gradient."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whence._relevance import relevance
from whence.speed.models import (
    Attending,
    CellLoop,
    ConvolutionalLSTM,
    ConvolutionThenLSTM,
    EightLinears,
    EntityAware,
    HandWritten,
    Layers,
    MinGRU,
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


def _layers(label: str, layer: type[nn.RNNBase], size: int, batch: int, steps: int, *, layers: int = 1) -> Call:
    told = f"bi-{label} {size}/{size}{', two layers' if layers == 2 else ''}, B {batch:,}, T {steps}"
    return Call(told, partial(Layers, layer, size, layers=layers), batch, steps, size)


def _written(batch: int, size: int) -> tuple[Call, ...]:
    """Cells written by hand, with 128 units over 100 steps."""
    models: dict[str, Callable[[int, int], nn.Module]] = {
        "LSTMCell loop": CellLoop,
        "LSTM by hand": HandWritten,
        "LSTM of eight Linears": EightLinears,
        "EA-LSTM": EntityAware,
        "minGRU loop": MinGRU,
    }
    return tuple(
        Call(f"{name}, H 128, B {batch}, T 100", partial(model, size, 128), batch, 100, size) for name, model in models.items()
    )


CALLS = {
    "cpu": (
        _layers("LSTM", nn.LSTM, 60, 1, 20),
        _layers("LSTM", nn.LSTM, 60, 64, 20),
        _layers("LSTM", nn.LSTM, 60, 64, 20, layers=2),
        _layers("LSTM", nn.LSTM, 256, 32, 100),
        _layers("GRU", nn.GRU, 60, 64, 20),
        _layers("GRU", nn.GRU, 256, 32, 100),
        *_written(32, 32),
        Call("seq2seq with attention, H 64, B 32, T 50", partial(Attending, 32, 64), 32, 50, 32),
        Call("ConvLSTM, 8 channels, B 8, T 20", partial(ConvolutionalLSTM, 32, 8), 8, 20, 32),
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


def measure_call(call: Call, *, device: str, repeats: int) -> dict[str, Value]:
    """Ratios of the medians of interleaved repeats. The first rounds only warm up: in them, the plan of the model is made."""
    torch.manual_seed(0)
    model = call.model().to(device, call.dtype).eval()
    x = torch.randn(call.batch, call.steps, call.size, device=device, dtype=call.dtype)

    def predict() -> None:
        with torch.no_grad():
            model(x)

    runs: dict[str, Callable[[], object]] = {
        "prediction": predict,
        "gradient": lambda: _gradient(model, x),
        "relevance": lambda: relevance(model, x, target=0),
        "by_step": lambda: relevance(model, x, target=0, by_step=True),
        "all_by_step": lambda: relevance(model, x, target="all", by_step=True),
    }
    for run in runs.values():  # a plan is made in the second call, and used from the third on
        for _ in range(2):
            run()
    times = interleaved(runs, device, repeats)
    found: dict[str, Value] = {"name": call.name, "device": device}
    found |= ratio("relevance_over_prediction", times, "relevance", "prediction")
    found |= ratio("by_step_over_prediction", times, "by_step", "prediction")
    found |= ratio("gradient_over_prediction", times, "gradient", "prediction")
    found |= ratio("relevance_over_gradient", times, "relevance", "gradient")
    found |= ratio("all_classes_over_one", times, "all_by_step", "by_step")
    if device == "cuda":
        found["memory_over_gradient"] = _peak(runs["relevance"]) / _peak(runs["gradient"])
    return found


def _gradient(model: nn.Module, x: Tensor) -> None:
    """The gradient of a score by the input; cuDNN has one in training mode alone, and there is no dropout here."""
    model.train(x.is_cuda)
    given = x.clone().requires_grad_()
    torch.autograd.grad(model(given)[:, 0].sum(), given)
    model.eval()


def _peak(run: Callable[[], object]) -> float:
    """The most memory of the GPU that a call takes beyond what was there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
