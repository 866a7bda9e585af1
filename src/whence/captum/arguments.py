"""Captum's arguments in the forms of `whence.relevance`: their order, baselines, and targets."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from whence.errors import TargetError
from whence.methods.target import Contrast, Target, describe

ORDER = ("target", "additional_forward_args", "return_convergence_delta")  # as captum.attr.LRP has it


def sorted_out(inputs: object, places: Sequence[object], named: Mapping[str, object]) -> dict[str, Any]:
    """The arguments by name. Where the first of them is a baseline, they are in Integrated Gradients' order."""
    is_second = bool(places) and (named["target"] is not None or _is_baseline(places[0], inputs))
    order = ("baselines", *ORDER[:2]) if is_second else ORDER
    if len(places) > len(order):
        raise TypeError(f"attribute() takes {1 + len(order)} arguments without a name, and got {1 + len(places)}")
    twice = [name for name, _ in zip(order, places, strict=False) if named[name] is not None and named[name] is not False]
    if twice:
        raise TypeError(f"attribute() got {twice[0]} twice: by its place and by its name")
    return {**named, **dict(zip(order, places, strict=False))}


def _is_baseline(given: object, inputs: object) -> bool:
    """Whether the second argument cannot be a target, but is something to compare the inputs with."""
    if isinstance(given, tuple):
        return any(isinstance(each, (Tensor, float)) for each in cast(tuple[object, ...], given))
    if isinstance(given, Tensor):
        return given.is_floating_point() or (isinstance(inputs, Tensor) and given.dim() == inputs.dim() > 1)
    return isinstance(given, float)


def is_zero(baselines: object) -> bool:
    """Whether baselines are left out, or zero."""
    if isinstance(baselines, tuple):
        return all(is_zero(each) for each in cast(tuple[object, ...], baselines))
    return baselines is None or not bool(torch.as_tensor(baselines).any())


def picked(target: object) -> Target:
    """Captum's target as one of `whence.relevance`. A tuple, or a list of them, picks one number from each sample's output."""
    if isinstance(target, str) and target != "predicted":
        raise TargetError(f'target {target!r} is not known; attributions take a class, or "predicted"; see whence.relevance')
    if isinstance(target, tuple):
        return partial(_one_place, cast(tuple[object, ...], target))
    if isinstance(target, list) and any(isinstance(each, tuple) for each in cast(list[object], target)):
        return partial(_place_of_each, cast(list[object], target))
    if isinstance(target, Tensor) and target.dim() > 1 and target.numel() > 1:
        raise TargetError(f"target is a tensor of shape {tuple(target.shape)}; give one class, or one for each sample")
    if isinstance(target, Tensor) and target.numel() == 1:
        return cast(Target, target.reshape(()))
    if isinstance(target, (int, str, list, Contrast, Tensor, np.integer, np.ndarray, type(None))) or callable(target):
        return cast(Target, target)
    raise TargetError(f"target is a {type(target).__name__}; give a class, one for each sample, or a tuple of indices")


def _one_place(place: tuple[object, ...], output: object) -> Tensor:
    """The number at one place of every sample's output (B, ...)."""
    scores = _required_scores(output, place)
    _require_place(place, scores)
    return scores[(slice(None), *cast(tuple[int, ...], place))]


def _place_of_each(places: Sequence[object], output: object) -> Tensor:
    """The number at the place of each sample in its own output."""
    scores = _required_scores(output, places)
    if len(places) != len(scores):
        raise TargetError(f"target is a list of {len(places)} for {len(scores)} samples; give a tuple for each")
    for place in places:
        _require_place(place, scores)
    return torch.stack([scores[(n, *cast(tuple[int, ...], place))] for n, place in enumerate(places)])


def _required_scores(output: object, target: object) -> Tensor:
    if not isinstance(output, Tensor) or output.dim() == 0:
        raise TargetError(f"target {target!r} picks from a tensor of scores, but the model returned {describe(output)}")
    return output


def _require_place(place: object, output: Tensor) -> None:
    """Refuse a place that is not one number of a sample's output."""
    sizes = tuple(output.shape[1:])
    indices = cast(tuple[object, ...], place) if isinstance(place, tuple) else (place,)
    if len(indices) != len(sizes) or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) for n in indices):
        raise TargetError(
            f"target {place!r} does not pick one number: the model returned {describe(output)}, "
            f"so a target is a tuple of {len(sizes)} whole numbers"
        )
    for index, size in zip(cast(tuple[int, ...], indices), sizes, strict=True):
        if not -size <= index < size:
            raise TargetError(f"target {place!r} does not exist: the outputs of a sample are of shape {sizes}")
