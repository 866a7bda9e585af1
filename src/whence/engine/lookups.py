"""Look-ups of token ids, read from a call: which argument holds the ids, which the table, and how rows become the result."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.engine.marks import Args, Function, Kwargs
from whence.engine.operation import LookUp

BAG = ("input", "weight", "offsets", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse")


def embedding(function: Function, args: Args, kwargs: Kwargs) -> LookUp:
    """F.embedding, which names the ids first, and torch.embedding, which names the table first."""
    names = (
        ("weight", "indices") if function is torch.embedding else ("input", "weight", "padding_idx", "max_norm", "norm_type")
    )
    given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
    ids = given["indices"] if function is torch.embedding else given["input"]
    return LookUp(ids, given["weight"], _rows(given))


def bag(function: Function, args: Args, kwargs: Kwargs) -> LookUp:
    """F.embedding_bag: the sum, mean or maximum of every bag's rows."""
    given: dict[str, Any] = {**dict(zip(BAG, args, strict=False)), **kwargs}
    ids, offsets, padding = given["input"], given.get("offsets"), given.get("padding_idx")

    def finish(rows: Tensor) -> Tensor:
        return bagged(
            rows,
            ids,
            mode=given.get("mode") or "mean",
            offsets=offsets,
            weights=given.get("per_sample_weights"),
            padding=None if padding is None else padding % len(given["weight"]),
            includes_last=bool(given.get("include_last_offset")),
        )

    return LookUp(ids, given["weight"], _rows(given), finish, offsets if ids.dim() == 1 else None, is_bag=True)


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
    given: dict[str, Any] = {**dict(zip(("input", "dim", "index"), args, strict=False)), **kwargs}
    table, ids = given.get("input", given.get("self")), given.get("index")
    if given.get("dim") != 0 or not isinstance(table, Tensor) or table.dim() != 2 or not isinstance(ids, Tensor):
        return None
    return LookUp(ids, table, lambda ids: table[ids].detach())


def one_hot(function: Function, args: Args, kwargs: Kwargs) -> LookUp | None:
    """F.one_hot: the rows of an identity matrix, as numbers that can carry relevance."""
    given: dict[str, Any] = {**dict(zip(("tensor", "num_classes"), args, strict=False)), **kwargs}
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


def bagged(
    rows: Tensor,
    ids: Tensor,
    *,
    mode: str,
    offsets: Tensor | None,
    weights: Tensor | None,
    padding: int | None,
    includes_last: bool,
) -> Tensor:
    """The sum, mean or maximum of each bag's token vectors, without padding."""
    if weights is not None:
        rows = rows * weights[..., None]
    kept = torch.ones_like(ids, dtype=torch.bool) if padding is None else ids != padding
    if ids.dim() == 2:
        bags = [(rows[n], kept[n]) for n in range(len(ids))]
    else:
        starts = [0] if offsets is None else cast(list[int], offsets.tolist())
        ends = starts[1:] if includes_last else [*starts[1:], len(ids)]
        bags = [(rows[a:b], kept[a:b]) for a, b in zip(starts, ends, strict=False)]
    pool = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[mode]
    return torch.stack([pool(bag[mask], 0) if bool(mask.any()) else bag.new_zeros(bag.shape[-1]) for bag, mask in bags])
