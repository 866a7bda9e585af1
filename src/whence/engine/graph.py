"""Tensors as they stand on PyTorch's graph: finished neurons, and open sums that may still be added to."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast
from weakref import ref

import torch
from torch import Tensor
from torch.overrides import _pop_mode_temporarily

from whence.engine import neurons, resting
from whence.engine.held import ModelParts
from whence.engine.layers import Layers
from whence.engine.ledger import Ledger
from whence.engine.marks import KEY, Gate, Late, Mark, ModelCall, Node, OpenSum, Owner, Rest, Resting, put_mark
from whence.engine.observer import Observer
from whence.engine.refusal import name_of
from whence.engine.rule import OverwrittenError
from whence.engine.samples import Samples
from whence.engine.sides import EndedSides, OpenedSides
from whence.engine.sight import Sight
from whence.engine.watch import Watch
from whence.equations import Rules, Sides
from whence.trees import floats_of, mapped


class Cut(NamedTuple):
    """Where the graph is cut for several targets: a recurrent call, its inputs on the graph, and its outputs as new leaves."""

    followed: Any
    tensors: list[Tensor]
    leaves: list[Tensor]


class GraphRun(Sight):
    """Puts what a model computes on PyTorch's graph.

    `is_safe`: numbers that the way back needs are copied, for models that write over them afterwards. `is_audit`: what every
    layer gets and hands on is noted.
    """

    def __init__(
        self,
        count: int,
        parts: ModelParts,
        layers: Layers,
        rules: Rules,
        samples: Samples,
        observer: Observer | None,
        *,
        is_safe: bool,
        is_audit: bool,
    ) -> None:
        super().__init__(count, parts, layers, samples, observer)
        self.rules, self.shares, self.is_safe, self.is_audit = rules, rules.shares, is_safe, is_audit
        self.is_many = False  # whether several targets go back
        self.ledgers: list[Ledger] = []  # one for every target
        self.target = 0  # the one that goes back now
        self.current: ModelCall | None = None
        self.gaps: dict[str, Tensor] = {}  # of an audit: by layer, what came minus what went on or was absorbed
        self.stop_at_layer = True  # whether relevance goes no further than the layer `at`
        self.followed: list[Any] = []  # recurrent calls
        self.cuts: list[Cut] = []
        self.anchor = torch.zeros((), requires_grad=True)  # where what constants get ends
        self.bases: dict[int, tuple[Tensor, Tensor]] = {}  # memory behind results that PyTorch made as views, and these
        self._wires: dict[tuple[object, ...], Tensor] = {}
        self._clones: dict[int, tuple[Tensor, Tensor]] = {}
        self._captured: list[tuple[Tensor, int]] = []

    @property
    def ledger(self) -> Ledger:
        """The ledger of the target that goes back now."""
        return self.ledgers[self.target]

    def at(self, tensor: Tensor, mark: Mark) -> Tensor:
        """The tensor with this mark as it stands on the graph."""
        if mark.carrier is not None and mark.alias is None:
            self.remember(mark).alias = alias = neurons.Passed.apply(mark.carrier, [tensor.detach()])
            put_mark(alias, mark)
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
            # without their graph and their marks, which lead back to more; writes are counted all the same
            ctx.save_for_backward(*[None if t is None else t.detach() for t in tensors])

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

    def carried(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, Tensor]:
        """A neuron on the graph that gets the relevance of a finished neuron, and its numbers; the former's may be others."""
        if mark.carrier is None:
            if mark.late is None:
                x = self.finished(tensor, mark)
                return x, x
            self.remember(mark).carrier = self.finished(*self._source(mark))
        return cast(Tensor, mark.carrier), tensor

    def _source(self, mark: Mark) -> tuple[Tensor, Mark]:
        """What a gate or a product hands its relevance on to, when it is put on the graph."""
        x, source, version = cast(Late, mark.late)
        if x._version != version:
            raise OverwrittenError
        mark.late = None
        return x, source

    def _finished_late(self, tensor: Tensor, mark: Mark) -> Tensor:
        """Put a gate or a product on the graph, now that it is asked for as a neuron."""
        x, source = self._source(mark)
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
        if own.rest is not None:
            return self._ended_at_rest(z, own, y, mark)
        if own.sides is not None:
            return cast(Tensor, EndedSides.apply(*own.sides, own.wire, z.detach(), [y], own, mark.node, self))
        return cast(Tensor, neurons.Ended.apply(z, own.wire, [y], own, mark.node, self))

    def opened(self, tensor: Tensor, mark: Mark, *, is_thin: bool = False, rests: bool = True) -> tuple[Tensor, OpenSum]:
        """A live tensor as an open sum; a finished neuron becomes a term.

        `is_thin`: its wire may have a last axis of size 1. `rests`: with its value at rest, if it has one.
        """
        if mark.resting is not None and rests:
            return mark.resting()
        if mark.sum is not None:
            z, own = self.at(tensor, mark), mark.sum
            if mark.is_buffer:  # it may be written to again
                wire, bias = (None if each is None else each.clone() for each in (own.wire, own.bias))
                wire = self.full(z, 0.0).real if z.is_complex() and self.shares else wire
                own = replace(own, wire=wire, bias=bias)
            if own.wire is not None and not is_thin and own.wire.shape != z.shape:
                own = replace(own, wire=own.wire.expand(z.shape))
            return (z, own) if not self.is_audit else self.passed(z, own, self._edge(mark))
        carrier, x = self.carried(tensor, mark)
        if mark.rest is not None and rests:
            rest = self.rest_of(x, mark)
            made = resting.Changed.apply(carrier, [x], rest, mark.node, self._edge(mark) if self.is_audit else None, self)
            z, wire = made if self.shares else (made, None)
            return z, OpenSum(cast(ModelCall, mark.call), wire, 1.0, rest=rest)
        made = neurons.Opened.apply(carrier, [x], mark.is_infinite, self)
        z, wire = made if self.shares else (made, None)
        return z, OpenSum(cast(ModelCall, mark.call), wire, 1.0)

    def rest_of(self, tensor: Tensor, mark: Mark) -> Tensor:
        """The value at rest of a tensor."""
        if mark.sum is not None:
            return self.full(tensor, 0.0) if mark.sum.rest is None else mark.sum.rest
        rest = mark.rest() if callable(mark.rest) else mark.rest
        return rest if isinstance(rest, Tensor) else self.full(tensor.detach(), 0.0 if rest is None else rest)

    def rested(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, OpenSum]:
        """A live tensor as a sum with its value at rest; another sum ends, and becomes a term."""
        if mark.resting is None and mark.sum is not None and mark.sum.rest is None:
            x = self.finished(tensor, mark)
            made = neurons.Opened.apply(x, [x], mark.is_infinite, self)
            z, wire = made if self.shares else (made, None)
            own = OpenSum(cast(ModelCall, mark.call), wire, 1.0)
        else:
            z, own = self.opened(tensor, mark)
        return z, own if own.rest is not None else replace(own, rest=self.full(z.detach(), 0.0))

    def settle(self, given: Sequence[tuple[Tensor, Mark]], *, is_state: bool = False) -> None:
        """Where a gate times a source is beside a gate times a constant, the constant is a former state: it absorbs all."""
        if not any([mark.state for _, mark in given]) or not (is_state or any([mark.is_gated for _, mark in given])):
            return
        for tensor, mark in given:
            if mark.state:
                node = Node(mark.call, owner=mark.owner)
                alias = neurons.Absorbed.apply(self.anchor, [tensor.detach().clone()], None, node, self)
                self.remember(mark).alias = alias
                mark.sum = mark.done = mark.rest = mark.resting = mark.late = mark.carrier = None
                mark.state = 0
                if mark.call is not None:
                    mark.call.sources = ()

    def put_off(self, y: Tensor, inputs: Sequence[Tensor], stand: Resting) -> None:
        """Note how a result that is seldom asked for as a sum stands as one, with its value at rest."""
        mark, versions = self.remember(cast(Mark, y.__dict__[KEY])), [x._version for x in inputs]

        @cache
        def known() -> tuple[Tensor, OpenSum]:
            if versions != [x._version for x in inputs]:
                raise OverwrittenError
            return stand()

        mark.resting = known
        if self.is_safe:
            known()

    def changed(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, Tensor | None]:
        """A live tensor as a finished neuron whose relevance is that of what it is beyond its value at rest, and that value."""
        if not mark.rests:
            return self.finished(tensor, mark), None
        if mark.resting is None:
            return self.finished(tensor, mark), self.rest_of(tensor, mark)
        z, own = mark.resting()
        return self._ended_at_rest(z, own, neurons.alias(z.detach()), mark), own.rest

    def _ended_at_rest(self, z: Tensor, own: OpenSum, y: Tensor, mark: Mark) -> Tensor:
        z = resting.Shifted.apply(z, cast(Tensor, own.rest), Node(own.call, owner=mark.owner), self)
        return cast(Tensor, neurons.Ended.apply(z, own.wire, [y], replace(own, bias=None, rest=None), mark.node, self))

    def sided(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, OpenSum]:
        """A live tensor as a term of a sum of the head: what is no sum of the head itself is one contribution."""
        if mark.sum is not None and mark.sum.sides is not None:
            z = self.at(tensor, mark)
            return (z, mark.sum) if not self.is_audit else self.passed(z, mark.sum, self._edge(mark))
        x, rest = self.changed(tensor, mark)
        made = OpenedSides.apply(x, rest, mark.node, self)
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
        self, z: Tensor, own: OpenSum, note: Callable[[Tensor], None], *, stops: Callable[[], bool] = bool
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
        return made[0], OpenSum(own.call, wire, own.count, own.bias, rest=own.rest)

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

    def _watched(self, tensor: Tensor, mark: Mark) -> tuple[Tensor, Watch]:
        watch = Watch(tensor, mark.owner)

        def note(amount: Tensor) -> None:
            watch.note(self.target, amount)

        own = None
        if mark.sum is None:
            (found,) = neurons.Noted.apply(note, (None,), lambda: self.stop_at_layer, self.finished(tensor, mark))
        else:
            found, own = self.passed(self.at(tensor, mark), mark.sum, note, stops=lambda: self.stop_at_layer)
            found = found.view_as(found) if found is tensor else found
        known = self.attach(found, Mark(self.token, mark.node, found._version, own, mark.fixed, before=None))
        if own is not None:  # where the sum ends here, it is the neuron that is watched
            known.done = neurons.Noted.apply(note, (None,), lambda: self.stop_at_layer, self.finished(tensor, mark))[0]
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
        rest: Rest = None,
    ) -> Tensor:
        """Mark a result of a call."""
        node = Node(call, is_live, gate, log, owner, is_infinite, sum is not None)
        if tensor.is_complex():
            call.is_complex = True
        call.outputs += (node,)
        mark = Mark(self.token, node, tensor._version, sum, fixed)
        put_mark(tensor, mark)
        if rest is not None:
            mark.rest = rest
        if sum is not None or callable(rest):
            self._marks.append(ref(mark))
        base = tensor._base
        if base is not None and KEY not in base.__dict__:
            self.bases.setdefault(id(base), (base, tensor))
        return tensor

    def agreed(self, call: ModelCall, tensors: Sequence[tuple[Tensor, Mark]], result: Tensor) -> Owner:
        """The owner of the result of an elementwise call."""
        if self.samples.is_one:
            return None
        lane: Owner = None
        for _, mark in tensors:
            owner = mark.node.owner
            if mark.node.is_live and (type(owner) is not int or (lane is not None and owner != lane)):
                break
            lane = owner if mark.node.is_live else lane
        else:
            if lane is not None:
                return lane
        return self.samples.agreed(
            call, [(mark.owner, t.shape) for t, mark in tensors if mark.is_live], result.shape, result.device
        )

    def enter(self, call: ModelCall, kind: str, totals: Tensor, *, part: str = "") -> None:
        """Enter amounts (K, B) by target: into the ledger of the way back, or of each of them."""
        if len(totals) == 1:
            self.ledger.enter(call, kind, totals[0], part=part)
            return
        for ledger, amount in zip(self.ledgers, totals, strict=True):
            ledger.enter(call, kind, amount, part=part)

    def recurred(self, function: Any, followed: Any, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs of a recurrent call, on the graph; for many targets, the graph is cut there, and they go back at once."""
        self.followed.append(followed)
        if not self.is_many or followed.read.is_cell:
            return function.apply(followed, *tensors)
        with torch.enable_grad():
            leaves = [out.detach().requires_grad_() for out in followed.outputs]
            self.cuts.append(Cut(followed, list(tensors), leaves))
            return [neurons.Passed.apply(leaf, [out]) for leaf, out in zip(leaves, followed.outputs, strict=True)]
