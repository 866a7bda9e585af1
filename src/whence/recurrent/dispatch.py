"""Which path a recurrent layer takes, and why: the readable reference, or a faster one that is tested against it."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whence.equations import Product, Rules
from whence.recurrent.directions import DirectionsLayer
from whence.recurrent.gru.weights import GRUWeights
from whence.recurrent.layer import Layer, SweptLayer
from whence.recurrent.lstm.weights import LSTMWeights
from whence.recurrent.native.compiled import PRECISIONS, is_off
from whence.recurrent.native.layer import NativeLayer, kernels
from whence.recurrent.triton.grid import grid_for, processors, programs_that_meet

LARGEST_STATE, LARGEST_SUM = 2.0**10, 2.0**18  # of which 2⁻⁴⁰ is nothing beside 1
ON_GPUS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Path(NamedTuple):
    """The path of a layer: "reference", "plain" (few large operations), "compiled" (C) or "triton" (on GPUs), and why."""

    name: str
    reason: str


def path(weights: Any, x: Tensor, *, product: Product, directions: int = 2) -> Path:
    """The path of a layer whose directions have weights such as these, for an input x (T, B, E)."""
    if not isinstance(weights, (LSTMWeights, GRUWeights)):
        return Path("reference", "only nn.LSTM and nn.GRU have a faster path")
    if product != "all" or (isinstance(weights, LSTMWeights) and weights.projection is not None):
        return Path("reference", "a projection, or another rule for products than the paper's, has no faster path")
    if x.device.type not in ("cpu", "cuda") or x.dtype not in (PRECISIONS if x.device.type == "cpu" else ON_GPUS):
        return Path("reference", f"there is no faster path for {x.dtype} on {x.device.type}")
    if x.numel() == 0:
        return Path("reference", "an empty input has nothing to be fast about")
    if x.device.type == "cuda":
        reason = _against_triton(weights, x, directions)
        return Path("triton", "PyTorch comes with Triton") if reason is None else Path(_without_kernels(weights, x), reason)
    found = kernels(weights, x.dtype)
    return Path(_without_kernels(weights, x) if found.library is None else "compiled", found.reason)


def _without_kernels(weights: LSTMWeights | GRUWeights, x: Tensor) -> str:
    """The path that PyTorch's own operations can take."""
    return "plain" if isinstance(weights, LSTMWeights) and x.dtype in PRECISIONS else "reference"


def _against_triton(weights: LSTMWeights | GRUWeights, x: Tensor, directions: int) -> str | None:
    """Why the Triton kernels cannot do a layer, None where they can."""
    if is_off("WHENCE_TRITON"):
        return f"WHENCE_TRITON is {os.environ['WHENCE_TRITON']}"
    if x.dtype == torch.float64:
        return "the Triton kernels have single precision"
    reason = _against_gpu(x.device)
    if reason is not None:
        return reason
    needed, found = programs_that_meet(weights.hidden.shape[1], directions), processors(x.device)
    return f"{needed} programs would have to meet, and the GPU has {found} processors" if needed > found else None


@cache
def _against_gpu(device: torch.device) -> str | None:
    """Why no Triton kernel can run on a GPU, None where they can."""
    if importlib.util.find_spec("triton") is None:
        return "there is no Triton"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "there is no C compiler, with which Triton makes what launches a kernel"
    if torch.version.hip is not None:
        return "the Triton kernels are for NVIDIA's GPUs"
    major, minor = torch.cuda.get_device_capability(device)
    return f"the Triton kernels need compute capability 8.0, and the GPU has {major}.{minor}" if major < 8 else None


def _are_uneven(x: Tensor, weights: Sequence[LSTMWeights | GRUWeights], states: Sequence[Tensor]) -> bool:
    """Whether a GPU's halves, which hold 2⁻⁴⁰ of the largest number of a row, would lose what counts beside larger numbers.

    Small layers know how to help themselves (recurrent/gpu/parts.py); for larger ones it waits for the GPU, once.
    """
    if grid_for(states[0].shape[-1], 1, is_back=False).is_held:
        return False
    u = torch.stack([_largest(own.input) for own in weights]).max()
    worst = torch.maximum(_largest(states[0]) / LARGEST_STATE, _largest(x) * u / LARGEST_SUM)
    return not bool(worst <= 1)  # nor where it is NaN


def _largest(numbers: Tensor) -> Tensor:
    return torch.linalg.vector_norm(numbers, torch.inf, dtype=torch.float32)


class Chosen:
    """A layer on its path; what only the reference can tell is asked of the reference."""

    def __init__(
        self,
        path: str,
        layer: Layer,
        slow: Callable[[Tensor, Sequence[Tensor]], DirectionsLayer],
        x: Tensor,
        states: Sequence[Tensor],
    ) -> None:
        self.path = path  # the name of the path that was taken
        self.outputs, self.final, self.release = layer.outputs, layer.final, layer.release
        self._layer, self._slow = layer, slow
        self._x, self._states = x, states

    def renew(self, x: Tensor | None, states: Sequence[Tensor]) -> None:
        """Before the way back, give the same input again: a model may have written over the tensor it was in."""
        self._states = states
        if x is not None:
            self._x = x
            self._layer.renew(x)

    def relevance(
        self,
        r_outputs: Tensor | None,
        r_states: Sequence[Tensor],
        rule: Rules,
        *,
        direction: int | None = None,
        by_step: bool = False,
        keep: bool = False,
    ) -> SweptLayer:
        """Hand back relevance; without a stabiliser, 0 / 0 needs a look at every number, which the reference takes."""
        smallest = torch.finfo(torch.promote_types(self._x.dtype, torch.float32)).tiny
        if keep or rule.epsilon < smallest:
            slow = self._slow(self._x, self._states)
            return slow.relevance(r_outputs, r_states, rule, direction=direction, by_step=by_step, keep=keep)
        with _on(self._x.device):
            return self._layer.relevance(r_outputs, r_states, rule, direction=direction, by_step=by_step)


def run_layer(
    cell: Any, x: Tensor, weights: Sequence[Any], states: Sequence[Tensor], lengths: Tensor | None, *, product: Product
) -> Chosen:
    """Run all directions of a layer over x (T, B, E) from states (D, B, ·) each, on the path that is best for it."""
    _require_fitting(x, weights, states)
    chosen = path(weights[0], x, product=product, directions=len(weights)).name
    parts = [each for own in weights for each in own if isinstance(each, Tensor)]
    if any(each.dtype != x.dtype or each.device != x.device or each.is_neg() for each in (x, *states, *parts)):
        chosen = "reference"  # PyTorch's own operations know what to make of it
    if chosen == "triton" and _are_uneven(x, weights, states):
        chosen = _without_kernels(weights[0], x)

    def slow(x: Tensor, states: Sequence[Tensor], *, plainly: bool = False) -> DirectionsLayer:
        return DirectionsLayer(cell, x, weights, states, lengths, plainly=plainly)

    if chosen == "reference":
        layer = slow(x, states)
        return Chosen(chosen, layer, lambda _x, _states: layer, x, states)
    with torch.no_grad(), _on(x.device):
        if chosen == "triton":
            from whence.recurrent.triton.layer import TritonLayer  # only here: it needs Triton

            return Chosen(chosen, TritonLayer(x, weights, states, lengths), slow, x, states)
        quick = NativeLayer(x, weights, states, lengths) if chosen == "compiled" else slow(x, states, plainly=True)
        return Chosen(chosen, quick, slow, x, states)


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current one, which is where Triton launches, unless it is."""
    is_there = device.type != "cuda" or device.index == torch.cuda.current_device()
    return nullcontext() if is_there else torch.cuda.device(device)


def _require_fitting(x: Tensor, weights: Sequence[Any], states: Sequence[Tensor]) -> None:
    """Refuse what PyTorch's own layer would refuse: kernels read memory, and would read what is not there."""
    own = weights[0]
    rows, size = own.input.shape
    if x.shape[-1] != size:
        raise RuntimeError(f"a recurrent layer for {size} features is given {x.shape[-1]}")
    width = own.hidden_size
    hidden = own.hidden.shape[1] if getattr(own, "projection", None) is not None else width
    needed = {"input": (rows, size), "hidden": (rows, hidden), "projection": (hidden, width)}
    for each in weights:
        for name, part in zip(each._fields, each, strict=True):
            shape = needed.get(name, (rows,))  # of a bias
            if isinstance(part, Tensor) and part.shape != shape:
                raise RuntimeError(f"a recurrent layer's {name} weights have shape {tuple(part.shape)} where {shape} is needed")
    for state, columns in zip(states, [hidden, width], strict=False):
        shape = (len(weights), x.shape[1], columns)
        if state.shape != shape:
            raise RuntimeError(f"a recurrent layer's state has shape {tuple(state.shape)} where {shape} is needed")
