"""Calls that write in place. A tensor that is written to becomes a buffer: PyTorch's graph follows what lies where in it.

An open buffer has its wire and biases in memory of their own, laid out like it; every write is made there, too. A view of a
buffer is read from the buffer, whatever was written since the view was made.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from whence.engine import neurons
from whence.engine.marks import (
    KEY,
    Args,
    Before,
    Contents,
    Function,
    Kwargs,
    Mark,
    ModelCall,
    Node,
    OpenSum,
    Owner,
    Written,
    common_gate,
    common_log,
)
from whence.engine.operation import Operation
from whence.engine.rule import NoRule, OverwrittenError
from whence.engine.sides import OpenedSides
from whence.equations import Sides
from whence.trees import tensors_of

if TYPE_CHECKING:
    from whence.engine.run import ModelRun

WHOLE = object()  # the index of all elements
IN_PLACE = "it changes a tensor in place"
EXPANDED = "it writes into an expanded tensor, whose elements share memory; use a copy"


class Place:
    """Where a call writes: a tensor or a part of it, in its own memory and in all memory that is laid out like that."""

    def __init__(self, target: Tensor, index: Any = WHOLE) -> None:
        self.base = target if target._base is None else target._base
        self._target, self._index = target, index
        self.spot = self.read(self.base.detach())  # what is written over

    def read(self, memory: Tensor) -> Tensor:
        """What lies there in a memory."""
        part = _strided(memory, self.base, self._target)
        return part if self._index is WHOLE else part[self._index]

    def write(self, memory: Tensor, given: Tensor) -> None:
        """Write there in a memory."""
        part = _strided(memory, self.base, self._target)
        if self._index is WHOLE:
            part.copy_(given)
        else:
            part[self._index] = given.to(part.dtype)

    def is_in(self, tensor: Tensor) -> bool:
        """Whether it is a part of a tensor's own memory, as slices and single numbers give it."""
        return self.spot.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()

    def loses(self, content: Tensor) -> bool:
        """Whether elements that are put there overwrite each other."""
        if self.is_in(self.base):
            return False
        found = torch.zeros(self._target.shape, dtype=torch.long, device=content.device)
        found[self._index] = torch.arange(1, content.numel() + 1, device=content.device).view(content.shape)
        return len(cast(Tensor, found[found > 0].unique())) < content.numel()


def written(run: "ModelRun", operation: Operation, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Make a call in place."""
    target = args[0]
    known = (target if target._base is None else target._base).__dict__.get(KEY)
    if type(known) is Mark and known.carrier is not None:  # with copies, nothing is off the graph
        raise OverwrittenError
    if not isinstance(target, Tensor):
        raise NoRule("it changes several tensors in place")
    maker = (target if target._base is None else target._base).grad_fn
    if isinstance(maker, BackwardCFunction) and not issubclass(cast(Any, maker)._forward_cls, neurons.Neuron):
        raise NoRule("it writes to a tensor that an autograd.Function marked as dirty; use a copy")
    contents = [mark for each in tensors_of((args[1:], kwargs)) if (mark := run.look(each)) is not None]
    own = run.look(target) if KEY in target.__dict__ or target._base is not None else None
    is_live = any(mark is not None and mark.is_live for mark in (own, *contents))
    if not is_live or (operation.erases and not contents and target._base is None):
        return _made_constant(run, operation, func, args, kwargs)
    if run.rule_of(operation).squashes and own is not None:
        with run:  # relevance may start before it, at what is written over here
            args = (target.clone(), *args[1:])
    if operation.erases or operation.writes:
        return _content_written(run, operation, func, args)
    function = _out_of_place(func, operation.name)
    if function is None or not operation.has_rule:
        raise NoRule(IN_PLACE)
    kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
    result, mark = _result(run, operation, function, args, kwargs)
    if operation.ids == "moves" and function is not func:  # such as transpose_: the numbers stay
        _rearrange(run, target, func, args, kwargs)
        return _renamed(run, target, mark)
    if result.shape != target.shape:
        raise NoRule("it changes the shape of a tensor in place")
    return _assigned(run, target, result, mark)


def _made_constant(run: "ModelRun", operation: Operation, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Make a call that leaves nothing but constants in a tensor."""
    target = args[0]
    with torch.no_grad():
        result = func(*args, **kwargs)
    if operation.name == "set":  # it takes over memory that others may have filled
        target.__dict__.pop(KEY, None)
    else:
        run.note_constant(target)
    return result


def _out_of_place(func: Function, name: str) -> Function | None:
    """The function that an in-place spelling computes: a tensor's method, or a function of torch or torch.nn.functional."""
    if getattr(func, "__module__", "") == "torch.nn.functional" and hasattr(func, "__code__"):
        return func  # without `inplace`
    return next((getattr(home, name) for home in (Tensor, torch, nn.functional) if hasattr(home, name)), None)


def _result(run: "ModelRun", operation: Operation, function: Function, args: Args, kwargs: Kwargs) -> tuple[Tensor, Mark]:
    """The result of the call out of place, and its mark."""
    rewrite = operation.rewrite or run.apart(operation, [arg for arg in args[:2] if isinstance(arg, Tensor)])
    if rewrite is None:
        result = run.call(operation, function, args, kwargs)
    else:
        with run:
            result = rewrite(*args, **kwargs)
    mark = run.look(result) if isinstance(result, Tensor) else None
    if mark is None:
        raise NoRule(IN_PLACE)
    return result, mark


def _rearrange(run: "ModelRun", target: Tensor, func: Function, args: Args, kwargs: Kwargs) -> None:
    """Give a tensor another form in place; other views of its memory are read from there from now on."""
    base = target if target._base is None else target._base
    known = run.look(base)
    try:
        func(*args, **kwargs)
    except RuntimeError as error:  # PyTorch lets nobody change one of several views
        if not run.is_safe:
            raise OverwrittenError from error
        raise
    if known is not None and known.is_live:
        known.is_buffer, known.version = True, base._version


def _renamed(run: "ModelRun", target: Tensor, mark: Mark, twin: Tensor | None = None) -> Tensor:
    """Let a tensor stand for the result of the call out of place, which it holds now."""
    version, done, before = target._version, mark.done, mark.before
    known: dict[str, Any] = {"before": before, "rest": mark.rest, "resting": mark.resting, "state": mark.state}
    run.attach(target, Mark(mark.run, mark.node, version, mark.sum, mark.fixed, True, done, twin, **known))
    run.set_buffers()  # its views are of other versions now
    return target


def _assigned(run: "ModelRun", target: Tensor, content: Tensor, mark: Mark) -> Tensor:
    """Put a result into the tensor that it was computed from."""
    if target._base is not None:
        _put(run, cast(ModelCall, mark.call), Place(target), content, mark)
        return target
    given = run.at(content, mark) if mark.late is None else run.finished(content, mark)
    try:
        target.copy_(given)
    except RuntimeError:
        raise NoRule(EXPANDED) from None
    return _renamed(run, target, mark, None if mark.twin is None else mark.twin.clone())


def _content_written(run: "ModelRun", operation: Operation, func: Function, args: Args) -> Any:
    """Make a call that puts something into a tensor: y[i] = x, copy_, fill_, zero_."""
    target, name = args[0], operation.name
    index = args[1] if name == "setitem" else WHOLE
    content: Any = 0.0 if name == "zero" else args[1 if index is WHOLE else 2]
    mark = run.look(content) if isinstance(content, Tensor) else None
    if name == "fill" and mark is not None:
        raise NoRule("it fills a tensor with a number that depends on the input")
    place = Place(target, index)
    call = ModelCall(run.rule_of(operation), name, run.layer, func, run.rules.product)
    call.inputs = tuple(dict.fromkeys(each.node for each in (run.look(target), mark) if each is not None))
    call.sources = tuple(node for node in call.inputs if node.is_live)
    run.calls.append(call)
    if mark is None:
        content = torch.as_tensor(content, dtype=target.dtype, device=target.device).detach()
        if content.dim() <= place.spot.dim():  # otherwise, PyTorch leaves out axes of size 1 itself
            content = content.expand(place.spot.shape)
    elif name == "setitem" and place.loses(content):
        raise NoRule("it puts several elements in one place, and only the last one stays")
    _put(run, call, place, content, mark, is_counted=isinstance(args[-1], Tensor))
    return None if name == "setitem" else target


def _put(
    run: "ModelRun", call: ModelCall, place: Place, content: Tensor, mark: Mark | None, *, is_counted: bool = True
) -> None:
    """Write a content into a place, on the graph. A plain number that is written is not counted as a lower neuron."""
    base, mark = place.base, mark if mark is not None and mark.is_live else None
    whole = _buffer(run, base, call)
    given, before = content, whole.node
    if mark is None:  # what constants get is absorbed
        node = Node(call)
        whole.ownerless.append((node, place.read))
        given = cast(Tensor, neurons.Absorbed.apply(run.anchor, [content.clone()], None, node, run))
        if place.is_in(base) and place.spot.numel() == base.numel():
            call.sources = ()  # nothing is left of what was there
    elif (mark.sum is not None or mark.resting is not None) and whole.sum is None:
        _open(run, base, whole)
    owner = _owner_after(run, place, before.owner, content, mark)
    try:
        for memory, part in _parts(run, base, whole, given, mark, is_counted=is_counted):
            place.write(memory, part)
            run.written[id(memory)] = memory
    except RuntimeError as error:
        if "single memory location" in str(error) or "expanded" in str(error):
            raise NoRule(EXPANDED) from None
        if not run.is_safe:
            raise OverwrittenError from error
        raise
    whole.node = _node_after(call, before, None if mark is None else mark.node, owner, in_sum=whole.sum is not None)
    call.outputs += (whole.node,)
    if owner is not None:  # constants belong to the samples they lie beside
        for node, read in whole.ownerless:
            node.owner = _owner_moved(run, owner, base, read)
        whole.ownerless.clear()
    whole.before = _contents(run, whole.before, before, Written(content, mark, place.read, place.write), base)
    whole.version, whole.done, whole.alias = base._version, None, None
    if run.observer is not None:
        run.observer.written(run, whole.node, (before, base), (None if mark is None else mark.node, content), place.write)


def _contents(run: "ModelRun", known: Before | Contents | None, before: Node, write: Written, base: Tensor) -> Contents | None:
    """What was written into a buffer, where squashed scores are among it."""
    if known is None and (write.mark is None or write.mark.before is None):
        return None
    writes = known.writes if isinstance(known, Contents) else ()
    if isinstance(known, Before):
        place = Place(base)
        writes = (Written(base, Mark(run.token, before, 0, before=known), place.read, place.write),)
    return Contents((*writes, write))


def _node_after(call: ModelCall, before: Node, content: Node | None, owner: Owner, *, in_sum: bool) -> Node:
    """The node of a buffer after a write: of a content, or of constants."""
    known = [node for node in (before if before.is_live or before.gate else None, content) if node is not None]
    gate, log = common_gate(known), common_log([node for node in known if node.is_live])
    is_infinite = content is None or any(node.is_infinite for node in known)
    return Node(call, gate=gate, log=log, owner=owner, is_infinite=is_infinite, in_sum=in_sum)


def _buffer(run: "ModelRun", base: Tensor, call: ModelCall) -> Mark:
    """The mark of a whole tensor that is written to."""
    if id(base) in run.bases and KEY not in base.__dict__:
        _adopt(run, base, run.bases[id(base)][1])
    run.set_buffers()
    mark = run.look(base)
    if mark is None or (not mark.is_live and not mark.is_buffer):
        node = Node(call, is_live=False, is_infinite=not run.is_finite(base))
        base.copy_(neurons.Absorbed.apply(run.anchor, [base.detach().clone()], None, node, run))
        mark = run.attach(base, Mark(run.token, node, base._version))
        mark.ownerless.append((node, Place(base).read))
    run.remember(mark)
    if mark.late is not None:
        run.finished(base, mark)
    if not mark.is_buffer and mark.twin is not None:
        mark.twin = mark.twin.clone()
    mark.is_buffer = True
    if mark.resting is not None:
        _open(run, base, mark)
    _lay_out(run, base, mark)
    return mark


def _adopt(run: "ModelRun", base: Tensor, view: Tensor) -> None:
    """Mark the memory behind a result that PyTorch made as a view, as einsum does."""
    mark = run.look(view)
    if mark is None or not mark.is_live:
        return
    if view.numel() != base.numel():
        raise NoRule("it writes into a part of a tensor that no followed call made")

    def whole(memory: Tensor) -> Tensor:
        return laid(memory, base, view)

    node, own = _moved(run, mark.node, view, whole), None if mark.sum is None else mark.sum.each(whole)
    run.attach(base, Mark(run.token, node, base._version, own))


def laid(part: Tensor, base: Tensor, view: Tensor | None = None) -> Tensor:
    """What belongs to a tensor or to a view of it, in memory of its own, laid out like the tensor."""
    found = torch.empty_strided(base.shape, base.stride(), dtype=part.dtype, device=part.device)
    _strided(found, base, base if view is None else view).copy_(part)
    return found


def _lay_out(run: "ModelRun", base: Tensor, mark: Mark) -> None:
    """Give the wire and the biases of a buffer memory like its own."""
    own = mark.sum
    if own is None or own.is_laid_out:
        return
    if base.is_complex():  # a wire for its parts
        own = replace(own, wire=torch.zeros_like(base.detach()) if run.shares else None)
    mark.sum = replace(own.each(lambda part: laid(part, base)), count=None, is_laid_out=True)
    if mark.done is not None and mark.twin is None:
        mark.twin = mark.done.clone()


def _term(run: "ModelRun", call: ModelCall, x: Tensor, *, is_infinite: bool) -> tuple[Tensor, OpenSum]:
    """What a buffer held, or is given, as a term of a sum."""
    if x.is_complex():
        return x, OpenSum(call)
    made = neurons.Opened.apply(x, [x], is_infinite, run)
    z, wire = made if run.shares else (made, None)
    return z, OpenSum(call, wire)


def _open(run: "ModelRun", base: Tensor, mark: Mark) -> None:
    """What a buffer holds becomes terms of a sum; a twin holds the same, finished."""
    mark.twin = base.clone()
    if mark.rests:
        z, mark.sum = run.rested(base.clone() if mark.resting is None else base, mark)
        mark.rest = mark.resting = None
    else:
        z, mark.sum = _term(run, cast(ModelCall, mark.call), base.clone(), is_infinite=mark.is_infinite)
    base.copy_(z)
    mark.version = base._version
    _lay_out(run, base, mark)


def _parts(
    run: "ModelRun", base: Tensor, whole: Mark, content: Tensor, mark: Mark | None, *, is_counted: bool
) -> list[tuple[Tensor, Tensor]]:
    """Every memory of a buffer, and what of a content is written there."""
    own = whole.sum
    if own is None:
        found = [(base, content if mark is None else run.finished(content, mark))]
        if whole.rest is not None or (mark is not None and mark.rest is not None):
            if not isinstance(whole.rest, Tensor):  # constants rest at what they are
                whole.rest = laid(run.rest_of(base.detach(), whole) if whole.is_live else base.detach(), base)
            found.append((whole.rest, content.detach() if mark is None else run.rest_of(content.detach(), mark)))
        return found
    if whole.twin is None:
        whole.twin, whole.done = _finished(run, base, whole).clone(), None
    if mark is not None:
        z, given = run.rested(content, mark) if mark.rests or own.rest is not None else run.opened(content, mark)
        if own.rest is None and given.rest is not None:
            whole.sum = own = replace(own, rest=laid(base.new_zeros(()) if whole.is_live else base.detach(), base))
        if own.sides is not None:
            sided = run.sided(content, mark)[1]
            given = replace(given, sides=sided.sides, bias_sides=sided.bias_sides)
        finished = _finished(run, content, mark)
    else:
        z, given = _term(run, own.call, content, is_infinite=True)
        given.rest = None if own.rest is None else content.detach()
        if own.sides is not None:
            given.sides = Sides(*OpenedSides.apply(content, None, None, run)[:2])
        if given.wire is not None and not is_counted:
            given.wire = given.wire * 0.0
        finished = content
    if content.is_complex():
        given = replace(given, wire=None)
    if own.bias is None and given.bias is not None:
        own = replace(own, bias=laid(base.new_zeros(()), base))
    whole.sum = own = replace(own, call=given.call)
    nothing = torch.zeros_like(content)
    pairs = [(own.wire, given.wire), (own.bias, given.bias), (own.rest, given.rest)]
    for sides, others in ((own.sides, given.sides), (own.bias_sides, given.bias_sides)):
        pairs += [] if sides is None else zip(sides, others or (None, None), strict=True)
    return [(base, z), (whole.twin, finished), *((m, nothing if part is None else part) for m, part in pairs if m is not None)]


def _finished(run: "ModelRun", tensor: Tensor, mark: Mark) -> Tensor:
    """A finished neuron; a complex sum becomes a pair of them, its real and its imaginary part."""
    if mark.sum is None or not tensor.is_complex():
        return run.finished(tensor, mark)
    z, owner = torch.view_as_real(run.at(tensor, mark)), mark.owner
    paired = owner - 1 if isinstance(owner, int) else None if owner is None else owner.unsqueeze(-1)
    own = OpenSum(mark.sum.call, run.full(z, 0.0) if run.shares else None, 0.0)
    ended = neurons.Ended.apply(z, own.wire, [neurons.alias(z.detach())], own, Node(own.call, owner=paired), run)
    return torch.view_as_complex(ended)


def _strided(memory: Tensor, base: Tensor, view: Tensor) -> Tensor:
    """The place in a memory laid out like a tensor that a view of that tensor has; of complex numbers, it may be real."""
    if view is base:
        return memory
    start = base.storage_offset()
    if base.is_complex() and not view.is_complex():
        if view.is_neg() or base.is_conj():
            raise NoRule("it writes into a conjugate")
        memory = torch.view_as_real(memory) if memory.is_complex() else torch.stack([memory, memory], -1)
        start *= 2
    return memory.as_strided(view.shape, view.stride(), memory.storage_offset() + view.storage_offset() - start)


def part_of(run: "ModelRun", tensor: Tensor, base: Tensor, whole: Mark) -> Mark:
    """The mark of a view of a buffer, which is read from the buffer."""

    def part(memory: Tensor) -> Tensor:
        return _strided(memory, base, tensor)

    with torch.inference_mode(False), torch.enable_grad():
        _lay_out(run, base, whole)
        mark = Mark(run.token, _moved(run, whole.node, base, part), tensor._version, alias=part(base))
        if whole.sum is not None:
            mark.sum = whole.sum.each(lambda memory: part(memory).clone())
            if tensor.is_complex() and run.shares:
                mark.sum.wire = run.full(tensor, 0.0).real
            mark.twin = None if whole.twin is None else part(whole.twin)
        mark.rest = part(whole.rest) if isinstance(whole.rest, Tensor) else whole.rest
    return mark


def _moved(run: "ModelRun", node: Node, source: Tensor, move: Callable[[Tensor], Tensor]) -> Node:
    """The node of what a move makes of a tensor."""
    found = replace(node, owner=_owner_moved(run, node.owner, source, move))
    if run.observer is not None:
        run.observer.moved(run, found, (node, source), move)
    return found


def _owner_moved(run: "ModelRun", owner: Owner, source: Tensor, move: Callable[[Tensor], Tensor]) -> Owner:
    """The owner of what a move makes of a tensor: the same move, made with sample numbers."""
    if run.samples.is_one or owner is None:
        return None
    axis = _same_axis(source, owner, move(source.detach()))
    if axis is not None:
        return axis
    return run.samples.told(move(laid(run.samples.numbers(owner, source.shape, source.device), source)))


def _owner_after(run: "ModelRun", place: Place, before: Owner, content: Tensor, mark: Mark | None) -> Owner:
    """The owner of a buffer after a write: the same write, made with sample numbers."""
    samples, base, spot = run.samples, place.base, place.spot
    if samples.is_one:
        return None
    if mark is None or mark.owner is None:
        return before
    if base.is_complex() and not spot.is_complex():
        return mark.owner if before is None and spot.shape == base.shape else before
    axis = _same_axis(spot, mark.owner, base) if content.shape == spot.shape else None
    if axis is not None and (before is None or (isinstance(before, int) and before == axis)):
        return axis
    numbers = laid(samples.numbers(before, base.shape, base.device), base)
    place.write(numbers, samples.numbers(mark.owner, content.shape, content.device))
    return samples.told(numbers)


def _same_axis(tensor: Tensor, owner: Owner, other: Tensor) -> int | None:
    """The axis of another view of the same memory that steps through it as samples do along an axis of this one."""
    if not isinstance(owner, int) or tensor.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return None
    step = tensor.stride(owner), tensor.shape[owner]
    found = [n for n in range(-other.dim(), 0) if (other.stride(n), other.shape[n]) == step]
    return found[0] if len(found) == 1 else None
