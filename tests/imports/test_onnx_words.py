"""Models that read the ids of words: their table is an nn.Embedding, so that `explain` gives words relevance."""

import copy
import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from onnx import helper
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional as F

import whence
from tests.imports.onnx_models import BOOL, FLOAT, INT32, INT64, by_runtime, model, random, saved
from whence.imports.onnx.importing import from_onnx
from whence.imports.onnx.module import OnnxModule
from whence.text.tokenizer import TreebankTokenizer

WORDS = ("<pad>", "good", "bad", "film", "a", "very", "not")
CLASSES = ("poor", "fair", "great")
TEXTS = ["a very good film", "not bad", "a film"]
node = helper.make_node


class Reader(nn.Module):
    """An embedding, a recurrent layer and a linear layer on its last step."""

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.layer = nn.Embedding(len(WORDS) + shift, 3, padding_idx=0), nn.LSTM(3, 4, batch_first=True)
        self.head, self.shift = nn.Linear(4, len(CLASSES)), shift

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layer(self.words(ids + self.shift if self.shift else ids))[0][:, -1])


class Averager(Reader):
    """An average in place of the layer: PyTorch's new exporter exports an LSTM of any number of steps once in a process."""

    def forward(self, ids: Tensor) -> Tensor:
        weight = cast(Tensor, self.layer.weight_ih_l0)[:4]
        return self.head(torch.tanh(F.linear(self.words(ids + self.shift if self.shift else ids), weight)).mean(1))


def pipeline(module: nn.Module) -> whence.Pipeline:
    return whence.Pipeline(module, TreebankTokenizer(), whence.Vocabulary(WORDS, padding="<pad>"), CLASSES)


def exported(module: nn.Module, path: Path, *, dynamo: bool) -> Path:
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    if dynamo:
        shapes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
        program = torch.onnx.export(module, (ids,), dynamic_shapes=shapes, dynamo=True, verbose=False)
        assert program is not None
        program.save(path)
    else:
        axes = {"ids": {0: "batch", 1: "time"}}
        torch.onnx.export(module, (ids,), path, input_names=["ids"], dynamic_axes=axes, dynamo=False)
    return path


def embeddings(module: nn.Module) -> list[str]:
    return [name for name, each in module.named_modules() if isinstance(each, nn.Embedding)]


def assert_explained_alike(module: nn.Module, original: nn.Module) -> None:
    """Every word gets the relevance that it gets in the original."""
    found, expected = (whence.explain(pipeline(each), TEXTS, target="great") for each in (module, original))
    for mine, other in zip(found, expected, strict=True):
        assert mine.tokens == other.tokens
        torch.testing.assert_close(torch.tensor(mine.relevance), torch.tensor(other.relevance), rtol=1e-4, atol=1e-5)
        assert sum(mine.relevance) + sum(mine.absorbed.values()) == pytest.approx(mine.score, abs=1e-4)  # float32


@pytest.mark.filterwarnings("ignore")  # the exporters warn of their own deprecations
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
def test_words_are_explained_as_in_pytorch(dynamo: bool, shift: int, tmp_path: Path) -> None:
    original = (Averager if dynamo else Reader)(shift).eval()
    module = from_onnx(exported(original, tmp_path / "model.onnx", dynamo=dynamo))
    assert "compared with onnxruntime" in module.proof
    assert len(embeddings(module)) == 1
    assert_explained_alike(module, original)


def written(kind: int, *steps: Any, last: str = "ids") -> Any:
    """The reader as tf2onnx writes it: time first by transposes, and steps before the ids are looked up."""
    original = Reader()
    order = torch.arange(16).view(4, 4)[[0, 3, 1, 2]].reshape(-1)  # ONNX has the gates i, o, f, c; PyTorch i, f, g, o
    layer: Any = original.layer
    weights = {"W": layer.weight_ih_l0[order][None], "R": layer.weight_hh_l0[order][None]}
    weights["B"] = torch.cat((layer.bias_ih_l0[order], layer.bias_hh_l0[order]))[None]
    nodes = [
        *steps,
        node("Gather", ["table", last], ["e"], name="embedding"),
        node("Transpose", ["e"], ["x"], perm=[1, 0, 2]),
        node("LSTM", ["x", "W", "R", "B"], ["", "h"], hidden_size=4),
        node("Squeeze", ["h", "axis"], ["last"]),
        node("Gemm", ["last", "kernel", "bias"], ["y"], transB=1),
    ]
    constants = {**weights, "table": original.words.weight, "kernel": original.head.weight, "bias": original.head.bias}
    constants = {name: each.detach() for name, each in constants.items()}
    constants |= {"axis": torch.tensor([0]), "zero": torch.tensor(0), "six": torch.tensor(6), "one": torch.tensor([1])}
    return model(nodes, {"ids": (kind, ("batch", "time"))}, ["y"], constants)


FORMS: dict[str, Any] = {
    "int64": lambda: written(INT64),
    "int32": lambda: written(INT32),
    "float cast to int32": lambda: written(FLOAT, node("Cast", ["ids"], ["i"], to=INT32), last="i"),
    "int32 cast to int64": lambda: written(INT32, node("Cast", ["ids"], ["i"], to=INT64), last="i"),
    "kept in the table": lambda: written(INT64, node("Clip", ["ids", "zero", "six"], ["i"]), last="i"),
    "wrapped": lambda: written(
        INT64,
        node("Less", ["ids", "zero"], ["below"]),
        node("Add", ["ids", "six"], ["wrapped"]),
        node("Where", ["below", "wrapped", "ids"], ["i"]),
        last="i",
    ),
    "moved": lambda: written(
        INT64,
        node("Unsqueeze", ["ids", "one"], ["u"]),
        node("Squeeze", ["u", "one"], ["s"]),
        node("Identity", ["s"], ["i"]),
        last="i",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_ids_of_any_kind_are_looked_up_in_the_embedding(form: str, tmp_path: Path) -> None:
    module = from_onnx(saved(FORMS[form](), tmp_path))
    assert "compared with onnxruntime" in module.proof
    assert embeddings(module) == ["tables.table"]
    assert_explained_alike(module, Reader().eval())


def test_negative_ids_count_from_the_end(tmp_path: Path) -> None:
    path = saved(written(INT64), tmp_path)
    module = from_onnx(path)
    negative, same = torch.tensor([[1, -1, 3], [-7, 2, -2]]), torch.tensor([[1, 6, 3], [0, 2, 5]])
    torch.testing.assert_close(module(negative), by_runtime(path, negative)[0])
    found, expected = (whence.relevance(module, ids, target=1).relevance for ids in (negative, same))
    torch.testing.assert_close(found, expected)


def test_ids_that_are_not_in_the_table_are_refused(tmp_path: Path) -> None:
    module = from_onnx(saved(written(INT64), tmp_path))
    for wrong in (len(WORDS), -len(WORDS) - 1):
        with pytest.raises(whence.InputError, match="the model cannot run on inputs of shape"):
            whence.relevance(module, torch.tensor([[1, wrong]]), target=1)


def test_a_table_is_saved_with_the_other_weights(tmp_path: Path) -> None:
    module = from_onnx(saved(written(INT64), tmp_path))
    settings, weights = json.dumps(module.settings(), allow_nan=False), save(module.state_dict())
    assert "tables.table.weight" in load(weights)
    with torch.device("meta"):
        built = OnnxModule.built(json.loads(settings))
    built.load_state_dict(load(weights), assign=True)
    ids = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(built(ids), module(ids), rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(built).double()(ids).float(), module(ids))
    assert_explained_alike(built, Reader().eval())


def test_a_table_may_have_other_uses_too(tmp_path: Path) -> None:
    nodes = [
        node("Gather", ["table", "ids"], ["a"]),
        node("Gather", ["table", "more"], ["b"]),
        node("Gather", ["table", "columns"], ["c"], axis=1),
        node("Gather", ["table", "columns"], ["d"]),
        node("Concat", ["a", "b", "d"], ["rows"], axis=0),
        node("MatMul", ["rows", "c"], ["y"]),
    ]
    inputs = {"ids": (INT64, ("n",)), "more": (INT64, ("m",))}
    path = saved(model(nodes, inputs, ["y"], {"table": random(3, 3), "columns": torch.tensor([2, 0])}), tmp_path)
    module = from_onnx(path)
    assert embeddings(module) == ["tables.table"]
    ids = torch.tensor([0, 2, 2]), torch.tensor([1])
    torch.testing.assert_close(module(*ids), by_runtime(path, *ids)[0])


def test_places_are_no_words(tmp_path: Path) -> None:
    """A table whose rows are not chosen by the input's ids, such as one of positions, is an ordinary weight."""
    nodes = [
        node("Gather", ["table", "ids"], ["words"]),
        node("Shape", ["ids"], ["shape"]),
        node("Gather", ["shape", "one"], ["steps"]),
        node("Range", ["zero", "steps", "one"], ["places"]),
        node("Gather", ["positions", "places"], ["p"]),
        node("Add", ["words", "p"], ["sum"]),
        node("ReduceMax", ["sum"], ["y"], axes=[1], keepdims=0),
    ]
    constants = {"table": random(7, 3), "positions": random(600, 3), "zero": torch.tensor(0), "one": torch.tensor(1)}
    module = from_onnx(saved(model(nodes, {"ids": (INT64, ("batch", "time"))}, ["y"], constants), tmp_path))
    assert embeddings(module) == ["tables.table"]
    assert len(whence.explain(pipeline(module), "a very good film", target=0).relevance) == 4


def test_a_choice_by_a_condition_is_no_look_up(tmp_path: Path) -> None:
    nodes = [node("Cast", ["choice"], ["row"], to=INT64), node("Gather", ["table", "row"], ["y"])]
    module = from_onnx(saved(model(nodes, {"choice": (BOOL, ("n",))}, ["y"], {"table": random(2, 3)}), tmp_path))
    assert not embeddings(module)
