"""A layer in PyTorch's own operations, by the reference, by factors or plain: every direction reads x in its own order."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from whence.equations import Rules
from whence.recurrent.cell import Cell, PlainTape, Tape
from whence.recurrent.layer import SweptLayer
from whence.recurrent.sequences import reverse
from whence.recurrent.sweep import Swept
from whence.recurrent.weights import Weights

Way = Literal["reference", "factored", "plain"]
AT_ONCE = 2**25  # bytes of states; the factors of all their steps take some twenty times as much


class DirectionsLayer:
    """All directions of a layer. What each direction computed in its own order is returned in the order of time."""

    def __init__(
        self,
        cell: Cell,
        x: Tensor,
        weights: Sequence[Weights],
        states: Sequence[Tensor],
        lengths: Tensor | None,
        *,
        way: Way = "reference",
    ) -> None:
        self.cell, self.weights, self.lengths = cell, weights, lengths
        self.plain = cell.plain if way == "plain" else None
        is_small = x.shape[0] * x.shape[1] * weights[0].hidden_size * x.element_size() <= AT_ONCE
        self.back = cell.factored if way == "factored" and is_small and cell.factored is not None else cell.relevance
        given = [self._ordered(x, d) for d in range(len(weights))]
        starts = list(zip(*(state.unbind(0) for state in states), strict=True))
        self.tapes: list[Tape] = []  # by direction, of the reference
        self.tape: PlainTape | None = None
        if self.plain is not None:
            self.tape = self.plain.forward(given, weights, states=starts, lengths=lengths)
        else:
            self.tapes = [
                cell.forward(own, each, states=start, lengths=lengths)
                for own, each, start in zip(given, weights, starts, strict=True)
            ]

    def renew(self, x: Tensor) -> None:
        """Take the same input from another place in memory; the plain path has its own copy."""
        self.tapes = [tape._replace(x=self._ordered(x, d)) for d, tape in enumerate(self.tapes)]

    def release(self) -> None:
        """Nothing here is borrowed."""

    def _ordered(self, padded: Tensor, d: int) -> Tensor:
        """A (..., T, B, ·) tensor in the order in which a direction reads it; applied again, in the order of time."""
        return reverse(padded, self.lengths) if d else padded

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        own = self.tape.outputs() if self.tape is not None else [tape.outputs() for tape in self.tapes]
        return torch.cat([self._ordered(each, d) for d, each in enumerate(own)], dim=-1)

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, ·) each."""
        own = self.tape.final() if self.tape is not None else [tape.final() for tape in self.tapes]
        return [torch.stack(each) for each in zip(*own, strict=True)]

    def relevance(
        self,
        r_outputs: Tensor | None,
        r_states: Sequence[Tensor],
        rules: Rules,
        *,
        direction: int | None,
        by_step: bool,
        keep: bool = False,
    ) -> SweptLayer:
        """Hand back relevance; with `keep`, also the relevance that every state carried from step to step."""
        parts = None
        if r_outputs is not None:
            parts = [self._ordered(part, d) for d, part in enumerate(r_outputs.chunk(len(self.weights), dim=-1))]
        ends = list(zip(*(each.unbind(1) for each in r_states), strict=True))
        if self.plain is not None:
            swept = self.plain.relevance(self.tape, self.weights, r_outputs=parts, r_states=ends, rules=rules)
        else:
            swept = self._by_reference(parts, ends, rules, keep=keep)
        r_x = torch.stack([self._ordered(each.x, d) for d, each in enumerate(swept) if direction in (None, d)]).sum(0)
        return SweptLayer(
            r_x.sum(-1, keepdim=True) if by_step else r_x,
            [torch.stack(each, dim=1) for each in zip(*(each.states for each in swept), strict=True)],
            torch.stack([each.bias for each in swept]),
            torch.stack([each.stabiliser for each in swept]),
            [each.carried for each in swept if each.carried],
        )

    def _by_reference(
        self, parts: Sequence[Tensor] | None, ends: Sequence[tuple[Tensor, ...]], rules: Rules, *, keep: bool
    ) -> list[Swept]:
        if parts is None:
            outputs = [tape.outputs() for tape in self.tapes]
            parts = [own.new_zeros(len(end[0]), *own.shape) for own, end in zip(outputs, ends, strict=True)]
        back = partial(self.cell.relevance, keep=True) if keep else self.back
        return [
            back(tape, own, r_outputs=arrived, r_states=end, rules=rules)
            for tape, own, arrived, end in zip(self.tapes, self.weights, parts, ends, strict=True)
        ]
