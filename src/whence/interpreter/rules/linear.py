"""Linear maps by PyTorch's own derivative: scatter_add, interpolation, Fourier transforms, complex numbers.

They are part of an open sum and hand on its coefficient q. Complex values are always part of an open sum: they have no
relevance of their own, and end in a real result, whose lower neurons are the real numbers that went in. A complex q stands for
the derivatives to the real and the imaginary part, as in PyTorch, so that a term z counts Re(conj(q) z).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whence.equations import absorbed_by_bias
from whence.interpreter.record.graph import graph_of
from whence.interpreter.record.step import Arriving, Backward, FanIn, MixedSamplesError, Owners, Rule, Step, Value
from whence.trees import floats_of

Axes = Callable[[Step], Sequence[int]]


class Map(Rule):
    """A linear map of its live arguments; what its constants contribute is a bias.

    `axes`: the axes along which every element of the result is connected to every element of the argument; None if the map
    takes no negative number times an element, so that applying it to counts and to sample numbers makes sense.
    """

    in_sum = True

    def __init__(self, *, axes: Axes | None = None) -> None:
        self.axes = axes

    def run(self, step: Step) -> object:
        result, step.saved = graph_of(step)
        return result

    def _constant(self, step: Step) -> Tensor | None:
        """What the constants contribute."""
        if not any(isinstance(leaf, Tensor) and leaf.is_floating_point() for leaf in step.leaves) and not any(
            not value.is_live for value in step.inputs
        ):
            return None
        return floats_of(step.again(lambda value: torch.zeros_like(value.tensor) if value.is_live else value.tensor))[0]

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        if self._is_dense(step):
            return [0]  # its lower neurons are not counted, so the share of the stabiliser is absorbed
        counted = self._applied(step, lambda value: torch.zeros_like(value.tensor).double() + fan_ins.get(value, 1))
        return [counted.to(step.outputs[0].tensor.dtype)]

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        if self._is_dense(step):
            return [None]
        own = {value: biases.get(value) for value in step.inputs if value.is_live}
        constant = self._constant(step)
        if constant is None and all(each is None for each in own.values()):
            return [None]

        def of(value: Value) -> Tensor:
            bias = own.get(value)
            return torch.zeros_like(value.tensor) + (0.0 if bias is None else bias) if value.is_live else value.tensor

        return [floats_of(step.again(of))[0]]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        live = [value for value in step.inputs if value.is_live]
        if self.axes is not None:
            reduced = [owners.reduced(step, owners[value], self.axes(step)) for value in live]
            joint = owners.agreed(step, reduced)
            return [_fitted(joint, out.tensor.shape) for out in step.outputs]
        count = self._applied(step, lambda value: (owners[value] != 0).double()).clamp(min=1e-9)
        mean = self._applied(step, lambda value: owners[value].contiguous()) / count
        variance = self._applied(step, lambda value: owners[value] ** 2) / count - mean * mean
        if (variance > 1e-6 * (1 + mean * mean)).any():
            raise MixedSamplesError(step)
        return [torch.round(mean)]

    def _applied(self, step: Step, stand_in: Callable[[Value], Tensor]) -> Tensor:
        """The map applied to other numbers, without constants."""
        result = step.again(
            lambda value: stand_in(value) if value.is_live else torch.zeros_like(value.tensor, dtype=torch.float64),
            lambda constant: torch.zeros_like(constant, dtype=torch.float64),
        )
        return floats_of(result)[0]

    def _is_dense(self, step: Step) -> bool:
        is_complex = any(value.tensor.is_complex() for value in (*step.inputs, *step.outputs))
        return is_complex or self.axes is not None

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        (out,) = step.outputs
        q, s, _ = back.unfinished(step, out, arriving[0])
        live = [value for value in step.inputs if value.is_live]
        constant = self._constant(step)
        if constant is not None:
            is_dense = self._is_dense(step)
            kept = real_part(constant, q) if is_dense else absorbed_by_bias(constant, q=q, rules=back.rules)
            back.absorb(step, "bias", kept, out)
        shares: Sequence[Tensor | None] = [None] * len(live)
        if s is not None and not self._is_dense(step):
            shares = step.saved.adjoint([s])
        for value, own, share in zip(live, step.saved.adjoint([q]), shares, strict=True):
            if self._is_dense(step) and (bias := back.biases.get(value)) is not None:
                back.absorb(step, "bias", real_part(back.rules.delta * bias, own), value)
            back.deliver(step, value, q=own, s=share)


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


def nowhere(step: Step) -> Sequence[int]:
    """The axes of a map that works element by element."""
    return ()


def last(step: Step) -> Sequence[int]:
    """The axis of the pairs of numbers that are read as complex ones."""
    return (-1,)


def transformed(step: Step) -> Sequence[int]:
    """The axis of a Fourier transform."""
    return _named_axes(step, (-1,))


def transformed_twice(step: Step) -> Sequence[int]:
    """The axes of a two-dimensional Fourier transform."""
    return _named_axes(step, (-2, -1))


def transformed_everywhere(step: Step) -> Sequence[int]:
    """The axes of a Fourier transform of all axes, unless it names some."""
    args, kwargs = step.arguments
    sizes = kwargs.get("s", args[1] if len(args) > 1 else None)
    return _named_axes(step, range(step.inputs[0].tensor.dim()) if sizes is None else range(-len(sizes), 0))


def _named_axes(step: Step, otherwise: Sequence[int]) -> Sequence[int]:
    args, kwargs = step.arguments
    given = kwargs.get("dim", args[2] if len(args) > 2 else None)
    return otherwise if given is None else [given] if isinstance(given, int) else list(given)
