"""ONNX's recurrent operators with all their options: scores as onnxruntime's, relevance as that of the model in PyTorch."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

import whence
from tests.imports.onnx_models import FLOAT, INT32, by_runtime, model, random, saved
from whence.errors import InputError, ModelError
from whence.imports.onnx import recurrent as module_of_recurrent
from whence.imports.onnx.importing import from_onnx
from whence.imports.onnx.module import OnnxModule
from whence.imports.onnx.recurrent import Recurrent

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
I, H, T, B = 3, 4, 5, 2


def recurrent(
    op: str,
    *,
    direction: str = "forward",
    bias: bool = True,
    lengths: bool = False,
    states: bool = False,
    peepholes: bool = False,
    layout: int = 0,
    clip: float | None = None,
    **attributes: Any,
) -> Any:
    """A recurrent node, and a linear layer on its final state h."""
    d, rows = 2 if direction == "bidirectional" else 1, GATES[op] * H
    constants: dict[str, Any] = {"W": random(d, rows, I), "R": random(d, rows, H, seed=1)}
    inputs: dict[str, Any] = {"x": (FLOAT, ("batch", "time", I) if layout else ("time", "batch", I))}
    names = ["x", "W", "R", "", "", "", "", ""]
    if bias:
        constants["B"], names[3] = random(d, 2 * rows, seed=2), "B"
    if lengths:
        inputs["lengths"], names[4] = (INT32, ("batch",)), "lengths"
    if states:
        shape = ("batch", d, H) if layout else (d, "batch", H)
        inputs["h0"], names[5] = (FLOAT, shape), "h0"
        if op == "LSTM":
            inputs["c0"], names[6] = (FLOAT, shape), "c0"
    if peepholes:
        constants["P"], names[7] = random(d, 3 * H, seed=3), "P"
    while not names[-1]:
        names.pop()
    if clip is not None:
        attributes["clip"] = clip
    finals = ["h", "c"] if op == "LSTM" else ["h"]
    node = helper.make_node(
        op, names, ["y", *finals], name="cell", direction=direction, hidden_size=H, layout=layout, **attributes
    )
    return model([node], inputs, ["y", *finals], constants)


def weights_of(proto: Any) -> dict[str, Tensor]:
    """W, R, B and P, if it has one."""
    found = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in proto.graph.initializer}
    return {name: found[name] for name in "WRBP" if name in found}


def given(proto: Any) -> list[Tensor]:
    layout = next((each.i for each in proto.graph.node[0].attribute if each.name == "layout"), 0)
    sizes = {"batch": B, "time": T}
    found: list[Tensor] = []
    for each in proto.graph.input:
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in each.type.tensor_type.shape.dim]
        found.append(torch.tensor([T, 3], dtype=torch.int32) if each.name == "lengths" else random(*shape, seed=layout))
    return found


OPTIONS: list[dict[str, Any]] = [
    *(
        {"op": op, "direction": direction, "lengths": lengths, "states": lengths}
        for op in GATES
        for direction in ("forward", "reverse", "bidirectional")
        for lengths in (False, True)
    ),
    *({"op": op, "bias": False} for op in GATES),
    *({"op": op, "states": True} for op in GATES),
    *({"op": op, "clip": 0.3, "direction": "bidirectional", "lengths": True} for op in GATES),
    {"op": "LSTM", "peepholes": True, "direction": "bidirectional", "lengths": True, "states": True},
    {"op": "LSTM", "peepholes": True, "clip": 0.5},
    {"op": "LSTM", "activations": ["HardSigmoid", "Softsign", "Relu"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    {"op": "LSTM", "activations": ["Sigmoid", "ScaledTanh", "Elu"], "activation_alpha": [1.5, 0.7], "activation_beta": [0.6]},
    {"op": "GRU", "linear_before_reset": 1},
    {"op": "GRU", "linear_before_reset": 1, "direction": "bidirectional", "lengths": True, "states": True},
    {"op": "GRU", "linear_before_reset": 1, "direction": "reverse", "lengths": True},
    {"op": "GRU", "linear_before_reset": 1, "clip": 0.4},
    {"op": "GRU", "activations": ["HardSigmoid", "LeakyRelu"], "activation_alpha": [0.25, 0.1], "activation_beta": [0.5]},
    {"op": "RNN", "activations": ["Relu"]},
    {"op": "RNN", "activations": ["Relu", "Tanh"], "direction": "bidirectional"},
    {"op": "RNN", "activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: " ".join(f"{key}={value}" for key, value in each.items()))
def test_a_cell_gives_what_onnxruntime_gives(options: dict[str, Any], tmp_path: Path) -> None:
    proto = recurrent(**options)
    path = saved(proto, tmp_path)
    inputs = given(proto)
    for found, expected in zip(from_onnx(path)(*inputs), by_runtime(path, *inputs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)  # float32, as asked for


@pytest.mark.parametrize("clip", [None, 0.5])  # PyTorch's layer, and step by step
@pytest.mark.parametrize("counts", [[T, 0], [T, -1], [T, T + 1], [T]])
def test_lengths_that_no_sequence_can_have_are_refused(clip: float | None, counts: list[int], tmp_path: Path) -> None:
    module = from_onnx(saved(recurrent("LSTM", lengths=True, clip=clip), tmp_path))
    with pytest.raises(InputError, match=rf"\(sequence_lens\) are \[.*\]; they must be {B} numbers from 1 to {T}"):
        module(random(T, B, I), torch.tensor(counts, dtype=torch.int32))


@pytest.mark.parametrize("layout", [0, 1])
def test_models_with_lengths_are_tried_with_different_ones(
    layout: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[list[int], int]] = []
    read = module_of_recurrent._read  # pyright: ignore

    def noted(lengths: Tensor, x: Tensor) -> list[int]:
        tried.append((lengths.tolist(), x.shape[0]))  # pyright: ignore
        return read(lengths, x)

    monkeypatch.setattr(module_of_recurrent, "_read", noted)
    from_onnx(saved(recurrent("LSTM", lengths=True, layout=layout), tmp_path))
    assert len(tried) == 3 and all(counts[0] == steps for counts, steps in tried)
    assert all(len(set(counts)) == min(len(counts), steps) for counts, steps in tried)


@pytest.mark.parametrize("op", GATES)
def test_layout_1_is_layout_0_transposed(op: str, tmp_path: Path) -> None:
    """onnxruntime has no layout 1 on the CPU."""
    other = from_onnx(saved(recurrent(op, states=True), tmp_path, "other.onnx"))
    module = from_onnx(saved(recurrent(op, states=True, layout=1), tmp_path))
    inputs = [random(B, T, I), *(random(B, 1, H, seed=n) for n in range(2 if op == "LSTM" else 1))]
    y, *finals = module(*inputs)
    y0, *finals0 = other(*(each.transpose(0, 1) for each in inputs))
    torch.testing.assert_close(y, y0.permute(2, 0, 1, 3))
    for one, two in zip(finals, finals0, strict=True):
        torch.testing.assert_close(one, two.transpose(0, 1))


def test_input_forget_couples_the_gates(tmp_path: Path) -> None:
    proto = recurrent("LSTM", input_forget=1)
    path = saved(proto, tmp_path)
    x = random(T, B, I)
    y, _, _ = from_onnx(path)(x)
    torch.testing.assert_close(y, by_runtime(path, x)[0], rtol=1e-5, atol=1e-5)
    w, r, b = (weight[0] for weight in weights_of(proto).values())
    h = c = torch.zeros(B, H)
    for step, expected in zip(x, y, strict=True):
        i, o, _, g = (step @ w.T + h @ r.T + b[:16] + b[16:]).chunk(4, -1)
        c = (1 - i.sigmoid()) * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        torch.testing.assert_close(expected[0], h, rtol=1e-5, atol=1e-5)


class Classifier(nn.Module):
    """A PyTorch layer and a linear layer on its last state."""

    def __init__(self, layer: nn.RNNBase, *, directions: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(directions * H, 3)

    def forward(self, x: Tensor) -> Tensor:
        _, finals = self.layer(x)
        h = finals[0] if isinstance(finals, tuple) else finals
        return self.head(h[-self.head.in_features // H :].transpose(0, 1).flatten(1))  # of the last layer


def exported(module: Classifier, path: Path, *, dynamo: bool) -> Path:
    x = random(B, T, I)
    if dynamo:
        shapes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
        program = torch.onnx.export(module, (x,), dynamic_shapes=shapes, dynamo=True, verbose=False)
        assert program is not None
        program.save(path)
    else:
        axes = {"x": {0: "batch", 1: "time"}}
        torch.onnx.export(module, (x,), path, input_names=["x"], dynamic_axes=axes, dynamo=False)
    return path


@pytest.mark.filterwarnings("ignore")  # the exporters warn of their own deprecations
@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_what_pytorch_exports_is_explained_as_in_pytorch(kind: type[nn.RNNBase], both: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = cast(Any, kind)(I, H, num_layers=2, batch_first=True, bidirectional=both)
    original = Classifier(layer, directions=1 + both).eval()
    module = from_onnx(exported(original, tmp_path / "model.onnx", dynamo=False))
    assert "compared with onnxruntime" in module.proof
    assert sum(isinstance(each, kind) for each in module.modules()) == 2
    _assert_explained_alike(module, original, random(3, 7, I))


@pytest.mark.filterwarnings("ignore")
def test_what_the_new_exporter_writes_is_explained_as_in_pytorch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    original = Classifier(nn.LSTM(I, H, batch_first=True, bidirectional=True), directions=2).eval()
    module = from_onnx(exported(original, tmp_path / "model.onnx", dynamo=True))
    assert "compared with onnxruntime" in module.proof
    _assert_explained_alike(module, original, random(B, T, I))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True])
def test_a_file_for_one_size_of_batch_says_so(dynamo: bool, tmp_path: Path) -> None:
    original, path = Classifier(nn.LSTM(I, H, batch_first=True), directions=1).eval(), tmp_path / "model.onnx"
    x = random(2, 6, I)
    torch.onnx.export(original, (x,), path, input_names=["x"], dynamo=dynamo, verbose=False)
    module = from_onnx(path)
    torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-6)
    says = (
        r"^x has the shape \(1, 6, 3\), and the file was exported for \(2, 6, 3\) alone; export it with dynamic axes, or give"
    )
    with pytest.raises(InputError, match=says):
        whence.explain_series(module, x[0])
    with pytest.raises(InputError, match=says):
        whence.relevance(module, x[:1], target=0)


def _assert_explained_alike(module: nn.Module, original: nn.Module, x: Tensor) -> None:
    torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-5)
    for method in (whence.LRP(), whence.LRP(epsilon=0.01, delta=1.0)):
        found = whence.relevance(module, x, target=1, method=method).check()
        expected = whence.relevance(original, x, target=1, method=method)
        torch.testing.assert_close(found.relevance, expected.relevance, rtol=1e-4, atol=1e-5)  # float32 sums in another order
        total = found.relevance.sum((1, 2)) + torch.stack(list(found.absorbed.values())).sum(0)
        torch.testing.assert_close(total, found.score, rtol=1e-4, atol=1e-5)


class ByHand(nn.Module):
    """The cells that PyTorch has no layer for, as one would write them: GRU with an early reset, LSTM with peepholes."""

    def __init__(self, op: str, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.op = op
        self.weights = nn.ParameterDict(weights)

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros(x.shape[1], H)
        w, r, biases = (self.weights[name][0] for name in "WRB")
        b_w, b_r = biases.chunk(2)
        for step in x:
            if self.op == "GRU":
                x_z, x_r, x_h = F.linear(step, w, b_w).chunk(3, -1)
                h_z, h_r = F.linear(h, r[: 2 * H], b_r[: 2 * H]).chunk(2, -1)
                z, reset = torch.sigmoid(x_z + h_z), torch.sigmoid(x_r + h_r)
                n = torch.tanh(x_h + F.linear(reset * h, r[2 * H :], b_r[2 * H :]))
                h = (1 - z) * n + z * h
            else:
                i, o, f, g = (F.linear(step, w, b_w) + F.linear(h, r, b_r)).chunk(4, -1)
                p_i, p_o, p_f = self.weights["P"][0].chunk(3)
                i, f = torch.sigmoid(i + p_i * c), torch.sigmoid(f + p_f * c)
                c = f * c + i * torch.tanh(g)
                h = torch.sigmoid(o + p_o * c) * torch.tanh(c)
        return h


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
def test_a_cell_without_a_layer_is_explained_as_by_hand(op: str, tmp_path: Path) -> None:
    proto = recurrent(op, peepholes=op == "LSTM")
    del proto.graph.output[0], proto.graph.output[1:]
    squeeze = helper.make_node("Squeeze", ["h", "axes"], ["scores"])
    proto.graph.node.append(squeeze)
    proto.graph.initializer.append(helper.make_tensor("axes", 7, [1], [0]))
    proto.graph.output[0].name = "scores"
    module = from_onnx(saved(proto, tmp_path))
    original = ByHand(op, weights_of(proto))
    x = random(T, B, I)
    torch.testing.assert_close(module(x), original(x))
    found = whence.relevance(module, x, target=2).check()
    torch.testing.assert_close(found.relevance, whence.relevance(original, x, target=2).relevance, rtol=1e-4, atol=1e-5)


def test_weights_that_the_file_rearranges_are_read(tmp_path: Path) -> None:
    """As PyTorch exports a scripted model: gates are cut out and put together in ONNX's order, inside a branch."""
    rows, x = 4 * H, helper.make_tensor_value_info
    w, r = random(rows, I), random(rows, H)
    nodes = [helper.make_node("Constant", [], ["flat_w"], value=numpy_helper.from_array(w.numpy()))]
    nodes += [helper.make_node("Slice", ["flat_w", f"a{n}", f"b{n}", "axis"], [f"g{n}"]) for n in range(4)]
    nodes += [
        helper.make_node("Concat", ["g0", "g3", "g1", "g2"], ["ordered"], axis=0),
        helper.make_node("Unsqueeze", ["ordered", "axis"], ["W"]),
        helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=H),
    ]
    branch = helper.make_graph(nodes, "branch", [], [x("y", FLOAT, None)])
    call = helper.make_node("If", ["yes"], ["out"], then_branch=branch, else_branch=branch)
    constants: dict[str, Any] = {"R": r[None], "axis": np.array([0]), "yes": np.array(True)}
    for n in range(4):
        constants |= {f"a{n}": np.array([n * H]), f"b{n}": np.array([(n + 1) * H])}
    path = saved(model([call], {"x": (FLOAT, ("time", "batch", I))}, ["out"], constants), tmp_path)
    module = from_onnx(path)
    given = random(T, B, I)
    torch.testing.assert_close(module(given), by_runtime(path, given)[0], rtol=1e-5, atol=1e-5)
    assert any(isinstance(each, nn.LSTM) for each in module.modules())


def test_a_plain_cell_is_pytorchs_own_layer(tmp_path: Path) -> None:
    layers = {op: from_onnx(saved(recurrent(op, **more), tmp_path)) for op, more in {"LSTM": {}, "RNN": {}}.items()}
    assert any(isinstance(each, nn.LSTM) for each in layers["LSTM"].modules())
    late = from_onnx(saved(recurrent("GRU", linear_before_reset=1), tmp_path))
    early = from_onnx(saved(recurrent("GRU"), tmp_path))
    assert any(isinstance(each, nn.GRU) for each in late.modules())
    assert not any(isinstance(each, nn.GRU) for each in early.modules())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": 7}, "hidden_size is 7, but its weights are for 4"),
        ({"direction": "sideways"}, "direction 'sideways' is not known"),
        ({"activations": ["Sigmoid", "Tanh", "Sine"]}, "are not known"),
        ({"activations": ["Sigmoid"]}, "are not known"),
        ({"fancy": 1}, "attribute fancy"),
        ({"clip": "wide"}, "attribute clip of another type"),
    ],
)
def test_what_a_cell_cannot_mean_is_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    proto = recurrent("LSTM")
    node = proto.graph.node[0]
    kept = [each for each in node.attribute if each.name not in change]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in change.items())])
    with pytest.raises(ModelError, match=says):
        from_onnx(saved(proto, tmp_path))


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    proto = recurrent("LSTM")
    proto.graph.node[0].op_type = "GRU"
    proto.graph.node[0].output.pop()
    del proto.graph.output[2:]
    with pytest.raises(ModelError, match=r"weights of shapes .* do not belong to a forward GRU"):
        from_onnx(saved(proto, tmp_path))


def test_a_module_is_built_from_its_settings_alone(tmp_path: Path) -> None:
    module = from_onnx(saved(recurrent("LSTM", peepholes=True, direction="bidirectional", states=True), tmp_path))
    settings = json.loads(json.dumps(module.settings()))
    with torch.device("meta"):
        built = OnnxModule.built(settings)
    assert all(each.is_meta for each in built.parameters())
    built.load_state_dict(module.state_dict(), assign=True)
    inputs = [random(T, B, I), random(2, B, H), random(2, B, H, seed=1)]
    for one, two in zip(built(*inputs), module(*inputs), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)
    assert not any(isinstance(each, Recurrent) and each.layer is not None for each in built.modules())
