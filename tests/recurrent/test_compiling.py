"""The Triton kernels compile for real GPUs, on a machine that has none, and ask for no more than such a GPU has."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

# A driver that knows a GPU's kind and memory, and kernels that are compiled with the arguments of a launch, and not launched.
CODE = """
import json, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from whence import LRP
from whence.recurrent.cells import CELLS
from whence.recurrent.triton import layer, packed, product, split
from whence.recurrent.weights import by_layer

cell, hidden, batch, kind, memory = sys.argv[1], *map(int, sys.argv[2:])

class Driver:
    utils = property(lambda self: self)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_current_target(self): return GPUTarget("cuda", kind, 32)
    def get_device_properties(self, device): return {"max_shared_mem": memory}

class Compiled:
    found = {}
    def __init__(self, kernel): self.kernel = kernel
    def __getitem__(self, grid):
        def warm(*args, **settings):
            made = self.kernel.warmup(*args, grid=grid, **settings)
            self.found.setdefault(self.kernel.__name__, []).append([made.metadata.shared, "wgmma" in made.asm["ptx"]])
        return warm

triton.runtime.driver.set_active(Driver())
layer.processors = lambda device: 132
cell = CELLS[cell]
own = cell.triton()
packed.pack, product.product_kernel = Compiled(packed.pack), Compiled(product.product_kernel)
split.split_kernel = Compiled(split.split_kernel)
own.forward, own.back = Compiled(own.forward), Compiled(own.back)
with torch.no_grad():
    made = cell.module(12, hidden, bidirectional=True)
    (weights,) = by_layer(cell.weights, made._flat_weights, has_biases=True, directions=2, layers=1)
    count = len(cell.states)
    run = layer.TritonLayer(cell, torch.zeros(3, batch, 12), weights, [torch.zeros(2, batch, hidden)] * count, None)
    run.relevance(None, [torch.zeros(1, 2, batch, hidden)] * count, LRP().rules, direction=None, by_step=False)
print(json.dumps(Compiled.found))
"""


@pytest.mark.parametrize(("kind", "memory"), [(90, 227 * 1024), (80, 163 * 1024), (86, 99 * 1024)], ids=["H200", "A100", "A10"])
@pytest.mark.parametrize(
    ("cell", "hidden", "batch"),
    [("lstm", 60, 64), ("lstm", 128, 1), ("lstm", 1024, 256), ("gru", 300, 64), ("rnn_tanh", 128, 64)],
)
def test_kernels_compile(cell: str, hidden: int, batch: int, kind: int, memory: int) -> None:
    given = [sys.executable, "-c", CODE, cell, *map(str, (hidden, batch, kind, memory))]
    done = subprocess.run(given, env={**os.environ, "TRITON_INTERPRET": "0"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert set(found) - {"split_kernel"} == {"pack", "product_kernel", "forward", "back"}
    assert all(shared <= memory for each in found.values() for shared, _ in each)
    assert found["product_kernel"][0][1] == (kind == 90)  # Hopper's own tensor cores
