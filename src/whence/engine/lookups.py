"""Look-ups of token ids, read from a call: which argument holds the ids, which the table, and how rows become the result."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.engine.marks import Args, Function, Kwargs
from whence.engine.operation import LookUp


def _named(names: str, args: Args, kwargs: Kwargs) -> dict[str, Any]:
    """The arguments of a call by name."""
    return {**dict(zip(names.split(), args, strict=False)), **kwargs}


def embedding(function: Function, args: Args, kwargs: Kwargs) -> LookUp:
    """F.embedding, which names the ids first, and torch.embedding, which names the table first."""
    if function is torch.embedding:
        given = _named("weight indices", args, kwargs)
        return LookUp(given["indices"], given["weight"], _rows(given))
    given = _named("input weight padding_idx max_norm norm_type", args, kwargs)
    return LookUp(given["input"], given["weight"], _rows(given))


def bag(function: Function, args: Args, kwargs: Kwargs) -> LookUp:
    """F.embedding_bag: the sum, mean or maximum of every bag's rows."""
    given = _named("input weight offsets max_norm norm_type scale_grad_by_freq mode sparse", args, kwargs)
    ids = given["input"]
    starts = given.get("offsets") if ids.dim() == 1 else None
    return LookUp(ids, given["weight"], _rows(given), lambda rows: _bagged(rows, given), starts, is_bag=True)


def indexed(function: Function, args: Args, kwargs: Kwargs) -> LookUp | None:
    """table[ids]."""
    table, ids = args
    if isinstance(ids, tuple) and len(cast(tuple[object, ...], ids)) == 1:
        (ids,) = cast(tuple[object, ...], ids)
    if not isinstance(table, Tensor) or table.dim() != 2 or not isinstance(ids, Tensor):
        return None
    return LookUp(ids, table, lambda ids: table[ids].detach(), lowest=-len(table))


def selected(function: Function, args: Args, kwargs: Kwargs) -> LookUp | None:
    """table.index_select(0, ids)."""
    given = _named("input dim index", args, kwargs)
    table, ids = given.get("input", given.get("self")), given.get("index")
    if given.get("dim") != 0 or not isinstance(table, Tensor) or table.dim() != 2 or not isinstance(ids, Tensor):
        return None
    return LookUp(ids, table, lambda ids: table[ids].detach())


def one_hot(function: Function, args: Args, kwargs: Kwargs) -> LookUp | None:
    """F.one_hot: the rows of an identity matrix, as numbers that can carry relevance."""
    given = _named("tensor num_classes", args, kwargs)
    ids = given.get("tensor", given.get("input"))
    if not isinstance(ids, Tensor) or not ids.numel():
        return None
    count = given.get("num_classes", -1)
    count = int(ids.max()) + 1 if count == -1 else int(count)

    def rows(ids: Tensor) -> Tensor:
        return F.one_hot(ids, count).to(torch.get_default_dtype())

    return LookUp(ids, torch.zeros(count, 1, device=ids.device), rows, is_count=True)


def _rows(given: Mapping[str, Any]) -> Callable[[Tensor], Tensor]:
    """The rows of a table, clipped to `max_norm` if it is given; unlike PyTorch, this does not change the table in place."""
    table, largest, norm = given["weight"], given.get("max_norm"), given.get("norm_type", 2.0)

    def rows(ids: Tensor) -> Tensor:
        found = F.embedding(ids, table.detach())
        if largest is None:
            return found
        size = cast(Tensor, torch.linalg.vector_norm(found, norm, dim=-1, keepdim=True))
        return torch.where(size > largest, found * (largest / (size + 1e-7)), found)

    return rows


def _bagged(rows: Tensor, given: Mapping[str, Any]) -> Tensor:
    """The sum, mean or maximum of each bag's token vectors, without padding."""
    ids: Tensor = given["input"]
    offsets, weights, padding = (given.get(name) for name in ("offsets", "per_sample_weights", "padding_idx"))
    if weights is not None:
        rows = rows * weights[..., None]
    kept = torch.ones_like(ids, dtype=torch.bool) if padding is None else ids != padding % len(given["weight"])
    if ids.dim() == 2:
        bags = [(rows[n], kept[n]) for n in range(len(ids))]
    else:
        starts = [0] if offsets is None else cast(list[int], offsets.tolist())
        ends = starts[1:] if given.get("include_last_offset") else [*starts[1:], len(ids)]
        bags = [(rows[a:b], kept[a:b]) for a, b in zip(starts, ends, strict=False)]
    pool = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[given.get("mode") or "mean"]
    return torch.stack([pool(bag[mask], 0) if bool(mask.any()) else bag.new_zeros(bag.shape[-1]) for bag, mask in bags])
