"""How the cost of an explanation grows: time with samples, steps and states, memory with steps."""

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence

import torch

from whence.speed.ratios import Case, Layer, Model
from whence.speed.results import Growth, Memory
from whence.speed.timing import seconds
from whence.threads import one_thread

# By the name of the size that grows, the cases that are measured.
GROWING = {
    "cpu": {
        "steps": [Case("lstm", 16, n, 60) for n in (50, 100, 200, 400, 800, 1600)],
        "batch": [Case("lstm", n, 20, 60) for n in (32, 64, 128, 256, 512, 1024)],
        "size": [Case("lstm", 16, 20, n) for n in (32, 64, 128, 256, 512)],
    },
    "cuda": {
        "steps": [Case("lstm", 4096, n, 60) for n in (20, 40, 80, 160, 320)],
        "batch": [Case("lstm", n, 20, 60) for n in (4096, 8192, 16384, 32768, 65536)],
        "size": [Case("lstm", 256, 50, n) for n in (64, 128, 256, 512, 1024)],
    },
}
LONG = """
import resource, sys, torch, whence
from torch import nn

class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(128, 128, batch_first=True, bidirectional=True), nn.Linear(256, 2)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])

torch.set_num_threads(1)
torch.manual_seed(0)
whence.relevance(Last(), torch.randn(1, int(sys.argv[1]), 128), target=0).check(1e-3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def growth(device: str, *, repeats: int = 5, growing: Mapping[str, Sequence[Case]] | None = None) -> dict[str, Growth]:
    """For each size that grows: its values, the milliseconds of LRP including its forward pass, and the slope on log axes."""
    found: dict[str, Growth] = {}
    with one_thread():
        for name, cases in (growing or GROWING[device]).items():
            times: list[float] = []
            for case in cases:
                torch.manual_seed(0)
                model = Model(case).to(device).eval()
                layer = Layer(model, torch.randn(case.batch, case.steps, case.size, device=device))
                layer.lrp()
                times.append(1000 * min(seconds(layer.lrp, device) for _ in range(repeats)))
            values = [getattr(case, name) for case in cases]
            found[name] = {
                "values": values,
                "ms": times,
                "slope": _slope(values, times),
                "cell": "lstm",
                "of": cases[0]._asdict(),
            }
    return found


def _slope(values: Sequence[float], times: Sequence[float]) -> float:
    """The slope of the least-squares line through the logarithms."""
    x, y = [math.log(value) for value in values], [math.log(each) for each in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def memory(steps: int = 100_000) -> Memory:
    """The peak memory of a new process, PyTorch included, that explains one sequence with a bi-LSTM 128/128."""
    done = subprocess.run([sys.executable, "-c", LONG, str(steps)], check=True, capture_output=True, text=True)
    return {"steps": steps, "hidden": 128, "peak_gib": int(done.stdout) / 2**30}
