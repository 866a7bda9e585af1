"""The two attributions: Captum's arguments in, the answer of `whence.relevance` in Captum's form out."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import torch
from captum.attr import Attribution, LayerAttribution  # pyright: ignore[reportMissingTypeStubs] - Captum has none
from torch import Tensor, nn

from whence._relevance import relevance
from whence.captum.arguments import is_zero, picked, sorted_out
from whence.captum.functions import module_of
from whence.engine.held import named_layers
from whence.errors import InputError
from whence.methods import lrp
from whence.result import Result
from whence.trees import floats_of

P = ParamSpec("P")
R = TypeVar("R")

# What only Integrated Gradients needs. LRP runs the model once, so there is nothing to set.
UNUSED = frozenset({"n_steps", "method", "internal_batch_size"})
NO_BASELINE = "LRP compares with no baseline, so baselines has no effect; relevance and what biases absorb add up to the score"


def wrapped(method: Callable[P, R]) -> Callable[P, R]:
    """A method with `__wrapped__`, which Captum's NoiseTunnel calls."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return method(*args, **kwargs)

    return called


class Explained:
    """What `LRP` and `LayerLRP` share: Captum's arguments in, Captum's form of the answer out."""

    forward_func: Any  # the user's module or function
    settings: lrp.LRP
    module: nn.Module  # the same as a module
    at: str | None = None  # the layer whose output is explained

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether relevance is a contribution to the score, as Gradient×Input is, and not a derivative."""
        return True

    def has_convergence_delta(self) -> bool:
        """Whether there is a convergence delta: yes, it is what `compute_convergence_delta` gives."""
        return True

    @wrapped
    def attribute(
        self,
        inputs: Any,
        *places: Any,
        target: Any = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
        baselines: Any = None,
        **others: object,
    ) -> Any:
        """The relevance of `inputs` for one score per sample, in the form of the inputs.

        `target`, `additional_forward_args` and `return_convergence_delta` are Captum's; without their names they are taken in
        this order. `target` may also be "predicted", a `whence.contrast`, or a function from the model's output to one score
        per sample. Token ids get one number for each id: the relevance of its embedding vector.

        What only Integrated Gradients needs is accepted and not used: `n_steps`, `method`, `internal_batch_size`, and
        `baselines`, also as the second argument (a warning says so if these are not zero).
        """
        named = {"target": target, "additional_forward_args": additional_forward_args, "baselines": baselines}
        call = sorted_out(inputs, places, {**named, "return_convergence_delta": return_convergence_delta})
        self._require_known(others)
        if not is_zero(call["baselines"]):
            warnings.warn(NO_BASELINE, stacklevel=3)
        result = self._result(inputs, call["target"], call["additional_forward_args"])
        found = self._formed(inputs, result)
        return (found, -result.gap) if call["return_convergence_delta"] else found

    def compute_convergence_delta(
        self,
        attributions: Tensor | tuple[Tensor, ...],
        start_point: object,
        end_point: Any,
        target: Any = None,
        additional_forward_args: Any = None,
    ) -> Tensor:
        """How far relevance is from adding up, per sample: Σ relevance + Σ absorbed − score; 0 but for rounding.

        `end_point` is what was explained. `start_point` is the baseline of other methods; LRP has none, and None will do.
        """
        result = self._result(end_point, target, additional_forward_args)
        given = [_per_sample(each, len(result.score), axes=2 if self.at else 1) for each in floats_of(attributions)]
        total = sum(given, start=torch.zeros_like(result.score))
        return total + sum(result.absorbed.values(), start=-result.score)

    def attribute_future(self) -> None:
        """Captum's asynchronous variant does not exist here."""
        raise NotImplementedError("attribute_future is not implemented for LRP; use attribute")

    def _require_known(self, others: Mapping[str, object]) -> None:
        unknown = others.keys() - UNUSED
        if unknown:
            raise TypeError(f"attribute() got an unexpected keyword argument {min(unknown)!r}")

    def _result(self, inputs: Any, target: object, args: object) -> Result:
        """Captum's arguments given to `whence.relevance`."""
        given = () if args is None else cast(tuple[object, ...], args) if isinstance(args, tuple) else (args,)
        is_ids = isinstance(inputs, Tensor) and not inputs.is_floating_point()
        by_step = is_ids and self.at is None
        return relevance(
            self.module, inputs, target=picked(target), method=self.settings, at=self.at, by_step=by_step, args=given
        )

    def _formed(self, inputs: Any, result: Result) -> Any:
        """Relevance in the shapes and types of the inputs: one number for every token id."""
        if type(inputs) is tuple:
            given = cast(tuple[Tensor, ...], inputs)
            return tuple(_like(each, found) for each, found in zip(given, result.relevance, strict=True))
        kind = inputs.dtype if isinstance(inputs, Tensor) and inputs.is_floating_point() else None
        return result.relevance if kind is None else result.relevance.to(kind)


def _per_sample(attribution: Tensor, count: int, *, axes: int) -> Tensor:
    """The sum for each sample. Samples are on the first axis; in the states of a recurrent layer, on the second."""
    axis = next((n for n, size in enumerate(attribution.shape[:axes]) if size == count), None)
    if axis is None:
        raise InputError(
            f"attributions are of shape {tuple(attribution.shape)}, and end_point has {count} samples; give what attribute "
            "returned for this end_point"
        )
    return attribution.movedim(axis, 0).reshape(count, -1).sum(1)


def _like(given: Tensor, found: Tensor) -> Tensor:
    """Relevance in the type of an input; summed over the vectors of token ids."""
    return found.to(given.dtype) if given.is_floating_point() else found.sum(-1)


class LRP(Explained, Attribution):
    """LRP of an unmodified recurrent model, as a Captum attribution.

    `model` is a module, or a function that calls one. The settings are those of `whence.LRP`.

        lrp = whence.captum.LRP(model, epsilon=1e-3)
        lrp.attribute(inputs, target=1)
    """

    def __init__(self, model: Callable[..., Any], **settings: Any) -> None:
        Attribution.__init__(self, model)
        self.settings, self.module = lrp.LRP(**settings), module_of(model)


class LayerLRP(Explained, LayerAttribution):
    """The relevance of a layer's output, such as the vectors (B, T, E) of an embedding: `LayerLRP(model, model.embedding)`.

    It has the form of what the layer returns. What bypasses the layer counts as absorbed.
    """

    def __init__(
        self, model: Callable[..., Any], layer: nn.Module, device_ids: Sequence[int] | None = None, **settings: Any
    ) -> None:
        if not isinstance(layer, nn.Module):
            raise InputError(f"layer is a {type(layer).__name__}; give one module of the model, and call once for each layer")
        LayerAttribution.__init__(self, model, layer, None if device_ids is None else list(device_ids))
        self.settings, self.module = lrp.LRP(**settings), module_of(model)
        names = [name for name, each in named_layers(self.module) if each is layer and name]
        if not names:
            raise InputError(f"the {type(layer).__name__} given as layer is not part of the model; give one of its layers")
        self.at = names[0]

    def _require_known(self, others: Mapping[str, object]) -> None:
        if others.get("attribute_to_layer_input"):
            raise InputError("attribute_to_layer_input=True: relevance is that of a layer's output; give the layer before it")
        super()._require_known({name: each for name, each in others.items() if name != "attribute_to_layer_input"})

    def _formed(self, inputs: Any, result: Result) -> Any:
        """Relevance as the layer's output is: also an LSTM's output and states."""
        return result.relevance
