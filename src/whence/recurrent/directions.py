"""A layer whose directions each read their input in an order of their own: the reference's way, and the plain path's."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whence.equations import Rules
from whence.recurrent.layer import SweptLayer
from whence.recurrent.lstm import plain
from whence.recurrent.sequences import reverse
from whence.recurrent.sweep import Swept


class DirectionsLayer:
    """Directions that each read x in an order of their own, by the reference or the plain path, brought into that of time."""

    def __init__(
        self, cell: Any, x: Tensor, weights: Sequence[Any], states: Sequence[Tensor], lengths: Tensor | None, *, plainly: bool
    ) -> None:
        self.cell, self.weights, self.lengths, self.is_plain = cell, weights, lengths, plainly
        given = [self._ordered(x, d) for d in range(len(weights))]
        starts = list(zip(*(state.unbind(0) for state in states), strict=True))
        if plainly:
            self.tape = plain.forward(given, weights, states=starts, lengths=lengths)
            self.tapes = []
        else:
            self.tapes = [
                cell.forward(own, each, states=start, lengths=lengths)
                for own, each, start in zip(given, weights, starts, strict=True)
            ]

    def renew(self, x: Tensor) -> None:
        """Take the same input from another place; the plain path has a copy of its own."""
        self.tapes = [tape._replace(x=self._ordered(x, d)) for d, tape in enumerate(self.tapes)]

    def release(self) -> None:
        """Nothing here is borrowed."""

    def _ordered(self, padded: Tensor, d: int) -> Tensor:
        """A (..., T, B, ·) tensor in the order in which a direction reads it, or back from it."""
        return reverse(padded, self.lengths) if d else padded

    def outputs(self) -> Tensor:
        """The hidden state of every direction after every step (T, B, D·H), zero where a sequence has ended."""
        own = self.tape.outputs() if self.is_plain else [tape.outputs() for tape in self.tapes]
        return torch.cat([self._ordered(each, d) for d, each in enumerate(own)], dim=-1)

    def final(self) -> Sequence[Tensor]:
        """The final states (D, B, ·) each."""
        own = self.tape.final() if self.is_plain else [tape.final() for tape in self.tapes]
        return [torch.stack(each) for each in zip(*own, strict=True)]

    def relevance(
        self,
        r_outputs: Tensor | None,
        r_states: Sequence[Tensor],
        rule: Rules,
        *,
        direction: int | None,
        by_step: bool,
        keep: bool = False,
    ) -> SweptLayer:
        """Hand back relevance; with `keep`, also what every state carried on the way."""
        parts = None
        if r_outputs is not None:
            parts = [self._ordered(part, d) for d, part in enumerate(r_outputs.chunk(len(self.weights), dim=-1))]
        ends = list(zip(*(each.unbind(1) for each in r_states), strict=True))
        if self.is_plain:
            swept = plain.relevance(self.tape, self.weights, r_outputs=parts, r_states=ends, rule=rule)
        else:
            swept = self._by_reference(parts, ends, rule, keep=keep)
        r_x = torch.stack([self._ordered(each.x, d) for d, each in enumerate(swept) if direction in (None, d)]).sum(0)
        return SweptLayer(
            r_x.sum(-1, keepdim=True) if by_step else r_x,
            [torch.stack(each, dim=1) for each in zip(*(each.states for each in swept), strict=True)],
            torch.stack([each.bias for each in swept]),
            torch.stack([each.stabiliser for each in swept]),
            [each.carried for each in swept if each.carried],
        )

    def _by_reference(self, parts: Sequence[Tensor] | None, ends: Sequence[Any], rule: Rules, *, keep: bool) -> list[Swept]:
        if parts is None:
            parts = [tape.h.new_zeros(len(end[0]), *tape.outputs().shape) for tape, end in zip(self.tapes, ends, strict=True)]
        return [
            self.cell.relevance(tape, own, r_outputs=arrived, r_states=end, rule=rule, keep=keep)
            for tape, own, arrived, end in zip(self.tapes, self.weights, parts, ends, strict=True)
        ]
