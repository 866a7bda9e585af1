"""Refuses calls that would make huge tensors, before they are made. Used where a file is tried out."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from whence.imports.onnx.run import ExcessError

# Results that have no more elements than the largest argument.
SPARING = frozenset(
    "view _unsafe_view _reshape_alias t transpose permute select slice unbind split split_with_sizes unsqueeze squeeze detach "
    "sigmoid tanh relu neg _to_copy alias lift_fresh clone is_same_size _local_scalar_dense exp log sqrt abs erf gelu silu "
    "leaky_relu elu softplus clamp clamp_min clamp_max _softmax _log_softmax native_layer_norm native_batch_norm "
    "_native_batch_norm_legit_no_training copy_ sum mean amax amin max min any all argmax argmin cumsum flip sort topk "
    "gather scatter scatter_add index_put nonzero triu tril max_pool2d_with_indices avg_pool2d".split()
)
# Results that are as large as their arguments, broadcast.
BROADCAST = frozenset(
    "add sub rsub mul div where maximum minimum eq ne lt gt le ge pow remainder fmod bitwise_and bitwise_or bitwise_xor "
    "logical_and logical_or logical_not floor_divide".split()
)


class Bounded(TorchDispatchMode):
    """While active, no call makes more than `most` elements, nor all together 64 times as many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.left = most, 64 * most

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        size = _size(func, args, kwargs or {})
        if size > self.most:  # a bound that may be too high
            size = _exact_size(func, args, kwargs or {})
        self.left -= min(size, self.most)
        if size > self.most or self.left < 0:
            raise ExcessError(f"it makes tensors of {size} numbers, which is too many for an input of this size")
        return func(*args, **(kwargs or {}))


def _size(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """A bound for the number of elements that a call makes."""
    name, tensors = str(func.overloadpacket.__name__), _tensors(args)
    sizes = [each.numel() for each in tensors]
    if name in SPARING:
        return max(sizes, default=0)
    if name in BROADCAST:
        return math.prod(cast("torch.Size", torch.broadcast_shapes(*(each.shape for each in tensors))))
    if name in ("cat", "stack"):
        return sum(sizes)
    if name in ("mm", "bmm", "addmm"):
        left, right = tensors[-2:]
        return left.numel() // max(left.shape[-1], 1) * right.shape[-1]
    if name in ("embedding", "index_select", "index"):
        table = tensors[0]
        return max(math.prod(sizes[1:]), 1) * table.numel() // (max(len(table), 1) if name == "embedding" else 1)
    if name == "arange":
        return _steps(args)
    if name.startswith(("mkldnn_rnn", "lstm", "gru", "rnn")):
        return sizes[0] * max((each.shape[0] for each in tensors[1:] if each.dim()), default=1)
    return math.prod(max(size, 1) for size in sizes) * math.prod(1 + abs(each) for each in _whole((args, kwargs)))


def _steps(args: Sequence[Any]) -> int:
    """The length of a range."""
    start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return math.ceil((end - start) / step) if step else 0


def _exact_size(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The number of elements that a call makes, by its shape on the meta device.

    The bound, if the call has no meta form; 0 if its shapes are wrong, for then it will fail.
    """
    try:
        found = func(*_on_meta(args), **{**_on_meta(kwargs), **({"device": "meta"} if "device" in kwargs else {})})
    except NotImplementedError:
        return _size(func, args, kwargs)
    except Exception:
        return 0
    return sum(each.numel() for each in _tensors(found))


def _on_meta(thing: Any) -> Any:
    if isinstance(thing, Tensor):
        return torch.empty_strided(thing.shape, thing.stride(), dtype=thing.dtype, device="meta")
    if isinstance(thing, (list, tuple)):
        return [_on_meta(each) for each in cast("list[Any]", thing)]
    if isinstance(thing, dict):
        return {key: _on_meta(each) for key, each in cast("dict[str, Any]", thing).items()}
    return thing


def _tensors(thing: Any) -> list[Tensor]:
    if isinstance(thing, Tensor):
        return [thing]
    return [leaf for each in cast("list[Any]", thing) for leaf in _tensors(each)] if isinstance(thing, (list, tuple)) else []


def _whole(thing: Any) -> list[int]:
    """The whole numbers among a call's arguments."""
    if isinstance(thing, dict):
        thing = list(cast("dict[str, Any]", thing).values())
    if isinstance(thing, (list, tuple)):
        return [leaf for each in cast("list[Any]", thing) for leaf in _whole(each)]
    return [thing] if isinstance(thing, int) and not isinstance(thing, bool) else []
