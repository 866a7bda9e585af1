"""Fuzz the reader of Keras files: whatever is in a file, the only error is a ModelError.

    python benchmarks/fuzz_keras.py -runs=1000000 -len_control=0 -max_len=200 [-seed=N]

Each run changes one of some small models: values in its configuration or in its saved settings, or bytes of its file.
"""

import pickle
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

atheris: Any = import_module("atheris")

with atheris.instrument_imports(include=["whence.imports.keras"]):
    from tests.imports.keras_models import CASES, saved
    from whence.errors import ModelError
    from whence.imports.keras import KerasModule, read_config, read_model
    from whence.imports.keras.files import read_archive, read_json
    from whence.imports.keras.plan import planned

Kind = TypeVar("Kind")
MODELS = "cells Bidirectional-two-kinds encoder-decoder frozen masked-concatenate two-layers Conv1D-even Dot-weights".split()
STRANGE: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    7,
    10**6,
    10**30,
    0.5,
    -1e308,
    "",
    "x",
    "relu",
    "Sequential",
    [],
    {},
    [[]],
    [None],
]


def seeds() -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Configurations and settings, pickled to be copied quickly, and files of small models."""
    configs, settings, files = list[bytes](), list[bytes](), list[bytes]()
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            model = CASES[name]()
            for suffix in (".keras", ".h5"):
                content = saved(model, Path(folder), suffix).read_bytes()
                files.append(content)
                settings.append(pickle.dumps(read_model(content)[0].settings()))
                if suffix == ".keras":
                    config = read_json(read_archive(content)["config.json"], "config.json")
                    configs.append(pickle.dumps(without_training(config)))
    return configs, settings, files


def without_training(tree: Any) -> Any:
    """A configuration without what only matters in training, which is most of it."""
    if isinstance(tree, dict):
        entries = cast(dict[str, Any], tree).items()
        ends = ("_initializer", "_regularizer", "_constraint", "build_config", "dtype")
        return {key: without_training(value) for key, value in entries if not key.endswith(ends)}
    return [without_training(each) for each in cast(list[Any], tree)] if isinstance(tree, list) else tree


def picked(several: list[Kind], data: Any) -> Kind:
    """One of several."""
    place: int = data.ConsumeIntInRange(0, len(several) - 1)
    return several[place]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container in a tree with each of its keys."""
    found, left = list[tuple[Any, Any]](), [tree]
    while left:
        node: Any = left.pop()
        keys: list[Any] = list(cast(dict[str, Any], node)) if isinstance(node, dict) else list(range(len(node)))
        for key in keys:
            found.append(cast(tuple[Any, Any], (node, key)))
            value: Any = cast(Any, node)[key]
            if isinstance(value, (dict, list)):
                left.append(value)
    return found


def holds(node: Any, key: Any) -> bool:
    """Whether a key is still there."""
    return key in node if isinstance(node, dict) else key < len(node)


def changed(pickled: bytes, data: Any) -> Any:
    """A copy of a tree with some values changed, removed, repeated or exchanged."""
    copy = pickle.loads(pickled)
    spots = places(copy)
    count: int = data.ConsumeIntInRange(1, 4)
    for _ in range(count):
        node, key = picked(spots, data)
        what = data.ConsumeIntInRange(0, 6)
        if not holds(node, key):
            continue  # an earlier change has removed it
        if what == 0:
            del node[key]
        elif what == 1:
            other, place = picked(spots, data)
            node[key] = pickle.loads(pickle.dumps(other[place])) if holds(other, place) else None
        elif what == 2 and isinstance(node, list):
            cast(list[Any], node).insert(key, cast(Any, node)[key])
        elif what == 3 and isinstance(node, dict):
            node[data.ConsumeUnicodeNoSurrogates(12)] = node[key]
        elif what == 4:
            node[key] = data.ConsumeUnicodeNoSurrogates(20)
        elif what == 5 and isinstance(node[key], int):
            node[key] = data.ConsumeIntInRange(-8, 64)
        else:
            node[key] = picked(STRANGE, data)
    return copy


def damaged(content: bytes, data: Any) -> bytes:
    """A file with some bytes changed, or cut off."""
    copy = bytearray(content)
    for _ in range(data.ConsumeIntInRange(1, 6)):
        place = data.ConsumeIntInRange(0, len(copy) - 1)
        what = data.ConsumeIntInRange(0, 9)
        if what == 0:
            del copy[max(place, 8) :]
        elif what < 5:
            copy[place] ^= 1 << data.ConsumeIntInRange(0, 7)
        else:
            new = data.ConsumeBytes(data.ConsumeIntInRange(1, 8))
            copy[place : place + len(new)] = new
    return bytes(copy)


def main() -> None:
    """Make the seeds, then fuzz."""
    torch.set_num_threads(1)
    configs, settings, files = seeds()

    def of_config(data: Any) -> None:
        config = changed(picked(configs, data), data)
        planned(read_config(config, data.ConsumeIntInRange(2, 3))[0])

    def of_settings(data: Any) -> None:
        KerasModule.built(changed(picked(settings, data), data))

    def of_file(data: Any) -> None:
        read_model(damaged(picked(files, data), data))

    targets: list[Callable[[Any], None]] = [*[of_config] * 60, of_settings, *[of_file] * 2]

    def one(raw: bytes) -> None:
        data = atheris.FuzzedDataProvider(raw)
        try:
            picked(targets, data)(data)
        except ModelError as error:
            if "\n" in str(error):
                raise AssertionError("a message has more than one line") from error

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
