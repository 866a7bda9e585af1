# pyright: basic
"""A product of two matrices on tensor cores, as accurate as in float32, with the operations that follow it."""

from math import gcd
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from whence.recurrent.triton.grid import LARGE, tiles_for
from whence.recurrent.triton.shared import memory_of
from whence.recurrent.triton.split import Split, load_split, precise_dot


def product(
    a: Split, b: Split, out: Tensor, *, bias: Tensor | None = None, x: Tensor | None = None, shares: Tensor | None = None
) -> None:
    """out (M, N) = a bᵀ + bias, or x ⊙ (a bᵀ) + the sum of a row's shares (M, ·), for a (M, K) and b (N, K).

    Either both have float16 parts, or b has TF32 parts and a is unsplit float32. x is broadcast over the rows of a.
    """
    columns, depth = out.shape[-1], a.parts.shape[-1]
    rows, of_x = out.numel() // columns, 0 if x is None else x.numel() // columns
    of_shares = 0 if shares is None else shares.shape[-1]
    wide, deep = gcd(columns, 4), gcd(depth, 8)
    down, across, inner, warps, stages = tiles_for(columns, depth, memory_of(out.device), is_float16=a.scale is not None)
    kernel: Any = product_kernel
    kernel[(-(-rows // down) * -(-columns // across),)](
        *a, *b, bias, x, shares, out, rows, columns // wide, depth // deep, of_x, of_shares, WIDE=wide, DEEP=deep, BM=down,
        BN=across, BK=inner, IS_BACK=x is not None, IS_LARGE=b.parts.numel() >= LARGE, num_warps=warps, num_stages=stages,
    )  # fmt: skip


@triton.jit
def product_kernel(
    a, of_a, b, of_b, bias, x, shares, c, M, wide_units, deep_units, of_x, of_shares, WIDE: tl.constexpr, DEEP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, IS_BACK: tl.constexpr, IS_LARGE: tl.constexpr,
):  # fmt: skip
    """c (M, N) = a (M, K) bᵀ + bias or, with IS_BACK, x ⊙ (a bᵀ) + the sum of the row's shares.

    of_a and of_b are the scales of float16 parts. x has `of_x` rows, which are repeated. N and K are given as multiples of WIDE
    and DEEP, so that the compiler knows that rows are aligned and can use 16-byte loads.
    """
    N, K = wide_units * WIDE, deep_units * DEEP
    OFFSET = tl.int64 if IS_LARGE else tl.int32
    # programs are ordered in bands of 8 tiles, so that those that run together share rows and columns in the L2 cache
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = tl.program_id(0) // (8 * wide)
    height = tl.minimum(high - band * 8, 8)
    down = (band * 8 + tl.program_id(0) % (8 * wide) % height).to(tl.int64) * BM + tl.arange(0, BM)
    across = (tl.program_id(0) % (8 * wide) // height).to(OFFSET) * BN + tl.arange(0, BN)
    tail_a, tail_b = tl.cast(M, tl.int64) * K, tl.cast(N, OFFSET) * K
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        ks = start + tl.arange(0, BK)
        head, tail = load_split(a + down[:, None] * K + ks[None, :], tail_a, (down < M)[:, None] & (ks < K)[None, :])
        at, fits = b + across[None, :] * K + ks[:, None], (across < N)[None, :] & (ks < K)[:, None]
        acc = precise_dot(acc, head, tail, tl.load(at, mask=fits, other=0.0), tl.load(at + tail_b, mask=fits, other=0.0))
    if of_a is not None:
        acc *= tl.load(of_a + down, mask=down < M, other=0.0)[:, None]
        acc *= tl.load(of_b + across, mask=across < N, other=0.0)[None, :]
    inside = (down < M)[:, None] & (across < N)[None, :]
    if IS_BACK:
        own = tl.load(x + (down % of_x)[:, None] * N + across[None, :], mask=inside, other=0.0)
        share = tl.zeros((BM,), dtype=tl.float32)
        for number in range(of_shares):
            share += tl.load(shares + down * of_shares + number, mask=down < M, other=0.0)
        acc = own * acc + share[:, None]
    else:
        acc += tl.load(bias + across, mask=across < N, other=0.0)[None, :]
    tl.store(c + down[:, None] * N + across[None, :], acc, mask=inside)
