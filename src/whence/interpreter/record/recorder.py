"""Intercepts every torch call of a module and records it with its rule; no mathematics here."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn, overrides
from torch._C._functorch import maybe_current_level

from whence.equations import Product
from whence.errors import NoRuleError, WhenceError
from whence.interpreter.record.ids import Ids
from whence.interpreter.record.layers import Layers
from whence.interpreter.record.operation import Operation, Table, positional
from whence.interpreter.record.refusal import NoRule, Refused, Unruled, first_line, no_rule, place
from whence.interpreter.record.step import Args, Arguments, Function, Kwargs, Rule, Step, Trace, Value
from whence.trees import leaves_of, mapped, rebuilt, tensors_of


class Recorder(overrides.TorchFunctionMode):
    """While active, records what a model computes from the explained inputs."""

    def __init__(
        self,
        inputs: Sequence[Tensor],
        model: nn.Module,
        layers: Layers,
        table: Table,
        *,
        product: Product = "all",
    ) -> None:
        super().__init__()
        self.product: Product = product
        self.trace = Trace([Value(tensor) for tensor in inputs])
        self._layers, self._table = layers, table
        self._parameters = {id(parameter) for parameter in model.parameters()}  # the model keeps them alive
        self._trained = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()} - {0}
        # Tensors on the record are kept alive here, so no id() is reused; storages reveal aliases that are not on the record.
        self._values: dict[int, tuple[Tensor, Value]] = {}
        self._storages: dict[int, list[int]] = {}
        self._changed: dict[int, Tensor] = {}  # by storage, the tensor through which it was changed last
        self._stale: dict[int, tuple[Tensor, Value, Tensor]] = {}  # out of date: the memory was changed through another tensor
        self.ids: Ids | None = None  # follows the token ids among the inputs, if there are any
        for leaf in self.trace.leaves:
            if leaf.tensor.is_floating_point():
                self._keep(leaf.tensor, leaf)

    def start(self, number: int, vectors: Tensor) -> Tensor:
        """Put the vectors that were looked up for the ids of an input on the record; a copy of them for every look-up."""
        leaf, own = self.trace.leaves[number], vectors.clone()
        if not leaf.tensor.is_floating_point():
            leaf.tensor = own
        self._keep(own, leaf)
        return own

    def _is_live(self, thing: object) -> bool:
        value = self.value_of(thing)
        return value is not None and value.is_live

    def value_of(self, tensor: object) -> Value | None:
        """The value of a tensor that is on the record; None for anything else."""
        entry = self._values.get(id(tensor))
        return entry[1] if entry is not None and entry[0] is tensor else None

    def snapshot(self, result: object) -> object:
        """A layer's result with every tensor on the record replaced by its value, so that later writes do not change it."""
        return mapped(lambda leaf: self.value_of(leaf) or leaf, result)

    def is_trained(self, tensor: object) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return id(tensor) in self._parameters or (
            isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() in self._trained
        )

    def __torch_function__(self, func: Function, types: object, args: Args = (), kwargs: Kwargs | None = None) -> object:
        try:
            return self._follow(func, args, kwargs or {})
        except WhenceError:
            raise
        except Exception as error:
            func(*args, **(kwargs or {}))  # if the call itself is wrong, PyTorch raises its own error here
            raise self._unfollowed(func, leaves_of((args, kwargs or {})), error) from error

    def _unfollowed(self, func: Function, leaves: Sequence[object], error: Exception) -> NoRuleError:
        """The error for a call that the model can make, but that could not be recorded."""
        if maybe_current_level() is not None or any(isinstance(leaf, Tensor) and leaf.is_nested for leaf in leaves):
            name = overrides.resolve_name(func) or self._table.name_of(func)
            return NoRuleError(
                f"{name} ({place(self._layers.running[-1])}) is inside torch.func's "
                "vmap, grad or jvp, or works on nested tensors: there, calls cannot be followed; write that part without "
                "them, or use method=whence.GradientXInput()"
            )
        return no_rule(
            func, self._layers.running[-1], f"the model can make this call, but recording it failed: {first_line(error)}"
        )

    def _follow(self, func: Function, args: Args, kwargs: Kwargs) -> object:
        """Make a call, and record it if it concerns the explained inputs."""
        operation, is_in_place = self._table.spelling(func)
        if operation.reads == "form":
            return func(*args, **kwargs)
        if operation.look_up is not None and self.ids is not None:
            look_up = self.ids.requested(operation, func, args, kwargs)
            if look_up is not None and not self._is_live(look_up.table):
                found = self.ids.answer(look_up, self)
                if found is not None:
                    return found
        if kwargs:
            args, kwargs = positional(args, kwargs)
        if operation.reads_like:
            args = (args[0], *(torch.empty_like(arg) if isinstance(arg, Tensor) else arg for arg in args[1:]))
        leaves = leaves_of((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        is_known = any(self.value_of(tensor) for tensor in tensors)
        if operation.reads == "nothing" or not (is_known or self._feeds_constants(operation, tensors)):
            self._refuse_stale(func, tensors)
            return self._plain(operation, func, args, kwargs, tensors)
        if operation.refused:
            raise no_rule(func, self._layers.running[-1], operation.refused)
        if kwargs.get("out") is not None:
            raise no_rule(func, self._layers.running[-1], "it writes into a given tensor; use its result instead")
        if is_in_place or kwargs.get("inplace"):
            return self._in_place(operation, func, args, kwargs)
        rewrite = operation.rewrite or self._apart(operation, args)
        if rewrite is not None:
            return self._rewritten(func, rewrite, args, kwargs)
        if operation.rule is None:
            result = self._plain(operation, func, args, kwargs, tensors)
            is_constant = operation.makes_constant and not any(self.value_of(leaf) for leaf in leaves_of((args[1:], kwargs)))
            if is_constant or any(result is arg for arg in args) or not self._carries(func, result):
                return result
        return self._record(operation, func, args, kwargs, leaves)

    def _plain(
        self,
        operation: Operation,
        func: Function,
        args: Args,
        kwargs: Kwargs,
        tensors: Sequence[Tensor],
    ) -> object:
        """Make a call without recording it; token ids are followed through it."""
        result = func(*args, **kwargs)
        if self.ids is not None and any(id(tensor) in self.ids.origins for tensor in tensors):
            self.ids.follow(operation, func, args, kwargs, result)
        return result

    def _apart(self, operation: Operation, args: Args) -> Function | None:
        """A function that splits the call into elementwise products, if the product rule needs that."""
        if operation.apart is None:
            return None
        values = [self.value_of(tensor) for tensor in tensors_of(tuple(args))]
        return operation.apart([value is not None and value.is_live for value in values], self.product)

    def _feeds_constants(self, operation: Operation, tensors: Sequence[Tensor]) -> bool:
        """Whether constants pass through weights here: an initial state that goes into a sum counts in its fan-in."""
        if operation.weighs != "trained":
            return operation.weighs == "always"
        return sorted(self.is_trained(tensor) for tensor in tensors if tensor.is_floating_point()) == [False, True]

    def _carries(self, func: Function, result: object) -> bool:
        """Whether the result of a call without a rule holds new real numbers; shapes and comparisons do not."""
        leaves = leaves_of(result)
        if any(isinstance(leaf, (float, complex, np.ndarray)) for leaf in leaves):
            raise no_rule(func, self._layers.running[-1], "numbers leave the tensors here, and relevance cannot follow")
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(tensor.is_complex() or tensor.is_quantized for tensor in tensors):
            raise no_rule(func, self._layers.running[-1], "complex and quantised numbers carry no relevance")
        return any(tensor.is_floating_point() for tensor in tensors)

    def _rewritten(self, func: Function, rewrite: Function, args: Args, kwargs: Kwargs) -> object:
        try:
            with self:
                return rewrite(*args, **kwargs)
        except NoRule as reason:
            raise no_rule(func, self._layers.running[-1], str(reason)) from None

    def _record(self, operation: Operation, func: Function, args: Args, kwargs: Kwargs, leaves: Sequence[object]) -> object:
        tensors, always = [leaf for leaf in leaves if isinstance(leaf, Tensor)], operation.weighs == "always"
        self._refuse_stale(func, tensors)
        if always or not any(self.value_of(tensor) for tensor in tensors):
            self._keep_constant(next(tensor for tensor in tensors if always or not self.is_trained(tensor)))
        kept = [self._kept(leaf) for leaf in leaves]
        arguments: Arguments = rebuilt((args, kwargs), kept)
        rule = self._rule(operation, arguments)
        step = Step(rule, operation.name, self._layers.running[-1], func, arguments, kept)
        step.inputs = tuple(dict.fromkeys(leaf for leaf in kept if isinstance(leaf, Value)))
        step.is_trained, step.product = self.is_trained, self.product
        try:
            result = step.rule.run(step)
        except Refused as reason:
            raise no_rule(func, step.layer, str(reason)) from None
        except NoRule as reason:
            step.rule = Unruled(str(reason))
            result = step.rule.run(step)
        return self._recorded(step, result)

    def _kept(self, leaf: object) -> object:
        """An argument as the record keeps it: its value, or a copy of a constant, so that later writes do not change it."""
        if not isinstance(leaf, Tensor):
            return leaf
        return self.value_of(leaf) or (leaf if self.is_trained(leaf) else leaf.detach().clone())

    def _rule(self, operation: Operation, arguments: Arguments) -> Rule:
        if operation.rule is None or isinstance(operation.rule, Rule):
            return operation.rule or Unruled()
        try:
            return operation.rule(arguments, self.is_trained, self.product)
        except NoRule as reason:
            return Unruled(str(reason))

    def _recorded(self, step: Step, result: object) -> object:
        """Put a step's result on the record, and return it as plain tensors."""
        is_live = any(value.is_live for value in step.inputs)
        is_gate, in_sum = step.rule.is_gate(step), step.rule.continues_sum(step)
        plain: list[object] = [result] if isinstance(result, Tensor) else leaves_of(result)
        outputs: list[Value] = []
        for n, leaf in enumerate(plain):
            if isinstance(leaf, Tensor) and leaf.is_floating_point():
                plain[n] = detached = leaf.detach()
                outputs.append(Value(detached, step, is_live, is_gate, in_sum))
                self._keep(detached, outputs[-1])
        step.outputs = tuple(outputs)
        if outputs:  # whole numbers carry no relevance
            self.trace.steps.append(step)
        return plain[0] if isinstance(result, Tensor) else rebuilt(result, plain)

    def _in_place(self, operation: Operation, func: Function, args: Args, kwargs: Kwargs) -> object:
        """Record the call out of place, then copy its result into the first argument, which stands for it from then on."""
        target = cast(Tensor, args[0])
        contents = [self.value_of(leaf) for leaf in leaves_of((args[1:], kwargs)) if isinstance(leaf, Tensor)]
        is_live = any(value is not None and value.is_live for value in (self.value_of(target), *contents))
        if not is_live or (operation.erases and not any(contents)):
            if self._is_part(target):
                raise no_rule(func, self._layers.running[-1], "it changes part of a tensor in place; use y[...] = 0 or a copy")
            self._forget_aliases(target)  # from now on it holds only constants
            del self._storages[target.untyped_storage().data_ptr()]
            return func(*args, **kwargs)
        function = func if kwargs.get("inplace") else operation.out_of_place or _out_of_place(operation.name)
        kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
        if function is None or not operation.has_rule:
            raise no_rule(func, self._layers.running[-1], "it changes a tensor in place")
        if operation.writes:
            self._restore(target, args[1], args[2])
        rewrite = operation.rewrite or self._apart(operation, args[:2])
        if rewrite is None:
            result = self._record(operation, function, args, kwargs, leaves_of((args, kwargs)))
        else:
            result = self._rewritten(func, rewrite, args, kwargs)
        value = self.value_of(result)
        if value is None or not isinstance(result, Tensor) or result.shape != target.shape:
            raise no_rule(func, self._layers.running[-1], "it changes the shape of a tensor in place")
        self._forget_aliases(target)
        target.copy_(result)
        self._changed[target.untyped_storage().data_ptr()] = target
        value.tensor = target.detach()  # so that views of the target are views of its value
        self._keep(target, value)
        return target

    def _is_part(self, target: Tensor) -> bool:
        """Whether a tensor is a piece of a larger one on the record."""
        keys = self._storages.get(target.untyped_storage().data_ptr(), [])
        entries = [self._values[key] for key in keys if key in self._values]
        return any(value.is_live and tensor.numel() > target.numel() for tensor, value in entries)

    def _forget_aliases(self, target: Tensor) -> None:
        """Before a tensor is overwritten, copy the values that share its memory, and mark its views as stale."""
        storage = target.untyped_storage().data_ptr()
        for key in self._storages.get(storage, []):
            tensor, value = self._values.pop(key, (target, None))
            if value is not None:
                self._stale[key] = tensor, value, target
                if value.tensor.untyped_storage().data_ptr() == storage:
                    value.tensor = value.tensor.clone()
        self._storages[storage] = []

    def _restore(self, target: Tensor, index: Any, content: object) -> None:
        """After `y[i] *= 2`, which changes the view y[i] and then assigns it to y[i], y is up to date and no longer stale."""
        tensor, value, changed = self._stale.get(id(target), (None, None, None))
        if self.value_of(target) is not None or not isinstance(content, Tensor) or not _is_same_view(target[index], content):
            return
        if tensor is target and value is not None and changed is content:
            self._values[id(target)] = target, value
        elif self._changed.get(target.untyped_storage().data_ptr()) is content:
            self._values[id(target)] = target, Value(target.detach().clone(), is_live=False)  # a constant until now

    def _refuse_stale(self, func: Function, tensors: Sequence[Tensor]) -> None:
        """Refuse a tensor that shares memory with the record but is not on it: it was changed in place through another."""
        strangers = (t for t in tensors if id(t) not in self._parameters and self.value_of(t) is None)
        unknown = (t for t in strangers if t.is_floating_point() and t.numel())
        if any(tensor.untyped_storage().data_ptr() in self._storages for tensor in unknown):
            reason = "its argument is a view of a tensor that was changed in place; use a copy"
            raise no_rule(func, self._layers.running[-1], reason)

    def _keep_constant(self, tensor: Tensor) -> None:
        if self.value_of(tensor) is None:
            self._values[id(tensor)] = tensor, Value(tensor.detach().clone(), is_live=False)

    def _keep(self, tensor: Tensor, value: Value) -> None:
        self._values[id(tensor)] = tensor, value
        if tensor.numel():
            self._storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(id(tensor))


def _out_of_place(name: str) -> Function | None:
    """The function that an in-place spelling computes: a tensor's method, or a function of torch or torch.nn.functional."""
    return next((getattr(home, name) for home in (Tensor, torch, nn.functional) if hasattr(home, name)), None)


def _is_same_view(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same view of the same memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()
