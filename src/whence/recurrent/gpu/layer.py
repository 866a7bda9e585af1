"""All directions of an nn.LSTM or nn.GRU layer by Triton kernels, in single precision whatever precision comes in.

U x + b for all steps is one product, the steps one launch, and so on the way back: one launch for q, one product for R_x.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from whence.recurrent.gpu.shared import product_kernel
from whence.recurrent.gru import gpu as gru
from whence.recurrent.layer import SweptLayer
from whence.recurrent.lstm import gpu as lstm
from whence.recurrent.weights import GRUWeights, LSTMWeights
from whence.rules.equations import Rules


class Grid(NamedTuple):
    """How a layer is cut up: rows and units of one program, the depth of a product's tiles, and what a program is given."""

    rows: int
    units: int
    depth: int
    warps: int
    stages: int
    registers: int | None = None  # at most, for a thread: fewer let more programs run at a time


def power_of_2(least: int) -> int:
    """The next power of two."""
    return 1 << (least - 1).bit_length()


@cache
def grid_for(hidden: int, lines: int) -> Grid:
    """What was fastest on an H200."""
    high = max(16, power_of_2(lines))
    if hidden <= 64:
        return Grid(min(32, high), max(16, power_of_2(hidden)), 16, 8, 2, 128)
    if hidden <= 128:
        return Grid(min(32, high), 128, 16, 8, 2)
    return Grid(min(128, high), 16, 32, 8, 4) if high > 64 else Grid(min(64, high), 16, 64, 4, 4)


def programs_that_meet(hidden: int, directions: int) -> int:
    """How many programs have to run at the same time; a GPU must have as many processors."""
    group = -(-hidden // grid_for(hidden, 1).units)
    return group * directions if group > 1 else 1


def depth_of(hidden: int) -> int:
    """The size of a state with what fills up a product's tiles."""
    return max(16, power_of_2(hidden)) if hidden <= 64 else -(-hidden // 64) * 64


def in_parts(weights: Tensor) -> Tensor:
    """Weights as what tensor cores read of them and, behind it, the rest."""
    whole = weights.contiguous()
    made = whole.new_empty(2, *whole.shape)
    torch.bitwise_and(whole.view(torch.int32), -8192, out=made[0].view(torch.int32))
    torch.sub(whole, made[0], out=made[1])
    return made


def product(
    a: Tensor, b: Tensor, out: Tensor, *, bias: Tensor | None = None, x: Tensor | None = None, shares: Tensor | None = None
) -> None:
    """out = a bᵀ + bias, or x ⊙ (a bᵀ) + share, for a (M, K), b (N, K); x is repeated as often as a has its rows."""
    (rows, depth), columns = a.shape, len(b)
    down, across, deep = (256, 128, 16) if depth <= 64 < columns else (128, 64, 32)
    kernel: Any = product_kernel
    kernel[(-(-rows // down) * -(-columns // across),)](
        a, in_parts(b), bias, x, shares, out, rows, columns, depth, rows if x is None else len(x), BM=down, BN=across, BK=deep,
        IS_BACK=x is not None, num_warps=8, num_stages=3,
    )  # fmt: skip


class TritonLayer:
    """One layer: runs when made, and hands relevance back when asked."""

    def __init__(
        self,
        x: Tensor,
        weights: Sequence[LSTMWeights | GRUWeights],
        states: Sequence[Tensor],
        lengths: Tensor | None,
    ) -> None:
        """Run D directions over x (T, B, E) from the states (D, B, H) each."""
        self.dtype, self.is_lstm = x.dtype, isinstance(weights[0], LSTMWeights)
        self.steps, self.batch, self.inputs = x.shape
        self.hidden = states[0].shape[-1]
        self.is_batch_first = x.stride(0) < x.stride(1)
        self.renew(x)
        self.is_ragged = lengths is not None
        self.lengths = torch.full((self.batch,), self.steps, device=x.device) if lengths is None else lengths
        self.weights = weights
        count = len(weights)
        gates = 4 if self.is_lstm else 3
        flat = self.x.view(-1, self.inputs)
        sums = flat.new_empty(len(flat), count * gates * self.hidden)
        product(
            flat,
            torch.cat([each.input for each in weights]).float(),
            sums,
            bias=torch.cat([_or_zeros(_bias_x(each), each.input) for each in weights]),
        )
        self.depth = depth_of(self.hidden)
        self.states = self._deep(count, self.steps + 1, self.batch)
        self.states[:, 0].zero_()
        self.states[:, 0, :, : self.hidden] = states[0]
        kept = 3 if self.is_lstm else 4
        self.tape = x.new_empty(count, self.steps, kept, self.batch, self.hidden, dtype=torch.float32)
        self.out = self._room((), count * self.hidden)
        self.ends = [state.float().clone(memory_format=torch.contiguous_format) for state in states]
        hidden = self._cut(torch.cat([each.hidden for each in weights]).float().view(count, gates, self.hidden, self.hidden))
        biases = (
            []
            if self.is_lstm
            else [torch.cat([_or_zeros(each.hidden_bias, each.hidden) for each in weights if isinstance(each, GRUWeights)])]
        )
        self._launch(
            (lstm if self.is_lstm else gru).forward,
            [sums, hidden, *biases, self.states, *self.ends, self.tape, self.out, self.lengths],
            [self.batch, self.steps, *self._strides(sums.shape[-1]), *self._strides(count * self.hidden)],
            lines=self.batch,
            times=(0, self.steps),
        )

    def renew(self, x: Tensor) -> None:
        """Take the same input from another place in memory: (B, T, E) or (T, B, E), in the order in which it lay at first."""
        self.x = (x.transpose(0, 1) if self.is_batch_first else x).float().contiguous()

    def _cut(self, gates: Tensor) -> Tensor:
        """Weights (D, gates, units, inputs) for programs that own some units of every gate, in parts, filled up with zeros.

        Tiles have a power of two of columns, so three gates take the room of four.
        """
        units = grid_for(self.hidden, self.batch).units
        missing = (0, self.depth - self.hidden, 0, -self.hidden % units, 0, 1 if gates.shape[1] == 3 else 0)
        filled = pad(gates, missing) if any(missing) else gates
        return in_parts(filled.unflatten(2, (-1, units)).transpose(1, 2))

    def _deep(self, *shape: int) -> Tensor:
        """Room for rows as deep as a product's tiles go; zero where no program writes, for what is read there counts."""
        units = grid_for(self.hidden, self.batch).units
        is_written = -self.hidden % units + self.hidden >= self.depth and not self.is_ragged
        return (self.x.new_empty if is_written else self.x.new_zeros)(*shape, self.depth)

    def _room(self, lead: tuple[int, ...], size: int) -> Tensor:
        """Room for numbers (*lead, T, B, size) in the order in which x lies in memory; zero where sequences have ended."""
        shape = (*lead, *self.x.shape[:2], size)
        return self.x.new_zeros(shape) if self.is_ragged else self.x.new_empty(shape)

    def _strides(self, size: int) -> tuple[int, int]:
        """The strides of time and batch in a room of that size."""
        first, second = self.x.shape[1] * size, size
        return (second, first) if self.is_batch_first else (first, second)

    def _timed(self, room: Tensor) -> Tensor:
        """A room as (…, T, B, ·), in the precision that came in."""
        return (room.transpose(-2, -3) if self.is_batch_first else room).to(self.dtype)

    def _launch(
        self,
        kernel: Any,
        tensors: Sequence[Tensor],
        sizes: Sequence[int],
        *,
        lines: int,
        times: tuple[int, int],
        last: Sequence[float] = (),
        **more: Any,
    ) -> None:
        """Do all steps in one launch where a GPU does, as many rows as can meet; under the interpreter step by step."""
        cut = grid_for(self.hidden, lines)
        group, count = -(-self.hidden // cut.units), len(self.weights)
        chunk = lines
        if group > 1 and not IS_INTERPRETED:
            chunk = max(1, _processors(self.x.device) // (group * count)) * cut.rows
        is_large = max(each.numel() for each in tensors) >= 2**31
        settings = {"H": self.hidden, "DEPTH": self.depth, "BB": cut.rows, "UB": cut.units, "BK": cut.depth, "GROUP": group}
        settings |= {"IS_WHOLE": not IS_INTERPRETED, "OFFSET": tl.int64 if is_large else tl.int32, **more}
        if not IS_INTERPRETED:
            settings |= {"num_warps": cut.warps, "num_stages": cut.stages, "launch_cooperative_grid": group > 1}
            settings |= {} if cut.registers is None else {"maxnreg": cut.registers}
        for first in range(0, lines, chunk):
            end = min(first + chunk, lines)
            grid = (group, -(-(end - first) // cut.rows), count)
            counters = self.lengths  # nobody looks at them where a program is alone
            if group > 1:
                counters = torch.zeros(grid[1] * count, dtype=torch.int32, device=self.x.device)
            for start, stop in _turns(times, is_back=bool(last)):
                kernel[grid](*tensors, counters, first, end, *sizes, start, stop, *last, **settings)

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        return self._timed(self.out)

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, H) each."""
        return [state.to(self.dtype) for state in self.ends]

    def relevance(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rule: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H) and final states (K, D, B, H)."""
        r = [each.float().transpose(0, 1).contiguous() for each in r_states]  # (D, K, B, H)
        r = [each.clone() if each.data_ptr() == given.data_ptr() else each for each, given in zip(r, r_states, strict=True)]
        count, targets = r[0].shape[:2]
        group = -(-self.hidden // grid_for(self.hidden, targets * self.batch).units)
        q = self._deep(targets, *self.x.shape[:2], count).flatten(-2)
        shares = self._room((targets,), count * group)
        books = self.x.new_zeros(2, count, targets, self.batch, group)
        given = self.x if r_outputs is None else r_outputs.float()
        given = given if given.stride(-1) == 1 else given.contiguous()
        out = given.stride()[:3] if r_outputs is not None else (0, 0, 0)
        candidates = [each.candidate() for each in self.weights]
        weights = self._cut(torch.stack([own[1] for own in candidates]).float().transpose(1, 2)[:, None])
        biases = [torch.stack([_or_zeros(own[n], own[1]) for own in candidates]) for n in range(2, len(candidates[0]))]
        more = [] if self.is_lstm else [q.clone(), torch.empty_like(shares)]
        tensors = [self.tape, self.states, weights, *biases, *r, given, *_mixed([q, shares], more), *books, self.lengths]
        rows = self._strides(1)
        self._launch(
            (lstm if self.is_lstm else gru).back,
            tensors,
            [self.batch, self.steps, targets, self.steps * self.batch, *rows, *out],
            lines=targets * self.batch,
            times=(-1, self.steps),
            last=(rule.epsilon, rule.returned, rule.delta, float(self.inputs)),
            HAS_OUT=r_outputs is not None,
            MEMBERS=power_of_2(group),
        )
        r_x = self._to_inputs(q, shares, torch.stack([own[0] for own in candidates]).float(), direction)
        bias, stabiliser = books.sum(-1).to(self.dtype)
        r_x = self._timed(r_x)
        return SweptLayer(
            r_x.sum(-1, keepdim=True) if by_step else r_x, [each.transpose(0, 1).to(self.dtype) for each in r], bias, stabiliser
        )

    def _to_inputs(self, q: Tensor, shares: Tensor, u: Tensor, direction: int | None) -> Tensor:
        """R_x = x ⊙ Σ_d (q U) + share, of all directions or of one; u (D, H, E)."""
        if direction is not None:
            q, shares = (each.unflatten(-1, (len(u), -1))[..., direction, :].contiguous() for each in (q, shares))
            u = u[direction : direction + 1]
        r_x = self._room((len(q),), self.inputs)
        across = pad(u.permute(2, 0, 1), (0, self.depth - self.hidden)).flatten(1)  # (E, D · depth)
        product(q.view(-1, q.shape[-1]), across, r_x, x=self.x.view(-1, self.inputs), shares=shares.sum(-1))
        return r_x


def _turns(times: tuple[int, int], *, is_back: bool) -> Sequence[tuple[int, int]]:
    """The steps of every launch: all in one, or under the interpreter, where programs run one after another, one by one."""
    if not IS_INTERPRETED:
        return [times]
    single = [(t, t + 1) for t in range(*times)]
    return single[::-1] if is_back else single


def _mixed(given: Sequence[Tensor], more: Sequence[Tensor]) -> list[Tensor]:
    """q and its shares, each followed by its second kind where a cell has two."""
    return [each for pair in zip(given, more, strict=True) for each in pair] if more else list(given)


def _bias_x(weights: LSTMWeights | GRUWeights) -> Tensor | None:
    return weights.bias if isinstance(weights, LSTMWeights) else weights.input_bias


def _or_zeros(bias: Tensor | None, rows: Tensor) -> Tensor:
    """A bias in single precision, zero for every row of its weights where there is none."""
    return rows.new_zeros(len(rows), dtype=torch.float32) if bias is None else bias.float()


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


IS_INTERPRETED = not isinstance(lstm.forward, triton.JITFunction)
