"""Damaged and hostile Keras files are refused in one line, quickly, and without using much memory."""

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.imports.keras_models import E, L, U, functional, saved, series
from whence.errors import ModelError
from whence.imports.keras import KerasModule, from_keras, probe, probe_script, read_model
from whence.imports.keras.probe import require_readable

h5py: Any = import_module("h5py")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::keras")]
NEEDED = ("config.json", "metadata.json", "model.weights.h5")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound .keras file. Reading it once also loads what PyTorch loads late."""
    content = saved(series(L.LSTM(U), L.Dense(2)), tmp_path_factory.mktemp("keras"), ".keras").read_bytes()
    read_model(content)
    return content


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound .h5 file."""
    return saved(series(L.LSTM(U), L.Dense(2)), tmp_path_factory.mktemp("keras"), ".h5").read_bytes()


def parts(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in NEEDED}


def zipped(contents: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as file:
        for name, content in contents.items():
            file.writestr(name, content)
    return written.getvalue()


def with_config(archive: bytes, change: Callable[[Any], Any]) -> bytes:
    contents = parts(archive)
    config = json.loads(contents["config.json"])
    changed = change(config)
    text = changed if isinstance(changed, bytes) else json.dumps(config if changed is None else changed).encode()
    return zipped({**contents, "config.json": text})


def with_weights(archive: bytes, change: Callable[[Any], Any]) -> bytes:
    contents = parts(archive)
    image = io.BytesIO(contents["model.weights.h5"])
    with h5py.File(image, "r+") as file:
        change(file)
    return zipped({**contents, "model.weights.h5": image.getvalue()})


def usage() -> tuple[float, int]:
    """Seconds of computing and the largest memory in KB so far, of this process and of those it has started."""
    import resource

    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both), max(each.ru_maxrss for each in both)


def refused(content: bytes, tmp_path: Path, match: str, suffix: str = ".keras") -> None:
    """The file is refused in one line, with under two seconds of computing and 500 MB."""
    path = tmp_path / f"hostile{suffix}"
    path.write_bytes(content)
    seconds, memory = usage()
    with pytest.raises(ModelError, match=match) as error:
        from_keras(path)
    assert usage()[0] - seconds < 2
    assert usage()[1] - memory < 500 * 1024
    assert "\n" not in str(error.value) and len(str(error.value)) < 4000 + len(str(path))


def layer(config: Any, n: int) -> Any:
    return config["config"]["layers"][n]


def put(n: int, key: str, value: Any) -> Callable[[Any], None]:
    """Set an option of layer n: 0 the input, 1 the LSTM, 2 the dense layer."""
    return lambda config: layer(config, n)["config"].__setitem__(key, value)


def wrap(config: Any, depth: int) -> Any:
    for _ in range(depth):
        config = {**config, "config": {**config["config"], "layers": [config], "name": "again"}}
    return config


def lambda_layer(config: Any) -> None:
    layer(config, 1).update(
        class_name="Lambda", config={"name": "code", "function": {"class_name": "__lambda__", "config": {}}}
    )


CONFIGS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no object": (lambda config: b"[]", "config.json is no object"),
    "no JSON": (lambda config: b"{", "config.json is no JSON"),
    "not UTF-8": (lambda config: b"\xff\xfe\xff", "config.json is no JSON"),
    "twice": (lambda config: b'{"a": 1, "a": 2}', "its key 'a' stands there twice"),
    "NaN": (lambda config: b'{"a": NaN}', "NaN, which is no finite number"),
    "deep": (lambda config: b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "large": (lambda config: b'{"a": "' + b"x" * 5_000_000 + b'"}', "at most 4194304 are read"),
    "digits": (lambda config: b'{"a": ' + b"9" * 10_000 + b"}", "is no JSON"),
    "many layers": (
        lambda config: config["config"].update(
            layers=[{"class_name": "ReLU", "config": {"name": str(n)}} for n in range(50_000)]
        ),
        "more than 2000 layers",
    ),
    "models in models": (lambda config: wrap(config, 30), "models inside models, more than 16 deep"),
    "another class": (lambda config: config.update(class_name="Subclassed"), "its class is 'Subclassed'; known are"),
    "another module": (lambda config: layer(config, 1).update(module="os"), "it holds 'LSTM' of 'os'; only objects of Keras"),
    "similar module": (lambda config: layer(config, 1).update(module="keras_evil.layers"), "only objects of Keras itself"),
    "registered": (lambda config: layer(config, 1).update(registered_name="mine>LSTM"), "'mine>LSTM', a class registered by"),
    "initializer": (
        put(1, "kernel_initializer", {"module": "subprocess", "class_name": "Popen", "config": {}}),
        "it holds 'Popen' of 'subprocess'",
    ),
    "Lambda": (lambda_layer, "a Lambda layer, which is Python code: it is not run"),
    "no layers": (lambda config: config["config"].update(layers=[]), "has no layers"),
    "layers missing": (
        lambda config: config["config"].pop("layers") and None,
        "the layers of 'seq.*' is None; it must be a list",
    ),
    "layer no object": (lambda config: config["config"]["layers"].append(3), "a layer is 3; it must be an object"),
    "names": (put(1, "name", 3), "a layer is called 3; names are short texts"),
    "same name": (
        lambda config: [layer(config, n)["config"].update(name="a") for n in (1, 2)] and None,
        "two layers are called 'a'",
    ),
    "units": (put(1, "units", -1), "units is -1; it must be a whole number from 1 to 65536"),
    "large units": (put(1, "units", 10**30), "units is 1000"),
    "units of another kind": (put(1, "units", True), "units is True; it must be a whole number"),
    "other units": (put(1, "units", U + 1), r"its weight kernel is \(3, 16\); it must be \(any, 20\)"),
    "activation": (put(2, "activation", "os.system"), "activation is 'os.system'; known are linear, relu"),
    "activation no text": (put(2, "activation", ["relu"]), r"activation is \['relu'\]; known are"),
    "flag": (put(1, "use_bias", 1), "use_bias is 1; it must be true or false"),
    "unknown option": (put(1, "peepholes", True), "its option 'peepholes' = True is not supported"),
    "precision": (put(1, "dtype", "int8"), "computes in 'int8'"),
    "input shape": (put(0, "batch_shape", [None, -3]), r"the shape of an input is \[None, -3\]"),
    "large input": (put(0, "batch_shape", [2**20, 2**20, 3]), r"its inputs are of the shapes .*, which is too large"),
    "other features": (put(0, "batch_shape", [None, None, 7]), "its input has 7 features; it needs 3"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_hostile_configuration_is_refused(name: str, archive: bytes, tmp_path: Path) -> None:
    change, match = CONFIGS[name]
    refused(with_config(archive, change), tmp_path, match)


def graph(config: Any, *, name: str, inputs: list[Any]) -> None:
    for found in config["config"]["layers"]:
        if found["name"] == name:
            found["inbound_nodes"][0]["args"][0]["config"]["keras_history"] = inputs


GRAPHS: dict[str, tuple[list[Any], str]] = {
    "cycle": (["dense_b", 0, 0], "needs its own output: the graph has a cycle"),
    "itself": (["dense_a", 0, 0], "needs its own output: the graph has a cycle"),
    "unknown": (["nobody", 0, 0], "the layer 'nobody' is named as an input and is not there"),
    "no such call": (["source", 9, 0], "call 9 of the layer 'source' is named as an input and is not there"),
    "no such output": (["source", 0, 5], "output 5 of the layer 'source' is not there"),
    "negative": (["source", -1, 0], r"a reference is \['source', -1, 0\]"),
    "not whole": (["source", 0.0, 0], r"a reference is \['source', 0.0, 0\]"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_hostile_graph_is_refused(name: str, tmp_path: Path) -> None:
    import keras

    source = keras.Input((None, E), name="source")
    model = keras.Model(source, L.Dense(E, name="dense_b")(L.Dense(E, name="dense_a")(source)))
    content = saved(model, tmp_path, ".keras").read_bytes()
    inputs, match = GRAPHS[name]
    refused(with_config(content, lambda config: graph(config, name="dense_a", inputs=inputs)), tmp_path, match)


def test_a_doubling_graph_is_refused(tmp_path: Path) -> None:
    def doubled(depth: int) -> Any:
        inner = doubled(depth - 1) if depth else L.Dense(E)
        return functional(lambda x: inner(inner(x)))

    refused(saved(doubled(14), tmp_path, ".keras").read_bytes(), tmp_path, "it calls its layers more than 10000 times")


KERNEL = "layers/lstm/cell/vars/0"


def replace(make: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """Put something else in the place of the LSTM's kernel."""

    def change(file: Any) -> None:
        shape = file[KERNEL].shape
        del file[KERNEL]
        make(file, shape)

    return change


def sparse(file: Any, shape: tuple[int, ...]) -> None:
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    space = h5py.h5s.create_simple((2**20, 2**20))
    h5py.h5d.create(file["layers/lstm/cell/vars"].id, b"0", h5py.h5t.NATIVE_FLOAT, space, plan)


def virtual(file: Any, shape: tuple[int, ...]) -> None:
    layout = h5py.VirtualLayout(shape=shape, dtype="f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=shape)
    file.create_virtual_dataset(KERNEL, layout)


WEIGHTS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "missing": (lambda file, shape: None, "the weight 'layers/lstm/cell/vars/0' is missing"),
    "a group": (lambda file, shape: file.create_group(KERNEL), "the weight .* is missing"),
    "shape": (
        lambda file, shape: file.create_dataset(KERNEL, data=np.zeros((3, 15), "f4")),
        r"kernel is \(3, 15\); it must be",
    ),
    "rank": (
        lambda file, shape: file.create_dataset(KERNEL, data=np.zeros(5, "f4")),
        r"kernel is \(5,\); it must be \(any, 16\)",
    ),
    "empty": (lambda file, shape: file.create_dataset(KERNEL, data=np.zeros((0, 16), "f4")), r"kernel is \(0, 16\)"),
    "null": (lambda file, shape: file.create_dataset(KERNEL, data=h5py.Empty("f4")), "is declared as None"),
    "NaN": (lambda file, shape: file.create_dataset(KERNEL, data=np.full(shape, np.nan, "f4")), "not finite: was its training"),
    "texts": (lambda file, shape: file.create_dataset(KERNEL, data=np.array([b"x"])), "it must be of numbers"),
    "complex": (lambda file, shape: file.create_dataset(KERNEL, data=np.zeros(shape, "c8")), "it must be of numbers"),
    "compressed": (
        lambda file, shape: file.create_dataset(KERNEL, shape=(2**14, 2**14), dtype="f4", compression="gzip", fillvalue=1),
        "is compressed or stored elsewhere",
    ),
    "chunked": (lambda file, shape: file.create_dataset(KERNEL, shape=shape, dtype="f4", chunks=True), "compressed or stored"),
    "sparse": (sparse, r"is declared as \(1048576, 1048576\) and not stored whole"),
    "virtual": (virtual, "is compressed or stored elsewhere"),
    "external": (
        lambda file, shape: file.create_dataset(KERNEL, shape=shape, dtype="f4", external=[("/etc/passwd", 0, 192)]),
        "is compressed or stored elsewhere",
    ),
    "soft link": (
        lambda file, shape: file.__setitem__(KERNEL, h5py.SoftLink("/layers/lstm/cell/vars/1")),
        "is a link to another",
    ),
    "external link": (
        lambda file, shape: file.__setitem__(KERNEL, h5py.ExternalLink("/etc/passwd", "x")),
        "is a link to another",
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_hostile_weights_are_refused(name: str, archive: bytes, tmp_path: Path) -> None:
    make, match = WEIGHTS[name]
    refused(with_weights(archive, replace(make)), tmp_path, match)


def renamed(archive: bytes, name: str) -> bytes:
    return zipped({**parts(archive), name: b"x"})


def bomb(archive: bytes) -> bytes:
    return zipped({**parts(archive), "model.weights.h5": bytes(300_000_000)}, method=zipfile.ZIP_DEFLATED)


ARCHIVES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "bomb": (bomb, "model.weights.h5 would grow from .* to 300000000 bytes"),
    "traversal": (lambda archive: renamed(archive, "../../evil"), "whose name leads out of the archive"),
    "absolute": (lambda archive: renamed(archive, "/etc/evil"), "whose name leads out of the archive"),
    "drive": (lambda archive: renamed(archive, "C:evil"), "whose name leads out of the archive"),
    "many": (lambda archive: zipped({**parts(archive), **{f"a{n}": b"" for n in range(1000)}}), "it holds 1003 files"),
    "part missing": (
        lambda archive: zipped({name: each for name, each in parts(archive).items() if name != "metadata.json"}),
        "metadata.json is missing; a .keras file holds",
    ),
    "version": (
        lambda archive: zipped({**parts(archive), "metadata.json": b'{"keras_version": "1.2"}'}),
        "its Keras version is '1.2'",
    ),
    "no version": (lambda archive: zipped({**parts(archive), "metadata.json": b"{}"}), "its Keras version is None"),
    "method": (
        lambda archive: zipped(parts(archive), method=zipfile.ZIP_LZMA),
        "is compressed by method 14; known are 0 and 8",
    ),
    "truncated": (lambda archive: archive[:-100], "it is damaged"),
    "weights no HDF5": (
        lambda archive: zipped({**parts(archive), "model.weights.h5": b"x" * 100}),
        "its places are not numbers",
    ),
    "something else": (lambda archive: b"hello" * 100, "it is neither a .keras nor an HDF5 file"),
    "nothing": (lambda archive: b"", "it is neither a .keras nor an HDF5 file"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_refused(name: str, archive: bytes, tmp_path: Path) -> None:
    change, match = ARCHIVES[name]
    refused(change(archive), tmp_path, match)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_parts_of_one_name_are_refused(archive: bytes, tmp_path: Path) -> None:
    written = io.BytesIO(archive)
    with zipfile.ZipFile(written, "a") as file:
        file.writestr("config.json", b"{}")
    refused(written.getvalue(), tmp_path, "two files of one name")


def changed(hdf5: bytes, change: Callable[[Any], Any]) -> bytes:
    image = io.BytesIO(hdf5)
    with h5py.File(image, "r+") as file:
        change(file)
    return image.getvalue()


def attribute(group: str, name: str, value: Any) -> Callable[[Any], None]:
    return lambda file: file[group].attrs.__setitem__(name, value)


HDF5: dict[str, tuple[Callable[[Any], Any], str]] = {
    "weights only": (lambda file: file.attrs.__delitem__("model_config"), "it holds no model, perhaps only weights"),
    "config no text": (attribute("/", "model_config", 3), "its attribute model_config is no text"),
    "config large": (attribute("/", "model_config", "x" * 5_000_000), "at most 4194304 are read"),
    "no weights": (lambda file: file.__delitem__("model_weights"), "it holds no weights"),
    "names no texts": (attribute("model_weights", "layer_names", [1, 2]), "something else than names"),
    "unknown group": (
        attribute("model_weights", "layer_names", ["lstm", "nobody"]),
        r"the group '\w+' of a layer's weights is missing",
    ),
    "no names": (attribute("model_weights", "layer_names", ["top_level_model_weights"]), "it has weights for 0 layers"),
    "many names": (attribute("model_weights", "layer_names", np.array([b"x"] * 4000)), "the group 'x' of a layer's"),
    "names upwards": (attribute("model_weights", "layer_names", ["../.."]), "is no path in a file of weights"),
    "version": (attribute("/", "keras_version", "1.2.2"), "its Keras version is '1.2.2'; files of Keras 2 and 3 are read"),
}


@pytest.mark.parametrize("name", HDF5)
def test_a_hostile_hdf5_file_is_refused(name: str, hdf5: bytes, tmp_path: Path) -> None:
    change, match = HDF5[name]
    refused(changed(hdf5, change), tmp_path, match, ".h5")


@pytest.mark.parametrize("left", [9, 100, 1000, 5000])
def test_a_truncated_file_is_refused(left: int, hdf5: bytes, tmp_path: Path) -> None:
    refused(hdf5[:left], tmp_path, "it is damaged|a collection of texts in it has a wrong size|its places are not", ".h5")


@pytest.mark.parametrize("length", [2**64 - 16, 2**63, 10**6, 2**64 - 1])
def test_texts_of_wrong_sizes_are_refused(length: int, hdf5: bytes, tmp_path: Path) -> None:
    start = hdf5.index(b"GCOL\x01") + 16  # the HDF5 library does not come to an end with the first of these
    content = hdf5[: start + 8] + length.to_bytes(8, "little") + hdf5[start + 16 :]
    refused(content, tmp_path, "a text in it has a wrong size", ".h5")


def test_other_sizes_of_places_are_refused(hdf5: bytes, tmp_path: Path) -> None:
    refused(hdf5[:14] + b"\x04" + hdf5[15:], tmp_path, "its places are not numbers of 8 bytes", ".h5")


def overwritten(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def value_of(content: bytes, name: bytes) -> int:
    """The place of an attribute's value, a text: behind its name, its type, of 24 bytes, and its shape, of 8."""
    place = content.index(name + b"\0") + (len(name) // 8 + 1) * 8
    assert content[place : place + 2] == b"\x19\x01"  # the type: a text of any length
    return place + 32


def test_a_type_that_crashes_the_hdf5_library_is_refused(hdf5: bytes, tmp_path: Path) -> None:
    place = hdf5.index(b"keras_version\0") + 17
    content = overwritten(hdf5, place, b"\x1b")  # neither a list nor a text: the library itself reads where nothing is
    refused(content, tmp_path, "it is damaged: HDF5 cannot read it", ".h5")


@pytest.mark.parametrize(("name", "length"), [(b"model_config", 2**28), (b"model_config", 28 * 10**8), (b"backend", 2**32 - 1)])
def test_a_text_of_a_wrong_length_is_refused(name: bytes, length: int, hdf5: bytes, tmp_path: Path) -> None:
    content = overwritten(hdf5, value_of(hdf5, name), length.to_bytes(4, "little"))
    refused(content, tmp_path, "it is damaged: HDF5 cannot read it", ".h5")


def test_a_file_that_the_hdf5_library_never_ends_reading_is_refused(hdf5: bytes) -> None:
    place = hdf5.index(b"GCOL\x01") + 24  # refused earlier in an import; here it shows that the time is limited
    seconds = usage()[0]
    with pytest.raises(ModelError, match=r"HDF5 cannot read it \(the process ended with -24\)"):
        require_readable(overwritten(hdf5, place, (2**64 - 16).to_bytes(8, "little")), [])
    assert usage()[0] - seconds < 4


def test_a_process_that_takes_too_long_is_stopped(hdf5: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PATIENCE", 0)
    with pytest.raises(ModelError, match=r"HDF5 cannot read it \(stopped after 0 s\)"):
        read_model(hdf5)


PYTHONS = {
    "": "there is no Python program to start",
    "/nowhere/python": "it cannot be started: .*No such file",
    "/bin/true": "it did not start: it ended with 0",
}


@pytest.mark.parametrize("program", PYTHONS)
def test_nothing_is_read_without_the_other_process(program: str, hdf5: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(ModelError, match=f"HDF5 files are first read by another process, and {PYTHONS[program]}"):
        read_model(hdf5)


def test_the_other_process_imports_little(hdf5: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(hdf5)
    command = [sys.executable, "-I", "-X", "importtime", str(probe_script.__file__)]
    with path.open("rb") as file:
        result = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True)
    imported = {line.split("|")[-1].strip().split(".")[0] for line in result.stderr.splitlines()}
    assert result.stdout.split() == [probe_script.STARTED, probe_script.SOUND]
    assert {"h5py", "numpy"} <= imported and not {"torch", "keras", "whence"} & imported


def test_many_groups_are_read() -> None:
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        for n in range(2000):
            file[f"layers/dense_{n}/vars/0"] = np.ones(3, "f4")
    require_readable(image.getvalue(), [])


def test_groups_that_hold_themselves_are_read_once(hdf5: bytes) -> None:
    read_model(changed(hdf5, lambda file: file["model_weights"].__setitem__("again", file["/"])))


def test_groups_too_deep_are_refused(hdf5: bytes, tmp_path: Path) -> None:
    content = changed(hdf5, lambda file: file.create_group("/".join("a" * 200)))
    refused(content, tmp_path, "HDF5 cannot read it .*too many groups, or too deep", ".h5")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        from_keras(tmp_path / "nothing.keras")
    with pytest.raises(ModelError, match="is no ordinary file"):
        from_keras(tmp_path)
    os.mkfifo(tmp_path / "pipe.keras")
    with pytest.raises(ModelError, match="is no ordinary file"):
        from_keras(tmp_path / "pipe.keras")


SETTINGS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nothing": (lambda s: s.clear(), "the format of a Keras model is None"),
    "format": (lambda s: s.update(format=2), "the format of a Keras model is 2; this version reads 1"),
    "later call": (lambda s: s["calls"][0].update(inputs=[[1, 0]]), "which is not there before it is used"),
    "no layer": (lambda s: s["calls"][0].update(layer=9), "a call is of layer 9, which is not there"),
    "kind": (lambda s: s["layers"][0].update(kind="Lambda"), "there is no such layer"),
    "kind of two lines": (lambda s: s["layers"][0].update(kind="a\nb"), r"'lstm\w*' \('a\\nb'\): there is no such layer"),
    "shapes": (lambda s: s["layers"][0].update(shapes=[[3, 16], [4, 17], [16]]), r"recurrent kernel is \(4, 17\)"),
    "large": (lambda s: s["layers"][1].update(shapes=[[2**28, 2**28], [2]]), "weights; at most 134217728 are read"),
    "option": (lambda s: s["layers"][0]["options"].update(units="4"), "units is '4'; it must be a whole number"),
    "no outputs": (lambda s: s.update(outputs=[]), "needs inputs and outputs"),
    "output": (lambda s: s.update(outputs=[[2, 7]]), "is an output of the model and is not there"),
}


@pytest.fixture(scope="module")
def settings(archive: bytes) -> str:
    """The settings of a sound model, as JSON."""
    return json.dumps(read_model(archive)[0].settings())


@pytest.mark.parametrize("name", SETTINGS)
def test_hostile_settings_are_refused(name: str, settings: str) -> None:
    found = json.loads(settings)
    change, match = SETTINGS[name]
    change(found)
    with pytest.raises(ModelError, match=match):
        KerasModule.built(found)


def test_a_module_is_built_on_the_meta_device(settings: str) -> None:
    with torch.device("meta"):
        module = KerasModule.built(json.loads(settings))
    assert all(each.is_meta for each in module.state_dict().values())
