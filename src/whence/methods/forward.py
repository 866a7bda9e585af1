"""A call of the model, as every method makes it; the model itself is not changed."""

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whence.engine.held import ModelParts, named_layers
from whence.engine.ids import Ids, is_same_table
from whence.engine.marks import Args, Function, Kwargs
from whence.engine.table import TABLE
from whence.errors import InputError, WhenceError
from whence.methods.inputs import Inputs
from whence.methods.predicting import alone, predicting
from whence.trees import mapped


class Followed(TorchFunctionMode):
    """While active, follows token ids through a forward pass whose calls follow no rules, and answers their look-ups."""

    ids: Ids | None = None

    def __torch_function__(self, func: Function, types: object, args: Args = (), kwargs: Kwargs | None = None) -> object:
        kwargs, ids = kwargs or {}, self.ids
        if ids is None:
            return self.made(func, args, kwargs)
        operation = TABLE.find(func)
        look_up = ids.requested(operation, func, args, kwargs)
        if look_up is not None and not self.depends(look_up.table):
            found = ids.answer(look_up, self.context())
            if found is not None:
                return found
        result = self.made(func, args, kwargs)
        ids.follow(operation, func, args, kwargs, result)
        return result

    def context(self) -> AbstractContextManager[object]:
        """The context in which explained vectors are used."""
        return nullcontext()

    def depends(self, table: Tensor) -> bool:
        """Whether a table depends on an explained input, so that indexing it is no look-up of token ids."""
        return False

    def made(self, func: Function, args: Args, kwargs: Kwargs) -> object:
        """Make a call."""
        return func(*args, **kwargs)


class Run(NamedTuple):
    """What one run of the model gave: its output, the explained tensors, and the sample number of their rows where known."""

    output: object
    tensors: list[Tensor]
    owners: Sequence[Tensor | None]


@dataclass(frozen=True, eq=False)
class Forward:
    """A call of a model. `embedding` names the layer whose vectors are explained, if token ids go into several.

    `caller` says how the model is called with the inputs in the user's form, where that is not model(*inputs, *args, **kwargs).
    """

    model: nn.Module
    inputs: Inputs
    args: Sequence[object] = ()
    kwargs: Kwargs = field(default_factory=dict[str, object])
    embedding: str | None = None
    caller: Callable[[nn.Module, Any], object] | None = None
    deleted: Tensor | None = None  # of the shape of the token ids, True where a token's vector is set to zero
    finish: Callable[[Any], Any] | None = None  # what is made of the model's output

    @cached_property
    def parts(self) -> ModelParts:
        """The model's layers, parameters and buffers."""
        return ModelParts(self.model)

    def run(self, leaf: Callable[[int, Tensor], Tensor], mode: Followed | None = None) -> Run:
        """Run the model once. `leaf` gets every explained tensor with its number, and returns what the model continues with.

        The explained tensors are the float inputs, and the vectors that are looked up for token ids.
        """
        explained = list(self.inputs.copies())

        def start(number: int, tensor: Tensor) -> Tensor:
            explained[number] = tensor
            return leaf(number, tensor)

        given = [start(n, each) if each.is_floating_point() else each for n, each in enumerate(explained)]
        mode = Followed() if mode is None else mode
        mode.ids = self.ids_of(given, start)
        with mode:
            output = self.call(given, mode.ids)
        return Run(output, explained, self.owners(mode.ids))

    def predict(self, tensors: Sequence[Tensor] | None = None) -> Run:
        """Run the model in evaluation mode, with these tensors in place of the explained ones if they are given."""
        with predicting(self.parts), torch.no_grad():
            return self.run(lambda number, tensor: (tensor if tensors is None else tensors[number]).clone())

    def doubled(self) -> "Forward":
        """The same call of a copy of the model, in double precision."""

        def double(thing: object) -> object:
            return thing.double() if isinstance(thing, Tensor) and thing.is_floating_point() else thing

        return replace(
            self,
            model=copy.deepcopy(self.model).double(),
            inputs=replace(self.inputs, tensors=mapped(double, self.inputs.tensors)),
            args=mapped(double, tuple(self.args)),
            kwargs=mapped(double, dict(self.kwargs)),
        )

    def differentiable(self) -> "Forward":
        """The same call of a copy of the model, if it was made in inference mode: its weights cannot be derived through."""
        if not any(each.is_inference() for _, each in (*self.parts.parameters, *self.parts.buffers)):
            return self
        with torch.inference_mode(False):
            return replace(self, model=copy.deepcopy(self.model))

    def ids_of(self, tensors: Sequence[Tensor], found: Callable[[int, Tensor], Tensor]) -> Ids | None:
        """An object that follows the token ids among the model's inputs; None if there are none."""
        ids, wanted = [None if tensor.is_floating_point() else tensor for tensor in tensors], self.table

        def start(number: int, vectors: Tensor) -> Tensor:
            if self.deleted is not None:
                vectors = vectors.masked_fill(self.deleted[..., None], 0.0)
            return found(number, vectors)

        return Ids(ids, start, wanted=wanted) if any(each is not None for each in ids) else None

    @property
    def table(self) -> Tensor | None:
        """The weights of the layer that `embedding` names."""
        if self.embedding is None:
            return None
        with suppress(AttributeError):  # no layer has that name
            layer = self.model.get_submodule(self.embedding)
            if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
                return layer.weight
        known = ", ".join(_tables(self.model)) or "none"
        raise InputError(f"there is no nn.Embedding {self.embedding!r}; the model has {known}")

    def owners(self, ids: Ids | None) -> Sequence[Tensor | None]:
        """For every explained tensor the sample number of each row, from 1 on, if packed inputs or a bag of ids give it."""
        found = [None] * len(self.inputs.owners) if ids is None else ids.owners
        return [given if given is not None else of_bag for given, of_bag in zip(self.inputs.owners, found, strict=True)]

    def call(self, tensors: Sequence[Tensor], ids: Ids | None) -> object:
        """Call the model with these tensors; an error of PyTorch's about their shapes becomes one sentence."""
        form = self.inputs.form(tensors)
        try:
            with alone(self.model):
                output = self._called(form) if self.caller is None else self.caller(self.model, form)
            output = output if self.finish is None else self.finish(output)
        except TypeError as error:
            if self.caller is not None or self._takes(form):
                raise
            raise InputError(
                f"the model cannot be called with these inputs alone: {error}; give its other arguments by args= or kwargs=, "
                "lengths also by lengths="
            ) from error
        except (RuntimeError, ValueError, IndexError) as error:
            if isinstance(error, WhenceError) or not _raised_by_torch(error.__traceback__):
                raise
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
            first = str(error).strip().splitlines()[0]
            message = f"the model cannot run on inputs of shape {shapes}: {first}"
            if ids is not None and not any(ids.tables):
                message = f"inputs are whole numbers, and {message}; embed first, or explain the embedding's output"
            raise InputError(message) from error
        if ids is not None:
            self._require_looked_up(ids)
        return output

    def _called(self, form: object) -> object:
        args, kwargs = self.arguments(form)
        return self.model(*args, **kwargs)

    def _takes(self, form: object) -> bool:
        """Whether the model's forward has parameters for these arguments."""
        args, kwargs = self.arguments(form)
        try:
            inspect.signature(self.model.forward).bind(*args, **kwargs)
        except TypeError:
            return False
        return True

    def arguments(self, form: object) -> tuple[Sequence[object], Kwargs]:
        """The model's arguments. Those of a dictionary are given by name, if the model has parameters of these names.

        Where `kwargs` names a parameter before the inputs, these are given by name too.
        """
        if not self.kwargs and not isinstance(form, dict):
            return (*_several(form), *self.args), {}
        parameters = inspect.signature(self.model.forward).parameters.values()
        if isinstance(form, dict):
            named = cast(dict[str, object], form)
            takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
            are_names = all(isinstance(key, str) for key in named)
            if are_names and (takes_any or named.keys() <= {each.name for each in parameters}):
                return self.args, {**named, **self.kwargs}
        given: tuple[object, ...] = (*_several(cast(object, form)), *self.args)
        names = [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        free = [name for name in names if name not in self.kwargs]
        if names[: len(given)] == free[: len(given)] or len(free) < len(given):
            return given, self.kwargs
        return (), {**dict(zip(free, given, strict=False)), **self.kwargs}

    def _require_looked_up(self, ids: Ids) -> None:
        """Refuse token ids that were looked up nowhere, or in several tables."""
        for number, (name, own, tables) in enumerate(zip(self.inputs.names, ids.ids, ids.tables, strict=True)):
            if own is None or len(tables) == 1:
                continue
            if not tables and number in ids.combined:
                raise InputError(
                    f"{name} only serve to compute the ids of {self.inputs.names[ids.combined[number]]}, and have no vectors "
                    "of their own; give them by args= or kwargs="
                )
            if tables:
                named = _tables(self.model)
                layers = [next((layer for layer in named if is_same_table(named[layer], each)), "a table") for each in tables]
                raise InputError(
                    f"the ids of {name} go into {len(tables)} layers ({', '.join(layers)}); name one by embedding="
                )
            if self.embedding is not None:
                raise InputError(
                    f"the model did not look up the ids of {name} in its nn.Embedding {self.embedding!r}: it "
                    "computes with them in another way, which cannot be followed; embed first, and explain the "
                    "embedding's output"
                )
            raise InputError(
                f"{name} are whole numbers, but the model looks them up in no nn.Embedding; relevance needs numbers "
                "that can carry it: embed first, or explain the embedding's output; give lengths by args= or lengths="
            )


def _several(form: object) -> tuple[object, ...]:
    """Inputs as positional arguments: a tuple of them is several."""
    return tuple(cast(tuple[object, ...], form)) if type(form) is tuple else (form,)


def _tables(model: nn.Module) -> dict[str, Tensor]:
    return {key: each.weight for key, each in named_layers(model) if isinstance(each, (nn.Embedding, nn.EmbeddingBag))}


def _raised_by_torch(traceback: TracebackType | None) -> bool:
    """Whether an error came out of PyTorch (or out of our call of it), not out of the user's own code."""
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module.split(".")[0] in ("torch", "whence")


def require_finite(tensors: Sequence[Tensor]) -> None:
    """Refuse inputs with a NaN or an infinity, and say where it is."""
    for n, tensor in enumerate(tensors):
        if tensor.is_floating_point() and not math.isfinite(tensor.sum().item()) and not bool(tensor.isfinite().all()):
            place = cast(list[int], (~tensor.isfinite()).nonzero()[0].tolist())
            name = "inputs" if len(tensors) == 1 else f"inputs[{n}]"
            raise InputError(f"{name}{place} is {tensor[tuple(place)].item()}; inputs must be finite numbers")
