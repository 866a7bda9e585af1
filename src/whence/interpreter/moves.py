"""The way back through the commonest calls that move numbers, written out; all others go by PyTorch's derivative.

Each takes the call's arguments and relevance (K, *shape of the result) to that of every input tensor in order, or returns None
where the call has a form it does not know.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.interpreter.trace import Step, Value
from whence.recurrent.sequences import Packing

Back = Callable[[Tensor], Sequence[Tensor]]


def way_back(step: Step) -> Back | None:
    """How relevance goes back through a call from its one result to the values it was made of, if that is written out here."""
    args, kwargs = step.arguments
    written = WRITTEN.get(step.name)
    try:
        return None if written is None or not all(value.is_live for value in step.inputs) else written(*args, **kwargs)
    except TypeError:  # spelled in another way
        return None


def reshaped(x: Any, *form: Any, **more: Any) -> Back | None:
    """A call that leaves every number in its place among the others."""
    return (lambda r: [r.reshape(len(r), *x.tensor.shape)]) if isinstance(x, Value) else None


def transposed(x: Any, a: Any, b: Any) -> Back | None:
    """Two axes exchanged."""
    if not (isinstance(x, Value) and isinstance(a, int) and isinstance(b, int)):
        return None
    axes = [axis + 1 if axis >= 0 else axis for axis in (a, b)]
    return lambda r: [r.transpose(*axes)]


def joined(parts: Any, dim: Any = 0) -> Back | None:
    """Tensors one behind the other."""
    if not isinstance(parts, (list, tuple)) or len({id(part) for part in parts}) < len(parts):
        return None
    if not all(isinstance(part, Value) and part.tensor.dim() == parts[0].tensor.dim() for part in parts):
        return None
    axis = dim % parts[0].tensor.dim()
    return lambda r: r.split([part.tensor.shape[axis] for part in parts], dim=axis + 1)


def picked(x: Any, index: Any) -> Back | None:
    """A part that whole numbers and slices name."""
    names = index if isinstance(index, tuple) else (index,)
    if not isinstance(x, Value) or not all(type(name) in (int, slice, type(None), type(...)) for name in names):
        return None

    def back(r: Tensor) -> Sequence[Tensor]:
        whole = r.new_zeros(len(r), *x.tensor.shape)
        whole[(slice(None), *names)] = r
        return [whole]

    return back


def selected(x: Any, dim: Any, index: Any) -> Back | None:
    """Rows by number, each as often as it is named."""
    if not (isinstance(x, Value) and isinstance(dim, int) and isinstance(index, Tensor) and x.tensor.dim() > 0):
        return None
    axis = dim % x.tensor.dim() + 1

    def back(r: Tensor) -> Sequence[Tensor]:
        shape = (len(r), *(size if n + 1 == axis else r.shape[n + 1] for n, size in enumerate(x.tensor.shape)))
        return [r.new_zeros(shape).index_add(axis, index, r)]

    return back


def packed(x: Any, lengths: Any, batch_first: Any) -> Back | None:
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


def moves_rows(step: Step) -> bool:
    """Whether a call moves whole rows, the last axis untouched, so that sums over that axis can go back through it too."""
    x, *rest = step.arguments[0]
    if step.name == "index_select":
        return isinstance(x, Value) and x.tensor.dim() > 0 and len(rest) == 2 and rest[0] % x.tensor.dim() != x.tensor.dim() - 1
    return step.name == "pack_padded_sequence"


def cast(x: Any, *kind: Any, **more: Any) -> Back | None:
    """Another precision or device: relevance keeps the precision that it came in."""
    return (lambda r: [r.to(x.tensor.device)]) if isinstance(x, Value) else None


CASTS = "to type double float half bfloat16 type_as cpu cuda".split()
WRITTEN: dict[str, Callable[..., Back | None]] = {
    **dict.fromkeys(CASTS, cast),
    **dict.fromkeys(("reshape", "view", "flatten", "squeeze", "unsqueeze", "contiguous", "clone", "dropout"), reshaped),
    **dict.fromkeys(("transpose", "swapaxes"), transposed),
    **dict.fromkeys(("cat", "concat", "concatenate"), joined),
    "getitem": picked,
    "index_select": selected,
    "pack_padded_sequence": packed,
}
