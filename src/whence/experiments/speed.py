"""What an explanation costs beside the prediction and its gradient: ratios measured side by side, in one run."""

import copy
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whence._relevance import relevance
from whence.errors import InputError
from whence.experiments.threads import one_thread
from whence.interpreter.recurrence import GRU, LSTM
from whence.methods.lrp import LRP
from whence.recurrent import dispatch
from whence.recurrent.weights import by_layer

CLASSES = 5


class Case(NamedTuple):
    """A bidirectional layer with a linear head on its last states."""

    cell: str
    batch: int
    steps: int
    size: int  # of embedding and state

    @property
    def name(self) -> str:
        """In a few words."""
        return f"bi-{self.cell.upper()} {self.size}/{self.size}, B {self.batch}, T {self.steps}"


CASES = {
    "cpu": (Case("lstm", 64, 20, 60), Case("lstm", 32, 100, 256), Case("gru", 64, 20, 60), Case("gru", 32, 100, 256)),
    "cuda": (Case("lstm", 4096, 20, 60), Case("lstm", 512, 100, 256), Case("gru", 4096, 20, 60)),
}


class Model(nn.Module):
    """The paper's kind of classifier."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        layer = {"lstm": nn.LSTM, "gru": nn.GRU}[case.cell]
        self.encoder = layer(case.size, case.size, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * case.size, CLASSES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        final = self.encoder(x)[1]
        h = final[0] if isinstance(final, tuple) else final
        return self.head(torch.cat([h[0], h[1]], dim=-1))


def measure(case: Case, *, device: str, repeats: int = 21) -> dict[str, Any]:
    """One case: medians of interleaved repeats as ratios, with the spread between the quartiles of each ratio."""
    torch.manual_seed(0)
    model, x = Model(case).to(device).eval(), torch.randn(case.batch, case.steps, case.size, device=device)
    _require_right(model, x)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    def gradient() -> None:
        # cuDNN differentiates in training mode alone; there is no dropout here
        model.train(device == "cuda")
        given = x.clone().requires_grad_()
        torch.autograd.grad(model(given)[:, 0].sum(), given)
        model.eval()

    runs: dict[str, Callable[[], object]] = {
        "forward": forward,
        "gradient": gradient,
        "lrp": lambda: relevance(model, x, target=0),
        "all": lambda: relevance(model, x, target="all"),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 2):
        for name, run in runs.items():
            spent = _seconds(run, device)
            if number > 1:  # the first runs warm up
                times[name].append(spent)
    found: dict[str, Any] = {**case._asdict(), "name": case.name, "device": device, "path": _path(model, x)}
    for above, below in (("lrp", "forward"), ("lrp", "gradient"), ("gradient", "forward"), ("all", "lrp")):
        key = {"all": "all_classes_over_one"}.get(above, f"{above}_over_{below}")
        found[key] = statistics.median(times[above]) / statistics.median(times[below])
        quartiles = statistics.quantiles([a / b for a, b in zip(times[above], times[below], strict=True)], n=4)
        found[f"{key}_spread"] = [quartiles[0], quartiles[2]]
    found["forward_ms"] = 1000 * statistics.median(times["forward"])
    return found


class Tagger(nn.Module):
    """Scores for every step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, T, 3)."""
        return self.head(self.encoder(x)[0])


def measure_steps(steps: int = 100, *, device: str) -> dict[str, Any]:
    """Every output step in one call, against a call for each."""
    torch.manual_seed(0)
    model, x = Tagger().to(device), torch.randn(2, steps, 8, device=device)
    together = relevance(model, x, target=("all", 1)).relevance
    at_once = min(_seconds(lambda: relevance(model, x, target=("all", 1)), device) for _ in range(3))
    alone: list[Tensor] = []

    def loop() -> None:
        alone.extend(relevance(model, x, target=(step, 1)).relevance for step in range(steps))

    spent = _seconds(loop, device)
    if not torch.allclose(together, torch.stack(alone), rtol=1e-3, atol=1e-5):
        raise InputError("all steps at once give another relevance than each on its own; no time is worth anything then")
    return {"steps": steps, "loop_over_all": spent / at_once}


def _require_right(model: Model, x: Tensor) -> None:
    """No time is printed of a result that is wrong: single precision against double."""
    found = relevance(model, x[:4], target=0, method=LRP(epsilon=0.1)).check()
    exact = relevance(copy.deepcopy(model).double(), x[:4].double(), target=0, method=LRP(epsilon=0.1)).relevance
    if not torch.allclose(found.relevance.double(), exact, rtol=1e-3, atol=1e-3 * float(exact.abs().max())):
        raise InputError("the fast path gives another relevance than double precision does; no time is worth anything then")


def _path(model: Model, x: Tensor) -> str:
    cell = LSTM if isinstance(model.encoder, nn.LSTM) else GRU
    (weights, _), *_ = by_layer(cell.weights, model.encoder._flat_weights, has_biases=True, directions=2, layers=1)  # type: ignore[arg-type]
    return dispatch.path(weights, x.transpose(0, 1), product="all").name


def _seconds(run: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def speed(
    device: str = "cpu",
    *,
    repeats: int = 21,
    cases: Sequence[Case] | None = None,
) -> dict[str, Any]:
    """Measure every case, on one thread of the CPU or on the GPU; returns what `whence bench --json` writes."""
    if device not in CASES or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device is {device!r}; it is cpu, or cuda where PyTorch has one")
    chosen = CASES[device] if cases is None else cases
    with one_thread():
        found = [measure(case, device=device, repeats=repeats) for case in chosen]
        by_step = measure_steps(device=device)
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {
        "torch": torch.__version__,
        "machine": machine,
        "threads": 1,
        "repeats": repeats,
        "cases": found,
        "output_steps": by_step,
    }
