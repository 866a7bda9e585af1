"""The head of a model: its dense layers between the recurrent part and the score, found in the record.

A step of the record is recurrent if it is
- a recurrent layer or cell of PyTorch,
- a weighted connection that got its input through an earlier use of its own weight, as in a loop over time written by hand,
- a sum that takes up an earlier sum through a gate or a scale, with no new weight in between: c = f · c + …, turn after turn,
- a running sum or product, or a Fourier transform, by which long convolutions over time are computed.

A weight that is used in a recurrent step, or on the way to one, belongs to the recurrent part, and so do all calls that use it.
All other dense layers are the head; without a recurrent step, that is all of them. A loop shows in the record only if it runs
more than once, or twice if its state starts as nothing. A plain sum in a loop (s = s + x) is taken for pooling.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.errors import InputError, NoRuleError
from whence.interpreter.record.refusal import name_of, place
from whence.interpreter.record.step import Step, Trace, Value
from whence.interpreter.rules.gates import GatedProduct
from whence.interpreter.rules.recurrence import Recurrence
from whence.interpreter.rules.sums import Cumulative, Sum
from whence.interpreter.rules.weighted import Weighted

RUNNING = ("cumprod", "logcumsumexp", "fft_")
NORMALISATIONS = ("layer_norm", "batch_norm")
NO_HEAD = 'head="{}" finds no dense layer between the recurrent part of the model and the score; use head="epsilon"'
MIXED = "it computes with the sums of a dense layer, and the signs of their contributions are lost"


class Head(NamedTuple):
    """The dense layers of a head, all steps of the sums that they are part of, and why relevance cannot pass some steps."""

    layers: Mapping[Step, None] = {}
    sums: Mapping[Step, None] = {}
    refused: Mapping[Step, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the model has no head, so that its rule would change nothing."""
        return not self.layers and not self.refused

    def among(self, steps: Collection[Step]) -> "Head":
        """What of it lies among some steps."""
        layers, sums = ({step: None for step in part if step in steps} for part in self[:2])
        return Head(layers, sums, {step: reason for step, reason in self.refused.items() if step in steps})

    def require(self, rule: str) -> None:
        """Refuse a model whose head cannot follow the rule, or that has none."""
        if self.is_empty:
            raise InputError(NO_HEAD.format(rule))
        for step, reason in self.refused.items():
            call = f"{name_of(step.function)} ({place(step.layer)})"
            raise NoRuleError(f'head="{rule}" cannot be applied to {call}: {reason}. Use head="epsilon".')


def head_of(trace: Trace, steps: Collection[Step]) -> Head:
    """The head of a model, among the `steps` that relevance passes."""
    weights = Weights()
    recurrent = _recurrent(trace, weights)
    layers, sums, refused = dict[Step, None](), dict[Step, None](), dict[Step, str]()
    for step in trace.steps:
        if step not in steps or not any(value.is_live for value in step.outputs):
            continue
        if isinstance(step.rule, Weighted):
            if not step.rule.is_layer(step) or weights.bits(step) & recurrent:
                continue
            layers[step], reason = None, step.rule.sideless(step)
        elif _continues(step, sums):
            reason = "" if step.rule.has_sides and not step.outputs[0].tensor.is_complex() else MIXED
        else:
            continue
        if reason:
            refused[step] = reason
        else:
            sums[step] = None
    return Head(layers, sums, refused)


def _continues(step: Step, sums: Collection[Step]) -> bool:
    """Whether a step goes on with a sum of the head."""
    return any(value.in_sum for value in step.outputs) and any(value.in_sum and value.step in sums for value in step.inputs)


class Weights:
    """Numbers the weights that the steps of a record use, so that a set of them is the bits of an integer."""

    def __init__(self) -> None:
        self._trained: dict[tuple[object, ...], int] = {}
        self._others: list[Tensor] = []  # buffers, and what is computed from parameters in every call
        self._bits: dict[Step, int] = {}

    def bits(self, step: Step) -> int:
        """The weights of a step; 0 for a step without."""
        if step not in self._bits:
            self._bits[step] = sum({1 << self._number(weight, step) for weight in _weights(step)})
        return self._bits[step]

    def _number(self, weight: Tensor, step: Step) -> int:
        """The number of a weight; one that is read transposed is another."""
        if step.is_trained(weight):
            key = weight.data_ptr(), weight.shape, weight.stride()
            return 2 * self._trained.setdefault(key, len(self._trained))
        for number, known in enumerate(self._others):
            if known.shape == weight.shape and known.dtype == weight.dtype and torch.equal(known, weight):
                return 2 * number + 1
        self._others.append(weight)
        return 2 * len(self._others) - 1


def _weights(step: Step) -> Sequence[Tensor]:
    if not isinstance(step.rule, Weighted) or step.name in NORMALISATIONS:
        return ()
    is_single = len(step.saved) == 1 and sum(value.is_live for value in step.inputs) == 1
    return step.saved[0].weighting.weights if is_single else ()


def _recurrent(trace: Trace, weights: Weights) -> int:
    """The weights of the recurrent part."""
    found, through = 0, dict[Step | None, int]({None: 0})  # by step, all weights on the way to its result
    for step in trace.steps:
        before, own = 0, weights.bits(step)
        for value in step.inputs:
            before |= through[value.step]
        through[step] = before | own
        is_running = isinstance(step.rule, Cumulative) or step.name.startswith(RUNNING)
        if isinstance(step.rule, Recurrence) or is_running or before & own or _takes_up(step, through):
            found |= before | own
    return found


def _takes_up(step: Step, through: dict[Step | None, int]) -> bool:
    """Whether a sum takes up an earlier sum through a gate or a scale, with no new weight in between."""
    if not _adds(step):
        return False
    waiting, seen = [(value, False) for value in step.inputs], set[tuple[Value, bool]]()
    while waiting:
        value, is_scaled = waiting.pop()
        if (value, is_scaled) in seen or value.step is None or not value.is_live:
            continue
        seen.add((value, is_scaled))
        if _adds(value.step):
            if is_scaled and through[value.step] == through[step]:
                return True
        elif value.step.rule.moves:
            waiting += [(each, is_scaled) for each in value.step.inputs]
        elif isinstance(value.step.rule, (Sum, GatedProduct)):
            waiting += [(each, True) for each in value.step.rule.receivers(value.step)]
    return False


def _adds(step: Step) -> bool:
    """Whether it adds several terms that depend on the inputs, or a term to a constant state behind its gate."""
    return isinstance(step.rule, Sum) and sum(isinstance(operand, Value) for operand, _ in step.rule.terms(step)) > 1
