"""All directions of an nn.LSTM or nn.GRU layer by compiled kernels: a few calls of C, nothing of PyTorch's in between.

The forward pass leaves a tape for the way back. Where that would grow beyond `TAPE` bytes, it leaves only the states at the
start of every segment of steps, and the way back runs each segment again: time grows by a forward pass, memory stays small.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.equations import Rules
from whence.recurrent.gru.weights import GRUWeights
from whence.recurrent.layer import SweptLayer
from whence.recurrent.lstm.weights import LSTMWeights
from whence.recurrent.native.buffers import borrow, give_back
from whence.recurrent.native.compiled import Built, built

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
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


def kernels(weights: LSTMWeights | GRUWeights, dtype: torch.dtype) -> Built:
    """The kernels for a layer, or why there are none."""
    return built("lstm/steps.c" if isinstance(weights, LSTMWeights) else "gru/steps.c", dtype)


class Kernels:
    """The functions of a library for one precision."""

    def __init__(self, weights: LSTMWeights | GRUWeights, dtype: torch.dtype) -> None:
        library = kernels(weights, dtype).library
        ending = "single" if dtype == torch.float32 else "double"
        self.forward, self.back = getattr(library, f"forward_{ending}"), getattr(library, f"back_{ending}")
        self._pack, self._scratch = getattr(library, f"pack_{ending}"), getattr(library, f"scratch_{ending}")
        self._pack.argtypes = (
            [ctypes.c_long] * 2 + [ctypes.c_void_p] + [ctypes.c_long] * 2 + [ctypes.c_void_p] + [ctypes.c_long] * 3
        )
        self._scratch.argtypes, self._scratch.restype = [ctypes.c_long] * 4, ctypes.c_long
        count = getattr(library, f"columns_{ending}")
        count.restype = ctypes.c_long
        self.columns: int = count()

    def scratch(self, block: int, inputs: int, hidden: int, targets: int) -> int:
        """How many numbers a kernel needs room for."""
        return self._scratch(block, inputs, hidden, targets)

    def panels(self, *matrices: Tensor, axis: int = 0) -> Tensor:
        """Matrices (depth, columns), one below the other or side by side, in panels of columns filled up with zeros."""
        depth, width = matrices[0].shape
        if axis == 0:
            depth = sum(len(each) for each in matrices)
        else:
            width = sum(each.shape[1] for each in matrices)
        made = matrices[0].new_zeros(-(-width // self.columns), depth, self.columns)
        place = [0, 0]
        for each in matrices:
            self._pack(*each.shape, each.data_ptr(), *each.stride(), made.data_ptr(), depth, *place)
            place[axis] += each.shape[axis]
        return made

    def packed(self, weights: LSTMWeights | GRUWeights) -> dict[str, Tensor | None]:
        """A direction's weights as the kernels read them; a bias that is not there is zero."""
        none = weights.input.new_zeros(len(weights.input))

        def own(bias: Tensor | None) -> Tensor:
            return none if bias is None else bias.contiguous()

        if isinstance(weights, LSTMWeights):
            u, w, _ = weights.candidate()
            both = self.panels(weights.input.T, weights.hidden.T)
            return {"u": both, "bias_x": own(weights.bias), "w_back": self.panels(w, u, axis=1)}
        u, w, _, _ = weights.candidate()
        return {
            "u": self.panels(weights.input.T),
            "w": self.panels(weights.hidden.T),
            "bias_x": own(weights.input_bias),
            "bias_h": own(weights.hidden_bias),
            "u_back": self.panels(u),
            "w_back": self.panels(w),
        }


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
        self.kernels = Kernels(weights[0], x.dtype)
        self.renew(x)
        self.steps, self.batch, self.inputs = x.shape
        self.hidden = states[0].shape[-1]
        self.is_ragged = lengths is not None
        self.lengths = torch.full((self.batch,), self.steps, device="cpu") if lengths is None else lengths.contiguous()
        self.directions = [self.kernels.packed(each) for each in weights]
        self.kept = 4 if isinstance(weights[0], LSTMWeights) else 5
        step = len(weights) * self.batch * self.kept * self.hidden * x.element_size()
        self.segment = self.steps if step * self.steps <= TAPE else max(1, TAPE // 4 // step)
        self.tapes = [self._new_tape() if self.segment == self.steps else None for _ in weights]
        self.out = self._like_x((), len(weights) * self.hidden)
        self.states = [state.clone(memory_format=torch.contiguous_format) for state in states]
        self.starts: list[Sequence[Tensor]] = []  # for every segment the states (D, B, H) before it
        for start in range(0, self.steps, self.segment):
            self.starts.append(self.states)
            self.states = [state.clone() for state in self.states]
            for d, tape in enumerate(self.tapes):
                own = self._arguments(d, start, tape)
                _set(own, h=self.states[0][d], c=self.states[-1][d], out=self.out[..., d * self.hidden :])
                own.out_time, own.out_row = self.out.stride()[:2]
                self._run(self.kernels.forward, own)

    def renew(self, x: Tensor) -> None:
        """Take the same input from another place in memory."""
        self.x = x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()

    def _new_tape(self) -> Tensor:
        return borrow((self.segment, self.batch, self.kept, self.hidden), self.x.dtype)

    def release(self) -> None:
        """Hand the tape on to the next layer; this one cannot go back any more."""
        tapes, self.tapes = self.tapes, []
        for tape in tapes:
            if tape is not None:
                give_back(tape)

    def _like_x(self, lead: tuple[int, ...], size: int) -> Tensor:
        """Room for numbers (*lead, T, B, size), in the order in which x lies in memory."""
        is_batch_first = self.x.stride(0) < self.x.stride(1)
        shape = (self.batch, self.steps) if is_batch_first else (self.steps, self.batch)
        made = (self.x.new_zeros if self.is_ragged else self.x.new_empty)(*lead, *shape, size)
        return made.transpose(-2, -3) if is_batch_first else made

    def _arguments(self, d: int, start: int, tape: Tensor | None) -> Arguments:
        """What both kernels are told of one direction and the segment from a step on."""
        own = Arguments()
        setattr(own, "from", start)
        own.to, own.is_reverse, own.targets = min(start + self.segment, self.steps), d, 1
        own.batch, own.inputs, own.hidden = self.batch, self.inputs, self.hidden
        own.x_time, own.x_row = self.x.stride()[:2]
        own.tape_time = self.batch * self.kept * self.hidden
        before = self.starts[start // self.segment][0][d]
        _set(own, x=self.x, lengths=self.lengths, tape=tape, h_start=before, **self.directions[d])
        return own

    def _run(self, kernel: Callable[..., Any], given: Arguments) -> None:
        """Call a kernel, on as many threads as PyTorch has and the work is worth."""
        given.block = max(1, min(BLOCK, 4 * BLOCK // given.targets, self.batch))
        size = self.kernels.scratch(given.block, self.inputs, self.hidden, given.targets)
        work = self.segment * self.batch * given.targets * self.hidden * (self.inputs + self.hidden)
        threads = max(1, min(torch.get_num_threads(), work // WORTH_A_THREAD, self.batch // 4))
        share = -(-self.batch // threads)

        def part(first: int) -> None:
            own, scratch = Arguments.from_buffer_copy(given), self.x.new_empty(size)
            own.first, own.last, own.scratch = first, min(first + share, self.batch), scratch.data_ptr()
            kernel(ctypes.byref(own))

        if threads == 1:
            part(0)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, range(0, self.batch, share)))

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
        r_x = self._like_x((targets,), 1 if by_step else self.inputs)
        books = self.x.new_zeros(2, count, targets, self.batch, dtype=torch.float64)
        if r_outputs is not None and r_outputs.stride(-1) != 1:
            r_outputs = r_outputs.contiguous()
        for d in range(count):  # one after the other: the second adds to what the first wrote
            for own in self._segments_back(d):
                own.targets, own.is_by_step, own.r_target = targets, by_step, r[0].stride(0)
                own.epsilon, own.returned, own.delta = rule.epsilon, rule.returned, rule.delta
                _set(own, r_h=r[0][:, d], r_c=r[-1][:, d], of_bias=books[0, d], of_stabiliser=books[1, d])
                if direction in (None, d):
                    own.r_x, own.is_added = r_x.data_ptr(), d > 0 and direction is None
                    own.r_x_target, own.r_x_time, own.r_x_row = r_x.stride()[:3]
                if r_outputs is not None:
                    own.r_out = r_outputs[..., d * self.hidden :].data_ptr()
                    own.r_out_target, own.r_out_time, own.r_out_row = r_outputs.stride()[:3]
                self._run(self.kernels.back, own)
        bias, stabiliser = books.to(self.x.dtype)
        return SweptLayer(r_x, r, bias, stabiliser)

    def _segments_back(self, d: int) -> Iterator[Arguments]:
        """Every segment of a direction from the last, with its tape."""
        kept = self.tapes[d]
        tape = self._new_tape() if kept is None else kept
        for number in reversed(range(len(self.starts))):
            own = self._arguments(d, number * self.segment, tape)
            if kept is None:
                states = [state[d].clone() for state in self.starts[number]]
                _set(own, h=states[0], c=states[-1])
                self._run(self.kernels.forward, own)
            yield own
        if kept is None:
            give_back(tape)


def _set(arguments: Arguments, **tensors: Tensor | None) -> None:
    """Enter where tensors lie."""
    for name, tensor in tensors.items():
        setattr(arguments, name, None if tensor is None else tensor.data_ptr())
