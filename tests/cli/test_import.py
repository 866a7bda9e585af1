"""`whence import`: what it writes for texts and series, what it refuses, and that its folders load without the framework."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

import whence
from tests.cli import test_cli
from tests.imports.onnx_models import FLOAT, INT64, model, random, saved
from whence.cli.main import app
from whence.errors import WhenceError

WORDS = ("<pad>", "<unk>", "a", "good", "film", "bad")
IDS = {word: n for n, word in enumerate(WORDS)}
TEXT = "a good tale"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::keras")]  # as the tests of Keras
FRAMEWORKS = ("keras", "onnx")
CLASSES = ("--classes", "poor, fair, great")
node = helper.make_node
MARKS = ("--unknown", "<unk>", "--padding", "<pad>")
NO_PADDING = ("--unknown", 1)


def keras_models() -> dict[str, Any]:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    layers: Any = keras.layers
    keras.utils.set_random_seed(0)
    ids = keras.Input((None,), dtype="int32", name="ids")
    more = keras.Input((None,), dtype="int32", name="more")
    table = layers.Embedding(len(WORDS), 3, mask_zero=True)
    head = [layers.LSTM(4), layers.Dense(3)]
    both = layers.Dense(3)(layers.LSTM(4)(layers.Add()([table(ids), table(more)])))
    return {
        "words": keras.Sequential([ids, table, *head]),
        "series": keras.Sequential([keras.Input((None, 2), name="x"), layers.LSTM(4), layers.Dense(3)]),
        "pair": keras.Model([ids, more], both),
        "fixed": keras.Sequential(
            [keras.Input((5,), dtype="int32"), layers.Embedding(len(WORDS), 3), layers.Flatten(), layers.Dense(3)]
        ),
        "unmasked": keras.Sequential(
            [keras.Input((None,), dtype="int32"), layers.Embedding(len(WORDS), 3), layers.LSTM(4), layers.Dense(3)]
        ),
    }


def onnx_models() -> dict[str, Any]:
    def after(*look_ups: Any, inputs: dict[str, Any], features: int) -> Any:
        nodes = [
            *look_ups,
            node("Transpose", ["e"], ["t"], perm=[1, 0, 2]),
            node("LSTM", ["t", "W", "R"], ["", "h"], hidden_size=4),
            node("Squeeze", ["h", "zero"], ["last"]),
            node("MatMul", ["last", "kernel"], ["y"]),
        ]
        constants = {
            "table": random(len(WORDS), 3),
            "W": random(1, 16, features),
            "R": random(1, 16, 4),
            "kernel": random(4, 3),
        }
        return model(nodes, inputs, ["y"], {**constants, "zero": torch.tensor([0])})

    fixed = [
        node("Gather", ["table", "ids"], ["e"]),
        node("Reshape", ["e", "shape"], ["flat"]),
        node("MatMul", ["flat", "kernel"], ["y"]),
    ]
    constants = {"table": random(len(WORDS), 3), "shape": torch.tensor([-1, 15]), "kernel": random(15, 3)}
    ids, axes = (INT64, ("batch", "time")), ("batch", "time", 2)
    both = [node("Gather", ["table", name], [f"e_{name}"]) for name in ("ids", "more")]
    return {
        "words": after(node("Gather", ["table", "ids"], ["e"]), inputs={"ids": ids}, features=3),
        "series": after(node("Identity", ["x"], ["e"]), inputs={"x": (FLOAT, axes)}, features=2),
        "pair": after(*both, node("Add", ["e_ids", "e_more"], ["e"]), inputs={"ids": ids, "more": ids}, features=3),
        "fixed": model(fixed, {"ids": (INT64, ("batch", 5))}, ["y"], constants),
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all models."""
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns of PyTorch's deprecations
        for name, each in keras_models().items():
            each.save(folder / f"{name}.keras")
    for name, each in onnx_models().items():
        saved(each, folder, f"{name}.onnx")
    return folder


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A vocabulary with a word a line."""
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    unpadded = {word: n for word, n in IDS.items() if n}
    path.with_suffix(".json").write_text(json.dumps(unpadded), encoding="utf-8")
    return path


def imported(framework: str, models: Path, name: str, output: Path, *options: object) -> None:
    """Run the command in this process."""
    file = str(models / f"{name}.{framework}")
    given = ["import", framework, file, "--output", str(output), *map(str, options)]
    app(given, prog_name="whence", standalone_mode=False)


def refused(says: str, *given: Any) -> None:
    """The command says why, and writes nothing."""
    with pytest.raises(WhenceError, match=says) as caught:
        imported(*given)
    assert "\n" not in str(caught.value)
    assert not given[3].exists()


def module_of(framework: str, models: Path, name: str) -> Any:
    return (whence.from_keras if framework == "keras" else whence.from_onnx)(models / f"{name}.{framework}")


def test_its_help_needs_no_torch() -> None:
    test_cli.test_help_needs_no_torch(["import"])


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        ("\n".join(WORDS), "txt"),
        ("\ufeff" + "\r\n".join(WORDS) + "\r\n", "txt"),
        (json.dumps(list(WORDS)), "json"),
        (json.dumps(IDS), "json"),
        (json.dumps(dict(sorted(IDS.items()))), "json"),
    ],
    ids=["lines", "lines-windows", "json-list", "json-ids", "json-ids-in-another-order"],
)
@pytest.mark.parametrize("marks", [MARKS, ("--unknown", 1, "--padding", 0)], ids=["words", "ids"])
def test_words_get_the_ids_of_the_vocabulary(
    content: str, suffix: str, marks: tuple[object, ...], models: Path, tmp_path: Path
) -> None:
    path, output = tmp_path / f"words.{suffix}", tmp_path / "out"
    path.write_bytes(content.encode())
    imported("onnx", models, "words", output, "--vocabulary", path, *CLASSES, *marks)
    pipeline: Any = whence.load(output)
    assert pipeline.vocabulary.ids(["a", "film", "tale"]) == [2, 4, 1]
    assert (pipeline.vocabulary.unknown, pipeline.vocabulary.padding) == (1, 0)
    assert pipeline.classes == ("poor", "fair", "great")


def test_texts_are_explained(framework: str, models: Path, lines: Path, tmp_path: Path, capsys: Any) -> None:
    output = tmp_path / "out"
    imported(framework, models, "words", output, "--vocabulary", lines, *CLASSES, *MARKS)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"{output}: texts, inputs ids"
    assert told[1].startswith("compared with ")
    explanation = whence.explain(whence.load(output), TEXT, target="great")  # pyright: ignore
    assert explanation.tokens == ("a", "good", "tale")
    expected = whence.relevance(module_of(framework, models, "words"), torch.tensor([[2, 3, 1]]), target=2)
    torch.testing.assert_close(torch.tensor(explanation.relevance), expected.relevance[0].sum(-1), rtol=1e-4, atol=1e-5)
    app(["explain", TEXT, "--model", str(output), "--format", "json"], prog_name="whence", standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["tokens"] == ["a", "good", "tale"]


def test_lines_are_ids_from_0_on_without_any_mark(models: Path, tmp_path: Path) -> None:
    path, output = tmp_path / "words.txt", tmp_path / "out"
    path.write_text("\nthe\na\x85b\ngood\n", encoding="utf-8")  # the first word is empty, as Keras's for padding; one is odd
    imported("onnx", models, "words", output, "--vocabulary", path, *CLASSES)
    pipeline: Any = whence.load(output)
    assert pipeline.vocabulary.ids(["", "the", "a\x85b", "good"]) == [0, 1, 2, 3]
    with pytest.raises(whence.InputError, match="'tale' is not in the vocabulary"):
        whence.explain(pipeline, "good tale")


def test_a_tokenizer_brings_its_ids(framework: str, models: Path, lines: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds

    tokenizer: Any = Tokenizer(kinds.WordLevel(IDS, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path, output = tmp_path / "tokenizer.json", tmp_path / "out"
    tokenizer.save(str(path))
    refused("leave out --vocabulary", framework, models, "words", output, "--tokenizer", path, "--vocabulary", lines, *CLASSES)
    imported(framework, models, "words", output, "--tokenizer", path, *CLASSES)
    assert (output / "tokenizer.json").is_file()
    explanation = whence.explain(whence.load(output), TEXT, target=0)  # pyright: ignore
    assert explanation.tokens == ("a", "good", "tale")


def test_characters(models: Path, tmp_path: Path) -> None:
    path, output = tmp_path / "letters.json", tmp_path / "out"
    path.write_text(json.dumps({"a": 1, "b": 2, " ": 3}), encoding="utf-8")
    imported("onnx", models, "words", output, "--tokenizer", "characters", "--vocabulary", path, "--unknown", 5, *CLASSES)
    assert whence.explain(whence.load(output), "a bc").tokens == ("a", " ", "b", "c")  # pyright: ignore


TEXTS = ("a good film", "a", "a bad film , a good film , a bad tale", "good good bad bad film")
UNPADDED = "texts are read without padding, which the model does not mask"


@pytest.mark.parametrize(("pad", "cut"), [("before", None), ("after", "after"), ("after", "before"), ("before", "after")])
@pytest.mark.parametrize("name", ["fixed", "unmasked", "words"])
def test_scores_are_those_of_keras_on_padded_texts(
    name: str, pad: str, cut: str | None, models: Path, lines: Path, tmp_path: Path, capsys: Any
) -> None:
    import keras

    output, kept = tmp_path / "out", {"before": "last", "after": "first"}[cut or "before"]
    length = () if name == "fixed" else ("--length", 5)
    sides = ("--pad", pad, *(() if cut is None else ("--cut", cut)))
    imported("keras", models, name, output, "--vocabulary", lines, *CLASSES, *MARKS, *length, *sides)
    told = f"texts are padded to 5 tokens with '<pad>' {pad} them; of longer ones the {kept} 5 are read"
    assert told in capsys.readouterr().out.splitlines()
    pipeline: Any = whence.load(output)
    ids = [pipeline.vocabulary.ids(text.split()) for text in TEXTS]
    names = {"before": "pre", "after": "post"}
    padded = keras.utils.pad_sequences(ids, maxlen=5, padding=names[pad], truncating=names[cut or "before"])
    loaded: Any = keras.saving.load_model(models / f"{name}.keras")
    found = [list(each.scores.values()) for each in whence.explain(pipeline, TEXTS)]
    expected: Any = keras.ops.convert_to_numpy(loaded(padded))
    np.testing.assert_allclose(found, expected, atol=1e-5)  # float32


def test_a_fixed_length_needs_a_side_and_padding(models: Path, lines: Path, tmp_path: Path) -> None:
    given = ("keras", models, "fixed", tmp_path / "out", "--vocabulary", lines, *CLASSES)
    refused("fixed.keras reads texts of exactly 5 tokens, so they are padded; say by --pad where padding stood", *given, *MARKS)
    bare = (*given[:4], "--vocabulary", lines.with_suffix(".json"), *CLASSES, "--unknown", 1, "--pad", "before")
    refused("5 tokens, so short ones are padded; give the word or the id that fills them up by --padding", *bare)
    imported(*bare, "--padding", 0)
    assert whence.explain(whence.load(tmp_path / "out"), "a film").tokens == ("<pad>", "<pad>", "<pad>", "a", "film")  # pyright: ignore


def test_texts_without_padding_are_told_of(models: Path, lines: Path, tmp_path: Path, capsys: Any) -> None:
    for name in ("unmasked", "words"):
        imported("keras", models, name, tmp_path / name, "--vocabulary", lines, *CLASSES, *MARKS)
        assert (UNPADDED in capsys.readouterr().out) == (name == "unmasked")


def test_the_tokenizer_is_told(framework: str, models: Path, lines: Path, tmp_path: Path, capsys: Any) -> None:
    output, hint = (
        tmp_path / "out",
        "; if the model was trained with Keras' Tokenizer or TextVectorization, give --tokenizer keras",
    )
    imported(framework, models, "words", output, "--vocabulary", lines, *CLASSES, *MARKS)
    told = capsys.readouterr().out
    assert "texts are split by the tokenizer treebank" in told and (hint in told) == (framework == "keras")
    imported(framework, models, "words", output, "--vocabulary", lines, *CLASSES, *MARKS, "--tokenizer", "keras", "--replace")
    assert "texts are split by the tokenizer keras\n" in capsys.readouterr().out
    pipeline: Any = whence.load(output)
    assert whence.explain(pipeline, "A good-film!").unknown == (False,) * 3
    with pytest.raises(
        whence.ModelError, match=r"holds its tokenizer \(keras\); .* whence.Pipeline\(found.module, tokenizer, "
    ):
        whence.load(output, tokenizer=str.split)


def test_what_may_be_wrong_with_a_vocabulary_is_told(models: Path, lines: Path, tmp_path: Path, capsys: Any) -> None:
    rows, unknown = "and the embedding 6 rows; if words for padding", "give the word for unknown ones by --unknown"
    imported("onnx", models, "words", tmp_path / "whole", "--vocabulary", lines, *CLASSES, *MARKS)
    told = capsys.readouterr().out
    assert rows not in told and unknown not in told
    short = tmp_path / "short.txt"
    short.write_text("a\ngood\nfilm\nbad\n", encoding="utf-8")
    imported("onnx", models, "words", tmp_path / "short", "--vocabulary", short, *CLASSES)
    told = capsys.readouterr().out
    assert f"the vocabulary has the ids 0 to 3, {rows}" in told and unknown in told


def test_series_with_features(framework: str, models: Path, tmp_path: Path, capsys: Any) -> None:
    output = tmp_path / "out"
    imported(framework, models, "series", output, "--features", "rain, wind", *CLASSES)
    assert f"{output}: series, inputs x" in capsys.readouterr().out
    found: Any = whence.load(output)
    assert (found.features, found.outputs) == (("rain", "wind"), ("poor", "fair", "great"))
    x = random(1, 5, 2)
    torch.testing.assert_close(found.module(x), module_of(framework, models, "series")(x), rtol=0, atol=0)


def test_a_reference_decides(framework: str, models: Path, tmp_path: Path, capsys: Any) -> None:
    path, output = tmp_path / "reference.npz", tmp_path / "out"
    x = random(2, 4, 2)
    y = module_of(framework, models, "series")(x)
    np.savez(path, inputs=x.numpy(), outputs=y.numpy() + 0.5)
    refused("differs .*reference", framework, models, "series", output, "--reference", path)
    np.savez(path, inputs=x.numpy())
    refused("must hold the arrays inputs and outputs", framework, models, "series", output, "--reference", path)
    np.savez(path, inputs=np.array([{}], dtype=object), outputs=y.numpy())
    refused("no .npz file of arrays", framework, models, "series", output, "--reference", path)
    for content in (b"", b"text", b"PK\x03\x04"):
        path.write_bytes(content)
        refused("no .npz file of arrays", framework, models, "series", output, "--reference", path)
    np.savez(path, inputs=x.numpy(), outputs=y.numpy())
    imported(framework, models, "series", output, "--reference", path)
    assert "compared with the reference" in capsys.readouterr().out


WRONG: dict[str, tuple[str, Callable[[Path], tuple[object, ...]], str]] = {
    "ids without words": ("words", lambda words: CLASSES, "reads the ids of words; give --vocabulary and --classes"),
    "words without classes": ("words", lambda words: ("--vocabulary", words), "give them by --classes"),
    "words and features": ("words", lambda words: ("--vocabulary", words, *CLASSES, "--features", "a"), "leave it out"),
    "words for a series": ("series", lambda words: ("--vocabulary", words, *CLASSES, *MARKS), "0 nn.Embedding layers"),
    "a mark without words": ("words", lambda words: ("--unknown", "<unk>"), "--unknown: these are words of a vocabulary"),
    "marks that are not named": ("words", lambda words: ("--vocabulary", words, *CLASSES), "holds '<unk>' and '<pad>'; say"),
    "too few classes": (
        "words",
        lambda words: ("--vocabulary", words, "--classes", "a,b", *MARKS),
        "must give one score for each of 2 classes",
    ),
    "a class twice": ("words", lambda words: ("--vocabulary", words, "--classes", "a,b,a", *MARKS), "give different names"),
    "a class of no name": ("words", lambda words: ("--vocabulary", words, "--classes", "a,,b", *MARKS), "give different names"),
    "a target as class": ("words", lambda words: ("--vocabulary", words, "--classes", "a,all,b", *MARKS), "another name"),
    "a feature twice": ("series", lambda words: ("--features", "a,a"), "--features is 'a,a'; give different names"),
    "a mark that is no word": (
        "words",
        lambda words: ("--vocabulary", words, *CLASSES, "--unknown", "none", "--padding", 0),
        "unknown is 'none', which is not in the vocabulary",
    ),
    "an id of too many digits": (
        "words",
        lambda words: ("--vocabulary", words, *CLASSES, "--unknown", "9" * 5000, "--padding", 0),
        "which is not in the vocabulary",
    ),
    "a mark beyond the table": (
        "words",
        lambda words: ("--vocabulary", words, *CLASSES, "--unknown", 6, "--padding", 0),
        "has 6 rows for a vocabulary of 7 tokens",
    ),
    "an unknown tokenizer": (
        "words",
        lambda words: ("--vocabulary", words, *CLASSES, *MARKS, "--tokenizer", "magic"),
        "no tokenizer 'magic'",
    ),
    "a tokenizer without words": ("words", lambda words: ("--tokenizer", "characters"), "has no ids of its own"),
    "a tokenizer that is not there": (
        "words",
        lambda words: (*CLASSES, "--tokenizer", "none/tokenizer.json"),
        "cannot be read as a tokenizer",
    ),
    "two inputs": ("pair", lambda words: ("--vocabulary", words, *CLASSES, *MARKS), "takes 2 inputs: ids, more"),
    "a fixed length": (
        "fixed",
        lambda words: ("--vocabulary", words, *CLASSES, *MARKS),
        "cannot read a text of 3 words; if it reads a fixed number of them, give that by --length|of exactly 5 tokens",
    ),
    "another length": (
        "fixed",
        lambda words: ("--vocabulary", words, *CLASSES, *MARKS, "--length", 4, "--pad", "after"),
        "cannot read a text of 4 words; if it reads|reads texts of 5 tokens, and --length is 4; leave it out",
    ),
    "a length without a side": (
        "words",
        lambda words: ("--vocabulary", words, *CLASSES, *MARKS, "--length", 4),
        r"--length 4 needs --pad: where padding stood .* before the texts \(pad_sequences does so by default\) or after them",
    ),
    "a length without padding": (
        "words",
        lambda words: ("--vocabulary", words.with_suffix(".json"), *CLASSES, *NO_PADDING, "--length", 4, "--pad", "after"),
        "4 tokens, so short ones are padded; give the word or the id that fills them up by --padding",
    ),
    "a side without a length": (
        "words",
        lambda words: ("--vocabulary", words, *CLASSES, *MARKS, "--pad", "after"),
        "reads texts of any length; give the one that they are padded to by --length",
    ),
    "a length of a series": ("series", lambda words: ("--length", 4), "--length: texts are padded with a word of the vocab"),
    "a missing file": ("none", lambda words: ("--vocabulary", words, *CLASSES, *MARKS), "does not exist|No such file"),
    "a missing vocabulary": ("words", lambda words: ("--vocabulary", "none/words.txt", *CLASSES), "cannot be read"),
    "a missing reference": ("series", lambda words: ("--reference", "none.npz"), "none.npz cannot be read: No such file"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_is_refused(wrong: str, framework: str, models: Path, lines: Path, tmp_path: Path) -> None:
    name, options, says = WRONG[wrong]
    refused(says, framework, models, name, tmp_path / "out", *options(lines))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("w.txt", "", "holds no word"),
        ("w.txt", "good\nbad\ngood\n", "holds the word 'good' at 0 and at 2"),
        ("w.json", "{", "is no vocabulary"),
        ("w.json", "[" * 100_000, "is no vocabulary"),
        ("w.json", "[]", "holds no word"),
        ("w.json", "3", "must be an object of words and their ids"),
        ("w.json", '["good", 3]', "its word 1 is a int"),
        ("w.json", '{"good": "1"}', "give a whole number"),
        ("w.json", '{"good": -1}', "give a whole number"),
        ("w.json", '{"good": 1e400}', "give a whole number"),
        ("w.json", '{"good": 1, "bad": 1}', "both have the id 1"),
        ("w.json", '{"good": 6}', "has 6 rows for a vocabulary of 7 tokens"),
        ("w.txt", b"\xff\xfe", "is no vocabulary"),
    ],
)
def test_what_is_no_vocabulary_is_refused(name: str, content: str | bytes, says: str, models: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(says, "onnx", models, "words", tmp_path / "out", "--vocabulary", path, *CLASSES)


def test_a_damaged_tokenizer_is_refused(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for content in ("", "{}", "[" * 10_000, '{"model": {"type": "WordLevel", "vocab": {}}}'):
        path.write_text(content, encoding="utf-8")
        refused("cannot be read as a tokenizer", "onnx", models, "words", tmp_path / "out", "--tokenizer", path, *CLASSES)


def test_a_folder_is_written_again_and_other_files_stay(framework: str, models: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "notes.txt").write_text("mine", encoding="utf-8")
    imported(framework, models, "series", output, "--features", "rain, wind")
    with pytest.raises(
        whence.InputError, match="out holds a model already; give --replace to write over it, or another folder"
    ):
        imported(framework, models, "series", output, "--features", "sun, wind")
    assert whence.load(output).features == ("rain", "wind")  # pyright: ignore
    imported(framework, models, "series", output, "--features", "sun, wind", "--replace")
    assert whence.load(output).features == ("sun", "wind")  # pyright: ignore
    assert (output / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_what_is_in_the_way_is_left_alone(models: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(whence.InputError, match="is a file; give the name of a folder"):
        imported("onnx", models, "series", taken)
    assert taken.read_text(encoding="utf-8") == "mine"
    (tmp_path / "out" / "model.safetensors").mkdir(parents=True)
    with pytest.raises(whence.InputError, match="is in the way"):
        imported("onnx", models, "series", tmp_path / "out")
    with pytest.raises(whence.InputError, match="make it first"):
        imported("onnx", models, "series", tmp_path / "none" / "out")


def test_odd_names_are_printed_on_one_line(models: Path, tmp_path: Path, capsys: Any) -> None:
    proto = onnx_models()["series"]
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "x\x1b[31m\n"
    saved(proto, tmp_path, "odd\x1b[0m\n.onnx")
    output = tmp_path / "out\x1b[0m\n"
    imported("onnx", tmp_path, "odd\x1b[0m\n", output, "--features", "\x1b[1m,rain")
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert len(printed.splitlines()) == 2
    assert whence.load(output).features == ("\x1b[1m", "rain")  # pyright: ignore


WITHOUT = """
import sys
for name in ("h5py", "onnx", "keras", "onnxruntime", "onnxscript", "tensorflow"):
    sys.modules[name] = None
import whence
from whence.cli.main import app
for folder in sys.argv[1:]:
    pipeline = whence.load(folder)
    app(["explain", "a good tale", "--model", folder, "--format", "json"], prog_name="whence", standalone_mode=False)
    assert abs(whence.explain(pipeline, "a good tale").score) > 0
"""


def test_folders_load_without_the_framework(models: Path, lines: Path, tmp_path: Path) -> None:
    folders = [tmp_path / each for each in FRAMEWORKS]
    for framework, output in zip(FRAMEWORKS, folders, strict=True):
        imported(framework, models, "words", output, "--vocabulary", lines, *CLASSES, *MARKS)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, folders)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["tokens"] for each in told] == [["a", "good", "tale"]] * 2
    for each, folder in zip(told, folders, strict=True):
        expected = whence.explain(whence.load(folder), TEXT)  # pyright: ignore
        assert each["relevance"] == pytest.approx(expected.relevance, rel=1e-4, abs=1e-5)  # float32
