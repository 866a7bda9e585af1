"""A model's weights: they must be finite, and whether they have changed since they were looked at."""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from whence.errors import WeightsError


def require_finite_weights(model: nn.Module, *, anew: bool = False) -> None:
    """Refuse weights that are not finite; large ones are checked again only after they changed.

    A sum shows a NaN or infinity at a tenth of the cost of checking every number, with one GPU synchronisation for all.
    """
    found = [(name, each) for name, each in (*model.named_parameters(), *model.named_buffers()) if each.is_floating_point()]
    unknown = [(name, each) for name, each in found if anew or _FINITE.get(each) != state_of(each)]
    totals: dict[torch.device, Tensor] = {}
    for _, tensor in unknown:
        total = tensor.detach().sum()
        totals[tensor.device] = totals[tensor.device] + total if tensor.device in totals else total
    if not all(math.isfinite(total.item()) for total in totals.values()):
        for name, tensor in unknown:
            _require_finite(name, tensor)
    _FINITE.update((tensor, state_of(tensor)) for _, tensor in unknown if tensor.numel() >= LARGE)


def _require_finite(name: str, tensor: Tensor) -> None:
    # a buffer may hold the infinities of a mask
    wrong = ~tensor.isfinite() if isinstance(tensor, nn.Parameter) else tensor.isnan()
    if wrong.any():
        place = cast(list[int], wrong.nonzero()[0].tolist())
        raise WeightsError(
            f"{name}{place} is {tensor[tuple(place)].item()}; the model's weights must be finite: was its training cut off?"
        )


LARGE = 2**18  # elements; checking a larger tensor takes longer than explaining a sentence
# Large weights that were finite, each with its state at that time. A write through .data does not change the state; but then
# relevance is not finite, and all weights are checked again.
_FINITE = WeakIdKeyDictionary()


def state_of(tensor: Tensor) -> object:
    """Something that changes when a tensor is written to; never equal for inference tensors, which do not count writes."""
    return object() if tensor.is_inference() else (tensor.data_ptr(), tensor._version)
