"""Calls that only move numbers: relevance moves with them, by PyTorch's own derivative, whose entries are 0 and 1."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from whence.engine import neurons
from whence.engine.marks import Args, Before, Kwargs, Mark, ModelCall, OpenSum, Owner, common_gate, common_log
from whence.engine.rule import NoRule, Refused, Rule
from whence.engine.run import ModelRun
from whence.engine.samples import completed
from whence.equations import Sides, sides_of
from whence.trees import floats_of, leaves_of, mapped, rebuilt


class Moved:
    """A call that moves numbers: its tensors, and the call made again with others in their place."""

    def __init__(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> None:
        self.run, self.call = run, call
        self._leaves, self._form = leaves_of((args, kwargs)), (args, kwargs)
        self.tensors = [
            leaf for leaf in self._leaves if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())
        ]
        known = ((tensor, run.look(tensor)) for tensor in self.tensors)
        self.marked = [(tensor, mark) for tensor, mark in known if mark is not None]
        self.live = [(tensor, mark) for tensor, mark in self.marked if mark.is_live]

    def again(self, stand_in: Callable[[Tensor], Tensor]) -> Any:
        """The result for other numbers."""

        def replaced(leaf: object, *, is_apart: bool = False) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            if leaf.is_floating_point() or leaf.is_complex():
                return stand_in(leaf).clone() if is_apart else stand_in(leaf)
            return leaf.clone() if self.run.is_safe else leaf  # a model may write over an index

        args, kwargs = rebuilt(self._form, [replaced(leaf) for leaf in self._leaves])
        result = self.call.function(*args, **kwargs)
        if self.run.is_safe and not any(
            each._base is not None or each is given for each in floats_of(result) for given in self.tensors
        ):
            args, kwargs = rebuilt(self._form, [replaced(leaf, is_apart=True) for leaf in self._leaves])
            result = self.call.function(*args, **kwargs)
        return result if not self.run.is_safe or isinstance(result, Tensor) else mapped(_single_view, result)

    def fill(self) -> list[Tensor]:
        """What the call fills in of its own."""
        return floats_of(self._without_views(lambda tensor: self.run.full(tensor, 0.0)))

    def _without_views(self, stand_in: Callable[[Tensor], Tensor]) -> Any:
        try:
            return self.again(stand_in)
        except RuntimeError:  # a view, which tensors that are expanded along an axis do not allow
            return self.again(lambda tensor: stand_in(tensor).contiguous())

    def less_fill(self, stand_in: Callable[[Tensor], Tensor], *, fills: bool) -> list[Tensor]:
        """What the call moves, without the numbers that it fills in; a mask fills with infinities."""
        found = floats_of(self._without_views(stand_in))
        if not fills:
            return found
        return [(each - own.detach()).nan_to_num(0.0, 0.0, 0.0) for each, own in zip(found, self.fill(), strict=True)]

    def of(self, tensor: Tensor) -> Mark | None:
        """The mark of one of the tensors, if it is live."""
        return next((mark for each, mark in self.live if each is tensor), None)


def _given_back(result: Any, given: dict[int, Tensor]) -> tuple[Any, bool]:
    """The result with what the call was given in place of what it gives back as it is; and whether that is all of it."""
    outputs = floats_of(result)
    if outputs and all(id(each) in given for each in outputs):
        return mapped(lambda leaf: given.get(id(leaf), leaf), result), True
    if any(id(each) in given for each in outputs):
        result = mapped(lambda leaf: leaf.view_as(leaf) if id(leaf) in given else leaf, result)
    return result, False


def _single_view(leaf: object) -> object:
    """One of several views, as a view of its own: PyTorch lets nobody write into the former on a graph."""
    base = leaf._base if isinstance(leaf, Tensor) else None
    if not isinstance(leaf, Tensor) or base is None or not base.requires_grad:
        return leaf
    if base.is_complex() and not leaf.is_complex():
        base = torch.view_as_real(base)
    return base.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())


class Routing(Rule):
    """A call that copies, drops and rearranges elements. Relevance that reaches a constant is absorbed.

    `fills`: it fills places that nothing is moved to with numbers of its own. `overwrites`: it writes elements into a tensor,
    where a later one can overwrite an earlier one. `casts`: it only changes precision or device.
    """

    words = "moves numbers"
    moves = has_sides = True

    def __init__(self, *, fills: bool = False, overwrites: bool = False, casts: bool = False) -> None:
        self.fills, self.overwrites, self.casts = fills, overwrites, casts
        self.rearranges = not (fills or overwrites)
        self.words = "changes precision or device" if casts else self.words

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        if self.rearranges and not self.casts and len(call.tensors) == 1 and args and args[0] is call.tensors[0]:
            mark = call.marks[0]
            if mark is not None and mark.is_live and self._is_plain(run, mark):
                return self._moved(run, call, mark, args, kwargs)
        moved = Moved(run, call, args, kwargs)
        call.sources = tuple(dict.fromkeys(mark.node for _, mark in moved.live))
        if not moved.live:
            return self._constant(run, call, moved)
        if self.casts:
            return self._cast(run, call, moved, args, kwargs)
        if self.overwrites and loses_elements(moved):
            raise NoRule("it puts several elements in one place, and only the last one stays")
        has_constants = not self.casts and (self.fills or len(moved.live) < len(moved.tensors))
        is_open = any(mark.sum is not None for _, mark in moved.marked)
        kept = (
            moved.less_fill(lambda t: run.full(t, float(moved.of(t) is not None)), fills=self.fills) if has_constants else None
        )
        homes = {mark.sum.call for _, mark in moved.live if mark.sum is not None}
        is_mixed = (
            has_constants
            or len(homes) != 1
            or any(mark.sum is None or mark.uncast or mark.twin is not None for _, mark in moved.live)
        )
        ends: list[Tensor] = []
        result: Any = None
        if not is_open or is_mixed:
            finished = {id(t): run.finished(t, mark) for t, mark in moved.live}
            result = moved.again(lambda t: finished[id(t)] if id(t) in finished else run.constant(t))
            result, is_given = _given_back(result, {id(finished[id(t)]): t for t, _ in moved.live})
            if is_given:
                return result
            ends = floats_of(result)
            self._tap(run, call, ends, kept)
        sums: Sequence[OpenSum | None] | None = [None] * len(ends)
        if is_open:
            result, sums = self._opened(run, call, moved, kept, has_constants=has_constants)
            if sums is None:
                return result
        return self._noted(run, call, moved, args, kwargs, result, sums, ends if is_open and is_mixed else [])

    def _is_plain(self, run: ModelRun, mark: Mark) -> bool:
        own = mark.sum
        return (
            mark.fixed is None
            and mark.before is None
            and mark.uncast is None
            and mark.twin is None
            and not (run.is_audit or run.is_safe)
            and (own is None or own.sides is None)
        )

    def _moved(self, run: ModelRun, call: ModelCall, mark: Mark, args: Args, kwargs: Kwargs) -> Any:
        """One tensor as a whole: the call on the tensor, on its wire and on its biases."""
        x, own = args[0], mark.sum
        call.sources = (mark.node,)
        z = run.at(x, mark) if own is not None else run.finished(x, mark)

        def again(tensor: Tensor) -> Sequence[Tensor]:
            found = call.function(tensor, *args[1:], **kwargs)
            return (found,) if isinstance(found, Tensor) else found

        result = call.function(z, *args[1:], **kwargs)
        outputs = (result,) if isinstance(result, Tensor) else cast(Sequence[Tensor], result)
        if any([each is z for each in outputs]):
            return x
        if outputs[0].dtype != x.dtype:
            raise Refused("numbers are read as another type")
        wires: Sequence[Tensor | None] = [None] * len(outputs)
        biases = wires
        if own is not None and own.wire is not None:
            wires = self._wires_of(call.name, x, own.wire, args, kwargs, len(outputs)) or again(_like(own.wire, x))
        if own is not None and own.bias is not None:
            biases = again(_like(own.bias, x))
        node, owners = mark.node, self._places(run, call, mark, x, outputs, again, args, kwargs)
        for out, wire, bias, owner in zip(outputs, wires, biases, owners, strict=True):
            sum_of = None if own is None else OpenSum(own.call, wire, own.count, bias)
            run.put(out, call, gate=node.gate, sum=sum_of, log=node.log, owner=owner, is_infinite=node.is_infinite)
        return result

    def _wires_of(self, name: str, x: Tensor, wire: Tensor, args: Args, kwargs: Kwargs, count: int) -> Sequence[Tensor] | None:
        """The wires of the results, where that of the sum has a last axis of size 1 and keeps it; None if it does not."""
        if wire.shape == x.shape:
            return None
        if name == "getitem":
            is_single = not isinstance(args[1], tuple)
            index: tuple[Any, ...] = (args[1],) if is_single else args[1]
            is_plain = all([type(each) is int or type(each) is slice for each in index])
            return [wire[index[: x.dim() - 1]]] if is_plain and (len(index) < x.dim() or type(index[-1]) is slice) else None
        if name in ("chunk", "split"):
            axis = kwargs.get("dim", args[2] if len(args) > 2 else 0)
            return [wire] * count if isinstance(axis, int) and axis % x.dim() == x.dim() - 1 else None
        return None

    def _places(
        self,
        run: ModelRun,
        call: ModelCall,
        mark: Mark,
        x: Tensor,
        outputs: Sequence[Tensor],
        again: Callable[[Tensor], Sequence[Tensor]],
        args: Args,
        kwargs: Kwargs,
    ) -> Sequence[Owner]:
        """Which sample each element of the results belongs to: the call, made with sample numbers."""
        samples, owner = run.samples, mark.owner
        if samples.is_one or owner is None:
            return [None] * len(outputs)
        lane = _lane(call.name, args, kwargs, owner, x, (x,), outputs) if isinstance(owner, int) else None
        if lane is not None:
            return [lane] * len(outputs)
        with torch.no_grad():
            numbers = samples.numbers(owner, x.shape, x.device)
            try:
                found = again(numbers)
            except RuntimeError:  # a view, which tensors that are expanded along an axis do not allow
                found = again(numbers.contiguous())
        return [samples.told(each) for each in found]

    def _cast(self, run: ModelRun, call: ModelCall, moved: Moved, args: Args, kwargs: Kwargs) -> Any:
        """A change of precision; a further one hands relevance back to what there was before the first, in full precision."""
        (x, mark), *_ = moved.live
        source, own_mark = mark.uncast or (x, mark)
        with torch.no_grad():
            y: Tensor = moved.again(torch.Tensor.detach)
        if y.data_ptr() == x.data_ptr() and y.dtype == x.dtype:
            return x
        own = mark.sum
        if not y.is_floating_point():
            return y
        if own is None:
            y = neurons.Passed.apply(run.finished(source, own_mark), [y])
        else:
            z, own = run.opened(source, own_mark)
            y, own = neurons.Passed.apply(z, [y]), own.each(lambda part, to=y: part.to(to.device, to.dtype))
        found = self._noted(run, call, moved, args, kwargs, y, [own], [])
        cast_mark = cast(Mark, run.look(y))
        cast_mark.uncast = source, own_mark
        if own is not None:  # the sum as it was before is what ends, if nothing is added to it
            cast_mark.twin = run.finish(
                cast_mark, neurons.Passed.apply(run.finished(source, own_mark), [neurons.alias(y.detach())])
            )
        return found

    def _constant(self, run: ModelRun, call: ModelCall, moved: Moved) -> Any:
        """The call on constants that count as lower neurons."""
        with torch.no_grad():
            result = moved.again(run.constant)
            sums: list[OpenSum | None] = [None] * len(floats_of(result))
            if any(mark.sum is not None for _, mark in moved.marked):
                sums = list(self._sums(run, call, moved, floats_of(result), {id(t): mark.sum for t, mark in moved.marked}))
        return self._noted(run, call, moved, (), {}, result, sums, [])

    def _tap(self, run: ModelRun, call: ModelCall, outputs: Sequence[Tensor], kept: Sequence[Tensor] | None) -> None:
        """Enter what the constants among finished neurons absorb."""
        for place, out in enumerate(outputs if kept is not None else ()):
            part = cast(Sequence[Tensor], kept)[place]
            run.tap(
                out,
                lambda r, part=part, place=place: run.ledger.absorb(
                    call, "constant", r * (1 - part), call.outputs[place], tuple(r.shape)
                ),
            )

    def _opened(
        self, run: ModelRun, call: ModelCall, moved: Moved, kept: Sequence[Tensor] | None, *, has_constants: bool
    ) -> tuple[Any, Sequence[OpenSum | None] | None]:
        """The call on open sums: on the sums, their wires and their biases."""
        is_head = any(mark.sum is not None and mark.sum.sides is not None for _, mark in moved.live)
        opened = {id(t): run.sided(t, mark) if is_head else run.opened(t, mark) for t, mark in moved.live}
        result = moved.again(lambda t: opened[id(t)][0] if id(t) in opened else run.constant(t))
        result, is_given = _given_back(result, {id(opened[id(t)][0]): t for t, _ in moved.live})
        if is_given:
            return result, None
        outputs = floats_of(result)
        owns: dict[int, OpenSum | None] = {key: own for key, (_, own) in opened.items()}
        owns.update((id(t), mark.sum) for t, mark in moved.marked if not mark.is_live)
        sums = list(self._sums(run, call, moved, outputs, owns))
        if has_constants and kept is not None:
            for place, (z, own) in enumerate(zip(outputs, sums, strict=True)):
                self._tap_open(run, call, place, z, own, 1 - kept[place])
        return result, sums

    def _sums(
        self, run: ModelRun, call: ModelCall, moved: Moved, outputs: Sequence[Tensor], owns: dict[int, OpenSum | None]
    ) -> Sequence[OpenSum]:
        """The open sums of the results."""
        known = [own for own in owns.values() if own is not None]
        home = known[-1].call if len({own.call and own.call.layer for own in known}) == 1 else call
        is_plain = not self.fills and len(owns) == len(moved.tensors) and None not in owns.values()
        counts = {own.count for own in known}
        count = counts.pop() if is_plain and len(counts) == 1 else None
        wires: Sequence[Tensor | None] = [None] * len(outputs)
        if run.shares and not any(t.is_complex() for t in (*moved.tensors, *outputs)):

            def wire(tensor: Tensor) -> Tensor:
                own = owns.get(id(tensor))
                found = None if own is None else own.wire
                return run.full(tensor, 1.0 if own is None or own.count is None else own.count) if found is None else found

            wires = moved.less_fill(wire, fills=self.fills)
        elif run.shares:
            wires, count = [run.full(out, 0.0).real if out.is_complex() else run.full(out, 0.0) for out in outputs], 0.0
        biases: Sequence[Tensor | None] = [None] * len(outputs)
        if any(own.bias is not None for own in known):

            def bias(tensor: Tensor) -> Tensor:
                own = owns.get(id(tensor))
                if own is None or own.bias is None:
                    return torch.zeros_like(tensor)
                return torch.zeros_like(tensor) + own.bias  # with the strides of the sum: what can be viewed there can be here

            biases = moved.less_fill(bias, fills=self.fills)
        sides: Sequence[Sides | None] = [None] * len(outputs)
        if any(own.sides is not None for own in known):
            sides = self._sides(moved, owns)
        bias_sides: Sequence[Sides | None] = [None] * len(outputs)
        if any(own.bias_sides is not None for own in known):
            bias_sides = self._bias_sides(moved, owns)
        parts = zip(wires, biases, sides, bias_sides, strict=True)
        return [
            OpenSum(home, own_wire, count, own_bias, own_sides, own_bias_sides)
            for own_wire, own_bias, own_sides, own_bias_sides in parts
        ]

    def _bias_sides(self, moved: Moved, owns: dict[int, OpenSum | None]) -> Sequence[Sides]:
        """The biases of the results, each on the side of its sign."""

        def of(place: int) -> list[Tensor]:
            def side(tensor: Tensor) -> Tensor:
                own = owns.get(id(tensor))
                zero = torch.zeros_like(tensor.detach())
                return zero if own is None or own.bias_sides is None else zero + own.bias_sides[place]

            return moved.less_fill(side, fills=self.fills)

        return [Sides(*each) for each in zip(of(0), of(1), strict=True)]

    def _sides(self, moved: Moved, owns: dict[int, OpenSum | None]) -> Sequence[Sides]:
        """The positive and the negative contributions of the results; what is no sum of the head is one contribution."""

        def of(place: int) -> list[Tensor]:
            def side(tensor: Tensor) -> Tensor:
                own = owns.get(id(tensor))
                if own is not None and own.sides is not None:
                    return own.sides[place]
                return sides_of(tensor.detach())[place]

            found = moved.less_fill(side, fills=self.fills)
            if not self.fills:
                return found
            fill = [sides_of(own.detach().nan_to_num(0.0, 0.0, 0.0))[place] for own in moved.fill()]
            return [each + own for each, own in zip(found, fill, strict=True)]

        return [Sides(*each) for each in zip(of(0), of(1), strict=True)]

    def _tap_open(self, run: ModelRun, call: ModelCall, place: int, z: Tensor, own: OpenSum, fixed: Tensor) -> None:
        """Enter what the constants in an open sum absorb:  z q + N s."""
        shape, value = tuple(z.shape), run.captured(z.detach())

        def absorb(amount: Tensor) -> None:
            run.ledger.absorb(call, "constant", amount.real if amount.is_complex() else amount, call.outputs[place], shape)

        less = run.captured(own.bias)
        for side in own.sides or ():
            part = run.captured(side.detach())
            run.tap(side, lambda q, part=part: absorb(fixed * part * q))
        run.tap(
            None if own.sides is not None else z,
            lambda q: absorb(
                fixed * (value.nan_to_num(0.0, 0.0, 0.0) if less is None else value - run.rules.delta * less) * q.conj()
            ),
        )
        if own.wire is not None:
            counts = run.captured(own.wire.detach())
            run.tap(own.wire, lambda s: absorb(fixed * counts * s))

    def _noted(
        self,
        run: ModelRun,
        call: ModelCall,
        moved: Moved,
        args: Args,
        kwargs: Kwargs,
        result: Any,
        sums: Sequence[OpenSum | None],
        ends: Sequence[Tensor],
    ) -> Any:
        """Mark the results."""
        outputs = floats_of(result)
        gate, log = common_gate(call.inputs), common_log([mark.node for _, mark in moved.live])
        fixed = self._fixed(run, moved)
        owners = self._owners(run, call, moved, args, kwargs, outputs) if moved.live else [None] * len(outputs)
        is_infinite = self._makes_infinite(run, moved) or any(node.is_infinite for node in call.inputs)
        squashed = moved.live and any(mark.before is not None for _, mark in moved.live)
        for place, (out, own, owner) in enumerate(zip(outputs, sums, owners, strict=True)):
            constants = None if fixed is None else fixed[place]
            is_live = bool(moved.live) and (constants is None or not bool(constants.all()))  # a constant taken out again is one
            run.put(
                out, call, is_live=is_live, gate=gate, sum=own, log=log, owner=owner, is_infinite=is_infinite, fixed=constants
            )
            mark = cast(Mark, run.look(out))
            if place < len(ends):
                mark.done = mark.twin = ends[place]
            if squashed:
                mark.before = Before(call, args, kwargs, place, False, tuple((t, t._version) for t, _ in moved.live))
        return result

    def _makes_infinite(self, run: ModelRun, moved: Moved) -> bool:
        marked = {id(tensor) for tensor, _ in moved.marked}
        return self.fills or any(not run.is_trained(t) for t in moved.tensors if id(t) not in marked)

    def _fixed(self, run: ModelRun, moved: Moved) -> Sequence[Tensor] | None:
        """For every output a mask of the constants in it; None if there are none, or if it is not known."""
        if not self.rearranges or self.casts or not moved.live:
            return None
        if len(moved.live) == len(moved.tensors) and all(mark.fixed is None for _, mark in moved.live):
            return None

        def mask(tensor: Tensor) -> Tensor:
            mark = moved.of(tensor)
            if mark is None:
                return run.full(tensor, 1.0).double()
            return run.full(tensor, 0.0).double() if mark.fixed is None else mark.fixed.double()

        return [each > 0.5 for each in moved.less_fill(mask, fills=False)]

    def _owners(
        self, run: ModelRun, call: ModelCall, moved: Moved, args: Args, kwargs: Kwargs, outputs: Sequence[Tensor]
    ) -> Sequence[Owner]:
        """Which sample each element of the results belongs to."""
        samples = run.samples
        if samples.is_one or self.casts:
            return [None if samples.is_one else moved.live[0][1].owner] * len(outputs)
        same = {mark.owner if isinstance(mark.owner, int) else None for _, mark in moved.live}
        if len(same) == 1 and (owner := same.pop()) is not None:
            lane = _lane(call.name, args, kwargs, owner, moved.live[0][0], moved.tensors, outputs)
            if lane is not None:
                return [lane] * len(outputs)
        found = self._numbers(run, call, moved)
        if not self.fills and len(moved.live) == len(moved.tensors):
            return [samples.told(each) for each in found]
        return [samples.told(completed(each, keep=samples.count)) for each in found]

    def _numbers(self, run: ModelRun, call: ModelCall, moved: Moved) -> list[Tensor]:
        """The call applied to sample numbers, and to 0 for constants."""

        def numbers(tensor: Tensor) -> Tensor:
            mark = moved.of(tensor)
            return run.samples.numbers(None if mark is None else mark.owner, tensor.shape, tensor.device)

        with torch.no_grad():
            return moved.less_fill(numbers, fills=self.fills)


class ElementChoice(Routing):
    """A call that takes each element from one of two tensors."""

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        found = self._of_two(run, call, *args) if len(args) == 3 and not kwargs else None
        return super().follow(run, call, args, kwargs) if found is None else found

    def _of_two(self, run: ModelRun, call: ModelCall, condition: Any, a: Any, b: Any) -> Tensor | None:
        """where(condition, a, b) of two finished neurons; None if it is not so plain."""
        marks = [mark for mark in call.marks if mark is not None]
        if (
            len(call.tensors) != 3
            or len(marks) != 2
            or call.marks[0] is not None
            or not all([self._is_plain(run, m) for m in marks])
        ):
            return None
        if any([not mark.is_live or mark.sum is not None for mark in marks]) or a.shape != b.shape or a.dtype != b.dtype:
            return None
        y = call.function(condition, run.finished(a, marks[0]), run.finished(b, marks[1]))
        call.sources = tuple(dict.fromkeys([mark.node for mark in marks]))
        if y.shape != a.shape:
            return None
        owner = run.agreed(call, [(a, marks[0]), (b, marks[1])], y)
        gate, log = common_gate(call.inputs), common_log(call.inputs)
        return run.put(y, call, gate=gate, log=log, owner=owner, is_infinite=marks[0].is_infinite or marks[1].is_infinite)


ELEMENTWISE = frozenset(["where", "masked_fill", "clone", "contiguous", "tril", "triu", "positive", "expand", "expand_as"])


def _lane(
    name: str, args: Args, kwargs: Kwargs, owner: int, x: Tensor, tensors: Sequence[Tensor], outputs: Sequence[Tensor]
) -> int | None:
    """The axis along which samples lie in the results of a common call, counted from the right; None if it is not known."""
    if name in ELEMENTWISE:
        return owner
    place = x.dim() + owner
    if name in ("cat", "concat", "concatenate"):
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        alike = all(each.dim() == x.dim() and each.shape[place] == x.shape[place] for each in tensors)
        return owner if alike and isinstance(axis, int) and axis % x.dim() != place else None
    if name == "stack":
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        if not isinstance(axis, int):
            return None
        axis %= x.dim() + 1
        return owner if axis <= place else owner - 1
    if name in ("chunk", "split"):
        axis = kwargs.get("dim", args[2] if len(args) > 2 else 0)
        return owner if isinstance(axis, int) and axis % x.dim() != place else None
    if name == "getitem":
        is_single = not isinstance(args[1], tuple)
        return _indexed_lane((args[1],) if is_single else args[1], owner, x)
    if name in ("reshape", "view", "flatten", "unsqueeze", "squeeze", "unflatten") and len(outputs) == 1:
        before, size, shape = x.shape[:place].numel(), x.shape[place], outputs[0].shape
        for axis in range(len(shape)):
            if shape[axis] == size and shape[:axis].numel() == before:
                return axis - len(shape)
    return None


def _indexed_lane(index: tuple[object, ...], owner: int, x: Tensor) -> int | None:
    """The same for x[...], of whole numbers and slices: the axis of the samples is to stay whole, as by x[:, t]."""
    place = x.dim() + owner
    if not all([type(each) is int or type(each) is slice for each in index]):
        return None
    if place < len(index) and index[place] != slice(None):
        return None
    return owner + sum([type(each) is int for each in index[place + 1 :]])


def _like(memory: Tensor, x: Tensor) -> Tensor:
    """A tensor with the shape and strides of another, so that what can be viewed there can be here."""
    if memory.shape == x.shape and (memory.stride() == x.stride() or memory.is_contiguous()):
        return memory
    return torch.zeros_like(x.detach()) + memory


class Pick(Routing):
    """A call that picks elements by value. It is not linear, so open sums end here."""

    words = "picks numbers by value"

    def __init__(self) -> None:
        super().__init__()
        self.rearranges = False

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        moved = Moved(run, call, args, kwargs)
        call.sources = tuple(dict.fromkeys(mark.node for _, mark in moved.live))
        finished = {id(t): run.finished(t, mark) for t, mark in moved.live}
        if run.is_safe:
            finished = {key: each * 1 for key, each in finished.items()}
        result = moved.again(lambda t: finished[id(t)] if id(t) in finished else run.constant(t))
        if run.is_safe:
            result = mapped(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, result)
        outputs = floats_of(result)
        if moved.live and len(moved.live) < len(moved.tensors):
            self._tap(run, call, outputs, self._kept(moved))
        return self._noted(run, call, moved, args, kwargs, result, [None] * len(outputs), [])

    def _kept(self, moved: Moved) -> list[Tensor]:
        """The part of every element that was picked from what is live: the derivative, times 1 for what is live."""
        with torch.enable_grad():
            inputs = {id(t): t.detach().clone().requires_grad_() for t, _ in moved.live}
            outputs = floats_of(moved.again(lambda t: inputs[id(t)] if id(t) in inputs else t.detach()))
            probes = [torch.ones_like(out, requires_grad=True) for out in outputs]
            back = torch.autograd.grad(outputs, list(inputs.values()), probes, create_graph=True, materialize_grads=True)
            reached = torch.stack([each.sum() for each in back]).sum()
            if not reached.requires_grad:
                return [torch.zeros_like(out) for out in outputs]
            return list(torch.autograd.grad(reached, probes, materialize_grads=True))

    def _makes_infinite(self, run: ModelRun, moved: Moved) -> bool:
        return any(not run.is_trained(t) for t in moved.tensors if all(t is not each for each, _ in moved.marked))

    def _owners(
        self, run: ModelRun, call: ModelCall, moved: Moved, args: Args, kwargs: Kwargs, outputs: Sequence[Tensor]
    ) -> Sequence[Owner]:
        """Pick from sample numbers and from their negatives: over several samples, the two results differ."""
        samples = run.samples
        if samples.is_one:
            return [None] * len(outputs)

        def numbers(tensor: Tensor, scale: int) -> Tensor:
            mark = moved.of(tensor)
            found = samples.numbers(None if mark is None else mark.owner, tensor.shape, tensor.device)
            return scale * found.contiguous()  # PyTorch's median misreads expanded tensors

        with torch.no_grad():
            high, low = (floats_of(moved.again(lambda t, scale=scale: numbers(t, scale))) for scale in (1, -1))
        return [
            samples.agreed(call, [(one, one.shape), (-other, other.shape)], out.shape, out.device)
            for one, other, out in zip(high, low, outputs, strict=True)
        ]


class Placement(Routing):
    """A call that writes elements to given places of a tensor. Adding to what is there has no rule."""

    def __init__(self, *, fills: bool = False, is_index_sized: bool = False) -> None:
        super().__init__(fills=fills, overwrites=True)
        self.is_index_sized = is_index_sized  # whether the source must be as large as the index

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        if kwargs.get("reduce") or kwargs.get("accumulate") or (len(args) > 3 and args[3] is True):
            raise NoRule("it adds up what it puts in one place")
        if self.is_index_sized and len(args) > 3 and isinstance(args[3], Tensor) and args[3].shape != args[2].shape:
            raise NoRule("its source is larger than its index")
        return super().follow(run, call, args, kwargs)


def _same(x: Tensor) -> Tensor:
    return x.view_as(x)


class Dropout(Routing):
    """Dropout is the identity in evaluation mode. Active dropout changes the prediction with every call, and is refused."""

    words = "dropout, switched off"

    def __init__(self) -> None:
        super().__init__()
        self.words = Dropout.words

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        rate, active = (*args[1:3], *(0.5, True)[len(args) - 1 :])[:2]
        if kwargs.get("training", kwargs.get("train", active)) and kwargs.get("p", rate) > 0:
            raise Refused("it is active although the model predicts; pass training=self.training to it")
        function, call.function = call.function, _same  # PyTorch's returns what it is given
        try:
            return super().follow(run, call, args[:1], {})
        finally:
            call.function = function


def loses_elements(moved: Moved) -> bool:
    """Whether elements that are put into a tensor are overwritten by others."""
    sources = [t for t, _ in moved.marked if t is not moved.tensors[0]]
    numbers = {id(t): torch.arange(1, t.numel() + 1, device=t.device).double().view(t.shape) for t in sources}
    with torch.no_grad():
        result = moved.again(lambda t: numbers.get(id(t), torch.zeros_like(t, dtype=torch.float64)))
    kept = cast(Tensor, floats_of(result)[0].unique())
    return any(len(kept[kept > 0]) < number.numel() for number in numbers.values())


CAST = Routing(casts=True)
