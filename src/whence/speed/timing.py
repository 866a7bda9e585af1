"""Timing: how long a call takes, several calls measured in turn, and the ratio of two."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from whence.speed.results import Value


def seconds(run: Callable[[], object], device: str) -> float:
    """How long a call takes; on a GPU, until its kernels are done."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def interleaved(runs: Mapping[str, Callable[[], object]], device: str, repeats: int) -> dict[str, list[float]]:
    """The seconds of every run. The runs take turns, and the first two rounds only warm up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 2):
        for name, run in runs.items():
            spent = seconds(run, device)
            if number > 1:
                times[name].append(spent)
    return times


def ratio(key: str, times: Mapping[str, Sequence[float]], above: str, below: str) -> dict[str, Value]:
    """The ratio of two medians under `key`, and under `key`_spread the quartiles of the ratios of all rounds."""
    quartiles = statistics.quantiles([a / b for a, b in zip(times[above], times[below], strict=True)], n=4)
    value = statistics.median(times[above]) / statistics.median(times[below])
    return {key: value, f"{key}_spread": [quartiles[0], quartiles[2]]}


def machine(device: str) -> str:
    """The name of the processor or of the GPU."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
