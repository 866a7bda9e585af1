"""Calls that only move numbers: relevance moves with them, by PyTorch's own derivative, whose entries are 0 and 1."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from whence.equations import Sides, sides_of
from whence.interpreter.backward.samples import completed
from whence.interpreter.record.graph import Graph, graph_of, real
from whence.interpreter.record.refusal import NoRule, Refused
from whence.interpreter.record.step import Arriving, Backward, FanIn, Gate, Owners, Rule, Step, Value, common_gate, common_log
from whence.interpreter.rules.moves import Carry, Parts, Picking
from whence.trees import floats_of


class Routing(Rule):
    """A call that copies, drops and rearranges elements. Relevance that reaches a constant is absorbed.

    `back`: its backward pass, if `moves` has one. `fills`: it fills places that nothing is moved to with numbers of its own.
    `overwrites`: it writes elements into a tensor, where a later one can overwrite an earlier one. `casts`: it only changes
    precision or device. `moves_rows`: whether it moves whole rows, given the step.
    """

    moves = has_sides = True

    def __init__(
        self,
        *,
        back: Callable[..., Carry | None] | None = None,
        fills: bool = False,
        overwrites: bool = False,
        casts: bool = False,
        moves_rows: Callable[[Step], bool] | None = None,
    ) -> None:
        self.back, self.fills, self.overwrites, self.casts, self._moves_rows = back, fills, overwrites, casts, moves_rows
        self.rearranges = not (fills or overwrites)

    def run(self, step: Step) -> object:
        step.saved = self._written_out(step)
        if step.saved is not None:
            return super().run(step)
        result, step.saved = graph_of(step)
        if self.overwrites and loses_elements(step):
            raise NoRule("it puts several elements in one place, and only the last one stays")
        return result

    def _written_out(self, step: Step) -> Carry | None:
        """The backward pass that `moves` has for this call, if there is one."""
        args, kwargs = step.arguments
        if self.back is None or not all(value.is_live for value in step.inputs):
            return None
        try:
            return self.back(*args, **kwargs)
        except TypeError:  # called with other arguments
            return None

    def lasts(self, step: Step) -> bool:
        return not isinstance(step.saved, Graph)

    def is_finite(self, step: Step) -> bool:
        return not self.fills and step.has_finite_constants()

    def moves_rows(self, step: Step) -> bool:
        return self._moves_rows is not None and self._moves_rows(step)

    def gate_of(self, step: Step) -> Gate | None:
        return common_gate(step.inputs)

    def fixed_of(self, step: Step) -> Sequence[Tensor] | None:
        if not self.rearranges or self.casts:
            return None
        has_constants = any(isinstance(leaf, Tensor) and leaf.is_floating_point() for leaf in step.leaves)
        if not has_constants and all(value.is_live and value.fixed is None for value in step.inputs):
            return None

        def mask(value: Value) -> Tensor:
            if not value.is_live:
                return torch.ones_like(value.tensor, dtype=torch.float64)
            return torch.zeros_like(value.tensor, dtype=torch.float64) if value.fixed is None else value.fixed.double()

        found = step.again(mask, lambda constant: torch.ones_like(constant, dtype=torch.float64))
        return [each > 0.5 for each in floats_of(found)]

    def log_of(self, step: Step) -> int | None:
        return common_log([value for value in step.inputs if value.is_live])

    def continues_sum(self, step: Step) -> bool:
        return any(value.in_sum for value in step.inputs)

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        known = [fan_ins.get(value, 1) for value in step.inputs]
        if not self._holds_constants(step) and not any(isinstance(n, Tensor) for n in known) and len(set(known)) == 1:
            return [known[0]] * len(step.outputs)
        filled = step.again(lambda value: torch.zeros_like(value.tensor) + fan_ins.get(value, 1), torch.ones_like)
        return _less_fill(step, filled)

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        known = {value: biases.get(value) for value in step.inputs}
        if all(bias is None for bias in known.values()):
            return [None] * len(step.outputs)

        def of(value: Value) -> Tensor:
            bias = known[value]
            zeros = torch.zeros_like(value.tensor)  # with the strides of the value: what can be viewed there can be here
            return zeros if bias is None else zeros + bias

        return _less_fill(step, step.again(of, torch.zeros_like))

    def sides(self, step: Step, known: Mapping[Value, Sides], *, of_bias: bool = False) -> Sequence[Sides]:
        def of(value: Value) -> Sides:
            zeros = torch.zeros_like(value.tensor)
            return known.get(value) or (Sides(zeros, zeros) if of_bias else sides_of(value.tensor))

        up, down = (_less_fill(step, step.again(lambda value, k=k: of(value)[k], torch.zeros_like)) for k in (0, 1))
        if of_bias or not self._holds_constants(step):
            return [Sides(*each) for each in zip(up, down, strict=True)]
        return [
            Sides(*(torch.where(live > 0, own, fill) for own, fill in zip(each, sides_of(value.tensor), strict=True)))
            for value, live, each in zip(step.outputs, step.saved.covered(), zip(up, down, strict=True), strict=True)
        ]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        if self.casts:
            return [owners[step.inputs[0]]]
        moved = self._moved(step, owners)
        if not self._holds_constants(step):
            return moved
        covered = [torch.where(mask > 0, own, 0.0) for own, mask in zip(moved, step.saved.covered(), strict=True)]
        found = [completed(own, keep=owners.count) for own in covered]
        owners.partial.update(value for value, own in zip(step.outputs, found, strict=True) if not bool(own.all()))
        return found

    def _holds_constants(self, step: Step) -> bool:
        """Whether some element of the result may be a constant rather than moved from a live value."""
        return isinstance(step.saved, Graph) and (
            self.fills
            or any(not value.is_live for value in step.inputs)
            or any(isinstance(leaf, Tensor) and leaf.is_floating_point() for leaf in step.leaves)
        )

    def owners_back(self, step: Step, value: Value, out: Value, owner: Tensor) -> Tensor | None:
        live = [each for each in step.inputs if each.is_live]
        marked = torch.stack([owner, (owner != 0).double()])
        if hasattr(step.saved, "adjoint"):
            marks = step.saved.adjoint([marked.to(each.tensor.dtype) if each is out else None for each in step.outputs])
        else:
            marks = step.saved(marked)
        total, count = real(marks[live.index(value)]).double()
        return total / count.clamp(min=1)

    def _moved(self, step: Step, owners: Owners) -> list[Tensor]:
        """The call applied to sample numbers."""
        return _with_owners(step, lambda value: owners[value])

    def reads(self, step: Step) -> Sequence[Value]:
        return super().reads(step) if isinstance(step.saved, Graph) else ()

    def finishes(self, step: Step, value: Value, finished: set[Value]) -> bool:
        return not value.in_sum or not finished.isdisjoint(step.outputs)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        live = [value for value in step.inputs if value.is_live]
        carry: Callable[..., Sequence[Tensor]] = step.saved
        if isinstance(step.saved, (Graph, Parts)):
            carry = cast(Callable[..., Sequence[Tensor]], step.saved.adjoint)
            amounts = {name: [getattr(each, name, None) for each in arriving] for name in Arriving._fields}
            given = {name: own for name, own in amounts.items() if any(each is not None for each in own)}
        else:
            assert arriving[0] is not None
            given = arriving[0].amounts()
        if isinstance(step.saved, Picking):
            back.deliver_part(step, step.saved.whole, step.saved.place, cast(Mapping[str, Tensor], given))
            return
        carried = {name: carry(own) for name, own in given.items()}
        for k, value in enumerate(live):
            back.deliver(step, value, **{name: found[k] for name, found in carried.items()})
        if isinstance(step.saved, Graph) and self._holds_constants(step):
            for value, each, share in zip(step.outputs, arriving, step.saved.covered(), strict=True):
                if each is not None:
                    back.absorb(step, "constant", back.held(value, each) * (1 - share), value)


class Cut(Routing):
    """A call that cuts a tensor along an axis into several: split, chunk and unbind, whose axis is argument number `place`."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def run(self, step: Step) -> object:
        args, kwargs = step.arguments
        axis = kwargs.get("dim", kwargs.get("axis", args[self.place] if len(args) > self.place else 0))
        if not isinstance(args[0], Value) or not isinstance(axis, int):
            return super().run(step)
        result = Rule.run(self, step)
        parts = floats_of(result)
        step.saved = Parts(axis % args[0].tensor.dim(), [part.shape for part in parts], parts[0].dim() < args[0].tensor.dim())
        return result

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        """Where it is the same along the axis, it is that of every part."""
        whole, saved = step.inputs[0], step.saved
        known = fan_ins.get(whole)
        if not isinstance(saved, Parts) or not isinstance(known, Tensor) or known.dim() != whole.tensor.dim():
            return super().fan_in(step, fan_ins)
        if known.shape[saved.axis] != 1:
            return super().fan_in(step, fan_ins)
        return [known.squeeze(saved.axis) if saved.drops else known] * len(step.outputs)

    def counts_alike(self, step: Step) -> bool:
        return isinstance(step.saved, Parts)


class Pick(Routing):
    """A call that picks elements by value. It is not linear, so open sums end here."""

    def __init__(self) -> None:
        super().__init__()
        self.rearranges = False

    def continues_sum(self, step: Step) -> bool:
        return False

    def _moved(self, step: Step, owners: Owners) -> list[Tensor]:
        """Pick from sample numbers and from their negatives: over several samples, the two results differ."""
        highest = _with_owners(step, lambda value: owners[value].contiguous())  # PyTorch's median misreads expanded tensors
        lowest = _with_owners(step, lambda value: -owners[value])
        return [owners.agreed(step, [high, -low]) for high, low in zip(highest, lowest, strict=True)]


class Placement(Routing):
    """A call that writes elements to given places of a tensor. Adding to what is there has no rule."""

    def __init__(self, *, fills: bool = False, is_index_sized: bool = False) -> None:
        super().__init__(fills=fills, overwrites=True)
        self.is_index_sized = is_index_sized  # whether the source must be as large as the index

    def run(self, step: Step) -> object:
        args, kwargs = step.arguments
        if kwargs.get("reduce") or kwargs.get("accumulate") or (len(args) > 3 and args[3] is True):
            raise NoRule("it adds up what it puts in one place")
        if self.is_index_sized and len(args) > 3:
            source = args[3].tensor if isinstance(args[3], Value) else args[3]
            if isinstance(source, Tensor) and source.shape != args[2].shape:
                raise NoRule("its source is larger than its index")
        return super().run(step)


class Dropout(Routing):
    """Dropout is the identity in evaluation mode. Active dropout changes the prediction with every call, and is refused."""

    def run(self, step: Step) -> object:
        args, kwargs = step.arguments
        rate, active = (*args[1:3], *(0.5, True)[len(args) - 1 :])[:2]
        if kwargs.get("training", kwargs.get("train", active)) and kwargs.get("p", rate) > 0:
            raise Refused("it is active although the model predicts; pass training=self.training to it")
        return super().run(step)


def _with_owners(step: Step, owner: Callable[[Value], Tensor]) -> list[Tensor]:
    """The call applied to the sample numbers of its live values, and to 0 for constants."""

    def numbers(value: Value) -> Tensor:
        return owner(value) if value.is_live else torch.zeros_like(value.tensor, dtype=torch.float64)

    def zeros(constant: Tensor) -> Tensor:
        return torch.zeros_like(constant, dtype=torch.float64)

    try:
        return floats_of(step.again(numbers, zeros))
    except RuntimeError:  # a view, which sample numbers that are expanded along an axis do not allow
        return floats_of(step.again(lambda value: numbers(value).contiguous(), zeros))


def loses_elements(step: Step) -> bool:
    """Whether elements that are put into a tensor are overwritten by others."""
    target = step.arguments[0][0]
    sources = [value for value in step.inputs if value is not target]
    numbers = {
        value: torch.arange(1, value.tensor.numel() + 1, device=value.tensor.device).double().view(value.tensor.shape)
        for value in sources
    }
    result = step.again(
        lambda value: numbers[value] if value in numbers else torch.zeros_like(value.tensor, dtype=torch.float64),
        lambda constant: torch.zeros_like(constant, dtype=torch.float64),
    )
    kept = cast(Tensor, floats_of(result)[0].unique())
    return any(len(kept[kept > 0]) < number.numel() for number in numbers.values())


def _less_fill(step: Step, filled: object) -> list[Tensor]:
    """What a call moved, without the numbers that it filled in."""
    fill = step.again(lambda value: torch.zeros_like(value.tensor), torch.zeros_like)
    # a mask fills with infinities, whose difference is no number
    return [(each - own).nan_to_num(0.0) for each, own in zip(floats_of(filled), floats_of(fill), strict=True)]
