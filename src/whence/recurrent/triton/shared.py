# pyright: basic
"""What the kernels of all cells share: activations, positions, and how programs wait for each other.

A program owns BB rows of the batch and UB units of the state of one direction, for all steps. If a layer has more than UB
units, the programs with the same rows form a group, and synchronise once per step.
"""

import torch
import triton
import triton.language as tl
from triton.compiler.compiler import max_shared_mem

SIZES = (
    "first",
    "last",
    "B",
    "T",
    "time",
    "row",
    "K",
    "t_from",
    "t_to",
)  # Triton would otherwise compile variants for 1 and for multiples of 16


@triton.jit
def sigmoid(z):
    """σ(z)."""
    return 1 / (1 + tl.exp(-z))


@triton.jit
def hyperbolic(z):
    """tanh z = 2 σ(2z) − 1; near zero that loses digits, so a few terms of the series are used there."""
    square = z * z
    near = z * (1 + square * (-1 / 3 + square * (2 / 15 - square * (17 / 315))))
    return tl.where(square < 0.01, near, 2 / (1 + tl.exp(-2 * z)) - 1)


@triton.jit
def sign(z):
    """1 for z ≥ 0, −1 otherwise."""
    return tl.where(z >= 0, 1.0, -1.0)


@triton.jit
def place(t, length, is_reverse):
    """The time that a sequence reads at step t of a direction."""
    return tl.where(is_reverse != 0, length - 1 - t, t)


@triton.jit
def lengths_of(lengths, rows, is_on, T, OFFSET: tl.constexpr):
    """The length of every sequence: T where no lengths are given, 0 beyond the last row."""
    found = tl.where(is_on, T, 0)
    if lengths is not None:
        found = tl.load(lengths + rows, mask=is_on, other=0)
    return found.to(OFFSET)


@triton.jit
def arrive(counters, tile, d, GROUP: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Tell the other programs of the group that this one has stored its results."""
    tl.debug_barrier()
    if GROUP > 1 and IS_WHOLE:
        tl.atomic_add(counters + d * tl.num_programs(1) + tile, 1, sem="release", scope="gpu")


@triton.jit
def wait(counters, tile, d, arrived, GROUP: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Wait until all programs of a group have arrived `arrived` + 1 times.

    Without IS_WHOLE, a launch computes a single step, and its end synchronises the programs.
    """
    if GROUP > 1 and IS_WHOLE:
        counter = (counters + d * tl.num_programs(1) + tile).to(tl.int64)
        while seen(counter) < (arrived + 1) * GROUP:
            pass


@triton.jit
def seen(counter):
    """Read a counter with acquire semantics: what other programs stored before they counted is visible afterwards."""
    return tl.inline_asm_elementwise(
        "ld.acquire.gpu.global.s32 $0, [$1];", "=r,l", [counter], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def split_gates(stacked, BB: tl.constexpr, UB: tl.constexpr):
    """The four gates (BB, UB) of a tile (BB, 4 · UB)."""
    pairs = tl.permute(tl.reshape(stacked, (BB, 2, 2, UB)), (0, 3, 1, 2))
    even, odd = tl.split(pairs)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def load_shares(shares, line, is_on, GROUP: tl.constexpr, MEMBERS: tl.constexpr):
    """For every row, the shares that all programs of its group stored."""
    members = tl.arange(0, MEMBERS)
    mask = is_on[:, None] & (members < GROUP)[None, :]
    return tl.load(shares + line[:, None] + members[None, :], mask=mask, other=0.0, cache_modifier=".cg")


def memory_of(device: torch.device) -> int:
    """The shared memory of a program, in bytes."""
    return 2**30 if IS_INTERPRETED else max_shared_mem(device.index)


IS_INTERPRETED = not isinstance(sigmoid, triton.JITFunction)
