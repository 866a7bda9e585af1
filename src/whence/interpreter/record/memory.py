"""Which value each tensor holds, also after it was changed in place, through itself or through a tensor that shares memory.

Every write in place to memory that is on the record is logged. A tensor that was noted before such a write is out of date;
`pieces` says which of its elements came from which write, so that its value can be put together again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.interpreter.record.step import Value


class Noted(NamedTuple):
    """A tensor and the value that it held when it was noted. The tensor is kept alive, so that no id() is reused."""

    tensor: Tensor
    value: Value
    stamp: int  # of the last write before
    version: int  # PyTorch's count of writes, also of those that the recorder did not see


class Write(NamedTuple):
    """A write: where (a tensor over that memory), what was written, and when."""

    place: Tensor
    content: Value | Tensor
    stamp: int


class Piece(NamedTuple):
    """Elements of a tensor that come from a write: a mask of them, and their places in the flattened content."""

    mask: Tensor
    places: Tensor
    content: Value | Tensor


class Memory:
    """The values of tensors, by identity and by memory."""

    def __init__(self) -> None:
        self._noted: dict[int, Noted] = {}
        self._sharing: dict[int, list[int]] = {}  # by storage, the id() of every noted tensor over it
        self._writes: dict[int, list[Write]] = {}  # by storage
        self._stamp = 0
        self.is_changed_unseen = False  # whether a tensor on the record was changed by a call that was not seen

    def note(self, tensor: Tensor, value: Value) -> None:
        """Remember the value of a tensor."""
        self._noted[id(tensor)] = Noted(tensor, value, self._stamp, version_of(tensor))
        if tensor.numel():
            self._sharing.setdefault(storage_of(tensor), []).append(id(tensor))

    def value_of(self, tensor: object) -> Value | None:
        """The value of a tensor; None if it has none, or if it was changed in place since."""
        noted = self._noted.get(id(tensor))
        if noted is None or noted.tensor is not tensor or self._is_old(noted):
            return None
        if version_of(noted.tensor) != noted.version:
            if not noted.value.is_live:
                return None  # a constant is read again
            self.is_changed_unseen = True
        return noted.value

    def is_out_of_date(self, tensor: Tensor) -> bool:
        """Whether a tensor shares memory that was written to after it was noted, or before it ever was."""
        if not self._writes or not tensor.numel():
            return False
        noted = self._noted.get(id(tensor))
        if noted is not None and noted.tensor is tensor:
            return self._is_old(noted)
        return storage_of(tensor) in self._writes

    def recognise(self, tensor: Tensor) -> bool:
        """Note a tensor that is another name for a noted one, as `Variable(x)` makes it; whether it is."""
        if not tensor.numel():
            return False
        for key in self._sharing.get(storage_of(tensor), []):
            noted = self._noted[key]
            if is_same_view(noted.tensor, tensor) and noted.tensor.dtype == tensor.dtype and not self._is_old(noted):
                self.note(tensor, noted.value)
                return True
        return False

    def is_known(self, tensor: Tensor) -> bool:
        """Whether memory of a tensor is on the record."""
        return bool(tensor.numel()) and storage_of(tensor) in self._sharing

    def before_write(self, target: Tensor) -> None:
        """Give every value that lies in a tensor's memory a copy of its own, before that memory is written to."""
        storage = storage_of(target)
        for key in self._sharing.get(storage, []):
            value = self._noted[key].value
            if value.tensor.numel() and storage_of(value.tensor) == storage:
                value.tensor = value.tensor.clone()
        self._sharing[storage] = []  # nothing that was noted lies there any more

    def write(self, target: Tensor, content: Value | Tensor) -> None:
        """Log that a tensor was written to."""
        storage = storage_of(target)
        self._stamp += 1
        written = Write(target.detach(), content, self._stamp)
        is_whole = target.numel() * target.element_size() == target.untyped_storage().nbytes()
        if is_whole:
            self._writes[storage] = [written]
        else:
            self._writes.setdefault(storage, []).append(written)

    def pieces(self, tensor: Tensor) -> tuple[Value | None, Sequence[Piece]]:
        """The last known value of a tensor, and what was written over it since, the latest first; no two pieces overlap.

        The value is None if nothing is left of it, or if it was a constant.
        """
        noted = self._noted.get(id(tensor))
        known = noted if noted is not None and noted.tensor is tensor else None
        storage = storage_of(tensor)
        since = 0 if known is None else known.stamp
        numbers = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size(), device=tensor.device)
        own = offsets(numbers, tensor)
        left, found = torch.ones_like(own, dtype=torch.bool), list[Piece]()
        for written in reversed(self._writes.get(storage, [])):
            if written.stamp <= since or not bool(left.any()):
                break
            if written.place.dtype != tensor.dtype:
                raise ValueError("memory is read as another type than it was written")
            inverse = torch.full_like(numbers, -1)
            inverse[offsets(numbers, written.place).reshape(-1)] = torch.arange(written.place.numel(), device=tensor.device)
            places = inverse[own]
            mask = (places >= 0) & left
            if bool(mask.any()):
                found.append(Piece(mask, places.clamp(min=0), written.content))
                left = left & ~mask
        return (known.value if known is not None and bool(left.any()) else None), found

    def was_changed_unseen(self) -> bool:
        """Whether a live tensor on the record was changed by a call that was not seen."""
        return self.is_changed_unseen or any(
            noted.value.is_live and not self._is_old(noted) and version_of(noted.tensor) != noted.version
            for noted in self._noted.values()
        )

    def _is_old(self, noted: Noted) -> bool:
        if not self._writes or not noted.tensor.numel():
            return False
        writes = self._writes.get(storage_of(noted.tensor))
        return bool(writes) and writes[-1].stamp > noted.stamp


def is_same_view(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same view of the same memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def storage_of(tensor: Tensor) -> int:
    """The address of a tensor's memory; a sparse tensor has none of its own."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else -id(tensor)


def version_of(tensor: Tensor) -> int:
    """PyTorch's count of the writes to a tensor; inference tensors have none."""
    return 0 if tensor.is_inference() else tensor._version


def offsets(numbers: Tensor, tensor: Tensor) -> Tensor:
    """For every element of a tensor its place in the storage, whose places are `numbers`."""
    return numbers.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
