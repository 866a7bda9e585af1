"""Operators that move numbers, make tensors, or compute with shapes."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.errors import ModelError
from whence.imports.onnx.operators.elementwise import Operand, tensor_of
from whence.imports.onnx.run import Ints, Run, axes_of, axis_of, ints, number

PADDINGS = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def shape(run: Run, x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    """Shape: always on the CPU, where sizes are computed."""
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64, device="cpu")


def size(run: Run, x: Tensor) -> Tensor:
    """Size."""
    return torch.tensor(x.numel(), dtype=torch.int64, device="cpu")


def constant_of_shape(run: Run, shape: Tensor, *, value: float = 0.0, kind: str = "float") -> Tensor:
    """ConstantOfShape."""
    return torch.full(ints(shape), value, dtype=run.dtype_of(kind), device=run.device if kind == "float" else "cpu")


def arange(run: Run, start: Operand, limit: Operand, delta: Operand) -> Tensor:
    """Range."""
    first, last, step = number(start), number(limit), number(delta)
    is_float = any(
        each.is_floating_point() if isinstance(each, Tensor) else isinstance(each, float) for each in (start, limit, delta)
    )
    if step == 0 or (last - first) / step <= 0:
        first, last, step = 0, 0, 1
    return torch.arange(
        first, last, step, dtype=run.dtype if is_float else torch.int64, device=run.device if is_float else "cpu"
    )


def eye_like(run: Run, x: Tensor, *, dtype: str | None = None, k: int = 0) -> Tensor:
    """EyeLike."""
    made = torch.ones(x.shape, dtype=x.dtype if dtype is None else run.dtype_of(dtype), device=x.device)
    return made.triu(k).tril(k)


def reshape(run: Run, x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    """Reshape: a 0 keeps a size."""
    wanted = [x.shape[n] if each == 0 and not allowzero and n < x.dim() else each for n, each in enumerate(ints(shape))]
    return x.reshape(wanted)


def flatten(run: Run, x: Tensor, *, axis: int = 1) -> Tensor:
    """Flatten to two axes."""
    axis = axis + x.dim() if axis < 0 else axis
    lead = 1
    for each in x.shape[:axis]:
        lead *= each
    return x.reshape(lead, -1) if x.numel() else x.reshape(lead, x[(0,) * axis].numel() if lead else 0)


def transpose(run: Run, x: Tensor, *, perm: Ints | None = None) -> Tensor:
    """Transpose."""
    return x.permute(list(range(x.dim()))[::-1] if perm is None else perm)


def squeeze(run: Run, x: Tensor, axes_input: Operand | None = None, *, axes: Ints | None = None) -> Tensor:
    """Squeeze; axes other than of size 1 are refused."""
    chosen = ints(axes_input) if axes_input is not None else axes
    if chosen is None:
        return x.squeeze()
    places = sorted(set(axes_of(chosen, x.dim())))
    if any(x.shape[axis] != 1 for axis in places):
        raise ModelError(f"Squeeze removes axes {places} of shape {tuple(x.shape)}, which must have size 1")
    return x.reshape([each for axis, each in enumerate(x.shape) if axis not in places])


def unsqueeze(run: Run, x: Tensor, axes_input: Operand | None = None, *, axes: Ints | None = None) -> Tensor:
    """Unsqueeze."""
    chosen = ints(axes_input) if axes_input is not None else list(axes or ())
    for axis in sorted(axes_of(chosen, x.dim() + len(chosen))):
        x = x.unsqueeze(axis)
    return x


def concat(run: Run, *operands: Tensor, axis: int) -> Tensor:
    """Concat."""
    return operands[0] if len(operands) == 1 else torch.cat(operands, dim=axis)


def split(
    run: Run,
    x: Tensor,
    split_input: Operand | None = None,
    *,
    axis: int = 0,
    split: Ints | None = None,
    num_outputs: int | None = None,
    outputs: int = 1,
) -> Sequence[Tensor]:
    """Split into given sizes, or into equal parts."""
    sizes = ints(split_input) if split_input is not None else split
    if sizes is not None:
        return torch.split(x, list(sizes), dim=axis)
    if num_outputs not in (None, outputs):
        raise ModelError(f"Split has {outputs} outputs, but num_outputs is {num_outputs}")
    each = -(-x.shape[axis] // outputs)
    return torch.split(x, max(each, 1), dim=axis)


def slice_(
    run: Run,
    x: Tensor,
    starts_input: Operand | None = None,
    ends_input: Operand | None = None,
    axes_input: Operand | None = None,
    steps_input: Operand | None = None,
    *,
    starts: Ints | None = None,
    ends: Ints | None = None,
    axes: Ints | None = None,
) -> Tensor:
    """Slice: its bounds are inputs, and were attributes before opset 10."""
    first = ints(starts_input) if starts_input is not None else list(starts or ())
    last = ints(ends_input) if ends_input is not None else list(ends or ())
    along = ints(axes_input) if axes_input is not None else list(axes or range(len(first)))
    steps = ints(steps_input) if steps_input is not None else [1] * len(first)
    for axis, start, end, step in zip(axes_of(along, x.dim()), first, last, steps, strict=True):
        x = _sliced(x, axis, start, end, step)
    return x


def _sliced(x: Tensor, axis: int, start: int, end: int, step: int) -> Tensor:
    if step == 0:
        raise ModelError("Slice has a step of 0")
    places = range(x.shape[axis])[start:end:step]
    if places == range(x.shape[axis]):
        return x
    if not places:
        return x.narrow(axis, 0, 0)
    low, high = min(places[0], places[-1]), max(places[0], places[-1])
    taken = x[(slice(None),) * axis + (slice(low, high + 1, abs(step)),)]
    return taken.flip(axis) if step < 0 else taken


def expand(run: Run, x: Operand, shape: Tensor) -> Tensor:
    """Expand: the shapes are broadcast both ways."""
    found = tensor_of(run, x)
    return found.expand(cast(torch.Size, torch.broadcast_shapes(found.shape, tuple(ints(shape)))))


def tile(run: Run, x: Operand, repeats: Tensor) -> Tensor:
    """Tile."""
    return tensor_of(run, x).repeat(ints(repeats))


def pad(
    run: Run,
    x: Tensor,
    pads_input: Tensor | None = None,
    value_input: Operand | None = None,
    axes_input: Operand | None = None,
    *,
    mode: str = "constant",
    pads: Ints | None = None,
    value: float = 0.0,
) -> Tensor:
    """Pad: negative pads take away."""
    sizes = ints(pads_input) if pads_input is not None else list(pads or ())
    axes = axes_of(ints(axes_input), x.dim()) if axes_input is not None else list(range(x.dim()))
    if mode not in PADDINGS or len(sizes) != 2 * len(axes):
        raise ModelError(f"Pad has mode {mode!r} and {len(sizes)} sizes for {len(axes)} axes")
    pairs = [(0, 0)] * x.dim()
    for n, axis in enumerate(axes):
        pairs[axis] = sizes[n], sizes[n + len(axes)]
    if mode == "constant":
        fill = value if value_input is None else number(value_input)
        return F.pad(x, [each for pair in reversed(pairs) for each in pair], value=fill)
    padded = [axis for axis, pair in enumerate(pairs) if any(pair)]
    lead = min([*padded, x.dim() - 1])
    flat = x.reshape(1, -1, *x.shape[lead:]) if x.numel() else x  # PyTorch pads the last axes of a tensor with two more
    found = F.pad(flat, [each for pair in reversed(pairs[lead:]) for each in pair], mode=PADDINGS[mode])
    return found.reshape(*x.shape[:lead], *found.shape[2:])


def from_front(ids: Tensor, count: int) -> Tensor:
    """Places counted from the front; ONNX counts negative ones from the end."""
    return torch.where(ids < 0, ids + count, ids) if bool((ids < 0).any()) else ids


def gather(run: Run, data: Tensor, ids: Operand, *, axis: int = 0) -> Tensor:
    """Gather: rows of a table by ids are an embedding."""
    axis = axis_of(axis, data.dim())
    if not isinstance(ids, Tensor) or ids.dim() == 0:
        return data.select(axis, int(number(ids)))
    ids = from_front(ids, data.shape[axis])
    if data.dim() == 2 and axis == 0 and data.is_floating_point():
        return F.embedding(ids, data)
    taken = data.index_select(axis, ids.reshape(-1))
    return taken if ids.dim() == 1 else taken.reshape(*data.shape[:axis], *ids.shape, *data.shape[axis + 1 :])


def gather_elements(run: Run, data: Tensor, ids: Tensor, *, axis: int = 0) -> Tensor:
    """GatherElements."""
    return torch.gather(data, axis, from_front(ids, data.shape[axis]).long())


def gather_nd(run: Run, data: Tensor, ids: Tensor, *, batch_dims: int = 0) -> Tensor:
    """GatherND."""
    if batch_dims:
        lead = [torch.arange(n, device=ids.device) for n in data.shape[:batch_dims]]
        grid = [
            each.reshape([-1 if k == n else 1 for k in range(ids.dim() - 1)]).expand(ids.shape[:-1])
            for n, each in enumerate(lead)
        ]
        return data[(*grid, *ids.unbind(-1))]
    return data[tuple(ids.unbind(-1))]


def scatter_elements(run: Run, data: Tensor, ids: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """ScatterElements."""
    ids = from_front(ids, data.shape[axis])
    if reduction == "none":
        return data.scatter(axis, ids.long(), updates)
    if reduction == "add":
        return data.scatter_add(axis, ids.long(), updates)
    raise ModelError(f"ScatterElements with reduction {reduction!r} is not known")


def scatter_nd(run: Run, data: Tensor, ids: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """ScatterND."""
    if reduction not in ("none", "add"):
        raise ModelError(f"ScatterND with reduction {reduction!r} is not known")
    return data.index_put(ids.unbind(-1), updates, accumulate=reduction == "add")


def triangle(run: Run, x: Tensor, k: Operand | None = None, *, upper: int = 1) -> Tensor:
    """Trilu."""
    diagonal = 0 if k is None else int(number(k))
    return x.triu(diagonal) if upper else x.tril(diagonal)


def non_zero(run: Run, x: Operand) -> Tensor:
    """NonZero."""
    return tensor_of(run, x).nonzero().t()


def reverse_sequence(run: Run, x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """ReverseSequence: each sample's own steps, without its padding."""
    batch_axis, time_axis = axis_of(batch_axis, x.dim()), axis_of(time_axis, x.dim())
    if {batch_axis, time_axis} != {0, 1}:
        raise ModelError("ReverseSequence is read for batch and time in the first two axes")
    steps = x if time_axis == 0 else x.transpose(0, 1)
    turned = reversed_steps(steps, lengths)
    return turned if time_axis == 0 else turned.transpose(0, 1)


def reversed_steps(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The steps (T, B, …) of each sample from its last to its first; padding stays where it is."""
    if lengths is None:
        return x.flip(0)
    places = torch.arange(x.shape[0], device=x.device)[:, None]  # (T, 1)
    ends = lengths.to(x.device)[None]
    read = torch.where(places < ends, ends - 1 - places, places)  # (T, B)
    return x[read, torch.arange(x.shape[1], device=x.device)[None]]
