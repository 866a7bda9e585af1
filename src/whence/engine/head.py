"""The head of a model: its dense layers between the recurrent part and the score, found among the calls of a run.

A call is recurrent if it is
- a recurrent layer or cell of PyTorch,
- a weighted connection that got its input through an earlier use of its own weight, as in a loop over time written by hand,
- a sum that takes up an earlier sum through a gate or a scale, with no new weight in between: c = f · c + …, turn after turn,
- a running sum or product, or a Fourier transform, by which long convolutions over time are computed.

A weight that is used in a recurrent call, or on the way to one, belongs to the recurrent part, and so do all calls that use it.
All other dense layers are the head; without a recurrent call, that is all of them. A loop shows only if it runs
more than once, or twice if its state starts as nothing. A plain sum in a loop (s = s + x) is taken for pooling.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.engine.marks import ModelCall, Node
from whence.engine.products import GatedProduct
from whence.engine.recurrence import Recurrence
from whence.engine.refusal import name_of, place
from whence.engine.sums import MIXED, Reduction, Sum
from whence.engine.weighted import Weighted
from whence.errors import InputError, NoRuleError

RUNNING = ("cumprod", "logcumsumexp", "fft_")
NORMALISATIONS = ("layer_norm", "batch_norm")
NO_HEAD = 'head="{}" finds no dense layer between the recurrent part of the model and the score; use head="epsilon"'


class Head(NamedTuple):
    """The dense layers of a head, and why relevance cannot pass some calls of the sums that they are part of."""

    layers: Mapping[ModelCall, None] = {}
    refused: Mapping[ModelCall, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the model has no head, so that its rule would change nothing."""
        return not self.layers and not self.refused

    def require(self, rule: str) -> None:
        """Refuse a model whose head cannot follow the rule, or that has none."""
        if self.is_empty:
            raise InputError(NO_HEAD.format(rule))
        for call, reason in self.refused.items():
            made = f"{name_of(call.function)} ({place(call.layer)})"
            raise NoRuleError(f'head="{rule}" cannot be applied to {made}: {reason}. Use head="epsilon".')


def head_of(calls: Sequence[ModelCall], passed: Collection[ModelCall]) -> Head:
    """The head of a model, among the calls that relevance passes."""
    weights = Weights()
    recurrent = _recurrent(calls, weights)
    layers, sums, refused = dict[ModelCall, None](), dict[ModelCall, None](), dict[ModelCall, str]()
    for call in calls:
        if call not in passed or not any(node.is_live for node in call.outputs):
            continue
        if isinstance(call.rule, Weighted):
            if not call.is_layer or weights.bits(call) & recurrent:
                continue
            layers[call], reason = None, call.sideless
        elif _continues(call, sums):
            reason = "" if call.rule.has_sides and not call.is_complex else MIXED
        else:
            continue
        if reason:
            refused[call] = reason
        else:
            sums[call] = None
    return Head(layers, refused)


def _continues(call: ModelCall, sums: Collection[ModelCall]) -> bool:
    """Whether a call goes on with a sum of the head."""
    return any(node.in_sum for node in call.outputs) and any(node.in_sum and node.call in sums for node in call.inputs)


class Weights:
    """Numbers the weights that calls use, so that a set of them is the bits of an integer."""

    def __init__(self) -> None:
        self._trained: dict[tuple[object, ...], int] = {}
        self._others: list[Tensor] = []  # buffers, and what is computed from parameters in every call
        self._bits: dict[ModelCall, int] = {}

    def bits(self, call: ModelCall) -> int:
        """The weights of a call; 0 for a call without."""
        if call not in self._bits:
            own = () if call.name in NORMALISATIONS else call.weights
            self._bits[call] = sum({1 << self._number(weight, call) for weight in own})
        return self._bits[call]

    def _number(self, weight: Tensor, call: ModelCall) -> int:
        """The number of a weight; one that is read transposed is another."""
        if call.is_trained:
            key = weight.data_ptr(), weight.shape, weight.stride()
            return 2 * self._trained.setdefault(key, len(self._trained))
        for number, known in enumerate(self._others):
            if known.shape == weight.shape and known.dtype == weight.dtype and torch.equal(known, weight):
                return 2 * number + 1
        self._others.append(weight)
        return 2 * len(self._others) - 1


def _recurrent(calls: Sequence[ModelCall], weights: Weights) -> int:
    """The weights of the recurrent part."""
    found, through = 0, dict[ModelCall | None, int]({None: 0})  # by call, all weights on the way to its result
    for call in calls:
        before, own = 0, weights.bits(call)
        for node in call.inputs:
            before |= through[node.call]
        through[call] = before | own
        is_running = (isinstance(call.rule, Reduction) and call.rule.is_running) or call.name.startswith(RUNNING)
        if isinstance(call.rule, Recurrence) or is_running or before & own or _takes_up(call, through):
            found |= before | own
    return found


def _takes_up(call: ModelCall, through: Mapping[ModelCall | None, int]) -> bool:
    """Whether a sum takes up an earlier sum through a gate or a scale, with no new weight in between."""
    if not _adds(call):
        return False
    waiting, seen = [(node, False) for node in call.inputs], set[tuple[Node, bool]]()
    while waiting:
        node, is_scaled = waiting.pop()
        if (node, is_scaled) in seen or node.call is None or not node.is_live:
            continue
        seen.add((node, is_scaled))
        if _adds(node.call):
            if is_scaled and through[node.call] == through[call]:
                return True
        elif node.call.rule.moves:
            waiting += [(each, is_scaled) for each in node.call.inputs]
        elif isinstance(node.call.rule, (Sum, GatedProduct)):
            waiting += [(each, True) for each in node.call.sources]
    return False


def _adds(call: ModelCall) -> bool:
    """Whether it adds several terms that depend on the inputs, or a term to a constant state behind its gate."""
    return isinstance(call.rule, Sum) and call.terms > 1
