"""The inputs to explain, in one form for every kind: tensors, how to rebuild the original, and the sample of each row.

A further kind of input needs a reader here, and a line in `KINDS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from whence.errors import InputError
from whence.recurrent.sequences import Packing
from whence.result import Relevance

Given = Tensor | PackedSequence | tuple[Tensor, ...] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Tensors to explain: floats, or token ids whose vectors in the model's embedding are explained."""

    tensors: tuple[Tensor, ...]
    form: Callable[[Sequence[Tensor]], Any]  # such tensors in the user's form
    wrapped: Callable[[Sequence[Tensor], int], Relevance]  # such tensors in the user's form, with this many leading axes
    owners: tuple[Tensor | None, ...]  # for every tensor the sample number of each row, from 1 on, if known
    names: tuple[str, ...] = ("inputs",)  # of the tensors, for messages
    tells_lengths: bool = False  # whether the form itself says how long each sample is

    def copies(self) -> tuple[Tensor, ...]:
        """Copies of the tensors that share no memory with the caller's."""
        return tuple(tensor.detach().clone() for tensor in self.tensors)


def read(given: object) -> Inputs:
    """Convert inputs to `Inputs`; raises if they cannot be explained."""
    for kind, reader in KINDS:
        if isinstance(given, kind):
            return reader(given)
    raise _no_tensor(given)


def _single(given: Tensor) -> Inputs:
    tensors = (_usable(given),)
    return Inputs(tensors, form=lambda tensors: tensors[0], wrapped=lambda tensors, lead: tensors[0], owners=(None,))


def _several(given: tuple[object, ...]) -> Inputs:
    if not given:
        raise InputError("inputs is an empty tuple; give at least one float tensor")
    if any(isinstance(each, PackedSequence) for each in given):
        raise InputError("inputs is a tuple that holds a PackedSequence; give the PackedSequence alone")
    tensors = tuple(_usable(each) for each in given)
    names = tuple(f"inputs[{n}]" for n in range(len(tensors)))
    return Inputs(tensors, form=tuple, wrapped=lambda tensors, lead: tuple(tensors), owners=(None,) * len(tensors), names=names)


def _named(given: Mapping[str, object]) -> Inputs:
    """A dictionary: its numbers and token ids are explained; masks and what is no tensor are passed on as they are."""
    explained = {key: _usable(each) for key, each in given.items() if isinstance(each, Tensor) and each.dtype != torch.bool}
    if not explained:
        raise InputError("inputs is a dictionary without a tensor of numbers; give at least one")
    keys = tuple(explained)
    return Inputs(
        tuple(explained.values()),
        form=lambda tensors: {**given, **dict(zip(keys, tensors, strict=True))},
        wrapped=lambda tensors, lead: dict(zip(keys, tensors, strict=True)),
        owners=(None,) * len(keys),
        names=tuple(f"inputs[{key!r}]" for key in keys),
    )


def _packed(given: PackedSequence) -> Inputs:
    data = _usable(given.data)
    samples = Packing.of(given.batch_sizes, data.device).sample
    if given.sorted_indices is not None:
        samples = given.sorted_indices[samples]

    def wrapped(tensors: Sequence[Tensor], lead: int) -> Relevance:
        """With leading axes, a tuple of packed sequences."""
        if lead:
            return tuple(wrapped([data], lead - 1) for data in tensors[0])  # pyright: ignore[reportReturnType] - all of one kind
        return given._replace(data=tensors[0])

    return Inputs(
        (data,),
        form=lambda tensors: given._replace(data=tensors[0]),
        wrapped=wrapped,
        owners=((samples + 1).double(),),
        tells_lengths=True,
    )


# Tried in this order: a PackedSequence is a tuple too.
KINDS: tuple[tuple[type, Callable[[Any], Inputs]], ...] = (
    (PackedSequence, _packed),
    (Tensor, _single),
    (tuple, _several),
    (Mapping, _named),
)


def _usable(tensor: object) -> Tensor:
    """A tensor, if relevance can be given to its numbers or to the vectors of its ids."""
    if not isinstance(tensor, Tensor):
        raise _no_tensor(tensor)
    if tensor.is_complex() or tensor.dtype == torch.bool or tensor.is_quantized:
        raise InputError(f"inputs are of type {tensor.dtype}; give real numbers, or token ids for an nn.Embedding")
    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_nested:
        raise InputError("inputs are sparse, nested or without numbers; give an ordinary tensor")
    if tensor.dim() == 0 or tensor.numel() == 0:
        raise InputError(
            f"inputs of shape {tuple(tensor.shape)} hold an empty sequence or no sample; there is nothing to explain"
        )
    return tensor


def _no_tensor(given: object) -> InputError:
    return InputError(f"inputs holds a {type(given).__name__}; give a float tensor, or a tuple or dictionary of them")
