"""Intercepts every torch call of a module and puts it on the record under its rule; no mathematics here."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import maybe_current_level
from torch.overrides import TorchFunctionMode, resolve_name

from whence.equations import Product
from whence.errors import NoRuleError, WhenceError
from whence.interpreter.gates import spelled_out
from whence.interpreter.layers import Layers
from whence.interpreter.names import is_in_place, name_of, positional
from whence.interpreter.rule import NoRule, Refused, Rule, Unruled, first_line, no_rule
from whence.interpreter.table import CONSTANT, FORM, LIKE, REWRITES, TABLE, UNCHANGED
from whence.interpreter.trace import Arguments, Step, Trace, Value, leaves_of, mapped, values_of


class Recorder(TorchFunctionMode):
    """While active, records what a model computes from the explained inputs."""

    def __init__(self, inputs: Sequence[Tensor], model: nn.Module, layers: Layers, *, product: Product = "all") -> None:
        super().__init__()
        self.product: Product = product
        self.trace = Trace(tuple(Value(tensor) for tensor in inputs))
        self._layers = layers
        self._parameters = {id(parameter) for parameter in model.parameters()}  # the model keeps them alive
        self._trained = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()} - {0}
        # Every tensor on the record is kept alive here, so an id stays its own; storages tell of aliases not on the record.
        self._values: dict[int, tuple[Tensor, Value]] = {}
        self._storages: dict[int, list[int]] = {}
        self._changed: dict[int, Tensor] = {}  # by storage, the tensor through which it was changed last
        self._stale: dict[int, tuple[Tensor, Value, Tensor]] = {}  # out of date since another tensor was changed
        for leaf in self.trace.leaves:
            self._keep(leaf.tensor, leaf)

    def value_of(self, tensor: Any) -> Value | None:
        """The value on the record that a tensor is, if it is one."""
        entry = self._values.get(id(tensor))
        return entry[1] if entry is not None and entry[0] is tensor else None

    def snapshot(self, result: Any) -> Any:
        """A layer's result with every tensor on the record as its value, whatever is written into it later."""
        return mapped(lambda leaf: self.value_of(leaf) or leaf, result)

    def is_trained(self, tensor: Any) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return id(tensor) in self._parameters or (
            isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() in self._trained
        )

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            return self._follow(func, args, kwargs or {})
        except WhenceError:
            raise
        except Exception as error:
            func(*args, **(kwargs or {}))  # where the call itself is wrong, it says so here, in its own words
            raise self._unfollowed(func, leaves_of((args, kwargs or {})), error) from error

    def _unfollowed(self, func: Callable[..., Any], leaves: Sequence[Any], error: Exception) -> NoRuleError:
        """The error for a call that the model can make, but that could not be recorded."""
        where = f"called in {self._layers.current!r}" if self._layers.current else "called in the model itself"
        if maybe_current_level() is not None or any(isinstance(leaf, Tensor) and leaf.is_nested for leaf in leaves):
            return NoRuleError(
                f"{resolve_name(func) or name_of(func)} ({where}) is inside torch.func's vmap, grad or jvp, or works on nested "
                "tensors: there, calls cannot be followed; write that part without, or use method=whence.GradientXInput()"
            )
        return no_rule(
            func, self._layers.current, f"the model can make this call, but recording it failed: {first_line(error)}"
        )

    def _follow(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call and put it on the record, if it has anything to do with the explained inputs."""
        name = name_of(func)
        if name in FORM:
            return func(*args, **kwargs)
        args, kwargs = positional(args, kwargs)
        if name in LIKE:
            args = (args[0], *(torch.empty_like(arg) if isinstance(arg, Tensor) else arg for arg in args[1:]))
        tensors = [leaf for leaf in leaves_of((args, kwargs)) if isinstance(leaf, Tensor)]
        is_known = any(self.value_of(tensor) for tensor in tensors)
        if name in UNCHANGED or not (is_known or self._feeds_constants(name, tensors)):
            self._refuse_stale(func, tensors)
            return func(*args, **kwargs)
        if name == "__set__" or kwargs.get("out") is not None:
            raise no_rule(func, self._layers.current, "it writes into a given tensor; use its result instead")
        if is_in_place(func, kwargs):
            return self._in_place(func, name, args, kwargs)
        rewrite = REWRITES.get(name) or spelled_out(name, args, self.value_of, self.product)
        if rewrite is not None:
            return self._rewritten(func, rewrite, args, kwargs)
        if name not in TABLE:
            result = func(*args, **kwargs)
            is_constant = name in CONSTANT and not any(self.value_of(leaf) for leaf in leaves_of((args[1:], kwargs)))
            if is_constant or any(result is arg for arg in args) or not self._carries(func, result):
                return result
        return self._record(func, name, args, kwargs)

    def _feeds_constants(self, name: str, tensors: Sequence[Tensor]) -> bool:
        """Whether constants go through weights here: an initial state on its way into a sum, which counts in its fan-in."""
        if name == "linear":
            return True
        pair = [self.is_trained(tensor) for tensor in tensors if tensor.is_floating_point()]
        return name in ("matmul", "rmatmul", "mm", "einsum") and sorted(pair) == [False, True]

    def _carries(self, func: Callable[..., Any], result: Any) -> bool:
        """Whether the result of a call without a rule holds new real numbers; shapes and comparisons do not."""
        leaves = leaves_of(result)
        if any(isinstance(leaf, (float, complex, np.ndarray)) for leaf in leaves):
            raise no_rule(func, self._layers.current, "numbers leave the tensors here, and relevance cannot follow")
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(tensor.is_complex() or tensor.is_quantized for tensor in tensors):
            raise no_rule(func, self._layers.current, "complex and quantised numbers carry no relevance")
        return any(tensor.is_floating_point() for tensor in tensors)

    def _rewritten(
        self, func: Callable[..., Any], rewrite: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        try:
            with self:
                return rewrite(*args, **kwargs)
        except NoRule as reason:
            raise no_rule(func, self._layers.current, str(reason)) from None

    def _record(self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [leaf for leaf in leaves_of((args, kwargs)) if isinstance(leaf, Tensor)]
        self._refuse_stale(func, tensors)
        if name == "linear" or not any(self.value_of(tensor) for tensor in tensors):
            self._keep_constant(next(tensor for tensor in tensors if name == "linear" or not self.is_trained(tensor)))
        arguments = mapped(self._kept, (args, kwargs))
        step = Step(self._rule(name, arguments), name, self._layers.current, func, arguments, values_of(arguments))
        step.is_trained, step.product = self.is_trained, self.product
        try:
            result = step.rule.run(step)
        except Refused as reason:
            raise no_rule(func, step.layer, str(reason)) from None
        except NoRule as reason:
            step.rule = Unruled(str(reason))
            result = step.rule.run(step)
        return self._recorded(step, result)

    def _kept(self, leaf: Any) -> Any:
        """An argument as the record keeps it: a value, or a constant as it is now, whatever is written into it later."""
        if not isinstance(leaf, Tensor):
            return leaf
        return self.value_of(leaf) or (leaf if self.is_trained(leaf) else leaf.detach().clone())

    def _rule(self, name: str, arguments: Arguments) -> Rule:
        entry = TABLE.get(name, Unruled())
        if isinstance(entry, Rule):
            return entry
        try:
            return entry(arguments, self.is_trained, self.product)
        except NoRule as reason:
            return Unruled(str(reason))

    def _recorded(self, step: Step, result: Any) -> Any:
        """Put a step's result on the record, and give the model plain tensors of it."""
        outputs: list[Value] = []
        is_live = any(value.is_live for value in step.inputs)

        def out(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
                return leaf
            plain = leaf.detach()
            value = Value(plain, step, is_live=is_live)
            value.is_gate, value.in_sum = step.rule.is_gate(step), step.rule.continues_sum(step)
            outputs.append(value)
            self._keep(plain, value)
            return plain

        result = mapped(out, result)
        step.outputs = tuple(outputs)
        if outputs:  # whole numbers are choices, not values
            self.trace.steps.append(step)
        return result

    def _in_place(self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same call out of place, then its result written over its first argument, which takes its place on record."""
        target = args[0]
        contents = [self.value_of(leaf) for leaf in leaves_of((args[1:], kwargs)) if isinstance(leaf, Tensor)]
        is_live = any(value is not None and value.is_live for value in (self.value_of(target), *contents))
        if not is_live or (name in ("zero", "fill", "copy") and not any(contents)):
            if self._is_part(target):
                raise no_rule(func, self._layers.current, "it changes part of a tensor in place; use y[...] = 0 or a copy")
            self._forget_aliases(target)  # nothing but constants in it from now on
            del self._storages[target.untyped_storage().data_ptr()]
            return func(*args, **kwargs)
        function = func if kwargs.get("inplace") else FUNCTIONAL.get(name) or getattr(Tensor, name, None)
        kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
        if function is None or (name not in TABLE and name not in REWRITES):
            raise no_rule(func, self._layers.current, "it changes a tensor in place")
        if name == "setitem":
            self._restore(target, args[1], args[2])
        rewrite = REWRITES.get(name) or spelled_out(name, args[:2], self.value_of, self.product)
        result = self._record(function, name, args, kwargs) if rewrite is None else self._rewritten(func, rewrite, args, kwargs)
        value = self.value_of(result)
        if value is None or result.shape != target.shape:
            raise no_rule(func, self._layers.current, "it changes the shape of a tensor in place")
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
        """Before a tensor is written over, keep the old numbers of all values in its memory, and mark its views as stale."""
        storage = target.untyped_storage().data_ptr()
        for key in self._storages.get(storage, []):
            tensor, value = self._values.pop(key, (target, None))
            if value is not None:
                self._stale[key] = tensor, value, target
                if value.tensor.untyped_storage().data_ptr() == storage:
                    value.tensor = value.tensor.clone()
        self._storages[storage] = []

    def _restore(self, target: Tensor, index: Any, content: Any) -> None:
        """`y[i] *= 2` changes the view y[i] and then puts it into y, so y is not stale but about to be up to date again."""
        tensor, value, changed = self._stale.get(id(target), (None, None, None))
        if self.value_of(target) is not None or not isinstance(content, Tensor) or not _is_same_view(target[index], content):
            return
        if tensor is target and value is not None and changed is content:
            self._values[id(target)] = target, value
        elif self._changed.get(target.untyped_storage().data_ptr()) is content:
            self._values[id(target)] = target, Value(target.detach().clone(), is_live=False)  # a constant until now

    def _refuse_stale(self, func: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
        """A tensor that shares memory with the record but is not on it shows numbers that changed in place."""
        strangers = (t for t in tensors if id(t) not in self._parameters and self.value_of(t) is None)
        unknown = (t for t in strangers if t.is_floating_point() and t.numel())
        if any(tensor.untyped_storage().data_ptr() in self._storages for tensor in unknown):
            reason = "its argument is a view of a tensor that was changed in place; use a copy"
            raise no_rule(func, self._layers.current, reason)

    def _keep_constant(self, tensor: Tensor) -> None:
        if self.value_of(tensor) is None:
            self._values[id(tensor)] = tensor, Value(tensor.detach().clone(), is_live=False)

    def _keep(self, tensor: Tensor, value: Value) -> None:
        self._values[id(tensor)] = tensor, value
        if tensor.numel():
            self._storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(id(tensor))


def _is_same_view(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def _set_item(tensor: Tensor, index: Any, content: Any) -> Tensor:
    copied = tensor.clone()
    copied[index] = content
    return copied


def _copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.expand(target.shape).to(device=target.device, dtype=target.dtype, copy=True)


FUNCTIONAL: dict[str, Callable[..., Any]] = {"setitem": _set_item, "copy": _copied}
