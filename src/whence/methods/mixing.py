"""The error for a model whose samples influence each other, or come out in another order than they went in."""

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.errors import InputError
from whence.methods.forward import Forward
from whence.methods.probe import Randomness, moved, repeated
from whence.methods.target import Target, describe

MOST = 64  # samples that are changed one by one


def mixed_samples(
    output: Tensor, axes: Sequence[int | None], inputs: Sequence[Tensor], forward: Forward, target: Target
) -> InputError:
    """The error for a model whose samples cannot be told apart. Where it only sorts them, it says so."""
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
    returned = f"the model returned {describe(output)} for inputs of shape {shapes}, and"
    order = _order(output, axes[0], inputs, forward, target)
    if order is not None:
        return InputError(
            f"{returned} the samples come out in another order than they went in: {', '.join(map(str, order))}. Give them in "
            "the order in which the model sorts them, put its scores back in order with target=lambda output: ..., or explain "
            "one sample at a time"
        )
    return InputError(
        f"{returned} no axis of the inputs holds {output.shape[axes[0] or 0]} samples that do not influence each other, in "
        "that order; explain one sample at a time, or pick one number per sample with target=lambda output: ..."
    )


def _order(output: Tensor, axis: int | None, inputs: Sequence[Tensor], forward: Forward, target: Target) -> list[int] | None:
    """The number of the input sample that each of the scores depends on, if that is another for each; else None."""
    count = 1 if axis is None else output.shape[axis]
    before = Randomness()

    def scores(tensors: Sequence[Tensor]) -> Tensor | None:
        with repeated(before):
            found = forward.predict(tensors).output
            found = target(found) if callable(target) else found
        return found.movedim(axis or 0, 0) if isinstance(found, Tensor) and found.shape == output.shape else None

    for place in (0, 1):
        if not 1 < count <= MOST or any(each.dim() <= place or each.shape[place] != count for each in inputs):
            continue
        given = [each.detach() for each in inputs]
        first, order = scores(given), dict[int, int]()
        for n in range(count):
            is_here = torch.arange(count, device=given[0].device) == n
            parts = [is_here.to(each.device).view(-1, *(1,) * (each.dim() - place - 1)) for each in given]
            own = scores([torch.where(here, moved(each, 0.3), each) for here, each in zip(parts, given, strict=True)])
            if own is None or first is None:
                return None
            rows = [m for m in range(count) if not torch.equal(own[m], first[m])]
            if len(rows) == 1:
                order[rows[0]] = n
        if sorted(order) == sorted(order.values()) == list(range(count)) and any(m != n for m, n in order.items()):
            return [order[m] for m in range(count)]
    return None
