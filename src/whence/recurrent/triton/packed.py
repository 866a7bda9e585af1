# pyright: basic
"""A layer's weights as the kernels read them: split into two parts, and zero-padded to whole tiles.

Small layers, which one program holds, are packed in a single launch. For larger ones, most tensors are then split into float16
parts.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.recurrent.triton.grid import LARGE
from whence.recurrent.triton.split import Split, split_float16, tf32_head
from whence.recurrent.weights import Weights

BLOCK = 1024
ALIGNED = 64  # every tensor starts at a multiple of this many numbers, for wide loads


class Packed(NamedTuple):
    """The weights of D directions. Every program owns some units of all gates; `hidden` has room for four gates."""

    inputs: Split  # 2 · D · gates · H · E
    hidden: Split  # 2 · D · group · 4 · units · depth; without the 2, unsplit, where one program holds the layer
    across: Split  # 2 · E · D · depth: the candidate's U, transposed
    back: Tensor  # 2 · D · group · units · depth: the candidate's W, transposed, in TF32 parts
    bias: Tensor  # D · gates · H, of U x
    hidden_bias: Tensor  # D · gates · H, of W h⁻ where it has one of its own


def packed(weights: Sequence[Weights], *, candidate: int, group: int, units: int, depth: int, is_held: bool) -> Packed:
    """The weights of every direction in float32, whatever their dtype; an absent bias is zero."""
    given = [[None if each is None else each.contiguous() for each in (own.input, own.hidden, *own.biases)] for own in weights]
    count, (rows, size), all_units = len(weights), weights[0].input.shape, weights[0].hidden_size
    tile, parts = group * units * depth, 2 if is_held else 1
    sizes = [count * each for each in (parts * rows * size, 4 * tile, parts * size * depth, 2 * tile, rows, rows)]
    whole = [each + -each % ALIGNED for each in sizes]
    made = torch.empty(sum(whole), dtype=torch.float32, device=weights[0].input.device).split(whole)
    kernel: Any = pack
    kernel[(-(-max(sizes) // BLOCK),)](
        *given[0], *given[-1], *made, size, count, H=all_units, DEPTH=depth, UB=units, GROUP=group, GATES=rows // all_units,
        CANDIDATE=candidate, BLOCK=BLOCK, IS_LARGE=max(sizes) >= LARGE, IS_HELD=is_held,
    )  # fmt: skip
    inputs, hidden, across, *others = made
    if is_held:
        return Packed(Split(inputs), Split(hidden), Split(across), *others)
    shaped = ((inputs, (count * rows, size)), (hidden, (count * group * 4 * units, depth)), (across, (size, count * depth)))
    inputs, hidden, across = (split_float16(each[: prod(shape)].view(shape)) for each, shape in shaped)
    return Packed(inputs, hidden, across, *others)


@triton.jit
def of_direction(first, second, at, d, is_there):
    """Load from the tensor of direction d, zero where the mask is off."""
    own = tl.load(first + at, mask=is_there & (d == 0), other=0.0).to(tl.float32)
    return own + tl.load(second + at, mask=is_there & (d == 1), other=0.0).to(tl.float32)


@triton.jit
def put(to, at, size, number, IS_SPLIT: tl.constexpr):
    """Store numbers unsplit or, with IS_SPLIT, in TF32 parts, the tails `size` after the heads."""
    head = tf32_head(number) if IS_SPLIT else number
    tl.store(to + at, head, mask=at < size)
    if IS_SPLIT:
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
    u, w, b, b_h, u_2, w_2, b_2, b_h_2, inputs, hidden, across, back, bias, hidden_bias, E, count, H: tl.constexpr,
    DEPTH: tl.constexpr, UB: tl.constexpr, GROUP: tl.constexpr, GATES: tl.constexpr, CANDIDATE: tl.constexpr,
    BLOCK: tl.constexpr, IS_LARGE: tl.constexpr, IS_HELD: tl.constexpr,
):  # fmt: skip
    """Every program fills a block of each tensor of `Packed`."""
    OFFSET = tl.int64 if IS_LARGE else tl.int32
    at = tl.program_id(0).to(OFFSET) * BLOCK + tl.arange(0, BLOCK)
    put_bias(bias, b, b_2, at, GATES * H, count)
    put_bias(hidden_bias, b_h, b_h_2, at, GATES * H, count)
    size = tl.cast(E, OFFSET) * GATES * H
    put(inputs, at, count * size, of_direction(u, u_2, at % size, at // size, at < count * size), IS_HELD)
    k, unit, tile = at % DEPTH, at // DEPTH % UB, at // (DEPTH * UB)
    gate, own, d = tile % 4, unit + tile // 4 % GROUP * UB, tile // (4 * GROUP)
    is_there = (k < H) & (own < H) & (gate < GATES)
    put(hidden, at, count * GROUP * 4 * UB * DEPTH, of_direction(w, w_2, (gate * H + own) * H + k, d, is_there), False)
    own, d = unit + tile % GROUP * UB, tile // GROUP
    is_there = (k < H) & (own < H)
    put(back, at, count * GROUP * UB * DEPTH, of_direction(w, w_2, (CANDIDATE * H + k) * H + own, d, is_there), True)
    d, e = at // DEPTH % count, at // (DEPTH * count)
    size = tl.cast(E, OFFSET) * count * DEPTH
    put(across, at, size, of_direction(u, u_2, (CANDIDATE * H + k) * E + e, d, (k < H) & (e < E)), IS_HELD)
