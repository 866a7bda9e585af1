"""Linear maps by PyTorch's own derivative: scatter_add, interpolation, Fourier transforms, complex numbers.

They are part of an open sum and hand on its coefficient q. Complex values are always part of an open sum: they have no
relevance of their own, and end in a real result, whose lower neurons are the real numbers that went in. A complex q stands for
the derivatives to the real and the imaginary part, as in PyTorch, so that a term z counts Re(conj(q) z).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.engine.marks import Args, Kwargs, ModelCall, OpenSum, Owner
from whence.engine.routing import CAST, Moved
from whence.engine.rule import Rule
from whence.engine.run import ModelRun
from whence.equations import absorbed_by_bias
from whence.trees import floats_of, leaves_of

Axes = Callable[[Args, Kwargs], Sequence[int]]


class Map(Rule):
    """A linear map of its live arguments; what its constants contribute is a bias.

    `axes`: the axes along which every element of the result is connected to every element of the argument; None if the map
    takes no negative number times an element, so that applying it to counts and to sample numbers makes sense.
    """

    words = "linear map"

    def __init__(self, *, axes: Axes | None = None) -> None:
        self.axes = axes

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        moved = Moved(run, call, args, kwargs)
        call.sources = tuple(dict.fromkeys(mark.node for _, mark in moved.live))
        opened = {id(t): run.opened(t, mark) for t, mark in moved.live}
        self._tap_biases(run, call, moved, opened)
        z: Tensor = moved.again(lambda t: opened[id(t)][0] if id(t) in opened else run.constant(t))
        if not floats_of(z):
            return z
        if any(z is each for each, _ in opened.values()):
            return args[0]
        is_dense = self.axes is not None or any(t.is_complex() for t in (*moved.tensors, z))
        constant: Tensor | None = None
        if len(moved.live) < len(moved.tensors):
            with torch.no_grad():
                constant = moved.again(lambda t: torch.zeros_like(t) if id(t) in opened else t.detach())
        wire, count = None, None
        if run.shares:
            wire = run.full(z.real if z.is_complex() else z, 0.0) if is_dense else self._wire(run, moved, opened, z)
            count = 0.0 if is_dense else None
        bias = None if is_dense else self._bias(run, moved, opened, constant)
        owner = self._owner(run, call, moved, args, kwargs, z)
        is_infinite = constant is not None or any(node.is_infinite for node in call.inputs)
        run.put(z, call, is_live=bool(moved.live), sum=OpenSum(call, wire, count, bias), owner=owner, is_infinite=is_infinite)
        if constant is not None and z.requires_grad:
            self._tap(run, call, z, constant, is_dense=is_dense)
        return z

    def _wire(self, run: ModelRun, moved: Moved, opened: dict[int, tuple[Tensor, OpenSum]], z: Tensor) -> Tensor:
        def wire(tensor: Tensor) -> Tensor:
            own = opened[id(tensor)][1].wire if id(tensor) in opened else None
            return run.full(tensor, 0.0) if own is None else own

        return moved.again(wire).to(z.dtype)

    def _bias(
        self, run: ModelRun, moved: Moved, opened: dict[int, tuple[Tensor, OpenSum]], constant: Tensor | None
    ) -> Tensor | None:
        own = [each.bias for _, each in opened.values()]
        if run.rules.delta == 0 or (constant is None and all(each is None for each in own)):
            return None

        def bias(tensor: Tensor) -> Tensor:
            given = opened[id(tensor)][1].bias if id(tensor) in opened else tensor.detach()
            return torch.zeros_like(tensor) + (0.0 if given is None else given)

        with torch.no_grad():
            return moved.again(bias)

    def _tap(self, run: ModelRun, call: ModelCall, z: Tensor, constant: Tensor, *, is_dense: bool) -> None:
        """Enter what the constants contribute."""
        node, shape = call.outputs[-1], tuple(z.shape)

        def absorb(q: Tensor) -> None:
            kept = real_part(constant, q) if is_dense else absorbed_by_bias(constant, q=q, rules=run.rules)
            run.ledger.absorb(call, "bias", kept, node, shape)

        run.tap(z, absorb)

    def _tap_biases(self, run: ModelRun, call: ModelCall, moved: Moved, opened: dict[int, tuple[Tensor, OpenSum]]) -> None:
        """Enter the part of biases that would be shared out, where no shares are handed on."""
        if self.axes is None and not any(t.is_complex() for t in moved.tensors):
            return
        for tensor, mark in {id(t): (t, mark) for t, mark in moved.live}.values():
            z, own = opened[id(tensor)]
            opened[id(tensor)] = run.less_bias(call, z, own.bias, mark.node), own

    def _owner(self, run: ModelRun, call: ModelCall, moved: Moved, args: Args, kwargs: Kwargs, z: Tensor) -> Owner:
        samples = run.samples
        if samples.is_one or not moved.live:
            return None
        if self.axes is not None:
            axes = self.axes(args, kwargs)
            reduced = [
                samples.reduced(call, mark.owner, t.shape, [axis % t.dim() for axis in axes], z.device)
                for t, mark in moved.live
            ]
            joint: Owner = reduced[0]
            shape = moved.live[0][0].shape
            if len(reduced) > 1:
                pairs = [(owner, t.shape) for owner, (t, _) in zip(reduced, moved.live, strict=True)]
                joint = samples.agreed(call, pairs, shape, z.device)
            if isinstance(joint, int):
                place = joint + len(shape)
                return place - z.dim() if place < z.dim() and z.shape[place] == samples.count else None
            return None if joint is None else samples.told(_fitted(samples.numbers(joint, joint.shape, z.device), z.shape))
        if len(moved.live) == 1:
            ((t, mark),) = moved.live

            def applied_to(numbers: Tensor) -> Tensor:
                return moved.again(lambda each: numbers if each is t else torch.zeros_like(each, dtype=torch.float64))

            with torch.no_grad():
                return samples.spread(call, applied_to, (mark.owner, t.shape), z.device)
        owners = {id(t): samples.numbers(mark.owner, t.shape, z.device) for t, mark in moved.live}

        def applied(stand_in: Callable[[Tensor], Tensor]) -> Tensor:
            zero = torch.zeros((), dtype=torch.float64)
            return moved.again(lambda t: stand_in(owners[id(t)]).contiguous() if id(t) in owners else zero.expand(t.shape))

        with torch.no_grad():
            count = applied(lambda each: (each != 0).double()).clamp(min=1e-9)
            mean = applied(lambda each: each) / count
            variance = applied(lambda each: each * each) / count - mean * mean
        if bool((variance > 1e-6 * (1 + mean * mean)).any()):
            call.is_mixed = True
            return None
        return samples.told(torch.round(mean))


def real_part(term: Tensor, q: Tensor) -> Tensor:
    """What a term counts in an open sum: its product with q, Re(conj(q) z) for complex numbers."""
    found = term * q.conj()
    return found.real if found.is_complex() else found


def _fitted(owner: Tensor, shape: torch.Size) -> Tensor:
    """Sample numbers in the shape of a result: axes of size 1 are expanded, and a missing or extra last axis is mended."""
    if owner.dim() == len(shape) + 1:
        owner = owner[..., 0]
    elif owner.dim() == len(shape) - 1:
        owner = owner.unsqueeze(-1)
    return owner.expand(shape)


def nowhere(args: Args, kwargs: Kwargs) -> Sequence[int]:
    """The axes of a map that works element by element."""
    return ()


def last(args: Args, kwargs: Kwargs) -> Sequence[int]:
    """The axis of the pairs of numbers that are read as complex ones."""
    return (-1,)


def transformed(args: Args, kwargs: Kwargs) -> Sequence[int]:
    """The axis of a Fourier transform."""
    return _named_axes(args, kwargs, (-1,))


def transformed_twice(args: Args, kwargs: Kwargs) -> Sequence[int]:
    """The axes of a two-dimensional Fourier transform."""
    return _named_axes(args, kwargs, (-2, -1))


def transformed_everywhere(args: Args, kwargs: Kwargs) -> Sequence[int]:
    """The axes of a Fourier transform of all axes, unless it names some."""
    x, sizes = args[0], kwargs.get("s", args[1] if len(args) > 1 else None)
    return _named_axes(args, kwargs, range(x.dim()) if sizes is None else range(-len(sizes), 0))


def _named_axes(args: Args, kwargs: Kwargs, otherwise: Sequence[int]) -> Sequence[int]:
    given = kwargs.get("dim", args[2] if len(args) > 2 else None)
    return otherwise if given is None else [given] if isinstance(given, int) else list(given)


RECAST = Map(axes=nowhere)


def cast_to(run: ModelRun, args: Args, kwargs: Kwargs) -> Rule:
    """The rule for a change of type: to or from complex numbers, it is a linear map."""
    leaves = leaves_of((args, kwargs))
    is_complex = any(leaf.is_complex() for leaf in leaves if isinstance(leaf, Tensor))
    return RECAST if is_complex or any(leaf.is_complex for leaf in leaves if isinstance(leaf, torch.dtype)) else CAST
