"""All directions of a layer by Triton kernels, computed in float32 whatever the dtype of the input.

Forward, one product computes U x + b for all steps, and one launch runs the steps. Back, one launch computes q for all steps,
and one product computes R_x.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whence.equations import Rules
from whence.recurrent.cell import Cell
from whence.recurrent.layer import SweptLayer
from whence.recurrent.triton.grid import LARGE, MOST, Grid, depth_of, fitted, grid_for, group_for, power_of_2, processors
from whence.recurrent.triton.packed import packed
from whence.recurrent.triton.product import product
from whence.recurrent.triton.shared import IS_INTERPRETED, memory_of
from whence.recurrent.triton.split import Split, split_float16
from whence.recurrent.weights import Weights


class TritonLayer:
    """A layer that runs when it is made; `relevance` is its backward pass."""

    def __init__(
        self, cell: Cell, x: Tensor, weights: Sequence[Weights], states: Sequence[Tensor], lengths: Tensor | None
    ) -> None:
        """Run D directions over x (T, B, E) from the states (D, B, H) each."""
        assert cell.triton is not None
        self.dtype, self.kernels = x.dtype, cell.triton()
        self.steps, self.batch, self.inputs = x.shape
        self.count, self.hidden = len(weights), states[0].shape[-1]
        self.is_batch_first = x.stride(0) < x.stride(1)
        self.renew(x)
        self.lengths = lengths
        self.depth = depth_of(self.hidden)
        self.group, self.units = group_for(self.hidden)
        self.is_held = grid_for(self.hidden, self.batch, is_back=False).is_held
        self.weights = packed(
            weights,
            candidate=self.kernels.CANDIDATE,
            group=self.group,
            units=self.units,
            depth=self.depth,
            is_held=self.is_held,
        )
        sums = self.x.new_empty(*self.x.shape[:2], self.count * len(weights[0].input))
        product(self._split(self.x), self.weights.inputs, sums, bias=self.weights.bias)
        first = [each.float().contiguous() for each in states]
        self.ends = self.x.new_empty(len(first), *first[0].shape)
        if self.is_held:
            self.scales, self.states = None, self._padded(self.steps + 1, self.count, self.batch)
        else:
            parts, self.scales = split_float16(first[0], self.depth, least=1.0)
            self.states = self._padded(self.steps + 1, *parts.shape[:2], dtype=torch.float16)
            self.states[0] = parts
        self.tape = self.x.new_empty(self.count, self.steps, self.kernels.KEPT.value, self.batch, self.hidden)
        self.out = self._like_x((), self.count * self.hidden)
        biases = [self.weights.hidden_bias] if self.kernels.HAS_HIDDEN_SUM else []
        first = self._in_place(first, self.ends)
        self._launch(
            self.kernels.forward,
            [sums, *self.weights.hidden, self.scales, *biases, self.states, *first, self.ends, self.tape, self.out],
            lines=self.batch,
        )

    def renew(self, x: Tensor) -> None:
        """Take the same input (T, B, E) from another place in memory; time and batch keep their first order."""
        self.x = (x.transpose(0, 1) if self.is_batch_first else x).float().contiguous()

    def release(self) -> None:
        """Nothing here is borrowed: PyTorch caches the memory of a GPU itself."""

    def _in_place(self, given: Sequence[Tensor], made: Tensor) -> Sequence[Tensor]:
        """Where every step is a launch of its own, each launch must read the states where the one before wrote them."""
        return made.copy_(torch.stack(list(given))).unbind() if self._is_stepwise else given

    @property
    def _is_stepwise(self) -> bool:
        """Triton's interpreter runs programs one after another, so they can synchronise only at the end of a launch."""
        return IS_INTERPRETED and self.group > 1

    def _split(self, numbers: Tensor) -> Split:
        """Numbers as a product takes them; float16 parts are worth an extra launch where the product is large."""
        return Split(numbers) if self.is_held else split_float16(numbers)

    def _padded(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Memory for rows padded to `depth`; zero where programs leave gaps, as products read the padding too."""
        is_written = self.group * self.units >= self.depth and self.lengths is None
        return (self.x.new_empty if is_written else self.x.new_zeros)(*shape, self.depth, dtype=dtype)

    def _like_x(self, lead: tuple[int, ...], size: int) -> Tensor:
        """Memory for (*lead, T, B, size), with time and batch in the order of x; zero where the batch is ragged."""
        shape = (*lead, *self.x.shape[:2], size)
        return self.x.new_empty(shape) if self.lengths is None else self.x.new_zeros(shape)

    def _time_first(self, made: Tensor) -> Tensor:
        """A tensor from `_like_x` as (…, T, B, ·), in the dtype of the input."""
        return (made.transpose(-2, -3) if self.is_batch_first else made).to(self.dtype)

    def _grid(self, lines: int, *, is_back: bool) -> Grid:
        """How this layer is divided on its GPU."""
        best = grid_for(self.hidden, lines, is_back=is_back)
        return best if IS_INTERPRETED else fitted(best, memory_of(self.x.device), is_back=is_back)

    def _launch(
        self,
        kernel: Any,
        tensors: Sequence[Tensor | None],
        sizes: Sequence[int] = (),
        rules: Sequence[float] = (),
        *,
        lines: int,
        is_back: bool = False,
        is_large: bool = False,
    ) -> None:
        """Run a kernel over all steps, for as many rows per launch as programs can run at the same time."""
        is_large |= max(4 * self.batch, lines) * (self.steps + 1) * self.count * self.depth >= LARGE
        own = self._grid(lines, is_back=is_back)
        tiles = MOST
        if self.group > 1 and not IS_INTERPRETED:
            tiles = max(1, processors(self.x.device) // (self.group * self.count))
        settings: dict[str, Any] = {"H": self.hidden, "DEPTH": self.depth, "BB": own.rows, "UB": own.units, "BK": own.depth}
        settings |= {"GROUP": self.group, "IS_WHOLE": not self._is_stepwise, "IS_LARGE": is_large, "IS_HELD": own.is_held}
        settings |= {"MEMBERS": power_of_2(self.group)} if is_back else {}
        if not IS_INTERPRETED:
            settings |= {"num_warps": own.warps, "num_stages": own.stages, "launch_cooperative_grid": self.group > 1}
            settings |= {} if own.registers is None else {"maxnreg": own.registers}
        strides = (1, self.steps) if self.is_batch_first else (self.batch, 1)  # of time and batch, in rows
        times = (-1 if is_back else 0, self.steps)
        for first in range(0, lines, tiles * own.rows):
            end = min(first + tiles * own.rows, lines)
            grid = (self.group, -(-(end - first) // own.rows), self.count)
            counters = None
            if self.group > 1:
                counters = torch.zeros(grid[1] * self.count, dtype=torch.int32, device=self.x.device)
            given = (*tensors, self.lengths, counters, first, end, self.batch, self.steps, *strides, *sizes)
            for turn in _one_by_one(times, is_back=is_back) if self._is_stepwise else [times]:
                kernel[grid](*given, *turn, *rules, **settings)

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        return self._time_first(self.out)

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, H) each."""
        return self.ends.to(self.dtype).unbind()

    def relevance(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rules: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H) and final states (K, D, B, H)."""
        last = [each.float().contiguous() for each in r_states]
        r = self.x.new_empty(len(last), *last[0].shape)
        targets = len(last[0])
        q = self._padded(targets, *self.x.shape[:2], self.count).flatten(-2)
        shares = self._like_x((targets,), self.count * self.group)
        ledger = self.x.new_empty(2, self.count, targets, self.batch, self.group)
        given = None if r_outputs is None else r_outputs.float()
        given = given if given is None or given.stride(-1) == 1 else given.contiguous()
        of_given = (0, 0, 0) if given is None else given.stride()[:3]
        more: list[Tensor | None] = []
        if self.kernels.HAS_HIDDEN_SUM:  # its q stays in registers where one program holds all units
            is_held = self._grid(targets * self.batch, is_back=True).is_held
            second = (
                (None, None) if is_held else (self._padded(*q.shape[:-1], self.count).flatten(-2), torch.empty_like(shares))
            )
            more = [self.weights.hidden_bias, *second]
        left, arrived = (self.tape, self.states, self.scales), self._in_place(last, r)
        self._launch(
            self.kernels.back,
            [*left, self.weights.back, self.weights.bias, *more, *arrived, given, q, shares, r, ledger],
            (targets, *of_given),
            (rules.epsilon, rules.returned, rules.delta, float(self.inputs)),
            lines=targets * self.batch,
            is_back=True,
            is_large=sum(n * each for n, each in zip((targets, self.steps, self.batch), of_given, strict=True)) >= LARGE,
        )
        r_x = self._to_inputs(q, shares, direction)
        bias, stabiliser = (ledger[..., 0] if self.group == 1 else ledger.sum(-1)).to(self.dtype).unbind()
        r_x = self._time_first(r_x.sum(-1, keepdim=True) if by_step else r_x)
        return SweptLayer(r_x, r.to(self.dtype).unbind(), bias, stabiliser)

    def _to_inputs(self, q: Tensor, shares: Tensor, direction: int | None) -> Tensor:
        """R_x = x ⊙ Σ_d (q U) + shares, of all directions or of one."""
        across, scale = self.weights.across
        if direction is not None:
            across = across.flatten()[: 2 * self.inputs * self.count * self.depth].view(2, self.inputs, -1)
            parts = (
                torch.unflatten(each, -1, (self.count, -1))[..., direction, :].contiguous() for each in (q, shares, across)
            )
            q, shares, across = parts
        shares = shares if self.group == 1 else shares.sum(-1, keepdim=True)
        r_x = self._like_x((len(q),), self.inputs)
        product(self._split(q), Split(across, scale), r_x, x=self.x, shares=shares)
        return r_x


def _one_by_one(times: tuple[int, int], *, is_back: bool) -> Sequence[tuple[int, int]]:
    """The steps one by one, in the order in which they are computed."""
    single = [(t, t + 1) for t in range(*times)]
    return single[::-1] if is_back else single
