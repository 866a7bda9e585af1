"""All directions of an nn.LSTM or nn.GRU layer by compiled kernels: a few calls of C, nothing of PyTorch's in between.

The forward pass leaves a tape for the way back. Where that would grow beyond `TAPE` bytes, it leaves only the states at the
start of every segment of steps, and the way back runs each segment again: time grows by a forward pass, memory stays small.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from whence.recurrent.compiled import Built, built
from whence.recurrent.layer import SweptLayer
from whence.recurrent.weights import GRUWeights, LSTMWeights
from whence.rules.equations import Rules

TAPE = 256 * 2**20  # bytes that a tape may take before it is made again in segments
BLOCK = 32  # rows that go through all steps together: their numbers stay in the cache
WORTH_A_THREAD = 2**22  # multiplications; less is done before a thread has started

WHOLE = (
    "first last from to block batch inputs hidden targets is_reverse is_added is_by_step x_time x_row out_time out_row "
    "tape_time r_target r_out_target r_out_time r_out_row r_x_target r_x_time r_x_row"
).split()
ADDRESSES = (
    "lengths x u w bias_x bias_h u_back w_back h_start c_start h c tape out r_out r_h r_c r_x of_bias of_stabiliser scratch"
).split()
REAL = "epsilon returned delta".split()


class Arguments(ctypes.Structure):
    """What a kernel is given, field by field as in layer.h: one direction, the rows and steps to do, and where all lies."""

    _fields_ = [
        *((name, ctypes.c_long) for name in WHOLE),
        *((name, ctypes.c_void_p) for name in ADDRESSES),
        *((name, ctypes.c_double) for name in REAL),
    ]


class Packed(NamedTuple):
    """The weights of one direction as the kernels read them: matrices in panels, biases that are zero where there are none."""

    u: Tensor
    w: Tensor | None
    bias_x: Tensor
    bias_h: Tensor | None
    u_back: Tensor | None
    w_back: Tensor


def kernels(weights: LSTMWeights | GRUWeights, dtype: torch.dtype) -> Built:
    """The kernels for a layer, or why there are none."""
    return built("lstm/steps.c" if isinstance(weights, LSTMWeights) else "gru/steps.c", dtype)


def in_panels(matrix: Tensor, columns: int) -> Tensor:
    """A matrix (depth, n) as panels (·, depth, columns), the last one filled with zeros."""
    filled = pad(matrix, (0, -matrix.shape[1] % columns))
    return filled.view(len(matrix), -1, columns).transpose(0, 1).contiguous()


def packed(weights: LSTMWeights | GRUWeights, columns: int) -> Packed:
    """A direction's weights for kernels whose panels have so many columns."""

    def own(bias: Tensor | None) -> Tensor:
        return weights.input.new_zeros(len(weights.input)) if bias is None else bias.contiguous()

    if isinstance(weights, LSTMWeights):
        both = torch.cat([weights.input, weights.hidden], 1)
        u, w, _ = weights.candidate()
        back = in_panels(torch.cat([w, u], 1), columns)
        return Packed(in_panels(both.T, columns), None, own(weights.bias), None, None, back)
    u, w, _, _ = weights.candidate()
    forward = in_panels(weights.input.T, columns), in_panels(weights.hidden.T, columns)
    return Packed(*forward, own(weights.input_bias), own(weights.hidden_bias), in_panels(u, columns), in_panels(w, columns))


class NativeLayer:
    """One layer: runs when made, and hands relevance back when asked."""

    def __init__(
        self,
        x: Tensor,
        weights: Sequence[LSTMWeights | GRUWeights],
        states: Sequence[Tensor],
        lengths: Tensor | None,
    ) -> None:
        """Run D directions over x (T, B, E) from the states (D, B, H) each."""
        library = kernels(weights[0], x.dtype).library
        ending = "single" if x.dtype == torch.float32 else "double"
        self._forward, self._back, self._room, columns = (
            getattr(library, f"{name}_{ending}") for name in ("forward", "back", "scratch", "columns")
        )
        for count in (self._room, columns):
            count.restype = ctypes.c_long
        self.x = x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
        self.steps, self.batch, self.inputs = x.shape
        self.hidden = states[0].shape[-1]
        self.is_ragged = lengths is not None
        self.lengths = torch.full((self.batch,), self.steps) if lengths is None else lengths.contiguous()
        self.directions = [packed(each, columns()) for each in weights]
        self.kept = 4 if isinstance(weights[0], LSTMWeights) else 5
        step = len(weights) * self.batch * self.kept * self.hidden * x.element_size()
        self.segment = self.steps if step * self.steps <= TAPE else max(1, TAPE // 4 // step)
        self.starts: list[list[Tensor]] = []  # for every segment the states (D, B, H) before it
        self.tape = [self._new_tape() for _ in weights] if self.segment == self.steps else None
        self.out = self._like_x(0, len(weights) * self.hidden)
        self.states = [state.clone(memory_format=torch.contiguous_format) for state in states]
        for start in range(0, self.steps, self.segment):
            self.starts.append(self.states)
            self.states = [state.clone() for state in self.states]
            for d in range(len(weights)):
                tape = None if self.tape is None else self.tape[d]
                self._run(self._forward, self._arguments(d, start, self.states, tape, is_output=True), targets=1)

    def _new_tape(self) -> Tensor:
        return self.x.new_empty(self.segment, self.batch, self.kept, self.hidden)

    def _like_x(self, targets: int, size: int) -> Tensor:
        """Room for numbers (K, T, B, size), or (T, B, size) for no target, in the order in which x lies in memory."""
        lead = (targets,) if targets else ()
        is_batch_first = self.x.stride(0) < self.x.stride(1)
        shape = (self.batch, self.steps) if is_batch_first else (self.steps, self.batch)
        made = (self.x.new_zeros if self.is_ragged else self.x.new_empty)(*lead, *shape, size)
        return made.transpose(-2, -3) if is_batch_first else made

    def _arguments(
        self, d: int, start: int, states: Sequence[Tensor], tape: Tensor | None, *, is_output: bool = False
    ) -> dict[str, Any]:
        own, h = self.directions[d], self.hidden
        found: dict[str, Any] = {
            "from": start,
            "to": min(start + self.segment, self.steps),
            "batch": self.batch,
            "inputs": self.inputs,
            "hidden": h,
            "is_reverse": d,
            "lengths": self.lengths,
            "x": self.x,
            "x_time": self.x.stride(0),
            "x_row": self.x.stride(1),
            **own._asdict(),
            "h": states[0][d],
            "c": states[1][d] if len(states) > 1 else None,
            "h_start": self.starts[start // self.segment][0][d],
            "tape": tape,
            "tape_time": self.batch * self.kept * h,
        }
        if is_output:
            found |= {"out": self.out[..., d * h :], "out_time": self.out.stride(0), "out_row": self.out.stride(1)}
        return found

    def _run(self, kernel: Callable[..., Any], settings: dict[str, Any], *, targets: int) -> None:
        """Call a kernel, on as many threads as PyTorch has and the work is worth."""
        block = max(1, min(BLOCK, 4 * BLOCK // targets, self.batch))
        size = self._room(*(ctypes.c_long(each) for each in (block, self.inputs, self.hidden, targets)))
        work = (settings["to"] - settings["from"]) * self.batch * targets * self.hidden * (self.inputs + self.hidden)
        threads = max(1, min(torch.get_num_threads(), work // WORTH_A_THREAD, self.batch // 4))
        share = -(-self.batch // threads)

        def part(first: int) -> None:
            scratch = self.x.new_empty(size)
            own = {**settings, "first": first, "last": min(first + share, self.batch), "block": block, "scratch": scratch}
            kernel(ctypes.byref(Arguments(**{name: _plain(each) for name, each in own.items()})))

        parts = range(0, self.batch, share)
        if len(parts) == 1:
            part(0)
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(part, parts))

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        return self.out

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, H) each."""
        return self.states

    def relevance(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rule: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H) and final states (K, D, B, H)."""
        r = [each.clone(memory_format=torch.contiguous_format) for each in r_states]
        targets, count = r[0].shape[:2]
        r_x = self._like_x(targets, 1 if by_step else self.inputs)
        of_bias, of_stabiliser = (self.x.new_zeros(count, targets, self.batch, dtype=torch.float64) for _ in range(2))
        if r_outputs is not None and r_outputs.stride(-1) != 1:
            r_outputs = r_outputs.contiguous()
        settings: dict[str, Any] = {
            "targets": targets,
            "is_by_step": int(by_step),
            "r_target": r[0].stride(0),
            **dict(zip(("r_x_target", "r_x_time", "r_x_row"), r_x.stride(), strict=False)),
            "epsilon": rule.epsilon,
            "returned": rule.returned,
            "delta": rule.delta,
        }
        for d in range(count):  # one after the other: the second adds to what the first wrote
            own = settings | {"r_h": r[0][:, d], "r_c": r[1][:, d] if len(r) > 1 else None}
            own |= {"of_bias": of_bias[d], "of_stabiliser": of_stabiliser[d]}
            if direction in (None, d):
                own |= {"r_x": r_x, "is_added": int(d > 0 and direction is None)}
            if r_outputs is not None:
                own["r_out"] = r_outputs[..., d * self.hidden :]
                own |= dict(zip(("r_out_target", "r_out_time", "r_out_row"), r_outputs.stride(), strict=False))
            for start, tape in self._segments_back(d):
                self._run(self._back, self._arguments(d, start, self.states, tape) | own, targets=targets)
        books = [each.to(self.x.dtype) for each in (of_bias, of_stabiliser)]
        return SweptLayer(r_x, r, books[0], books[1])

    def _segments_back(self, d: int) -> Iterator[tuple[int, Tensor]]:
        """Every segment of a direction from the last, by its first step, with its tape."""
        tape = self._new_tape() if self.tape is None else self.tape[d]
        for number in reversed(range(len(self.starts))):
            start = number * self.segment
            if self.tape is None:
                states = [state.clone() for state in self.starts[number]]
                self._run(self._forward, self._arguments(d, start, states, tape), targets=1)
            yield start, tape


def _plain(value: Any) -> Any:
    return value.data_ptr() if isinstance(value, Tensor) else value
