"""What shows that an imported model is the right one: given outputs, or Keras' own on random inputs."""

import importlib.util
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from whence.errors import ModelError
from whence.imports.keras.files import h5py
from whence.imports.keras.module import KerasModule, input_shape
from whence.imports.keras.plan import Plan
from whence.quoting import shortened

TOLERANCE = 1e-4  # times the size of an output, if that is more than 1
LONGEST = 4000  # steps that Keras is asked to compute

Values = Tensor | Sequence[Any]


def compared_with_reference(module: KerasModule, reference: object) -> str:
    """The proof by outputs that the user has; refused if the module has others."""
    if not isinstance(reference, (tuple, list)) or len(cast(Sequence[Any], reference)) != 2:
        raise ModelError("reference must be (inputs, outputs)")
    inputs, outputs = (_tensors(each) for each in cast(Sequence[Any], reference))
    with torch.no_grad():
        found = _tensors(module(*inputs))
    worst = largest_difference(found, outputs, "the reference")
    return f"compared with the reference: largest difference {worst:.0e}"


def _tensors(values: Any) -> list[Tensor]:
    several = cast(Sequence[Any], values) if isinstance(values, (tuple, list)) else [values]
    return [torch.as_tensor(each) for each in several]


def largest_difference(found: Sequence[Tensor], expected: Sequence[Tensor], whose: str) -> float:
    """The largest difference of outputs; refused if it is more than rounding."""
    if [each.shape for each in found] != [each.shape for each in expected]:
        shapes = [[tuple(each.shape) for each in side] for side in (found, expected)]
        raise ModelError(f"the imported model gives outputs of the shapes {shapes[0]}, and {whose} {shapes[1]}")
    worst = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        gap = (ours.double().cpu() - theirs.double().cpu()).abs()
        allowed = TOLERANCE * theirs.double().cpu().abs().clamp(min=1)
        if bool((gap > allowed).any()) or not bool((ours.isnan().cpu() == theirs.isnan().cpu()).all()):
            raise ModelError(f"the imported model differs from {whose} by {gap.max().item():.1e}; {TOLERANCE} is allowed")
        worst = max(worst, gap.nan_to_num().max().item() if gap.numel() else 0.0)
    return worst


def compared_with_keras(module: KerasModule, plan: Plan, content: bytes, suffix: str, length: int) -> str:
    """The proof by Keras itself, on random inputs of several lengths. The file has been read and accepted before."""
    if importlib.util.find_spec("keras") is None:
        return "not compared: keras is not installed"
    if any(size > LONGEST for entry in plan.inputs for size in input_shape(entry, length)[1:2]):
        return f"not compared: the inputs have more than {LONGEST} steps; give reference=(inputs, outputs)"
    with warnings.catch_warnings(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            keras, model = _loaded(Path(folder) / f"model{suffix}", content)
        except Exception as error:
            return f"not compared: keras cannot load the file: {shortened(error)}"
        is_open = any(None in (entry.shape or ())[1:] for entry in plan.inputs)
        lengths = (length, length + 3, length + 1) if is_open else (length, length)
        worst = 0.0
        for n, steps in enumerate(lengths):
            inputs = random_inputs(plan, steps, seed=n)
            try:
                expected = _keras_outputs(keras, model, inputs)
            except Exception as error:
                return f"not compared: keras cannot run the model: {shortened(error)}"
            worst = max(worst, largest_difference(_tensors(module(*inputs)), expected, f"keras {keras.__version__}"))
    return f"compared with keras {keras.__version__} on {len(lengths)} inputs: largest difference {worst:.0e}"


def _loaded(path: Path, content: bytes) -> tuple[Any, Any]:
    """Keras, and the model of a copy of the file, so that Keras reads the bytes that were accepted."""
    if "keras" not in sys.modules:
        os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = import_module("keras")
    path.write_bytes(content)
    if path.suffix == ".h5":
        _write_readable_config(path)
    return keras, keras.saving.load_model(path, compile=False, safe_mode=True)


def _write_readable_config(path: Path) -> None:
    """Change what Keras 3 cannot read in a file of Keras 2, though it means the same."""
    with h5py().File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        left: list[Any] = [config]
        while left:
            found = left.pop()
            if isinstance(found, list):
                left.extend(cast(list[Any], found))
            elif isinstance(found, dict):
                entry = cast(dict[str, Any], found)
                left.extend(entry.values())
                if entry.get("time_major") is False:
                    del entry["time_major"]
                for key in ("layer", "backward_layer"):
                    if isinstance(entry.get(key), dict) and "class_name" in entry[key]:
                        entry[key] = {"module": "keras.layers", "registered_name": None, **entry[key]}
        file.attrs["model_config"] = json.dumps(config)


def _keras_outputs(keras: Any, model: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False) and hasattr(layer, "reset_state"):
            layer.reset_state()
    arrays = [each.numpy() for each in inputs]
    found = model(arrays[0] if len(arrays) == 1 else arrays, training=False)
    outputs: Any = list(cast(dict[str, Any], found).values()) if isinstance(found, dict) else found
    several = cast(Sequence[Any], outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    return [torch.as_tensor(keras.ops.convert_to_numpy(each)) for each in several]


def random_inputs(plan: Plan, steps: int, *, seed: int) -> list[Tensor]:
    """Random token ids and numbers; the last sample begins with padding and ends with it."""
    generator = torch.Generator().manual_seed(seed)
    masked = next((layer.options["mask_value"] for layer in plan.layers if layer.kind == "Masking"), None)
    inputs: list[Tensor] = []
    for entry in plan.inputs:
        shape = input_shape(entry, steps)
        if entry.words is not None:
            values = torch.randint(min(1, entry.words - 1), entry.words, shape, generator=generator, dtype=torch.int32)
            padding = 0
        else:
            values, padding = torch.randn(shape, generator=generator), masked
        if padding is not None and values.dim() > 1 and values.shape[1] > 2:
            values[-1, 0] = values[-1, -1] = padding
        inputs.append(values)
    return inputs
