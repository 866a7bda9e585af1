"""Calls that only move numbers: relevance moves with them, by PyTorch's own derivative, whose entries are 0 and 1."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor, autograd

from whence.engine import neurons
from whence.engine.marks import Args, Before, Kwargs, Mark, ModelCall, OpenSum, Owner, common_gate, common_log
from whence.engine.rule import NoRule, Refused, Rule
from whence.engine.run import ModelRun
from whence.engine.samples import completed
from whence.equations import Sides, sides_of
from whence.trees import floats_of, mapped, tensors_of


class Moved:
    """A call that moves numbers: its tensors, and the call made again with others in their place.

    `fills`: it fills places that nothing is moved to with numbers of its own.
    """

    def __init__(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, *, fills: bool = False) -> None:
        self.run, self.call, self.args, self.kwargs, self.fills = run, call, args, kwargs, fills
        self.function = call.function
        tensors = call.tensors or tensors_of((args, kwargs))
        pairs = [(t, mark) for t, mark in zip(tensors, call.marks or map(run.look, tensors), strict=True) if _has_numbers(t)]
        self.tensors = [tensor for tensor, _ in pairs]
        self.marked = [(tensor, mark) for tensor, mark in pairs if mark is not None]
        self.live = [(tensor, mark) for tensor, mark in self.marked if mark.node.is_live]
        self.constants = [tensor for tensor, mark in pairs if mark is None]
        self.has_constants = fills or len(self.live) < len(pairs)
        self._live = {id(tensor): mark for tensor, mark in self.live}
        self.values: dict[int, Tensor] = {}  # what stands for them on the graph
        self._is_flat = len(tensors) == sum([isinstance(arg, Tensor) for arg in args])

    def again(self, stand_in: Callable[[Tensor], Tensor]) -> Any:
        """The result for other numbers."""

        def replaced(leaf: object) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            if _has_numbers(leaf):
                return stand_in(leaf)
            return leaf.clone() if self.run.is_safe else leaf  # a model may write over an index

        if self._is_flat:
            return self.function(*[replaced(arg) if isinstance(arg, Tensor) else arg for arg in self.args], **self.kwargs)
        args, kwargs = mapped(replaced, (self.args, self.kwargs))
        return self.function(*args, **kwargs)

    def made(self, values: dict[int, Tensor]) -> tuple[Any, list[Tensor], bool]:
        """The result on the graph, from tensors as they stand there; its tensors; and whether it is what the call was given."""
        run, self.values = self.run, values

        def value(tensor: Tensor) -> Tensor:
            return values[id(tensor)] if id(tensor) in values else run.constant(tensor)

        result = self.again(value)
        outputs, given = floats_of(result), {id(each): key for key, each in values.items()}
        are_given = [id(each) in given for each in outputs]
        if any(are_given):
            if all(are_given):
                tensors = {id(tensor): tensor for tensor, _ in self.live}
                return mapped(lambda leaf: tensors[given[id(leaf)]] if id(leaf) in given else leaf, result), outputs, True
            result = mapped(lambda leaf: leaf.view_as(leaf) if id(leaf) in given else leaf, result)
        elif run.is_safe and all(each._base is None for each in outputs):
            result = mapped(_cloned, self.again(lambda tensor: value(tensor).clone()))
        elif run.is_safe and not isinstance(result, Tensor):
            result = mapped(_single_view, result)
        else:
            return result, outputs, False
        return result, floats_of(result), False

    def moves(self, stand_in: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """What the call makes of other numbers, less what it fills in; a mask fills with infinities."""
        found = floats_of(self._viewed(stand_in))
        if not self.fills:
            return found
        return [(each - own.detach()).nan_to_num(0.0, 0.0, 0.0) for each, own in zip(found, self.fill(stand_in), strict=True)]

    def moves_part(self, parts: dict[int, Tensor], otherwise: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """What the call makes of a part that its tensors have, by their ids."""

        def part(tensor: Tensor) -> Tensor:
            own = parts.get(id(tensor))
            if own is None:
                return otherwise(tensor.detach())
            return own if own.shape == tensor.shape else own.expand(tensor.shape)

        return self.moves(part)

    def fill(self, stand_in: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """What the call fills in of its own, into numbers like these."""
        return floats_of(self._viewed(lambda tensor: self.run.full(stand_in(tensor), 0.0)))

    def _viewed(self, stand_in: Callable[[Tensor], Tensor]) -> Any:
        try:
            return self.again(stand_in)
        except RuntimeError:  # a view, which tensors that are expanded along an axis do not allow
            return self.again(lambda tensor: stand_in(tensor).contiguous())

    def derivative(self, direction: Callable[[Tensor], Tensor], *, on_graph: bool = False) -> list[Tensor]:
        """How the results change if every live tensor changes in a direction; `on_graph`: as a function of the direction."""
        tensors = {id(t): t for t, _ in self.live}
        with torch.enable_grad():
            inputs = {key: t.detach().clone().requires_grad_() for key, t in tensors.items()}
            outputs = floats_of(self.again(lambda t: inputs[id(t)] if id(t) in inputs else t.detach()))
            moving = [out for out in outputs if out.requires_grad]
            slopes = [torch.zeros_like(out, requires_grad=True) for out in moving]
            if moving:  # what goes back is linear in what comes: its own derivative leads forward
                back = autograd.grad(moving, list(inputs.values()), slopes, create_graph=True, materialize_grads=True)
                reached = [(each * direction(t)).sum() for each, t in zip(back, tensors.values(), strict=True)]
                total = torch.stack(reached).sum()
                if total.requires_grad:
                    slopes = autograd.grad(total, slopes, materialize_grads=True, create_graph=on_graph)
        found = iter(slopes if on_graph else [each.detach() for each in slopes])
        return [next(found) if out.requires_grad else torch.zeros_like(out) for out in outputs]

    def of(self, tensor: Tensor) -> Mark | None:
        """The mark of one of the tensors, if it is live."""
        return self._live.get(id(tensor))

    def numbers(self, tensor: Tensor) -> Tensor:
        """The sample numbers of one of the tensors, 0 for a constant."""
        mark = self.of(tensor)
        return self.run.samples.numbers(None if mark is None else mark.owner, tensor.shape, tensor.device)


def _has_numbers(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _cloned(leaf: object) -> object:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


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
    where a later one can overwrite an earlier one. `keeps_axes`: an axis that keeps its size is the same as before.
    """

    words = "moves numbers"
    moves = has_sides = rearranges = True
    is_linear = True

    def __init__(self, *, fills: bool = False, overwrites: bool = False, keeps_axes: bool = False) -> None:
        self.fills, self.overwrites, self.keeps_axes = fills, overwrites, keeps_axes
        self.rearranges = self.rearranges and not (fills or overwrites)

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        result = None
        if self.rearranges and len(call.tensors) == 1 and args[0] is call.tensors[0]:
            result = self._taken(run, call, args, kwargs)
        return self._routed(Moved(run, call, args, kwargs, fills=self.fills)) if result is None else result

    def _taken(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        """Views of one tensor that is nothing special, such as x[:, t] and x.chunk(4): by far the most moves, in half the time.

        None for any other call.
        """
        x, mark = args[0], call.marks[0]
        if mark is None or not mark.is_live or mark.is_buffer or mark.fixed is not None or mark.before is not None:
            return None
        own, node, samples = mark.sum, mark.node, run.samples
        is_simple = own is None or (own.bias is None and own.sides is None and own.wire is not None and own.rest is None)
        is_simple = is_simple and mark.resting is None and not mark.state and (mark.rest is None or type(mark.rest) is float)
        if not is_simple or run.is_audit or run.is_safe or mark.uncast is not None or mark.twin is not None:
            return None
        z = run.finished(x, mark) if own is None else run.at(x, mark)
        result = call.function(z, *args[1:], **kwargs)
        views: Sequence[Tensor] = (result,) if isinstance(result, Tensor) else result
        lanes: Sequence[Owner] = [None] * len(views)
        if not samples.is_one:
            lanes = lanes_of_views(z, node.owner, views) if isinstance(node.owner, int) else lanes
        wires: Sequence[Tensor | None] | None = [None] * len(views)
        if own is not None:
            wires = _wires_of_views(lambda part: call.function(part, *args[1:], **kwargs), z, cast(Tensor, own.wire), views)
        are_views = all([view._is_view() and view is not z and view.dtype == x.dtype for view in views])
        if not are_views or wires is None or (None in lanes and not samples.is_one):
            return None
        call.sources = (node,)
        for view, wire, lane in zip(views, wires, lanes, strict=True):
            part = None if own is None else OpenSum(own.call, wire, own.count)
            run.put(
                view, call, gate=node.gate, sum=part, log=node.log, owner=lane, is_infinite=node.is_infinite, rest=mark.rest
            )
        return result

    def _routed(self, moved: Moved) -> Any:
        """The call on finished neurons and on open sums; what comes of a sum and of something else can end as either."""
        run, call, live = moved.run, moved.call, moved.live
        run.settle(live)
        call.sources = (live[0][1].node,) if len(live) == 1 else tuple(dict.fromkeys([mark.node for _, mark in live]))
        if self.overwrites:
            require_all_stay(moved)
        is_open = self.is_linear and any([mark.sum is not None for _, mark in moved.marked])
        kept = self._kept(moved) if live and moved.has_constants else None
        result, outputs, sums, ends = None, list[Tensor](), None, list[Tensor]()
        rests = any([mark.rests for _, mark in live])
        if rests and self.is_linear and not any([mark.stands_apart or mark.sum is not None for _, mark in live]):
            return self._finished_at_rest(moved, kept)
        if not is_open or (live and (kept is not None or _can_end_apart(live))):
            result, outputs, is_given = moved.made({id(t): run.finished(t, mark) for t, mark in live})
            if is_given:
                return result
            ends = outputs
        if is_open:
            is_head = any([mark.sum is not None and mark.sum.sides is not None for _, mark in live])
            opened = {
                id(t): run.sided(t, mark) if is_head else run.opened(t, mark, is_thin=True, rests=False) for t, mark in live
            }
            result, outputs, is_given = moved.made({key: z for key, (z, _) in opened.items()})
            if is_given:
                return result
            owns = {id(t): mark.sum for t, mark in moved.marked if mark.sum is not None}
            sums = self._sums(moved, outputs, {**owns, **{key: own for key, (_, own) in opened.items()}})
        if self.rearranges and any([out.dtype != moved.tensors[0].dtype for out in outputs]) and len(moved.tensors) == 1:
            raise Refused("numbers are read as another type")
        if kept is not None:
            self._tap_constants(moved, kept, ends, list(zip(outputs, sums or (), strict=False)))
        self._note(moved, outputs, sums, ends if sums is not None else ())
        if rests:
            self._put_off(moved, outputs, kept)
        return result

    def _put_off(self, moved: Moved, outputs: Sequence[Tensor], kept: Sequence[Tensor] | None) -> None:
        """Note how results stand as sums with values at rest."""

        stand = cache(partial(self._summed_at_rest, moved, kept))
        for place, out in enumerate(outputs):
            moved.run.put_off(out, [t for t, _ in moved.live], lambda place=place: stand()[place])

    def _finished_at_rest(self, moved: Moved, kept: Sequence[Tensor] | None) -> Any:
        """The call on finished neurons with values at rest."""
        run, live = moved.run, moved.live
        result, outputs, is_given = moved.made({id(t): run.finished(t, mark) for t, mark in live})
        if is_given:
            return result
        given = [mark.rest for _, mark in live]
        if all([type(each) is float for each in given]) and len({*given}) == 1 and not moved.has_constants:
            rests: Sequence[Any] = given[:1] * len(outputs)
        else:
            known = {id(t): run.rest_of(t.detach(), mark) for t, mark in live}
            rests = floats_of(moved._viewed(lambda t: known[id(t)] if id(t) in known else t.detach()))
        if kept is not None:
            self._tap_constants(moved, kept, outputs, ())
        self._note(moved, outputs, None, (), rests)
        return result

    def _summed_at_rest(self, moved: Moved, kept: Sequence[Tensor] | None) -> list[tuple[Tensor, OpenSum]]:
        """The call on sums with values at rest."""
        opened = {id(t): moved.run.rested(t, mark) for t, mark in moved.live}
        _, outputs, _ = moved.made({key: z for key, (z, _) in opened.items()})
        sums = self._sums(moved, outputs, {key: own for key, (_, own) in opened.items()})
        known = {key: cast(Tensor, own.rest) for key, (_, own) in opened.items()}
        for own, rest in zip(sums, self._moved_rest(moved, known), strict=True):
            own.rest = rest
        if kept is not None:
            self._tap_constants(moved, kept, (), list(zip(outputs, sums, strict=True)))
        return list(zip(outputs, sums, strict=True))

    def _moved_rest(self, moved: Moved, known: dict[int, Tensor]) -> list[Tensor]:
        """What the results are at rest: the same, made of what the tensors are there."""
        return floats_of(moved._viewed(lambda t: known[id(t)] if id(t) in known else t.detach()))

    def _kept(self, moved: Moved) -> list[Tensor]:
        """The part of every element that comes from what is live."""
        return moved.moves(lambda t: moved.run.full(t, float(moved.of(t) is not None)))

    def _sums(self, moved: Moved, outputs: Sequence[Tensor], owns: dict[int, OpenSum]) -> list[OpenSum]:
        """The open sums of the results: the call, made with every part of those that go in."""
        run, known = moved.run, list(owns.values())
        home = known[-1].call if len({own.call and own.call.layer for own in known}) == 1 else moved.call
        counts = {own.count for own in known}
        count = counts.pop() if len(counts) == 1 and len(known) == len(moved.tensors) and not moved.fills else None

        def made(part: Callable[[OpenSum], Tensor | None], otherwise: Callable[[Tensor], Tensor]) -> Sequence[Any]:
            parts = {key: found for key, own in owns.items() if (found := part(own)) is not None}
            return moved.moves_part(parts, otherwise) if parts else [None] * len(outputs)

        if run.shares and any([t.is_complex() for t in moved.tensors]):
            wires, count = [run.full(out.real if out.is_complex() else out, 0.0) for out in outputs], 0.0
        else:
            wires = made(lambda own: own.wire, lambda t: run.full(t, 1.0))
        biases = made(lambda own: own.bias, torch.zeros_like)
        sums = [OpenSum(home, wire, count, bias) for wire, bias in zip(wires, biases, strict=True)]
        if any([own.sides is not None for own in known]):
            self._add_sides(moved, owns, sums)
        return sums

    def _add_sides(self, moved: Moved, owns: dict[int, OpenSum], sums: Sequence[OpenSum]) -> None:
        """Add the positive and the negative contributions; what is no sum of the head, and what is filled in, is one."""
        pairs = {key: own.sides for key, own in owns.items() if own.sides is not None}
        biases = {key: own.bias_sides for key, own in owns.items() if own.bias_sides is not None}
        fill = moved.fill(Tensor.detach) if moved.fills else [torch.zeros(())] * len(sums)
        ups, downs = (
            moved.moves_part({key: pair[n] for key, pair in pairs.items()}, lambda t, n=n: sides_of(t)[n]) for n in (0, 1)
        )
        for own, up, down, filled in zip(sums, ups, downs, fill, strict=True):
            more = sides_of(filled.nan_to_num(0.0, 0.0, 0.0))
            own.sides = Sides(up + more.up, down + more.down) if moved.fills else Sides(up, down)
        if biases:
            ups, downs = (moved.moves_part({key: pair[n] for key, pair in biases.items()}, torch.zeros_like) for n in (0, 1))
            for own, up, down in zip(sums, ups, downs, strict=True):
                own.bias_sides = Sides(up, down)

    def _tap_constants(
        self, moved: Moved, kept: Sequence[Tensor], ends: Sequence[Tensor], opened: Sequence[tuple[Tensor, OpenSum]]
    ) -> None:
        """Enter what constants absorb: their part of finished neurons, and of open sums  (z − δ b) q + N s."""
        run, call = moved.run, moved.call

        def tap(place: int, tensor: Tensor, counts: Tensor | float) -> None:
            part = ((1 - kept[place]) * counts).nan_to_num(0.0, 0.0, 0.0)
            run.tap(
                tensor, lambda q: run.ledger.absorb(call, "constant", real_part(part, q), call.outputs[place], tuple(q.shape))
            )

        for place, end in enumerate(ends):
            tap(place, end, 1.0)
        for place, (z, own) in enumerate(opened):
            for side in own.sides or ():
                tap(place, side, side.detach())
            if own.sides is None:
                tap(place, z, z.detach() if own.bias is None else z.detach() - run.rules.delta * own.bias)
            if own.wire is not None:
                tap(place, own.wire, own.wire.detach())

    def _note(
        self,
        moved: Moved,
        outputs: Sequence[Tensor],
        sums: Sequence[OpenSum] | None,
        ends: Sequence[Tensor],
        rests: Sequence[Any] | None = None,
    ) -> None:
        """Mark the results."""
        run, call, live = moved.run, moved.call, moved.live
        gate, log = common_gate(call.inputs), common_log(call.sources)
        is_infinite = moved.fills or any([node.is_infinite for node in call.inputs])
        is_infinite = is_infinite or any([not run.is_trained(constant) for constant in moved.constants])
        owners, fixed = self._owners(moved, outputs), self._fixed(moved)
        is_squashed = any([mark.before is not None for _, mark in live])
        for place, out in enumerate(outputs):
            own, mask = None if sums is None else sums[place], None if fixed is None else fixed[place]
            is_live = bool(live) and (mask is None or not bool(mask.all()))  # a constant taken out again is one
            owner = owners[place]
            rest = None if rests is None else rests[place]
            known: dict[str, Any] = {"gate": gate, "sum": own, "log": log, "owner": owner, "fixed": mask, "rest": rest}
            run.put(out, call, is_live=is_live, is_infinite=is_infinite, **known)
            if len(live) == 1 and out.numel() == live[0][0].numel():
                mark, source = cast(Mark, run.look(out)), live[0][1]
                mark.state = source.state
                if source.partition is not None or source.log_sums is not None:
                    run.remember(mark).partition, mark.log_sums = source.partition, source.log_sums
            if ends or is_squashed:
                mark = cast(Mark, run.look(out))
                mark.done = mark.twin = ends[place] if ends else None
                versions = tuple((t, t._version) for t, _ in live)
                mark.before = Before(call, moved.args, moved.kwargs, place, False, versions) if is_squashed else None

    def _fixed(self, moved: Moved) -> Sequence[Tensor] | None:
        """For every output a mask of the constants in it; None if there are none, or if it is not known."""
        run, live = moved.run, moved.live
        if not (self.rearranges and live) or not (moved.has_constants or any([m.fixed is not None for _, m in live])):
            return None

        def mask(tensor: Tensor) -> Tensor:
            mark = moved.of(tensor)
            known = None if mark is None else mark.fixed
            return run.full(tensor, float(mark is None)).double() if known is None else known.double()

        return [each > 0.5 for each in moved.moves(mask)]

    def _owners(self, moved: Moved, outputs: Sequence[Tensor]) -> Sequence[Owner]:
        """Which sample each element of the results belongs to: the call, made with sample numbers."""
        samples, owners = moved.run.samples, [mark.owner for _, mark in moved.live]
        if samples.is_one or not owners:
            return [None] * len(outputs)
        first = owners[0]
        if self.keeps_axes and isinstance(first, int) and all([type(owner) is int and owner == first for owner in owners]):
            if all([out.shape[first] == samples.count for out in outputs]):
                return [first] * len(outputs)
        elif len(owners) == 1 and not moved.has_constants and isinstance(first, int):
            lanes = lanes_of_views(moved.values[id(moved.tensors[0])], first, outputs)
            if None not in lanes:
                return lanes
        found = moved.moves(moved.numbers)
        if moved.has_constants:
            found = [completed(each, keep=samples.count) for each in found]
        return [samples.told(each) for each in found]


def _wires_of_views(
    again: Callable[[Tensor], Any], whole: Tensor, wire: Tensor, views: Sequence[Tensor]
) -> Sequence[Tensor] | None:
    """The wires of views of one sum. Its own may have a last axis of size 1, if they keep it; None if they do not."""
    is_thin = wire.shape != whole.shape
    if is_thin and all([view.stride() == whole.stride() and view.shape[:-1] == whole.shape[:-1] for view in views]):
        return [wire] * len(views)  # parts of the last axis
    if is_thin and any([v.stride()[-1:] != whole.stride()[-1:] or v.shape[-1:] != whole.shape[-1:] for v in views]):
        return None
    try:
        found = again(wire)
    except (RuntimeError, IndexError):
        return None
    found = (found,) if isinstance(found, Tensor) else found
    shapes = [(*view.shape[:-1], 1) if is_thin else view.shape for view in views]
    return found if [each.shape for each in found] == shapes else None


def lanes_of_views(whole: Tensor, lane: int, views: Sequence[Tensor]) -> list[int | None]:
    """The axis of every view that steps through memory as an axis of the whole does, both counted from the right."""
    size, steps = whole.shape[lane], whole.stride()
    step = steps[lane]

    def alike(tensor: Tensor) -> list[int]:
        return [n - tensor.dim() for n, each in enumerate(tensor.stride()) if each == step and tensor.shape[n] == size]

    def lane_of(view: Tensor) -> int | None:
        if not view._is_view():
            return None
        if view.stride() == steps and view.shape[lane] == size:
            return lane
        axes = alike(view)
        return axes[0] if len(axes) == 1 else None

    return [None] * len(views) if steps.count(step) > 1 and len(alike(whole)) > 1 else [lane_of(view) for view in views]


def _can_end_apart(live: Sequence[tuple[Tensor, Mark]]) -> bool:
    """Whether what ends here is not one open sum: several are, or there are finished neurons behind some."""
    homes = {mark.sum and mark.sum.call for _, mark in live}
    return len(homes) != 1 or any([m.sum is None or m.uncast is not None or m.twin is not None for _, m in live])


def require_all_stay(moved: Moved) -> None:
    """Refuse to put elements into a tensor where they are added up or overwritten."""
    args, kwargs = moved.args, moved.kwargs
    if kwargs.get("reduce") or kwargs.get("accumulate") or (len(args) > 3 and args[3] is True):
        raise NoRule("it adds up what it puts in one place")
    sources = [t for t, _ in moved.marked if t is not moved.tensors[0]] if moved.live else []
    numbers = {id(t): torch.arange(1, t.numel() + 1, device=t.device).double().view(t.shape) for t in sources}
    result: Tensor = moved.again(lambda t: numbers.get(id(t), torch.zeros_like(t, dtype=torch.float64)))
    if any([len(cast(Tensor, result[result > 0].unique())) < number.numel() for number in numbers.values()]):
        raise NoRule("it puts several elements in one place, and only the last one stays, or leaves some out")


def real_part(term: Tensor, q: Tensor) -> Tensor:
    """What a term counts in an open sum: its product with q, Re(conj(q) z) for complex numbers."""
    found = term * q.conj()
    return found.real if found.is_complex() else found


class ElementChoice(Routing):
    """A call that takes each element from one of two tensors; a plain number in the place of one is filled in."""

    rearranges = False

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        fills = not all(isinstance(arg, Tensor) for arg in args[1:3])
        return self._routed(Moved(run, call, args, kwargs, fills=fills))


class Cast(Routing):
    """A change of precision; a further one hands relevance back to what there was before the first, in full precision."""

    words = "changes precision or device"
    casts = True

    def _routed(self, moved: Moved) -> Any:
        if not moved.live:
            return super()._routed(moved)
        run, ((x, mark), *_) = moved.run, moved.live
        moved.call.sources = (mark.node,)
        source, before = mark.uncast or (x, mark)
        y: Tensor = moved.again(Tensor.detach)
        if y.data_ptr() == x.data_ptr() and y.dtype == x.dtype:
            return x
        if not y.is_floating_point():
            return y
        if mark.stands_apart:
            z, own = run.rested(x, mark)
            found = neurons.Passed.apply(z, [neurons.alias(y.detach())])
            self._note(moved, [found], [own.each(lambda part: part.to(y.device, y.dtype))], ())
            return found
        end = neurons.Passed.apply(run.finished(source, before), [y])
        if mark.sum is None:
            found, rest = end, mark.rest
            rest = rest.to(y.device, y.dtype) if isinstance(rest := rest() if callable(rest) else rest, Tensor) else rest
            self._note(moved, [found], None, (), [rest])
        else:  # the sum as it was before is what ends, if nothing is added to it
            z, own = run.opened(source, before)
            found = neurons.Passed.apply(z, [neurons.alias(y.detach())])
            self._note(moved, [found], [own.each(lambda part: part.to(y.device, y.dtype))], [end])
        cast(Mark, run.look(found)).uncast = source, before
        return found

    def _fixed(self, moved: Moved) -> None:
        return None

    def _owners(self, moved: Moved, outputs: Sequence[Tensor]) -> Sequence[Owner]:
        return [moved.live[0][1].owner]


class Pick(Routing):
    """A call that picks elements by value. It is not linear, so open sums end here."""

    words = "picks numbers by value"
    rearranges = is_linear = False

    def _kept(self, moved: Moved) -> list[Tensor]:
        return moved.derivative(torch.ones_like)

    def _sums(self, moved: Moved, outputs: Sequence[Tensor], owns: dict[int, OpenSum]) -> list[OpenSum]:
        wires = {key: own.wire for key, own in owns.items()}
        if None in wires.values():
            return [OpenSum(moved.call) for _ in outputs]
        found = moved.derivative(lambda t: cast(Tensor, wires[id(t)]).expand(t.shape), on_graph=True)
        return [OpenSum(moved.call, wire) for wire in found]

    def _moved_rest(self, moved: Moved, known: dict[int, Tensor]) -> list[Tensor]:
        return moved.derivative(lambda t: known[id(t)])

    def _owners(self, moved: Moved, outputs: Sequence[Tensor]) -> Sequence[Owner]:
        """Pick from sample numbers and from their negatives: over several samples, the two results differ."""
        samples = moved.run.samples
        if samples.is_one:
            return [None] * len(outputs)
        # PyTorch's median misreads expanded tensors
        high, low = (floats_of(moved.again(lambda t, by=by: by * moved.numbers(t).contiguous())) for by in (1, -1))
        return [
            samples.agreed(moved.call, [(one, one.shape), (-other, other.shape)], out.shape, out.device)
            for one, other, out in zip(high, low, outputs, strict=True)
        ]


class Dropout(Routing):
    """Dropout is the identity in evaluation mode. Active dropout changes the prediction with every call, and is refused."""

    words = "dropout, switched off"

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        rate, active = (*args[1:3], *(0.5, True)[len(args) - 1 :])[:2]
        if kwargs.get("training", kwargs.get("train", active)) and kwargs.get("p", rate) > 0:
            raise Refused("it is active although the model predicts; pass training=self.training to it")
        moved = Moved(run, call, args, kwargs)
        moved.function = _same  # PyTorch's returns what it is given
        return self._routed(moved)


def _same(x: Tensor, *_: object, **__: object) -> Tensor:
    return x.view_as(x)


CAST = Cast()
