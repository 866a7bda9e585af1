"""Rules that users add for functions of their choice."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whence.engine.marks import Args, Function, Kwargs, ModelCall, Owner
from whence.engine.neurons import Neuron
from whence.engine.refusal import first_line
from whence.engine.routing import Moved
from whence.engine.rule import Rule
from whence.engine.run import ModelRun
from whence.engine.table import TABLE
from whence.errors import InputError
from whence.trees import floats_of, mapped


class Call(NamedTuple):
    """What a user's rule sees of a call: the function, its arguments and its result, all as plain tensors."""

    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


CustomRule = Callable[[Call, Any], Tensor | Sequence[Tensor]]


class Ruled(Neuron):
    """A call on the graph that hands relevance back by a user's rule."""

    @staticmethod
    def forward(
        ctx: Any, y: Sequence[Tensor], rule: CustomRule, seen: Call, call: ModelCall, run: ModelRun, *inputs: Tensor
    ) -> Any:
        ctx.rule, ctx.seen, ctx.call, ctx.run = rule, seen, call, run
        ctx.shapes = [each.shape for each in inputs]
        ctx.live = [node.is_live for node in call.inputs]
        return tuple(y)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        try:
            found = Ruled.handed_back(ctx, grads)
        except Exception as error:  # a user's rule may raise anything
            if not ctx.run.is_survey:
                raise
            ctx.call.refused = f"relevance could not be handed back through it ({first_line(error)})"
            found = [grads[0].new_ones(shape) for shape in ctx.shapes]
        return *[None] * 5, *(r if is_live else None for r, is_live in zip(found, ctx.live, strict=True))

    @staticmethod
    def handed_back(ctx: Any, grads: Sequence[Tensor]) -> Sequence[Tensor]:
        """What the user's rule gives to every input."""
        name, shapes = ctx.call.name, ctx.shapes
        found = ctx.rule(ctx.seen, grads[0] if len(grads) == 1 else grads)
        given: Sequence[Tensor] = [found] if isinstance(found, Tensor) else found
        if not isinstance(given, Sequence) or not all(isinstance(each, Tensor) for each in given):
            raise InputError(f"the rule for torch.{name} returned {given!r}; it must return one tensor for each input")
        if [each.shape for each in given] != shapes:
            raise InputError(
                f"the rule for torch.{name} returned relevance of shapes {[tuple(r.shape) for r in given]}; it must "
                f"return one tensor for each input, of shapes {[tuple(shape) for shape in shapes]}"
            )
        node = ctx.call.outputs[0]
        for r, is_live in zip(given, ctx.live, strict=True):
            if not is_live:
                ctx.run.ledger.absorb(ctx.call, "constant", r, node, tuple(r.shape))
        return given


class Custom(Rule):
    """A rule that a user wrote: relevance of the output in, relevance of each tensor argument that is followed out."""

    words = "your own rule"

    def __init__(self, rule: CustomRule) -> None:
        self.rule = rule

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        moved = Moved(run, call, args, kwargs)
        plain = {id(each): each.detach() for each in moved.tensors}
        given = mapped(lambda leaf: plain.get(id(leaf), leaf), (tuple(args), dict(kwargs)))
        with torch.no_grad():
            result = call.function(*given[0], **given[1])
        outputs = floats_of(result)
        marked = list({id(mark.node): (each, mark) for each, mark in moved.marked}.values())
        call.sources = tuple(mark.node for _, mark in marked if mark.is_live)
        inputs = [run.finished(each, mark) if mark.is_live else plain[id(each)] for each, mark in marked]
        owners = self._owners(moved, outputs)
        seen = Call(call.function, given[0], given[1], result)
        made = iter(Ruled.apply([each.detach() for each in outputs], self.rule, seen, call, run, *inputs))
        places = iter(owners)
        return mapped(
            lambda leaf: (
                run.put(next(made), call, is_live=bool(moved.live), owner=next(places), is_infinite=True)
                if any(leaf is each for each in outputs)
                else leaf
            ),
            result,
        )

    def _owners(self, moved: Moved, outputs: Sequence[Tensor]) -> Sequence[Owner]:
        """Found by derivative: an output belongs to the sample that changes it."""
        samples = moved.run.samples
        if samples.is_one:
            return [None] * len(outputs)
        found = [torch.zeros_like(each, dtype=torch.float64) for each in outputs]
        for number in range(1, samples.count + 1):
            for into, slope in zip(found, moved.derivative(lambda t, n=number: moved.numbers(t) == n), strict=True):
                moved.call.is_mixed = moved.call.is_mixed or bool(((slope != 0) & (into != 0)).any())
                into[slope != 0] = number
        for n, each in enumerate(outputs):  # a function without a derivative, such as round, works element by element
            same = next((tensor for tensor, _ in moved.live if tensor.shape == each.shape), None)
            if same is not None and not found[n].any():
                found[n] = moved.numbers(same)
        return [samples.told(each) for each in found]


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
