"""What the explained inputs are compared with: nothing, padding, or numbers of the user's."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from whence.engine.ids import is_same_table
from whence.errors import InputError
from whence.methods.perturbing import Study


class Numbers(tuple[object, ...]):
    """A tensor as nested tuples of numbers, so that a method that holds it can be compared, hashed and written as JSON."""

    __slots__ = ()


Baseline = str | float | Tensor | Numbers | Sequence["str | float | Tensor | Numbers"]


def plain(baseline: object, *, is_entry: bool = False) -> "str | float | Numbers | tuple[object, ...]":
    """A baseline as a plain value; raises if it is none."""
    if isinstance(baseline, Numbers) or baseline in ("zero", "padding"):
        return cast(str | Numbers, baseline)
    if isinstance(baseline, (int, float)) and not isinstance(baseline, bool):
        return baseline
    if isinstance(baseline, (Tensor, np.ndarray)):
        given = torch.as_tensor(baseline).detach()
        if given.is_complex() or given.dtype == torch.bool or not bool(given.isfinite().all()):
            raise InputError(f"baseline is a tensor of type {given.dtype}; it must hold finite real numbers")
        return Numbers(_nested(cast(list[object], given.tolist()))) if given.dim() else float(given)
    if isinstance(baseline, (tuple, list)) and baseline and not is_entry:
        return tuple(plain(each, is_entry=True) for each in cast(Sequence[object], baseline))
    raise InputError(
        f'baseline is {baseline!r}; give "zero", "padding" (the vector of an nn.Embedding\'s padding_idx), a number, a tensor '
        "that fits the inputs, or a tuple with one of these for every input"
    )


def _nested(numbers: list[object]) -> tuple[object, ...]:
    return tuple(_nested(cast(list[object], each)) if isinstance(each, list) else each for each in numbers)


def baselines(study: Study, baseline: object) -> list[Tensor]:
    """The baseline of every explained tensor, ordered by samples and steps (B, U, ...)."""
    if isinstance(baseline, tuple) and not isinstance(baseline, Numbers):
        each = cast(tuple[object, ...], baseline)
        if len(each) != len(study.tensors):
            raise InputError(
                f"baseline has {len(each)} entries for {len(study.tensors)} inputs; give one for each, or one for all"
            )
    else:
        each = [baseline] * len(study.tensors)
    return [layout.ordered(_of(study, given, n)) for n, (layout, given) in enumerate(zip(study.layouts, each, strict=True))]


def _of(study: Study, given: object, number: int) -> Tensor:
    own, table = study.tensors[number], study.tables[number]
    if given == "padding" and table is not None:
        return _padding(study.runs.forward.model, table).to(own).expand(own.shape)
    if isinstance(given, str):
        return torch.zeros_like(own)
    found = torch.tensor(given, dtype=own.dtype, device=own.device)
    try:
        return found.expand(own.shape)
    except RuntimeError:
        name = study.runs.forward.inputs.names[number]
        raise InputError(
            f"baseline of shape {tuple(found.shape)} does not fit {name} of shape {tuple(own.shape)}; give one that can be "
            "broadcast to it, such as one number per feature"
        ) from None


def _padding(model: nn.Module, table: Tensor) -> Tensor:
    """The vector of padding in a table of vectors."""
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and is_same_table(module.weight, table):
            if module.padding_idx is not None:
                return table[module.padding_idx].detach()
            break
    raise InputError('baseline is "padding", but the nn.Embedding of the token ids has no padding_idx; use "zero" or a vector')
