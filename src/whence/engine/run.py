"""One run of a model under a `TorchFunctionMode`: every call on what is explained is made by its rule, on PyTorch's graph.

Tensors carry marks. What no mark leads to is a constant, and its calls are made as they are. Nothing is kept after the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast
from weakref import ref

import numpy as np
import torch
from torch import Tensor, nn, overrides
from torch._C._functorch import maybe_current_level
from torch.overrides import TorchFunctionMode, _pop_mode_temporarily

from whence.engine import neurons, writing
from whence.engine.held import ModelParts
from whence.engine.ids import Ids
from whence.engine.layers import Layers
from whence.engine.ledger import Ledger
from whence.engine.marks import (
    KEY,
    Args,
    Constant,
    Function,
    Gate,
    Kwargs,
    Late,
    Mark,
    ModelCall,
    Node,
    OpenSum,
    Owner,
    cut_by,
    put_mark,
)
from whence.engine.observer import Observer
from whence.engine.operation import Operation, Table, positional
from whence.engine.refusal import Blocked, blocked, first_line, name_of, no_rule, place
from whence.engine.rule import NoRule, OverwrittenError, Refused, Rule
from whence.engine.samples import Samples
from whence.equations import Rules, Sides
from whence.errors import NoRuleError, WhenceError
from whence.trees import floats_of, leaves_of, mapped, tensors_of


def _protocol(kind: type) -> object:
    """How a type of tensor takes part in torch functions."""
    found: object = getattr(kind, "__torch_function__", None)
    return getattr(found, "__func__", found)


PLAIN = (_protocol(Tensor), _protocol(nn.Parameter))  # leave torch functions as they are


PLAIN_FACTS = {"requires_grad": False, "grad_fn": None, "is_leaf": True, "grad": None}  # of explained inputs outside of a run
FILLED = frozenset("zeros ones zeros_like ones_like new_zeros new_ones eye arange".split())  # makes finite numbers
KEEPS = frozenset(
    "float double half to type_as unsqueeze squeeze view reshape expand contiguous clone transpose "
    "add sub rsub mul neg __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __neg__ squeeze_ unsqueeze_".split()
)


class Cut(NamedTuple):
    """Where the graph is cut for several targets: a recurrent call, its inputs on the graph, and its outputs as new leaves."""

    followed: Any
    tensors: list[Tensor]
    leaves: list[Tensor]


class Watch:
    """What arrives at a layer's output on the way back, (*shape) for every target."""

    def __init__(self, like: Tensor, owner: Owner) -> None:
        self._like, self._owner = like.detach(), owner
        self.amounts: dict[int, Tensor] = {}

    def of(self, target: int) -> Tensor:
        """What arrived, zeros if nothing did."""
        found = self.amounts.get(target)
        return torch.zeros_like(self._like) if found is None else found

    def totals(self, run: "ModelRun", target: int) -> Tensor:
        """The sum of what arrived over each sample (B,)."""
        return run.samples.totals(self.of(target), self._owner, tuple(self._like.shape), "")

    def note(self, target: int, amount: Tensor) -> None:
        """Add what arrived."""
        known = self.amounts.get(target)
        self.amounts[target] = amount if known is None else known + amount


class ModelRun(TorchFunctionMode):
    """While active, follows what a model computes from the explained inputs.

    `is_safe`: numbers that the way back needs are copied, for models that write over them afterwards. `is_survey`: a call
    without a rule does not end the way back. `head`: the numbers of the calls that follow the rule of the model's head.
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
        super().__init__()
        self.observer = observer
        self.rules, self.shares, self.samples = rules, rules.shares, samples
        self.is_safe, self.is_survey, self.is_audit, self.head = is_safe, is_survey, is_audit, frozenset(head)
        self.by_step = self.is_many = False
        # gates get no relevance from products, so most are never asked for as neurons
        self.puts_off = rules.product == "all" and not (is_safe or is_audit or is_survey)
        self.ledgers: list[Ledger] = []  # one for every target
        self.target = 0  # the one that goes back now
        self.followed: list[Any] = []
        self.cuts: list[Cut] = []
        self.current: ModelCall | None = None
        self.gaps: dict[str, Tensor] = {}  # of an audit: by layer, what came minus what went on or was absorbed
        self.places: dict[ModelCall, dict[str, None]] | None = {} if is_survey else None  # by call, what it absorbs
        self.stop_at_layer = True  # whether relevance goes no further than the layer `at`
        self.direction: int | None = None
        self.memory: dict[str, Tensor] | None = None
        self.ids: Ids | None = None  # follows the token ids among the inputs, if there are any
        self.calls: list[ModelCall] = []  # in order
        self.notable = False  # whether a call has no rule, or a choice was made
        self.doubts: list[str] = []  # what may have happened out of sight, and where
        self.foreign: list[Tensor] = []  # copies of the tensors that no seen call made, in the order in which they came
        self.former: Sequence[Tensor] | None = None  # what those were in another run, to be put in their place
        self.is_broken = False  # whether a call that was not seen wrote to what is explained
        self.leaked: list[tuple[Tensor, Tensor]] = []  # tensors whose memory was handed out, and copies of what they held
        self.refusals: list[ModelCall] = []
        self.leaves: list[Tensor | None] = [None] * len(inputs)
        self._marks: list[ref[Mark]] = []
        self.starts: list[Node | None] = [None] * len(inputs)  # the marks of the explained inputs
        self.anchor = torch.zeros((), requires_grad=True)  # where what constants get ends
        self._layers, self._table, self._held = layers, table, parts
        self._parameters = parts.own
        self.token = object()
        self._seen: dict[int, tuple[Tensor, int]] = {}  # memory of constants that seen calls wrote to, and its version
        self._function: Function = nn.Module.forward  # the last call; none yet
        self._accepted: dict[int, Tensor] = {}
        self.has_buffers = False
        self._wires: dict[tuple[object, ...], Tensor] = {}
        self._clones: dict[int, tuple[Tensor, Tensor]] = {}
        self.written: dict[int, Tensor] = {}  # memory of buffers
        self._captured: list[tuple[Tensor, int]] = []
        self._given: list[tuple[Tensor, Tensor]] = []
        self.bases: dict[int, tuple[Tensor, Tensor]] = {}  # memory behind results that PyTorch made as views, and these

    @property
    def ledger(self) -> Ledger:
        """The ledger of the target that goes back now."""
        return self.ledgers[self.target]

    # -- the explained inputs

    def start(self, number: int, vectors: Tensor) -> Tensor:
        """Put an explained input, or the vectors that were looked up for its ids, on the graph.

        Inputs become part of the graph, so nobody else may have them; of vectors, every look-up gets a copy. The leaf holds
        numbers only for an observer.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaf = self.leaves[number]
            if leaf is None:
                leaf = vectors.new_zeros(()).expand(vectors.shape) if self.observer is None else vectors.detach().clone()
                self.leaves[number] = leaf.requires_grad_()
            own: Tensor = neurons.Passed.apply(leaf, [vectors if self.ids is None else vectors.detach().clone()])
        start = self.starts[number]
        if start is None:
            known = None if self.ids is None else self.ids.owners[number]
            self.starts[number] = start = Node(owner=self.samples.start(number, known, vectors.shape))
        self.attach(own, Mark(self.token, start, own._version))
        self._given.append((own, own))
        return own

    def attach(self, tensor: Tensor, mark: Mark) -> Mark:
        """Put a mark on a tensor, and remember to clear it: it may come to hold tensors that lead back to it."""
        put_mark(tensor, mark)
        return self.remember(mark)

    def remember(self, mark: Mark) -> Mark:
        """Clear a mark at the end, because it comes to hold tensors that lead back to it."""
        self._marks.append(ref(mark))
        return mark

    def finish(self, mark: Mark, done: Tensor) -> Tensor:
        """Note the finished neuron that an open sum is."""
        self.remember(mark).done = done
        return done

    def accept(self, arguments: object) -> None:
        """Take tensors that the user gave for constants."""
        self._accepted.update((id(tensor), tensor) for tensor in floats_of(arguments))

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
        self._layers.snapshot = self.ids = None

    # -- what is known of a tensor

    def look(self, tensor: Tensor) -> Mark | None:
        """The mark of a tensor; None for a constant."""
        known = tensor.__dict__.get(KEY)
        if known is not None and known.run is self.token:
            if type(known) is Mark:
                return known if known.version == tensor._version else self._changed(tensor, known)
            if known.version != version_of(tensor):
                return self._rewritten(tensor, known)
            return None if not self.has_buffers or tensor._base is None else self._part_of_buffer(tensor)
        return None if id(tensor) in self._parameters else self._unknown(tensor)

    def _rewritten(self, tensor: Tensor, known: Constant) -> Mark | None:
        """A constant that was written to since it was marked: by a call that was seen, or not."""
        part = None if tensor._base is None else self._part_of_buffer(tensor)
        if part is not None:
            return part
        base = tensor if tensor._base is None else tensor._base
        if self._seen.get(id(base), (base, -1))[1] != version_of(tensor):
            return self._strange(tensor, "reads a constant that was changed by a call that was not seen")
        known.version = version_of(tensor)
        return None

    def note_constant(self, tensor: Tensor) -> None:
        """Take a tensor for a constant as it is after a write that was seen."""
        base = tensor if tensor._base is None else tensor._base
        self._seen[id(base)] = base, version_of(tensor)
        if KEY in tensor.__dict__:  # what an unseen call made is still to be looked at
            put_mark(tensor, Constant(self.token, version_of(tensor)))

    def _changed(self, tensor: Tensor, known: Mark) -> Mark | None:
        """The mark of a tensor that was written to since it was marked."""
        part = None if tensor._base is None else self._part_of_buffer(tensor)
        if part is not None:
            return part
        base = tensor._base
        if base is not None and type(base.__dict__.get(KEY)) is Constant:
            known = Mark(self.token, Node(is_live=False), 0)
        known.version = tensor._version
        if known.is_live:
            self.doubts.append("a followed tensor was changed by a call that was not seen")
            self.is_broken = True
            return known
        put_mark(tensor, Constant(self.token, tensor._version))
        return None  # a constant is read again

    def _part_of_buffer(self, tensor: Tensor) -> Mark | None:
        """The mark of a view of a tensor that was written to."""
        base = cast(Tensor, tensor._base)
        whole = base.__dict__.get(KEY)
        if type(whole) is not Mark or whole.run is not self.token or not whole.is_buffer:
            return None
        return self.attach(tensor, writing.part_of(self, tensor, base, whole))

    def _unknown(self, tensor: Tensor) -> Mark | None:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return None
        if type(tensor) is not Tensor and _protocol(type(tensor)) not in PLAIN:
            raise NoRule(f"a {type(tensor).__name__} changes what torch functions do")
        if self.has_buffers and tensor._base is not None and (part := self._part_of_buffer(tensor)) is not None:
            return part
        if id(tensor) in self._parameters or id(tensor) in self._accepted or self._held.holds(tensor):
            return None
        for given, own in self._given:
            if tensor.data_ptr() == given.data_ptr() and tensor.shape == given.shape and tensor.stride() == given.stride():
                mark = self.look(own)  # another name for an input, as `Variable(x)` makes it
                if mark is not None:
                    with torch.enable_grad():
                        self.remember(mark).alias = own.view_as(own)
                    put_mark(tensor, mark)
                return mark
        if tensor.is_nested:
            raise NoRule("it works on nested tensors")
        return self._strange(tensor, "reads a tensor that no followed call made")

    def _strange(self, tensor: Tensor, why: str) -> None:
        """Take a tensor for a constant, and note that it may be none; in a run that tries, it gets its former numbers."""
        self._doubt(why)
        place = len(self.foreign)
        if self.former is not None and place < len(self.former) and not is_same(self.former[place], tensor):
            with torch.no_grad():
                tensor.copy_(self.former[place])
        self.foreign.append(tensor.detach().clone())
        put_mark(tensor, Constant(self.token, version_of(tensor)))

    def _doubt(self, what: str) -> None:
        doubt = f"{name_of(self._function)} ({place(self.layer)}) {what}"
        if doubt not in self.doubts:
            self.doubts.append(doubt)

    def is_in_doubt(self) -> bool:
        """Whether something may have happened out of sight."""
        if any(not torch.equal(tensor.detach(), copy) for tensor, copy in self.leaked):
            self.doubts.append("a tensor was changed through its memory by a call that was not seen")
            self.is_broken = True
        return bool(self.doubts)

    @property
    def layer(self) -> str:
        """The name of the running layer."""
        return self._layers.running[-1]

    def is_trained(self, tensor: object) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return self._held.is_trained(tensor)

    def is_parameter(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter of the model itself, in ordinary memory."""
        return id(tensor) in self._parameters and tensor.layout == torch.strided and not tensor.is_inference()

    def is_finite(self, constant: Tensor) -> bool:
        """Whether a constant is known to hold no infinities."""
        known = constant.__dict__.get(KEY)
        return (type(known) is Constant and known.run is self.token and known.is_finite) or self.is_trained(constant)

    def is_held(self, tensor: object) -> bool:
        """Whether a tensor is a parameter or a buffer, or computed from these alone."""
        if not isinstance(tensor, Tensor):
            return False
        known = tensor.__dict__.get(KEY)
        if type(known) is Constant and known.run is self.token:
            return known.is_held
        return self._held.holds(tensor)

    # -- calls

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
        except (WhenceError, OverwrittenError):
            raise
        except NoRule as reason:
            raise no_rule(func, self.layer, str(reason)) from None
        except Exception as error:
            # if the call itself is wrong, PyTorch raises its own error
            func(*mapped(_bare, args), **mapped(_bare, dict(kwargs)))
            raise self._unfollowed(func, leaves_of((args, kwargs)), error) from error

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
        cut = cut_by(operation.name)
        if cut:
            first = len(self.calls)
            with torch.inference_mode(False), torch.enable_grad():
                result = self._ruled(operation, writes, func, args, kwargs, tensors, marks)
                result = self._protected(result) if cut != "detach" else result
            for call in self.calls[first:] if cut != "function" else ():
                call.cut, self.notable = cut, True
            return result
        return self._ruled(operation, writes, func, args, kwargs, tensors, marks)

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
                    if result is tensor or (isinstance(result, Tensor) and tensor.requires_grad and _is_alias(result, tensor)):
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

    def plain(self, result: Any, made_of: Sequence[Tensor] = (), args: Args = ()) -> Any:
        """Mark a result as a constant."""
        floats = [tensor for tensor in made_of if tensor.is_floating_point() or tensor.is_complex()]
        name = self._function.__name__
        is_held = bool(floats) and all(map(self.is_held, floats))
        is_finite = name in FILLED or (
            name in KEEPS
            and all(map(self.is_finite, floats))
            and all([arg - arg == 0 for arg in args if isinstance(arg, (int, float))])
        )
        for tensor in (result,) if isinstance(result, Tensor) else tensors_of(result):
            if id(tensor) not in self._parameters and type(tensor.__dict__.get(KEY)) is not Mark:
                put_mark(tensor, Constant(self.token, version_of(tensor), is_held, is_finite))
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
            raise NoRule("numbers leave the tensors here, and relevance cannot follow")
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(tensor.is_quantized for tensor in tensors):
            raise NoRule("quantised numbers carry no relevance")
        return any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors)

    def _is_buffer(self, tensor: Tensor) -> bool:
        base = tensor if tensor._base is None else tensor._base
        known = base.__dict__.get(KEY)
        return type(known) is Mark and known.run is self.token and known.is_buffer

    def set_buffers(self) -> None:
        """From now on, views may be parts of tensors that were written to."""
        self.has_buffers = True

    def _protected(self, result: Any) -> Any:
        """Keep a second name for results made where gradients are disabled: who did that may take them off the graph."""
        for tensor in floats_of(result):
            mark = self.look(tensor)
            if mark is not None and mark.is_live and mark.alias is None and tensor.requires_grad:
                self.remember(mark).alias = tensor.view_as(tensor)
        return result

    # -- what rules use

    def recurred(self, function: Any, followed: Any, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs of a recurrent call, on the graph; for many targets, the graph is cut there, and they go back at once."""
        self.followed.append(followed)
        if not self.is_many or followed.read.is_cell:
            return function.apply(followed, *tensors)
        with torch.enable_grad():
            leaves = [out.detach().requires_grad_() for out in followed.outputs]
            self.cuts.append(Cut(followed, list(tensors), leaves))
            return [neurons.Passed.apply(leaf, [out]) for leaf, out in zip(leaves, followed.outputs, strict=True)]

    def enter(self, call: ModelCall, kind: str, totals: Tensor, *, part: str = "") -> None:
        """Enter amounts (K, B) by target: into the ledger of the way back, or of each of them."""
        if len(totals) == 1:
            self.ledger.enter(call, kind, totals[0], part=part)
            return
        for ledger, amount in zip(self.ledgers, totals, strict=True):
            ledger.enter(call, kind, amount, part=part)

    def at(self, tensor: Tensor, mark: Mark) -> Tensor:
        """The tensor with this mark as it stands on the graph."""
        return tensor if mark.alias is None else mark.alias

    def tap(self, tensor: Tensor | None, note: Callable[[Tensor], object]) -> None:
        """Let `note` see what comes back to a tensor on the graph, if anything does."""

        def seen(amount: Tensor | None) -> None:
            if amount is not None:
                note(amount)

        if tensor is not None and tensor.requires_grad:
            tensor.register_hook(seen)

    def less_bias(self, call: ModelCall, z: Tensor, bias: Tensor | None, node: Node) -> Tensor:
        """An open sum that goes on where no shares are handed on, as complex ones do.

        The part of its bias that would be shared is absorbed.
        """
        if bias is None or self.rules.delta == 0:
            return z
        z, part = z.view_as(z), self.rules.delta * bias

        def absorb(q: Tensor) -> None:
            amount = part * q.conj()
            self.ledger.absorb(call, "bias", amount.real if amount.is_complex() else amount, node, tuple(q.shape))

        self.tap(z, absorb)
        return z

    def captured(self, tensor: Any) -> Any:
        """A constant that the way back reads: a copy of it, or a promise that the model does not write over it."""
        if isinstance(tensor, Tensor) and not tensor.is_inference():
            if self.is_safe and not self.is_trained(tensor):
                return tensor.detach().clone()
            self._captured.append((tensor, tensor._version))
        return tensor

    def require_unwritten(self) -> None:
        """Refuse to go back if the model wrote over constants that the way back reads; it must run again with copies."""
        if any(tensor._version != version for tensor, version in self._captured):
            raise OverwrittenError

    def full(self, like: Tensor, number: float) -> Tensor:
        """A number in the form of a tensor, without its memory."""
        key = like.shape, number, like.dtype, like.device
        if key not in self._wires:
            self._wires[key] = torch.full((), number, dtype=like.dtype, device=like.device).expand(like.shape)
        return self._wires[key].view_as(like)

    def thin(self, like: Tensor, number: float) -> Tensor:
        """The wire of a sum of so many lower neurons, the same along its last axis, which has size 1 here."""
        if self.is_audit or not like.dim():
            return self.full(like, number)
        key = like.shape, number, like.dtype, like.device, "thin"
        if key not in self._wires:
            self._wires[key] = torch.full((), number, dtype=like.dtype, device=like.device).expand(*like.shape[:-1], 1)
        return self._wires[key].view_as(self._wires[key])

    def keep(self, ctx: Any, *tensors: Tensor | None) -> None:
        """Keep what the way back needs."""
        if self.is_safe:
            ctx.copies = [None if t is None else t.detach() if 0 in t.stride() else t.detach().clone() for t in tensors]
        else:
            # without their graph, to which a view of memory that is written to leads back; writes are counted all the same
            ctx.save_for_backward(*[t.detach() if t is not None and t.requires_grad else t for t in tensors])

    def kept(self, ctx: Any) -> Sequence[Any]:
        """What was kept; raises if the model wrote over it."""
        return ctx.copies if self.is_safe else ctx.saved_tensors

    def constant(self, tensor: Tensor) -> Tensor:
        """A constant as it can be used on the graph."""
        if tensor.is_inference():
            found = self._clones.get(id(tensor))
            if found is None:
                found = self._clones[id(tensor)] = tensor, tensor.clone()
            return found[1]
        if self.is_safe and not self.is_trained(tensor):
            return tensor.detach().clone()
        return tensor.detach() if tensor.requires_grad else tensor

    def apart_from_writes(self, tensor: Tensor) -> Tensor:
        """What a function of PyTorch's may keep for the way back: a copy, if the model writes over numbers."""
        return tensor.clone() if self.is_safe else tensor

    def finished(self, tensor: Tensor, mark: Mark) -> Tensor:
        """A live tensor as a finished neuron."""
        if mark.late is not None:
            return self._finished_late(tensor, mark)
        if mark.sum is None:
            x = self.at(tensor, mark)
            return x if not self.is_audit else self._noted(mark, x)
        if mark.done is None:
            if mark.twin is not None:
                self.finish(mark, mark.twin.clone() if mark.is_buffer else mark.twin)
            else:
                z = self.at(tensor, mark)
                self.finish(mark, self.ended(tensor, mark, z.detach().clone() if self.is_safe else neurons.alias(z.detach())))
        return cast(Tensor, mark.done) if not self.is_audit else self._noted(mark, cast(Tensor, mark.done))

    def _finished_late(self, tensor: Tensor, mark: Mark) -> Tensor:
        """Put a gate on the graph, now that it is asked for as a neuron."""
        x, source, version = cast(Late, mark.late)
        if x._version != version:
            raise OverwrittenError
        mark.late = None
        tensor.copy_(self.activated(x, source, tensor.detach()))
        mark.version = tensor._version
        return tensor

    def activated(self, x: Tensor, mark: Mark, y: Tensor) -> Tensor:
        """The neuron y that is an activation of x."""
        if mark.sum is None or mark.done is not None or mark.twin is not None or self.is_audit:
            return cast(Tensor, neurons.Passed.apply(self.finished(x, mark), [y]))
        return self.ended(x, mark, y)

    def ended(self, tensor: Tensor, mark: Mark, y: Tensor) -> Tensor:
        """The neuron y that an open sum is, or its activation."""
        z, own = self.at(tensor, mark), cast(OpenSum, mark.sum)
        if mark.is_buffer and own.bias is not None:  # it may be written to again
            own = replace(own, bias=own.bias.clone())
        if own.sides is not None:
            return cast(Tensor, neurons.EndedSides.apply(*own.sides, own.wire, z.detach(), [y], own, mark.node, self))
        return cast(Tensor, neurons.Ended.apply(z, own.wire, [y], own, mark.node, self))

    def opened(self, tensor: Tensor, mark: Mark, *, is_thin: bool = False) -> tuple[Tensor, OpenSum]:
        """A live tensor as an open sum; a finished neuron becomes a term.

        `is_thin`: its wire may have a last axis of size 1.
        """
        if mark.sum is not None:
            z, own = self.at(tensor, mark), mark.sum
            if mark.is_buffer:  # it may be written to again
                wire, bias = (None if each is None else each.clone() for each in (own.wire, own.bias))
                wire = self.full(z, 0.0).real if z.is_complex() and self.shares else wire
                own = replace(own, wire=wire, bias=bias)
            if own.wire is not None and not is_thin and own.wire.shape != z.shape:
                own = replace(own, wire=own.wire.expand(z.shape))
            return (z, own) if not self.is_audit else self.passed(z, own, mark.node, self._edge(mark))
        x = self.finished(tensor, mark)
        made = neurons.Opened.apply(x, mark.is_infinite, self)
        z, wire = made if self.shares else (made, None)
        return z, OpenSum(cast(ModelCall, mark.call), wire, 1.0)

    def sided(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, OpenSum]:
        """A live tensor as a term of a sum of the head: what is no sum of the head itself is one contribution."""
        if mark.sum is not None and mark.sum.sides is not None:
            z = self.at(tensor, mark)
            return (z, mark.sum) if not self.is_audit else self.passed(z, mark.sum, mark.node, self._edge(mark))
        x = self.finished(tensor, mark)
        made = neurons.OpenedSides.apply(x, self)
        own, wire, count = mark.sum, made[2] if self.shares else None, 1.0
        # a sum of its own counts with all its lower neurons
        if own is not None and wire is not None and own.wire is not None:
            wire, count = wire * own.wire.detach(), own.count
        return x.detach(), OpenSum(cast(ModelCall, mark.call), wire, count, None, Sides(made[0], made[1]))

    def _noted(self, mark: Mark, x: Tensor) -> Tensor:
        """A finished neuron, with a note of what the current call hands back to it."""
        return cast(Tensor, neurons.Noted.apply(self._edge(mark), (None,), bool, x)[0])

    def _edge(self, mark: Mark) -> Callable[[Tensor], None]:
        """Enters what the current call hands back to a tensor: it leaves the one layer, and comes to the other."""
        user = self.current

        def enter(amount: Tensor) -> None:
            shape = tuple(amount.shape)
            totals = self.samples.totals(amount, mark.owner, shape, "")
            self.note_gap(user, -totals)
            self.note_gap(mark.call, totals)

        return enter

    def note_gap(self, call: ModelCall | None, totals: Tensor) -> None:
        """Enter what came to a layer (B,) into the audit; with a minus, what left it."""
        if call is not None and self.is_audit:
            layer = call.layer or f"{name_of(call.function)} in the model itself"
            self.gaps[layer] = self.gaps[layer] + totals if layer in self.gaps else totals

    def passed(
        self, z: Tensor, own: OpenSum, node: Node, note: Callable[[Tensor], None], *, stops: Callable[[], bool] = bool
    ) -> tuple[Tensor, OpenSum]:
        """An open sum with a note of what comes back to it:  (z − δ b) q + N s."""
        less = self.rules.delta
        if own.wire is not None and own.wire.shape != z.shape:
            own = replace(own, wire=own.wire.expand(z.shape))
        biased = own.bias is not None and less != 0
        if own.sides is not None:
            parts = own.bias_sides if biased and own.bias_sides is not None else (0.0, 0.0)
            tensors, values = (
                list(own.sides),
                [side.detach() - less * part for side, part in zip(own.sides, parts, strict=True)],
            )
        else:
            tensors, values = [z], [z.detach() - less * cast(Tensor, own.bias) if biased else z.detach()]
        if own.wire is not None:
            tensors.append(own.wire)
            values.append(own.wire.detach())
        made = neurons.Noted.apply(note, tuple(values), stops, *tensors)
        wire = made[-1] if own.wire is not None else None
        if own.sides is not None:
            return z, replace(own, wire=wire, sides=Sides(made[0], made[1]))
        return made[0], OpenSum(own.call, wire, own.count, own.bias)

    def snapshot(self, result: object) -> tuple[object, object]:
        """What a layer returned, with every live tensor watched, and the watches in the same form."""
        watches: dict[int, tuple[Tensor, Watch]] = {}
        with torch.inference_mode(False), torch.enable_grad(), _pop_mode_temporarily():
            for tensor in floats_of(result):
                mark = self.look(tensor)
                if mark is not None and mark.is_live and id(tensor) not in watches:
                    watches[id(tensor)] = self._watched(tensor, mark)

        def found(place: int) -> Callable[[object], object]:
            return lambda leaf: watches[id(leaf)][place] if id(leaf) in watches else leaf

        return mapped(found(0), result), mapped(found(1), result)

    def _stops(self) -> bool:
        return self.stop_at_layer

    def _watched(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, Watch]:
        watch = Watch(tensor, mark.owner)

        def note(amount: Tensor) -> None:
            watch.note(self.target, amount)

        own = None
        if mark.sum is None:
            (found,) = neurons.Noted.apply(note, (None,), self._stops, self.finished(tensor, mark))
        else:
            found, own = self.passed(self.at(tensor, mark), mark.sum, mark.node, note, stops=self._stops)
            found = found.view_as(found) if found is tensor else found
        known = self.attach(found, Mark(self.token, mark.node, found._version, own, mark.fixed, before=None))
        if own is not None:  # where the sum ends here, it is the neuron that is watched
            known.done = neurons.Noted.apply(note, (None,), self._stops, self.finished(tensor, mark))[0]
        return found, watch

    def put(
        self,
        tensor: Tensor,
        call: ModelCall,
        *,
        is_live: bool = True,
        gate: Gate | None = None,
        sum: OpenSum | None = None,
        log: int | None = None,
        owner: Owner = None,
        is_infinite: bool = False,
        fixed: Tensor | None = None,
    ) -> Tensor:
        """Mark a result of a call."""
        node = Node(call, is_live, gate, log, owner, is_infinite, sum is not None)
        if tensor.is_complex():
            call.is_complex = True
        call.outputs += (node,)
        mark = Mark(self.token, node, tensor._version, sum, fixed)
        put_mark(tensor, mark)
        if sum is not None:
            self._marks.append(ref(mark))
        base = tensor._base
        if base is not None and KEY not in base.__dict__:
            self.bases.setdefault(id(base), (base, tensor))
        return tensor

    def agreed(self, call: ModelCall, tensors: Sequence[tuple[Tensor, Mark]], result: Tensor) -> Owner:
        """The owner of the result of an elementwise call."""
        if self.samples.is_one:
            return None
        first = tensors[0][1].owner if tensors else None
        if (
            isinstance(first, int)
            and all([not mark.is_live or (type(mark.owner) is int and mark.owner == first) for _, mark in tensors])
            and tensors[0][1].is_live
        ):
            return first
        return self.samples.agreed(
            call, [(mark.owner, t.shape) for t, mark in tensors if mark.is_live], result.shape, result.device
        )

    def refuse(self, call: ModelCall) -> None:
        """Note that relevance came to a call that it cannot pass; raise, unless this is a survey."""
        if not self.is_survey:
            raise blocked([Blocked(call.function, call.layer, call.refused or "")])
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


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written to."""
    return 0 if tensor.is_inference() else tensor._version


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers; what is not a number counts as the same."""
    return (
        one.shape == other.shape and one.dtype == other.dtype and bool(((one == other) | (one != one) & (other != other)).all())
    )


def _is_alias(one: Tensor, other: Tensor) -> bool:
    return (
        one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype == other.dtype
    )


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
