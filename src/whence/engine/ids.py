"""Follows token ids through a model to the embedding that looks them up; the vectors found there are explained."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from whence.engine.marks import Args, Function, Kwargs
from whence.engine.operation import LookUp, Operation, positional
from whence.errors import InputError
from whence.trees import tensors_of


class Origin(NamedTuple):
    """Where the ids of a tensor came from: the number of the input, and each id's place in it.

    A place is −1 for an id that is not from the input. `places` is None if the places were lost. `is_computed`: the ids were
    computed from those of the input, each from the id at its place.
    """

    tensor: Tensor  # kept alive, so that no other tensor gets its id()
    number: int
    places: Tensor | None
    is_computed: bool = False


class Ids:
    """Follows the token ids of one call. `found` is called with the vectors of an input when they are first looked up.

    It returns the tensor that the model continues with: the vectors on the graph, or a replacement.
    """

    def __init__(
        self, ids: Sequence[Tensor | None], found: Callable[[int, Tensor], Tensor], *, wanted: Tensor | None = None
    ) -> None:
        self.ids, self._found, self._wanted = ids, found, wanted
        self.tables: list[list[Tensor]] = [[] for _ in ids]  # the tables that the ids of each input were looked up in
        self.combined: dict[int, int] = {}  # inputs whose ids only serve to compute those of another input
        self.owners: list[Tensor | None] = [None] * len(ids)  # the sample number of each row, for embedding bags
        self._rows: list[Tensor | None] = [None] * len(ids)  # the explained vectors of each input, as they were looked up
        self._originals = [None if each is None else each.detach().clone() for each in ids]
        self.origins: dict[int, Origin] = {}  # by id() of a tensor of ids
        for number, each in enumerate(ids):
            if each is not None:
                places = torch.arange(each.numel(), device=each.device).view(each.shape)
                self.origins[id(each)] = Origin(each, number, places)

    def origin_of(self, thing: object) -> Origin | None:
        """Where a tensor of ids came from; None for anything else."""
        origin = self.origins.get(id(thing))
        if origin is not None and origin.tensor is thing:
            return origin
        if not isinstance(thing, Tensor) or not _whole_numbers(thing) or not thing.numel():
            return None
        # another name for ids that are followed, as `Variable(ids)` makes it
        same = next((each for each in self.origins.values() if _is_same_view(each.tensor, thing)), None)
        if same is not None:
            self.origins[id(thing)] = same._replace(tensor=thing)
        return same and self.origins[id(thing)]

    def requested(self, operation: Operation, function: Function, args: Args, kwargs: Kwargs) -> LookUp | None:
        """The look-up that a call makes, if it looks up followed ids."""
        look_up = None if operation.look_up is None else operation.look_up(function, args, kwargs)
        return None if look_up is None or self.origin_of(look_up.ids) is None else look_up

    def answer(self, look_up: LookUp, context: AbstractContextManager[object] | None = None) -> Tensor | None:
        """The result of a look-up: explained vectors in the order of the ids; None if the table is not explained.

        Operations on vectors run in `context`.
        """
        origin = self.origin_of(look_up.ids)
        assert origin is not None
        places, original = origin.places, self._originals[origin.number]
        assert original is not None
        if self._wanted is not None and not is_same_table(look_up.table, self._wanted):
            return _plain(look_up, context)
        if look_up.is_count and self.tables[origin.number] and not is_same_table(look_up.table, self.tables[origin.number][0]):
            return None
        if not self._is_explained(look_up.table, origin.number):
            return _plain(look_up, context)
        if places is not None and origin.is_computed and self._rows[origin.number] is None:
            original = self._originals[origin.number] = _as_looked_up(places, look_up.ids, original)
        if places is None or not _are_at(places, look_up.ids, original):
            raise InputError(
                f"the ids of inputs[{origin.number}] are changed before they are looked up, so they cannot be given relevance; "
                "embed first, and explain the embedding's output"
            )
        rows = self._rows[origin.number]
        if rows is None:
            rows = self._rows[origin.number] = _rows_of(look_up, original)
            if look_up.bag_starts is not None and original.dim() == 1:
                numbers = torch.arange(len(original), device=original.device)
                self.owners[origin.number] = torch.searchsorted(look_up.bag_starts, numbers, right=True).double()
        if bool(((look_up.ids < look_up.lowest) | (look_up.ids >= len(look_up.table))).any()):
            look_up.rows(look_up.ids)  # PyTorch raises its own error
        vectors = self._found(origin.number, rows)  # a new tensor for each look-up: a model may write into what it finds
        is_own = places >= 0
        others = None if bool(is_own.all()) else look_up.rows(look_up.ids)
        is_in_order, places = _are_in_order(vectors, places), places.clamp(min=0)
        with context or nullcontext():
            found = vectors if is_in_order else vectors.reshape(-1, vectors.shape[-1])[places]
            return look_up.finish(found if others is None else torch.where(is_own.unsqueeze(-1), found, others))

    def _is_explained(self, table: Tensor, number: int) -> bool:
        """Whether a table is the explained one, which is the first that is used; every table is noted."""
        known = self.tables[number]
        if not any(is_same_table(table, each) for each in known):
            known.append(table)
        return is_same_table(table, known[0])

    def follow(self, operation: Operation, function: Function, args: Args, kwargs: Kwargs, result: object) -> None:
        """Note where the ids of a result came from."""
        args, kwargs = positional(args, kwargs)
        kind = operation.ids if kwargs.get("out") is None else ""
        if kind == "computes":
            self._follow_computed(args, kwargs, result)
            return
        if operation.writes and isinstance(args[-1], int) and (written := self.origin_of(args[0])) is not None:
            self.origins[id(written.tensor)] = written._replace(is_computed=True)  # ids[ids > 9] = 0
            return
        is_joined = bool(args) and isinstance(args[0], (list, tuple))
        operands = cast(Sequence[Tensor], args[0] if is_joined else args[:1])
        origins = [origin for each in operands if (origin := self.origin_of(each)) is not None]
        rest = () if operation.reads_like else tensors_of((args[1:], dict(kwargs)))
        others = [origin for each in rest if (origin := self.origin_of(each)) is not None]
        if not (origins or others) or operation.makes_constant or operation.reads != "numbers":
            return
        whole = _whole_numbers(result)
        places: Sequence[Tensor | None] = [None] * len(whole)
        numbers = {origin.number for origin in (*origins, *others)}
        if whole and origins and not others and len(numbers) == 1 and kind:
            moved = [self._places(each) for each in operands]
            if kind == "casts":
                places = moved
            elif all(each is not None for each in moved):
                places = _whole_numbers(function(moved if is_joined else moved[0], *args[1:], **kwargs))
        for each, own in zip(whole, places, strict=True):
            self.origins[id(each)] = Origin(each, min(numbers), own, any(origin.is_computed for origin in origins))

    def _follow_computed(self, args: Args, kwargs: Kwargs, result: object) -> None:
        """Note where the ids of a result came from that were computed from ids at the same places."""
        origins = [origin for each in tensors_of((args, dict(kwargs))) if (origin := self.origin_of(each)) is not None]
        if not origins or not isinstance(result, Tensor) or not _whole_numbers(result):
            return
        first = min(origins, key=lambda origin: origin.number)
        for origin in origins:
            if origin.number != first.number:
                self.combined[origin.number] = first.number
        places = None
        if all(origin.places is not None for origin in origins):
            own = [cast(Tensor, origin.places) for origin in origins if origin.number == first.number]
            one, *others = cast(Sequence[Tensor], torch.broadcast_tensors(*own))
            places = one.expand(result.shape) if all(torch.equal(one, other) for other in others) else None
        self.origins[id(result)] = Origin(result, first.number, places, is_computed=True)

    def _places(self, tensor: Tensor) -> Tensor | None:
        origin = self.origin_of(tensor)
        return torch.full_like(tensor, -1, dtype=torch.long) if origin is None else origin.places


def _whole_numbers(result: object) -> list[Tensor]:
    """The tensors in a result that may hold ids."""
    return [each for each in tensors_of(result) if not each.is_floating_point() and each.dtype != torch.bool]


def _plain(look_up: LookUp, context: AbstractContextManager[object] | None) -> Tensor | None:
    """A bag of a table that is not explained, though its weights may be; None for other look-ups, which the model makes."""
    if not look_up.is_bag:
        return None
    rows = look_up.rows(look_up.ids)
    with context or nullcontext():
        return look_up.finish(rows)


def _rows_of(look_up: LookUp, ids: Tensor) -> Tensor:
    """The rows of all ids of an input; 0 for ids that are not in the table, which the model must not look up there."""
    with torch.inference_mode(False), torch.no_grad():
        is_there = (ids >= look_up.lowest) & (ids < len(look_up.table))
        rows = look_up.rows(torch.where(is_there, ids, 0).long())
        return rows if bool(is_there.all()) else rows.masked_fill(~is_there.unsqueeze(-1), 0.0)


def _as_looked_up(places: Tensor, ids: Tensor, original: Tensor) -> Tensor:
    """The ids of an input as a model looks them up: it may compute with them first."""
    found = original.clone().reshape(-1)
    is_own = (places >= 0).reshape(-1)
    found[places.reshape(-1)[is_own]] = ids.reshape(-1)[is_own].to(found.dtype)
    return found.view(original.shape)


def _are_at(places: Tensor, ids: Tensor, original: Tensor) -> bool:
    """Whether ids still equal the input's ids at their places; a model may have overwritten them."""
    return bool(((ids == original.reshape(-1)[places.clamp(min=0)]) | (places < 0)).all())


def _are_in_order(vectors: Tensor, places: Tensor) -> bool:
    """Whether the vectors belong to ids at these places of the input, as they lie."""
    in_order = torch.arange(places.numel(), device=places.device)
    return places.shape == vectors.shape[:-1] and torch.equal(places.flatten(), in_order)


def is_same_table(one: Tensor, other: Tensor) -> bool:
    """Whether two weights are the same table; parametrised ones are recomputed for each call, so numbers are compared."""
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return False
    is_made = not isinstance(one, nn.Parameter) and not isinstance(other, nn.Parameter)
    return one.data_ptr() == other.data_ptr() or (is_made and torch.equal(one, other))


def _is_same_view(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same view of the same memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()
