"""The model and what it is called with: the forward pass as every method sees it, leaving no trace on the model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from whence.errors import InputError, WhenceError
from whence.recurrent.sequences import Packing
from whence.result import Relevance

Inputs = Tensor | PackedSequence | tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Forward:
    """A call of a model whose inputs can be replaced by others of the same shape."""

    model: nn.Module
    inputs: Inputs
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The explained tensors, as ordinary copies that nothing of the caller's shares."""
        found = (
            self.inputs if isinstance(self.inputs, tuple) and not isinstance(self.inputs, PackedSequence) else (self.inputs,)
        )
        return tuple((each.data if isinstance(each, PackedSequence) else each).detach().clone() for each in found)

    @property
    def owners(self) -> tuple[Tensor | None, ...]:
        """For every explained tensor the sample number of each row, from 1 on, where that is known beforehand."""
        if not isinstance(self.inputs, PackedSequence):
            return (None,) * (len(self.inputs) if isinstance(self.inputs, tuple) else 1)
        samples = Packing.of(self.inputs.batch_sizes, self.inputs.data.device).sample
        if self.inputs.sorted_indices is not None:
            samples = self.inputs.sorted_indices[samples]
        return ((samples + 1).double(),)

    @property
    def samples(self) -> int | None:
        """The number of samples, where the inputs tell: a packed batch does."""
        return int(self.inputs.batch_sizes[0]) if isinstance(self.inputs, PackedSequence) else None

    def wrapped(self, tensors: Sequence[Tensor]) -> Relevance:
        """Tensors in the form the inputs came in; with a leading axis more, a packed one becomes a tuple."""
        if isinstance(self.inputs, PackedSequence):
            if tensors[0].dim() > self.inputs.data.dim():
                return tuple(cast(Any, self.wrapped([data])) for data in tensors[0])
            return self.inputs._replace(data=tensors[0])
        return tuple(tensors) if isinstance(self.inputs, tuple) else tensors[0]

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """Call the model with these tensors in place of the inputs."""
        wrapped = self.wrapped(tensors)
        positional = wrapped if isinstance(self.inputs, tuple) and not isinstance(self.inputs, PackedSequence) else (wrapped,)
        return self.model(*positional, *self.args, **(self.kwargs or {}))

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The model's output for these tensors, what PyTorch says against their shapes in one sentence."""
        try:
            return self.call(tensors)
        except (RuntimeError, ValueError, IndexError) as error:
            if isinstance(error, WhenceError) or not _raised_by_torch(error.__traceback__):
                raise
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
            first = str(error).strip().splitlines()[0]
            raise InputError(f"the model cannot run on inputs of shape {shapes}: {first}") from error


def _raised_by_torch(traceback: TracebackType | None) -> bool:
    """Whether an error came out of PyTorch (or out of our call of it), not out of the user's own code."""
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module.split(".")[0] in ("torch", "whence")


def require_finite(tensors: Sequence[Tensor]) -> None:
    """Refuse inputs with a NaN or an infinity, and say where it stands."""
    for n, tensor in enumerate(tensors):
        if not math.isfinite(tensor.sum().item()) and not bool(tensor.isfinite().all()):
            place = (~tensor.isfinite()).nonzero()[0].tolist()
            name = "inputs" if len(tensors) == 1 else f"inputs[{n}]"
            raise InputError(f"{name}{place} is {tensor[tuple(place)].item()}; inputs must be finite numbers")
