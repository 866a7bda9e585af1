"""Plans: what follows from a model's structure alone, worked out once and kept with the model for later calls.

A plan belongs to a model, a method, a question and a form of inputs. It is kept weakly: it goes with the model. The model
itself runs in every call, and each of its calls is compared with the plan (`interpreter.record.follower`). If anything differs,
the plan is thrown away, and the model is recorded as if there had been none.
"""

import threading
from collections import OrderedDict
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from whence.choice import Choice
from whence.interpreter.backward.backward_pass import Structure
from whence.interpreter.backward.path import Start, starts_of, values_read
from whence.interpreter.backward.samples import Samples
from whence.interpreter.record.follower import Changed, Follower
from whence.interpreter.record.held import Held
from whence.interpreter.record.recorder import Recorder
from whence.interpreter.record.route import Route, Unsteady, route_of
from whence.interpreter.rules.table import TABLE
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.methods.target import Contrast, Selection, Target, is_mixed, select
from whence.methods.weights import Inventory, require_finite_weights
from whence.trees import leaves_of, tensors_of

STEPS = 20_000  # that the plans of one model may hold together: about 40 MB
MOST_KEYS = 1000  # forms that are remembered
TRIES = 2  # plans of one form that may fail before no further one is made


class Found(NamedTuple):
    """What a run by a plan gave: the scores to explain, and where relevance starts."""

    output: Tensor
    selection: Selection
    start: Start


@dataclass(eq=False)
class Plan:
    """The record of a model's structure. `selection` and `start` are kept where the target does not depend on scores."""

    route: Route
    samples: Samples
    selection: Selection
    start: Start
    structure: Structure
    choices: tuple[Choice, ...]
    is_fixed: bool
    weights: Inventory
    held: Held
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def used(self) -> Generator[bool]:
        """Whether the plan is free; while it is used, no other thread can use it. Its numbers are let go of afterwards."""
        is_free = self.lock.acquire(blocking=False)
        try:
            yield is_free
        finally:
            if is_free:
                self.route.clear()
                self.lock.release()

    def forget(self) -> None:
        """Break the references between the plan's parts, unless a thread uses it, which then leaves them to the collector."""
        if self.lock.acquire(blocking=False):
            self.route.trace.forget()
            self.route.calls.clear()
            self.lock.release()

    def modules(self, model: nn.Module) -> list[nn.Module] | None:
        """The model's modules, if it is built as before and its weights have their form; new numbers must be finite."""
        modules = self.weights.modules()
        if modules is None or modules[0] is not model:
            return None
        if not self.weights.is_unchanged():
            if not self.weights.has_same_form():
                return None
            require_finite_weights(model)
            self.weights.renew()
            self.held = Held(model)  # weights may lie elsewhere in memory now
        return modules

    def run(self, forward: Forward, target: Target) -> Found | None:
        """Run the model once; None if it did anything else than planned."""
        tensors, route = forward.inputs.copies(), self.route
        if not _are_given(route, forward):
            return None
        for leaf, cell, tensor in zip(route.trace.leaves, route.ids, tensors, strict=True):
            (leaf if cell is None else cell).tensor = tensor
        follower = Follower(route, self.held, TABLE)
        follower.ids = forward.ids_of(tensors, follower.start)
        try:
            with follower:
                output = forward.call(tensors, follower.ids)
        except Changed:
            return None
        except Exception:
            if follower.is_changed:
                return None
            raise
        if not follower.is_whole(output):
            return None
        assert isinstance(output, Tensor)
        return self._picked(output, target)

    def _picked(self, output: Tensor, target: Target) -> Found | None:
        if self.is_fixed:
            return Found(output, self.selection, self.start)
        if bool(output.isnan().any()):
            return None
        selection = select(output, target, batch_axis=self.selection.batch_axis)
        start = starts_of(self.route.trace, self.route.output, selection.mask)
        return Found(output, selection, start) if start.masks.keys() == self.start.masks.keys() else None


def _are_given(route: Route, forward: Forward) -> bool:
    """Whether the caller gave the same tensors beside the inputs; they are put in their places."""
    given = tensors_of((tuple(forward.args), dict(forward.kwargs)))
    if len(given) != len(route.given):
        return False
    for (cell, before), tensor in zip(route.given, given, strict=True):
        if before.dtype != tensor.dtype or before.device != tensor.device or not torch.equal(before, tensor):
            return False
        cell.tensor = tensor
    return True


class Plans:
    """The plans of one model, the least recently used one first."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Plan] = OrderedDict()
        self._failed: dict[Hashable, int] = {}
        self._seen: set[Hashable] = set()

    def __del__(self) -> None:
        while self._known:
            self._known.popitem()[1].forget()

    def find(self, key: Hashable) -> Plan | None:
        """The plan for a question, if there is one."""
        plan = self._known.get(key)
        if plan is not None:
            with suppress(KeyError):  # another thread has dropped it
                self._known.move_to_end(key)
        return plan

    def is_wanted(self, key: Hashable) -> bool:
        """Whether a plan should be made: from the second call on, unless those before it failed."""
        if key not in self._seen:
            if len(self._seen) >= MOST_KEYS:
                self._seen.clear()
            self._seen.add(key)
            return False
        return key not in self._known and self._failed.get(key, 0) < TRIES

    def keep(self, key: Hashable, plan: Plan) -> None:
        """Keep a plan, and drop the least recently used ones beyond the limit."""
        if len(plan.route.trace.steps) <= STEPS:
            self._known[key] = plan
        while sum(len(each.route.calls) for each in list(self._known.values())) > STEPS and len(self._known) > 1:
            self._known.popitem(last=False)[1].forget()

    def drop(self, key: Hashable) -> None:
        """Forget a plan that did not hold."""
        plan = self._known.pop(key, None)
        if plan is not None:
            plan.forget()
        if len(self._failed) >= MOST_KEYS:
            self._failed.clear()
        self._failed[key] = self._failed.get(key, 0) + 1


PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)
_PLANS = WeakKeyDictionary[nn.Module, Plans]()


def known_plans(model: nn.Module) -> Plans | None:
    """The plans that are kept with a model, if there are any."""
    return _PLANS.get(model)


def plans_of(model: nn.Module) -> Plans:
    """The plans that are kept with a model."""
    found = _PLANS.get(model)
    return _PLANS.setdefault(model, Plans()) if found is None else found


def key_of(forward: Forward, question: Question, method: Method) -> Hashable | None:
    """What a plan is for; None for questions without plans."""
    target = question.target
    if question.at is not None or callable(target) or forward.deleted is not None or forward.caller is not None:
        return None
    if _get_current_function_mode_stack() or isinstance(target, Contrast) or is_mixed(target):
        return None
    wanted = "each" if isinstance(target, (list, Tensor)) or hasattr(target, "dtype") else target
    kinds = tuple(map(type, cast(tuple[object, ...], target))) if isinstance(target, tuple) else type(target)
    form = tuple((each.shape, each.dtype, each.device) for each in forward.inputs.tensors)
    more = tuple(
        (each.shape, each.dtype, each.device) if isinstance(each, Tensor) else each
        for each in leaves_of((tuple(forward.args), dict(forward.kwargs)))
    )
    switches = (torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda"))
    names = (tuple(forward.kwargs), forward.embedding, forward.finish is not None, len(forward.args))
    if not all(isinstance(each, (*PLAIN, tuple)) for each in more):  # anything else may refer to the model
        return None
    return (method, question._replace(target=wanted), kinds, form, more, names, switches, TABLE.changes)


def is_fixed(target: Target) -> bool:
    """Whether the scores that a target picks do not depend on their numbers."""
    parts = cast(tuple[object, ...], target if isinstance(target, tuple) else (target,))
    return all(part is None or part == "all" or type(part) is int for part in parts)


def plan_of(
    recorder: Recorder,
    forward: Forward,
    ids: list[Tensor | None],
    output: Tensor,
    target: Target,
    *,
    samples: Samples,
    selection: Selection,
    start: Start,
    structure: Structure,
    choices: tuple[Choice, ...],
    is_plain: bool,
) -> Plan | None:
    """The plan that a record gives; None if more than the structure decided about it.

    `is_plain`: the backward pass reads the numbers that rules say it reads, and no others.
    """
    if recorder.is_in_doubt() or samples.is_derived or output.is_complex():
        return None
    given = tensors_of((tuple(forward.args), dict(forward.kwargs)))
    try:
        route = route_of(recorder, forward.model, given, ids, output)
    except Unsteady:
        return None
    samples.compact()
    recorder.is_kept = True
    if is_plain:
        counted = [value for step in structure.counted for value in (*step.inputs, *step.outputs)]
        route.free_all_but({*values_read(structure.path, start.masks), *counted})
    held, weights = Held(forward.model), Inventory(forward.model)
    return Plan(route, samples, selection, start, structure, choices, is_fixed(target), weights, held)
