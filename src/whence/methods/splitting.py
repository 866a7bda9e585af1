"""The parts of every recorded value for contextual decomposition, from the inputs forward, call by call.

A call that is neither a recurrent layer, nor elementwise, nor a pick by value has to be affine. This is checked: the call is
made once more with a random mixture of all parts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from whence.errors import NoRuleError, WhenceError
from whence.interpreter.backward.path import Start
from whence.interpreter.record.graph import graph_of
from whence.interpreter.record.refusal import NoRule, Unruled, name_of, place
from whence.interpreter.record.step import Step, Trace, Value
from whence.interpreter.rules.activations import Activation
from whence.interpreter.rules.recurrence import Recurrence, RecurrentCall, is_live, tensor
from whence.interpreter.rules.routing import Pick
from whence.recurrent.decomposition import decomposed
from whence.recurrent.parts import Parts, apart, by_part
from whence.trees import floats_of

Calls = Callable[[Mapping[Value, Tensor]], list[Tensor]]  # a call with other numbers (M, *shape) in place of its live values


class Split(NamedTuple):
    """The parts of a value for N phrases, and where (N, *) its own position belongs to the phrase: 1 there, else 0.

    `inside` is known where a recurrent layer is still to come: the biases of its steps go to the phrase there.
    """

    parts: Parts
    inside: Tensor | None


class Splits(dict[Value, Split]):
    """What is known of the values so far; a value that does not depend on the inputs is a constant."""

    count: int = 0  # N

    def of(self, value: Value | Tensor) -> Parts:
        """The parts of a value, or of a constant."""
        if is_live(value):
            return self[value].parts
        whole = tensor(value)
        return Parts(whole, whole.new_zeros(1).expand(self.count, *whole.shape), whole)

    def live(self, step: Step) -> list[Value]:
        """The inputs of a step that depend on the explained ones."""
        return [value for value in step.inputs if value.is_live]


def split(trace: Trace, steps: Collection[Step], phrases: Sequence[Tensor]) -> Splits:
    """The parts of all values that `steps` made, for phrases given by masks (N, *shape) of every explained input."""
    found = Splits()
    found.count = len(phrases[0])
    for leaf, mask in zip(trace.leaves, phrases, strict=True):
        own = mask.to(leaf.tensor).expand(found.count, *leaf.tensor.shape)
        found[leaf] = Split(Parts(leaf.tensor, own * leaf.tensor, torch.zeros_like(leaf.tensor)), own)
    wanted = _read_later(trace, steps)
    for step in trace.steps:
        if step in steps and any(value.is_live for value in step.inputs):
            try:
                made = _made(step, found, is_marked=not wanted.isdisjoint(step.outputs))
            except (NoRule, RuntimeError, ValueError, IndexError, TypeError) as error:
                if isinstance(error, WhenceError):
                    raise
                raise _no_rule(step) from error
            found.update(zip(step.outputs, made, strict=True))
    return found


def leading_to(trace: Trace, start: Start) -> set[Step]:
    """All steps that the scores depend on; raises if nothing is known about one of them."""
    reached, steps = set(start.masks), set[Step]()
    for step in reversed(trace.steps):
        if not reached.isdisjoint(step.outputs):
            if isinstance(step.rule, Unruled):
                raise _no_rule(step)
            reached.update(value for value in step.inputs if value.is_live)
            steps.add(step)
    return steps


def _read_later(trace: Trace, steps: Collection[Step]) -> set[Value]:
    """The values from which a recurrent layer reads."""
    found: set[Value] = set()
    for step in reversed(trace.steps):
        if step in steps and (isinstance(step.rule, Recurrence) or not found.isdisjoint(step.outputs)):
            found.update(value for value in step.inputs if value.is_live)
    return found


def _made(step: Step, known: Splits, *, is_marked: bool) -> list[Split]:
    """The parts of a step's results."""
    if isinstance(step.rule, Recurrence):
        return _recurrent(step, step.rule, known)
    if type(step.rule) is Activation:
        value = known.live(step)[0]
        return [Split(_activated(step, known), known[value].inside)]
    if isinstance(step.rule, Pick):
        parts, calls = _picked(step, known), _pick(step)
    else:
        parts, calls = _affine(step, known), _calls(step, are_ones=True)
    marks = _marks(step, known, calls) if is_marked else [None] * len(parts)
    return [Split(*each) for each in zip(parts, marks, strict=True)]


def _recurrent(step: Step, rule: Recurrence, known: Splits) -> list[Split]:
    """A recurrent layer or cell. What does not depend on the inputs is a constant; of a state, it belongs to the rest."""
    args, kwargs = step.arguments
    call: RecurrentCall = rule.read(rule.cell, *args, **kwargs)
    states = [by_part(lambda part: part.unsqueeze(-3), each) if call.is_cell else each for each in map(known.of, call.states)]
    inside = known[call.data].inside if is_live(call.data) else known.of(call.data).phrase  # nowhere, for a constant
    assert inside is not None
    inside = call.to_steps(inside.amax(-1, keepdim=True))
    x = by_part(call.to_steps, known.of(call.data))
    outputs, finals = decomposed(rule.cell, x, call.layers, states=states, inside=inside, lengths=call.lengths)
    if call.is_cell:  # its state is what this one step gives
        ends = [by_part(lambda part: part.squeeze(-3), final) for final in finals]
        return [Split(end, inside.squeeze(-3).expand_as(end.phrase)) for end in ends]
    read = Split(by_part(call.from_steps, outputs), call.from_steps(inside.expand_as(outputs.phrase)))
    return [read, *(Split(final, torch.zeros_like(final.phrase)) for final in finals)]


def _activated(step: Step, known: Splits) -> Parts:
    """An elementwise function of one value, made linear."""
    step.rule.receivers(step)  # raises if its bounds or slopes depend on the input
    (value,) = known.live(step)
    calls = _calls(step)

    def function(given: Tensor) -> Tensor:
        is_single = given.dim() == value.tensor.dim()
        (found,) = calls({value: given[None] if is_single else given})
        return found[0] if is_single else found

    found = apart(function, known.of(value))
    if not bool(found.phrase.isfinite().all()):
        raise _no_rule(step, " where constants alone give no finite number")
    return found


def _picked(step: Step, known: Splits) -> list[Parts]:
    """A pick by value, such as a maximum: the parts of the elements that were picked."""
    live, pick = known.live(step), _pick(step)
    phrases = pick({value: known.of(value).phrase for value in live})
    biases = pick({value: known.of(value).bias[None] for value in live})
    return [Parts(out.tensor, phrase, bias[0]) for out, phrase, bias in zip(step.outputs, phrases, biases, strict=True)]


def _pick(step: Step) -> Calls:
    """The elements that a step picked, of every row of stacked numbers."""
    return lambda stacks: graph_of(step)[1].forward([stacks[value] for value in step.inputs if value.is_live])


def _affine(step: Step, known: Splits) -> list[Parts]:
    """An affine call f:  β' = f(β) − f(0)  and  b' = f(b).

    It is one if  f(x − Σ r β − s b) = f(x) − Σ r β' − s b'  with f less f(0), for random r and s.
    """
    live = known.live(step)
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(known.count + 1, generator=generator, dtype=torch.float64, device="cpu") + 0.5
    weights = weights * (1 - 2 * torch.randint(2, weights.shape, generator=generator, device="cpu"))

    def rows(value: Value) -> Tensor:
        parts = known.of(value)
        both = torch.cat([parts.phrase, parts.bias[None]])
        mixture = parts.whole - _mixed(weights, both)
        return torch.cat([both, mixture[None], torch.zeros_like(mixture)[None]])

    found: list[Parts] = []
    for out, result in zip(step.outputs, _calls(step)({value: rows(value) for value in live}), strict=True):
        bias, zero = result[-3], result[-1]
        phrase, mixture = _less(result[:-3], zero), _less(result[-2], zero)
        both = torch.cat([phrase, _less(bias, zero)[None]])
        expected = _less(out.tensor, zero) - _mixed(weights, both)
        if not _is_close(mixture, expected, max(_largest(mixture), _largest(out.tensor), _largest(both))):
            raise _no_rule(step)
        found.append(Parts(out.tensor, phrase, bias))
    return found


def _mixed(weights: Tensor, parts: Tensor) -> Tensor:
    """The sum of parts (M, *), each times its weight; without the infinities that masks fill in."""
    return cast(Tensor, torch.tensordot(weights.to(parts), _finite(parts), 1))


def _less(one: Tensor, other: Tensor) -> Tensor:
    """A difference that is 0 where both are the same infinity, which masks fill in."""
    return torch.where(one == other, 0.0, one - other)


def _finite(part: Tensor) -> Tensor:
    return torch.where(part.isfinite(), part, 0.0)


def _largest(part: Tensor) -> float:
    return float(_finite(part).abs().max()) if part.numel() else 0.0


def _is_close(one: Tensor, other: Tensor, largest: float) -> bool:
    """Whether numbers are equal within rounding of the largest; infinities, which only a fill gives, are not compared."""
    is_there, rounding = one.isfinite() & other.isfinite(), torch.finfo(one.dtype).eps
    factor = 1e3 if rounding < 1e-4 else 16  # float16 and bfloat16 have no digits to spare
    return bool(((one - other).abs()[is_there] <= factor * rounding * largest).all())


def _marks(step: Step, known: Splits, calls: Calls) -> list[Tensor]:
    """Where the results' own positions belong to the phrase: wherever a marked element of an input goes in."""
    live = known.live(step)
    found = [torch.zeros_like(out.tensor).real[None] for out in step.outputs]
    for value in live:
        inside = known[value].inside
        assert inside is not None
        stacks = {each: torch.zeros_like(inside[:1]).expand(len(inside) + 1, *each.tensor.shape) for each in live}
        stacks[value] = torch.cat([inside, torch.zeros_like(inside[:1])])
        touched = [_less(each[:-1], each[-1]).abs() > 1e-6 for each in calls(stacks)]
        found = [torch.maximum(one, mark.to(one)) for one, mark in zip(found, touched, strict=True)]
    return found


def _calls(step: Step, *, are_ones: bool = False) -> Calls:
    """A step's call, made with every row of stacked numbers; constants are as recorded, or 1 so that none hides a mark."""

    def once(given: Mapping[Value, Tensor]) -> list[Tensor]:
        def number(value: Value) -> Tensor:
            return given[value] if value in given else torch.ones_like(value.tensor) if are_ones else value.tensor

        return floats_of(step.again(number, torch.ones_like if are_ones else None))

    def calls(stacks: Mapping[Value, Tensor]) -> list[Tensor]:
        # PyTorch has no batched form of the second, and would warn
        if step.rule.moves_rows(step) or step.name == "pad_packed_sequence":
            return _along_last(once, stacks)
        values = list(stacks)

        def in_turn(*given: Tensor) -> tuple[Tensor, ...]:
            return tuple(once(_paired(values, given)))

        try:
            return list(torch.vmap(in_turn)(*stacks.values()))
        except (RuntimeError, ValueError):  # there is no batched form of the call
            made = [in_turn(*given) for given in zip(*stacks.values(), strict=True)]
            return [torch.stack(each) for each in zip(*made, strict=True)]

    return calls


def _paired(values: Sequence[Value], given: Sequence[Tensor]) -> dict[Value, Tensor]:
    return dict(zip(values, given, strict=True))


def _along_last(once: Calls, stacks: Mapping[Value, Tensor]) -> list[Tensor]:
    """A call that moves whole rows, made once with the stacked numbers side by side in the last axis."""
    count = len(next(iter(stacks.values())))
    found = once({value: stack.movedim(0, -2).flatten(-2) for value, stack in stacks.items()})
    return [each.unflatten(-1, (count, -1)).movedim(-2, 0) for each in found]


def _no_rule(step: Step, why: str = "") -> NoRuleError:
    return NoRuleError(
        f"contextual decomposition has no rule for {name_of(step.function)} ({place(step.layer)}){why}; it knows recurrent "
        "layers and cells, linear layers, sums, elementwise activations, and calls that move numbers. Use another method, such "
        "as method=whence.LRP()"
    )
