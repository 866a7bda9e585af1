# pyright: basic, reportGeneralTypeIssues=false
"""Numbers split into two parts, so that products on tensor cores are as accurate as in float32.

A number is head + tail. There are two kinds of splits:

- TF32: the head is a float32 truncated to the 10 mantissa bits that tensor cores read, the tail is the rest.
- float16: head and tail are float16, 11 bits each, and every row has a power of two as its scale. This takes half the memory,
  and products are twice as fast.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

TOP = tl.constexpr(2.0**15)  # the largest number of a row is scaled to at most this; float16 ends at 65,504
ALIGNMENT = 8  # rows of float16 numbers are padded to a multiple of 16 bytes
ROWS, BLOCK = 4, 256


class Split(NamedTuple):
    """Rows of numbers: (head + tail) · scale. Without a scale, `parts` are float32, to be split into TF32 parts when read."""

    parts: Tensor  # (2, rows, depth): all heads, then all tails; or unsplit float32 numbers (rows, depth)
    scale: Tensor | None = None  # (rows,), of float16 parts


def split_float16(numbers: Tensor, depth: int | None = None, *, least: float = 0.0) -> Split:
    """Split rows (…, K) into float16 parts, zero-padded to the depth. The scale is large enough for numbers up to `least`."""
    size = numbers.shape[-1]
    depth = size + -size % ALIGNMENT if depth is None else depth
    rows = numbers.numel() // max(size, 1)
    made = Split(
        torch.empty(2, rows, depth, dtype=torch.float16, device=numbers.device),
        torch.empty(rows, dtype=torch.float32, device=numbers.device),
    )
    kernel: Any = split_kernel
    kernel[(-(-rows // ROWS),)](numbers.contiguous(), *made, rows, size, depth, least, ROWS=ROWS, BLOCK=BLOCK)
    return made


@triton.jit(do_not_specialize=("rows", "least"))
def split_kernel(numbers, parts, scales, rows, K, depth, least, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Every program splits ROWS rows; the scale is the power of two that brings the largest number of a row to TOP."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = (row < rows)[:, None]
    largest = tl.zeros((ROWS,), dtype=tl.float32) + least
    for start in range(0, K, BLOCK):
        ks = start + tl.arange(0, BLOCK)[None, :]
        found = tl.load(numbers + row[:, None] * K + ks, mask=is_row & (ks < K), other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(found), 1))
    scale = scale_for(largest)
    tl.store(scales + row, scale, mask=row < rows)
    for start in range(0, depth, BLOCK):
        ks = start + tl.arange(0, BLOCK)[None, :]
        found = tl.load(numbers + row[:, None] * K + ks, mask=is_row & (ks < K), other=0.0)
        store_state(
            parts + row[:, None] * depth + ks, tl.cast(rows, tl.int64) * depth, found, scale[:, None], is_row & (ks < depth)
        )


@triton.jit
def scale_for(largest):
    """The power of two that numbers up to the largest are divided by."""
    power = ((largest.to(tl.int32, bitcast=True) + 0x7FFFFF) & 0x7F800000).to(tl.float32, bitcast=True)
    return tl.minimum(tl.maximum(power, 2.0**-100), 2.0**126) / TOP  # within these bounds, its inverse is a normal float32


@triton.jit
def float16_parts(number, scale):
    """Split numbers of at most TOP · scale into float16 head and tail."""
    scaled = number / scale
    head = scaled.to(tl.float16)
    return head, (scaled - head.to(tl.float32)).to(tl.float16)


@triton.jit
def store_state(to, tail_at, number, scale, is_on):
    """Store numbers as float32, or split into float16 parts where `to` is float16; the tails lie `tail_at` further."""
    if to.dtype.element_ty == tl.float16:
        head, tail = float16_parts(number, scale)
        tl.store(to, head, mask=is_on)
        tl.store(to + tail_at, tail, mask=is_on)
    else:
        tl.store(to, number, mask=is_on)


@triton.jit
def load_state(at, tail_at, is_on):
    """Load what `store_state` stored. Call `join` where the number is needed, so that computation overlaps with the load."""
    head = tl.load(at, mask=is_on, other=0.0)
    tail = head
    if at.dtype.element_ty == tl.float16:
        tail = tl.load(at + tail_at, mask=is_on, other=0.0)
    return head, tail


@triton.jit
def join(head, tail, scale):
    """The number that `load_state` loaded."""
    if head.dtype == tl.float16:
        head = (head.to(tl.float32) + tail.to(tl.float32)) * scale
    return head


@triton.jit
def tf32_head(a):
    """A float32 truncated to the 10 mantissa bits that tensor cores read."""
    return (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def load_split(at, tail_at, is_on):
    """Load numbers as head and tail. Float16 parts are stored that way; float32 numbers are split here."""
    head = tl.load(at, mask=is_on, other=0.0, cache_modifier=".cg")  # not from L1: other programs wrote it in this launch
    if at.dtype.element_ty == tl.float16:
        tail = tl.load(at + tail_at, mask=is_on, other=0.0, cache_modifier=".cg")
    else:
        whole = head
        head = tf32_head(whole)
        tail = whole - head
    return head, tail


@triton.jit
def precise_dot(acc, a, tail_a, b, tail_b):
    """acc + (a + tail_a) (b + tail_b), without the negligible product of both tails."""
    acc = tl.dot(tail_a, b, acc, input_precision="tf32")
    acc = tl.dot(a, tail_b, acc, input_precision="tf32")
    return tl.dot(a, b, acc, input_precision="tf32")


@triton.jit
def times_weights(acc, a, a_tail, a_row, is_on, w, w_tail, WIDTH: tl.constexpr, DEPTH: tl.constexpr, BK: tl.constexpr):
    """acc + a wᵀ for rows of DEPTH numbers at a + a_row and weights (WIDTH, DEPTH); tails lie a_tail and w_tail further."""
    columns = tl.arange(0, WIDTH)
    for start in range(0, DEPTH, BK):
        ks = start + tl.arange(0, BK)
        head, tail = load_split(a + a_row[:, None] + ks[None, :], a_tail, is_on[:, None])
        at = w + columns[None, :] * DEPTH + ks[:, None]
        acc = precise_dot(acc, head, tail, tl.load(at), tl.load(at + w_tail))
    return acc


@triton.jit
def times_held(h, w, w_tail, scale, is_wide):
    """h w for a state in registers. Numbers beyond 1 are multiplied separately, so that they do not cost the others digits.

    `is_wide` says whether there are any.
    """
    near = tl.where(tl.abs(h) > 1, 0.0, h)
    zero = tl.zeros((h.shape[0], w.shape[1]), dtype=tl.float32)
    head, tail = float16_parts(near, 1 / TOP)
    z = precise_dot(zero, head, tail, w, w_tail) * (1 / TOP)
    if is_wide:
        head, tail = float16_parts(h - near, scale)
        z += precise_dot(zero, head, tail, w, w_tail) * scale
    return z
