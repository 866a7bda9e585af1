"""The parts of every value for contextual decomposition: carried forward while the model runs, call by call.

A call that is neither a recurrent layer, nor elementwise, nor a pick by value has to be affine. This is checked: the call is
made once more with a random mixture of all parts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.engine.activations import Activation, Joint
from whence.engine.head import Weights
from whence.engine.marks import Args, Kwargs, ModelCall, Node
from whence.engine.observer import Known, Move, Observer, Put
from whence.engine.recurrence import Recurrence, RecurrentCall
from whence.engine.refusal import BY_DERIVATIVES, BY_OTHER_INPUTS, is_flat, name_of, place
from whence.engine.routing import Moved, Pick
from whence.engine.rule import NoRule
from whence.engine.run import ModelRun
from whence.errors import NoRuleError, WhenceError
from whence.recurrent.decomposition import decomposed
from whence.recurrent.parts import Parts, apart, by_part, joined
from whence.trees import floats_of

Stacks = Mapping[Node, Tensor]  # numbers (M, *shape) in place of the live values of a call


class SplitValue(NamedTuple):
    """The parts of a value for N phrases, and where (N, *) its own position belongs to the phrase: 1 there, else 0.

    `inside` is known where a recurrent layer is still to come: the biases of its steps go to the phrase there.
    """

    parts: Parts
    inside: Tensor | None


def leading_to(calls: Sequence[ModelCall], nodes: Collection[Node]) -> list[ModelCall]:
    """All calls that some values depend on, the last one first; raises if one has no rule."""
    reached, found = {node.call for node in nodes}, list[ModelCall]()
    for call in reversed(calls):
        if call in reached:
            if call.refused is not None:
                raise _no_rule(call)
            reached.update(node.call for node in call.inputs if node.is_live)
            found.append(call)
    return found


class NeededCalls:
    """The calls that the scores depend on, and those of them that a recurrent layer depends on, by their numbers in a run."""

    def __init__(self, calls: Sequence[ModelCall], nodes: Collection[Node]) -> None:
        numbers = {call: n for n, call in enumerate(calls)}
        self.numbers, self.read_later = set[int](), set[int]()
        reached = set[ModelCall | None]()
        for call in leading_to(calls, nodes):
            self.numbers.add(numbers[call])
            if call in reached:
                self.read_later.add(numbers[call])
            if call in reached or isinstance(call.rule, Recurrence):
                reached.update(node.call for node in call.inputs if node.is_live)


class Sizes(Observer):
    """Notes the size of the largest value of a run."""

    def __init__(self) -> None:
        self.largest = 1

    def made(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, result: Any) -> None:
        values = [tensor for tensor in floats_of((args, dict(kwargs), result)) if run.look(tensor) is not None]
        self.largest = max(self.largest, *(tensor.numel() for tensor in values))


class Splitting(Observer):
    """Splits the results of needed calls, for phrases given by masks (N, *shape) of every explained input."""

    def __init__(self, needed: NeededCalls, phrases: Sequence[Tensor]) -> None:
        self._needed, self._phrases, self._count = needed, phrases, len(phrases[0])
        self._known: dict[Node, SplitValue] = {}

    def of(self, run: ModelRun, node: Node | None, tensor: Tensor) -> SplitValue | None:
        """The parts of a value; what does not depend on the inputs is a constant. None for what is not needed."""
        if node is None or not node.is_live:
            whole = tensor.detach()
            nothing = whole.new_zeros(1).expand(self._count, *whole.shape)
            return SplitValue(Parts(whole, nothing, whole), nothing)
        number = next((n for n, start in enumerate(run.starts) if start is node), None)
        if number is not None and node not in self._known:
            whole = cast(Tensor, run.leaves[number]).detach()
            own = self._phrases[number].to(whole).expand(self._count, *whole.shape)
            self._known[node] = SplitValue(Parts(whole, own * whole, torch.zeros_like(whole)), own)
        return self._known.get(node)

    def made(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Split the results of a call."""
        number = len(run.calls) - 1
        if number in self._needed.numbers and any(node.is_live for node in call.inputs):
            with torch.no_grad():
                step = SplitCall(self, run, call, args, kwargs, floats_of(result))
                found = step.found(is_marked=number in self._needed.read_later)
            self._known.update(zip(call.outputs, found, strict=True))

    def written(self, run: ModelRun, node: Node, buffer: Known, content: Known, put: Put) -> None:
        """Write parts as the values are: put the content's places into the buffer, and take from there what they hold."""
        (before, base), (_, given) = buffer, content
        old, new = self.of(run, *buffer), self.of(run, *content)
        if old is None or new is None:
            return
        if before is not None and before.call is not None:  # no tensor holds it any more
            self._known.pop(before, None)
        places = _laid_out(base, torch.full(base.shape, -1, device=base.device))
        put(places, torch.arange(given.numel(), device=base.device).view(given.shape))
        is_new, places = places >= 0, places.clamp(min=0)

        def put_in(each: Sequence[Tensor]) -> Tensor:
            kept, written = each
            return torch.where(is_new, _taken(written, given.dim(), places).to(kept), kept) if given.numel() else kept

        inside = None if old.inside is None or new.inside is None else put_in([old.inside, new.inside])
        self._known[node] = SplitValue(joined(put_in, [old.parts, new.parts]), inside)

    def moved(self, run: ModelRun, node: Node, source: Known, move: Move) -> None:
        """Move parts as the values are."""
        split, tensor = self.of(run, *source), source[1]
        if split is not None and node.is_live:
            places = move(_laid_out(tensor, torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape)))
            take = partial(_taken, axes=tensor.dim(), places=places)
            self._known[node] = SplitValue(by_part(take, split.parts), None if split.inside is None else take(split.inside))


def _laid_out(like: Tensor, numbers: Tensor) -> Tensor:
    """Whole numbers in memory that is laid out as that of a tensor."""
    return torch.empty_strided(like.shape, like.stride(), dtype=numbers.dtype, device=like.device).copy_(numbers)


def _taken(part: Tensor, axes: int, places: Tensor) -> Tensor:
    """The elements of a part (..., *shape) at these places of its flattened last axes."""
    return part.unsqueeze(-1).flatten(part.dim() - axes)[..., places]


class SplitCall:
    """A call whose results are split."""

    def __init__(
        self, known: Splitting, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, outputs: Sequence[Tensor]
    ) -> None:
        self._splitting, self._run, self._call, self._args, self._kwargs = known, run, call, args, kwargs
        self._outputs = [out.detach() for out in outputs]
        self._moved = Moved(run, call, args, kwargs)
        self._live = {mark.node: self._of(tensor) for tensor, mark in self._moved.live}

    def found(self, *, is_marked: bool) -> list[SplitValue]:
        """The parts of the results; `is_marked`: where they are inside the phrase, too."""
        try:
            return self._found(is_marked=is_marked)
        except (NoRule, RuntimeError, ValueError, IndexError, TypeError) as error:
            if isinstance(error, WhenceError):
                raise
            raise _no_rule(self._call) from error

    def _found(self, *, is_marked: bool) -> list[SplitValue]:
        rule = self._call.rule
        if isinstance(rule, Recurrence):
            return self._recurrent(rule)
        if isinstance(rule, Activation) and not isinstance(rule, Joint):
            (split,) = self._live.values()
            return [SplitValue(self._activated(split.parts), split.inside)]
        if isinstance(rule, Pick):
            parts, moves = self._picked(), self._pick
        else:
            parts, moves = self._affine(), partial(self._again, are_ones=True)
        marks = self._marks(moves) if is_marked else [None] * len(parts)
        return [SplitValue(*each) for each in zip(parts, marks, strict=True)]

    def _of(self, tensor: Tensor) -> SplitValue:
        mark = self._run.look(tensor)
        found = self._splitting.of(self._run, None if mark is None else mark.node, tensor)
        assert found is not None  # a needed call reads it
        return found

    def _recurrent(self, rule: Recurrence) -> list[SplitValue]:
        """A recurrent layer or cell. What does not depend on the inputs is a constant; of a state, it belongs to the rest."""
        read: RecurrentCall = rule.read(rule.cell, *self._args, **self._kwargs)
        states = [self._of(state).parts for state in read.states]
        states = [by_part(lambda part: part.unsqueeze(-3), each) if read.is_cell else each for each in states]
        data = self._of(read.data)
        assert data.inside is not None
        inside = read.to_steps(data.inside.amax(-1, keepdim=True))
        x = by_part(read.to_steps, data.parts)
        outputs, finals = decomposed(rule.cell, x, read.layers, states=states, inside=inside, lengths=read.lengths)
        if read.is_cell:  # its state is what this one step gives
            ends = [by_part(lambda part: part.squeeze(-3), final) for final in finals]
            return [SplitValue(end, inside.squeeze(-3).expand_as(end.phrase)) for end in ends]
        whole = SplitValue(by_part(read.from_steps, outputs), read.from_steps(inside.expand_as(outputs.phrase)))
        return [whole, *(SplitValue(final, torch.zeros_like(final.phrase)) for final in finals)]

    def _activated(self, parts: Parts) -> Parts:
        """An elementwise function of one value, made linear."""
        ((node, _),) = self._live.items()

        def function(given: Tensor) -> Tensor:
            is_single = given.dim() == parts.whole.dim()
            (found,) = self._again({node: given[None] if is_single else given})
            return found[0] if is_single else found

        found = apart(function, parts)
        if not bool(found.phrase.isfinite().all()):
            raise _no_rule(self._call, " where constants alone give no finite number")
        return found

    def _picked(self) -> list[Parts]:
        """A pick by value, such as a maximum: the parts of the elements that were picked."""
        phrases = self._pick({node: split.parts.phrase for node, split in self._live.items()})
        biases = self._pick({node: split.parts.bias[None] for node, split in self._live.items()})
        return [Parts(out, phrase, bias[0]) for out, phrase, bias in zip(self._outputs, phrases, biases, strict=True)]

    def _pick(self, stacks: Stacks) -> list[Tensor]:
        """The elements that the call picked, of every row of stacked numbers: its derivative times each row."""
        with torch.enable_grad():
            inputs = {node: split.parts.whole.detach().requires_grad_() for node, split in self._live.items()}
            outputs = self._once(inputs)
            probes = [torch.zeros_like(out, requires_grad=True) for out in outputs]
            # the adjoint is linear in the probes, so that its own derivative, times a row, is what this row becomes
            back = torch.autograd.grad(outputs, list(inputs.values()), probes, create_graph=True, materialize_grads=True)
            rows = [stacks[node] for node in inputs]
            return list(torch.autograd.grad(back, probes, rows, is_grads_batched=True, materialize_grads=True))

    def _affine(self) -> list[Parts]:
        """An affine call f:  β' = f(β) − f(0)  and  b' = f(b).

        It is one if  f(x − Σ r β − s b) = f(x) − Σ r β' − s b'  with f less f(0), for random r and s.
        """
        generator, count = torch.Generator().manual_seed(0), 1 + max(len(each.parts.phrase) for each in self._live.values())
        weights = torch.rand(count, generator=generator, dtype=torch.float64, device="cpu") + 0.5
        weights = weights * (1 - 2 * torch.randint(2, weights.shape, generator=generator, device="cpu"))

        def rows(parts: Parts) -> Tensor:
            both = torch.cat([parts.phrase, parts.bias[None]])
            mixture = parts.whole - _mixed(weights, both)
            return torch.cat([both, mixture[None], torch.zeros_like(mixture)[None]])

        found: list[Parts] = []
        results = self._again({node: rows(split.parts) for node, split in self._live.items()})
        for out, result in zip(self._outputs, results, strict=True):
            bias, zero = result[-3], result[-1]
            phrase, mixture = _less(result[:-3], zero), _less(result[-2], zero)
            both = torch.cat([phrase, _less(bias, zero)[None]])
            expected = _less(out, zero) - _mixed(weights, both)
            if not _is_close(mixture, expected, max(_largest(mixture), _largest(out), _largest(both))):
                raise _no_rule(self._call)
            found.append(Parts(out, phrase, bias))
        return found

    def _marks(self, moves: Callable[[Stacks], list[Tensor]]) -> list[Tensor]:
        """Where the results' own positions belong to the phrase: wherever a marked element of an input goes in."""
        found = [torch.zeros_like(out).real[None] for out in self._outputs]
        for node, split in self._live.items():
            inside = split.inside
            assert inside is not None
            nowhere = torch.zeros_like(inside[:1])
            stacks = {
                each: nowhere.new_zeros(1).expand(len(inside) + 1, *own.parts.whole.shape) for each, own in self._live.items()
            }
            stacks[node] = torch.cat([inside, nowhere])
            touched = [_less(each[:-1], each[-1]).abs() > 1e-6 for each in moves(stacks)]
            found = [torch.maximum(one, mark.to(one)) for one, mark in zip(found, touched, strict=True)]
        return found

    def _once(self, given: Stacks, *, are_ones: bool = False) -> list[Tensor]:
        """The call with other numbers for its live values; constants are as they are, or 1 so that none hides a mark."""

        def number(tensor: Tensor) -> Tensor:
            mark = self._moved.of(tensor)
            if mark is not None:
                return given[mark.node]
            return torch.ones_like(tensor) if are_ones else self._run.constant(tensor)

        return floats_of(self._moved.again(number))

    def _again(self, stacks: Stacks, *, are_ones: bool = False) -> list[Tensor]:
        """The call, made with every row of stacked numbers."""
        rows = list(stacks.values())
        if self._call.name in ("pack_padded_sequence", "pad_packed_sequence"):  # they have no batched form, and move whole rows
            found = self._once({node: stack.movedim(0, -2).flatten(-2) for node, stack in stacks.items()})
            return [each.unflatten(-1, (len(rows[0]), -1)).movedim(-2, 0) for each in found]

        def in_turn(*given: Tensor) -> tuple[Tensor, ...]:
            return tuple(self._once(dict(zip(stacks, given, strict=True)), are_ones=are_ones))

        try:
            return list(torch.vmap(in_turn)(*rows))
        except (RuntimeError, ValueError):  # there is no batched form of the call
            return [torch.stack(each) for each in zip(*map(in_turn, *rows), strict=True)]


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


def require_no_cell_by_hand(calls: Sequence[ModelCall]) -> None:
    """Refuse calls, given in order, that apply weights once more to what came of them: the biases of steps belong to these."""
    weights, through = Weights(), dict[ModelCall | None, int]()
    for call in calls:
        if isinstance(call.rule, Recurrence):
            continue
        before, own = 0, weights.bits(call)
        for node in call.inputs:
            before |= through.get(node.call, 0)
        if before & own:
            raise NoRuleError(
                f"contextual decomposition has no rule for cells that are written by hand: {name_of(call.function)} "
                f"({place(call.layer)}) gets what came of an earlier use of the same weights. Use nn.LSTM, nn.GRU, nn.RNN or "
                "their cells, or another method, such as method=whence.LRP()"
            )
        through[call] = before | own


def _no_rule(call: ModelCall, why: str = "") -> NoRuleError:
    name, other = f"{name_of(call.function)} ({place(call.layer)})", "Use another method, such as method=whence.LRP()"
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return NoRuleError(
            f"contextual decomposition cannot split {name} under torch.autocast, whose rounding hides whether a call is "
            f"linear; switch autocast off. {other}"
        )
    if call.refused is not None:  # LRP has no rule either
        way_out = BY_OTHER_INPUTS if call.cut or is_flat(call.function, call.refused) else BY_DERIVATIVES
        other = way_out[0].upper() + way_out[1:]
    return NoRuleError(
        f"contextual decomposition has no rule for {name}{why}; it knows recurrent layers and cells, linear layers, sums, "
        f"elementwise activations, and calls that move numbers. {other}"
    )
