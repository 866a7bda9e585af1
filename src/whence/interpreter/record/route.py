"""A route: the calls of a model that are expected again, made from a record of them, and the record whose steps they fill."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from whence.interpreter.record.call import NOTHING, Call
from whence.interpreter.record.operation import Operation, positional
from whence.interpreter.record.recorder import Recorder
from whence.interpreter.record.step import Args, Function, Kwargs, Step, Trace, Value
from whence.trees import leaves_of, mapped, tensors_of


@dataclass(eq=False, slots=True)
class Cell:
    """A tensor of a run that is no value on the record: a constant, token ids, or one that the caller gave."""

    tensor: Tensor | None = None


Place = Value | Cell | Tensor  # where a run keeps a tensor; parameters and buffers stand for themselves


@dataclass(eq=False, slots=True)
class Expected:
    """A call that is expected: its arguments with the places of tensors, and where its result goes."""

    function: Function
    args: Args
    kwargs: Kwargs
    operation: Operation
    results: Sequence[Value | Cell | None]  # by leaf of the result
    is_single: bool  # whether the result is one tensor
    step: Step | None = None
    rewrite: Function | None = None
    looks_up: bool = False
    follows_ids: bool = False
    derives: bool = False  # whether a constant may be computed from weights here
    lasts: bool = False  # whether what its rule saved holds for other numbers too
    fresh: Sequence[tuple[int, Place]] = ()  # constants among the step's leaves
    constants: Sequence[tuple[Value, Place]] = ()  # those that are values
    decides: bool = False  # whether its rule may depend on the numbers of constants
    frees: Sequence[tuple[Value, Tensor]] = ()  # values that nobody needs after it, and tensors of their form without numbers


@dataclass(eq=False, slots=True)
class Route:
    """The calls of a model in order, and the record whose steps they fill."""

    trace: Trace
    calls: list[Expected]
    given: list[tuple[Cell, Tensor]]  # tensors that the caller gives beside the inputs, and what they held
    ids: list[Cell | None]  # by input, where its token ids are kept
    output: Value
    has_derived: bool  # whether a step has constants that are views of weights, or computed from them

    def free_all_but(self, read: Collection[Value]) -> None:
        """From now on, let go of the numbers of all values but these after the last call that uses them."""
        kept = {*read, *self.trace.leaves, self.output}
        done, none = set[Value](), dict[tuple[torch.dtype, torch.device], Tensor]()
        for call in reversed(self.calls):
            used = {each for each in leaves_of((call.args, dict(call.kwargs))) if isinstance(each, Value)}
            used.update(each for each in call.results if isinstance(each, Value))
            used.update(() if call.step is None else call.step.inputs)
            frees: list[tuple[Value, Tensor]] = []
            for value in used - kept - done:
                tensor = value.tensor
                key = tensor.dtype, tensor.device
                if key not in none:
                    none[key] = torch.full((), torch.nan, dtype=key[0], device=key[1])
                frees.append((value, none[key].expand(tensor.shape)))
            call.frees = frees
            done |= used

    def clear(self) -> None:
        """Let go of the numbers of a run."""
        for leaf in self.trace.leaves:
            leaf.tensor = EMPTY
        for call in self.calls:
            for place in call.results:
                if place is not None:
                    place.tensor = EMPTY
            for value, _ in call.constants:
                value.tensor = EMPTY
            if call.step is not None and not call.lasts and call.step.saved is not None:
                call.step.rule.release(call.step)
                call.step.saved = None


EMPTY = torch.empty(0, device="cpu")


class Unsteady(Exception):  # noqa: N818
    """Why the calls of a model cannot be expected again."""


def route_of(
    recorder: Recorder, model: nn.Module, given: Sequence[Tensor], ids: Sequence[Tensor | None], output: Tensor
) -> Route:
    """The calls of a record as expected ones; raises `Unsteady` if their rules may depend on more than the structure."""
    return _Places(recorder, model, given, ids).route(output)


class _Places:
    """The places of all tensors of a record, and which of them depend on the explained numbers."""

    def __init__(self, recorder: Recorder, model: nn.Module, given: Sequence[Tensor], ids: Sequence[Tensor | None]) -> None:
        self.recorder = recorder
        self.held = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        self.places: dict[int, Value | Cell] = {}
        self.tainted: set[int] = set()  # tensors that depend on the inputs, but are no values on the record
        self.given = [(Cell(), tensor) for tensor in given]
        self.ids = [None if tensor is None else Cell() for tensor in ids]
        for cell, tensor in self.given:
            self.places[id(tensor)] = cell
        for cell, tensor in zip(self.ids, ids, strict=True):
            if cell is not None:
                self.places[id(tensor)] = cell
                self.tainted.add(id(tensor))
        for leaf in recorder.trace.leaves:
            self.places[id(leaf.tensor)] = leaf

    def route(self, output: Tensor) -> Route:
        calls = [self._expected(call) for call in self.recorder.calls]
        value = self.places.get(id(output))
        if not isinstance(value, Value):
            raise Unsteady("the output is not on the record")
        if self.recorder.ids is not None and any(len(tables) > 1 for tables in self.recorder.ids.tables):
            raise Unsteady("ids are looked up several times")
        given = [(cell, tensor.detach().clone()) for cell, tensor in self.given]
        has_derived = any(isinstance(place, Cell) for call in calls for _, place in call.fresh)
        return Route(self.recorder.trace, calls, given, self.ids, value, has_derived)

    def _place(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return leaf
        if (place := self.places.get(id(leaf))) is not None:
            return place
        if id(leaf) in self.held:
            return leaf
        raise Unsteady("a tensor appears that no seen call made")

    def _is_data(self, tensor: Tensor) -> bool:
        place = self.places.get(id(tensor))
        return id(tensor) in self.tainted or (isinstance(place, Value) and place.is_live)

    def _expected(self, call: Call) -> Expected:
        if call.result is NOTHING or call.writes or call.operation.leaks or call.operation.refused:
            raise Unsteady("a call raised an error, writes in place, or hands out memory")
        args, kwargs = mapped(self._place, (call.args, dict(call.kwargs)))
        tensors = tensors_of((call.args, dict(call.kwargs)))
        is_single = isinstance(call.result, Tensor)
        found = Expected(call.function, args, kwargs, call.operation, (), is_single, call.step, call.rewrite, call.looks_up)
        if call.rewrite is None and not call.looks_up:
            read = tensors_of((call.args[1:], dict(call.kwargs))) if call.operation.makes_constant else tensors
            is_data = call.operation.reads == "numbers" and any(map(self._is_data, read))
            found.results = self._results(call, is_data=is_data)
        if call.step is None:
            ids = self.recorder.ids
            found.derives = any(tensor.is_floating_point() for tensor in tensors)
            found.follows_ids = ids is not None and any(id(tensor) in ids.origins for tensor in tensors)
            return found
        self._prepare(found, call, call.step)
        return found

    def _results(self, call: Call, *, is_data: bool) -> list[Value | Cell | None]:
        """Where each leaf of a result is kept."""
        outputs = iter(() if call.step is None else call.step.outputs)
        found: list[Value | Cell | None] = []
        for leaf in leaves_of(call.result):
            if not isinstance(leaf, Tensor):
                found.append(None)
                continue
            is_value = call.step is not None and (leaf.is_floating_point() or leaf.is_complex())
            place = next(outputs) if is_value else self.places.get(id(leaf)) or Cell()
            if id(leaf) in self.held:
                raise Unsteady("a call returns a weight itself")
            if is_data and isinstance(place, Cell):
                self.tainted.add(id(leaf))
            self.places[id(leaf)] = place
            found.append(place)
        return found

    def _prepare(self, found: Expected, call: Call, step: Step) -> None:
        """What a recorded step needs of a later run: fresh constants, and whether its rule depends on them."""
        if step.rule.is_users:
            raise Unsteady("a rule of the user's")
        args, kwargs = positional(call.args, call.kwargs) if call.kwargs else (call.args, call.kwargs)
        raw = leaves_of((args, kwargs))
        fresh, constants = list[tuple[int, Place]](), list[tuple[Value, Place]]()
        for n, (leaf, kept) in enumerate(zip(raw, step.leaves, strict=True)):
            if not isinstance(leaf, Tensor) or (call.operation.reads_like and n):
                continue
            if id(leaf) in self.tainted:
                raise Unsteady("a constant depends on the inputs")
            place = cast(Place, self._place(leaf))
            if isinstance(kept, Value) and kept is not place:
                if kept.is_live:
                    raise Unsteady("a value has two tensors")
                constants.append((kept, place))
            elif isinstance(kept, Tensor) and kept is not place:
                fresh.append((n, place))
            elif kept is place and not (leaf.is_floating_point() or leaf.is_complex()):
                raise Unsteady("a parameter of whole numbers decides what is live, and whose it is")
        found.fresh, found.constants, step.is_watched = fresh, constants, True
        found.lasts = step.rule.lasts(step) and (not fresh or step.saved is None)
        # beside gates alone, constants decide whether the result is a gate too
        has_constants = any(
            isinstance(leaf, Tensor) and not isinstance(kept, Value) for leaf, kept in zip(raw, step.leaves, strict=True)
        )
        found.decides = step.rule.combines and (has_constants or bool(constants)) and all(each.is_gate for each in step.inputs)
