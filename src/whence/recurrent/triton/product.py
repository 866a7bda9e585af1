# pyright: basic
"""A product of two matrices on tensor cores, as good as in IEEE single precision, with what comes before or after it."""

from math import gcd
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from whence.recurrent.triton.grid import LARGE, tiles_for
from whence.recurrent.triton.parts import Parts, parts_at, precise_dot
from whence.recurrent.triton.shared import memory_of


def product(
    a: Parts, b: Parts, out: Tensor, *, bias: Tensor | None = None, x: Tensor | None = None, shares: Tensor | None = None
) -> None:
    """out (M, N) = a bᵀ + bias, or x ⊙ (a bᵀ) + all shares (M, ·) of a row, for a (M, K) and b (N, K).

    Both are halves or neither is; then a is whole. x is repeated as a has its rows.
    """
    columns, depth = out.shape[-1], a.parts.shape[-1]
    rows, of_x = out.numel() // columns, 0 if x is None else x.numel() // columns
    of_shares = 0 if shares is None else shares.shape[-1]
    wide, deep = gcd(columns, 4), gcd(depth, 8)
    down, across, inner, warps, stages = tiles_for(columns, depth, memory_of(out.device), is_halved=a.scale is not None)
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
    """c (M, N) = a (M, K) bᵀ + bias, or, on the way back, x ⊙ (a bᵀ) + all shares of the row; halves have scales of_a and of_b.

    x has `of_x` rows, and is taken as often as needed. N and K come as multiples of WIDE and DEEP: knowing that all rows begin
    at a multiple of 16 bytes, the compiler loads as many at a time.
    """
    N, K = wide_units * WIDE, deep_units * DEEP
    OFFSET = tl.int64 if IS_LARGE else tl.int32
    # neighbours in a square of 8 tiles by 8 use the same rows and columns while those are in the cache
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = tl.program_id(0) // (8 * wide)
    height = tl.minimum(high - band * 8, 8)
    down = (band * 8 + tl.program_id(0) % (8 * wide) % height).to(tl.int64) * BM + tl.arange(0, BM)
    across = (tl.program_id(0) % (8 * wide) // height).to(OFFSET) * BN + tl.arange(0, BN)
    rest_a, rest_b = tl.cast(M, tl.int64) * K, tl.cast(N, OFFSET) * K
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        ks = start + tl.arange(0, BK)
        head, rest = parts_at(a + down[:, None] * K + ks[None, :], rest_a, (down < M)[:, None] & (ks < K)[None, :])
        at, fits = b + across[None, :] * K + ks[:, None], (across < N)[None, :] & (ks < K)[:, None]
        acc = precise_dot(acc, head, rest, tl.load(at, mask=fits, other=0.0), tl.load(at + rest_b, mask=fits, other=0.0))
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
