"""Ragged batches: packing, and reversal within each sequence; the sweeps see only a (T, B, ·) tensor and its lengths."""

from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor


class Packing(NamedTuple):
    """The place of every row of PyTorch's packed data in a (T, B, ·) tensor."""

    step: Tensor  # (rows,)
    sample: Tensor  # (rows,)
    lengths: Tensor  # (B,)

    @staticmethod
    def of(batch_sizes: Tensor, device: torch.device) -> "Packing":
        """The packing whose t-th step holds the first batch_sizes[t] samples."""
        count = partial(torch.arange, device=batch_sizes.device)
        steps = count(len(batch_sizes)).repeat_interleave(batch_sizes)
        samples = torch.cat([count(int(size)) for size in batch_sizes])
        lengths = (batch_sizes[:, None] > count(int(batch_sizes[0]))).sum(0)
        return Packing(steps.to(device), samples.to(device), lengths.to(device))

    def unpack(self, rows: Tensor) -> Tensor:
        """Packed rows (..., rows, E) as a zero-padded (..., T, B, E)."""
        steps, samples = int(self.lengths[0]), len(self.lengths)
        padded = rows.new_zeros(*rows.shape[:-2], steps, samples, rows.shape[-1])
        padded[..., self.step, self.sample, :] = rows
        return padded

    def pack(self, padded: Tensor) -> Tensor:
        """The packed rows (..., rows, E) of a padded (..., T, B, E)."""
        return padded[..., self.step, self.sample, :]


def reverse(padded: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse every sequence of (..., T, B, E) within its own length; its own inverse, padding stays in place."""
    if lengths is None:
        return padded.flip(-3)
    steps = torch.arange(padded.shape[-3], device=padded.device)[:, None]
    index = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    return padded.gather(-3, index[..., None].expand(padded.shape))


def running(steps: int, batch: int, lengths: Tensor | None) -> list[int]:
    """How many sequences are still running at every step; they are sorted by length, longest first."""
    if lengths is None:
        return [batch] * steps
    return cast(list[int], (torch.arange(steps, device=lengths.device)[:, None] < lengths).sum(1).tolist())
