"""Fuzz the reader of Keras files: whatever is in a file, the only error is a ModelError.

    python benchmarks/fuzz_keras.py [--parts=config,settings,text,archive] -runs=1000000 -len_control=0 -max_len=200 [-seed=N]

Each run changes one of some small models: values in its configuration or in its saved settings, or bytes of its archive, of
its configuration's text or of its HDF5 file (--parts=hdf5, which is slower). The HDF5 library may crash, but only in the other
process that reads a file first; here a server, which takes the script's place, forks one for every file.
"""

import io
import json
import pickle
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import torch

atheris: Any = import_module("atheris")

with atheris.instrument_imports(include=["whence.imports.keras"]):
    from tests.imports.keras_models import CASES, saved
    from whence.errors import ModelError
    from whence.imports.keras import KerasModule, files, probe_script, read_config, read_model
    from whence.imports.keras.files import NEEDED, read_archive, read_json, require_version
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


@dataclass
class Seeds:
    """Configurations and settings of small models, pickled to be copied quickly, and their files."""

    configs: list[bytes] = field(default_factory=list[bytes])
    settings: list[bytes] = field(default_factory=list[bytes])
    texts: list[bytes] = field(default_factory=list[bytes])
    archives: list[bytes] = field(default_factory=list[bytes])  # without weights
    files: list[Mapping[str, bytes]] = field(default_factory=list[Mapping[str, bytes]])  # parts of archives
    hdf5: list[bytes] = field(default_factory=list[bytes])


def seeds() -> Seeds:
    """The small models."""
    found = Seeds()
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            model = CASES[name]()
            for suffix in (".keras", ".h5"):
                content = saved(model, Path(folder), suffix).read_bytes()
                found.settings.append(pickle.dumps(read_model(content)[0].settings()))
                if suffix == ".h5":
                    found.hdf5.append(content)
                else:
                    parts = read_archive(content)
                    found.files.append(parts)
                    config = without_training(read_json(parts["config.json"], "config.json"))
                    found.configs.append(pickle.dumps(config))
                    found.texts.append(json.dumps(config).encode())
                    found.archives.append(zipped({**parts, "config.json": found.texts[-1], "model.weights.h5": b"weights"}))
    return found


def zipped(parts: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of a few small files."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name in NEEDED:
            archive.writestr(name, parts[name])
    return written.getvalue()


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


class Server:
    """Reads HDF5 files as `require_readable` does, without starting Python for each of them."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", SERVER, str(Path(probe_script.__file__).parent)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.answers = Counter[str]()

    def require_readable(self, content: bytes, folders: Sequence[str]) -> None:
        """Refuse a file whose process fails."""
        into, out = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        into.write(len(content).to_bytes(8, "little") + content)
        into.flush()
        answer = {b"0": "sound", b"1": "refused", b"2": "crashed"}[out.read(1)]
        self.answers[answer] += 1
        if answer != "sound":
            raise ModelError("it is damaged: HDF5 cannot read it")


SERVER = """
import os, sys
import h5py
sys.path.append(sys.argv[1])
import probe_script
while head := sys.stdin.buffer.read(8):
    content = sys.stdin.buffer.read(int.from_bytes(head, "little"))
    child = os.fork()
    if child == 0:
        try:
            probe_script.limit(len(content))
            probe_script.read(h5py, content)
        except Exception:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    os.write(1, b"2" if os.WIFSIGNALED(status) else b"1" if status else b"0")
"""


class Parts:
    """What is fuzzed."""

    def __init__(self) -> None:
        self.seeds, self.server = seeds(), Server()
        files.require_readable = self.server.require_readable

    def config(self, data: Any) -> None:
        """A configuration with other values."""
        planned(read_config(changed(picked(self.seeds.configs, data), data), data.ConsumeIntInRange(2, 3))[0])

    def settings(self, data: Any) -> None:
        """Saved settings with other values."""
        KerasModule.built(changed(picked(self.seeds.settings, data), data))

    def text(self, data: Any) -> None:
        """The text of a configuration with other bytes."""
        planned(read_config(read_json(damaged(picked(self.seeds.texts, data), data), "config.json"), 3)[0])

    def archive(self, data: Any) -> None:
        """An archive, without its weights, with other bytes."""
        parts = read_archive(damaged(picked(self.seeds.archives, data), data))
        require_version(read_json(parts["metadata.json"], "metadata.json").get("keras_version"))
        planned(read_config(read_json(parts["config.json"], "config.json"), 3)[0])

    def hdf5(self, data: Any) -> None:
        """An HDF5 file with other bytes, alone or in an archive."""
        if data.ConsumeBool():
            read_model(damaged(picked(self.seeds.hdf5, data), data))
        else:
            parts = picked(self.seeds.files, data)
            read_model(zipped({**parts, "model.weights.h5": damaged(parts["model.weights.h5"], data)}, zipfile.ZIP_STORED))


SHARES = {"config": 50, "settings": 2, "text": 5, "archive": 5, "hdf5": 1}  # of the runs


def main() -> None:
    """Make the seeds, then fuzz."""
    torch.set_num_threads(1)
    chosen = next((each.removeprefix("--parts=").split(",") for each in sys.argv if each.startswith("--parts=")), list(SHARES))
    parts, runs = Parts(), Counter[str]()
    names = [name for name in chosen for _ in range(SHARES[name])]

    def one(raw: bytes) -> None:
        data = atheris.FuzzedDataProvider(raw)
        name = picked(names, data)
        runs[name] += 1
        if runs.total() % 1000 == 0:
            print("runs:", dict(runs), dict(parts.server.answers), file=sys.stderr, flush=True)
        try:
            getattr(parts, name)(data)
        except ModelError as error:
            if "\n" in str(error):
                raise AssertionError(f"a message has more than one line: {str(error)!r}") from error

    atheris.Setup([each for each in sys.argv if not each.startswith("--parts=")], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
