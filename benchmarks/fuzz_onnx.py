"""Feeds damaged ONNX files and settings to what reads them; each is read, or refused with a ModelError.

Small models are changed piece by piece (operators, attributes, shapes, names, numbers, types), then at times byte by byte:

    python benchmarks/fuzz_onnx.py -runs=1000000
"""

import contextlib
import json
import struct
import sys
from typing import Any, cast

import atheris  # pyright: ignore[reportMissingImports]

with atheris.instrument_imports(include=["whence.imports.onnx.reading", "whence.imports.onnx.graph"]):  # pyright: ignore
    import torch
    from onnx import AttributeProto, TensorProto, helper, numpy_helper

    from whence.errors import ModelError
    from whence.imports.onnx.importing import parsed
    from whence.imports.onnx.module import OnnxModule
    from whence.imports.onnx.operators.table import OPERATORS
    from whence.imports.onnx.proof import _trials
    from whence.imports.onnx.reading import model_from
    from whence.imports.onnx.tensors import take_in

torch.set_num_threads(1)
OPS = [*OPERATORS, "LSTM", "GRU", "RNN", "If", "Loop", "Scan", "Constant", "Nothing"]
WHOLE = [0, 1, -1, 2, 3, 7, 16, 255, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1]
FLOATS = [0.0, 1.0, -1.0, 1e-38, 3e38, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "x", "forward", "bidirectional", "Sigmoid", "../x", "/dev/zero", "ij,jk->ik", "\ud800", "SAME_UPPER"]
ATTRIBUTES = (
    "axis axes perm to value hidden_size direction activations clip layout pads strides kernel_shape equation group".split()
)


def seeds() -> list[Any]:
    """Small models of every kind."""
    node, value = helper.make_node, helper.make_tensor_value_info

    def weight(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(torch.randn(shape).numpy(), name)

    def whole(name: str, *numbers: int) -> Any:
        return numpy_helper.from_array(torch.tensor(numbers).numpy(), name)

    x, y = value("x", TensorProto.FLOAT, ["t", "b", 3]), value("y", TensorProto.FLOAT, None)
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}
    made = [
        helper.make_graph(
            [
                node(op, ["x", "W", "R", "B"], ["", "h"], direction="bidirectional", hidden_size=2, clip=2.0),
                node("Transpose", ["h"], ["u"], perm=[1, 0, 2]),
                node("Reshape", ["u", "s"], ["v"]),
                node("Gemm", ["v", "G"], ["y"], transB=1),
            ],
            op,
            [x],
            [y],
            [weight("W", 2, n * 2, 3), weight("R", 2, n * 2, 2), weight("B", 2, n * 4), weight("G", 3, 4), whole("s", 0, -1)],
        )
        for op, n in rows.items()
    ]
    body = helper.make_graph(
        [node("MatMul", ["h_in", "K"], ["p"]), node("Add", ["p", "step"], ["h_out"]), node("Identity", ["h_out"], ["o"])],
        "body",
        [value("h_in", 1, None), value("step", 1, None)],
        [value("h_out", 1, None), value("o", 1, None)],
        [weight("K", 3, 3)],
    )
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Gather", ["size", "one"], ["batch"], axis=0),
        node("Concat", ["batch", "three"], ["wanted"], axis=0),
        node("ConstantOfShape", ["wanted"], ["h"], value=helper.make_tensor("v", 1, [1], [0.5])),
        node("Scan", ["h", "x"], ["last", "all"], body=body, num_scan_inputs=1),
        node("Softmax", ["last"], ["y"], axis=-1),
    ]
    made.append(helper.make_graph(nodes, "scan", [x], [y], [whole("one", 1), whole("three", 3)]))
    turn = helper.make_graph(
        [
            node("Less", ["i", "five"], ["on"]),
            node("Mul", ["c", "two"], ["c2"]),
        ],
        "turn",
        [value("i", 7, []), value("on_in", 9, []), value("c", 1, None)],
        [value("on", 9, []), value("c2", 1, None)],
        [helper.make_tensor("five", 7, [], [5]), weight("two")],
    )
    branch = [helper.make_graph([node(op, ["z"], [f"{op}y"])], op, [], [value(f"{op}y", 1, None)]) for op in ("Relu", "Tanh")]
    nodes = [
        node("Loop", ["ten", "", "x"], ["z"], body=turn),
        node("If", ["yes"], ["w"], then_branch=branch[0], else_branch=branch[1]),
        node("ReduceMean", ["w"], ["y"], axes=[0], keepdims=0),
    ]
    scalars = [helper.make_tensor("ten", 7, [], [10]), helper.make_tensor("yes", 9, [], [1])]
    made.append(helper.make_graph(nodes, "loop", [x], [y], scalars))
    nodes = [
        node("Gather", ["E", "ids"], ["e"]),
        node("Conv", ["e", "C"], ["c"], pads=[1, 1], kernel_shape=[3]),
        node("Split", ["c"], ["l", "r"], axis=1),
        node("Where", ["m", "l", "r"], ["w"]),
        node("LayerNormalization", ["w", "g"], ["n"], axis=-1),
        node("Slice", ["n", "a", "b", "k", "d"], ["y"]),
    ]
    constants = [
        weight("E", 5, 4),
        weight("C", 4, 6, 3),
        weight("g", 4),
        numpy_helper.from_array(torch.tensor([True]).numpy(), "m"),
    ]
    constants += [whole("a", -1), whole("b", -9), whole("k", 1), whole("d", -1)]
    made.append(helper.make_graph(nodes, "ids", [value("ids", TensorProto.INT64, ["b", 6])], [y], constants))
    models = [helper.make_model(each, opset_imports=[helper.make_opsetid("", 17)]) for each in made]
    for each in models:
        module_of(each.SerializeToString())  # the seeds themselves are read
    return models


def module_of(content: bytes) -> OnnxModule:
    """A file's module."""
    proto = parsed(content)
    take_in(proto, NOWHERE)
    model, numbers = model_from(proto)
    module = OnnxModule(model)
    module.take(numbers)
    return module


def graphs_of(model: Any) -> list[Any]:
    """A model's graph and those inside its nodes."""
    found = [model.graph]
    for graph in found:
        found += [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return found


class Damage:
    """Changes to a model, drawn from the fuzzer's bytes."""

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = model, data

    def place(self, values: Any) -> int:
        """The place of one of several values."""
        if not len(values):
            raise IndexError
        return self.data.ConsumeIntInRange(0, len(values) - 1)

    def pick(self, values: Any) -> Any:
        """One of several values."""
        return values[self.place(values)]

    def once(self) -> None:
        """Make one change, if there is something to change."""
        graph = self.pick(graphs_of(self.model))
        with contextlib.suppress(IndexError, ValueError, TypeError, UnicodeError):
            self.pick(
                [self.operator, self.wire, self.attribute, self.tensor, self.remove, self.repeat, self.input, self.model_wide]
            )(graph)

    def operator(self, graph: Any) -> None:
        self.pick(graph.node).op_type = self.pick(OPS)

    def wire(self, graph: Any) -> None:
        node = self.pick(graph.node)
        names = [name for each in graph.node for name in (*each.input, *each.output)] + ["", "x", "y"]
        names += [each.name for each in graph.initializer]
        side = self.pick([node.input, node.output])
        side[self.place(side)] = self.pick(names)

    def attribute(self, graph: Any) -> None:
        node = self.pick(graph.node)
        if not node.attribute or self.data.ConsumeBool():
            value = self.pick(
                [self.pick(WHOLE), self.pick(FLOATS), self.pick(TEXTS), [self.pick(WHOLE)] * 3, [self.pick(FLOATS)]]
            )
            node.attribute.append(helper.make_attribute(self.pick(ATTRIBUTES), value))
            return
        each = self.pick(node.attribute)
        if self.data.ConsumeBool():
            each.i, each.f, each.s = self.pick(WHOLE), self.pick(FLOATS), self.pick(TEXTS).encode()
            if each.ints:
                each.ints[self.place(each.ints)] = self.pick(WHOLE)
        else:
            each.type = self.pick(AttributeProto.AttributeType.values())

    def tensor(self, graph: Any) -> None:
        each = self.pick(graph.initializer)
        change = self.data.ConsumeIntInRange(0, 5)
        if change == 0:
            each.dims.append(self.pick(WHOLE))
        elif change == 1:
            each.dims[self.place(each.dims)] = self.pick(WHOLE)
        elif change == 2:
            each.data_type = self.pick([*TensorProto.DataType.values(), 77])
        elif change == 3:
            each.raw_data = each.raw_data[: self.data.ConsumeIntInRange(0, len(each.raw_data))]
        elif change == 4:
            first = struct.pack("<f", self.pick(FLOATS)) if each.data_type == 1 else struct.pack("<q", self.pick(WHOLE))
            each.raw_data = first + each.raw_data[len(first) :]
        else:
            each.data_location = 1
            each.external_data.add(key="location", value=self.pick(TEXTS))
            each.external_data.add(key="offset", value=str(self.pick(WHOLE)))

    def remove(self, graph: Any) -> None:
        parts = self.pick([graph.node, graph.initializer, graph.input, graph.output])
        del parts[self.place(parts)]

    def repeat(self, graph: Any) -> None:
        graph.node.append(self.pick(graph.node))

    def input(self, graph: Any) -> None:
        kind = self.pick(graph.input).type.tensor_type
        if self.data.ConsumeBool():
            kind.elem_type = self.pick([*TensorProto.DataType.values(), 99])
        else:
            kind.shape.dim.add(dim_value=self.pick(WHOLE))

    def model_wide(self, graph: Any) -> None:
        self.model.opset_import[0].version = self.pick([1, 6, 7, 9, 11, 13, 18, 21, 23, 26, 27, 2**40])


def changed(settings: Any, data: Any) -> Any:
    """Settings with one part replaced."""
    place: Any = settings
    parts = 0
    while isinstance(place, (dict, list)) and place and parts < 8:
        keys: list[Any] = (
            list(cast("dict[str, Any]", place)) if isinstance(place, dict) else list(range(len(cast("list[Any]", place))))
        )
        key: Any = keys[data.ConsumeIntInRange(0, len(keys) - 1)]
        parts += 1
        if not isinstance(place[key], (dict, list)) or data.ConsumeIntInRange(0, 9) == 0:
            values: list[Any] = [
                None,
                True,
                10**30,
                -1,
                0,
                3,
                1e308,
                "",
                "x",
                "LSTM",
                [],
                {},
                [1],
                [[]],
                {"values": None},
                OPS[data.ConsumeIntInRange(0, 99)],
            ]
            place[key] = values[data.ConsumeIntInRange(0, len(values) - 1)]
            return settings
        place = cast(Any, place)[key]
    return settings


def tried(module: OnnxModule) -> None:
    """Run a module as an import does, with all its limits."""
    _trials(module)


def one_input(content: bytes) -> None:
    """One run: a damaged file, or damaged settings."""
    data = cast(Any, atheris.FuzzedDataProvider(content))  # pyright: ignore
    number: int = data.ConsumeIntInRange(0, len(SEEDS) - 1)
    with contextlib.suppress(ModelError):
        if data.ConsumeIntInRange(0, 3) == 0:
            settings = json.loads(SETTINGS[number])
            for _ in range(data.ConsumeIntInRange(1, 3)):
                settings = changed(settings, data)
            with torch.device("meta"):
                OnnxModule.built(settings)
            return
        model = type(SEEDS[number])()
        model.CopyFrom(SEEDS[number])
        damage = Damage(model, data)
        for _ in range(data.ConsumeIntInRange(1, 4)):
            damage.once()
        file = bytearray(model.SerializeToString())
        for _ in range(data.ConsumeIntInRange(0, 3) if data.ConsumeBool() else 0):
            file[data.ConsumeIntInRange(0, len(file) - 1)] = data.ConsumeIntInRange(0, 255)
        module = module_of(bytes(file))
        if RUNS_MODULES:
            tried(module)


if __name__ == "__main__":
    from pathlib import Path

    NOWHERE = Path("/nonexistent")
    RUNS_MODULES = "--run" in sys.argv  # also run what was read, which takes ten times as long
    SEEDS = seeds()
    SETTINGS = [json.dumps(module_of(each.SerializeToString()).settings()) for each in SEEDS]
    for each in SEEDS:
        tried(module_of(each.SerializeToString()))
    atheris.Setup([argument for argument in sys.argv if argument != "--run"], one_input)  # pyright: ignore
    atheris.Fuzz()  # pyright: ignore
