"""How close compiled layers come to what one core can multiply and add at most, in one run on one thread.

    python -m benchmarks.peak

The peak is measured by a loop of multiply-adds on registers alone, built as the kernels are. Of layers, the multiplications and
additions of their matrix products are counted, and nothing else.
"""

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from whence.equations import Rules
from whence.recurrent.cells import CELLS
from whence.recurrent.dispatch import run_layer
from whence.recurrent.native.compiled import FLAGS
from whence.recurrent.weights import by_layer
from whence.threads import one_thread

ROUNDS = 20_000_000
SOURCE = """
#ifdef __AVX512F__
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vector __attribute__((vector_size(4 * LANES)));
long lanes(void) { return LANES; }
float run(long rounds, float a, float b) {
    vector sums[12], x = {0}, y = {0};
    x += a, y += b;
    for (int k = 0; k < 12; k++) sums[k] = x * (float)k;
    for (long n = 0; n < rounds; n++)
#pragma GCC unroll 12
        for (int k = 0; k < 12; k++) sums[k] = sums[k] * x + y;
    float total = 0;
    for (int k = 0; k < 12; k++) total += sums[k][k % LANES];
    return total;
}
"""


def peak() -> float:
    """Multiplications and additions of one core, in GFLOP/s."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "peak.c", Path(folder) / "peak.so"
        source.write_text(SOURCE, encoding="utf-8")
        flags = [flag for flag in FLAGS if flag != "-fassociative-math"]
        subprocess.run(["cc", *flags, str(source), "-o", str(made)], check=True)
        library: Any = ctypes.CDLL(str(made))
        library.run.argtypes, library.run.restype = [ctypes.c_long, ctypes.c_float, ctypes.c_float], ctypes.c_float
        spent = seconds(lambda: library.run(ROUNDS, 0.5, 0.25), repeats=5)
        return 2 * 12 * library.lanes() * ROUNDS / spent / 1e9


def seconds(run: Callable[[], object], *, repeats: int = 21) -> float:
    """The fastest of several runs."""
    found: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Print a line for the peak, and one for each layer."""
    most = peak()
    print(f"peak: {most:.0f} GFLOP/s")
    for name, size, batch, steps in (("lstm", 60, 64, 20), ("lstm", 256, 32, 100), ("gru", 60, 64, 20), ("gru", 256, 32, 100)):
        cell = CELLS[name]
        module: Any = cell.module(size, size, bidirectional=True)
        (weights,) = by_layer(cell.weights, module._flat_weights, has_biases=True, directions=2, layers=1)
        x = torch.randn(steps, batch, size)
        states = [x.new_zeros(2, batch, size) for _ in cell.states]
        arriving = [torch.ones_like(state)[None] for state in states]

        def lrp(arguments: Any = (cell, x, weights, states, None), arriving: Any = arriving) -> None:
            layer = run_layer(*arguments, product="all")
            layer.relevance(None, arriving, Rules())
            layer.release()

        product = 2 * 2 * batch * steps * size * size * 2  # of one gate, for x and h, in both directions
        with torch.no_grad():
            forward, whole = seconds(lambda module=module, x=x: module(x)), seconds(lrp)
        told = (cell.gates * product / forward / 1e9, (cell.gates + 1) * product / whole / 1e9)
        print(
            f"bi-{name.upper()} {size}/{size}, B {batch}, T {steps}: PyTorch's forward pass {told[0]:.0f} GFLOP/s "
            f"({told[0] / most:.0%}), LRP {told[1]:.0f} ({told[1] / most:.0%})"
        )


if __name__ == "__main__":
    with one_thread():
        main()
