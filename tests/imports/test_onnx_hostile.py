"""ONNX files that are damaged or meant to harm: each is refused with one line, quickly and in little memory."""

import copy
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import AttributeProto, TensorProto, helper

from tests.imports.onnx_models import BOOL, FLOAT, INT64, model, random, saved
from whence.errors import ModelError
from whence.imports.onnx.importing import from_onnx
from whence.imports.onnx.module import OnnxModule

node = helper.make_node
SECONDS, MEMORY = 2.0, 500 * 2**20


@pytest.fixture(autouse=True, scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import onnx and onnxruntime before anything is timed."""
    from_onnx(saved(relu(), tmp_path_factory.mktemp("warm")))


def relu() -> Any:
    return model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2, 3))}, ["y"])


def with_weight(**change: Any) -> Any:
    """A matrix product whose weight has been tampered with."""
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ("n", 3))}, ["y"], {"w": random(3, 2)})
    tensor = proto.graph.initializer[0]
    for name, value in change.items():
        if name == "dims":
            tensor.dims[:] = value
        elif name == "external":
            tensor.data_location = TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
            for key, text in value.items():
                tensor.external_data.add(key=key, value=text)
        else:
            setattr(tensor, name, value)
    return proto


def made(op: str, inputs: list[str], constants: dict[str, Any], **attributes: Any) -> Any:
    """A model that adds a huge tensor to its input."""
    nodes = [node(op, inputs, ["huge"], **attributes), node("Add", ["x", "huge"], ["y"])]
    return model(nodes, {"x": (FLOAT, (1,))}, ["y"], constants)


def whole(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def chained(count: int, op: str = "Relu") -> Any:
    proto = relu()
    del proto.graph.node[:]
    proto.graph.node.extend(node(op, [f"v{n}" if n else "x"], [f"v{n + 1}"]) for n in range(count))
    proto.graph.output[0].name = f"v{count}"
    return proto


def nested(depth: int) -> Any:
    inner = helper.make_graph([node("Relu", ["x"], ["y0"])], "g", [], [helper.make_tensor_value_info("y0", FLOAT, None)])
    for n in range(depth):
        call = (
            node("If", ["yes"], [f"y{n + 1}"], then_branch=inner, else_branch=inner)
            if n < 3
            else node("If", ["yes"], [f"y{n + 1}"], then_branch=inner)
        )
        inner = helper.make_graph([call], "g", [], [helper.make_tensor_value_info(f"y{n + 1}", FLOAT, None)])
    return model(inner.node, {"x": (FLOAT, (1,))}, [f"y{depth}"], {"yes": np.array(True)})


def endless(*, count: str = "", nests: bool = False) -> Any:
    def loop(inside: list[Any], name: str) -> Any:
        out = inside[-1].output[0]
        return helper.make_graph(
            [*inside, node("Identity", [f"on{name}"], [f"go{name}"])],
            "g",
            [
                helper.make_tensor_value_info(f"i{name}", INT64, []),
                helper.make_tensor_value_info(f"on{name}", BOOL, []),
                helper.make_tensor_value_info(f"c{name}", FLOAT, None),
            ],
            [helper.make_tensor_value_info(f"go{name}", BOOL, []), helper.make_tensor_value_info(out, FLOAT, None)],
        )

    step = loop([node("Mul", ["ca", "half"], ["da"])], "a")
    if nests:
        step = loop([node("Loop", [count, "", "cb"], ["db"], body=step)], "b")
    constants = {"half": np.float32(0.5), "many": np.int64(2**62)}
    return model([node("Loop", [count, "", "x"], ["y"], body=step)], {"x": (FLOAT, (2,))}, ["y"], constants)


def exploding_functions() -> Any:
    functions = []
    for n in range(40):
        inner = f"f{n - 1}" if n else "Relu"
        domain = "own" if n else ""
        calls = [node(inner, ["a"], ["b"], domain=domain), node(inner, ["b"], ["c"], domain=domain)]
        functions.append(helper.make_function("own", f"f{n}", ["a"], ["c"], calls, [helper.make_opsetid("", 17)]))
    call = node("f39", ["x"], ["y"], domain="own")
    return model([call], {"x": (FLOAT, (2,))}, ["y"], functions=functions, domains={"own": 1})


def recursive_function() -> Any:
    function = helper.make_function(
        "own", "f", ["a"], ["b"], [node("f", ["a"], ["b"], domain="own")], [helper.make_opsetid("", 17)]
    )
    return model([node("f", ["x"], ["y"], domain="own")], {"x": (FLOAT, (2,))}, ["y"], functions=[function], domains={"own": 1})


def doubling() -> Any:
    """Forty times a tensor beside itself: 2⁴⁰ numbers out of 1024, all of them constants."""
    nodes = [node("Concat", [f"c{n}", f"c{n}"], [f"c{n + 1}"], axis=0) for n in range(40)]
    nodes.append(node("Add", ["x", "c40"], ["y"]))
    return model(nodes, {"x": (FLOAT, (1,))}, ["y"], {"c0": random(1024)})


def typed(attribute_type: int) -> Any:
    proto = model([node("Transpose", ["x"], ["y"], perm=[1, 0])], {"x": (FLOAT, (2, 3))}, ["y"])
    proto.graph.node[0].attribute[0].type = attribute_type
    return proto


def unsorted() -> Any:
    return model([node("Relu", ["a"], ["y"]), node("Tanh", ["x"], ["a"])], {"x": (FLOAT, (2,))}, ["y"])


def cyclic() -> Any:
    return model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": (FLOAT, (2,))}, ["b"])


def twice() -> Any:
    return model([node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"])], {"x": (FLOAT, (2,))}, ["y"])


def sparse() -> Any:
    proto = relu()
    values = helper.make_tensor("s", FLOAT, [1], [1.0])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, helper.make_tensor("i", INT64, [1], [0]), [2**40]))
    return proto


def text_input() -> Any:
    return model([node("Identity", ["x"], ["y"])], {"x": (TensorProto.STRING, (2,))}, ["y"])


def sequence_input() -> Any:
    proto = relu()
    proto.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = FLOAT
    return proto


def recurrent(*, w: tuple[int, ...], r: tuple[int, ...], fill: float = 0.0) -> Any:
    constants = {"W": np.full(w, fill, dtype=np.float32), "R": np.full(r, fill, dtype=np.float32)}
    nodes = [node("LSTM", ["x", "W", "R"], ["", "y"], hidden_size=2)]
    return model(nodes, {"x": (FLOAT, ("t", "b", 3))}, ["y"], constants)


OUTSIDE = "only a file in the model's own folder is read"
FILES: dict[str, tuple[Callable[[], Any], str]] = {
    "a path out of the folder": (lambda: with_weight(external={"location": "../secret"}), OUTSIDE),
    "a path through a folder": (lambda: with_weight(external={"location": "a/../../secret"}), OUTSIDE),
    "an absolute path": (lambda: with_weight(external={"location": "/etc/passwd"}), OUTSIDE),
    "a device": (lambda: with_weight(external={"location": "/dev/zero", "length": "24"}), OUTSIDE),
    "a backslash": (lambda: with_weight(external={"location": "..\\secret"}), OUTSIDE),
    "no place": (lambda: with_weight(external={}), OUTSIDE),
    "a missing file": (lambda: with_weight(external={"location": "weights.bin"}), "cannot be read: No such file"),
    "a huge offset": (lambda: with_weight(external={"location": "short.bin", "offset": str(2**50)}), "which has 8"),
    "a negative offset": (
        lambda: with_weight(external={"location": "short.bin", "offset": "-8"}),
        "for a place in another file",
    ),
    "a huge length": (lambda: with_weight(external={"location": "short.bin", "length": str(2**50)}), "its shape needs 24"),
    "a huge shape elsewhere": (lambda: with_weight(dims=[2**40, 2**40], external={"location": "short.bin"}), "are allowed"),
    "a link": (lambda: with_weight(external={"location": "link.bin"}), "cannot be read"),
    "a named pipe": (lambda: with_weight(external={"location": "pipe.bin"}), "is no ordinary file"),
    "a folder": (lambda: with_weight(external={"location": "folder.bin"}), "no ordinary file|Is a directory"),
    "a product of sizes beyond 64 bits": (lambda: with_weight(dims=[2**40, 2**40]), "has 24 bytes; its shape"),
    "a negative size": (lambda: with_weight(dims=[-3, -2]), "has the shape"),
    "a size too large": (lambda: with_weight(dims=[3, 3]), "has 24 bytes; its shape"),
    "too many axes": (lambda: with_weight(dims=[1] * 40), "has the shape"),
    "text as weights": (lambda: with_weight(data_type=8), "of type text"),
    "complex weights": (lambda: with_weight(data_type=14), "of type complex"),
    "an unknown type": (lambda: with_weight(data_type=99), "of type 99"),
    "NaN": (lambda: with_weight(raw_data=struct.pack("<6f", *[float("nan")] * 6)), "holds NaN"),
    "infinity": (lambda: recurrent(w=(1, 8, 3), r=(1, 8, 2), fill=float("inf")), "must be finite"),
    "weights of two sizes": (lambda: recurrent(w=(1, 8, 3), r=(1, 9, 2)), "do not belong to a forward LSTM"),
    "weights of no size": (lambda: recurrent(w=(1, 0, 3), r=(1, 0, 0)), "do not belong to a forward LSTM"),
    "sparse tensors": (sparse, "sparse tensors, which are not read"),
    "too many nodes": (lambda: chained(20_001), "more than 20000 nodes"),
    "deep graphs": (lambda: nested(18), "nested"),
    "very deep graphs": (lambda: nested(30), "nested|no ONNX file"),
    "unsorted nodes": (unsorted, "no input and no node before makes"),
    "a cycle": (cyclic, "no input and no node before makes"),
    "a name made twice": (twice, "is made twice"),
    "text as input": (text_input, "of type text"),
    "a sequence as input": (sequence_input, "is no tensor"),
    "functions that double": (exploding_functions, "nested more than|more than 20000 nodes"),
    "a function of itself": (recursive_function, "nested more than"),
    "constants that double": (doubling, "it makes tensors of"),
    "a huge ConstantOfShape": (lambda: made("ConstantOfShape", ["s"], {"s": whole(2**20, 2**20)}), "it makes tensors of"),
    "a ConstantOfShape beyond 64 bits": (
        lambda: made("ConstantOfShape", ["s"], {"s": whole(2**40, 2**40)}),
        "cannot be run|it makes",
    ),
    "a huge Expand": (lambda: made("Expand", ["x", "s"], {"s": whole(2**20, 2**20)}), "it makes tensors of"),
    "a huge Tile": (lambda: made("Tile", ["x", "s"], {"s": whole(2**40)}), "it makes tensors of"),
    "a huge Range": (
        lambda: made("Range", ["a", "b", "c"], {"a": np.float32(0), "b": np.float32(1e12), "c": np.float32(1)}),
        "it makes tensors of",
    ),
    "a huge Pad": (lambda: made("Pad", ["x", "s"], {"s": whole(0, 2**40)}), "it makes tensors of"),
    "a huge OneHot": (
        lambda: made("OneHot", ["i", "d", "v"], {"i": whole(1), "d": np.int64(2**40), "v": random(2)}),
        "it makes tensors of",
    ),
    "a huge Resize": (
        lambda: made("Resize", ["r", "", "", "s"], {"r": random(1, 1, 1), "s": whole(1, 1, 2**40)}),
        "it makes tensors of|cannot be run",
    ),
    "a huge product": (
        lambda: made("MatMul", ["a", "b"], {"a": random(200_000, 1), "b": random(1, 200_000)}),
        "it makes tensors of",
    ),
    "a huge broadcast": (
        lambda: made("Mul", ["a", "b"], {"a": random(200_000, 1), "b": random(1, 200_000)}),
        "it makes tensors of",
    ),
    "a huge Gather": (
        lambda: model(
            [node("Gather", ["t", "i"], ["g"]), node("ReduceSum", ["g"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])],
            {"x": (FLOAT, (1,))},
            ["y"],
            {"t": random(2, 100_000), "i": np.zeros(100_000, dtype=np.int64)},
        ),
        "it makes tensors of",
    ),
    "a huge declared input": (
        lambda: model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2**30, 2**30))}, ["y"]),
        "give reference=",
    ),
    "an endless loop": (endless, "have not ended after 540 steps"),
    "a loop of 2⁶² steps": (lambda: endless(count="many"), "have not ended after 540 steps"),
    "a loop in a loop": (lambda: endless(count="many", nests=True), "have not ended after 540 steps"),
    "a slice with step 0": (
        lambda: made("Slice", ["x", "a", "b", "c", "d"], {"a": whole(0), "b": whole(1), "c": whole(0), "d": whole(0)}),
        "step of 0",
    ),
    "an axis that is not there": (lambda: made("Concat", ["x", "x"], {}, axis=7), "cannot be run"),
    "a split into nothing": (lambda: made("Split", ["x"], {}, num_outputs=0), "cannot be run"),
    "an empty equation": (lambda: made("Einsum", ["x"], {}, equation="…->"), "cannot be run"),
    "no groups": (lambda: made("Conv", ["c", "w"], {"c": random(1, 2, 3), "w": random(2, 2, 1)}, group=0), "cannot be run"),
    "a kernel of no size": (lambda: made("MaxPool", ["c"], {"c": random(1, 2, 3)}, kernel_shape=[0]), "must be positive"),
    "an Erf of nothing": (lambda: made("Erf", [], {}), "0 inputs"),
    "no kernel": (lambda: made("MaxPool", ["c"], {"c": random(1, 2, 3)}), "no attribute kernel_shape"),
    "opset 6": (lambda: model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2,))}, ["y"], opset=6), "its opset is 6"),
    "an opset to come": (
        lambda: model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2,))}, ["y"], opset=999),
        "its opset is 999",
    ),
    **{
        f"an attribute of type {kind}": ((lambda kind=kind: typed(kind)), "perm|read")
        for kind in AttributeProto.AttributeType.values()
        if kind != AttributeProto.INTS
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "models"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(bytes(24))
    (inside / "short.bin").write_bytes(bytes(8))
    (inside / "link.bin").symlink_to(tmp_path / "secret")
    (inside / "folder.bin").mkdir()
    os.mkfifo(inside / "pipe.bin")
    return inside


def refused(path: Path, says: str) -> None:
    """Reading the file raises a ModelError of one line, in time and memory."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(ModelError, match=says) as caught:
        from_onnx(path)
    assert time.process_time() - start < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused(name: str, folder: Path) -> None:
    make, says = FILES[name]
    refused(saved(make(), folder), says)


def test_a_window_larger_than_the_first_inputs_tried_is_no_excess(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"], strides=[128])]
    proto = model(nodes, {"x": (FLOAT, ("n", 1, "t"))}, ["y"], {"w": random(258, 1, 256)})
    assert "compared with onnxruntime" in from_onnx(saved(proto, tmp_path)).proof


def test_a_loop_may_take_as_many_steps_as_its_input_has(tmp_path: Path) -> None:
    step = helper.make_graph(
        [node("Add", ["s", "x_t"], ["t"])],
        "g",
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("s", "x_t")],
        [helper.make_tensor_value_info("t", FLOAT, None)],
    )
    proto = model(
        [node("Scan", ["z", "x"], ["y"], body=step, num_scan_inputs=1)], {"x": (FLOAT, (900,))}, ["y"], {"z": np.float32(0)}
    )
    x = random(900)
    torch.testing.assert_close(from_onnx(saved(proto, tmp_path))(x), x.sum(), rtol=1e-4, atol=1e-4)  # 900 sums in float32


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no ONNX file"),
        (b"not a model", "cut off|no ONNX file|of the type"),
        (b"\x80" * 100, "cut off or no ONNX file"),
        (b"\x3a\x02\x0a\x00" * 1, "its opset is 1"),
        (b"PK\x03\x04" + bytes(100), "cut off|no ONNX file|of the type"),
        (bytes(1000), "no ONNX file|cut off"),
    ],
    ids=["empty", "text", "endless number", "one empty node", "zip", "zeros"],
)
def test_bytes_that_are_no_model_are_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    refused(path, says)


def test_two_bytes_for_each_node_are_counted_before_they_are_made(tmp_path: Path) -> None:
    nodes = b"\x0a\x00" * 5_000_000  # 10 MB, of which protocol buffers would make more than 1 GB
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x3a" + varint(len(nodes)) + nodes)
    refused(path, "more than 600000 parts")


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_every_cut_of_a_file_is_read_or_refused(tmp_path: Path) -> None:
    whole_file = with_weight().SerializeToString()
    path = tmp_path / "model.onnx"
    for end in range(0, len(whole_file) - 1, 3):
        path.write_bytes(whole_file[:end])
        with pytest.raises(ModelError):
            from_onnx(path)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    content = relu().SerializeToString().replace(b"Relu", b"Re\xff\xfe")
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    refused(path, "not UTF-8 text")


def test_weights_in_an_ordinary_file_beside_the_model_are_read(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(b"before" + random(3, 2).numpy().tobytes())
    path = saved(with_weight(external={"location": "weights.bin", "offset": "6", "length": "24"}), folder)
    x = random(4, 3)
    torch.testing.assert_close(from_onnx(path)(x), x @ random(3, 2))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, says in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "no ordinary file"),
        (Path("/dev/zero"), "no ordinary file"),
    ):
        with pytest.raises(ModelError, match=says):
            from_onnx(path)


GOOD = {
    "opset": 17,
    "inputs": [{"name": "x", "kind": "float", "shape": [2, 3]}],
    "constants": {"w": {"kind": "float", "shape": [3, 2], "values": None}, "a": {"kind": "int64", "shape": [1], "values": [0]}},
    "graph": {
        "inputs": ["x"],
        "outputs": ["z"],
        "nodes": [
            {"op": "MatMul", "name": "m", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {}, "graphs": {}},
            {"op": "Unsqueeze", "name": "u", "inputs": ["y", "a"], "outputs": ["z"], "attributes": {}, "graphs": {}},
        ],
    },
}
PLACES: list[tuple[tuple[Any, ...], Any]] = [
    (("opset",), "17"),
    (("opset",), True),
    (("opset",), 6),
    (("opset",), 10**40),
    (("inputs",), None),
    (("inputs",), [{}]),
    (("inputs", 0, "kind"), "text"),
    (("inputs", 0, "name"), 3),
    (("inputs", 0, "name"), "other"),
    (("inputs", 0, "shape"), [-1]),
    (("inputs", 0, "shape"), [1.5]),
    (("inputs", 0, "shape"), [[]]),
    (("constants",), []),
    (("constants", "w", "shape"), [2**31, 2**31]),
    (("constants", "w", "shape"), [2**40]),
    (("constants", "w", "shape"), [-1]),
    (("constants", "w", "kind"), "complex"),
    (("constants", "w", "values"), [1.0]),
    (("constants", "a", "values"), [None]),
    (("constants", "a", "values"), [2**64]),
    (("constants", "a", "values"), [True]),
    (("constants", "a", "values"), [1.5]),
    (("constants", "a", "values"), "0"),
    (("constants", "forward"), {"kind": "float", "shape": [2, 2], "values": None}),
    (("constants", "a.b"), {"kind": "float", "shape": [2], "values": None}),
    (("graph",), None),
    (("graph", "nodes"), {}),
    (("graph", "outputs"), ["nothing"]),
    (("graph", "inputs"), []),
    (("graph", "nodes", 0, "op"), "Sing"),
    (("graph", "nodes", 0, "op"), None),
    (("graph", "nodes", 0, "name"), "a b"),
    (("graph", "nodes", 0, "name"), "u"),
    (("graph", "nodes", 0, "name"), "forward"),
    (("graph", "nodes", 0, "inputs"), ["x"]),
    (("graph", "nodes", 0, "inputs"), ["x", "z"]),
    (("graph", "nodes", 0, "outputs"), ["x"]),
    (("graph", "nodes", 0, "outputs"), []),
    (("graph", "nodes", 0, "attributes"), {"axis": 1}),
    (("graph", "nodes", 0, "attributes"), {"axis": None}),
    (("graph", "nodes", 0, "attributes"), {"axis": [1, "x"]}),
    (("graph", "nodes", 0, "attributes"), {"axis": 10**30}),
    (("graph", "nodes", 0, "graphs"), {"body": None}),
    (("graph", "nodes", 0, "graphs"), []),
    (("extra",), 1),
    (("graph", "nodes", 0, "op"), "LSTM"),
    (("graph", "nodes", 0, "op"), "Loop"),
    (("graph", "nodes", 0, "op"), "If"),
]


def settings(*changes: tuple[tuple[Any, ...], Any]) -> Any:
    found: Any = copy.deepcopy(GOOD)
    for keys, value in changes:
        place = found
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
    return found


def test_good_settings_are_built() -> None:
    assert OnnxModule.built(settings())(torch.zeros(2, 3)).shape == (1, 2, 2)


@pytest.mark.parametrize("change", PLACES, ids=lambda change: f"{change[0][-1]}={str(change[1])[:20]}")
def test_settings_that_are_not_ours_are_refused(change: tuple[tuple[Any, ...], Any]) -> None:
    with pytest.raises(ModelError), torch.device("meta"):
        OnnxModule.built(settings(change))


@pytest.mark.parametrize("whole_settings", [None, [], "x", 3, {}, {"opset": 17}])
def test_settings_of_another_form_are_refused(whole_settings: object) -> None:
    with pytest.raises(ModelError):
        OnnxModule.built(whole_settings)


def test_settings_of_huge_weights_are_refused_before_they_are_made() -> None:
    with pytest.raises(ModelError, match="of at most 134217728 numbers in all"):
        OnnxModule.built(settings((("constants", "w", "shape"), [2**16, 2**16])))
    large = {"kind": "float", "shape": [2**13, 2**13], "values": None}
    tables = {f"w{n}": large for n in range(3)}
    sums = [
        {"op": "Add", "name": f"a{n}", "inputs": ["x", f"w{n}"], "outputs": [f"s{n}"], "attributes": {}, "graphs": {}}
        for n in range(3)
    ]
    together = settings((("constants",), tables), (("graph", "nodes"), sums), (("graph", "outputs"), ["s2"]))
    with pytest.raises(ModelError, match="its weights are 201326592 numbers; at most 134217728 are read"):
        OnnxModule.built(together)


def test_settings_nested_without_end_are_refused() -> None:
    deep: Any = settings()
    for _ in range(sys.getrecursionlimit()):
        inner = settings()
        inner["graph"]["nodes"][0]["graphs"] = {"body": deep["graph"]}
        deep = inner
    with pytest.raises(ModelError, match="nested"):
        OnnxModule.built(deep)
