"""Which array of a file is which weight of which layer: in .keras files by path, in .h5 files by order."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from whence.errors import ModelError
from whence.imports.keras.files import Hdf5
from whence.imports.keras.graph import Input, Leaf, Model
from whence.imports.keras.layer import Variable
from whence.imports.keras.module import KINDS
from whence.imports.keras.options import Options
from whence.quoting import quoted

Weights = Mapping[int, list[Tensor]]  # by the id of a leaf
CONTAINER = "layers"  # the group of a model's layers
CONTAINERS = (CONTAINER, "_layer_checkpoint_dependencies")  # Keras 3 and 2.15; Keras 2.12 to 2.14


def variables(leaf: Leaf, version: int) -> list[Variable]:
    """A layer's weights in Keras' order."""
    try:
        return KINDS[leaf.kind].variables(Options(leaf.options, version=version))
    except ModelError as error:
        raise ModelError(f"{quoted(leaf.name)} ({leaf.class_name}): {error}") from None


def weights_by_path(file: Hdf5, model: Model, version: int) -> Weights:
    """The weights of a .keras file, whose groups are named after the classes of the layers."""
    return {id(leaf): list(_read_leaf(file, leaf, path, version)) for leaf, path in _places(model, "", version)}


def _places(model: Model, above: str, version: int) -> Iterator[tuple[Leaf, str]]:
    """Every layer with weights, and the path of its group without the container's name, which depends on the version."""
    counts: Counter[str] = Counter()
    for child in model.children.values():
        if isinstance(child, Leaf) and child.kind.endswith(" operation"):
            continue
        name = snake_case("InputLayer" if isinstance(child, Input) else child.class_name)
        place = f"{above}{CONTAINER}/{name}_{counts[name]}" if counts[name] else f"{above}{CONTAINER}/{name}"
        counts[name] += 1
        if isinstance(child, Model):
            yield from _places(child, f"{place}/", version)
        elif isinstance(child, Leaf) and variables(child, version):
            yield child, place


def _read_leaf(file: Hdf5, leaf: Leaf, path: str, version: int) -> Iterator[Tensor]:
    counts: Counter[str] = Counter()
    for variable in variables(leaf, version):
        place = f"{path}/{variable.part}".rstrip("/")
        number, counts[place] = counts[place], counts[place] + 1
        spellings = [place.replace(CONTAINER, name) for name in CONTAINERS]
        spellings += [each.replace("/", "\\") for each in spellings]  # as Keras 2.15 wrote on Windows
        found = next((each for each in spellings if file.group(file.root, each) is not None), None)
        if found is None:
            raise ModelError(f"the weights of {quoted(leaf.name)} are missing (group {quoted(spellings[0])})")
        yield file.array(file.root, f"{found}/vars/{number}")


def snake_case(name: str) -> str:
    """Keras' own spelling of a class name."""
    plain = re.sub(r"\W+", "", name)
    plain = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", plain)
    return re.sub("([a-z])([A-Z])", r"\1_\2", plain).lower()


def weights_by_order(file: Hdf5, model: Model, version: int) -> Weights:
    """The weights of an .h5 file: a group for every layer of the model, with a list of its weights."""
    group = file.group(file.root, "model_weights")
    if group is None:
        raise ModelError("it holds no weights (group 'model_weights')")
    children = {
        child.name: child
        for child in model.children.values()
        if not isinstance(child, Input) and any(variables(leaf, version) for leaf in _leaves(child))
    }
    filled: dict[str, list[str]] = {}
    for name in file.names(group, "layer_names"):
        own = file.group(group, name)
        if own is None:
            raise ModelError(f"the group {quoted(name)} of a layer's weights is missing")
        weights = file.names(own, "weight_names")
        if weights:
            filled[name] = weights
    if set(children) <= set(filled):
        pairs = list(children.items())
    elif len(children) == len(filled):
        pairs = list(zip(filled, children.values(), strict=True))
    else:
        raise ModelError(f"it has weights for {len(filled)} layers; the model has {len(children)} with weights")
    found: dict[int, list[Tensor]] = {}
    for name, child in pairs:
        _assign(file, file.group(group, name), filled[name], child, version, found)
    return found


def _leaves(child: Leaf | Model) -> list[Leaf]:
    return list(child.leaves()) if isinstance(child, Model) else [child]


def _assign(
    file: Hdf5, group: Any, names: Sequence[str], child: Leaf | Model, version: int, found: dict[int, list[Tensor]]
) -> None:
    """Share out the weights of a layer, or of all layers of a model: first those that are trained, then the others."""
    slots = [
        (leaf, n, variable.trainable and is_trained)
        for leaf, is_trained in _with_training(child, True)
        for n, variable in enumerate(variables(leaf, version))
    ]
    ordered = [slot for slot in slots if slot[2]] + [slot for slot in slots if not slot[2]]
    if len(names) != len(ordered):
        raise ModelError(f"{quoted(child.name)} has {len(ordered)} weights, and the file {len(names)}")
    arrays: dict[tuple[int, int], Tensor] = {}
    for (leaf, n, _), name in zip(ordered, names, strict=True):
        arrays[id(leaf), n] = file.array(group, name)
    for leaf, n, _ in slots:
        found.setdefault(id(leaf), []).append(arrays[id(leaf), n])


def _with_training(child: Leaf | Model, is_trained: bool) -> Iterator[tuple[Leaf, bool]]:
    """All layers, each with whether it is trained; a model that is not holds none that are."""
    if isinstance(child, Leaf):
        yield child, is_trained and child.trainable
        return
    for each in child.children.values():
        if not isinstance(each, Input):
            yield from _with_training(each, is_trained and child.trainable)
