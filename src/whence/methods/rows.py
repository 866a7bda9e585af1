"""A call of the model with other rows in its batch: any of its samples, any number of times, so that variants share a call."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.layout import Layout
from whence.trees import leaves_of, rebuilt

ATTEMPTS = 32  # ways of reading the model's further arguments
Axes = tuple[int | None, ...]  # for every further argument the axis of its samples; None if all samples share it


def readings(forward: Forward, count: int) -> Iterator[Axes]:
    """The ways in which the further arguments of a model may hold `count` samples; only a trial tells which is right."""

    def axes(leaf: object) -> list[int | None]:
        fitting = [n for n, size in enumerate(leaf.shape[:2]) if size == count] if isinstance(leaf, Tensor) else []
        return [*fitting, None]

    return islice(product(*(axes(leaf) for leaf in leaves_of((tuple(forward.args), dict(forward.kwargs))))), ATTEMPTS)


def can_take(forward: Forward, layouts: Sequence[Layout]) -> bool:
    """Whether the explained tensors can be given other rows: samples lie along an axis of each, or they are packed."""
    return _packing(forward) is not None or all(each.sample_axis is not None for each in layouts)


def with_rows(
    forward: Forward, layouts: Sequence[Layout], rows: Tensor, ordered: Sequence[Tensor], axes: Axes
) -> tuple[Forward, list[Tensor]]:
    """The same call for the samples `rows` (M,), and its explained tensors, whose ordered form (M, U, ...) is given."""
    args, kwargs = _further(forward, rows, axes)
    packed = _packing(forward)
    if packed is not None:
        inputs, order, is_there = _packed(packed, layouts[0], rows)
        given = [ordered[0][order].transpose(0, 1)[is_there]]
        return replace(forward, inputs=read(inputs), args=args, kwargs=kwargs, deleted=None), given
    given = [layout.samples_along_axis(each) for layout, each in zip(layouts, ordered, strict=True)]
    tensors = tuple(
        own.detach() if tensor.is_floating_point() else _selected(tensor, rows, layout.sample_axis)
        for tensor, own, layout in zip(forward.inputs.tensors, given, layouts, strict=True)
    )
    called = replace(forward, inputs=replace(forward.inputs, tensors=tensors), args=args, kwargs=kwargs, deleted=None)
    return called, given


def _further(forward: Forward, rows: Tensor, axes: Axes) -> tuple[tuple[object, ...], dict[str, object]]:
    """The model's further arguments, with these samples."""
    tree = (tuple(forward.args), dict(forward.kwargs))
    leaves = [
        _selected(leaf, rows, axis) if isinstance(leaf, Tensor) else leaf
        for leaf, axis in zip(leaves_of(tree), axes, strict=True)
    ]
    return rebuilt(tree, leaves)


def _selected(tensor: Tensor, rows: Tensor, axis: int | None) -> Tensor:
    return tensor if axis is None else tensor.index_select(axis, rows.to(tensor.device))


def _packing(forward: Forward) -> PackedSequence | None:
    """The packed sequence that was given, if it was one."""
    if not forward.inputs.tells_lengths:
        return None
    found = forward.inputs.form(forward.inputs.tensors)
    return found if isinstance(found, PackedSequence) else None


def _packed(packed: PackedSequence, layout: Layout, rows: Tensor) -> tuple[PackedSequence, Tensor, Tensor]:
    """A packed sequence of the samples `rows`, their order in it, and where (T, M) it has a step."""
    lengths = layout.is_there.sum(1)[rows]
    order = lengths.argsort(descending=True, stable=True)
    table = layout.place[rows[order]].T[: int(lengths.max())]  # (T, M)
    sizes = (table >= 0).sum(1).cpu()
    found = PackedSequence(packed.data[table[table >= 0]], sizes, order, order.argsort())
    return found, order, layout.place[rows[order]].T >= 0
