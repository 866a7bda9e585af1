"""All directions of an nn.LSTM or nn.GRU layer by Triton kernels, in single precision whatever precision comes in.

U x + b for all steps is one product, the steps one launch, and so on the way back: one launch for q, one product for R_x.
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
from whence.recurrent.triton.parts import Parts, halved
from whence.recurrent.triton.product import product
from whence.recurrent.triton.shared import IS_INTERPRETED, memory_of
from whence.recurrent.weights import Weights


class TritonLayer:
    """One layer: runs when made, and hands relevance back when asked."""

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
        product(self._parted(self.x), self.weights.inputs, sums, bias=self.weights.bias)
        first = [each.float().contiguous() for each in states]
        self.ends = self.x.new_empty(len(first), *first[0].shape)
        if self.is_held:
            self.scales, self.states = None, self._deep(self.steps + 1, self.count, self.batch)
        else:
            parts, self.scales = halved(first[0], self.depth, least=1.0)
            self.states = self._deep(self.steps + 1, *parts.shape[:2], dtype=torch.float16)
            self.states[0] = parts
        self.tape = self.x.new_empty(self.count, self.steps, self.kernels.KEPT.value, self.batch, self.hidden)
        self.out = self._room((), self.count * self.hidden)
        biases = [self.weights.hidden_bias] if self.kernels.HAS_HIDDEN_SUM else []
        first = self._together(first, self.ends)
        self._launch(
            self.kernels.forward,
            [sums, *self.weights.hidden, self.scales, *biases, self.states, *first, self.ends, self.tape, self.out],
            lines=self.batch,
        )

    def renew(self, x: Tensor) -> None:
        """Take the same input (T, B, E) from another place in memory; it is kept in the order in which it lay at first."""
        self.x = (x.transpose(0, 1) if self.is_batch_first else x).float().contiguous()

    def release(self) -> None:
        """Nothing here is borrowed: PyTorch keeps a GPU's memory for the next layer by itself."""

    def _together(self, given: Sequence[Tensor], made: Tensor) -> Sequence[Tensor]:
        """Where every step is a launch of its own, states are handed on in the memory in which the last are left."""
        return made.copy_(torch.stack(list(given))).unbind() if self._is_stepwise else given

    @property
    def _is_stepwise(self) -> bool:
        """Under the interpreter programs run one after another, so that they can meet only at the end of a launch."""
        return IS_INTERPRETED and self.group > 1

    def _parted(self, numbers: Tensor) -> Parts:
        """Numbers as a product takes them: halving pays where the product is large."""
        return Parts(numbers) if self.is_held else halved(numbers)

    def _deep(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Room for rows as deep as a product's tiles go; zero where no program writes, for what is read there counts."""
        is_written = self.group * self.units >= self.depth and self.lengths is None
        return (self.x.new_empty if is_written else self.x.new_zeros)(*shape, self.depth, dtype=dtype)

    def _room(self, lead: tuple[int, ...], size: int) -> Tensor:
        """Room for numbers (*lead, T, B, size) in the order in which x lies in memory; zero where sequences have ended."""
        shape = (*lead, *self.x.shape[:2], size)
        return self.x.new_empty(shape) if self.lengths is None else self.x.new_zeros(shape)

    def _timed(self, room: Tensor) -> Tensor:
        """A room as (…, T, B, ·), in the precision that came in."""
        return (room.transpose(-2, -3) if self.is_batch_first else room).to(self.dtype)

    def _cut(self, lines: int, *, is_back: bool) -> Grid:
        """How this layer is cut up on its GPU."""
        cut = grid_for(self.hidden, lines, is_back=is_back)
        return cut if IS_INTERPRETED else fitted(cut, memory_of(self.x.device), is_back=is_back)

    def _launch(
        self,
        kernel: Any,
        tensors: Sequence[Tensor | None],
        sizes: Sequence[int] = (),
        rule: Sequence[float] = (),
        *,
        lines: int,
        is_back: bool = False,
        is_large: bool = False,
    ) -> None:
        """Do all steps in one launch where a GPU does, as many rows as can meet."""
        is_large |= max(4 * self.batch, lines) * (self.steps + 1) * self.count * self.depth >= LARGE
        cut = self._cut(lines, is_back=is_back)
        tiles = MOST
        if self.group > 1 and not IS_INTERPRETED:
            tiles = max(1, processors(self.x.device) // (self.group * self.count))
        settings: dict[str, Any] = {"H": self.hidden, "DEPTH": self.depth, "BB": cut.rows, "UB": cut.units, "BK": cut.depth}
        settings |= {"GROUP": self.group, "IS_WHOLE": not self._is_stepwise, "IS_LARGE": is_large, "IS_HELD": cut.is_held}
        settings |= {"MEMBERS": power_of_2(self.group)} if is_back else {}
        if not IS_INTERPRETED:
            settings |= {"num_warps": cut.warps, "num_stages": cut.stages, "launch_cooperative_grid": self.group > 1}
            settings |= {} if cut.registers is None else {"maxnreg": cut.registers}
        strides = (1, self.steps) if self.is_batch_first else (self.batch, 1)  # of time and batch, in steps
        times = (-1 if is_back else 0, self.steps)
        for first in range(0, lines, tiles * cut.rows):
            end = min(first + tiles * cut.rows, lines)
            grid = (self.group, -(-(end - first) // cut.rows), self.count)
            counters = None
            if self.group > 1:
                counters = torch.zeros(grid[1] * self.count, dtype=torch.int32, device=self.x.device)
            given = (*tensors, self.lengths, counters, first, end, self.batch, self.steps, *strides, *sizes)
            for turn in _single(times, is_back=is_back) if self._is_stepwise else [times]:
                kernel[grid](*given, *turn, *rule, **settings)

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        return self._timed(self.out)

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, H) each."""
        return self.ends.to(self.dtype).unbind()

    def relevance(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rule: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H) and final states (K, D, B, H)."""
        last = [each.float().contiguous() for each in r_states]
        r = self.x.new_empty(len(last), *last[0].shape)
        targets = len(last[0])
        q = self._deep(targets, *self.x.shape[:2], self.count).flatten(-2)
        shares = self._room((targets,), self.count * self.group)
        books = self.x.new_empty(2, self.count, targets, self.batch, self.group)
        given = None if r_outputs is None else r_outputs.float()
        given = given if given is None or given.stride(-1) == 1 else given.contiguous()
        of_given = (0, 0, 0) if given is None else given.stride()[:3]
        more: list[Tensor | None] = []
        if self.kernels.HAS_HIDDEN_SUM:  # its q stays in registers where one program holds all units
            is_held = self._cut(targets * self.batch, is_back=True).is_held
            second = (None, None) if is_held else (self._deep(*q.shape[:-1], self.count).flatten(-2), torch.empty_like(shares))
            more = [self.weights.hidden_bias, *second]
        left, arrived = (self.tape, self.states, self.scales), self._together(last, r)
        self._launch(
            self.kernels.back,
            [*left, self.weights.back, self.weights.bias, *more, *arrived, given, q, shares, r, books],
            (targets, *of_given),
            (rule.epsilon, rule.returned, rule.delta, float(self.inputs)),
            lines=targets * self.batch,
            is_back=True,
            is_large=sum(n * each for n, each in zip((targets, self.steps, self.batch), of_given, strict=True)) >= LARGE,
        )
        r_x = self._to_inputs(q, shares, direction)
        bias, stabiliser = (books[..., 0] if self.group == 1 else books.sum(-1)).to(self.dtype).unbind()
        r_x = self._timed(r_x.sum(-1, keepdim=True) if by_step else r_x)
        return SweptLayer(r_x, r.to(self.dtype).unbind(), bias, stabiliser)

    def _to_inputs(self, q: Tensor, shares: Tensor, direction: int | None) -> Tensor:
        """R_x = x ⊙ Σ_d (q U) + shares, of all directions or of one."""
        across, scale = self.weights.across
        if direction is not None:
            across = across.flatten()[: 2 * self.inputs * self.count * self.depth].view(2, self.inputs, -1)
            parts = (each.unflatten(-1, (self.count, -1))[..., direction, :].contiguous() for each in (q, shares, across))
            q, shares, across = parts
        shares = shares if self.group == 1 else shares.sum(-1, keepdim=True)
        r_x = self._room((len(q),), self.inputs)
        product(self._parted(q), Parts(across, scale), r_x, x=self.x, shares=shares)
        return r_x


def _single(times: tuple[int, int], *, is_back: bool) -> Sequence[tuple[int, int]]:
    """The steps one by one, in the order in which they come."""
    single = [(t, t + 1) for t in range(*times)]
    return single[::-1] if is_back else single
