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
from whence.imports.comparing import NOTHING, against_reference, difference_of, proof_of
from whence.imports.keras.files import h5py
from whence.imports.keras.module import KerasModule, input_shape
from whence.imports.keras.plan import Plan
from whence.quoting import shortened

LONGEST = 4000  # steps that Keras is asked to compute


def compared_with_reference(module: KerasModule, reference: object) -> str:
    """The proof by outputs that the user has; refused if the module has others."""
    return against_reference(module.outputs, lambda inputs: _results(module, inputs), reference)


def _results(module: KerasModule, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The module's outputs; whatever goes wrong becomes one sentence."""
    try:
        with torch.no_grad():
            found = module(*inputs)
    except Exception as error:
        shapes = ", ".join(str(tuple(each.shape)) for each in inputs)
        raise ModelError(f"the model cannot be run with inputs of shapes {shapes}: {shortened(error)}") from None
    return [found] if isinstance(found, Tensor) else list(found)


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
        whose, difference = f"keras {keras.__version__}", NOTHING
        for n, steps in enumerate(lengths):
            inputs = random_inputs(plan, steps, seed=n)
            try:
                expected = _keras_outputs(keras, model, module, inputs)
            except Exception as error:
                return f"not compared: keras cannot run the model: {shortened(error)}"
            difference |= difference_of(module.outputs, _results(module, inputs), expected, whose)
    return proof_of(difference, module.outputs, whose, len(lengths))


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


def _keras_outputs(keras: Any, model: Any, module: KerasModule, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Keras' outputs in the module's order; where Keras has inputs or outputs by name, so are they given and found."""
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False) and hasattr(layer, "reset_state"):
            layer.reset_state()
    arrays = [each.numpy() for each in inputs]
    given = dict(zip(module.inputs, arrays, strict=True)) if isinstance(getattr(model, "input", None), dict) else arrays
    found = model(arrays[0] if given is arrays and len(arrays) == 1 else given, training=False)
    outputs: Any = [cast(dict[str, Any], found)[name] for name in module.outputs] if isinstance(found, dict) else found
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
        elif entry.is_whole:
            values, padding = torch.randint(1, 6, shape, generator=generator).float(), masked
        else:
            values, padding = torch.randn(shape, generator=generator), masked
        if padding is not None and values.dim() > 1 and values.shape[1] > 2:
            values[-1, 0] = values[-1, -1] = padding
        inputs.append(values)
    return inputs
