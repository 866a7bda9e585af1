"""Contextual decomposition of a whole recurrent call: its layers, directions and steps, for any number of phrases at once."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from whence.recurrent.cell import Cell
from whence.recurrent.parts import Parts, by_part, joined, linear
from whence.recurrent.sequences import reverse
from whence.recurrent.sweep import activity
from whence.recurrent.weights import Weights


def decomposed(
    cell: Cell,
    x: Parts,
    layers: Sequence[Sequence[Weights]],
    *,
    states: Sequence[Parts],
    inside: Tensor,
    lengths: Tensor | None = None,
) -> tuple[Parts, list[Parts]]:
    """The parts of the last layer's outputs (T, B, D·H), and of the final states (layers · D, B, ·) each.

    x (T, B, E); states (layers · D, B, ·) each, whose bias goes to the rest; inside (N, T, B, 1), 1 at the steps of a phrase.
    A step of a further layer is inside the phrase if the same step of the input is.
    """
    initial = [state._replace(bias=torch.zeros_like(state.bias)) for state in states]
    finals: list[tuple[Parts, ...]] = []
    for directions in layers:
        outputs: list[Parts] = []
        for d, weights in enumerate(directions):
            turned = partial(reverse, lengths=lengths) if d else _as_it_is
            start = tuple(_at(state, len(finals)) for state in initial)
            read, last = _direction(cell, by_part(turned, x), weights, start, turned(inside), lengths)
            outputs.append(by_part(turned, read))
            finals.append(last)
        x = joined(lambda each: torch.cat(list(each), dim=-1), outputs)
    return x, [_stacked(each) for each in zip(*finals, strict=True)]


def _direction(
    cell: Cell, x: Parts, weights: Weights, states: tuple[Parts, ...], inside: Tensor, lengths: Tensor | None
) -> tuple[Parts, tuple[Parts, ...]]:
    """The outputs (T, B, H), zero where a sequence has ended, and the final states (B, ·) of one direction."""
    from_x = linear(x, weights.input, weights.biases[0])
    active = activity(len(x.whole), lengths)
    outputs: list[Parts] = []
    for t in range(len(x.whole)):
        after = cell.decomposition(_at(from_x, t), states, weights, inside=inside[:, t])
        if active is None:
            states = after
            outputs.append(after[0])
        else:  # a sequence that has ended keeps its state, and its outputs are zero
            states = tuple(_replaced(active[t], new, old) for new, old in zip(after, states, strict=True))
            outputs.append(_running(active[t], after[0]))
    return _stacked(outputs), states


def _replaced(runs: Tensor, new: Parts, old: Parts) -> Parts:
    return joined(lambda each: torch.where(runs, each[0], each[1]), [new, old])


def _running(runs: Tensor, parts: Parts) -> Parts:
    return by_part(lambda part: part * runs, parts)


def _as_it_is(part: Tensor) -> Tensor:
    return part


def _at(parts: Parts, t: int) -> Parts:
    """One step, or one layer's state, of parts (T, B, ·)."""
    return by_part(lambda part: part.select(-3, t), parts)


def _stacked(parts: Sequence[Parts]) -> Parts:
    """Parts (B, ·) of every step, or layer, as (T, B, ·)."""
    return joined(lambda each: torch.stack(list(each), dim=-3), parts)
