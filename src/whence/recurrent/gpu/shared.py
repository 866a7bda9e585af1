# pyright: basic
"""What the kernels of both cells share: activations, where a program stands, how programs wait for each other, a product.

A program owns some rows of the batch (BB) and some units of the state (UB) of one direction, for all steps. Where a layer has
more units than one program holds, the programs of the same rows form a group, and meet once at every step.
"""

import triton
import triton.language as tl


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
def meet(counter, arrived, GROUP: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Wait until all programs of a group have come here; `arrived` counts how many times they met before.

    Unless a launch does the whole sequence, it does one step, and its end is where they meet.
    """
    tl.debug_barrier()
    if GROUP > 1 and IS_WHOLE:
        tl.atomic_add(counter, 1, sem="release", scope="gpu")
        while tl.load(counter, volatile=True) < (arrived + 1) * GROUP:
            pass
        tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
        tl.debug_barrier()


@triton.jit
def precise_dot(acc, a, coarse, fine):
    """acc + a (coarse + fine) on tensor cores, as good as in IEEE single precision: they read 10 bits behind the point of each.

    a is parted here as the weights were before: what 10 bits hold, and the rest. The product of both rests is left out.
    """
    head = (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    rest = a - head
    acc = tl.dot(rest, coarse, acc, input_precision="tf32")
    acc = tl.dot(head, fine, acc, input_precision="tf32")
    return tl.dot(head, coarse, acc, input_precision="tf32")


@triton.jit
def times_weights(acc, a, a_row, is_on, weights, rest, WIDTH: tl.constexpr, DEPTH: tl.constexpr, BK: tl.constexpr):
    """acc + a · weightsᵀ for rows a + a_row of DEPTH numbers, and weights (WIDTH, DEPTH), whose rest lies `rest` further."""
    columns = tl.arange(0, WIDTH)
    for start in range(0, DEPTH, BK):
        ks = start + tl.arange(0, BK)
        own = tl.load(a + a_row[:, None] + ks[None, :], mask=is_on[:, None], other=0.0, cache_modifier=".cg")
        at = weights + columns[None, :] * DEPTH + ks[:, None]
        acc = precise_dot(acc, own, tl.load(at), tl.load(at + rest))
    return acc


@triton.jit
def four_parts(both, BB: tl.constexpr, UB: tl.constexpr):
    """The columns of (BB, 4 · UB) in four parts, one for each gate."""
    pairs = tl.permute(tl.reshape(both, (BB, 2, 2, UB)), (0, 3, 1, 2))
    even, odd = tl.split(pairs)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def shared_out(shares, line, is_on, GROUP: tl.constexpr, MEMBERS: tl.constexpr):
    """The share of every row, put together from what all programs of a group found."""
    members = tl.arange(0, MEMBERS)
    mask = is_on[:, None] & (members < GROUP)[None, :]
    return tl.sum(tl.load(shares + line[:, None] + members[None, :], mask=mask, other=0.0, cache_modifier=".cg"), 1)


@triton.jit
def product_kernel(
    a, b, bias, x, shares, c, M, N, K, of_x, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, IS_BACK: tl.constexpr
):  # fmt: skip
    """c (M, N) = a (M, K) bᵀ + bias, for b in its two parts; or, on the way back, x ⊙ (a bᵀ) + share, x as often as needed.

    x has `of_x` rows.
    """
    # neighbours in a square of 8 tiles by 8 use the same rows and columns while those are in the cache
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = tl.program_id(0) // (8 * wide)
    height = tl.minimum(high - band * 8, 8)
    down = (band * 8 + tl.program_id(0) % (8 * wide) % height).to(tl.int64) * BM + tl.arange(0, BM)
    across = tl.program_id(0) % (8 * wide) // height * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        ks = start + tl.arange(0, BK)
        left = tl.load(a + down[:, None] * K + ks[None, :], mask=(down < M)[:, None] & (ks < K)[None, :], other=0.0)
        at, fits = b + across[None, :] * K + ks[:, None], (across < N)[None, :] & (ks < K)[:, None]
        acc = precise_dot(acc, left, tl.load(at, mask=fits, other=0.0), tl.load(at + N * K, mask=fits, other=0.0))
    inside = (down < M)[:, None] & (across < N)[None, :]
    if IS_BACK:
        own = tl.load(x + (down % of_x)[:, None] * N + across[None, :], mask=inside, other=0.0)
        acc = own * acc + tl.load(shares + down, mask=down < M, other=0.0)[:, None]
    else:
        acc += tl.load(bias + across, mask=across < N, other=0.0)[None, :]
    tl.store(c + down[:, None] * N + across[None, :], acc, mask=inside)
