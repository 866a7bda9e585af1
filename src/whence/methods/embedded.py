"""Token ids in: where the model looks them up is followed, and what is explained is the vectors it finds, token by token."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from whence.errors import InputError
from whence.methods.forward import Forward
from whence.methods.predicting import predicting

# Calls that only move ids: made on the ids' places, they say where each id of the result came from.
MOVES = set(
    """
    getitem view reshape transpose t T mT permute flip roll unsqueeze squeeze contiguous clone detach long int to cat concat
    stack chunk split unbind select narrow index_select gather expand repeat flatten unflatten swapaxes movedim view_as tile
    """.split()
)
CONSTANT = {
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "new_tensor",
}
JOINS = {"cat", "concat", "stack"}


class Followed(TorchFunctionMode):
    """While active, follows ids through the model to where they are looked up, and hands `found` what it needs to answer there.

    `found(weight, places, number)` gets the table, the place in input `number` of every id (−1 for others), and returns the
    vectors to use instead, or None.
    """

    def __init__(self, ids: Sequence[Tensor | None], found: Callable[[Tensor, Tensor, int], Tensor | None]) -> None:
        super().__init__()
        self.found = found
        self.originals = [None if each is None else each.detach().clone().reshape(-1) for each in ids]
        # by id of the tensor: the tensor, kept alive; the places of its ids, None if they cannot be told; and of which input
        self.known: dict[int, tuple[Tensor, Tensor | None, int]] = {}
        for number, each in enumerate(ids):
            if each is not None:
                self.known[id(each)] = each, torch.arange(each.numel(), device=each.device).view(each.shape), number

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name: str = getattr(func, "__name__", "").strip("_")
        name = getattr(getattr(func, "__self__", None), "__name__", name) if name == "get" else name
        if name == "embedding":  # torch.embedding names the table first, F.embedding the ids
            ids, table = ((1, "indices"), (0, "weight")) if func is torch.embedding else ((0, "input"), (1, "weight"))
            return self._looked_up(
                lambda: func(*args, **kwargs), _argument(args, kwargs, *ids), _argument(args, kwargs, *table)
            )
        if name == "embedding_bag":
            return self._bagged(func, args, kwargs)
        if name == "getitem" and isinstance(args[0], Tensor) and args[0].dim() == 2 and self._entry(args[1]) is not None:
            return self._looked_up(lambda: func(*args, **kwargs), args[1], args[0])
        result = func(*args, **kwargs)
        self._follow(func, name, args, kwargs, result)
        return result

    def _entry(self, thing: Any) -> tuple[Tensor, Tensor | None, int] | None:
        entry = self.known.get(id(thing)) if isinstance(thing, Tensor) else None
        return entry if entry is not None and entry[0] is thing else None

    def _follow(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """Note where the ids of a result came from."""
        operands = list(args[0]) if name in JOINS and args and isinstance(args[0], (list, tuple)) else list(args[:1])
        entries = [entry for each in operands if (entry := self._entry(each)) is not None]
        whole = [each for each in _tensors(result) if not each.is_floating_point() and each.dtype != torch.bool]
        others = [entry for each in _tensors((args[1:], dict(kwargs))) if (entry := self._entry(each)) is not None]
        if not whole or not (entries or others) or name in CONSTANT:
            return
        places: Sequence[Tensor | None] = [None] * len(whole)
        numbers = {number for _, _, number in (*entries, *others)}
        if name in MOVES and entries and not others and len(numbers) == 1 and all(entry[1] is not None for entry in entries):
            moved = [self._places(each) for each in operands]
            places = _tensors(func(tuple(moved) if name in JOINS else moved[0], *args[1:], **kwargs))
        for each, own in zip(whole, places, strict=True):
            self.known[id(each)] = each, own, min(numbers)

    def _places(self, tensor: Tensor) -> Tensor:
        entry = self._entry(tensor)
        return torch.full_like(tensor, -1, dtype=torch.long) if entry is None else cast(Tensor, entry[1])

    def _looked_up(self, look_up: Callable[[], Tensor], ids: Any, weight: Tensor) -> Tensor:
        entry = self._entry(ids)
        if entry is None:
            return look_up()
        _, places, number = entry
        if places is None or not self._are_unchanged(ids, places, number):
            raise InputError(
                f"the ids of inputs[{number}] are changed before they are looked up, so they cannot be given relevance; embed "
                "first, and explain the embedding's output"
            )
        vectors = self.found(weight, places, number)
        if vectors is None:
            return look_up()
        mine = places >= 0
        return vectors if bool(mine.all()) else torch.where(mine.unsqueeze(-1), vectors, look_up())

    def _are_unchanged(self, ids: Tensor, places: Tensor, number: int) -> bool:
        """Whether ids are still those of the input that stand at their places; a model may have written over them."""
        original = cast(Tensor, self.originals[number])
        return bool(((ids == original[places.clamp(min=0)]) | (places < 0)).all())

    def _bagged(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        names = ("input", "weight", "offsets", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse")
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
        ids, weight = given["input"], given["weight"]
        if self._entry(ids) is None:
            return func(*args, **kwargs)
        largest, norm = given.get("max_norm"), given.get("norm_type", 2.0)
        rows = self._looked_up(lambda: F.embedding(ids, weight, max_norm=largest, norm_type=norm), ids, weight)
        options = {name: given.get(name) for name in ("offsets", "per_sample_weights", "padding_idx", "include_last_offset")}
        return bagged(rows, ids, mode=given.get("mode") or "mean", **cast(dict[str, Any], options))


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs[name]


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, dict):
        return [tensor for each in tree.values() for tensor in _tensors(each)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(tree, (tuple, list)):
        return [tensor for each in tree for tensor in _tensors(each)]  # pyright: ignore[reportUnknownVariableType]
    return [tree] if isinstance(tree, Tensor) else []


def bagged(
    rows: Tensor,
    ids: Tensor,
    *,
    mode: str,
    offsets: Tensor | None,
    per_sample_weights: Tensor | None,
    padding_idx: int | None,
    include_last_offset: bool | None,
) -> Tensor:
    """What a bag makes of its tokens' vectors: their sum, mean or maximum, those of the padding left out."""
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    kept = torch.ones_like(ids, dtype=torch.bool) if padding_idx is None else ids != padding_idx
    if ids.dim() == 2:
        bags = [(rows[n], kept[n]) for n in range(len(ids))]
    else:
        starts = [0] if offsets is None else offsets.tolist()
        ends = starts[1:] if include_last_offset else [*starts[1:], len(ids)]
        bags = [(rows[a:b], kept[a:b]) for a, b in zip(starts, ends, strict=False)]
    pool = {"sum": lambda bag: bag.sum(0), "mean": lambda bag: bag.mean(0), "max": lambda bag: bag.amax(0)}[mode]
    return torch.stack([pool(bag[mask]) if bool(mask.any()) else bag.new_zeros(bag.shape[-1]) for bag, mask in bags])


@dataclass(frozen=True, eq=False)
class EmbeddedForward(Forward):
    """A call of a model with token ids. `inputs` holds the vectors it looks up for them, and is what can be replaced.

    For every input `ids` are its ids and `tables` the weights they are looked up in; None for an input that is numbers itself.
    """

    ids: tuple[Tensor | None, ...] = ()
    tables: tuple[Tensor | None, ...] = ()

    @property
    def owners(self) -> tuple[Tensor | None, ...]:
        """The sample number of each row, known beforehand for ids in one line that offsets cut into bags."""
        more = [*self.args, *(self.kwargs or {}).values()]
        offsets = next(
            (each for each in more if isinstance(each, Tensor) and each.dim() == 1 and not each.is_floating_point()), None
        )
        found: list[Tensor | None] = []
        for ids in self.ids:
            is_line = ids is not None and ids.dim() == 1 and offsets is not None and bool((offsets.diff() >= 0).all())
            rows = torch.arange(len(ids), device=ids.device) if is_line and ids is not None else None
            found.append(None if rows is None else torch.searchsorted(cast(Tensor, offsets), rows, right=True).double())
        return tuple(found)

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """Call the model with the ids, and give it these tensors for the vectors that it looks up."""
        ids = [None if each is None else each.clone() for each in self.ids]  # a model may write into them

        unused = {number for number, table in enumerate(self.tables) if table is not None}

        def vectors(weight: Tensor, places: Tensor, number: int) -> Tensor | None:
            table, tensor = self.tables[number], tensors[number]
            if table is None or not is_same_table(weight, table):
                return None
            unused.discard(number)
            whole = places.shape == tensor.shape[:-1] and places.is_contiguous() and bool((places.flatten().diff() == 1).all())
            return tensor if whole else tensor.reshape(-1, tensor.shape[-1])[places.clamp(min=0)]

        positional = [tensor if own is None else own for tensor, own in zip(tensors, ids, strict=True)]
        with Followed(ids, vectors):
            output = self.model(*positional, *self.args, **(self.kwargs or {}))
        if unused:
            raise InputError(
                f"the model did not look up the ids of inputs[{min(unused)}] in its nn.Embedding: it computes with them in "
                "another way, which cannot be followed; embed first, and explain the embedding's output"
            )
        return output


def embedded(
    model: nn.Module,
    inputs: tuple[Any, ...],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    *,
    single: bool,
    name: str | None,
) -> EmbeddedForward:
    """The forward pass of a model that is given ids: their table is found, or that of the layer of that name taken."""
    ids = tuple(None if each.is_floating_point() else each.detach().contiguous().clone() for each in inputs)
    wanted = None if name is None else _table(model, name)
    met: list[list[Tensor]] = [[] for _ in inputs]

    def note(weight: Tensor, places: Tensor, number: int) -> None:
        is_wanted = wanted is None or is_same_table(weight, wanted)
        if is_wanted and not any(is_same_table(weight, each) for each in met[number]):
            met[number].append(weight)

    given = [None if each is None else each.clone() for each in ids]
    positional = [each if own is None else own for each, own in zip(inputs, given, strict=True)]
    try:
        with predicting(model), torch.no_grad(), Followed(given, note):
            Forward(model, tuple(positional), args, kwargs).run(positional)
    except InputError as error:
        if any(met) or "embed first" in str(error):
            raise
        raise InputError(f"inputs are whole numbers, and {error}; embed first, or explain the embedding's output") from error
    tables = tuple(None if own is None else _only(met[n], n, model) for n, own in enumerate(ids))
    vectors = tuple(
        each if own is None or table is None else F.embedding(own, table).detach()
        for each, own, table in zip(inputs, ids, tables, strict=True)
    )
    return EmbeddedForward(model, vectors[0] if single else vectors, args, kwargs, ids=ids, tables=tables)


def is_same_table(one: Tensor, other: Tensor) -> bool:
    """Whether two weights are the same rows; a parametrised one is made anew each time, and known by its numbers."""
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return False
    is_made = not isinstance(one, nn.Parameter) and not isinstance(other, nn.Parameter)
    return one.data_ptr() == other.data_ptr() or (is_made and torch.equal(one, other))


def rows_of(layer: nn.Embedding, ids: Tensor) -> Tensor:
    """The rows that a layer looks up, before whatever a subclass or a hook makes of them; its weights stay as they are."""
    rows = F.embedding(ids, layer.weight.detach())
    if layer.max_norm is None:
        return rows
    norm = torch.linalg.vector_norm(rows, layer.norm_type, dim=-1, keepdim=True)
    return torch.where(norm > layer.max_norm, rows * (layer.max_norm / (norm + 1e-7)), rows)  # as PyTorch does it in place


def _tables(model: nn.Module) -> dict[str, Tensor]:
    return {key: each.weight for key, each in model.named_modules() if isinstance(each, (nn.Embedding, nn.EmbeddingBag))}


def _table(model: nn.Module, name: str) -> Tensor:
    known = _tables(model)
    if name not in known:
        raise InputError(f"there is no nn.Embedding {name!r}; the model has {', '.join(known) or 'none'}")
    return known[name]


def _only(met: Sequence[Tensor], number: int, model: nn.Module) -> Tensor:
    if len(met) != 1:
        named = _tables(model)
        layers = ", ".join(next((key for key in named if is_same_table(named[key], each)), "a table") for each in met)
        raise InputError(
            f"the ids of inputs[{number}] go into {len(met)} layers ({layers}); name one by embedding="
            if met
            else f"inputs[{number}] are whole numbers, but the model looks them up in no nn.Embedding; relevance needs numbers "
            "that can carry it: embed first, or explain the embedding's output"
        )
    return met[0]
