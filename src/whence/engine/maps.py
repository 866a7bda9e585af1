"""Linear maps by PyTorch's own derivative: scatter_add, interpolation, Fourier transforms, complex numbers.

They are part of an open sum and hand on its coefficient q. Complex values are always part of an open sum: they have no
relevance of their own, and end in a real result, whose lower neurons are the real numbers that went in. A complex q stands for
the derivatives to the real and the imaginary part, as in PyTorch, so that a term z counts Re(conj(q) z).
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from whence.engine.marks import Args, Kwargs, Mark, ModelCall, OpenSum, Owner
from whence.engine.routing import CAST, Moved, real_part
from whence.engine.rule import Rule
from whence.engine.run import ModelRun
from whence.equations import absorbed_by_bias
from whence.trees import leaves_of

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
        is_dense = self.axes is not None or any(t.is_complex() for t in moved.tensors)
        opened = {id(t): self._opened(moved, t, mark, is_dense=is_dense) for t, mark in moved.live}
        z, outputs, is_given = moved.made({key: value for key, (value, _) in opened.items()})
        if is_given or not outputs:
            return z

        def again(part: Callable[[OpenSum], Tensor | None], otherwise: Callable[[Tensor], Tensor]) -> Tensor:
            """The map of one part of the sums, 0 where a sum lacks it; of constants, what they count otherwise."""
            found = {key: part(own) for key, (_, own) in opened.items()}
            full = {id(t): run.full(t, 0.0) if found[id(t)] is None else found[id(t)] for t, _ in moved.live}
            return moved.again(lambda t: cast(Tensor, full[id(t)]) if id(t) in full else otherwise(t))

        constant = again(lambda own: None, Tensor.detach) if moved.has_constants else None
        wire, count, bias = None, None, None
        if run.shares:
            wire = (
                run.full(z.real if z.is_complex() else z, 0.0) if is_dense else again(lambda own: own.wire, zeros).to(z.dtype)
            )
            count = 0.0 if is_dense else None
        is_biased = constant is not None or any(own.bias is not None for _, own in opened.values())
        if is_biased and not is_dense and run.rules.delta != 0:
            bias = again(lambda own: own.bias, Tensor.detach)
        owner = self._owner(moved, z)
        is_infinite = constant is not None or any(node.is_infinite for node in call.inputs)
        run.put(z, call, is_live=bool(moved.live), sum=OpenSum(call, wire, count, bias), owner=owner, is_infinite=is_infinite)
        if constant is not None and z.requires_grad:
            self._tap(moved, z, constant, is_dense=is_dense)
        return z

    def _opened(self, moved: Moved, tensor: Tensor, mark: Mark, *, is_dense: bool) -> tuple[Tensor, OpenSum]:
        """A tensor as an open sum; where no shares are handed on, the part of its bias that would be shared is absorbed."""
        z, own = moved.run.opened(tensor, mark)
        return (moved.run.less_bias(moved.call, z, own.bias, mark.node) if is_dense else z), own

    def _tap(self, moved: Moved, z: Tensor, constant: Tensor, *, is_dense: bool) -> None:
        """Enter what the constants contribute."""
        run, call = moved.run, moved.call
        node, shape = call.outputs[-1], tuple(z.shape)

        def absorb(q: Tensor) -> None:
            kept = real_part(constant, q) if is_dense else absorbed_by_bias(constant, q=q, rules=run.rules)
            run.ledger.absorb(call, "bias", kept, node, shape)

        run.tap(z, absorb)

    def _owner(self, moved: Moved, z: Tensor) -> Owner:
        samples, call = moved.run.samples, moved.call
        if samples.is_one or not moved.live:
            return None
        if self.axes is None:
            live = {id(t) for t, _ in moved.live}

            def applied(of: Callable[[Tensor], Tensor]) -> Tensor:
                return moved.again(
                    lambda t: of(moved.numbers(t)) if id(t) in live else torch.zeros_like(t, dtype=torch.float64)
                )

            return samples.spread(call, applied)
        shape = moved.live[0][0].shape
        axes = [axis % len(shape) for axis in self.axes(moved.args, moved.kwargs)]
        reduced = [(samples.reduced(call, mark.owner, t.shape, axes, z.device), t.shape) for t, mark in moved.live]
        numbers = samples.numbers(samples.agreed(call, reduced, shape, z.device), shape, z.device)
        for axis in axes:  # the same everywhere along it
            numbers = numbers.narrow(axis, 0, 1)
        if numbers.dim() != z.dim():  # it makes pairs of real numbers of complex ones, or the other way round
            numbers = numbers[..., 0] if numbers.dim() > z.dim() else numbers.unsqueeze(-1)
        return samples.told(numbers.expand(z.shape))


def zeros(tensor: Tensor) -> Tensor:
    """Zeros of its form."""
    return torch.zeros_like(tensor.detach())


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
