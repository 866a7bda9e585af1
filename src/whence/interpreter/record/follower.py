"""Follows a model through calls that are known beforehand: the steps of an earlier record get the numbers of this run.

A model is run as it is, every time. What is spared is working out again what follows from its structure: rules, gates, open
sums. Every call is compared with the expected one: the same function, the same tensors of this run, the same weights, equal
numbers. At the first difference, the run is given up.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whence.interpreter.record.held import Held
from whence.interpreter.record.ids import Ids
from whence.interpreter.record.memory import version_of
from whence.interpreter.record.operation import Table, positional
from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.route import EMPTY, Cell, Expected, Place, Route
from whence.interpreter.record.step import Args, Function, Kwargs, Step, Value
from whence.trees import leaves_of, rebuilt, tensors_of


class Changed(Exception):  # noqa: N818 - it is no error: the model is recorded anew
    """The model made another call than expected."""


class Follower(TorchFunctionMode):
    """While active, compares every call with the expected one, and fills the record with the numbers of this run."""

    def __init__(self, route: Route, held: Held, table: Table) -> None:
        super().__init__()
        self._route, self._table = route, table
        self._place = 0
        self._held = held.again() if route.has_derived else held
        self.is_changed = False
        self.ids: Ids | None = None
        self._noted: dict[Value | Cell, tuple[Tensor, int]] = {}

    def start(self, number: int, vectors: Tensor) -> Tensor:
        """Put the vectors that were looked up for the ids of an input on the record."""
        leaf, own = self._route.trace.leaves[number], vectors.clone()
        if leaf.tensor is not EMPTY:
            raise self._changed()
        leaf.tensor = own
        return own

    def is_whole(self, output: object) -> bool:
        """Whether the model made all expected calls, and nothing was written to unseen."""
        if self.is_changed or self._place != len(self._route.calls) or output is not self._route.output.tensor:
            return False
        return all(tensor._version == version for tensor, version in self._noted.values())

    def __torch_function__(self, func: Function, types: object, args: Args = (), kwargs: Kwargs | None = None) -> object:
        if reads_form(self._table, func):
            return func(*args, **(kwargs or {}))
        if self.is_changed or self._place >= len(self._route.calls):
            raise self._changed()
        expected = self._route.calls[self._place]
        if expected.function != func or not _are_same(expected.args, args):
            raise self._changed()
        if (kwargs or expected.kwargs) and not _are_same(expected.kwargs, kwargs or {}):
            raise self._changed()
        self._place += 1
        result = self._made(expected, func, args, kwargs or {})
        for value, without_numbers in expected.frees:
            self._free(value, without_numbers)
        return result

    def _free(self, value: Value, without_numbers: Tensor) -> None:
        """Let go of a value's numbers, if nothing was written to it unseen."""
        value.tensor = without_numbers
        tensor, version = self._noted.pop(value)
        if tensor._version != version:
            raise self._changed()

    def _changed(self) -> Changed:
        self.is_changed = True
        return Changed()

    def _made(self, expected: Expected, func: Function, args: Args, kwargs: Kwargs) -> object:
        if expected.rewrite is not None:
            args, kwargs = positional(args, kwargs)
            with self:
                return expected.rewrite(*args, **kwargs)
        if expected.looks_up:
            return self._looked_up(expected, func, args, kwargs)
        step = expected.step
        if step is None:
            result = func(*args, **kwargs)
            if expected.derives and self._route.has_derived:
                self._held.derive(tensors_of((args, dict(kwargs))), result)
            if expected.follows_ids and self.ids is not None:
                self.ids.follow(expected.operation, func, args, kwargs, result)
            return self._kept(expected, result)
        if expected.fresh or expected.constants or expected.decides:
            self._refresh(expected, step)
        if expected.lasts:
            return self._kept(expected, func(*args, **kwargs))
        try:
            return self._kept(expected, step.rule.run(step))
        except NoRule:  # a record says why, and whether it matters
            raise self._changed() from None

    def _looked_up(self, expected: Expected, func: Function, args: Args, kwargs: Kwargs) -> object:
        assert self.ids is not None
        look_up = self.ids.requested(expected.operation, func, args, kwargs)
        found = None if look_up is None else self.ids.answer(look_up, self)
        if found is None:
            raise self._changed()
        return found

    def _kept(self, expected: Expected, result: Any) -> object:
        """Put a result where later calls expect it."""
        if expected.is_single:
            if not isinstance(result, Tensor):
                raise self._changed()
            (place,) = expected.results
            found = result.detach() if expected.step is not None else result
            assert place is not None
            place.tensor = found
            self._noted[place] = found, found._version
            return found
        leaves = leaves_of(result)
        if len(leaves) != len(expected.results):
            raise self._changed()
        for n, place in enumerate(expected.results):
            if place is not None:
                tensor = leaves[n]
                if not isinstance(tensor, Tensor):
                    raise self._changed()
                leaves[n] = place.tensor = tensor.detach() if isinstance(place, Value) else tensor
                self._noted[place] = place.tensor, version_of(place.tensor)
        return rebuilt(result, leaves) if expected.step is not None else result

    def _refresh(self, expected: Expected, step: Step) -> None:
        """Give a step the constants of this run; what they decide must be what they decided before."""
        for value, place in expected.constants:
            value.tensor = _tensor(place)
        if expected.fresh:
            leaves = list(step.leaves)
            for n, place in expected.fresh:
                tensor, before = _tensor(place), cast(Tensor, leaves[n])
                is_number = tensor.is_floating_point() or tensor.is_complex()
                if not is_number and not torch.equal(tensor, before):  # indexes and masks decide what is live, and whose it is
                    raise self._changed()
                leaves[n] = tensor if is_number else before
            step.leaves, step.arguments = leaves, rebuilt(step.arguments, leaves)
        step.is_trained, step.is_held = self._held.is_trained, self._held.holds
        if expected.decides and not self._decides_the_same(expected, step):
            raise self._changed()

    def _decides_the_same(self, expected: Expected, step: Step) -> bool:
        rule = expected.operation.rule
        found = rule(step.arguments, self._held, step.product) if callable(rule) else rule
        out = step.outputs[0]
        return (
            found is not None
            and found is step.rule
            and found.gate_of(step) == out.gate
            and found.continues_sum(step) == out.in_sum
        )


def reads_form(table: Table, function: Function) -> bool:
    """Whether a function reads only shape, dtype or device."""
    found = _FORMS.get(function)
    if found is None:
        found = _FORMS[function] = table.find(function).reads == "form"
    return found


_FORMS: dict[Function, bool] = {}


def _tensor(place: Place) -> Tensor:
    found = place if isinstance(place, Tensor) else place.tensor
    assert found is not None
    return found


def _are_same(expected: object, given: object) -> bool:
    """Whether an argument is the expected one: the tensor at that place, or an equal number, also inside containers."""
    if expected is given:
        return True
    kind = type(expected)
    if kind is Value or kind is Cell:
        return cast(Value, expected).tensor is given
    if kind is not type(given) or isinstance(expected, Tensor):
        return False
    if isinstance(expected, (tuple, list)):
        items, others = cast(Sequence[object], expected), cast(Sequence[object], given)
        return len(items) == len(others) and all(map(_are_same, items, others))
    if isinstance(expected, dict):
        items, others = cast(dict[object, object], expected), cast(dict[object, object], given)
        return items.keys() == others.keys() and all(_are_same(each, others[key]) for key, each in items.items())
    with suppress(Exception):
        return bool(expected == given)
    return False
