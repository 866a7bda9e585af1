"""Keras models as PyTorch modules, read from .keras and .h5 files without TensorFlow or Keras."""

from contextlib import closing
from os import PathLike
from pathlib import Path

from whence.errors import ModelError
from whence.imports.keras.files import Hdf5, read_archive, read_content, read_json, require_version
from whence.imports.keras.graph import Model, Reader, require_own_objects
from whence.imports.keras.module import KerasModule, checked, listed
from whence.imports.keras.plan import Plan, planned
from whence.imports.keras.proof import compared_with_keras, compared_with_reference
from whence.imports.keras.weights import Weights, weights_by_order, weights_by_path

__all__ = ["KerasModule", "from_keras"]

# A file's model, its plan, a number of steps that fits it, and why Keras 3 cannot be asked about it, if so.
Imported = tuple[KerasModule, Plan, int, str | None]


def from_keras(path: str | PathLike[str], *, reference: object = None) -> KerasModule:
    """A model that Keras saved as .keras or .h5, as a PyTorch module that computes the same.

    The file is read without Keras, and nothing in it is run; everything that is not supported is named in one error.
    `reference`, (inputs, outputs), are arrays, or tuples of them, that the module is compared with; without it, it is
    compared with Keras itself on random inputs, if Keras is installed. `proof` of the result says which.

        module = whence.from_keras("sentiment.keras")
        whence.relevance(module, ids, target=1)
    """
    place = Path(path)
    try:
        content = read_content(place)
        module, plan, length, reason = read_model(content)
        if reference is not None:
            module.proof = compared_with_reference(module, reference)
        elif reason is not None:
            module.proof = f"not compared: {reason}"
        else:
            suffix = ".keras" if _is_archive(content) else ".h5"
            module.proof = compared_with_keras(module, plan, content, suffix, length)
    except ModelError as error:
        raise ModelError(f"{place}: {error}") from None
    except RecursionError:
        raise ModelError(f"{place}: it is nested too deeply") from None
    return module


def _is_archive(content: bytes) -> bool:
    return content[:4] == b"PK\x03\x04"


def read_model(content: bytes) -> Imported:
    """The model of a file."""
    if _is_archive(content):
        return _read_archive(content)
    if content[:8] == b"\x89HDF\r\n\x1a\n":
        return _read_hdf5(content)
    raise ModelError("it is neither a .keras nor an HDF5 file")


def _read_archive(content: bytes) -> Imported:
    parts = read_archive(content)
    config = read_json(parts["config.json"], "config.json")
    version = require_version(read_json(parts["metadata.json"], "metadata.json").get("keras_version"))
    model, reader = read_config(config, version)
    with closing(Hdf5(parts["model.weights.h5"])) as file:
        module, plan, length = assembled(model, weights_by_path(file, model, version), version)
    return module, plan, length, _against_keras(plan, reader)


def _read_hdf5(content: bytes) -> Imported:
    with closing(Hdf5(content)) as file:
        text = file.text(file.root, "model_config")
        if text is None:
            raise ModelError("it holds no model, perhaps only weights (there is no attribute model_config); use model.save(…)")
        config = read_json(text, "model_config")
        version = require_version(file.text(file.root, "keras_version"))
        model, reader = read_config(config, version)
        module, plan, length = assembled(model, weights_by_order(file, model, version), version)
    return module, plan, length, _against_keras(plan, reader)


def read_config(config: object, version: int) -> tuple[Model, Reader]:
    """The model that a configuration describes."""
    require_own_objects(config)
    reader = Reader(version)
    model = reader.model(config)
    if reader.problems:
        raise ModelError(listed(reader.problems))
    return model, reader


def assembled(model: Model, weights: Weights, version: int) -> tuple[KerasModule, Plan, int]:
    """The module with its weights, the plan, and a number of steps that fits."""
    plan, leaves = planned(model)
    for planned_layer, leaf in zip(plan.layers, leaves, strict=True):
        planned_layer.shapes = [list(each.shape) for each in weights.get(id(leaf), [])]
    module, length = checked(plan, version=version)
    module = module.to_empty(device="cpu")
    for layer, leaf in zip(module.layers.values(), leaves, strict=True):
        layer.fill(weights.get(id(leaf), []))  # pyright: ignore
    return module, plan, length


def _against_keras(plan: Plan, reader: Reader) -> str | None:
    """Why Keras 3 would give other numbers than the Keras that wrote the file."""
    if reader.is_reduced:
        return "the file's layers compute in less than single precision"
    if "hard_sigmoid_2" in str([layer.options for layer in plan.layers]):
        return "Keras 3 computes hard_sigmoid in another way than Keras 2, which wrote the file"
    return None
