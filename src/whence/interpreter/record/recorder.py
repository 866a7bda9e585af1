"""Intercepts every torch call of a module and records it with its rule; no mathematics here."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn, overrides
from torch._C._functorch import maybe_current_level
from torch.overrides import _pop_mode_temporarily

from whence.equations import Product
from whence.errors import NoRuleError, WhenceError
from whence.interpreter.record.call import Call
from whence.interpreter.record.held import Held
from whence.interpreter.record.ids import Ids
from whence.interpreter.record.layers import Layers
from whence.interpreter.record.memory import Memory, version_of
from whence.interpreter.record.operation import Operation, Table, positional
from whence.interpreter.record.refusal import NoRule, Refused, Unruled, first_line, name_of, no_rule, place
from whence.interpreter.record.step import Args, Arguments, Function, Kwargs, Rule, Step, Trace, Value
from whence.trees import floats_of, leaves_of, mapped, rebuilt, tensors_of


def _protocol(kind: type) -> object:
    """How a type of tensor takes part in torch functions."""
    found: object = getattr(kind, "__torch_function__", None)
    return getattr(found, "__func__", found)


PLAIN = (_protocol(Tensor), _protocol(nn.Parameter))  # leave torch functions as they are


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
        self._held = Held(model)
        self._memory = Memory()
        # constants that seen calls made, each with its count of writes; kept alive, so that no id() is reused
        self._made: dict[int, tuple[Tensor, int]] = {}
        self.doubts: list[str] = []  # what may have happened outside the record, and where
        self.ids: Ids | None = None  # follows the token ids among the inputs, if there are any
        self.is_kept = False  # whether the trace outlives this record, in a plan
        self.calls: list[Call] = []  # every call that was seen, in order; those that a rewrite makes come after it
        for leaf in self.trace.leaves:
            if leaf.tensor.is_floating_point():
                self._memory.note(leaf.tensor, leaf)

    def start(self, number: int, vectors: Tensor) -> Tensor:
        """Put the vectors that were looked up for the ids of an input on the record; a copy of them for every look-up."""
        leaf, own = self.trace.leaves[number], vectors.clone()
        if not leaf.tensor.is_floating_point():
            leaf.tensor = own
        self._memory.note(own, leaf)
        return own

    def forget(self) -> None:
        """Break the references between calls, values and steps, unless a plan keeps them."""
        self.calls = []
        if not self.is_kept:
            self.trace.forget()

    def _is_live(self, thing: object) -> bool:
        value = self.value_of(thing)
        return value is not None and value.is_live

    def value_of(self, tensor: object) -> Value | None:
        """The value of a tensor that is on the record; None for anything else."""
        if isinstance(tensor, Tensor) and self._memory.is_out_of_date(tensor):
            self._refresh(tensor)
        return self._memory.value_of(tensor)

    def snapshot(self, result: object) -> object:
        """A layer's result with every tensor on the record replaced by its value, so that later writes do not change it."""
        with _pop_mode_temporarily():
            return mapped(lambda leaf: self.value_of(leaf) or leaf, result)

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
        call = Call(operation, func, args, kwargs, writes=is_in_place or bool(kwargs.get("inplace")))
        self.calls.append(call)
        call.result = self._made_by(call, func, args, kwargs)
        return call.result

    def _made_by(self, call: Call, func: Function, args: Args, kwargs: Kwargs) -> object:
        """The result of a call, which is recorded if it concerns the explained inputs."""
        operation, is_in_place = call.operation, call.writes
        if operation.look_up is not None and self.ids is not None:
            look_up = self.ids.requested(operation, func, args, kwargs)
            if look_up is not None and not self._is_live(look_up.table):
                found = self.ids.answer(look_up, self)
                if found is not None:
                    call.looks_up = True
                    return found
        if kwargs:
            args, kwargs = positional(args, kwargs)
        if operation.reads_like:
            args = (args[0], *(torch.empty_like(arg) if isinstance(arg, Tensor) else arg for arg in args[1:]))
        leaves = leaves_of((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for tensor in tensors:
            self._look_at(tensor, func)
        is_known = any(self.value_of(tensor) for tensor in tensors) or (
            is_in_place and bool(args) and isinstance(args[0], Tensor) and self._memory.is_known(args[0])
        )
        if operation.leaks:
            self._doubt(func, "hands out memory")
        if operation.reads == "nothing" or not (is_known or self._feeds_constants(operation, tensors)):
            return self._plain(operation, func, args, kwargs, tensors)
        if operation.refused:
            raise no_rule(func, self._layers.running[-1], operation.refused)
        if kwargs.get("out") is not None:
            raise no_rule(func, self._layers.running[-1], "it writes into a given tensor; use its result instead")
        if is_in_place:
            self._doubt(func, "writes in place")
            return self._in_place(operation, func, args, kwargs)
        rewrite = operation.rewrite or self._apart(operation, args)
        if rewrite is not None:
            call.rewrite = rewrite
            return self._rewritten(func, rewrite, args, kwargs)
        if operation.rule is None:
            written = [version_of(tensor) for tensor in tensors]
            result = self._plain(operation, func, args, kwargs, tensors)
            if written != [version_of(tensor) for tensor in tensors]:
                raise no_rule(func, self._layers.running[-1], "it changes a tensor in place")
            is_constant = operation.makes_constant and not any(self.value_of(leaf) for leaf in leaves_of((args[1:], kwargs)))
            if is_constant or any(result is arg for arg in args) or not self._carries(func, result):
                return result
        count = len(self.trace.steps)
        result = self._record(operation, func, args, kwargs, leaves)
        call.step = self.trace.steps[count] if len(self.trace.steps) > count else None
        return result

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
        self._held.derive(tensors, result)
        self._made.update((id(tensor), (tensor, version_of(tensor))) for tensor in floats_of(result))
        if self.ids is not None and any(id(tensor) in self.ids.origins for tensor in tensors):
            self.ids.follow(operation, func, args, kwargs, result)
        return result

    def _apart(self, operation: Operation, args: Args) -> Function | None:
        """A function that splits the call into elementwise products, if the product rule needs that."""
        if operation.apart is None:
            return None
        values = [self.value_of(tensor) for tensor in tensors_of(tuple(args))]
        return operation.apart([value if value is not None and value.is_live else None for value in values], self.product)

    def _feeds_constants(self, operation: Operation, tensors: Sequence[Tensor]) -> bool:
        """Whether constants pass through weights here: an initial state that goes into a sum counts in its fan-in."""
        if operation.weighs != "trained":
            return operation.weighs == "always"
        return sorted(self._held.is_trained(tensor) for tensor in tensors if tensor.is_floating_point()) == [False, True]

    def _carries(self, func: Function, result: object) -> bool:
        """Whether the result of a call without a rule holds new real numbers; shapes and comparisons do not."""
        leaves = leaves_of(result)
        if any(isinstance(leaf, (float, complex, np.ndarray)) for leaf in leaves):
            raise no_rule(func, self._layers.running[-1], "numbers leave the tensors here, and relevance cannot follow")
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(tensor.is_quantized for tensor in tensors):
            raise no_rule(func, self._layers.running[-1], "quantised numbers carry no relevance")
        return any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors)

    def _rewritten(self, func: Function, rewrite: Function, args: Args, kwargs: Kwargs) -> object:
        try:
            with self:
                return rewrite(*args, **kwargs)
        except NoRule as reason:
            raise no_rule(func, self._layers.running[-1], str(reason)) from None

    def _record(self, operation: Operation, func: Function, args: Args, kwargs: Kwargs, leaves: Sequence[object]) -> object:
        tensors, always = [leaf for leaf in leaves if isinstance(leaf, Tensor)], operation.weighs == "always"
        if always or not any(self.value_of(tensor) for tensor in tensors):
            self._keep_constant(next(tensor for tensor in tensors if always or not self._held.is_trained(tensor)))
        kept = [self._kept(leaf) for leaf in leaves]
        arguments: Arguments = rebuilt((args, kwargs), kept)
        rule = self._rule(operation, arguments)
        step = Step(rule, operation.name, self._layers.running[-1], func, arguments, kept)
        step.inputs = tuple(dict.fromkeys(leaf for leaf in kept if isinstance(leaf, Value)))
        step.is_trained, step.is_held, step.product = self._held.is_trained, self._held.holds, self.product
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
        if (value := self.value_of(leaf)) is not None or self._held.is_trained(leaf):
            return value or leaf
        copied = leaf.detach().clone()
        self._held.derive([leaf], copied)
        return copied

    def _rule(self, operation: Operation, arguments: Arguments) -> Rule:
        if operation.rule is None or isinstance(operation.rule, Rule):
            return operation.rule or Unruled()
        try:
            return operation.rule(arguments, self._held, self.product)
        except NoRule as reason:
            return Unruled(str(reason))

    def _recorded(self, step: Step, result: object) -> object:
        """Put a step's result on the record, and return it as plain tensors."""
        is_live = any(value.is_live for value in step.inputs)
        gate, in_sum, log = step.rule.gate_of(step), step.rule.continues_sum(step), step.rule.log_of(step)
        plain: list[object] = [result] if isinstance(result, Tensor) else leaves_of(result)
        outputs: list[Value] = []
        fixed = step.rule.fixed_of(step) if is_live else None
        for n, leaf in enumerate(plain):
            if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
                plain[n] = detached = leaf.detach()
                own = None if fixed is None else fixed[len(outputs)]
                still_live = is_live and (own is None or not bool(own.all()))  # a constant that is taken out again is one
                outputs.append(Value(detached, step, still_live, gate, in_sum or leaf.is_complex(), log, own))
                self._memory.note(detached, outputs[-1])
        if not outputs and step.rule.rearranges and not step.rule.casts:
            raise no_rule(step.function, step.layer, "numbers are read as another type")
        step.outputs = tuple(outputs)
        if outputs:  # whole numbers carry no relevance
            self.trace.steps.append(step)
        return plain[0] if isinstance(result, Tensor) else rebuilt(result, plain)

    def _in_place(self, operation: Operation, func: Function, args: Args, kwargs: Kwargs) -> object:
        """Record the call out of place, then copy its result into the first argument, which stands for it from then on."""
        if not isinstance(args[0], Tensor):
            raise no_rule(func, self._layers.running[-1], "it changes several tensors in place")
        target = args[0]
        contents = [self.value_of(leaf) for leaf in leaves_of((args[1:], kwargs)) if isinstance(leaf, Tensor)]
        is_live = any(value is not None and value.is_live for value in (self.value_of(target), *contents))
        if not is_live or (operation.erases and not any(contents)):
            self._memory.before_write(target)
            result = func(*args, **kwargs)
            self._memory.write(target, target.detach().clone())  # from now on it holds only constants
            return result
        function = func if kwargs.get("inplace") else operation.out_of_place or _out_of_place(operation.name)
        kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
        if function is None or not operation.has_rule:
            raise no_rule(func, self._layers.running[-1], "it changes a tensor in place")
        rewrite = operation.rewrite or self._apart(operation, args[:2])
        if rewrite is None:
            result = self._record(operation, function, args, kwargs, leaves_of((args, kwargs)))
        else:
            result = self._rewritten(func, rewrite, args, kwargs)
        value = self.value_of(result)
        if value is None or not isinstance(result, Tensor):
            raise no_rule(func, self._layers.running[-1], "it changes a tensor in place")
        if operation.moves_ids and not operation.erases and function is not func:  # such as transpose_: the numbers stay
            self._memory.before_write(target)
            func(*args, **kwargs)
            self._hold(target, value)
            return target
        if result.shape != target.shape:
            raise no_rule(func, self._layers.running[-1], "it changes the shape of a tensor in place")
        self._memory.before_write(target)
        try:
            target.copy_(result)
        except RuntimeError:
            reason = "it writes into an expanded tensor, whose elements share memory; use a copy"
            raise no_rule(func, self._layers.running[-1], reason) from None
        self._memory.write(target, value)
        self._hold(target, value)
        return target

    def _hold(self, tensor: Tensor, value: Value) -> None:
        """Note the value of a tensor of the model's own, so that views of the one are views of the other."""
        value.tensor = tensor.detach()
        self._memory.note(tensor, value)

    def _refresh(self, tensor: Tensor) -> None:
        """Put the value of a tensor together again, after its memory was written to through other tensors."""
        try:
            value, pieces = self._memory.pieces(tensor)
        except ValueError as error:
            raise no_rule(torch.as_strided, self._layers.running[-1], str(error)) from None
        if value is None and not any(isinstance(piece.content, Value) for piece in pieces):
            return  # constants alone
        current: Tensor = tensor.detach().clone()
        if value is not None:
            self._memory.note(current, value)
        for mask, places, content in reversed(pieces):
            written = content.tensor.detach() if isinstance(content, Value) else content
            if isinstance(content, Value):
                self._memory.note(written, content)
            is_whole = bool(mask.all())
            with self:
                moved = written.reshape(-1)[places]
                current = moved if is_whole else torch.where(mask, moved, current)
        found = self._memory.value_of(current)
        if found is not None:
            self._hold(tensor, found)

    def _look_at(self, tensor: Tensor, func: Function) -> None:
        """Doubt the record if a tensor of numbers appears that no seen call made, and that the model does not hold."""
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return
        if type(tensor) is not Tensor and _protocol(type(tensor)) not in PLAIN:
            raise no_rule(func, self._layers.running[-1], f"a {type(tensor).__name__} changes what torch functions do")
        made = self._made.get(id(tensor))
        if made is not None:
            if version_of(tensor) != made[1]:
                self._made[id(tensor)] = tensor, version_of(tensor)
                self._doubt(func, "reads a constant that was written to since it was made")
            return
        if id(tensor) in self._held.parameters or self.value_of(tensor) is not None or self._held.holds(tensor):
            return
        if not self._memory.recognise(tensor):
            self._made[id(tensor)] = tensor, version_of(tensor)
            self._doubt(func, "reads a tensor that no recorded call made")

    def _doubt(self, func: Function, what: str) -> None:
        doubt = f"{name_of(func)} ({place(self._layers.running[-1])}) {what}"
        if doubt not in self.doubts:
            self.doubts.append(doubt)

    def accept(self, arguments: object) -> None:
        """Take tensors that the user gave for constants."""
        self._made.update((id(tensor), (tensor, version_of(tensor))) for tensor in floats_of(arguments))

    def is_in_doubt(self) -> bool:
        """Whether something may have happened outside the record."""
        if self._memory.was_changed_unseen():
            self.doubts.append("a tensor on the record was changed by a call that was not seen")
        return bool(self.doubts)

    def _keep_constant(self, tensor: Tensor) -> None:
        if self.value_of(tensor) is None:
            self._memory.note(tensor, Value(tensor.detach().clone(), is_live=False))


def _out_of_place(name: str) -> Function | None:
    """The function that an in-place spelling computes: a tensor's method, or a function of torch or torch.nn.functional."""
    return next((getattr(home, name) for home in (Tensor, torch, nn.functional) if hasattr(home, name)), None)
