"""Token ids in: the layer that embeds them is found, and what is explained is its output, token by token."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whence.errors import InputError
from whence.methods.forward import Forward, predicting

Embedding = nn.Embedding | nn.EmbeddingBag


@dataclass(frozen=True, eq=False)
class EmbeddedForward(Forward):
    """A call of a model with token ids. `inputs` holds what their embedding makes of them, and is what can be replaced.

    For every input `ids` are its ids and `layers` the layer that embeds them; None for an input that is numbers itself.
    """

    ids: tuple[Tensor | None, ...] = ()
    layers: tuple[Embedding | None, ...] = ()

    @property
    def owners(self) -> tuple[Tensor | None, ...]:
        """The sample number of each row, known beforehand for ids in one line that offsets cut into bags."""
        offsets = next((each for each in self._more() if isinstance(each, Tensor) and each.dim() == 1), None)
        found: list[Tensor | None] = []
        for ids, layer in zip(self.ids, self.layers, strict=True):
            in_bags = isinstance(layer, nn.EmbeddingBag) and ids is not None and ids.dim() == 1 and offsets is not None
            rows = torch.arange(len(cast(Tensor, ids)), device=cast(Tensor, ids).device) if in_bags else None
            found.append(None if rows is None else torch.searchsorted(cast(Tensor, offsets), rows, right=True).double())
        return tuple(found)

    def _more(self) -> list[Any]:
        return [*self.args, *(self.kwargs or {}).values()]

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """Call the model with the ids, and give it these tensors for what its embeddings make of them."""
        positional = [tensor if ids is None else ids for tensor, ids in zip(tensors, self.ids, strict=True)]
        with ExitStack() as hooks:
            for layer in dict.fromkeys(layer for layer in self.layers if layer is not None):
                hooks.enter_context(_replacing(layer, self._replacement(layer, tensors)))
            return self.model(*positional, *self.args, **(self.kwargs or {}))

    def _replacement(self, layer: Embedding, tensors: Sequence[Tensor]) -> Callable[..., Tensor | None]:
        def replacement(given: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
            for ids, own, tensor in zip(self.ids, self.layers, tensors, strict=True):
                places = positions(given, ids) if own is layer and ids is not None else None
                if places is not None:
                    whole = places.shape == tensor.shape[:-1] and bool(
                        (places.flatten() == torch.arange(places.numel(), device=places.device)).all()
                    )
                    rows = tensor if whole else tensor.reshape(-1, tensor.shape[-1])[places]
                    return rows if isinstance(layer, nn.Embedding) else bagged(layer, rows, given, *args, **kwargs)
            return None

        return replacement


@contextmanager
def _replacing(layer: Embedding, replacement: Callable[..., Tensor | None]) -> Generator[None]:
    def replaced(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        given = args[0] if args else kwargs["input"]
        more = {name: each for name, each in kwargs.items() if name != "input"}
        found = replacement(given, args[1:], more)
        return output if found is None else found

    handle = layer.register_forward_hook(replaced, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        handle.remove()


def positions(given: Tensor, ids: Tensor) -> Tensor | None:
    """Where in `ids` the ids stand that a layer was given: a view of them (a slice, a transpose), or a copy as a whole."""
    if given.untyped_storage().data_ptr() == ids.untyped_storage().data_ptr():
        numbers = torch.arange(ids.numel(), device=ids.device)
        return numbers.as_strided(given.shape, given.stride(), given.storage_offset())
    if given.shape == ids.shape and torch.equal(given, ids):
        return torch.arange(ids.numel(), device=ids.device).view(ids.shape)
    return None


def bagged(
    layer: nn.EmbeddingBag, rows: Tensor, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
) -> Tensor:
    """What a bag makes of its tokens' vectors: their sum, mean or maximum, those of the padding left out."""
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    kept = torch.ones_like(ids, dtype=torch.bool) if layer.padding_idx is None else ids != layer.padding_idx
    if ids.dim() == 2:
        bags = [(rows[n], kept[n]) for n in range(len(ids))]
    else:
        ends = [*(offsets.tolist() if offsets is not None else [0]), len(ids)]
        starts, ends = (ends[:-2], ends[1:-1]) if layer.include_last_offset else (ends[:-1], ends[1:])
        bags = [(rows[a:b], kept[a:b]) for a, b in zip(starts, ends, strict=True)]
    pool = {"sum": lambda bag: bag.sum(0), "mean": lambda bag: bag.mean(0), "max": lambda bag: bag.amax(0)}[layer.mode]
    return torch.stack([pool(bag[mask]) if bool(mask.any()) else bag.new_zeros(bag.shape[-1]) for bag, mask in bags])


def embedded(
    model: nn.Module,
    inputs: tuple[Any, ...],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    *,
    single: bool,
    name: str | None,
) -> EmbeddedForward:
    """The forward pass of a model that is given ids, with their embeddings found, or taken from the layer of that name."""
    ids = tuple(None if each.is_floating_point() else each.detach().contiguous().clone() for each in inputs)
    candidates = {
        key: module for key, module in model.named_modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and name in (None, key)
    }  # fmt: skip
    if not candidates:
        known = [key for key, module in model.named_modules() if isinstance(module, (nn.Embedding, nn.EmbeddingBag))]
        raise InputError(
            f"there is no nn.Embedding {name!r}; the model has {', '.join(known) or 'none'}"
            if name is not None
            else "inputs are whole numbers, but the model has no nn.Embedding; relevance needs numbers that can carry it: "
            "embed first, or explain the embedding's output"
        )
    met: list[dict[str, None]] = [{} for _ in inputs]
    with ExitStack() as hooks, predicting(model), torch.no_grad():
        for key, module in candidates.items():

            def note(given: Tensor, args: Any, kwargs: Any, key: str = key) -> None:
                for n, own in enumerate(ids):
                    if own is not None and positions(given, own) is not None:
                        met[n][key] = None

            hooks.enter_context(_replacing(module, note))
        plain = Forward(
            model, tuple(own if own is not None else each for each, own in zip(inputs, ids, strict=True)), args, kwargs
        )
        plain.run(plain.tensors_as_given())
    layers = tuple(None if own is None else candidates[_only(met[n], n)] for n, own in enumerate(ids))
    vectors = tuple(
        each if own is None or layer is None else F.embedding(own, layer.weight).detach()
        for each, own, layer in zip(inputs, ids, layers, strict=True)
    )
    return EmbeddedForward(model, vectors[0] if single else vectors, args, kwargs, ids=ids, layers=layers)


def _only(met: Mapping[str, None], number: int) -> str:
    if len(met) != 1:
        raise InputError(
            f"the ids of inputs[{number}] go into {len(met)} layers ({', '.join(met)}); name one by embedding="
            if met
            else f"no nn.Embedding of the model was given the ids of inputs[{number}], or a slice or transpose of them; embed "
            "first, and explain the embedding's output"
        )
    return next(iter(met))
