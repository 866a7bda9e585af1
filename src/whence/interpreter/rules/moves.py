"""Hand-written backward passes for the most common calls that move numbers; the others use PyTorch's derivative.

Each function gets the call's arguments. It returns a function from the relevance of the result (K, *shape) to that of every
input tensor in order, or None if it does not support these arguments.
"""

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import NamedTuple

import torch
from torch import Tensor

from whence.interpreter.record.step import Index, Step, Value
from whence.recurrent.sequences import Packing

Carry = Callable[[Tensor], Sequence[Tensor]]


class Parts(NamedTuple):
    """A tensor that was cut along an axis into parts of these shapes; `drops` if the parts lost that axis (unbind)."""

    axis: int
    shapes: Sequence[torch.Size]
    drops: bool

    def adjoint(self, arriving: Sequence[Tensor | None]) -> list[Tensor]:
        """Join what arrived at the parts (K, *shape)."""
        known = next(each for each in arriving if each is not None)
        parts = [
            known.new_zeros(len(known), *shape) if each is None else each
            for each, shape in zip(arriving, self.shapes, strict=True)
        ]
        return [torch.stack(parts, self.axis + 1) if self.drops else torch.cat(parts, self.axis + 1)]


class Picking(NamedTuple):
    """A part of a value, picked by an index of integers and slices whose first entry is for the targets."""

    whole: Value
    place: Index

    def __call__(self, r: Tensor) -> Sequence[Tensor]:
        """Put what arrived at the part (K, ...) where it came from."""
        found = r.new_zeros(len(r), *self.whole.tensor.shape)
        found[self.place] = r
        return [found]


Part = int | slice | EllipsisType | Tensor | None  # of an index


def reshaped(x: object, *form: object, **more: object) -> Carry | None:
    """A call that keeps the order of the elements."""
    return (lambda r: [r.reshape(len(r), *x.tensor.shape)]) if isinstance(x, Value) else None


def transposed(x: object, a: object, b: object) -> Carry | None:
    """Two axes exchanged."""
    if not (isinstance(x, Value) and isinstance(a, int) and isinstance(b, int)):
        return None
    axes = [axis + 1 if axis >= 0 else axis for axis in (a, b)]
    return lambda r: [r.transpose(*axes)]


def joined(parts: Sequence[object], dim: int = 0) -> Carry | None:
    """Tensors joined along an axis."""
    if not isinstance(parts, (list, tuple)) or len({id(part) for part in parts}) < len(parts):
        return None
    values = [part for part in parts if isinstance(part, Value)]
    if len(values) < len(parts) or len({value.tensor.dim() for value in values}) != 1:
        return None
    axis = dim % values[0].tensor.dim()
    return lambda r: r.split_with_sizes([value.tensor.shape[axis] for value in values], dim=axis + 1)


def picked(x: object, index: Part | tuple[Part, ...]) -> Carry | None:
    """A part of a tensor, indexed by integers and slices."""
    names = index if isinstance(index, tuple) else (index,)
    if not isinstance(x, Value) or not all(type(name) in (int, slice, type(None), type(...)) for name in names):
        return None

    return Picking(x, (slice(None), *names))


def selected(x: object, dim: object, index: object) -> Carry | None:
    """Rows picked by index; a row may be picked several times."""
    if not (isinstance(x, Value) and isinstance(dim, int) and isinstance(index, Tensor) and x.tensor.dim() > 0):
        return None
    axis = dim % x.tensor.dim() + 1

    def back(r: Tensor) -> Sequence[Tensor]:
        shape = (len(r), *(size if n + 1 == axis else r.shape[n + 1] for n, size in enumerate(x.tensor.shape)))
        return [r.new_zeros(shape).index_add(axis, index, r)]

    return back


def packed(x: object, lengths: object, batch_first: bool) -> Carry | None:
    """A padded batch, sorted by length, as packed rows."""
    if not isinstance(x, Value) or not isinstance(lengths, Tensor):
        return None
    steps = torch.arange(x.tensor.shape[1 if batch_first else 0], device=lengths.device)
    sizes = (steps[:, None] < lengths).sum(1)

    def back(r: Tensor) -> Sequence[Tensor]:
        found = Packing.of(sizes[sizes > 0], r.device).unpack(r)
        whole = r.new_zeros(len(r), len(steps), *found.shape[2:])
        whole[:, : found.shape[1]] = found
        return [whole.transpose(1, 2) if batch_first else whole]

    return back


def leaves_last_axis(step: Step) -> bool:
    """Whether index_select picks along an axis other than the last."""
    x, *rest = step.arguments[0]
    return isinstance(x, Value) and x.tensor.dim() > 0 and len(rest) == 2 and rest[0] % x.tensor.dim() != x.tensor.dim() - 1


def always(step: Step) -> bool:
    """Packing always moves whole rows."""
    return True


def cast(x: object, *kind: object, **more: object) -> Carry | None:
    """A change of precision or device; relevance keeps the precision it arrived in."""
    return (lambda r: [r.to(x.tensor.device)]) if isinstance(x, Value) else None
