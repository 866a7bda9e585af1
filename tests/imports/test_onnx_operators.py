"""Every operator that is read: its numbers are onnxruntime's; and what is read as a whole: graphs inside graphs, types, ids."""

import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import load, save
from torch import Tensor, nn

import whence
from tests.imports.onnx_models import BOOL, FLOAT, INT64, by_runtime, model, random, saved
from whence.errors import InputError, ModelError
from whence.imports.onnx.importing import from_onnx
from whence.imports.onnx.module import OnnxModule
from whence.imports.onnx.operators.table import OPERATORS

node = helper.make_node


class Case(NamedTuple):
    """An operator with its attributes and constants, on an input x."""

    op: str
    shape: tuple[int, ...] = (2, 3, 4)
    constants: Sequence[Any] = ()  # its inputs after x
    attributes: dict[str, Any] = {}  # noqa: RUF012
    opset: int = 18
    outputs: int = 1
    kind: int = FLOAT
    first: Sequence[Any] = ()  # its inputs before x


def whole(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


W = random
UNARY = (
    "Neg Abs Exp Floor Ceil Round Sign Sin Cos Tan Atan Sinh Cosh Asinh Relu Sigmoid Tanh Softplus Softsign Erf LeakyRelu "
    "Elu Selu Celu ThresholdedRelu HardSigmoid HardSwish Softmax LogSoftmax Shrink IsNaN IsInf Identity Mish Size Shape "
    "Reciprocal GlobalAveragePool GlobalMaxPool Flatten Transpose NonZero ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd "
    "ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ArgMax ArgMin Clip LpNormalization"
).split()
CASES = [
    *(Case(op) for op in UNARY),
    *(Case(op, constants=[W(3, 4)]) for op in "Add Sub Mul Div Max Min Sum Mean PRelu Less Greater Equal".split()),
    *(Case(op, constants=[W(3, 1)]) for op in ("LessOrEqual", "GreaterOrEqual")),
    *(Case(op, first=[np.float32(1.0)]) for op in ("Sub", "Div", "Mul")),
    Case("Pow", constants=[np.float32(2.0)]),
    Case("Mod", constants=[np.float32(0.7)], attributes={"fmod": 1}),
    Case("Softmax", attributes={"axis": 1}, opset=11),
    Case("Softmax", opset=11),
    Case("Softmax", attributes={"axis": 1}),
    Case("Gelu", opset=20),
    Case("Gelu", attributes={"approximate": "tanh"}, opset=20),
    Case("Elu", attributes={"alpha": 0.5}),
    Case("HardSigmoid", attributes={"alpha": 0.4, "beta": 0.3}),
    Case("Selu", attributes={"alpha": 1.0, "gamma": 2.0}),
    Case("Clip", constants=[np.float32(-0.2), np.float32(0.4)]),
    Case("Clip", attributes={"min": -0.5, "max": 0.1}, opset=10),
    Case("Cast", attributes={"to": INT64}),
    Case("Cast", attributes={"to": BOOL}),
    Case("Dropout", opset=12),
    Case("Where", constants=[W(2, 3, 4), W(4)], first=[], kind=BOOL),
    *(Case(op, constants=[np.array([True, False, True, True])], kind=BOOL) for op in ("And", "Or", "Xor")),
    Case("Not", kind=BOOL),
    Case("MatMul", constants=[W(4, 5)]),
    Case("MatMul", (2, 3), first=[W(4, 2)]),
    Case("MatMul", constants=[W(2, 4, 5)]),
    Case("Gemm", (2, 4), [W(5, 4), W(5)], {"transB": 1}),
    Case("Gemm", (4, 2), [W(4, 5), W(2, 1)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", (2, 4), [W(4, 5)]),
    Case("Einsum", (2, 3, 4), [W(4, 5)], {"equation": "bij,jk->bik"}),
    Case("Conv", (2, 3, 9), [W(6, 3, 3), W(6)], {"pads": [1, 1], "strides": [2]}),
    Case("Conv", (2, 4, 9), [W(4, 1, 3)], {"pads": [2, 0], "group": 4, "dilations": [2]}),
    Case("Conv", (1, 3, 6, 7), [W(2, 3, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("Conv", (1, 3, 6, 7), [W(2, 3, 2, 2)], {"auto_pad": "SAME_LOWER"}),
    Case("ConvTranspose", (2, 3, 5), [W(3, 4, 3), W(4)], {"strides": [2], "pads": [1, 1], "output_padding": [1]}),
    Case("MaxPool", (2, 3, 9), attributes={"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    Case("MaxPool", (2, 3, 6, 6), attributes={"kernel_shape": [2, 3], "pads": [0, 2, 1, 0]}),
    Case("AveragePool", (2, 3, 9), attributes={"kernel_shape": [3], "pads": [1, 1]}),
    Case("AveragePool", (2, 3, 9), attributes={"kernel_shape": [3], "pads": [1, 0], "count_include_pad": 1}),
    Case("BatchNormalization", (2, 3, 4), [W(3), W(3, seed=1), W(3, seed=2), W(3, seed=3).abs()], {"epsilon": 1e-3}),
    Case("LayerNormalization", constants=[W(4), W(4, seed=1)]),
    Case("LayerNormalization", constants=[W(3, 4)], attributes={"axis": 1}),
    Case("InstanceNormalization", constants=[W(3), W(3, seed=1)]),
    Case("GroupNormalization", (2, 4, 5), [W(4), W(4, seed=1)], {"num_groups": 2}, 21),
    Case("Reshape", constants=[whole(0, -1)]),
    Case("Flatten", attributes={"axis": 2}),
    Case("Transpose", attributes={"perm": [1, 2, 0]}),
    Case("Squeeze", (2, 1, 3), [whole(1)]),
    Case("Squeeze", (2, 1, 3), attributes={"axes": [1]}, opset=11),
    Case("Unsqueeze", (2, 3), [whole(0, -1)]),
    Case("Unsqueeze", (2, 3), attributes={"axes": [1, 3]}, opset=11),
    Case("Concat", constants=[W(2, 1, 4)], attributes={"axis": 1}),
    Case("Split", constants=[whole(1, 2)], attributes={"axis": 1}, outputs=2),
    Case("Split", attributes={"axis": 2}, outputs=2, opset=13),
    Case("Split", attributes={"axis": 1, "num_outputs": 2}, outputs=2),
    Case("Split", attributes={"axis": 1, "split": [2, 1]}, outputs=2, opset=11),
    Case("Slice", constants=[whole(-1), whole(-9), whole(1), whole(-1)]),
    Case("Slice", constants=[whole(1, 0), whole(2**62, 3), whole(1, 2), whole(1, 2)]),
    Case("Slice", attributes={"starts": [0, 1], "ends": [1, 3], "axes": [0, 2]}, opset=9),
    Case("Slice", constants=[whole(3), whole(1), whole(2)]),
    Case("Expand", (3, 1), [whole(2, 1, 4)]),
    Case("Tile", constants=[whole(1, 2, 3)]),
    Case("Pad", constants=[whole(0, 1, 0, 1, 0, 2), np.float32(1.5)]),
    Case("Pad", constants=[whole(0, 0, 2, 0, 0, 1)], attributes={"mode": "reflect"}),
    Case("Pad", constants=[whole(0, 0, 2, 0, 0, 1)], attributes={"mode": "edge"}),
    Case("Pad", attributes={"pads": [0, 0, 1, 0, 0, 0], "value": 2.0}, opset=10),
    Case("Pad", constants=[whole(0, -1, 0, 0, 0, 0)]),
    Case("Gather", constants=[whole(2, -1)], attributes={"axis": 1}),
    Case("Gather", constants=[np.int64(-1)], attributes={"axis": 1}),
    Case("Gather", constants=[whole(2, 1, 0, 0).reshape(2, 2)], attributes={"axis": 2}),
    Case("Gather", (2, 3), first=[W(4, 5)], kind=INT64),
    Case("GatherElements", constants=[np.array([[[0, 1, -1, 0]]])], attributes={"axis": 1}),
    Case("GatherND", constants=[np.array([[0, 1], [1, 2]])]),
    Case("GatherND", constants=[np.array([[1], [2]])], attributes={"batch_dims": 1}),
    Case("ScatterElements", constants=[np.array([[[0, 2, 1, 0]]]), W(1, 1, 4)], attributes={"axis": 1}),
    Case("ScatterND", constants=[np.array([[0], [1]]), W(2, 3, 4)], attributes={"reduction": "add"}),
    Case("Trilu", (4, 4), [np.int64(1)]),
    Case("Trilu", (4, 4), attributes={"upper": 0}),
    Case("OneHot", (2, 3), [np.int64(5), np.array([0.0, 1.0], dtype=np.float32)], kind=INT64),
    Case("OneHot", (2, 3), [np.int64(5), np.array([-1.0, 2.0], dtype=np.float32)], {"axis": 1}, kind=INT64),
    Case("EyeLike", (3, 4), attributes={"k": 1, "dtype": FLOAT}),
    Case("ReverseSequence", (5, 2, 3), [whole(3, 5)]),
    Case("ReverseSequence", (2, 5, 3), [whole(3, 5)], {"batch_axis": 0, "time_axis": 1}),
    Case("CumSum", constants=[np.int64(1)], attributes={"exclusive": 1, "reverse": 1}),
    Case("CumSum", constants=[np.int64(1)]),
    Case("TopK", constants=[whole(2)], attributes={"axis": 1}, outputs=2),
    Case("ArgMax", attributes={"axis": -1, "keepdims": 0}),
    Case("ReduceSum", constants=[whole(0, -1)], attributes={"keepdims": 0}),
    Case("ReduceMean", attributes={"axes": [1], "keepdims": 0}, opset=13),
    Case("ReduceMax", constants=[whole(1)], attributes={"keepdims": 0}, opset=18),
    Case("ReduceSum", constants=[whole()], attributes={"noop_with_empty_axes": 1}),
    Case("Resize", (1, 2, 4), ["", np.array([1, 1, 2], dtype=np.float32)]),
    Case("Resize", (1, 2, 4), ["", "", whole(1, 2, 7)], {"mode": "linear"}),
    Case("Resize", (1, 2, 4), ["", "", whole(1, 2, 7)], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    Case("OneHot", (2, 3), [np.int64(2), np.array([0.0, 1.0], dtype=np.float32)], kind=INT64),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.opset}-{list(case.attributes)}")
def test_an_operator_gives_what_onnxruntime_gives(case: Case, tmp_path: Path) -> None:
    names = [[f"{side}{n}" if not isinstance(each, str) else "" for n, each in enumerate(values)]
             for side, values in (("a", case.first), ("b", case.constants))]  # fmt: skip
    outputs = [f"y{n}" for n in range(case.outputs)]
    call = node(case.op, [*names[0], "x", *names[1]], outputs, name="it", **case.attributes)
    constants = dict(zip([*names[0], *names[1]], [*case.first, *case.constants], strict=True))
    constants.pop("", None)
    path = saved(model([call], {"x": (case.kind, case.shape)}, outputs, constants, opset=case.opset), tmp_path)
    x = random(*case.shape)
    x = x > 0 if case.kind == BOOL else x.abs().mul(2).long().clamp(0, 3) if case.kind == INT64 else x
    module = from_onnx(path)
    found = module(x)
    for mine, expected in zip((found,) if isinstance(found, Tensor) else found, by_runtime(path, x), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-5)
    assert module.proof.startswith("compared with onnxruntime")


def test_every_operator_has_a_case() -> None:
    elsewhere = {"Log", "Sqrt", "ReduceLogSum", "CastLike", "ConstantOfShape", "Range", "RMSNormalization", "Swish"}
    assert set(OPERATORS) - {case.op for case in CASES} == elsewhere


def test_logarithms_and_roots(tmp_path: Path) -> None:
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("Log", ["a"], ["l"]),
        node("Sqrt", ["a"], ["s"]),
        node("ReduceLogSum", ["a"], ["r"]),
    ]
    path = saved(model(nodes, {"x": (FLOAT, (2, 3))}, ["l", "s", "r"]), tmp_path)
    x = random(2, 3)
    for mine, expected in zip(from_onnx(path)(x), by_runtime(path, x), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_ceil_mode_has_as_many_windows_as_onnxruntime(kernel: int, stride: int, tmp_path: Path) -> None:
    for begin, end, dilation in product(range(2), range(kernel), (1, 2)):
        options: dict[str, Any] = {"kernel_shape": [kernel], "strides": [stride], "pads": [begin, end], "dilations": [dilation]}
        pooling = node("MaxPool", ["x"], ["y"], **options, ceil_mode=1)
        path = saved(model([pooling], {"x": (FLOAT, ("batch", 2, "steps"))}, ["y"]), tmp_path)
        module = from_onnx(path)
        for steps in range((kernel - 1) * dilation + 1, 12):
            x = random(1, 2, steps)
            torch.testing.assert_close(module(x), by_runtime(path, x)[0], msg=f"{options}, {steps} steps")


def test_maxpool_with_same_padding_and_dilations_is_refused(tmp_path: Path) -> None:
    pooling = node("MaxPool", ["x"], ["y"], kernel_shape=[2], auto_pad="SAME_UPPER", dilations=[2])
    with pytest.raises(ModelError, match="MaxPool is read with auto_pad 'SAME_UPPER' only without dilations"):
        from_onnx(saved(model([pooling], {"x": (FLOAT, (1, 2, 7))}, ["y"]), tmp_path))


@pytest.mark.parametrize("p", [1, 2])
def test_small_vectors_are_normalised_too(p: int, tmp_path: Path) -> None:
    path = saved(model([node("LpNormalization", ["x"], ["y"], p=p)], {"x": (FLOAT, ("n", 3))}, ["y"]), tmp_path)
    x = torch.tensor([1.0, 1e-13, 1e-20, 1e-30, 0.0])[:, None] * torch.tensor([1.0, -2.0, 3.0])
    module = from_onnx(path)
    torch.testing.assert_close(module(x), by_runtime(path, x)[0])
    result = whence.relevance(module, x[:2], target=1)
    result.check()


def test_of_equal_numbers_topk_takes_the_first(tmp_path: Path) -> None:
    path = saved(model([node("TopK", ["x", "k"], ["v", "i"])], {"x": (FLOAT, (1, 6))}, ["v", "i"], {"k": whole(3)}), tmp_path)
    assert from_onnx(path)(torch.tensor([[1.0, 3.0, 1.0, 3.0, 3.0, 0.0]]))[1].tolist() == [[1, 3, 4]]


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        (["", np.array([1, 1, 0.6], dtype=np.float32)], {"mode": "linear"}),
        (["", "", whole(1, 2, 8)], {"coordinate_transformation_mode": "align_corners"}),
        (["", "", whole(1, 2, 8)], {"nearest_mode": "ceil"}),
        (["", "", whole(1, 2, 8)], {"mode": "cubic"}),
    ],
)
def test_a_resize_that_pytorch_does_otherwise_is_refused(sizes: list[Any], attributes: dict[str, Any], tmp_path: Path) -> None:
    names = ["" if isinstance(each, str) else f"c{n}" for n, each in enumerate(sizes)]
    constants = {name: each for name, each in zip(names, sizes, strict=True) if name}
    proto = model([node("Resize", ["x", *names], ["y"], **attributes)], {"x": (FLOAT, (1, 2, 4))}, ["y"], constants)
    with pytest.raises(ModelError, match=r"Resize .* is not known"):
        from_onnx(saved(proto, tmp_path))


def test_operators_of_the_newest_opsets(tmp_path: Path) -> None:
    nodes = [node("RMSNormalization", ["x", "w"], ["n"]), node("Swish", ["n"], ["y"], alpha=2.0)]
    module = from_onnx(saved(model(nodes, {"x": (FLOAT, (2, 4))}, ["y"], {"w": W(4)}, opset=24), tmp_path))
    x = random(2, 4)
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * W(4)
    torch.testing.assert_close(module(x), normed * torch.sigmoid(2 * normed))


def test_shapes_are_computed_for_every_batch_and_length(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Gather", ["size", "zero"], ["batch"]),
        node("Gather", ["size", "one"], ["steps"]),
        node("Range", ["zero", "steps", "one"], ["places"]),
        node("Cast", ["places"], ["positions"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["batch", "axis"], ["batch_1"]),
        node("Concat", ["batch_1", "three"], ["wanted"], axis=0),
        node("ConstantOfShape", ["wanted"], ["half"], value=helper.make_tensor("v", FLOAT, [1], [0.5])),
        node("CastLike", ["positions", "half"], ["again"]),
        node("Unsqueeze", ["again", "last"], ["column"]),
        node("Mul", ["x", "column"], ["weighted"]),
        node("ReduceSum", ["weighted", "last_axis"], ["summed"], keepdims=0),
        node("Add", ["summed", "half"], ["y"]),
    ]
    constants = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "axis": whole(0),
        "three": whole(3),
        "last": whole(-1),
        "last_axis": whole(1),
    }
    path = saved(model(nodes, {"x": (FLOAT, ("b", "t", 3))}, ["y"], constants), tmp_path)
    module = from_onnx(path)
    for shape in ((1, 1, 3), (2, 7, 3), (5, 2, 3)):
        x = random(*shape)
        torch.testing.assert_close(module(x), by_runtime(path, x)[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(module.double()(x.double()).float(), module.float()(x), rtol=1e-5, atol=1e-5)


def lookup(*, casts: bool = False) -> Any:
    """Ids, an embedding, an LSTM as tf2onnx writes it (time first by transposes), a dense layer and a softmax."""
    nodes = [
        *([node("Cast", ["ids"], ["whole"], to=INT64)] if casts else []),
        node("Gather", ["table", "whole" if casts else "ids"], ["e"], name="embedding"),
        node("Transpose", ["e"], ["x"], perm=[1, 0, 2]),
        node("LSTM", ["x", "W", "R", "B"], ["", "h"], hidden_size=4, name="lstm"),
        node("Squeeze", ["h", "axis"], ["last"]),
        node("MatMul", ["last", "kernel"], ["m"]),
        node("Add", ["m", "bias"], ["scores"]),
        node("Softmax", ["scores"], ["y"]),
        node("ArgMax", ["y"], ["label"], axis=1, keepdims=0),
    ]
    constants = {"table": W(9, 3), "W": W(1, 16, 3), "R": W(1, 16, 4), "B": W(1, 32), "axis": whole(0)}
    constants |= {"kernel": W(4, 3), "bias": W(3)}
    kind = TensorProto.INT32 if casts else INT64
    return model(nodes, {"ids": (kind, ("batch", "time"))}, ["y"], constants)


class Lookup(nn.Module):
    """The same in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(9, 3), nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)
        order = torch.tensor([0, 2, 3, 1])  # i, o, f, c to i, f, g, o
        with torch.no_grad():
            self.table.weight.copy_(W(9, 3))
            cast(Tensor, self.lstm.weight_ih_l0).copy_(W(1, 16, 3).view(4, 4, 3)[order].reshape(16, 3))
            cast(Tensor, self.lstm.weight_hh_l0).copy_(W(1, 16, 4).view(4, 4, 4)[order].reshape(16, 4))
            b_w, b_r = W(1, 32).view(2, 4, 4)[:, order].reshape(2, 16)
            cast(Tensor, self.lstm.bias_ih_l0).copy_(b_w)
            cast(Tensor, self.lstm.bias_hh_l0).copy_(b_r)
            self.head.weight.copy_(W(4, 3).T)
            self.head.bias.copy_(W(3))

    def forward(self, ids: Tensor) -> Tensor:
        _, (h, _) = self.lstm(self.table(ids))
        return torch.softmax(self.head(h[0]), -1)


@pytest.mark.parametrize("casts", [False, True])
def test_token_ids_are_explained_as_in_pytorch(casts: bool, tmp_path: Path) -> None:
    module = from_onnx(saved(lookup(casts=casts), tmp_path))
    ids = torch.tensor([[1, 5, 8, 0], [2, 2, 7, 3]], dtype=torch.int32 if casts else torch.int64)
    original = Lookup()
    torch.testing.assert_close(module(ids), original(ids))
    found, expected = (whence.relevance(each, ids, target=2).check() for each in (module, original))
    assert found.relevance.shape == (2, 4, 3)
    torch.testing.assert_close(found.relevance, expected.relevance, rtol=1e-4, atol=1e-5)  # float32 sums in another order
    torch.testing.assert_close(found.score, expected.score)
    assert "body.lstm.layer.layer.l0.bias" in found.absorbed


@pytest.mark.filterwarnings("ignore")
def test_convolutions_and_normalisations_are_explained_as_in_pytorch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(24, 5)]
    original = nn.Sequential(*layers, nn.LayerNorm(5), nn.SiLU(), nn.Linear(5, 2)).eval()
    path = tmp_path / "model.onnx"
    torch.onnx.export(original, (random(2, 3, 8),), path, dynamo=False, opset_version=17)
    module = from_onnx(path)
    x = random(2, 3, 8)
    torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-5)
    found, expected = (whence.relevance(each, x, target=1).check() for each in (module, original))
    torch.testing.assert_close(found.relevance, expected.relevance, rtol=1e-4, atol=1e-5)  # float32 sums in another order


HALVES = {
    "last": [("Mul", ["x", "s"], "p"), ("Mul", ["p", "half"], "y")],
    "of the sum": [("Mul", ["half", "s"], "p"), ("Mul", ["p", "x"], "y")],
    "of the input": [("Mul", ["x", "half"], "p"), ("Mul", ["p", "s"], "y")],
}


@pytest.mark.parametrize("scale", ["Div", "Mul"])
@pytest.mark.parametrize("halves", HALVES)
def test_a_gelu_in_parts_is_explained_as_in_pytorch(halves: str, scale: str, tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["i", "w"], ["x"]),
        node(scale, ["x", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["s"]),
        *(node(op, given, [made]) for op, given, made in HALVES[halves]),
    ]
    root = np.float32(2**0.5 if scale == "Div" else 0.5**0.5)
    constants = {"w": W(3, 4), "root": root, "one": np.float32(1), "half": np.float32(0.5)}
    module = from_onnx(saved(model(nodes, {"i": (FLOAT, ("n", 3))}, ["y"], constants), tmp_path))
    layer = nn.Linear(3, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(W(3, 4).T)
    original, x = nn.Sequential(layer, nn.GELU()), random(2, 3)
    torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-5)
    found, expected = (whence.relevance(each, x, target=2).check() for each in (module, original))
    torch.testing.assert_close(found.relevance, expected.relevance, rtol=1e-4, atol=1e-5)  # float32 sums in another order


@pytest.mark.parametrize("change", [{"one": 2.0}, {"half": 0.25}, {"root": 1.0}])
def test_what_only_looks_like_a_gelu_is_left_as_it_is(change: dict[str, float], tmp_path: Path) -> None:
    nodes = [
        node("Div", ["x", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["s"]),
        node("Mul", ["x", "s"], ["p"]),
        node("Mul", ["p", "half"], ["y"]),
    ]
    constants = {name: np.float32(value) for name, value in {"root": 2**0.5, "one": 1.0, "half": 0.5, **change}.items()}
    path = saved(model(nodes, {"x": (FLOAT, (2, 3))}, ["y"], constants), tmp_path)
    x = random(2, 3)
    torch.testing.assert_close(from_onnx(path)(x), by_runtime(path, x)[0], rtol=1e-5, atol=1e-5)


def body(nodes: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    given, made = ([helper.make_tensor_value_info(name, FLOAT, None) for name in names] for names in (inputs, outputs))
    return helper.make_graph(nodes, "body", given, made)


def scan(**attributes: Any) -> Any:
    """A plain recurrent network as a Scan: h = tanh(x W + h R)."""
    steps = [
        node("MatMul", ["x_t", "W"], ["a"]),
        node("MatMul", ["h_in", "R"], ["b"]),
        node("Add", ["a", "b"], ["z"]),
        node("Tanh", ["z"], ["h_out"]),
        node("Identity", ["h_out"], ["y_t"]),
    ]
    step = body(steps, ["h_in", "x_t"], ["h_out", "y_t"])
    nodes = [node("Scan", ["h0", "x"], ["h", "y"], body=step, num_scan_inputs=1, **attributes)]
    constants = {"W": W(3, 4), "R": W(4, 4), "h0": np.zeros((2, 4), dtype=np.float32)}
    return model(nodes, {"x": (FLOAT, ("t", 2, 3))}, ["h", "y"], constants)


@pytest.mark.parametrize(
    "attributes", [{}, {"scan_input_directions": [1], "scan_output_directions": [1]}, {"scan_output_axes": [1]}]
)
def test_a_scan_runs_its_graph_for_each_step(attributes: dict[str, Any], tmp_path: Path) -> None:
    path = saved(scan(**attributes), tmp_path)
    x = random(6, 2, 3)
    for mine, expected in zip(from_onnx(path)(x), by_runtime(path, x), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-5)


def test_a_scan_is_explained_like_the_layer_it_is(tmp_path: Path) -> None:
    module = from_onnx(saved(scan(), tmp_path))
    layer = nn.RNN(3, 4, bias=False)
    with torch.no_grad():
        cast(Tensor, layer.weight_ih_l0).copy_(W(3, 4).T)
        cast(Tensor, layer.weight_hh_l0).copy_(W(4, 4).T)
    x = random(6, 2, 3)
    found = whence.relevance(module, x, target=lambda out: out[0][:, 1]).check()
    expected = whence.relevance(layer, x, target=lambda out: out[1][0][:, 1])
    torch.testing.assert_close(found.relevance, expected.relevance, rtol=1e-4, atol=1e-5)  # float32 sums in another order


def test_a_loop_ends_by_its_count_or_its_condition(tmp_path: Path) -> None:
    steps = [
        node("Mul", ["c", "two"], ["c_out"]),
        node("Identity", ["c_out"], ["each"]),
        node("ReduceMax", ["c_out"], ["top"], keepdims=0),
        node("Less", ["top", "limit"], ["go"]),
    ]
    turn = body(steps, ["i", "go_in", "c"], ["go", "c_out", "each"])
    constants = {"count": np.int64(9), "two": np.float32(2.0), "limit": np.float32(20.0)}
    for value, kind in ((turn.input[0], INT64), (turn.input[1], BOOL), (turn.output[0], BOOL)):
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, []))
    nodes = [node("Loop", ["count", "", "x"], ["last", "all"], body=turn)]
    path = saved(model(nodes, {"x": (FLOAT, (2, 3))}, ["last", "all"], constants), tmp_path)
    module = from_onnx(path)
    for x in (random(2, 3), torch.full((2, 3), -1.0)):
        for mine, expected in zip(module(x), by_runtime(path, x), strict=True):
            torch.testing.assert_close(mine, expected)


def test_an_if_takes_one_of_its_graphs(tmp_path: Path) -> None:
    branches = {
        "then_branch": body([node("Relu", ["x"], ["a"])], [], ["a"]),
        "else_branch": body([node("Mul", ["x", "w"], ["a"])], [], ["a"]),
    }
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], **branches),
    ]
    path = saved(model(nodes, {"x": (FLOAT, (2, 3))}, ["y"], {"zero": np.float32(0), "w": W(3)}), tmp_path)
    module = from_onnx(path)
    for x in (torch.full((2, 3), -1.0), torch.full((2, 3), 1.0)):
        torch.testing.assert_close(module(x), by_runtime(path, x)[0])


def test_functions_of_the_model_are_inlined(tmp_path: Path) -> None:
    inner = [node("Mul", ["a", "b"], ["p"]), node("LeakyRelu", ["p"], ["q"])]
    inner[1].attribute.append(helper.make_attribute("alpha", 0.5))
    inner[1].attribute[0].ref_attr_name = "slope"
    inner[1].attribute[0].ClearField("f")
    function = helper.make_function(
        "own", "Scaled", ["a", "b"], ["q"], inner, [helper.make_opsetid("", 17)], attributes=["slope"]
    )
    calls = [
        node("Scaled", ["x", "w"], ["u"], domain="own", slope=0.25),
        node("Scaled", ["u", "w"], ["y"], domain="own", slope=0.5),
    ]
    proto = model(calls, {"x": (FLOAT, (2, 3))}, ["y"], {"w": W(3)}, functions=[function], domains={"own": 1})
    path = saved(proto, tmp_path)
    x = random(2, 3)
    torch.testing.assert_close(from_onnx(path)(x), by_runtime(path, x)[0])


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_float_types_become_float32(kind: Any, tmp_path: Path) -> None:
    proto = model(
        [node("MatMul", ["x", "w"], ["y"])],
        {"x": (TensorProto.FLOAT16 if kind is np.float16 else TensorProto.DOUBLE, (2, 3))},
        ["y"],
    )
    proto.graph.initializer.append(
        helper.make_tensor("w", proto.graph.input[0].type.tensor_type.elem_type, (3, 2), W(3, 2).flatten().tolist())
    )
    path = saved(proto, tmp_path)
    if kind is np.float16:  # its own result is too coarse to compare with
        x = random(2, 3)
        module = from_onnx(path, reference=(x, x @ W(3, 2).half().float()))
    else:
        module = from_onnx(path)
    assert {each.dtype for each in module.parameters()} == {torch.float32}
    assert module.proof.startswith("compared with")


def test_heads_with_labels_and_probabilities_give_both(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "b"], ["scores"]),
        node("Softmax", ["scores"], ["p"]),
        node("ArgMax", ["p"], ["label"], axis=1, keepdims=0),
        node("Cast", ["label"], ["label32"], to=TensorProto.INT32),
    ]
    module = from_onnx(saved(model(nodes, {"x": (FLOAT, ("n", 3))}, ["label32", "p"], {"w": W(3, 4), "b": W(4)}), tmp_path))
    x = random(5, 3)
    label, p = module(x)
    assert module.outputs == ("label32", "p")
    assert label.tolist() == p.argmax(1).tolist()
    assert whence.relevance(module, x, target=lambda out: out[1][:, 2]).check().relevance.shape == (5, 3)


def test_all_that_is_not_known_is_named_at_once(tmp_path: Path) -> None:
    nodes = [
        node("Sing", ["x"], ["a"]),
        node("Sing", ["a"], ["b"]),
        node("Dance", ["b"], ["c"], domain="com.example"),
        node("Relu", ["c"], ["d"], name="r", volume=3),
        node("Concat", ["d", "d"], ["e"], name="c"),
        node("Transpose", ["e"], ["y"], name="t", perm=1.5),
    ]
    with pytest.raises(ModelError) as caught:
        from_onnx(saved(model(nodes, {"x": (FLOAT, (2, 3))}, ["y"], domains={"com.example": 1}), tmp_path))
    said = str(caught.value)
    assert "operators that are not known: Sing (2 ×), com.example.Dance" in said
    assert "Relu node 'r': attribute volume" in said
    assert "Concat node 'c': no attribute axis" in said
    assert "Transpose node 't': attribute perm of another type" in said


def test_a_node_that_needs_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the Abs node 'n2' needs 'gone', which no input and no node before makes"):
        from_onnx(saved(model([node("Abs", ["gone"], ["y"], name="n2")], {"x": (FLOAT, (2,))}, ["y"]), tmp_path))


def test_a_reference_decides(tmp_path: Path) -> None:
    path = saved(model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, None)}, ["y"]), tmp_path)
    x = random(2, 3)
    assert from_onnx(path).proof.startswith("not compared: the file does not say how many axes")
    assert (
        from_onnx(path, reference=(x.numpy(), x.relu().numpy())).proof
        == "compared with the reference: largest difference 0e+00"
    )
    with pytest.raises(ModelError, match=r"differs by 0\.5 from the reference"):
        from_onnx(path, reference=(x, x.relu() + 0.5))
    with pytest.raises(ModelError, match=r"is \(2, 3\); by the reference it is \(2, 1\)"):
        from_onnx(path, reference=(x, x[:, :1]))
    with pytest.raises(ModelError, match="the reference has 2 outputs; the model has 1: y"):
        from_onnx(path, reference=(x, (x, x)))
    with pytest.raises(ModelError, match=r"the reference compares nothing: its outputs are of shapes \(0, 3\); give at least"):
        from_onnx(path, reference=(x[:0], x[:0]))
    with pytest.raises(ModelError, match="the outputs of the reference are not all finite; give inputs for which"):
        from_onnx(path, reference=(x * torch.nan, x * torch.nan))


def test_what_is_nan_in_both_is_equal_where_something_is_finite(tmp_path: Path) -> None:
    whole = model([node("Log", ["x"], ["y"])], {"x": (FLOAT, (2, 3))}, ["y"])
    assert from_onnx(saved(whole, tmp_path)).proof.startswith("compared with onnxruntime")
    nodes = [node("Abs", ["x"], ["a"]), node("Neg", ["a"], ["n"]), node("Log", ["n"], ["y"])]
    never = model(nodes, {"x": (FLOAT, (2, 3))}, ["a", "y"])
    assert from_onnx(saved(never, tmp_path)).proof == (
        "not compared: on random inputs, no number of the output 'y' is finite; give reference=(inputs, outputs)"
    )


def test_a_number_beside_nan_is_a_difference(tmp_path: Path) -> None:
    path = saved(model([node("Sqrt", ["x"], ["y"])], {"x": (FLOAT, (1, 2))}, ["y"]), tmp_path)
    with pytest.raises(ModelError, match="the output 'y' differs in what is NaN from the reference; it is not the same model"):
        from_onnx(path, reference=(torch.tensor([[-1.0, 4.0]]), torch.tensor([[1.0, 2.0]])))


def test_without_onnxruntime_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2, 3))}, ["y"]), tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert from_onnx(path).proof == "not compared: onnxruntime is not installed"


def test_without_onnx_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2, 3))}, ["y"]), tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"needs onnx; run: pip install 'whence\[onnx\]'"):
        from_onnx(path)


def test_a_product_plus_what_depends_on_the_input_is_explained(tmp_path: Path) -> None:
    """As tf2onnx writes a cell's two products: the second as the bias of the first."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("ReduceMean", ["m"], ["bias"], axes=[0], keepdims=0),
        node("Gemm", ["x", "w", "bias"], ["y"]),
    ]
    module = from_onnx(saved(model(nodes, {"x": (FLOAT, (1, 3))}, ["y"], {"w": W(3, 4)}), tmp_path))
    x = random(1, 3)
    torch.testing.assert_close(module(x), 2 * x @ W(3, 4))
    assert whence.relevance(module, x, target=1).check().relevance.shape == (1, 3)


def test_the_number_of_inputs_is_checked(tmp_path: Path) -> None:
    module = from_onnx(saved(lookup(), tmp_path))
    with pytest.raises(InputError, match="got 2 inputs; it needs 1: ids"):
        module(torch.zeros(1, 2), torch.zeros(1))


def test_it_is_saved_as_settings_and_weights(tmp_path: Path) -> None:
    for proto in (lookup(), scan()):
        module = from_onnx(saved(proto, tmp_path))
        settings, weights = json.dumps(module.settings(), allow_nan=False), save(module.state_dict())
        with torch.device("meta"):
            built = OnnxModule.built(json.loads(settings))
        built.load_state_dict(load(weights), assign=True)
        x = torch.tensor([[1, 2, 3]]) if proto.graph.input[0].name == "ids" else random(4, 2, 3)
        one, two = (each if isinstance(each, tuple) else (each,) for each in (built(x), module(x)))
        for mine, other in zip(one, two, strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=0)
