"""An imported Keras model gives Keras' scores, and relevance that adds up and is that of the same model in plain PyTorch."""

import io
import json
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from tests.imports.keras_models import CASES, WORDS, E, L, U, functional, keras, saved, seeded, series, words
from whence.errors import ModelError
from whence.imports.keras import KerasModule, from_keras, read_model
from whence.imports.keras.plan import Plan
from whence.imports.keras.proof import random_inputs

h5py: Any = import_module("h5py")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::keras")]  # Keras warns of itself

IN_H5 = """
    LSTM-plain GRU-words SimpleRNN-mask GRU-before-plain Bidirectional-LSTM-words Bidirectional-two-kinds two-layers stateful
    Conv1D training-only BatchNormalization PReLU Normalization TimeDistributed encoder-decoder shared nested frozen
    several-outputs operations passed-on masked-concatenate MultiHeadAttention-masked
""".split()


def outputs(value: Any) -> list[Tensor]:
    return [torch.as_tensor(each).detach() for each in (value if isinstance(value, (list, tuple)) else [value])]


def answered(model: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What Keras itself says."""
    for layer in model.layers:
        if getattr(layer, "stateful", False):
            layer.reset_state()
    arrays = [each.numpy() for each in inputs]
    return outputs(model(arrays if len(arrays) > 1 else arrays[0], training=False))


def imported(model: Any, folder: Path, suffix: str = ".keras") -> tuple[KerasModule, Plan]:
    content = saved(model, folder, suffix).read_bytes()
    with pytest.MonkeyPatch.context() as patch:  # Keras has just written it: no other process need try it first
        patch.setattr("whence.imports.keras.files.require_readable", lambda content, folders: None)
        module, plan, _, _ = read_model(content)
    return module, plan


@pytest.mark.parametrize(("name", "suffix"), [*((name, ".keras") for name in CASES), *((name, ".h5") for name in IN_H5)])
def test_scores_are_those_of_keras(name: str, suffix: str, tmp_path: Path) -> None:
    model = CASES[name]()
    module, plan = imported(model, tmp_path, suffix)
    again = KerasModule.built(json.loads(json.dumps(module.settings())))
    again.load_state_dict(module.state_dict())
    inputs = random_inputs(plan, 5, seed=0)
    found = outputs(module(*inputs))
    for ours, theirs in zip(found, answered(model, inputs), strict=True):
        assert_close(ours, theirs, atol=1e-5, rtol=1e-5)  # float32: both add up in their own order
    assert_close(outputs(again(*inputs)), found, atol=0, rtol=0)


EXPLAINED = """
    LSTM-words GRU-mask SimpleRNN-words GRU-before-words Bidirectional-LSTM-words two-layers Conv1D global-pooling-words
    BatchNormalization masked-AdditiveAttention MultiHeadAttention-masked encoder-decoder nested
""".split()


@pytest.mark.parametrize("name", EXPLAINED)
def test_relevance_adds_up_to_the_score(name: str, tmp_path: Path) -> None:
    module, plan = imported(CASES[name](), tmp_path)
    inputs = random_inputs(plan, 5, seed=0)

    def total(found: Tensor | tuple[Tensor, ...]) -> Tensor:
        return torch.stack([each.flatten(1).sum(1) for each in outputs(found)]).sum(0)

    result = whence.relevance(module, tuple(inputs) if len(inputs) > 1 else inputs[0], target=total)
    spread = torch.stack([*(each.flatten(1).sum(1) for each in outputs(result.relevance)), *result.absorbed.values()]).sum(0)
    assert_close(spread, result.score, atol=1e-4, rtol=1e-4)  # float32, sums of some hundred amounts


class Plain(nn.Module):
    """An embedding, a recurrent layer and a classifier, as one writes them in PyTorch."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(WORDS, E), layer
        self.classifier = nn.Linear(layer.hidden_size * (1 + layer.bidirectional), 3)

    def forward(self, ids: Tensor) -> Tensor:
        _, final = self.layer(self.embedding(ids))
        h = final[0] if isinstance(final, tuple) else final
        return self.classifier(torch.cat(list(h), -1))


def by_hand(kind: str, weights: Sequence[Tensor]) -> Plain:
    """The model of Keras' weights: an embedding, one or two directions with kernel, recurrent kernel and bias, a classifier."""
    layers = {"LSTM": nn.LSTM, "GRU": nn.GRU, "SimpleRNN": nn.RNN}
    is_both = kind.startswith("Bidirectional ")
    cell = kind.removeprefix("Bidirectional ")
    plain = Plain(layers[cell](E, U, batch_first=True, bidirectional=is_both))
    order = {"LSTM": [0, 1, 2, 3], "GRU": [1, 0, 2], "SimpleRNN": [0]}[cell]
    state = {"embedding.weight": weights[0], "classifier.weight": weights[-2].T, "classifier.bias": weights[-1]}
    for n, end in enumerate(("", "_reverse")[: 1 + is_both]):
        kernel, recurrent, bias = weights[1 + 3 * n : 4 + 3 * n]
        rows = list(bias) if bias.dim() == 2 else [bias, torch.zeros_like(bias)]
        numbers = [kernel.T, recurrent.T, *rows]
        for name, each in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), numbers, strict=True):
            gates = each.chunk(len(order))
            state[f"layer.{name}_l0{end}"] = torch.cat([gates[gate] for gate in order])
    plain.load_state_dict(state)
    return plain.eval()


@pytest.mark.parametrize("kind", [f"{both}{cell}" for both in ("", "Bidirectional ") for cell in ("LSTM", "GRU", "SimpleRNN")])
def test_relevance_is_that_of_the_same_model_in_pytorch(kind: str, tmp_path: Path) -> None:
    layer = getattr(L, kind.removeprefix("Bidirectional "))(U)
    model = words(L.Bidirectional(layer) if kind.startswith("B") else layer, L.Dense(3))
    module, _ = imported(model, tmp_path)
    plain = by_hand(kind, [torch.as_tensor(each) for each in model.get_weights()])
    kept = torch.tensor([[3, 1, 6, 2]])
    padded = torch.tensor([[0, 3, 0, 1, 6, 2, 0]])  # the masked words must not count
    for target in range(3):
        expected = cast(Tensor, whence.relevance(plain, kept, target=target).relevance)
        alone = cast(Tensor, whence.relevance(module, kept, target=target).relevance)
        found = cast(Tensor, whence.relevance(module, padded, target=target).relevance)
        assert_close(alone, expected, atol=1e-6, rtol=1e-4)  # float32
        assert_close(found[:, [1, 3, 4, 5]], expected, atol=1e-6, rtol=1e-4)
        assert found[:, [0, 2, 6]].abs().max() == 0


def test_relevance_starts_before_the_softmax_of_keras(tmp_path: Path) -> None:
    module, _ = imported(series(L.LSTM(U), L.Dense(3, activation="softmax")), tmp_path)
    x = torch.randn(2, 4, E)
    assert_close(module(x).sum(-1), torch.ones(2))
    result = whence.relevance(module, x, target=1)
    assert_close(result.score, torch.log(module(x))[:, 1] + (result.score - torch.log(module(x))[:, 1]))
    assert (result.score - torch.log(module(x))[:, 1]).abs().min() > 1e-3  # a score, and no log probability


def test_the_import_is_compared_with_keras(tmp_path: Path) -> None:
    module = from_keras(saved(words(L.LSTM(U), L.Dense(2)), tmp_path, ".keras"))
    assert module.proof.startswith(f"compared with keras {keras.__version__} on 3 inputs: largest difference ")
    assert module.inputs == ("input_layer",) or len(module.inputs) == 1
    assert not module.training and not any(each.requires_grad for each in module.parameters())


def test_the_import_is_compared_with_a_reference(tmp_path: Path) -> None:
    model = series(L.LSTM(U), L.Dense(2))
    path = saved(model, tmp_path, ".h5")
    x = torch.randn(2, 4, E)
    (right,) = answered(model, [x])
    assert from_keras(path, reference=(x, right)).proof.startswith("compared with the reference: largest difference ")
    assert from_keras(path, reference=(x.double().numpy(), right.double().numpy())).proof.startswith("compared with the ref")
    with pytest.raises(
        ModelError, match=r"the output 'dense\w*' differs by 0\.001 from the reference; it is not the same model"
    ):
        from_keras(path, reference=(x.numpy(), right.numpy() + 1e-3))
    with pytest.raises(ModelError, match=r"reference must be \(inputs, outputs\)"):
        from_keras(path, reference=right)


@pytest.mark.parametrize(
    ("inputs", "given", "says"),
    [
        (torch.randn(0, 4, E), torch.randn(0, 2), r"the reference compares nothing: its outputs are of shapes \(0, 2\)"),
        (torch.randn(2, 4, E), torch.full((2, 2), torch.nan), "the outputs of the reference are not all finite; give inputs"),
        (torch.randn(2, 4, E + 1), torch.randn(2, 2), rf"cannot be run with inputs of shapes \(2, 4, {E + 1}\): "),
        (torch.randn(2, 0, E), torch.randn(2, 2), rf"cannot be run with inputs of shapes \(2, 0, {E}\): "),
        (np.array(["a"]), torch.randn(2, 2), "the reference holds something that is no array: "),
        (torch.randn(2, 4, E), (torch.randn(2, 2),) * 2, r"the reference has 2 outputs; the model has 1: dense\w*"),
    ],
)
def test_a_reference_that_proves_nothing_is_refused(inputs: Any, given: Any, says: str, tmp_path: Path) -> None:
    path = saved(series(L.LSTM(U), L.Dense(2)), tmp_path, ".keras")
    with pytest.raises(ModelError, match=says):
        from_keras(path, reference=(inputs, given))


def test_inputs_and_outputs_by_name_are_matched_by_name(tmp_path: Path) -> None:
    a, b = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    h = L.Concatenate()([a, L.Rescaling(2.0)(b)])
    inner = keras.Model({"z": a, "c": b}, {"y": L.Dense(2)(h), "x": L.Dense(2)(h)})
    module = from_keras(saved(inner, tmp_path, ".keras"))
    assert module.inputs == ("c", "z") and module.outputs == ("x", "y") and module.proof.startswith("compared with keras")
    one, two = torch.randn(1, 3), torch.randn(1, 3)
    expected = inner({"z": one, "c": two})
    assert_close(module(two, one), (expected["x"].detach(), expected["y"].detach()))
    assert KerasModule.built(module.settings()).outputs == module.outputs


def test_a_model_inside_has_its_named_outputs_in_the_order_of_keras(tmp_path: Path) -> None:
    a = keras.Input((3,))
    inner = keras.Model(a, {"y": L.Dense(2)(a), "x": L.Dense(2)(a)})
    found = inner(a)
    module = from_keras(saved(keras.Model(a, L.Subtract(name="gap")([found["y"], found["x"]])), tmp_path, ".keras"))
    assert module.outputs == ("gap",) and module.proof.startswith("compared with keras")


def test_names_of_outputs_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    settings = imported(series(L.LSTM(U)), tmp_path)[0].settings()
    with pytest.raises(ModelError, match=r"the names of the outputs are \['a', 'b'\]; they must be 1 texts"):
        KerasModule.built({**settings, "names": ["a", "b"]})


def test_without_keras_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    module = from_keras(saved(series(L.LSTM(U)), tmp_path, ".keras"))
    assert module.proof == "not compared: keras is not installed"


def test_all_that_is_not_supported_is_named_at_once(tmp_path: Path) -> None:
    model = series(L.Conv1D(2, 2), L.GroupNormalization(1), L.SeparableConv1D(2, 2), steps=6)
    with pytest.raises(
        ModelError, match=r"not supported: 'group_norm\w*' is a GroupNorm.*; 'sep\w*' is a SeparableConv1D layer"
    ):
        from_keras(saved(model, tmp_path, ".keras"))
    model = functional(
        lambda a: [L.ReLU(threshold=1.0)(a), L.Reshape((2, 3))(L.AveragePooling1D(2, padding="same")(a))], (4, E)
    )
    with pytest.raises(ModelError, match=r"threshold is 1\.0; only 0 is supported; .*padding is 'same'; known are valid"):
        from_keras(saved(model, tmp_path, ".keras"))


def test_a_fully_masked_sample_keeps_its_zeros(tmp_path: Path) -> None:
    model = words(L.LSTM(U, return_sequences=True), L.Bidirectional(L.GRU(U)))
    module, _ = imported(model, tmp_path)
    ids = torch.tensor([[0, 0, 0], [1, 0, 2]], dtype=torch.int32)
    assert_close(module(ids), answered(model, [ids])[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("layer", [lambda: L.LSTM(U), lambda: L.Bidirectional(L.GRU(U)), lambda: L.LSTM(U, activation="relu")])
def test_steps_with_the_mask_value_have_no_relevance(layer: Any, tmp_path: Path) -> None:
    module, _ = imported(series(L.Masking(-9.0), layer(), L.Dense(2)), tmp_path)
    x = torch.randn(2, 6, E)
    x[0, 4:] = x[1, 0] = -9.0
    result = whence.relevance(module, x, target=1).check()
    steps = result.relevance.abs().sum(-1)
    assert steps[0, 4:].tolist() == [0, 0] and steps[1, 0] == 0 and bool((steps[0, :4] > 0).all())


@pytest.mark.parametrize(
    "statistics", [{"mean": [1.0, 2.0, 3.0], "variance": [1.0, 0.0, 4.0]}, {"mean": 1.0, "variance": 2.0, "axis": None}]
)
def test_statistics_may_be_options(statistics: dict[str, Any], tmp_path: Path) -> None:
    module = from_keras(saved(series(L.Normalization(**statistics), L.Dense(2)), tmp_path, ".keras"))
    assert module.proof.startswith("compared with keras")
    again = KerasModule.built(json.loads(json.dumps(module.settings())))
    again.load_state_dict(module.state_dict())
    x = torch.randn(2, 4, E)
    assert_close(again(x), module(x))


def test_options_without_weights_of_their_own_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\(LayerNormalization\): its option 'rms_scaling' = True is not supported"):
        from_keras(saved(series(L.LayerNormalization(rms_scaling=True)), tmp_path, ".keras"))
    with pytest.raises(ModelError, match="its option 'invert' = True is not supported"):
        from_keras(saved(series(L.Normalization(mean=1.0, variance=2.0, axis=None, invert=True)), tmp_path, ".keras"))


def test_a_precision_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"not supported: 'dense\w*' computes in 'bfloat16'"):
        from_keras(saved(keras.Sequential([keras.Input((E,)), L.Dense(2, dtype="bfloat16")]), tmp_path, ".keras"))


def test_inputs_of_whole_numbers_are_compared_on_whole_numbers(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((None, E), dtype="int32"), L.LSTM(U), L.Dense(2)])
    module = from_keras(saved(model, tmp_path, ".keras"))
    assert module.proof.startswith("compared with keras")
    x = torch.randint(0, 4, (2, 5, E), dtype=torch.int32)
    assert_close(module(x), answered(model, [x])[0], atol=1e-6, rtol=1e-5)
    assert_close(module(x), module(x.float()))


def test_ids_are_masked_before_they_become_whole(tmp_path: Path) -> None:
    model = seeded(keras.Sequential([keras.Input((None,)), L.Embedding(WORDS, E, mask_zero=True), L.LSTM(U)]))
    module, _ = imported(model, tmp_path)
    ids = torch.tensor([[0.4, 1.2, 0.0, 2.9]])
    assert_close(module(ids), answered(model, [ids])[0], atol=1e-6, rtol=1e-5)


def test_hard_sigmoid_of_keras_2_has_its_own_slope(tmp_path: Path) -> None:
    path = saved(series(L.LSTM(U, recurrent_activation="hard_sigmoid")), tmp_path, ".h5")
    x = torch.randn(1, 3, E)
    of_keras_3 = from_keras(path)(x)
    with h5py.File(path, "r+") as file:
        file.attrs["keras_version"] = "2.2.4"
    module = from_keras(path)
    assert module.proof == "not compared: Keras 3 computes hard_sigmoid in another way than Keras 2, which wrote the file"
    assert (module(x) - of_keras_3).abs().max() > 1e-3
    assert KerasModule.built(module.settings()).settings() == module.settings()


def as_for_cudnn(kernel: np.ndarray[Any, Any], units: int) -> np.ndarray[Any, Any]:
    """A kernel as Keras 2 stored it in layers for cuDNN: the inverse of its own conversion, gate by gate."""
    gates = np.hsplit(kernel, kernel.shape[1] // units)
    return np.hstack([gate.reshape(-1, order="F").reshape(gate.shape) for gate in gates])


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_layers_for_cudnn_are_the_usual_ones(cell: str, tmp_path: Path) -> None:
    model = series(getattr(L, cell)(U, name="cell"))
    path, x = saved(model, tmp_path, ".h5"), torch.randn(2, 4, E)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1].update(class_name=f"CuDNN{cell}", config={"name": "cell", "units": U})
        file.attrs["model_config"], file.attrs["keras_version"] = json.dumps(config), "2.2.4"
        group = file["model_weights/cell"]
        names = list(group.attrs["weight_names"])
        for name in names[:2]:
            group[name][...] = as_for_cudnn(group[name][...], U)
        bias = group[names[2]][...]
        del group[names[2]]
        two = np.stack([bias * 0.25, bias * 0.75]) if cell == "LSTM" else bias
        group[names[2]] = two.reshape(-1)
    assert_close(read_model(path.read_bytes())[0](x), answered(model, [x])[0], atol=1e-6, rtol=1e-5)


def test_files_written_on_windows_are_read(tmp_path: Path) -> None:
    model = series(L.LSTM(U), L.Dense(2))
    path, x = saved(model, tmp_path, ".keras"), torch.randn(2, 4, E)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    image = io.BytesIO(parts["model.weights.h5"])
    with h5py.File(image, "r+") as file:
        for group in ("layers/lstm/cell", "layers/dense"):
            file.move(group, group.replace("/", "\\"))
        del file["layers"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**parts, "model.weights.h5": image.getvalue()}.items():
            archive.writestr(name, content)
    assert_close(read_model(path.read_bytes())[0](x), answered(model, [x])[0], atol=1e-6, rtol=1e-5)
