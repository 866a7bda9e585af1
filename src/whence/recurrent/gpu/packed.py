# pyright: basic
"""A layer's weights as the kernels read them: in two parts each, filled up to whole tiles, all made in one launch.

The first part is what tensor cores read of a number, 10 bits behind the point, the second the rest.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.recurrent.gpu.grid import LARGE
from whence.recurrent.gpu.shared import coarse
from whence.recurrent.weights import GRUWeights, LSTMWeights

BLOCK = 1024
ALIGNED = 64  # every tensor starts where the widest loads can
CANDIDATE = tl.constexpr(2)  # the third gate of both cells


class Packed(NamedTuple):
    """The weights of D directions for programs that own some units of every gate; three gates take the room of four."""

    inputs: Tensor  # 2 · D · gates · H · E
    hidden: Tensor  # 2 · D · group · 4 · units · depth
    back: Tensor  # 2 · D · group · units · depth: the candidate's W, turned round
    across: Tensor  # 2 · E · D · depth: the candidate's U, turned round
    bias: Tensor  # D · gates · H, of the input's sums
    hidden_bias: Tensor  # D · gates · H


def packed(weights: Sequence[LSTMWeights | GRUWeights], *, group: int, units: int, depth: int) -> Packed:
    """The weights of every direction, in single precision whatever they were, zero where there is no bias."""
    given = [
        [None if each is None else each.contiguous() for each in (*own[:3], None if isinstance(own, LSTMWeights) else own[3])]
        for own in weights
    ]
    count, (rows, size), hidden = len(weights), weights[0].input.shape, weights[0].hidden.shape[1]
    tile = group * units * depth
    sizes = [count * each for each in (2 * rows * size, 8 * tile, 2 * tile, 2 * size * depth, rows, rows)]
    whole = [each + -each % ALIGNED for each in sizes]
    made = Packed(*torch.empty(sum(whole), dtype=torch.float32, device=weights[0].input.device).split(whole))
    kernel: Any = pack
    kernel[(-(-max(sizes) // (2 * BLOCK)),)](
        *given[0], *given[-1], *made, size, count, H=hidden, DEPTH=depth, UB=units, GROUP=group, GATES=rows // hidden,
        BLOCK=BLOCK, IS_LARGE=max(sizes) >= LARGE,
    )  # fmt: skip
    return made


@triton.jit
def of_direction(first, second, at, d, is_there):
    """What lies somewhere in the tensor of the first direction or the second, zero where nothing is."""
    own = tl.load(first + at, mask=is_there & (d == 0), other=0.0).to(tl.float32)
    return own + tl.load(second + at, mask=is_there & (d == 1), other=0.0).to(tl.float32)


@triton.jit
def put(to, at, size, number):
    """Store numbers in two parts, the second `size` behind the first."""
    head = coarse(number)
    tl.store(to + at, head, mask=at < size)
    tl.store(to + size + at, number - head, mask=at < size)


@triton.jit
def put_bias(to, first, second, at, size, count):
    """Store the biases of all directions one after another."""
    found = tl.zeros_like(at).to(tl.float32)
    if first is not None:
        found = of_direction(first, second, at % size, at // size, at < count * size)
    tl.store(to + at, found, mask=at < count * size)


@triton.jit
def pack(
    u, w, b, b_h, u_2, w_2, b_2, b_h_2, inputs, hidden, back, across, bias, hidden_bias, E, count, H: tl.constexpr,
    DEPTH: tl.constexpr, UB: tl.constexpr, GROUP: tl.constexpr, GATES: tl.constexpr, BLOCK: tl.constexpr,
    IS_LARGE: tl.constexpr,
):  # fmt: skip
    """Every program fills a block of each tensor of `Packed`."""
    OFFSET = tl.int64 if IS_LARGE else tl.int32
    at = tl.program_id(0).to(OFFSET) * BLOCK + tl.arange(0, BLOCK)
    put_bias(bias, b, b_2, at, GATES * H, count)
    put_bias(hidden_bias, b_h, b_h_2, at, GATES * H, count)
    size = tl.cast(E, OFFSET) * GATES * H
    put(inputs, at, count * size, of_direction(u, u_2, at % size, at // size, at < count * size))
    k, unit, tile = at % DEPTH, at // DEPTH % UB, at // (DEPTH * UB)
    gate, own, d = tile % 4, unit + tile // 4 % GROUP * UB, tile // (4 * GROUP)
    is_there = (k < H) & (own < H) & (gate < GATES)
    put(hidden, at, count * GROUP * 4 * UB * DEPTH, of_direction(w, w_2, (gate * H + own) * H + k, d, is_there))
    own, d = unit + tile % GROUP * UB, tile // GROUP
    is_there = (k < H) & (own < H)
    put(back, at, count * GROUP * UB * DEPTH, of_direction(w, w_2, (CANDIDATE * H + k) * H + own, d, is_there))
    d, e = at // DEPTH % count, at // (DEPTH * count)
    size = tl.cast(E, OFFSET) * count * DEPTH
    put(across, at, size, of_direction(u, u_2, (CANDIDATE * H + k) * E + e, d, (k < H) & (e < E)))
