"""How the cost of an explanation grows: time with samples, steps and states, memory with steps; and a whole test set."""

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence

from whence._batches import batches, cut
from whence._explain import BATCH, explain
from whence.data.sst import read_split
from whence.experiments.oracle import oracle_seconds
from whence.experiments.speed import Case, Layer, Model, interleaved, ratio, seconds
from whence.experiments.threads import one_thread
from whence.methods.lrp import LRP
from whence.methods.method import Question
from whence.models.bundled import load_any

# What grows, and the case it grows in.
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


def growth(device: str, *, repeats: int = 5, growing: dict[str, Sequence[Case]] | None = None) -> dict[str, Any]:
    """For everything that can grow its values, the milliseconds of LRP with its forward pass, and the slope on log axes."""
    found: dict[str, Any] = {}
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
    """The slope of the straight line through the logarithms, by least squares."""
    x, y = [math.log(value) for value in values], [math.log(each) for each in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def memory(steps: int = 100_000) -> dict[str, float]:
    """The most memory that a process of its own takes, PyTorch included, to explain one sequence by a bi-LSTM 128/128."""
    done = subprocess.run([sys.executable, "-c", LONG, str(steps)], check=True, capture_output=True, text=True)
    return {"steps": steps, "hidden": 128, "peak_gib": int(done.stdout) / 2**30}


def whole_test_set(directory: Path, *, repeats: int = 5) -> dict[str, Any]:
    """SST's test set by the bundled model: LRP by words, and all of `explain`, over the packed forward pass of the layer."""
    pipeline = load_any("sst-bilstm")
    module: Any = pipeline.module
    texts = [tree.tokens for tree in read_split(directory, "test")]
    forwards = [forward for _, forward in batches(pipeline, [cut(pipeline, text) for text in texts], size=BATCH)]
    embedded = [(each.predict().tensors[0], each.kwargs["lengths"]) for each in forwards]

    def packed() -> None:
        with torch.no_grad():
            for vectors, lengths in embedded:
                module.encoder(pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False))

    def lrp() -> None:
        for each in forwards:
            LRP().answer(each, Question(0, by_step=True))

    with one_thread():
        times = interleaved(
            {"forward": packed, "lrp": lrp, "explain": lambda: explain(pipeline, texts, target=0)}, "cpu", repeats
        )
        rows = [vectors[n, :length] for vectors, lengths in embedded for n, length in enumerate(lengths.tolist())]
        some = rows[:: max(1, len(rows) // 100)]
        oracle = oracle_seconds(module.encoder, module.head.weight, some)
    found: dict[str, Any] = {"sentences": len(texts)}
    found |= ratio("lrp_over_forward", times, "lrp", "forward") | ratio("explain_over_forward", times, "explain", "forward")
    if oracle is not None:  # by words, for the sentences picked are not of the average length
        words = sum(map(len, rows)) / sum(map(len, some)) * len(some)
        found["oracle_over_lrp"] = oracle * words / min(times["lrp"])
    return found
