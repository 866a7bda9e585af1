# pyright: basic, reportGeneralTypeIssues=false
"""Numbers in two parts, whose products on tensor cores are as good as in IEEE single precision.

A number is head + rest. Either the head is what tensor cores read of a single, 10 bits behind the point, and both are singles;
or both are halves, of 11 bits each, times a power of two that belongs to the row: half the room, and products twice as fast.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

TOP = tl.constexpr(2.0**15)  # what the largest number of a row comes to at most; halves end at 65,504
FEWEST = 8  # halves come by 16 bytes
ROWS, BLOCK = 4, 256


class Parts(NamedTuple):
    """Rows of numbers: (head + rest) · scale."""

    parts: Tensor  # (2, rows, depth): all heads, all rests; or singles that are still to be parted
    scale: Tensor | None = None  # (rows,) where they are halves


def halved(numbers: Tensor, depth: int | None = None, *, least: float = 0.0) -> Parts:
    """Rows (…, K) in halves, filled up with zeros to the depth, as if every row held `least`."""
    size = numbers.shape[-1]
    depth = size + -size % FEWEST if depth is None else depth
    rows = numbers.numel() // max(size, 1)
    made = Parts(
        torch.empty(2, rows, depth, dtype=torch.float16, device=numbers.device),
        torch.empty(rows, dtype=torch.float32, device=numbers.device),
    )
    kernel: Any = halve
    kernel[(-(-rows // ROWS),)](numbers.contiguous(), *made, rows, size, depth, least, ROWS=ROWS, BLOCK=BLOCK)
    return made


@triton.jit(do_not_specialize=("rows", "least"))
def halve(numbers, parts, scales, rows, K, depth, least, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Every program halves a few rows; the scale is the power of two that brings the largest number of a row to TOP."""
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
        store_parts(
            parts + row[:, None] * depth + ks, tl.cast(rows, tl.int64) * depth, found, scale[:, None], is_row & (ks < depth)
        )


@triton.jit
def scale_for(largest):
    """The power of two that numbers up to the largest are divided by."""
    power = ((largest.to(tl.int32, bitcast=True) + 0x7FFFFF) & 0x7F800000).to(tl.float32, bitcast=True)
    return tl.minimum(tl.maximum(power, 2.0**-100), 2.0**126) / TOP  # beyond, its inverse has no place among singles


@triton.jit
def halves(number, scale):
    """Numbers of at most TOP · scale in two halves."""
    scaled = number / scale
    head = scaled.to(tl.float16)
    return head, (scaled - head.to(tl.float32)).to(tl.float16)


@triton.jit
def store_parts(to, rest, number, scale, is_on):
    """Store numbers of at most TOP · scale in halves, the second `rest` behind the first; or singles as they are."""
    if to.dtype.element_ty == tl.float16:
        head, tail = halves(number, scale)
        tl.store(to, head, mask=is_on)
        tl.store(to + rest, tail, mask=is_on)
    else:
        tl.store(to, number, mask=is_on)


@triton.jit
def stored_at(at, rest, is_on):
    """What was stored in parts, or not; to be joined when it is needed, for until then it may be on its way."""
    head = tl.load(at, mask=is_on, other=0.0)
    tail = head
    if at.dtype.element_ty == tl.float16:
        tail = tl.load(at + rest, mask=is_on, other=0.0)
    return head, tail


@triton.jit
def joined(head, tail, scale):
    """The number that was stored."""
    if head.dtype == tl.float16:
        head = (head.to(tl.float32) + tail.to(tl.float32)) * scale
    return head


@triton.jit
def coarse(a):
    """What tensor cores read of a single: 10 bits behind the point."""
    return (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def parts_at(at, rest, is_on):
    """Numbers in two parts: halves lie so, the second `rest` behind the first; singles are parted here."""
    head = tl.load(at, mask=is_on, other=0.0, cache_modifier=".cg")  # as others left it a moment ago
    if at.dtype.element_ty == tl.float16:
        tail = tl.load(at + rest, mask=is_on, other=0.0, cache_modifier=".cg")
    else:
        whole = head
        head = coarse(whole)
        tail = whole - head
    return head, tail


@triton.jit
def precise_dot(acc, a, rest_a, b, rest_b):
    """acc + (a + rest_a) (b + rest_b), but for the product of both rests."""
    acc = tl.dot(rest_a, b, acc, input_precision="tf32")
    acc = tl.dot(a, rest_b, acc, input_precision="tf32")
    return tl.dot(a, b, acc, input_precision="tf32")


@triton.jit
def times_weights(acc, a, rest_a, a_row, is_on, w, rest_w, WIDTH: tl.constexpr, DEPTH: tl.constexpr, BK: tl.constexpr):
    """acc + a · wᵀ for rows a + a_row of DEPTH numbers, and weights (WIDTH, DEPTH); rests lie rest_a and rest_w further."""
    columns = tl.arange(0, WIDTH)
    for start in range(0, DEPTH, BK):
        ks = start + tl.arange(0, BK)
        head, rest = parts_at(a + a_row[:, None] + ks[None, :], rest_a, is_on[:, None])
        at = w + columns[None, :] * DEPTH + ks[:, None]
        acc = precise_dot(acc, head, rest, tl.load(at), tl.load(at + rest_w))
    return acc


@triton.jit
def times_held(h, w, rest_w, scale, is_wide):
    """h · w for states that are kept in registers; those beyond 1, which `is_wide` says there are, by themselves."""
    near = tl.where(tl.abs(h) > 1, 0.0, h)
    zero = tl.zeros((h.shape[0], w.shape[1]), dtype=tl.float32)
    head, tail = halves(near, 1 / TOP)
    z = precise_dot(zero, head, tail, w, rest_w) * (1 / TOP)
    if is_wide:
        head, tail = halves(h - near, scale)
        z += precise_dot(zero, head, tail, w, rest_w) * scale
    return z
