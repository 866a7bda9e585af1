"""Pipelines: explained, saved, loaded, and refused when their files are not right."""

import json
import math
import random
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor, nn

import whence
from whence.errors import InputError, ModelError, TargetError, WeightsError
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.models.classifier import Architecture, Cell, RecurrentClassifier
from whence.models.pipeline import Pipeline, fingerprint, load_pipeline
from whence.text.tokenizer import CharacterTokenizer, TreebankTokenizer
from whence.text.vocabulary import Vocabulary

WORDS = ["good", "bad", "not", "film", ".", "a\\b", "new\nline", "é"]
TEXTS = ["Not a good film.", "bad", "Not   bad… é <b>", "good good good good good"]

METHODS = [whence.LRP(), whence.LRP(delta=1.0), whence.SensitivityAnalysis(), whence.GradientXInput()]


def make(cell: Cell = "lstm") -> Pipeline:
    torch.manual_seed(0)
    vocabulary = Vocabulary(WORDS)
    module = RecurrentClassifier(Architecture(len(vocabulary), 3, cell, 5, 4))
    return Pipeline(module.eval(), TreebankTokenizer(), vocabulary, ("no", "maybe", "yes"), name="tiny")


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize(
    "method", [whence.LRP(), whence.LRP(delta=1.0), whence.SensitivityAnalysis(), whence.GradientXInput()], ids=str
)
def test_a_text_is_explained_the_same_alone_and_in_a_batch(cell: Cell, method: whence.LRP) -> None:
    pipeline = make(cell)
    together = whence.explain(pipeline, TEXTS, method=method)
    for text, explanation in zip(TEXTS, together, strict=True):
        alone = whence.explain(pipeline, text, method=method)
        assert alone.tokens == explanation.tokens
        assert alone.relevance == pytest.approx(explanation.relevance, abs=1e-6)
        assert "".join(piece for piece, _ in explanation.pieces()) == text
        assert explanation.predicted == explanation.target == max(explanation.scores, key=explanation.scores.__getitem__)
        if isinstance(method, whence.LRP):
            assert sum(alone.relevance) + sum(alone.absorbed.values()) == pytest.approx(alone.score, abs=1e-5)


def test_ids_are_those_that_the_model_reads() -> None:
    pipeline = whence.load("sst-bilstm")
    read: list[list[int]] = []
    hook = pipeline.module.register_forward_pre_hook(lambda module, args: read.append(args[0][0].tolist()))
    text = 'he said " nice " (and "good") -- no "very" “bad” film'
    explanation = whence.explain(pipeline, text)
    hook.remove()
    assert pipeline.ids(text) == read[0]
    assert len(pipeline.ids(text)) == len(explanation.tokens)
    assert {"``", "''", "-lrb-", "--"} <= {pipeline.vocabulary.tokens[number] for number in pipeline.ids(text)}


def test_unknown_words_are_marked_and_explained() -> None:
    explanation = whence.explain(make(), "good zebra")
    assert explanation.unknown == (False, True)
    assert explanation.relevance[1] != 0


def test_targets_by_name_number_and_all() -> None:
    pipeline = make()
    by_name, by_number = (whence.explain(pipeline, TEXTS[0], target=target) for target in ("yes", 2))
    assert by_name == by_number == whence.explain(pipeline, TEXTS[0], target="YES")
    everything = whence.explain(pipeline, TEXTS, target="all")
    assert [explanation.target for explanation in everything] == ["no", "maybe", "yes"] * 4
    assert everything[2].relevance == pytest.approx(by_name.relevance, abs=1e-6)
    with pytest.raises(TargetError, match="there is no class 'great'; tiny knows no, maybe, yes"):
        whence.explain(pipeline, "good", target="great")
    with pytest.raises(TargetError, match="target 3 does not exist: tiny has 3 classes"):
        whence.explain(pipeline, "good", target=3)


@pytest.mark.parametrize("method", [whence.LRP(), whence.LRP(delta=1.0), whence.GradientXInput()], ids=str)
def test_contrasts_by_name_and_a_target_of_its_own_for_every_text(method: whence.LRP) -> None:
    pipeline = make()
    targets = [whence.contrast("Yes", "rest"), whence.contrast("predicted", "no"), "maybe", "predicted"]
    found = whence.explain(pipeline, TEXTS, target=targets, method=method, encoders=True)
    assert [(each.target, each.versus) for each in found[:1]] == [("yes", "rest")] and found[1].versus == "no"
    assert found[0].question == "yes versus the rest" and found[2].question == "maybe"
    for text, target, explanation in zip(TEXTS, targets, found, strict=True):
        alone = whence.explain(pipeline, text, target=target, method=method)
        assert alone.relevance == pytest.approx(explanation.relevance, abs=1e-6)
        assert alone.score == pytest.approx(explanation.score, abs=1e-6)
        assert [sum(pair) for pair in zip(*explanation.encoders, strict=True)] == pytest.approx(alone.relevance, abs=1e-6)
        if isinstance(method, whence.LRP):
            assert sum(alone.relevance) + sum(alone.absorbed.values()) == pytest.approx(alone.score, abs=1e-5)
    scores = torch.tensor(list(found[0].scores.values()), dtype=torch.float64)
    assert found[0].score == pytest.approx(float(scores[2] - (scores[:2].softmax(0) * scores[:2]).sum()), abs=1e-6)
    assert {"versus": "rest", "score": found[0].score}.items() <= found[0].to_dict().items()
    for wrong, message in [
        (whence.contrast("great", "rest"), "there is no class 'great'"),
        (whence.contrast("all", "rest"), '"all" stands alone'),
        (["all"] * 4, '"all" stands alone'),
    ]:
        with pytest.raises(TargetError, match=message):
            whence.explain(pipeline, TEXTS, target=wrong)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_deleted_word_has_a_vector_of_zeros(method: whence.LRP) -> None:
    pipeline = make()
    found = whence.explain(pipeline, TEXTS, target=1, method=method, deleted=[[1, 3], [], [0], [4, 4]])
    for text, explanation in zip(TEXTS, found, strict=True):
        forms = [token.form for token in pipeline.tokenizer.tokens(text)]
        module = cast(RecurrentClassifier, pipeline.module)
        vectors = module.embedding(torch.tensor([pipeline.vocabulary.ids(forms)])).detach().clone()
        vectors[0, list(explanation.deleted)] = 0

        class Rest(nn.Module):
            def __init__(self, module: RecurrentClassifier) -> None:
                super().__init__()
                self.encoder, self.head = module.encoder, module.head

            def forward(self, x: Tensor) -> Tensor:
                return self.head(self.encoder(x)[1][0].transpose(0, 1).flatten(1))

        alone = whence.relevance(Rest(module), vectors, target=1, method=method)
        assert explanation.relevance == pytest.approx(alone.relevance.sum(-1)[0].tolist(), abs=1e-6)
        assert explanation.score == pytest.approx(alone.score.item(), abs=1e-6)
    assert found[3].deleted == (4,) and found[0].to_dict()["deleted"] == [1, 3] and "deleted" not in found[1].to_dict()
    assert whence.explain(pipeline, TEXTS[0], target=1, method=method, deleted=[3, 1]).deleted == (1, 3)
    assert found[1] == whence.explain(pipeline, TEXTS, target=1, method=method)[1]


@pytest.mark.parametrize(
    ("deleted", "message"),
    [
        ([[5]], r"deleted\[0\] holds 5; text 1 has the tokens 0 to 4"),
        ([-1], r"deleted\[0\] holds -1"),
        ([[True]], r"deleted\[0\] holds True"),
        ([[0], [1]], "deleted has 2 lists for 1 texts"),
        ("01", "deleted is a str; give the numbers of tokens"),
        (["1"], r"deleted\[0\] is a str; give a list of token numbers"),
    ],
)
def test_tokens_that_are_not_there_cannot_be_deleted(deleted: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        whence.explain(make(), TEXTS[0], deleted=deleted)


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="the text is empty"):
        whence.explain(make(), text)
    good, bad, number = whence.explain(make(), ["good", text, 3])
    assert not good.error and good.row == 0
    assert bad == whence.Explanation.failed(text, "the text is empty", row=1, model=good.model)
    assert number.error == "3 is not a text but a int" and number.text == "" and math.isnan(number.score)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("method", [whence.LRP(), whence.GradientXInput()], ids=str)
def test_the_directions_add_up(cell: Cell, method: whence.LRP) -> None:
    for explanation in whence.explain(make(cell), TEXTS, encoders=True, method=method):
        left, right = explanation.encoders
        assert [a + b for a, b in zip(left, right, strict=True)] == pytest.approx(explanation.relevance, abs=1e-6)
        assert left != right
    one_way = Pipeline(OwnModel(), TreebankTokenizer(), Vocabulary(WORDS), ("no", "yes"))
    with pytest.raises(InputError, match="reads the words, in both directions"):
        whence.explain(one_way, "good", encoders=True)

    class Unsplit(Method):
        name = "unsplit"

        def relevance(self, forward: Forward, question: Question) -> whence.Result:
            return whence.LRP().relevance(forward, question)

    with pytest.raises(InputError, match="Unsplit does not keep the directions apart"):
        whence.explain(make(), "good", encoders=True, method=Unsplit())


def test_sensitivity_of_one_direction_is_that_of_its_encoder_alone() -> None:
    pipeline = make()
    explanation = whence.explain(pipeline, TEXTS[0], target="yes", encoders=True, method=whence.SensitivityAnalysis())
    module = pipeline.module
    assert isinstance(module, RecurrentClassifier)
    with torch.no_grad():
        module.head.weight[:, 4:] = 0  # the backward encoder has no say any more
    alone = whence.explain(pipeline, TEXTS[0], target="yes", method=whence.SensitivityAnalysis())
    assert explanation.encoders[0] == pytest.approx(alone.relevance, abs=1e-7)


class OwnModel(nn.Module):
    """A user's module: its own layout, no lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.gru, self.out = nn.Embedding(9, 4), nn.GRU(4, 3), nn.Linear(3, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.gru(self.words(ids.T))[0].amax(0))


def test_a_module_of_the_users_own() -> None:
    torch.manual_seed(1)
    pipeline = Pipeline(OwnModel(), TreebankTokenizer(), Vocabulary(WORDS), ("no", "yes"))
    for text, explanation in zip(TEXTS, whence.explain(pipeline, TEXTS), strict=True):
        alone = whence.explain(pipeline, text)
        assert alone.relevance == pytest.approx(explanation.relevance, abs=1e-6)
        assert sum(alone.relevance) + sum(alone.absorbed.values()) == pytest.approx(alone.score, abs=1e-5)
    with pytest.raises(ModelError, match=r"it must give one score for each of 3 classes"):
        whence.explain(Pipeline(OwnModel(), TreebankTokenizer(), Vocabulary(WORDS), ("a", "b", "c")), "good")
    with pytest.raises(ModelError, match=r"has 0 nn.Embedding layers"):
        whence.explain(Pipeline(nn.Linear(1, 1), TreebankTokenizer(), Vocabulary(WORDS), ("a",)), "good")
    with pytest.raises(ModelError, match=r"nn.Embedding has 9 rows for a vocabulary of 10 tokens"):
        whence.explain(Pipeline(OwnModel(), TreebankTokenizer(), Vocabulary([*WORDS, "more"]), ("a", "b")), "good")
    for wrong in cast(list[Any], ["lpr", whence.LRP]):
        with pytest.raises(InputError, match=r"such as method=whence.LRP\(\)"):
            whence.explain(pipeline, "good", method=wrong)
    with pytest.raises(InputError, match="texts is a NoneType"):
        whence.explain(pipeline, cast(Any, None))


def test_a_saved_pipeline_comes_back(tmp_path: Path) -> None:
    pipeline = make()
    pipeline.save(tmp_path / "saved")
    again = whence.load(tmp_path / "saved")
    assert again.vocabulary.tokens == pipeline.vocabulary.tokens
    assert fingerprint(again) == fingerprint(pipeline)
    assert whence.explain(again, TEXTS[0]).relevance == whence.explain(pipeline, TEXTS[0]).relevance
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == [
        "config.json",
        "model.safetensors",
        "vocabulary.txt",
    ]


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_loading_changes_no_bit_of_the_weights_and_draws_nothing(tmp_path: Path, cell: Cell) -> None:
    pipeline = make(cell)
    pipeline.save(tmp_path)
    before = torch.get_rng_state()
    again = whence.load(tmp_path)
    assert torch.get_rng_state().equal(before)
    found, expected = again.module.state_dict(), pipeline.module.state_dict()
    assert list(found) == list(expected)
    assert all(found[name].equal(expected[name]) and found[name].device.type == "cpu" for name in expected)
    assert all(parameter.requires_grad for parameter in again.module.parameters())
    assert not any(module.training for module in again.module.modules())
    assert whence.explain(again, TEXTS) == [replace(each, model=again.name) for each in whence.explain(pipeline, TEXTS)]


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def duplicated(path: Path) -> None:
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = content[8 : 8 + size].rstrip(b" ")
    entry = header[1 : header.index(b"},") + 1] if header.startswith(b'{"') else b""
    doubled = header[:-1] + b"," + entry + b"}"
    path.write_bytes(struct.pack("<Q", len(doubled)) + doubled + content[8 + size :])


def with_weights(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    from safetensors.torch import load

    weights = load(path.read_bytes())
    change(weights)
    path.write_bytes(save(weights))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "config.json").unlink(), r"config.json does not exist; a saved pipeline holds"),
        (lambda d: (d / "config.json").write_text("{"), "config.json is no pipeline's"),
        (lambda d: (d / "config.json").write_text("[" * 100_000), "config.json is no pipeline's"),
        (lambda d: edited(d / "config.json", lambda c: c.pop("classes")), "config.json is no pipeline's"),
        (
            lambda d: edited(d / "config.json", lambda c: c["architecture"].update(cell="mamba")),
            "cell is 'mamba'; known",
        ),
        (
            lambda d: edited(d / "config.json", lambda c: c["architecture"].update(hidden=10**9)),
            "hidden is 1000000000",
        ),
        (lambda d: edited(d / "config.json", lambda c: c["architecture"].update(hidden=-1)), "hidden is -1"),
        (lambda d: edited(d / "config.json", lambda c: c["architecture"].update(layers=2)), "is no pipeline's"),
        (lambda d: edited(d / "config.json", lambda c: c.update(tokenizer="eval")), "tokenizer is 'eval'; known are"),
        (lambda d: edited(d / "config.json", lambda c: c.update(classes=["a", "a", "b"])), "a list of different names"),
        (lambda d: edited(d / "config.json", lambda c: c.update(classes=["a"])), "names 1 classes for 3 scores"),
        (
            lambda d: edited(d / "config.json", lambda c: c["architecture"].update(hidden=5)),
            r"is \(.*\) torch.float32;",
        ),
        (lambda d: (d / "vocabulary.txt").write_text("good\n"), "must hold different tokens, one a line, the first of them"),
        (lambda d: (d / "vocabulary.txt").write_bytes(b"<unknown>\n\xff\n"), "is not UTF-8 text"),
        (lambda d: (d / "vocabulary.txt").write_text("<unknown>\ngood\n"), "has 2 tokens; config.json says 9"),
        (lambda d: (d / "model.safetensors").write_bytes(b"PK not safetensors"), "is no safetensors file"),
        (lambda d: (d / "model.safetensors").write_bytes(b""), "is no safetensors file"),
        (lambda d: duplicated(d / "model.safetensors"), "does not hold each weight of the architecture once|is no safetensors"),
        (
            lambda d: with_weights(d / "model.safetensors", lambda w: w.pop("head.weight")),
            "each weight .*head.weight",
        ),
        (lambda d: with_weights(d / "model.safetensors", lambda w: w["head.weight"].fill_(float("nan"))), "not finite"),
        (lambda d: with_weights(d / "model.safetensors", lambda w: w["head.weight"].fill_(1.0)), "do not belong together"),
        (lambda d: edited(d / "config.json", lambda c: c["architecture"].update(cell=[])), r"cell is \[\]"),
        (lambda d: ((d / "config.json").unlink(), (d / "config.json").symlink_to("/dev/zero")), "is no ordinary file"),
        (
            lambda d: with_weights(d / "model.safetensors", lambda w: w.update({"head.weight": torch.ones(3, 8).long()})),
            "head.weight is .*int64",
        ),
    ],
)
def test_a_broken_pipeline_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    make().save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_pipeline(tmp_path)


@pytest.mark.slow
def test_the_same_name_very_often_is_refused_soon(tmp_path: Path) -> None:
    make().save(tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = content[8 : 8 + size].rstrip(b" ")
    name, entry = next(iter(json.loads(header).items()))
    many = header[:-1] + f",{json.dumps(name)}:{json.dumps(entry)}".encode() * 300_000 + b"}"
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(many)) + many + content[8 + size :])
    start = time.process_time()
    with pytest.raises(ModelError, match=rf"does not hold each weight of the architecture once: {name}$"):
        load_pipeline(tmp_path)
    assert time.process_time() - start < 15  # comparing each name with each takes a minute


LONG = "x" * 10**6


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda d: (d / "config.json").write_bytes(random.Random(0).randbytes(10**6)),
            r"config.json is not utf-8 text \(byte ",
        ),
        (lambda d: (d / "config.json").write_text(f'"{LONG}"'), "is no pipeline's"),
        (
            lambda d: edited(d / "config.json", lambda c: c["architecture"].update({LONG: 1})),
            "unexpected keyword argument 'xxx",
        ),
        (lambda d: edited(d / "config.json", lambda c: c["architecture"].update(hidden=LONG)), "hidden is 'xxx"),
        (lambda d: edited(d / "config.json", lambda c: c["architecture"].update(hidden=[LONG] * 3)), r"hidden is \['xxx"),
        (lambda d: edited(d / "config.json", lambda c: c["architecture"].update(cell={LONG: LONG})), r"cell is \{'xxx"),
        (lambda d: edited(d / "config.json", lambda c: c.update(tokenizer=LONG)), "tokenizer is 'xxx"),
        (lambda d: edited(d / "config.json", lambda c: c.update(classes=[LONG, LONG, "b"])), "a list of different names"),
        (lambda d: (d / "vocabulary.txt").write_text(LONG), "must hold different tokens"),
        (
            lambda d: with_weights(d / "model.safetensors", lambda w: w.update({LONG: torch.ones(1)})),
            "each weight .* once: xxx",
        ),
    ],
)
def test_a_message_quotes_little_of_a_file(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    make().save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelError, match=message) as caught:
        load_pipeline(tmp_path)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_a_message_quotes_little_of_a_name() -> None:
    for call in (lambda: whence.load(LONG), lambda: Pipeline(OwnModel(), TreebankTokenizer(), Vocabulary(WORDS), (LONG, LONG))):
        with pytest.raises(ModelError, match="xxx") as caught:
            call()
        assert len(str(caught.value)) < 400


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    make().save(tmp_path)
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.truncate(600 * 2**20)
    with pytest.raises(ModelError, match="has 629145600 bytes; a pipeline's file has at most"):
        load_pipeline(tmp_path)


SAVED: dict[str, bytes] = {}


@pytest.mark.slow
@settings(max_examples=1000)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    if not SAVED:
        make().save(folder)
        SAVED.update({path.name: path.read_bytes() for path in folder.iterdir()})
    name = data.draw(st.sampled_from(sorted(SAVED)))
    content = bytearray(SAVED[name])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(len(content), 900) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    (folder / name).write_bytes(bytes(content[:cut] if data.draw(st.booleans()) else content))
    try:
        assert len(load_pipeline(folder).classes) == 3
    except ModelError:
        pass
    finally:
        (folder / name).write_bytes(SAVED[name])


def test_classes_must_be_different_names() -> None:
    for wrong in cast(list[Any], [("a", "a"), (1, 2), ()]):
        with pytest.raises(ModelError, match="give different names, one for each score"):
            Pipeline(OwnModel(), TreebankTokenizer(), Vocabulary(WORDS), wrong)


@pytest.mark.parametrize("name", ["rest", "predicted", "all"])
def test_a_class_cannot_be_called_like_another_target(name: str) -> None:
    with pytest.raises(ModelError, match=f"a class is called '{name}', which means something else as a target"):
        replace(make(), classes=("no", name, "yes"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": 5}, "its training is no object"),
        ({"format": 99}, "its format is 99; this version reads format 1"),
        ({"training": {"test": {"five": math.nan}}}, "it holds NaN, which is no finite number"),
        ({"note": "x" * 2**22}, "at most 4194304 are read"),
    ],
)
def test_a_config_that_would_spoil_what_shows_it_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    make().save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=message):
        load_pipeline(tmp_path)


def test_long_texts_keep_their_books_or_say_that_they_cannot() -> None:
    pipeline = whence.load("sst-bilstm")
    explanation = whence.explain(pipeline, "not a good film " * 1500)
    assert sum(explanation.relevance) + sum(explanation.absorbed.values()) == pytest.approx(explanation.score, abs=2e-4)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match=r"the relevance is not finite: with epsilon = 1e\+308"):
        whence.explain(make(), "good film", method=whence.LRP(epsilon=1e308))
    broken = make()
    torch.nn.init.constant_(cast(RecurrentClassifier, broken.module).head.weight, float("inf"))
    with pytest.raises(WeightsError, match=r"head.weight\[0, 0\] is inf"):
        whence.explain(broken, "good film")

    class Infinite(OwnModel):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) * math.inf

    with pytest.raises(ModelError, match="scores are not finite"):
        whence.explain(Pipeline(Infinite(), TreebankTokenizer(), Vocabulary(WORDS), ("no", "yes")), "good film")


def test_an_unknown_model_names_the_known() -> None:
    with pytest.raises(ModelError, match="there is no model 'sst-gpt'; bundled are sst-bilstm, sst-bigru, sst-char-gru"):
        whence.load("sst-gpt")


def test_characters_through_a_pipeline() -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary("abc ")
    module = RecurrentClassifier(Architecture(len(vocabulary), 2, "gru", 3, 2))
    explanation = whence.explain(Pipeline(module, CharacterTokenizer(), vocabulary, ("x", "y")), "Ab ?")
    assert explanation.tokens == ("A", "b", " ", "?")
    assert explanation.unknown == (False, False, False, True)
