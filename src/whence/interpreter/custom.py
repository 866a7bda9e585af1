"""Rules that users add for functions of their choice."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from whence.errors import InputError
from whence.interpreter.names import name_of
from whence.interpreter.rule import Arriving, Rule
from whence.interpreter.table import TABLE
from whence.interpreter.trace import Step, Value, mapped

if TYPE_CHECKING:
    from whence.interpreter.sweep import Sweep


class Call(NamedTuple):
    """What a rule of the user's sees of a call: the function, its arguments and its result, all as plain tensors."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


CustomRule = Callable[[Call, Any], Tensor | Sequence[Tensor]]


class Custom(Rule):
    """A rule that a user wrote: relevance of the output in, relevance of each tensor argument on the record out."""

    def __init__(self, rule: CustomRule) -> None:
        self.rule = rule

    def run(self, step: Step) -> Any:
        result = super().run(step)
        args, kwargs = mapped(lambda leaf: leaf.tensor if isinstance(leaf, Value) else leaf, step.arguments)
        step.saved = Call(step.function, args, dict(kwargs), result)
        return result

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        targets = next(len(each.r) for each in arriving if each is not None and each.r is not None)
        rows: list[Sequence[Tensor]] = []
        for k in range(targets):
            r_out = [
                torch.zeros_like(value.tensor) if each is None or each.r is None else each.r[k]
                for value, each in zip(step.outputs, arriving, strict=True)
            ]
            found = self.rule(step.saved, r_out[0] if len(r_out) == 1 else tuple(r_out))
            rows.append([found] if isinstance(found, Tensor) else found)
        for n, value in enumerate(step.inputs):
            if any(len(row) != len(step.inputs) or row[n].shape != value.tensor.shape for row in rows):
                raise InputError(
                    f"the rule for torch.{step.name} returned relevance of shapes {[tuple(r.shape) for r in rows[0]]}; it must "
                    f"return one tensor for each input, of shapes {[tuple(v.tensor.shape) for v in step.inputs]}"
                )
            r = torch.stack([row[n] for row in rows])
            if value.is_live:
                sweep.deliver(step, value, r=r)
            else:
                sweep.book(step, "constant", r, step.outputs[0])


def handles(*functions: Callable[..., Any]) -> Callable[[CustomRule], CustomRule]:
    """Give torch functions a rule of your own, for every explanation from now on.

    The rule gets the call and the relevance of its output, and returns the relevance of each tensor argument that depends
    on the explained inputs, in order (one tensor, or a sequence of them):

        @whence.handles(torch.cumsum)
        def cumsum_rule(call, relevance): ...
    """

    def register(rule: CustomRule) -> CustomRule:
        for function in functions:
            TABLE[name_of(function)] = Custom(rule)
        return rule

    return register
