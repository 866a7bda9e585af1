# pyright: basic
"""What the kernels of both cells share: activations, where a program stands, how programs wait for each other.

A program owns some rows of the batch (BB) and some units of the state (UB) of one direction, for all steps. Where a layer has
more units than one program holds, the programs of the same rows form a group, and meet once at every step.
"""

import torch
import triton
import triton.language as tl
from triton.compiler.compiler import max_shared_mem

SIZES = ("first", "last", "B", "T", "time", "row", "K", "t_from", "t_to")  # not worth a kernel for every kind of them


@triton.jit
def sigmoid(z):
    """σ(z)."""
    return 1 / (1 + tl.exp(-z))


@triton.jit
def hyperbolic(z):
    """tanh z: 2 σ(2z) − 1 loses its digits near zero, where the first terms of the series have them."""
    square = z * z
    near = z * (1 + square * (-1 / 3 + square * (2 / 15 - square * (17 / 315))))
    return tl.where(square < 0.01, near, 2 / (1 + tl.exp(-2 * z)) - 1)


@triton.jit
def sign(z):
    """1 for z ≥ 0, −1 otherwise."""
    return tl.where(z >= 0, 1.0, -1.0)


@triton.jit
def place(t, length, is_reverse):
    """Where in time a sequence is at the t-th step of a direction."""
    return tl.where(is_reverse != 0, length - 1 - t, t)


@triton.jit
def lengths_of(lengths, rows, is_on, T, OFFSET: tl.constexpr):
    """The length of every sequence, all T where none are given, 0 beyond the last row."""
    found = tl.where(is_on, T, 0)
    if lengths is not None:
        found = tl.load(lengths + rows, mask=is_on, other=0)
    return found.to(OFFSET)


@triton.jit
def arrive(counters, tile, d, GROUP: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Tell the programs of a group that what this one stored is there."""
    tl.debug_barrier()
    if GROUP > 1 and IS_WHOLE:
        tl.atomic_add(counters + d * tl.num_programs(1) + tile, 1, sem="release", scope="gpu")


@triton.jit
def wait(counters, tile, d, arrived, GROUP: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Wait until all programs of a group have arrived; `arrived` counts how many times they did before.

    Unless a launch does the whole sequence, it does one step, and its end is where they meet.
    """
    if GROUP > 1 and IS_WHOLE:
        counter = (counters + d * tl.num_programs(1) + tile).to(tl.int64)
        while seen(counter) < (arrived + 1) * GROUP:
            pass


@triton.jit
def seen(counter):
    """What a counter stands at; what others stored before they counted can be read after it."""
    return tl.inline_asm_elementwise(
        "ld.acquire.gpu.global.s32 $0, [$1];", "=r,l", [counter], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def four_parts(both, BB: tl.constexpr, UB: tl.constexpr):
    """The columns of (BB, 4 · UB) in four parts, one for each gate."""
    pairs = tl.permute(tl.reshape(both, (BB, 2, 2, UB)), (0, 3, 1, 2))
    even, odd = tl.split(pairs)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def shares_at(shares, line, is_on, GROUP: tl.constexpr, MEMBERS: tl.constexpr):
    """The shares of every row that all programs of a group found."""
    members = tl.arange(0, MEMBERS)
    mask = is_on[:, None] & (members < GROUP)[None, :]
    return tl.load(shares + line[:, None] + members[None, :], mask=mask, other=0.0, cache_modifier=".cg")


def memory_of(device: torch.device) -> int:
    """How much memory the warps of a program can share, in bytes."""
    return 2**30 if IS_INTERPRETED else max_shared_mem(device.index)


IS_INTERPRETED = not isinstance(sigmoid, triton.JITFunction)
