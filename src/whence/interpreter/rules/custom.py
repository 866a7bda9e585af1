"""Rules that users add for functions of their choice."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.errors import InputError
from whence.interpreter.record.graph import graph_of
from whence.interpreter.record.step import Arriving, Backward, Function, MixedSamplesError, Owners, Rule, Step, Value
from whence.interpreter.rules.table import TABLE
from whence.trees import rebuilt


class Call(NamedTuple):
    """What a user's rule sees of a call: the function, its arguments and its result, all as plain tensors."""

    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


CustomRule = Callable[[Call, Any], Tensor | Sequence[Tensor]]


class Custom(Rule):
    """A rule that a user wrote: relevance of the output in, relevance of each tensor argument on the record out."""

    is_users = True

    def __init__(self, rule: CustomRule) -> None:
        self.rule = rule

    def run(self, step: Step) -> object:
        with torch.no_grad():
            result = super().run(step)
        args, kwargs = rebuilt(step.arguments, [leaf.tensor if isinstance(leaf, Value) else leaf for leaf in step.leaves])
        step.saved = Call(step.function, args, dict(kwargs), result)
        return result

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        """Found by derivative: an output belongs to the sample that changes it."""
        _, graph = graph_of(step)
        live = [value for value in step.inputs if value.is_live]
        found = [torch.zeros_like(value.tensor, dtype=torch.float64) for value in step.outputs]
        for number in cast(list[float], torch.cat([owners[value].reshape(-1) for value in live]).unique().tolist()):
            if number:
                marked = [(owners[value] == number).to(value.tensor.dtype) for value in live]
                for into, touched in zip(found, graph.touched(marked), strict=True):
                    if (touched & (into != 0)).any():
                        raise MixedSamplesError(step)
                    into[touched] = number
        for n, value in enumerate(step.outputs):  # a function without a derivative, such as round, works element by element
            same = next((each for each in live if each.tensor.shape == value.tensor.shape), None)
            if same is not None and not found[n].any():
                found[n] = owners[same].expand(value.tensor.shape)
        return found

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        targets = next(len(each.r) for each in arriving if each is not None and each.r is not None)
        rows: list[Sequence[Tensor]] = []
        for k in range(targets):
            r_out = [
                torch.zeros_like(value.tensor) if each is None or each.r is None else each.r[k]
                for value, each in zip(step.outputs, arriving, strict=True)
            ]
            found = self.rule(step.saved, r_out[0] if len(r_out) == 1 else tuple(r_out))
            found = [found] if isinstance(found, Tensor) else found
            if not isinstance(found, Sequence) or not all(isinstance(each, Tensor) for each in found):
                raise InputError(f"the rule for torch.{step.name} returned {found!r}; it must return one tensor for each input")
            rows.append(found)
        for n, value in enumerate(step.inputs):
            if any(len(row) != len(step.inputs) or row[n].shape != value.tensor.shape for row in rows):
                raise InputError(
                    f"the rule for torch.{step.name} returned relevance of shapes {[tuple(r.shape) for r in rows[0]]}; it must "
                    f"return one tensor for each input, of shapes {[tuple(v.tensor.shape) for v in step.inputs]}"
                )
            r = torch.stack([row[n] for row in rows])
            if value.is_live:
                back.deliver(step, value, r=r)
            else:
                back.absorb(step, "constant", r, step.outputs[0])


def handles(*functions: Function) -> Callable[[CustomRule], CustomRule]:
    """Give torch functions a rule of your own, for every explanation from now on.

    The rule gets the call and the relevance of its output, and returns the relevance of each tensor argument that depends
    on the explained inputs, in order (one tensor, or a sequence of them):

        @whence.handles(torch.cumsum)
        def cumsum_rule(call, relevance): ...
    """

    for function in functions:
        if not callable(function) or isinstance(function, type):
            raise InputError(f"{function!r} is not a torch function; name one such as torch.cumsum")

    def register(rule: CustomRule) -> CustomRule:
        for function in functions:
            TABLE[TABLE.name_of(function)] = replace(TABLE.find(function), rule=Custom(rule), rewrite=None, apart=None)
        return rule

    return register
