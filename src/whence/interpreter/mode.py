"""Intercepts every torch call of a module and puts it on the record under its rule; no mathematics here."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from whence.interpreter.layers import Layers
from whence.interpreter.names import is_in_place, name_of
from whence.interpreter.rule import NoRule, Rule
from whence.interpreter.sweep import no_rule
from whence.interpreter.table import CONSTANT, REWRITES, TABLE
from whence.interpreter.trace import Step, Trace, Value, leaves_of, mapped, values_of
from whence.interpreter.weighted import is_weight


class Recorder(TorchFunctionMode):
    """While active, records what is computed from the explained inputs."""

    def __init__(self, inputs: Sequence[Tensor], layers: Layers) -> None:
        super().__init__()
        self.trace = Trace(tuple(Value(tensor) for tensor in inputs))
        self._layers = layers
        # Every tensor on the record is kept alive here, so an id stays its own; storages tell of aliases not on the record.
        self._values: dict[int, tuple[Tensor, Value]] = {}
        self._storages: dict[int, list[int]] = {}
        for leaf in self.trace.leaves:
            self._keep(leaf.tensor, leaf)

    def value_of(self, tensor: Any) -> Value | None:
        """The value on the record that a tensor is, if it is one."""
        entry = self._values.get(id(tensor))
        return entry[1] if entry is not None and entry[0] is tensor else None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        known = [self.value_of(leaf) for leaf in leaves_of((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(known) and not self._feeds_constants(name, args):
            self._refuse_stale((args, kwargs), name)
            return func(*args, **kwargs)
        if name in REWRITES:
            with self:
                return REWRITES[name](*args, **kwargs)
        is_live = any(value is not None and value.is_live for value in known)
        if is_in_place(func, kwargs):
            return self._in_place(func, name, args, kwargs, is_live=is_live)
        rule = self._rule(name, args, kwargs, is_live=is_live)
        if rule is None:
            return self._unruled(func, name, args, kwargs, is_live=is_live)
        return self._record(rule, func, name, args, kwargs)

    def _feeds_constants(self, name: str, args: tuple[Any, ...]) -> bool:
        """Whether constants go through weights here: an initial state on its way into a sum, which counts in its fan-in."""
        if name == "linear":
            return bool(args) and isinstance(args[0], Tensor)
        return name in ("matmul", "mm") and is_weight(args[1]) and not is_weight(args[0])

    def _rule(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_live: bool) -> Rule | None:
        entry = TABLE.get(name)
        if entry is None or isinstance(entry, Rule):
            return entry
        try:
            return entry(self._with_values(args, kwargs))
        except NoRule as reason:
            if is_live:
                raise no_rule(name, self._layers.current, str(reason)) from None
            return None

    def _with_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return mapped(lambda leaf: self.value_of(leaf) or leaf if isinstance(leaf, Tensor) else leaf, (args, kwargs))

    def _unruled(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_live: bool
    ) -> Any:
        """A call without a rule may read shapes, compare, and compute on constants; numbers of the record may not leave it."""
        result = func(*args, **kwargs)
        carries = any(
            isinstance(leaf, float) or (isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()))
            for leaf in leaves_of(result)
        )
        if is_live and carries and name not in CONSTANT and not any(result is arg for arg in args):
            reason = "a number leaves the tensors here, and relevance cannot follow" if isinstance(result, float) else ""
            raise no_rule(name, self._layers.current, reason)
        return result

    def _record(self, rule: Rule, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._refuse_stale((args, kwargs), name)
        if name == "linear" or not any(self.value_of(leaf) for leaf in leaves_of((args, kwargs))):
            self._keep_constant(args[0])
        arguments = self._with_values(args, kwargs)
        step = Step(rule, name, self._layers.current, func, arguments, values_of(arguments))
        try:
            result = rule.run(step)
        except NoRule as reason:
            if any(value.is_live for value in step.inputs):
                raise no_rule(name, step.layer, str(reason)) from None
            return func(*args, **kwargs)
        outputs: list[Value] = []
        is_live = any(value.is_live for value in step.inputs)

        def out(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
                return leaf
            plain = leaf.detach()
            value = Value(plain, step, is_live=is_live)
            value.is_gate, value.in_sum = rule.is_gate(step), rule.continues_sum(step)
            outputs.append(value)
            self._keep(plain, value)
            return plain

        result = mapped(out, result)
        step.outputs = tuple(outputs)
        self.trace.steps.append(step)
        return result

    def _in_place(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_live: bool
    ) -> Any:
        """The same call out of place, then its result written over its first argument, which takes its place on record."""
        target = args[0]
        function = func if kwargs.get("inplace") else FUNCTIONAL.get(name) or getattr(Tensor, name, None)
        kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
        rule = self._rule(name, args, kwargs, is_live=is_live)
        if function is None or rule is None:
            raise no_rule(name, self._layers.current, "it changes a tensor in place")
        result = self._record(rule, function, name, args, kwargs)
        value = self.value_of(result)
        assert value is not None
        self._forget_aliases(target)
        target.copy_(result)
        self._values[id(target)] = target, value
        return target

    def _forget_aliases(self, target: Tensor) -> None:
        """Before a tensor is written over, keep the old numbers of all values in its memory, and mark its views as stale."""
        storage = target.untyped_storage().data_ptr()
        for key in self._storages.get(storage, []):
            _, value = self._values.pop(key)
            value.tensor = value.tensor.clone()
        self._storages[storage] = []

    def _refuse_stale(self, tree: Any, name: str) -> None:
        """A tensor that shares memory with the record but is not on it shows numbers that changed in place."""
        floats = (leaf for leaf in leaves_of(tree) if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel())
        if any(self.value_of(leaf) is None and leaf.untyped_storage().data_ptr() in self._storages for leaf in floats):
            reason = "its argument is a view of a tensor that was changed in place; use a copy"
            raise no_rule(name, self._layers.current, reason)

    def _keep_constant(self, tensor: Any) -> None:
        if isinstance(tensor, Tensor) and self.value_of(tensor) is None:
            self._values[id(tensor)] = tensor, Value(tensor.detach(), is_live=False)

    def _keep(self, tensor: Tensor, value: Value) -> None:
        self._values[id(tensor)] = tensor, value
        if tensor.numel():
            self._storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(id(tensor))


def _set_item(tensor: Tensor, index: Any, content: Any) -> Tensor:
    copied = tensor.clone()
    copied[index] = content
    return copied


FUNCTIONAL: dict[str, Callable[..., Any]] = {
    "setitem": _set_item,
    "copy": lambda target, source: source.expand_as(target).to(target),
}
