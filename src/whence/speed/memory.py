"""The most memory that a call takes beyond what was there before."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from whence.recurrent.native.buffers import forget


def peak(run: Callable[[], object], device: str) -> float:
    """In bytes, for tensors; what the call leaves behind for the next one counts too."""
    return _on_gpu(run) if device == "cuda" else _on_cpu(run)


def _on_gpu(run: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


@contextmanager
def _quiet() -> Generator[None]:
    """Nothing reaches standard error: the profiler prints lines from C++ whenever it starts and stops."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _on_cpu(run: Callable[[], object]) -> float:
    """PyTorch's profiler notes what is allocated and freed, in order."""
    forget()
    profiled: Any = profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True)
    with _quiet(), profiled:
        run()
    events = [each for each in profiled.profiler.kineto_results.events() if each.name() == "[memory]"]
    live = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return float(most)
