"""All directions of a layer by compiled kernels: a few calls of C, with no PyTorch operations in between.

The forward pass keeps a tape for the backward pass. If the tape would be larger than `TAPE` bytes, it keeps only the states
at the start of every segment of steps, and the backward pass runs each segment again: one more forward pass, but little memory.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from whence.equations import Rules
from whence.recurrent.cell import Cell, Native
from whence.recurrent.layer import SweptLayer
from whence.recurrent.native.arguments import Arguments
from whence.recurrent.native.buffers import borrow, give_back
from whence.recurrent.native.compiled import PRECISIONS, Built, built
from whence.recurrent.native.threads import run
from whence.recurrent.weights import Weights, tensors

TAPE = 256 * 2**20  # the largest tape in bytes; a larger one is made again in segments
BLOCK = 32  # rows that go through all steps together, so that their numbers stay in the cache
WORTH_A_THREAD = 2**22  # multiplications; less work than that is done before a thread has started


def kernels(cell: Cell, dtype: torch.dtype) -> Built:
    """The kernels of a cell, or why there are none."""
    return Built(None, f"there are no C kernels for {cell.label}") if cell.native is None else built(cell.native, dtype)


class Kernels:
    """The C functions of a cell for one precision."""

    def __init__(self, native: Native, dtype: torch.dtype) -> None:
        library, (ending, _) = built(native, dtype).library, PRECISIONS[dtype]
        assert library is not None
        self.forward, self.back = getattr(library, f"forward_{ending}"), getattr(library, f"back_{ending}")
        self.work = getattr(library, f"work_{ending}")
        self._pack, self._scratch = getattr(library, f"pack_{ending}"), getattr(library, f"scratch_{ending}")
        self._pack.argtypes = (
            [ctypes.c_int64] * 2 + [ctypes.c_void_p] + [ctypes.c_int64] * 2 + [ctypes.c_void_p] + [ctypes.c_int64] * 3
        )
        self._scratch.argtypes, self._scratch.restype = [ctypes.c_int64] * 4, ctypes.c_int64
        self._compare: Callable[[int, int, int], int] = library.memcmp
        library.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        count = getattr(library, f"columns_{ending}")
        count.restype = ctypes.c_int64
        self.columns: int = count()
        self.native = native

    def scratch(self, block: int, inputs: int, hidden: int, targets: int) -> int:
        """How many numbers a kernel needs as scratch memory."""
        return self._scratch(block, inputs, hidden, targets)

    def panels(self, *matrices: Tensor, axis: int = 0) -> Tensor:
        """Matrices (depth, columns), stacked along the axis, in panels of a few columns each; the last is zero-padded."""
        depth, width = matrices[0].shape
        if axis == 0:
            depth = sum(len(each) for each in matrices)
        else:
            width = sum(each.shape[1] for each in matrices)
        made = matrices[0].new_empty(-(-width // self.columns), depth, self.columns)
        if width % self.columns:
            made[-1].zero_()
        place = [0, 0]
        for each in matrices:
            self._pack(*each.shape, each.data_ptr(), *each.stride(), made.data_ptr(), depth, *place)
            place[axis] += each.shape[axis]
        return made

    def packed(self, weights: Weights) -> dict[str, Tensor]:
        """A direction's weights as the kernels read them. Those of small layers are kept, and used again for equal numbers."""
        given = tensors(weights)
        if sum(each.numel() for each in given.values()) > SMALL:
            return self._packed(weights)
        key = (self, *(each.data_ptr() for each in (weights.input, weights.hidden)))
        known = _PACKED.get(key)
        if known is None or not self._are_equal(known[0], given):
            copies = {name: each.clone(memory_format=torch.contiguous_format) for name, each in given.items()}
            known = copies, self._packed(weights)
            if len(_PACKED) >= MOST_PACKED:
                _PACKED.clear()
            _PACKED[key] = known
        return known[1]

    def _are_equal(self, known: dict[str, Tensor], given: dict[str, Tensor]) -> bool:
        """Whether weights have the same bits: a write need not be noticed in any other way."""
        return known.keys() == given.keys() and all(
            each.shape == (own := given[name]).shape
            and each.stride() == own.stride()
            and self._compare(each.data_ptr(), own.data_ptr(), each.nbytes) == 0
            for name, each in known.items()
        )

    def _packed(self, weights: Weights) -> dict[str, Tensor]:
        """The same, packed now; an absent bias is zero."""
        zero = weights.input.new_zeros(len(weights.input))
        bias_x, bias_h = (zero if bias is None else bias.contiguous() for bias in weights.biases)
        return {**self.native.pack(weights, self.panels), "bias_x": bias_x, "bias_h": bias_h}


SMALL = 2**17  # numbers; comparing larger weights with a copy takes about as long as packing them
MOST_PACKED = 16  # directions whose weights are kept
_PACKED: dict[tuple[object, ...], tuple[dict[str, Tensor], dict[str, Tensor]]] = {}


@lru_cache(64)
def _full(batch: int, steps: int) -> Tensor:
    """The lengths of sequences that all have this many steps; the kernels only read them."""
    with torch.inference_mode(False):
        return torch.full((batch,), steps, device="cpu")


@cache
def kernels_of(native: Native, dtype: torch.dtype) -> Kernels:
    """The C functions of a cell."""
    return Kernels(native, dtype)


class NativeLayer:
    """A layer that runs when it is made; `relevance` is its backward pass."""

    def __init__(
        self, cell: Cell, x: Tensor, weights: Sequence[Weights], states: Sequence[Tensor], lengths: Tensor | None
    ) -> None:
        """Run D directions over x (T, B, E) from the states (D, B, H) each."""
        assert cell.native is not None
        self.cell, self.kernels = cell, kernels_of(cell.native, x.dtype)
        self.renew(x)
        self.steps, self.batch, self.inputs = x.shape
        self.hidden = states[0].shape[-1]
        self.is_ragged = lengths is not None
        self.lengths = _full(self.batch, self.steps) if lengths is None else lengths.contiguous()
        self.directions = [self.kernels.packed(each) for each in weights]
        self.kept = len(cell.native.tape)
        step = len(weights) * self.batch * self.kept * self.hidden * x.element_size()
        self.segment = self.steps if step * self.steps <= TAPE else max(1, TAPE // 4 // step)
        self.tapes = [self._new_tape() if self.segment == self.steps else None for _ in weights]
        self.out = self._like_x((), len(weights) * self.hidden)
        self.states: list[Tensor] = [state.clone(memory_format=torch.contiguous_format) for state in states]
        self.starts: list[Sequence[Tensor]] = []  # for every segment, the states (D, B, H) before it
        out, (out_time, out_row, _) = self.out.data_ptr(), self.out.stride()
        for start in range(0, self.steps, self.segment):
            self.starts.append(self.states)
            self.states = [state.clone() for state in self.states]
            given = [self._arguments(d, start, tape) for d, tape in enumerate(self.tapes)]
            for d, own in enumerate(given):
                for name, state in zip(self.cell.states, self.states, strict=True):
                    setattr(own, name, _place(state, d))
                own.out, own.out_time, own.out_row = out + d * self.hidden * self.out.element_size(), out_time, out_row
            self._run(self.kernels.forward, given)

    def renew(self, x: Tensor) -> None:
        """Take the same input from another place in memory."""
        self.x = x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()

    def _new_tape(self) -> Tensor:
        return borrow((self.segment, self.batch, self.kept, self.hidden), self.x.dtype)

    def release(self) -> None:
        """Pass the tape on to the next layer; this one cannot hand back relevance any more."""
        tapes, self.tapes = self.tapes, []
        for tape in tapes:
            if tape is not None:
                give_back(tape)

    def _like_x(self, lead: tuple[int, ...], size: int) -> Tensor:
        """Memory for (*lead, T, B, size), with time and batch in the order of x; zero where the batch is ragged."""
        is_batch_first = self.x.stride(0) < self.x.stride(1)
        shape = (self.batch, self.steps) if is_batch_first else (self.steps, self.batch)
        made = (self.x.new_zeros if self.is_ragged else self.x.new_empty)(*lead, *shape, size)
        return made.transpose(-2, -3) if is_batch_first else made

    def _arguments(self, d: int, start: int, tape: Tensor | None) -> Arguments:
        """What both kernels are given for one direction and the segment that starts at a step."""
        own = Arguments()
        setattr(own, "from", start)
        own.to, own.is_reverse, own.targets = min(start + self.segment, self.steps), d, 1
        own.batch, own.inputs, own.hidden = self.batch, self.inputs, self.hidden
        own.x_time, own.x_row, _ = self.x.stride()
        own.tape_time = self.batch * self.kept * self.hidden
        own.x, own.lengths = self.x.data_ptr(), self.lengths.data_ptr()
        own.tape = None if tape is None else tape.data_ptr()
        own.h_start = _place(self.starts[start // self.segment][0], d)
        for name, packed in self.directions[d].items():
            setattr(own, name, packed.data_ptr())
        return own

    def _threads(self, targets: int, directions: int) -> int:
        """As many threads as PyTorch uses, or fewer where the work is too small."""
        work = directions * self.segment * self.batch * targets * self.hidden * (self.inputs + self.hidden)
        return max(1, min(torch.get_num_threads(), work // WORTH_A_THREAD, directions * self.batch // 4))

    def _are_at_once(self, threads: int) -> bool:
        """Whether the directions run at the same time, because each thread would have few rows of one."""
        return threads > 1 and self.batch < threads * BLOCK and len(self.starts) == 1

    def _run(self, kernel: Callable[..., Any], given: Sequence[Arguments]) -> None:
        """Call a kernel for some directions. Each thread takes a direction, or some rows of one.

        A thread with few rows reads all weights for little work, so with few rows the directions run at the same time.
        """
        targets, threads = given[0].targets, self._threads(given[0].targets, len(given))
        if len(given) > 1 and not self._are_at_once(threads):
            for own in given:
                self._run(kernel, [own])
            return
        block = max(1, min(BLOCK, 4 * BLOCK // targets, self.batch))
        size = self.kernels.scratch(block, self.inputs, self.hidden, targets)
        share = -(-self.batch // -(-threads // len(given)))  # rows
        parts = [
            own if share == self.batch else Arguments.from_buffer_copy(own)
            for own in given
            for _ in range(0, self.batch, share)
        ]
        scratch = self.x.new_empty(len(parts) if threads > 1 else 1, size)
        for n, own in enumerate(parts):
            first = n % (len(parts) // len(given)) * share
            own.first, own.last, own.block = first, min(first + share, self.batch), block
            own.scratch = _place(scratch, n if threads > 1 else 0)
        if threads > 1:
            run(kernel, self.kernels.work, parts, threads)
            return
        for own in parts:
            kernel(ctypes.byref(own))

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        return self.out

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, H) each."""
        return self.states

    def relevance(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rules: Rules, *, direction: int | None, by_step: bool
    ) -> SweptLayer:
        """Hand back relevance that arrived at outputs (K, T, B, D·H) and final states (K, D, B, H)."""
        r = [each.clone(memory_format=torch.contiguous_format) for each in r_states]
        targets, count = r[0].shape[:2]
        # two threads cannot add up in one place
        are_apart = direction is None and count == 2 and self._are_at_once(self._threads(targets, count))
        r_x = self._like_x((2, targets) if are_apart else (1, targets), 1 if by_step else self.inputs)
        absorbed = self.x.new_zeros(2, count, targets, self.batch, dtype=torch.float64)
        if r_outputs is not None and r_outputs.stride(-1) != 1:
            r_outputs = r_outputs.contiguous()
        r_target, r_x_strides = r[0].stride(0), r_x.stride()
        of_bias, of_stabiliser = absorbed  # (D, K, B) each
        for given in self._rounds_back(count):
            for own in given:
                d = own.is_reverse
                own.targets, own.is_by_step, own.r_target = targets, by_step, r_target
                own.epsilon, own.returned, own.delta = rules.epsilon, rules.returned, rules.delta
                own.of_bias, own.of_stabiliser = _place(of_bias, d), _place(of_stabiliser, d)
                for name, each in zip(self.cell.states, r, strict=True):
                    setattr(own, f"r_{name}", _place(each, d, axis=1))
                if direction in (None, d):
                    own.r_x, own.is_added = _place(r_x, d if are_apart else 0), d > 0 and direction is None and not are_apart
                    _, own.r_x_target, own.r_x_time, own.r_x_row, _ = r_x_strides
                if r_outputs is not None:
                    own.r_out = r_outputs.data_ptr() + d * self.hidden * r_outputs.element_size()
                    own.r_out_target, own.r_out_time, own.r_out_row, _ = r_outputs.stride()
            self._run(self.kernels.back, given)
        bias, stabiliser = absorbed.to(self.x.dtype)
        return SweptLayer(r_x[0].add_(r_x[1]) if are_apart else r_x[0], r, bias, stabiliser)

    def _rounds_back(self, count: int) -> Iterator[Sequence[Arguments]]:
        """What runs at the same time: both directions or, in segments, one. The second adds to what all of the first wrote."""
        if len(self.starts) == 1:
            yield from zip(*(self._segments_back(d) for d in range(count)), strict=True)
        else:
            for d in range(count):
                yield from ((own,) for own in self._segments_back(d))

    def _segments_back(self, d: int) -> Iterator[Arguments]:
        """The arguments for every segment of a direction, the last first; its tape is made again where it was not kept."""
        kept = self.tapes[d]
        tape = self._new_tape() if kept is None else kept
        for number in reversed(range(len(self.starts))):
            own = self._arguments(d, number * self.segment, tape)
            if kept is None:
                states = [state[d].clone() for state in self.starts[number]]
                for name, state in zip(self.cell.states, states, strict=True):
                    setattr(own, name, state.data_ptr())
                self._run(self.kernels.forward, [own])
            yield own
        if kept is None:
            give_back(tape)


def _place(tensor: Tensor, index: int, *, axis: int = 0) -> int:
    """The address of one entry along an axis of a tensor."""
    return tensor.data_ptr() + index * tensor.stride(axis) * tensor.element_size()
