"""One run of a model under a `TorchFunctionMode`: every call on what is explained is made by its rule, on PyTorch's graph.

Tensors carry marks. What no mark leads to is a constant, and its calls are made as they are. Nothing is kept after the run.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, overrides
from torch._C._autograd import _top_saved_tensors_default_hooks as _top_hooks
from torch._C._functorch import maybe_current_level
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

from whence.engine import neurons, writing
from whence.engine.graph import GraphRun
from whence.engine.held import ModelParts
from whence.engine.layers import Layers
from whence.engine.marks import (
    KEY,
    Args,
    Function,
    Kwargs,
    Mark,
    ModelCall,
    Node,
    cut_by,
    is_in_own_function,
)
from whence.engine.observer import Observer
from whence.engine.operation import Operation, Table, positional
from whence.engine.refusal import LEAVES, Blocked, blocked, first_line, no_rule, place
from whence.engine.rule import NoRule, OverwrittenError, Refused, Rule
from whence.engine.samples import Samples
from whence.engine.sight import is_alias
from whence.equations import Rules
from whence.errors import NoRuleError, WhenceError
from whence.trees import floats_of, leaves_of, mapped, tensors_of

PLAIN_FACTS = {"requires_grad": False, "grad_fn": None, "is_leaf": True, "grad": None}  # of explained inputs outside of a run


class ModelRun(GraphRun, TorchFunctionMode):
    """While active, follows what a model computes from the explained inputs.

    `is_survey`: a call without a rule does not end the way back. `head`: the numbers of the calls that follow the rule of the
    model's head.
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        parts: ModelParts,
        layers: Layers,
        table: Table,
        rules: Rules,
        samples: Samples,
        *,
        is_safe: bool = False,
        is_survey: bool = False,
        is_audit: bool = False,
        head: Sequence[int] = (),
        observer: Observer | None = None,
    ) -> None:
        TorchFunctionMode.__init__(self)
        GraphRun.__init__(self, len(inputs), parts, layers, rules, samples, observer, is_safe=is_safe, is_audit=is_audit)
        self.is_survey, self.head, self._table = is_survey, frozenset(head), table
        # gates get no relevance from products, so most are never asked for as neurons
        self.puts_off = rules.product == "all" and not (is_safe or is_audit or is_survey)
        self.by_step = False
        self.places: dict[ModelCall, dict[str, None]] | None = {} if is_survey else None  # by call, what it absorbs
        self.direction: int | None = None
        self.memory: dict[str, Tensor] | None = None
        self.calls: list[ModelCall] = []  # in order
        self.notable = False  # whether a call has no rule, or a choice was made
        self.refusals: list[ModelCall] = []
        self.written: dict[int, Tensor] = {}  # memory of buffers
        self.error: Exception | None = None  # what was raised, whatever the model made of it

    def forget(self) -> None:
        """Break the references between tensors and marks, so that memory is freed now and not by the garbage collector."""
        for known in self._marks:
            mark = known()
            if mark is not None:
                mark.clear()
        for call in self.calls:
            call.inputs = call.outputs = call.sources = call.weights = ()
        for followed in self.followed:
            for layer in followed.layers:
                layer.release()
            followed.layers.clear()
            followed.outputs.clear()
        self.followed.clear()
        self.cuts.clear()
        self._marks.clear()
        self.calls.clear()
        self._given.clear()
        self.bases.clear()
        self._clones.clear()
        for memory in self.written.values():  # its graph leads to views of it, which were kept for the way back
            if memory.grad_fn is not None and not memory._is_view():
                memory.detach_()
        self.written.clear()
        self._captured.clear()
        self._seen.clear()
        self.ledgers.clear()
        self._layers.snapshot = self.ids = self.error = None

    def __torch_function__(self, func: Function, types: object, args: Args = (), kwargs: Kwargs | None = None) -> object:
        operation, writes = self._table.spelling(func)
        if operation.reads != "numbers" and getattr(func, "__name__", "") == "__get__":
            is_live = operation.name in PLAIN_FACTS and type(args[0].__dict__.get(KEY)) is Mark
            return PLAIN_FACTS[operation.name] if is_live else func(*args)
        if operation.reads == "form":
            return func(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        self._function = func
        try:
            return self._follow(operation, writes or bool(kwargs.get("inplace")), func, args, kwargs)
        except (WhenceError, OverwrittenError) as error:
            self.error = self.error or error
            raise
        except NoRule as reason:
            self.error = no_rule(func, self.layer, str(reason), is_cut=cut_by(operation.name) == "no_grad")
            raise self.error from None
        except Exception as error:
            # if the call itself is wrong, PyTorch raises its own error
            func(*mapped(_bare, args), **mapped(_bare, dict(kwargs)))
            self.error = self._unfollowed(func, leaves_of((args, kwargs)), error)
            raise self.error from error

    def _unfollowed(self, func: Function, leaves: Sequence[object], error: Exception) -> NoRuleError:
        """The error for a call that the model can make, but that could not be followed."""
        if maybe_current_level() is not None or any(isinstance(leaf, Tensor) and leaf.is_nested for leaf in leaves):
            name = overrides.resolve_name(func) or self._table.name_of(func)
            return NoRuleError(
                f"{name} ({place(self.layer)}) is inside torch.func's "
                "vmap, grad or jvp, or works on nested tensors: there, calls cannot be followed; write that part without "
                "them, or use method=whence.GradientXInput()"
            )
        return no_rule(func, self.layer, f"the model can make this call, but recording it failed: {first_line(error)}")

    def _follow(self, operation: Operation, writes: bool, func: Function, args: Args, kwargs: Kwargs) -> object:
        """Make a call, by its rule if it concerns what is explained."""
        if operation.look_up is not None and self.ids is not None:
            look_up = self.ids.requested(operation, func, args, kwargs)
            if look_up is not None and self.look(look_up.table) is None:
                found = self.ids.answer(look_up, self)
                if found is not None:
                    return found
        if kwargs:
            args, kwargs = positional(args, kwargs)
        if operation.reads_like:
            args = (args[0], *(self.plain(torch.empty_like(arg)) if isinstance(arg, Tensor) else arg for arg in args[1:]))
        tensors = _tensors(args, kwargs)
        if writes or operation.is_odd:
            if operation.name == "_backward_hooks":
                self._note_dirty(tensors[0])
            read = [
                t for t in tensors if not writes or not args or t is not args[0] or KEY in t.__dict__ or t._base is not None
            ]
            marks = [self.look(tensor) for tensor in read]
            if operation.leaks:
                self._doubt("hands out memory")
                self.leaked += [(tensor, tensor.detach().clone()) for tensor in tensors]
            if operation.reads == "nothing":
                if operation.name == "requires_grad" and any(marks):
                    return args[0]
                return func(
                    *(arg.detach().requires_grad_() if isinstance(arg, Tensor) and arg.grad_fn else arg for arg in args),
                    **kwargs,
                )
            is_known = any(marks) or (writes and bool(args) and isinstance(args[0], Tensor) and self._is_buffer(args[0]))
        else:
            marks = [self.look(tensor) for tensor in tensors]
            is_known = any(marks)
        if not (is_known or self._feeds_constants(operation, tensors)):
            return self._plain(operation, func, args, kwargs, tensors)
        if operation.refused:
            raise NoRule(operation.refused)
        if kwargs and kwargs.get("out") is not None:
            raise NoRule("it writes into a given tensor; use its result instead")
        cut, has_hooks = cut_by(operation.name), _top_hooks(False)
        if not (cut or has_hooks):
            return self._ruled(operation, writes, func, args, kwargs, tensors, marks)
        if has_hooks and not self.is_safe:
            raise OverwrittenError  # PyTorch does not see writes to what it keeps through hooks
        ruled = partial(self._ruled, operation, writes, func, args, kwargs, tensors, marks)
        # hooks such as those of checkpoints would run the model again on the way back
        with saved_tensors_hooks(_same, _same) if has_hooks else nullcontext():
            return self._uncut(ruled, cut, writes=writes) if cut else ruled()

    def _uncut(self, ruled: Callable[[], object], cut: str, *, writes: bool) -> object:
        """Make a call that the model cuts off PyTorch's graph, on the graph."""
        first = len(self.calls)
        with torch.inference_mode(False), torch.enable_grad():
            result = ruled()
            if cut != "detach":
                self._protect(result, is_written=writes and cut == "function")
        for call in self.calls[first:] if cut != "function" else ():
            call.cut, self.notable = cut, True
        return result

    def _ruled(
        self,
        operation: Operation,
        writes: bool,
        func: Function,
        args: Args,
        kwargs: Kwargs,
        tensors: Sequence[Tensor],
        marks: Sequence[Mark | None],
    ) -> object:
        """Make a call that concerns what is explained, with gradients enabled."""
        if writes:
            return writing.written(self, operation, func, args, kwargs)
        rewrite = operation.rewrite or (self.apart(operation, tensors) if operation.apart is not None else None)
        if rewrite is not None:
            with self:
                return rewrite(*args, **kwargs)
        if operation.rule is None:
            with torch.no_grad():
                versions = [tensor._version for tensor in tensors if not tensor.is_inference()]
                result = func(*mapped(_bare, args), **mapped(_bare, dict(kwargs)))
                if versions != [tensor._version for tensor in tensors if not tensor.is_inference()]:
                    raise NoRule("it changes a tensor in place")
                for tensor in tensors:  # as torch.as_tensor gives back what it is given
                    if result is tensor or (isinstance(result, Tensor) and tensor.requires_grad and is_alias(result, tensor)):
                        return tensor
            rest = [mark for tensor in _tensors(args[1:], kwargs) if (mark := self.look(tensor)) is not None]
            if (operation.makes_constant and not rest) or not self._carries(result):
                return self.plain(result)
        return self.call(operation, func, args, kwargs, tensors, marks)

    def call(
        self,
        operation: Operation,
        func: Function,
        args: Args,
        kwargs: Kwargs,
        tensors: Sequence[Tensor] | None = None,
        marks: Sequence[Mark | None] | None = None,
    ) -> Any:
        """Make a call by its rule, out of place."""
        if tensors is None or marks is None:
            tensors = _tensors(args, kwargs)
            marks = [self.look(tensor) for tensor in tensors]
        if operation.weighs == "always" or not any(marks):
            place = 0 if operation.weighs == "always" else [self.is_trained(tensor) for tensor in tensors].index(False)
            if marks[place] is None:
                marks = [*marks]
                marks[place] = self._kept_constant(tensors[place])
        nodes = tuple([mark.node for mark in marks if mark is not None])
        if len(nodes) > 1:
            nodes = tuple(dict.fromkeys(nodes))
        call = ModelCall(UNRULED, operation.name, self._layers.running[-1], func, self.rules.product, nodes)
        call.tensors, call.marks = tensors, marks
        before, self.current = self.current, call
        self.calls.append(call)
        try:
            rule = operation.rule
            call.rule = UNRULED if rule is None else rule if isinstance(rule, Rule) else rule(self, args, kwargs)
            result = call.rule.follow(self, call, args, kwargs)
        except Refused:
            raise
        except NoRule as reason:
            call.rule, call.refused, call.outputs, call.choice = UNRULED, str(reason), (), None
            result = UNRULED.follow(self, call, args, kwargs)
        finally:
            self.current = before
            call.tensors = call.marks = ()
        if call.choice is not None or call.refused is not None or call.is_mixed:
            self.notable = True
        if not call.outputs:  # whole numbers carry no relevance
            self.calls.remove(call)
            given = {id(tensor) for tensor in tensors}
            if result is not None and all(id(leaf) in given for leaf in leaves_of(result)):
                return result
            if call.rule.rearranges and not call.rule.casts:
                raise NoRule("numbers are read as another type")
        elif self.observer is not None:
            self.observer.made(self, call, args, kwargs, result)
        return result

    def _plain(self, operation: Operation, func: Function, args: Args, kwargs: Kwargs, tensors: Sequence[Tensor]) -> object:
        """Make a call on constants; token ids are followed through it."""
        if any(tensor.requires_grad for tensor in tensors) or torch.is_inference_mode_enabled():
            with torch.inference_mode(False), torch.no_grad():
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        self.plain(result, tensors, args)
        if self.ids is not None and any(id(tensor) in self.ids.origins for tensor in tensors):
            self.ids.follow(operation, func, args, kwargs, result)
        return result

    def rule_of(self, operation: Operation) -> Rule:
        """The rule of an operation that has one for all calls."""
        return operation.rule if isinstance(operation.rule, Rule) else UNRULED

    def apart(self, operation: Operation, tensors: Sequence[Tensor]) -> Function | None:
        """A function that splits the call into elementwise products, if the product rule needs that."""
        if operation.apart is None:
            return None
        marks = [self.look(tensor) for tensor in tensors]
        return operation.apart([m.node if m is not None and m.is_live else None for m in marks], self.rules.product)

    def _feeds_constants(self, operation: Operation, tensors: Sequence[Tensor]) -> bool:
        """Whether constants pass through weights here: an initial state that goes into a sum counts in its fan-in."""
        if operation.weighs != "trained":
            return operation.weighs == "always"
        factors = tensors[-2:]  # of addmm, those of the product
        return sorted(self.is_trained(tensor) for tensor in factors if tensor.is_floating_point()) == [False, True]

    def _kept_constant(self, tensor: Tensor) -> Mark:
        return self.attach(tensor, Mark(self.token, Node(is_live=False), 0 if tensor.is_inference() else tensor._version))

    def _carries(self, result: object) -> bool:
        """Whether the result of a call without a rule holds new real numbers; shapes and comparisons do not."""
        leaves = leaves_of(result)
        if any(isinstance(leaf, (float, complex, np.ndarray)) for leaf in leaves):
            raise NoRule(LEAVES)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(tensor.is_quantized for tensor in tensors):
            raise NoRule("quantised numbers carry no relevance")
        return any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors)

    def _protect(self, result: object, *, is_written: bool) -> None:
        """Keep a second name for results made where gradients are disabled: who did that may take them off the graph."""
        for tensor in floats_of(result):
            mark = self.look(tensor)
            if mark is not None and mark.is_live and mark.alias is None and tensor.requires_grad:
                # a view would change its place in the graph together with a tensor that is marked as dirty
                alias = neurons.Passed.apply(tensor, [neurons.alias(tensor.detach())]) if is_written else None
                self.remember(mark).alias = tensor.view_as(tensor) if alias is None else alias

    def _note_dirty(self, tensor: Tensor) -> None:
        """PyTorch puts a tensor that a user's `autograd.Function` wrote to and marked as dirty elsewhere in the graph."""
        mark = tensor.__dict__.get(KEY)
        if type(mark) is not Mark or mark.run is not self.token:
            return
        if not is_in_own_function():  # Tensor.set_, which is not seen itself
            raise NoRule("it writes into a given tensor; use its result instead")
        if tensor._base is not None:
            raise NoRule("an autograd.Function marks a view as dirty; let it write into a tensor of its own")
        mark.version = tensor._version

    def refuse(self, call: ModelCall) -> None:
        """Note that relevance came to a call that it cannot pass; raise, unless this is a survey."""
        if not self.is_survey:
            raise blocked([Blocked(call.function, call.layer, call.refused or "", bool(call.cut))])
        self.refusals.append(call)


class UnruledCall(Rule):
    """A call without a rule: harmless while no relevance reaches it (inside a gate, for example, or a comparison)."""

    words = "no rule"

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        call.refused = call.refused or ""
        with torch.no_grad():
            result = call.function(*mapped(_bare, args), **mapped(_bare, dict(kwargs)))
        inputs = [run.finished(t, m) for t in _tensors(args, kwargs) if (m := run.look(t)) is not None and m.is_live]
        call.sources = tuple(node for node in call.inputs if node.is_live)
        floats = floats_of(result)
        made = iter(neurons.Unruled.apply([t.detach() for t in floats], call, run, *inputs) if floats else ())
        return mapped(
            lambda leaf: run.put(next(made), call, is_live=bool(inputs)) if any(leaf is t for t in floats) else leaf, result
        )


UNRULED = UnruledCall()


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _bare(leaf: object) -> object:
    return leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf


def _tensors(args: Args, kwargs: Kwargs) -> list[Tensor]:
    """The tensors among the arguments of a call, in order."""
    found: list[Tensor] = []
    for arg in args:
        if isinstance(arg, Tensor):
            found.append(arg)
        elif isinstance(arg, (list, tuple, dict)):
            found += tensors_of(arg)  # pyright: ignore[reportUnknownArgumentType]
    for arg in kwargs.values() if kwargs else ():
        found += tensors_of(arg)
    return found
