"""Calls that write in place. A tensor that is written to becomes a buffer: PyTorch's graph follows what lies where in it.

An open buffer has its wire and biases in memory of their own, laid out like it; every write is made there, too. A view of a
buffer is read from the buffer, whatever was written since the view was made.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

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
from whence.engine.rule import NoRule, OverwrittenError, Rule
from whence.equations import Sides
from whence.trees import leaves_of

if TYPE_CHECKING:
    from whence.engine.run import ModelRun


def written(run: "ModelRun", operation: Operation, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Make a call in place."""
    if not isinstance(args[0], Tensor):
        raise NoRule("it changes several tensors in place")
    target = args[0]
    contents = [
        mark for leaf in leaves_of((args[1:], kwargs)) if isinstance(leaf, Tensor) and (mark := run.look(leaf)) is not None
    ]
    own = run.look(target) if KEY in target.__dict__ or target._base is not None else None
    is_live = any(mark.is_live for mark in contents) or (own is not None and own.is_live)
    if not is_live or (operation.erases and not contents and target._base is None):
        with torch.no_grad():
            result = func(*args, **kwargs)
        if operation.name == "set":  # it takes over memory that others may have filled
            delattr(target, KEY) if KEY in target.__dict__ else None
        else:
            run.note_constant(target)
        return result
    kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
    if isinstance(operation.rule, Rule) and operation.rule.squashes and own is not None:
        with run:  # relevance may start before it, at what is written over here
            args = (target.clone(), *args[1:])
    if operation.erases or operation.writes:
        return _content_written(run, operation, func, args, kwargs)
    is_python = getattr(func, "__module__", "") == "torch.nn.functional" and hasattr(func, "__code__")
    function = func if is_python else _out_of_place(operation.name)
    if function is None or not operation.has_rule:
        raise NoRule("it changes a tensor in place")
    rewrite = operation.rewrite or run.apart(operation, [arg for arg in args[:2] if isinstance(arg, Tensor)])
    if rewrite is None:
        result = run.call(operation, function, args, kwargs)
    else:
        with run:
            result = rewrite(*args, **kwargs)
    mark = run.look(result) if isinstance(result, Tensor) else None
    if mark is None:
        raise NoRule("it changes a tensor in place")
    if operation.moves_ids and function is not func:  # such as transpose_: the numbers stay
        base = target if target._base is None else target._base
        known = run.look(base)
        try:
            func(*args, **kwargs)
        except RuntimeError as error:  # PyTorch lets nobody change one of several views
            if not run.is_safe:
                raise OverwrittenError from error
            raise
        if known is not None and known.is_live:  # other views of it are read from it
            known.is_buffer, known.version = True, base._version
        return _renamed(run, target, mark)
    if result.shape != target.shape:
        raise NoRule("it changes the shape of a tensor in place")
    return _assigned(run, target, result, mark)


def _out_of_place(name: str) -> Function | None:
    """The function that an in-place spelling computes: a tensor's method, or a function of torch or torch.nn.functional."""
    return next((getattr(home, name) for home in (Tensor, torch, nn.functional) if hasattr(home, name)), None)


def _renamed(run: "ModelRun", target: Tensor, mark: Mark) -> Tensor:
    """Let a tensor that got another form in place stand for the result of the call out of place."""
    own = Mark(mark.run, mark.node, target._version, mark.sum, mark.fixed, is_buffer=True, done=mark.done)
    run.attach(target, own)
    run.set_buffers()  # its views are of other versions now
    return target


def _assigned(run: "ModelRun", target: Tensor, content: Tensor, mark: Mark) -> Tensor:
    """Put a result into the tensor that it was computed from; from then on the one stands for the other."""
    if target._base is not None:
        call = cast(ModelCall, mark.node.call)
        _put(run, call, target, _copied, content, _whole, mark)
        return target
    given = run.at(content, mark) if mark.late is None else run.finished(content, mark)
    done = mark.done
    try:
        target.copy_(given)
    except RuntimeError:
        raise NoRule("it writes into an expanded tensor, whose elements share memory; use a copy") from None
    twin = None if mark.twin is None else mark.twin.clone()
    own = Mark(
        mark.run, mark.node, target._version, mark.sum, mark.fixed, is_buffer=True, done=done, twin=twin, before=mark.before
    )
    run.attach(target, own)
    run.set_buffers()
    return target


def _content_written(run: "ModelRun", operation: Operation, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Make a call that puts something into a tensor: y[i] = x, copy_, fill_, zero_."""
    target, name = args[0], operation.name
    call = ModelCall(run.rule_of(operation), name, run.layer, func, run.rules.product)
    if name == "setitem":
        index, content = args[1], args[2]

        def put(place: Tensor, given: Tensor) -> None:
            place[index] = given

        def spot_in(place: Tensor) -> Tensor:
            return place[index]
    else:
        content = 0.0 if name == "zero" else args[1]
        if name == "fill" and isinstance(content, Tensor) and run.look(content) is not None:
            raise NoRule("it fills a tensor with a number that depends on the input")
        put, spot_in = _copied, _whole
    with torch.no_grad():
        shape = spot_in(target).shape
    nodes = [mark.node for each in (target, content) if isinstance(each, Tensor) and (mark := run.look(each)) is not None]
    call.inputs = tuple(dict.fromkeys(nodes))
    call.sources = tuple(node for node in call.inputs if node.is_live)
    run.calls.append(call)
    mark = run.look(content) if isinstance(content, Tensor) else None
    if not isinstance(content, Tensor) or mark is None:
        content = torch.as_tensor(content, dtype=target.dtype, device=target.device).detach()
        is_counted = isinstance(args[-1], Tensor)
        try:
            content = content.expand(shape)
        except RuntimeError:
            is_counted = True  # PyTorch leaves out axes of size 1 itself
    else:
        is_counted = True
        if name == "setitem" and _loses_elements(target, content, put, spot_in):
            raise NoRule("it puts several elements in one place, and only the last one stays")
    _put(run, call, target, put, content, spot_in, mark, is_counted=is_counted)
    return None if name == "setitem" else target


def _loses_elements(
    target: Tensor, content: Tensor, put: Callable[[Tensor, Tensor], None], spot_in: Callable[[Tensor], Tensor]
) -> bool:
    """Whether elements that are put into a tensor overwrite each other; by slices and single numbers, they cannot."""
    with torch.no_grad():
        spot, memory = spot_in(target), target.untyped_storage().data_ptr()
        if spot.untyped_storage().data_ptr() == memory:
            return False
        numbers = torch.arange(1, content.numel() + 1, dtype=torch.float64, device=content.device).view(content.shape)
        found = torch.zeros(target.shape, dtype=torch.float64, device=target.device)
        put(found, numbers)
    return len(cast(Tensor, found[found > 0].unique())) < content.numel()


def _copied(place: Tensor, given: Tensor) -> None:
    place.copy_(given)


def _whole(place: Tensor) -> Tensor:
    return place


def _put(
    run: "ModelRun",
    call: ModelCall,
    target: Tensor,
    put: Callable[[Tensor, Tensor], None],
    content: Tensor,
    spot_in: Callable[[Tensor], Tensor],
    mark: Mark | None,
    *,
    is_counted: bool = True,
) -> None:
    """Write a content into the place of a tensor, on the graph. `spot_in`: the part of that place that is written to."""
    base = target if target._base is None else target._base
    if id(base) in run.bases and KEY not in base.__dict__:
        _adopt(run, base, run.bases[id(base)][1])
    whole = _buffer(run, base, call)
    mark = mark if mark is not None and mark.is_live else None
    before = whole.node

    def place(memory: Tensor) -> Tensor:
        return memory if target is base else _strided(memory, base, target)

    def read(memory: Tensor) -> Tensor:
        return spot_in(place(memory))

    def write(memory: Tensor, given: Tensor) -> None:
        put(place(memory), given)

    if mark is not None and mark.sum is not None and whole.sum is None:
        _open(run, base, whole)
    node = Node(call)
    if mark is None:  # what constants get is absorbed
        finished = cast(Tensor, neurons.Absorbed.apply(run.anchor, [content.clone()], None, node, run))
    else:
        finished = run.finished(content, mark) if whole.sum is None else content
    with torch.no_grad():
        spot = spot_in(target.detach() if target._base is None else target)
    owner = _owner_after(run, base, spot, whole, content, mark, put, place)
    try:
        if whole.sum is None:
            put(place(base), finished.to(place(base).dtype))
        else:
            _put_open(run, whole, base, place, put, content, mark, finished, is_counted=is_counted)
    except RuntimeError as error:
        if "single memory location" in str(error) or "expanded" in str(error):
            raise NoRule("it writes into an expanded tensor, whose elements share memory; use a copy") from None
        if not run.is_safe:
            raise OverwrittenError from error
        raise
    if mark is None and spot.numel() == base.numel() and spot.untyped_storage().data_ptr() == base.untyped_storage().data_ptr():
        call.sources = ()  # nothing is left of what was there
    known = [each for each in (before if before.is_live or before.gate else None, None if mark is None else mark.node) if each]
    whole.node = Node(
        call,
        gate=common_gate(known),
        log=common_log([each for each in known if each.is_live]),
        owner=owner,
        is_infinite=any(each.is_infinite for each in known) or mark is None,
        in_sum=whole.sum is not None,
    )
    if mark is None:
        whole.ownerless.append((node, read))
    if owner is not None:
        _own(run, base, whole, owner)
    call.outputs += (whole.node,)
    own = whole.sum
    for memory in (base, whole.twin, *((own.wire, *(own.sides or ())) if own is not None else ())):
        if memory is not None:
            run.written[id(memory)] = memory
    before_it = whole.before
    whole.version, whole.done, whole.alias, whole.before = base._version, None, None, None
    if before_it is not None or (mark is not None and mark.before is not None):
        writes = before_it.writes if isinstance(before_it, Contents) else ()
        if isinstance(before_it, Before):
            writes = (Written(base, Mark(run.token, before, 0, before=before_it), _whole, _copied),)
        whole.before = Contents((*writes, Written(content, mark, read, write)))
    if run.observer is not None:
        given = None if mark is None else mark.node, content
        run.observer.written(run, whole.node, (before, base), given, write)


def _own(run: "ModelRun", base: Tensor, whole: Mark, owner: Owner) -> None:
    """Tell the constants in a buffer which samples they lie beside."""
    for node, read in whole.ownerless:
        if read is _whole:
            node.owner = owner
            continue
        with torch.no_grad():
            numbers = torch.empty_strided(base.shape, base.stride(), dtype=torch.float64, device=base.device)
            numbers.copy_(run.samples.numbers(owner, base.shape, base.device))
            node.owner = run.samples.told(read(numbers))
    whole.ownerless.clear()


def _buffer(run: "ModelRun", base: Tensor, call: ModelCall) -> Mark:
    """The mark of a whole tensor that is written to."""
    run.set_buffers()
    mark = run.look(base)
    if mark is None or (not mark.is_live and not mark.is_buffer):
        node = Node(call, is_live=False)
        content = base.detach().clone()
        base.copy_(neurons.Absorbed.apply(run.anchor, [content], None, node, run))
        mark = run.attach(base, Mark(run.token, node, base._version))
        mark.ownerless.append((node, _whole))
    run.remember(mark)
    if mark.late is not None:
        run.finished(base, mark)
    if not mark.is_buffer:
        mark.is_buffer = True
        mark.twin = None if mark.twin is None else mark.twin.clone()
        if mark.sum is not None:
            _lay_out(run, base, mark)
    elif mark.sum is not None:
        _lay_out(run, base, mark)
    return mark


def _adopt(run: "ModelRun", base: Tensor, view: Tensor) -> None:
    """Mark the memory behind a result that PyTorch made as a view, as einsum does."""
    mark = run.look(view)
    if mark is None or not mark.is_live:
        return
    if view.numel() != base.numel():
        raise NoRule("it writes into a part of a tensor that no followed call made")

    def whole(memory: Tensor | None) -> Tensor | None:
        if memory is None:
            return None
        found = torch.empty_strided(base.shape, base.stride(), dtype=memory.dtype, device=memory.device)
        offset = view.storage_offset() - base.storage_offset()
        found.as_strided(view.shape, view.stride(), offset).copy_(memory)
        return found

    node, own = mark.node, mark.sum
    samples, owner = run.samples, None
    if not samples.is_one and node.owner is not None:
        owner = samples.told(cast(Tensor, whole(samples.numbers(node.owner, view.shape, view.device))))
    held = None if own is None else OpenSum(own.call, whole(own.wire), None, whole(own.bias))
    node = Node(node.call, True, node.gate, node.log, owner, node.is_infinite, node.in_sum)
    run.attach(base, Mark(run.token, node, base._version, held))
    if run.observer is not None:
        run.observer.moved(run, node, (mark.node, view), lambda memory: cast(Tensor, whole(memory)))


def _lay_out(run: "ModelRun", base: Tensor, mark: Mark) -> None:
    """Give the wire and the biases of a buffer memory like its own."""
    own = cast(OpenSum, mark.sum)
    if own.is_laid_out:
        return

    def laid(memory: Tensor) -> Tensor:
        like = torch.empty_strided(base.shape, base.stride(), dtype=memory.dtype, device=memory.device)
        return like.copy_(memory)

    if base.is_complex():  # a wire for its parts
        own = replace(own, wire=torch.zeros_like(base.detach()) if run.shares else None)
    mark.sum = replace(own.each(laid), count=None, is_laid_out=True)
    if mark.done is not None and mark.twin is None:
        mark.twin = mark.done.clone()


def _open(run: "ModelRun", base: Tensor, mark: Mark) -> None:
    """What a buffer holds becomes terms of a sum; a twin holds the same, finished."""
    mark.twin = base.clone()
    made = neurons.Opened.apply(base.clone(), mark.is_infinite, run)
    base.copy_(made[0] if run.shares else made)
    wire = made[1] if run.shares and not base.is_complex() else None
    mark.sum = OpenSum(cast(ModelCall, mark.node.call), wire, None, None)
    mark.version = base._version
    _lay_out(run, base, mark)


def _put_open(
    run: "ModelRun",
    whole: Mark,
    base: Tensor,
    place: Callable[[Tensor], Tensor],
    put: Callable[[Tensor, Tensor], None],
    content: Tensor,
    mark: Mark | None,
    finished: Tensor,
    *,
    is_counted: bool,
) -> None:
    """Write into an open buffer, its wire, its biases and its twin."""
    if whole.twin is None:
        whole.twin = _parts_finished(run, base, whole) if base.is_complex() else run.finished(base, whole).clone()
        whole.done = None
    own = cast(OpenSum, whole.sum)
    if mark is not None:
        z, given = run.opened(content, mark)
        finished = _parts_finished(run, content, mark) if content.is_complex() else run.finished(content, mark)
    elif base.is_complex():
        z, given = finished, OpenSum(own.call, None, None)
    else:
        made = neurons.Opened.apply(finished, True, run)
        z, wire = made if run.shares else (made, None)
        given = OpenSum(own.call, wire if is_counted or wire is None else wire * 0.0, None)
    put(place(base), z.to(place(base).dtype))
    put(place(whole.twin), finished.to(place(whole.twin).dtype))
    if own.wire is not None and content.is_complex():
        put(place(own.wire), torch.zeros_like(content))
    elif own.wire is not None:
        wire = run.full(content, 1.0 if given.count is None else given.count) if given.wire is None else given.wire
        put(place(own.wire), wire.to(place(own.wire).dtype))
    bias = own.bias
    if bias is not None or given.bias is not None:
        if bias is None:
            bias = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype, device=base.device).zero_()
        put(place(bias), torch.zeros_like(content) if given.bias is None else given.bias)
    if own.sides is not None:
        _put_sides(run, own, place, put, content, mark, finished)
    whole.sum = replace(own, call=given.call if mark is not None else own.call, bias=bias)


def _put_sides(
    run: "ModelRun",
    own: OpenSum,
    place: Callable[[Tensor], Tensor],
    put: Callable[[Tensor, Tensor], None],
    content: Tensor,
    mark: Mark | None,
    finished: Tensor,
) -> None:
    """Write into the sides of a buffer that is a sum of the head; a constant is one contribution."""
    if mark is not None:
        _, given = run.sided(content, mark)
        parts, biases = cast(Sides, given.sides), given.bias_sides
    else:
        parts, biases = Sides(*neurons.OpenedSides.apply(finished, run)[:2]), None
    for number in (0, 1):
        put(place(cast(Sides, own.sides)[number]), parts[number])
        if own.bias_sides is not None:
            put(place(own.bias_sides[number]), torch.zeros_like(content) if biases is None else biases[number])


def _strided(memory: Tensor, base: Tensor, view: Tensor) -> Tensor:
    """The place in a memory laid out like a tensor that a view of that tensor has; of complex numbers, it may be real."""
    start = base.storage_offset()
    if base.is_complex() and not view.is_complex():
        if view.is_neg() or base.is_conj():
            raise NoRule("it writes into a conjugate")
        memory = torch.view_as_real(memory) if memory.is_complex() else torch.stack([memory, memory], -1)
        start *= 2
    return memory.as_strided(view.shape, view.stride(), memory.storage_offset() + view.storage_offset() - start)


def _parts_finished(run: "ModelRun", tensor: Tensor, mark: Mark) -> Tensor:
    """A complex sum as a pair of finished neurons, its real and its imaginary part."""
    z = torch.view_as_real(run.at(tensor, mark))
    own = OpenSum(cast(OpenSum, mark.sum).call, run.full(z, 0.0) if run.shares else None, 0.0)
    ended = neurons.Ended.apply(z, own.wire, [neurons.alias(z.detach())], own, Node(own.call, owner=_paired(mark.owner)), run)
    return torch.view_as_complex(ended).clone()


def _paired(owner: Owner) -> Owner:
    return owner - 1 if isinstance(owner, int) else None if owner is None else owner.unsqueeze(-1)


def part_of(run: "ModelRun", tensor: Tensor, base: Tensor, whole: Mark) -> Mark:
    """The mark of a view of a buffer, which is read from the buffer."""

    def part(memory: Tensor) -> Tensor:
        return _strided(memory, base, tensor)

    with torch.inference_mode(False), torch.enable_grad():
        if whole.sum is not None:
            _lay_out(run, base, whole)
        own, before = whole.sum, whole.node
        node = Node(
            before.call, before.is_live, before.gate, before.log, _owner_of_part(run, base, tensor, before.owner),
            before.is_infinite, before.in_sum,
        )  # fmt: skip
        mark = Mark(run.token, node, tensor._version, alias=part(base))
        if own is not None:
            mark.sum = replace(own.each(lambda memory: part(memory).clone()), count=None)
            if tensor.is_complex() and run.shares:
                mark.sum.wire = run.full(tensor, 0.0).real
            mark.twin = None if whole.twin is None else part(whole.twin)
        if run.observer is not None:
            run.observer.moved(run, node, (before, base), part)
    return mark


def _axis_of_part(base: Tensor, tensor: Tensor, lane: int) -> int | None:
    """The axis of a view that steps through memory as this axis of the whole does."""
    axis = base.dim() + lane
    stride, size = base.stride(axis), base.shape[axis]
    found = [n for n in range(tensor.dim()) if tensor.stride(n) == stride and tensor.shape[n] == size]
    return found[0] - tensor.dim() if len(found) == 1 else None


def _owner_of_part(run: "ModelRun", base: Tensor, tensor: Tensor, owner: Owner) -> Owner:
    if run.samples.is_one or owner is None:
        return None
    if isinstance(owner, int) and (found := _axis_of_part(base, tensor, owner)) is not None:
        return found
    whole = torch.empty_strided(base.shape, base.stride(), dtype=torch.float64, device=base.device)
    whole.copy_(run.samples.numbers(owner, base.shape, base.device))
    return run.samples.told(_strided(whole, base, tensor))


def _owner_after(
    run: "ModelRun",
    base: Tensor,
    spot: Tensor,
    whole: Mark,
    content: Tensor,
    mark: Mark | None,
    put: Callable[[Tensor, Tensor], None],
    place: Callable[[Tensor], Tensor],
) -> Owner:
    """The owner of a buffer after a write: the write, made with sample numbers."""
    samples, before = run.samples, whole.node.owner
    if samples.is_one:
        return None
    if mark is None or mark.owner is None:
        return before
    if base.is_complex() and not spot.is_complex():
        return mark.owner if before is None and spot.shape == base.shape else before
    if isinstance(mark.owner, int) and (before is None or isinstance(before, int)):
        lane = _lane_after(base, spot, content, mark.owner)
        if lane is not None and before in (None, lane):
            return lane
    with torch.no_grad():
        numbers = torch.empty_strided(base.shape, base.stride(), dtype=torch.float64, device=base.device)
        numbers.copy_(samples.numbers(before, base.shape, base.device))
        given = samples.numbers(mark.owner, content.shape, content.device)
        put(place(numbers), given)
    for axis, size in enumerate(numbers.shape):
        row = samples.row(numbers.device).view([-1 if n == axis else 1 for n in range(numbers.dim())])
        if size == samples.count and bool(((numbers == row) | (numbers == 0)).all()):
            return axis - numbers.dim()
    return numbers


def _lane_after(base: Tensor, target: Tensor, content: Tensor, owner: int) -> int | None:
    """The axis of the whole along which samples lie, where the content fills the target as it is."""
    if content.shape != target.shape:
        return None
    axis = target.dim() + owner
    if target.untyped_storage().data_ptr() != base.untyped_storage().data_ptr():
        return None
    found = [n for n in range(base.dim()) if base.stride(n) == target.stride(axis) and base.shape[n] == target.shape[axis]]
    return found[0] - base.dim() if len(found) == 1 else None
