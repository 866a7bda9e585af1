"""What an explanation costs relative to the prediction and its gradient, measured side by side in one run."""

import copy
import importlib.util
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from whence._relevance import relevance
from whence.errors import InputError
from whence.methods.lrp import LRP
from whence.recurrent.cells import CELLS
from whence.recurrent.dispatch import Chosen, run_layer
from whence.recurrent.weights import by_layer
from whence.speed.calls import CALLS, ON_TWO_THREADS, Call, measure_call, measure_threads
from whence.speed.models import CLASSES
from whence.speed.oracle import oracle_seconds
from whence.speed.results import OutputSteps, Speed, Value
from whence.speed.timing import interleaved, machine, ratio, seconds
from whence.threads import one_thread


class Case(NamedTuple):
    """A bidirectional layer with a linear head on its last states."""

    cell: str
    batch: int
    steps: int
    size: int  # of embedding and state

    @property
    def name(self) -> str:
        """A short description."""
        return f"bi-{self.cell.upper()} {self.size}/{self.size}, B {self.batch}, T {self.steps}"


CASES = {
    "cpu": (Case("lstm", 64, 20, 60), Case("lstm", 32, 100, 256), Case("gru", 64, 20, 60), Case("gru", 32, 100, 256)),
    "cuda": (
        *(Case("lstm", 4096, 20, 60), Case("lstm", 65536, 20, 60), Case("lstm", 512, 100, 256), Case("lstm", 256, 256, 512)),
        *(Case("lstm", 64, 512, 1024), Case("gru", 4096, 20, 60), Case("gru", 512, 100, 256)),
    ),
}


class Model(nn.Module):
    """A classifier like the paper's."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        layer = {"lstm": nn.LSTM, "gru": nn.GRU}[case.cell]
        self.encoder = layer(case.size, case.size, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * case.size, CLASSES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        final: Tensor | tuple[Tensor, Tensor] = self.encoder(x)[1]
        h = final[0] if isinstance(final, tuple) else final
        return self.head(torch.cat([h[0], h[1]], dim=-1))


class Layer:
    """The recurrent layer of a model by itself: its prediction, its gradient, and relevance from its last state to x."""

    def __init__(self, model: Model, x: Tensor) -> None:
        self.layer, self.x = model.encoder, x
        self.cell = CELLS[model.encoder.mode.lower()]
        flat = model.encoder._flat_weights
        (self.weights,) = by_layer(self.cell.weights, flat, has_biases=True, directions=2, layers=1)  # type: ignore[arg-type]
        self.states = [x.new_zeros(2, len(x), model.encoder.hidden_size) for _ in self.cell.states]
        ones = torch.ones_like(self.states[0])
        self.arriving = {
            targets: [each.expand(targets, *each.shape) for each in (ones, *self.states[1:])] for targets in (1, CLASSES)
        }

    @property
    def path(self) -> str:
        """The path that the layer takes."""
        run = self._run()
        run.release()
        return run.path

    def _run(self) -> Chosen:
        with torch.no_grad():
            return run_layer(self.cell, self.x.transpose(0, 1), self.weights, self.states, None, product="all")

    def forward(self) -> None:
        """PyTorch's own layer."""
        with torch.no_grad():
            self.layer(self.x)

    def gradient(self) -> None:
        """The gradient of the last states by the input; cuDNN has one in training mode alone, and there is no dropout here."""
        self.layer.train(self.x.is_cuda)
        given = self.x.clone().requires_grad_()
        final: Tensor | tuple[Tensor, Tensor] = self.layer(given)[1]
        torch.autograd.grad((final[0] if isinstance(final, tuple) else final).sum(), given)
        self.layer.eval()

    def lrp(self, targets: int = 1, *, by_step: bool = False) -> None:
        """The layer with its tape, and the backward pass."""
        run = self._run()
        with torch.no_grad():
            run.relevance(None, self.arriving[targets], LRP().rules, by_step=by_step)
        run.release()


def measure(case: Case, *, device: str, repeats: int = 21) -> dict[str, Value]:
    """Measure one case: ratios of the medians of interleaved repeats, with the quartiles of each ratio."""
    torch.manual_seed(0)
    model, x = Model(case).to(device).eval(), torch.randn(case.batch, case.steps, case.size, device=device)
    _require_right(model, x)
    layer = Layer(model, x)

    times = interleaved(
        {
            "forward": layer.forward,
            "gradient": layer.gradient,
            "lrp": layer.lrp,
            "by_step": lambda: layer.lrp(by_step=True),
            "all_by_step": lambda: layer.lrp(CLASSES, by_step=True),
            "all": lambda: layer.lrp(CLASSES),
        },
        device,
        repeats,
    )
    found: dict[str, Value] = {**case._asdict(), "name": case.name, "device": device, "path": layer.path}
    found |= ratio("lrp_over_forward", times, "lrp", "forward")
    found |= ratio("lrp_over_gradient", times, "lrp", "gradient")
    found |= ratio("gradient_over_forward", times, "gradient", "forward")
    found |= ratio("all_classes_over_one", times, "all_by_step", "by_step")
    found |= ratio("all_classes_over_one_by_feature", times, "all", "lrp")
    if device == "cuda":
        found |= _absolute(case, times) | {"lrp_kernels_ms": _kernels(layer.lrp)}
    else:
        found |= _others(case, model, x, statistics.median(times["lrp"]))
    return found


def _absolute(case: Case, times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Times on a GPU, which nobody else uses, and what they say of its limits: multiplications and additions, and memory."""
    spent = {name: statistics.median(each) for name, each in times.items()}
    gates, h = CELLS[case.cell].gates, case.size
    lines = 2 * case.batch * case.steps  # of both directions
    work = 2 * lines * (gates + 1) * 2 * h * h
    # sums and what the tape holds, the states, q: written and read; outputs, relevance and x once
    moved = 4 * lines * h * (2 * gates + 2 * (gates - 1) + 2 + 2 + 1 + 1)
    return {
        **{f"{name}_ms": 1000 * spent[name] for name in ("forward", "gradient", "lrp")},
        "sequences_per_second": case.batch / spent["lrp"],
        "teraflops": work / spent["lrp"] / 1e12,
        "terabytes_per_second": moved / spent["lrp"] / 1e12,
    }


def _kernels(run: Callable[[], object]) -> dict[str, float]:
    """The GPU's time in milliseconds, by kernel."""
    profiled: Any = profile(activities=[ProfilerActivity.CUDA], acc_events=True)
    with profiled:
        run()
        torch.cuda.synchronize()
    return {each.key: each.device_time_total / 1000 for each in profiled.key_averages() if each.device_time_total > 0}


def _others(case: Case, model: Model, x: Tensor, lrp: float) -> dict[str, float]:
    """Other implementations: the tests' NumPy oracle, one sequence at a time, and Captum's Integrated Gradients."""
    found: dict[str, float] = {}
    if case.cell == "lstm" and case.size <= 60:  # it is slow
        oracle = oracle_seconds(model.encoder, model.head.weight, [x[0]])
        found |= {} if oracle is None else {"oracle_over_lrp": case.batch * oracle / lrp}
    if importlib.util.find_spec("captum") and case.size <= 60:
        from captum.attr import IntegratedGradients  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

        attribute = cast(Callable[..., Tensor], IntegratedGradients(model).attribute)
        found["captum_ig_over_lrp"] = seconds(lambda: attribute(x, target=0, n_steps=50), "cpu") / lrp
    return found


class Tagger(nn.Module):
    """Scores for every step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, T, 3)."""
        return self.head(self.encoder(x)[0])


def measure_steps(steps: int = 100, *, device: str) -> OutputSteps:
    """Explaining every output step in one call, against one call for each step."""
    torch.manual_seed(0)
    model, x = Tagger().to(device), torch.randn(2, steps, 8, device=device)
    together = relevance(model, x, target=("all", 1)).relevance
    at_once = min(seconds(lambda: relevance(model, x, target=("all", 1)), device) for _ in range(3))
    alone: list[Tensor] = []

    def loop() -> None:
        alone.extend(relevance(model, x, target=(step, 1)).relevance for step in range(steps))

    spent = seconds(loop, device)
    if not torch.allclose(together, torch.stack(alone), rtol=1e-3, atol=1e-5):
        raise InputError("all steps at once give another relevance than each alone, so times mean nothing; please report it")
    return {"steps": steps, "loop_over_all": spent / at_once}


def _require_right(model: Model, x: Tensor) -> None:
    """Refuse to time a wrong result: float32 must agree with float64.

    The norms are compared, not single numbers: where a sum is almost zero, rounding decides its sign and so a few relevances.
    """
    found = relevance(model, x[:4], target=0, method=LRP(epsilon=0.1)).check()
    exact = relevance(copy.deepcopy(model).double(), x[:4].double(), target=0, method=LRP(epsilon=0.1)).relevance
    if not (found.relevance.double() - exact).norm() <= 1e-2 * exact.norm():
        raise InputError("float32 gives another relevance than float64, so times mean nothing; please report it")


def speed(
    device: str = "cpu", *, repeats: int = 21, cases: Sequence[Case] | None = None, calls: Sequence[Call] | None = None
) -> Speed:
    """Measure whole calls, then layers, on one thread of the CPU or on the GPU; returns what `whence bench --json` writes."""
    if device not in CASES:
        raise InputError(f"device is {device!r}; it must be cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device is 'cuda', but PyTorch sees no GPU; use cpu")
    chosen = CASES[device] if cases is None else cases
    with one_thread():
        whole = [measure_call(call, device=device, repeats=repeats) for call in (CALLS[device] if calls is None else calls)]
        found = [measure(case, device=device, repeats=repeats) for case in chosen]
        by_step = measure_steps(device=device)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = measure_threads(ON_TWO_THREADS, repeats=repeats) if device == "cpu" and calls is None and cores > 1 else []
    return {
        "torch": torch.__version__,
        "machine": machine(device),
        "threads": 1,
        "repeats": repeats,
        "calls": whole,
        "cases": found,
        "output_steps": by_step,
        "two_threads": {each.name: each.one_over_two for each in threads},
    }
