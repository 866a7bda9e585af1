"""Which path a recurrent layer takes, and why: the readable reference, or a faster one that is tested against it."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import NamedTuple, cast

import torch
from torch import Tensor

from whence.equations import Product, Rules
from whence.recurrent.cell import Cell
from whence.recurrent.directions import DirectionsLayer, Way
from whence.recurrent.layer import Layer, SweptLayer
from whence.recurrent.native.compiled import PRECISIONS, is_off
from whence.recurrent.native.layer import NativeLayer, kernels
from whence.recurrent.triton.grid import concurrent_programs, grid_for, processors
from whence.recurrent.weights import Weights, tensors

LARGEST_STATE, LARGEST_SUM = 2.0**10, 2.0**18  # 2⁻⁴⁰ of these is negligible beside 1
ON_GPUS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Path(NamedTuple):
    """The path of a layer and why: "reference", "factored" (its backward pass in fewer operations), "plain" (few large
    operations), "compiled" (C) or "triton" (on GPUs)."""

    name: str
    reason: str


def path(cell: Cell, weights: Weights, x: Tensor, *, product: Product, directions: int = 2) -> Path:
    """The path of a layer with these weights in every direction, for an input x (T, B, E)."""
    reason = _against_faster(x)
    if reason is not None:
        return Path("reference", reason)
    reason = _against_kernels(cell, weights, x, product)
    if reason is not None:
        return Path(_factored(cell, x), reason)
    if x.device.type == "cuda":
        reason = _against_triton(cell, weights, x, directions)
        return Path("triton", "PyTorch comes with Triton") if reason is None else Path(_without_kernels(cell, x), reason)
    found = kernels(cell, x.dtype)
    return Path(_without_kernels(cell, x) if found.library is None else "compiled", found.reason)


def _against_faster(x: Tensor) -> str | None:
    """Why only the reference can run a layer, None where a faster path may."""
    if x.device.type not in ("cpu", "cuda") or x.dtype not in (PRECISIONS if x.device.type == "cpu" else ON_GPUS):
        return f"there is no faster path for {x.dtype} on {x.device.type}"
    return "the input is empty" if x.numel() == 0 else None


def _against_kernels(cell: Cell, weights: Weights, x: Tensor, product: Product) -> str | None:
    """Why no kernel, and no plain path, can run a layer; None where they may."""
    if weights.needs_factors is not None:
        return weights.needs_factors
    if cell.has_products and product != "all":
        return "the kernels know the paper's rule for products alone"
    return None


def _without_kernels(cell: Cell, x: Tensor) -> str:
    """The best path in PyTorch's own operations."""
    return "plain" if cell.plain is not None and x.dtype in PRECISIONS else _factored(cell, x)


def _factored(cell: Cell, x: Tensor) -> str:
    """The best path in PyTorch's own operations that knows every rule."""
    return "factored" if cell.factored is not None and x.dtype in PRECISIONS else "reference"


def _against_triton(cell: Cell, weights: Weights, x: Tensor, directions: int) -> str | None:
    """Why the Triton kernels cannot run a layer, None where they can."""
    if cell.triton is None:
        return f"there are no Triton kernels for {cell.label}"
    if is_off("WHENCE_TRITON"):
        return f"WHENCE_TRITON is {os.environ['WHENCE_TRITON']}"
    if x.dtype == torch.float64:
        return "the Triton kernels compute in float32"
    reason = _against_gpu(x.device)
    if reason is not None:
        return reason
    needed, found = concurrent_programs(weights.hidden_size, directions), processors(x.device)
    return (
        f"{needed} programs would have to run at the same time, and the GPU has {found} processors" if needed > found else None
    )


@cache
def _against_gpu(device: torch.device) -> str | None:
    """Why no Triton kernel can run on a GPU, None where they can."""
    if importlib.util.find_spec("triton") is None:
        return "there is no Triton"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "there is no C compiler, which Triton needs to build its launchers"
    if torch.version.hip is not None:
        return "the Triton kernels are for NVIDIA's GPUs"
    major, minor = torch.cuda.get_device_capability(device)
    return f"the Triton kernels need compute capability 8.0, and the GPU has {major}.{minor}" if major < 8 else None


def _exceeds_float16_split(x: Tensor, weights: Sequence[Weights], states: Sequence[Tensor]) -> bool:
    """Whether a layer's numbers differ so much in size that splitting them into float16 parts would lose the small ones.

    A split row keeps 2⁻⁴⁰ of its largest number. Layers that one program holds treat large numbers separately
    (triton/split.py). For larger layers, this waits for the GPU once.
    """
    if grid_for(states[0].shape[-1], 1, is_back=False).is_held:
        return False
    u = torch.stack([_largest(own.input) for own in weights]).max()
    worst = torch.maximum(_largest(states[0]) / LARGEST_STATE, _largest(x) * u / LARGEST_SUM)
    return not bool(worst <= 1)  # true for NaN too


def _largest(numbers: Tensor) -> Tensor:
    return cast(Tensor, torch.linalg.vector_norm(numbers, torch.inf, dtype=torch.float32))


class Chosen:
    """A layer on its path. It falls back to the reference for what only the reference can compute."""

    def __init__(
        self,
        cell: Cell,
        path: str,
        layer: Layer,
        reference: Callable[[Tensor, Sequence[Tensor]], DirectionsLayer],
        x: Tensor,
        states: Sequence[Tensor],
    ) -> None:
        self._cell = cell
        self.path = path  # the name of the path that was taken
        self.outputs, self.final, self.release = layer.outputs, layer.final, layer.release
        self._layer, self._reference = layer, reference
        self._x, self._states = x, states

    def renew(self, x: Tensor | None, states: Sequence[Tensor]) -> None:
        """Before the backward pass, give the same input again: a model may have written over the tensor it was in."""
        self._states = states
        if x is not None:
            self._x = x
            self._layer.renew(x)

    def relevance(
        self,
        r_outputs: Tensor | None,
        r_states: Sequence[Tensor],
        rules: Rules,
        *,
        direction: int | None = None,
        by_step: bool = False,
        keep: bool = False,
    ) -> SweptLayer:
        """Hand back relevance. Only the reference keeps what states carried, and only it handles 0 / 0 without a stabiliser."""
        if keep or is_without_stabiliser(rules, self._x):
            slow = self._reference(self._x, self._states)
            return slow.relevance(r_outputs, r_states, rules, direction=direction, by_step=by_step, keep=keep)
        is_summed = by_step and not self._cell.has_bounded_states
        with _on(self._x.device):
            found = self._layer.relevance(r_outputs, r_states, rules, direction=direction, by_step=by_step and not is_summed)
        return found._replace(x=found.x.sum(-1, keepdim=True)) if is_summed else found

    def beyond_rest(
        self, r_outputs: Tensor | None, r_states: Sequence[Tensor], rules: Rules, rest: Tensor, *, direction: int | None = None
    ) -> Tensor:
        """What the input x gets beyond its value at rest:  (x − x⁰) q + s."""
        slow = self._reference(self._x, self._states)
        slow.renew(self._x - rest)
        found = slow.relevance(r_outputs, r_states, rules, direction=direction, by_step=False).x
        slow.renew(self._x)
        return found


def is_without_stabiliser(rules: Rules, x: Tensor) -> bool:
    """Whether ε is 0 in the precision that x is computed in."""
    return rules.epsilon < torch.finfo(x.dtype if x.dtype == torch.float64 else torch.float32).tiny


def run_layer(
    cell: Cell, x: Tensor, weights: Sequence[Weights], states: Sequence[Tensor], lengths: Tensor | None, *, product: Product
) -> Chosen:
    """Run all directions of a layer over x (T, B, E) from states (D, B, ·) each, on the path that is best for it."""
    _require_fitting(x, weights, states)
    chosen = path(cell, weights[0], x, product=product, directions=len(weights)).name
    parts = [each for own in weights for each in tensors(own).values()]
    if any(each.dtype != x.dtype or each.device != x.device or each.is_neg() for each in (x, *states, *parts)):
        chosen = "reference"  # PyTorch's own operations handle or refuse mixed types and lazily negated tensors
    if chosen == "triton" and _exceeds_float16_split(x, weights, states):
        chosen = _without_kernels(cell, x)

    def reference(x: Tensor, states: Sequence[Tensor], *, way: Way = "reference") -> DirectionsLayer:
        return DirectionsLayer(cell, x, weights, states, lengths, way=way)

    if chosen == "reference":
        layer = reference(x, states)
        return Chosen(cell, chosen, layer, lambda _x, _states: layer, x, states)
    with torch.no_grad(), _on(x.device):
        if chosen == "triton":
            from whence.recurrent.triton.layer import TritonLayer  # only here: it needs Triton

            return Chosen(cell, chosen, TritonLayer(cell, x, weights, states, lengths), reference, x, states)
        if chosen == "compiled":
            return Chosen(cell, chosen, NativeLayer(cell, x, weights, states, lengths), reference, x, states)
        quick = reference(x, states, way=cast(Way, chosen))
        return Chosen(cell, chosen, quick, reference, x, states)


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current one, as Triton launches on the current GPU; nothing where it already is."""
    is_there = device.type != "cuda" or device.index == torch.cuda.current_device()
    return nullcontext() if is_there else torch.cuda.device(device)


def _require_fitting(x: Tensor, weights: Sequence[Weights], states: Sequence[Tensor]) -> None:
    """Refuse what PyTorch's own layer would refuse: the kernels do not check bounds."""
    own = weights[0]
    size = own.input.shape[1]
    if x.shape[-1] != size:
        raise RuntimeError(f"a recurrent layer for {size} features is given {x.shape[-1]}")
    needed = own.shapes()
    for each in weights:
        for name, part in tensors(each).items():
            if part.shape != needed[name]:
                raise RuntimeError(
                    f"a recurrent layer's {name} weights have shape {tuple(part.shape)} where {needed[name]} is needed"
                )
    if len(states) != len(own.state_sizes):
        raise RuntimeError(f"a recurrent layer with {len(own.state_sizes)} states is given {len(states)}")
    for state, columns in zip(states, own.state_sizes, strict=True):
        shape = (len(weights), x.shape[1], columns)
        if state.shape != shape:
            raise RuntimeError(f"a recurrent layer's state has shape {tuple(state.shape)} where {shape} is needed")
