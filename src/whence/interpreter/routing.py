"""Calls that only move numbers: relevance moves with them, by PyTorch's own derivative, whose entries are 0 and 1."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.interpreter.moves import CASTS, way_back
from whence.interpreter.rule import Arriving, FanIn, Graph, NoRule, Refused, Rule, graph_of
from whence.interpreter.samples import Owners, completed
from whence.interpreter.trace import Step, Value, leaves_of, tensors_of

if TYPE_CHECKING:
    from whence.interpreter.sweep import Sweep

# These put numbers of their own where nothing was moved to.
FILLS = set("unfold pad constant_pad_nd masked_fill where setitem scatter index_fill pad_packed_sequence tril triu".split())


OVERWRITES = ("setitem", "scatter", "index_put", "index_copy")


class Routing(Rule):
    """A call that copies, drops and rearranges elements. What lands on a constant is absorbed there."""

    def run(self, step: Step) -> Any:
        back = way_back(step)
        if back is not None:
            step.saved = back
            return super().run(step)
        result, step.saved = graph_of(step)
        if step.name in OVERWRITES and loses_elements(step):
            raise NoRule("it puts several elements in one place, and only the last one stays")
        return result

    def is_gate(self, step: Step) -> bool:
        return all(value.is_gate for value in step.inputs)

    def continues_sum(self, step: Step) -> bool:
        return any(value.in_sum for value in step.inputs)

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        known = [fan_ins.get(value, 1) for value in step.inputs]
        if not holds_constants(step) and not any(isinstance(n, Tensor) for n in known) and len(set(known)) == 1:
            return [known[0]] * len(step.outputs)
        filled = step.again(lambda value: torch.zeros_like(value.tensor) + fan_ins.get(value, 1), torch.ones_like)
        return _less_fill(step, filled)

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        known = {value: biases.get(value) for value in step.inputs}
        if all(bias is None for bias in known.values()):
            return [None] * len(step.outputs)

        def of(value: Value) -> Tensor:
            bias = known[value]
            return torch.zeros_like(value.tensor) if bias is None else bias.expand(value.tensor.shape)

        return _less_fill(step, step.again(of, torch.zeros_like))

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        if step.name in CASTS:
            return [owners[step.inputs[0]]]
        moved = self._moved(step, owners)
        if not holds_constants(step):
            return moved
        covered = [torch.where(mask > 0, own, 0.0) for own, mask in zip(moved, step.saved.covered(), strict=True)]
        return [completed(own, keep=owners.count) for own in covered]

    def _moved(self, step: Step, owners: Owners, sign: int = 1) -> list[Tensor]:
        """The call made on the numbers of samples."""
        return floats(
            step.again(
                lambda value: (
                    (owners[value] if sign == 1 else -owners[value])
                    if value.is_live
                    else torch.zeros_like(value.tensor).double()
                ),
                lambda constant: torch.zeros_like(constant).double(),
            )
        )

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        live = [value for value in step.inputs if value.is_live]
        back: Callable[..., Any] = step.saved
        if isinstance(step.saved, Graph):
            back = step.saved.adjoint
            amounts = {name: [getattr(each, name, None) for each in arriving] for name in Arriving._fields}
            given = {name: own for name, own in amounts.items() if any(each is not None for each in own)}
        else:
            assert arriving[0] is not None
            given = {name: own for name, own in arriving[0]._asdict().items() if own is not None}
        carried = {name: back(own) for name, own in given.items()}
        for k, value in enumerate(live):
            sweep.deliver(step, value, **{name: found[k] for name, found in carried.items()})
        if holds_constants(step):
            for value, each, share in zip(step.outputs, arriving, step.saved.covered(), strict=True):
                if each is not None:
                    sweep.book(step, "constant", sweep.held(value, each) * (1 - share), value)


class Pick(Routing):
    """A call that picks elements by their size: not linear, so it ends the sums that it is given."""

    def continues_sum(self, step: Step) -> bool:
        return False

    def _moved(self, step: Step, owners: Owners, sign: int = 1) -> list[Tensor]:
        """A maximum over several samples picks the highest number of theirs, and of the negative ones the lowest."""
        highest, lowest = super()._moved(step, owners), super()._moved(step, owners, -1)
        return [owners.agreed(step, [high, -low]) for high, low in zip(highest, lowest, strict=True)]


class Placement(Routing):
    """A call that puts elements into a tensor at given places; adding them up there is another matter."""

    def run(self, step: Step) -> Any:
        args, kwargs = step.arguments
        if kwargs.get("reduce") or kwargs.get("accumulate") or (len(args) > 3 and args[3] is True):
            raise NoRule("it adds up what it puts in one place")
        if step.name == "scatter" and len(args) > 3:
            source = args[3].tensor if isinstance(args[3], Value) else args[3]
            if isinstance(source, Tensor) and source.shape != args[2].shape:
                raise NoRule("its source is larger than its index")
        return super().run(step)


class Dropout(Routing):
    """Dropout at rest is the identity; at work it draws anew every time, and there is no one prediction to explain."""

    def run(self, step: Step) -> Any:
        args, kwargs = step.arguments
        rate, active = (*args[1:3], *(0.5, True)[len(args) - 1 :])[:2]
        if kwargs.get("training", kwargs.get("train", active)) and kwargs.get("p", rate) > 0:
            raise Refused("it is active although the model predicts; pass training=self.training to it")
        return super().run(step)


def loses_elements(step: Step) -> bool:
    """Whether elements that are put into a tensor are overwritten by others."""
    target = step.arguments[0][0]
    sources = [value for value in step.inputs if value is not target]
    numbers = {
        value: torch.arange(1, value.tensor.numel() + 1, device=value.tensor.device).double().view(value.tensor.shape)
        for value in sources
    }
    result = step.again(
        lambda value: numbers[value] if value in numbers else torch.zeros_like(value.tensor).double(),
        lambda constant: torch.zeros_like(constant).double(),
    )
    kept = floats(result)[0].unique()
    return any(len(kept[kept > 0]) < number.numel() for number in numbers.values())


def _less_fill(step: Step, filled: Any) -> list[Tensor]:
    """What a call moved, without the numbers that it filled in itself."""
    fill = step.again(lambda value: torch.zeros_like(value.tensor), torch.zeros_like)
    return [each - own for each, own in zip(floats(filled), floats(fill), strict=True)]


def floats(result: Any) -> list[Tensor]:
    """The floating-point tensors of a result."""
    return [tensor for tensor in tensors_of(result) if tensor.is_floating_point()]


def holds_constants(step: Step) -> bool:
    """Whether some element of the result may be a constant rather than moved from a live value."""
    return (
        step.name in FILLS
        or any(not value.is_live for value in step.inputs)
        or any(isinstance(leaf, Tensor) and leaf.is_floating_point() for leaf in leaves_of(step.arguments))
    )
