"""Pipelines and series models around modules and tokenizers of the user's own: saved without any code, and loaded again."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import spacy
import torch
import transformers
from spacy.language import Language
from spacy.tokens import Doc
from tokenizers import NormalizedString, PreTokenizedString, Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn

import whence
from whence.errors import ModelError
from whence.models import architectures
from whence.models.classifier import Architecture, RecurrentClassifier
from whence.models.pipeline import fingerprint
from whence.models.tokenizers import LARGEST_TOKENIZER
from whence.text.tokenizer import TreebankTokenizer
from whence.text.vocabulary import Vocabulary

TEXTS = ["A good film 🙂", "not bad , isn't it"]
WORDS = Vocabulary(["<pad>", "<unk>", "good", "film", "a\\b", "new\nline", "é"], unknown="<unk>", padding="<pad>")


class Mine(nn.Module):
    """A user's module, with a tied weight, a buffer of whole numbers and one that is not finite."""

    def __init__(self, rows: int = 12, hidden: int = 3) -> None:
        super().__init__()
        self.words, self.gru, self.out = nn.Embedding(rows, 4), nn.GRU(4, hidden, batch_first=True), nn.Linear(hidden, 2)
        self.again = self.words.weight
        self.register_buffer("steps", torch.tensor([3]))
        self.register_buffer("mask", torch.tensor([-torch.inf]))

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.gru(self.words(ids))[0].amax(1))


def huggingface() -> Tokenizer:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "good", "film", "not", "bad", ",", "##s"]
    tokenizer = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def fast() -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=huggingface(), unk_token="[UNK]", pad_token="[PAD]")


def english() -> Language:
    nlp = spacy.blank("en")
    nlp.tokenizer.add_special_case("isn't", [{"ORTH": "isn"}, {"ORTH": "'t"}])  # type: ignore[attr-defined]
    return nlp


def words(text: str) -> list[str]:
    return text.lower().split()


def saved(folder: Path, tokenizer: object, vocabulary: Vocabulary | None = WORDS) -> whence.Pipeline:
    torch.manual_seed(0)
    pipeline = whence.Pipeline(Mine(), tokenizer, vocabulary, ("no", "yes"), record={"note": "mine"})
    pipeline.save(folder)
    return pipeline


@pytest.mark.parametrize(
    ("tokenizer", "vocabulary", "files"),
    [
        (huggingface, None, {"tokenizer.json"}),
        (fast, None, {"tokenizer.json"}),
        (english, WORDS, {"spacy.json", "vocabulary.txt"}),
        (TreebankTokenizer, WORDS, {"vocabulary.txt"}),
        (TreebankTokenizer, Vocabulary(["good"]), {"vocabulary.txt"}),
        (TreebankTokenizer, Vocabulary({"good": 9, "film": 4}, unknown=2, padding=0), {"vocabulary.txt"}),
        (TreebankTokenizer, Vocabulary({"good": 9, "A": 11}, unknown=11), {"vocabulary.txt"}),
    ],
)
def test_a_pipeline_comes_back(
    tmp_path: Path, tokenizer: Callable[[], object], vocabulary: Vocabulary | None, files: set[str]
) -> None:
    pipeline = saved(tmp_path / "mine", tokenizer(), vocabulary)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"config.json", "model.safetensors", *files}
    again = whence.load(tmp_path / "mine", module=Mine())
    assert fingerprint(again) == fingerprint(pipeline) and again.record == {"note": "mine"} and not again.module.training
    own, other = pipeline.vocabulary, again.vocabulary
    assert (other.tokens, other.unknown, other.padding, len(other)) == (own.tokens, own.unknown, own.padding, len(own))
    assert other.ids(own.tokens) == own.ids(own.tokens)
    for one, another in zip(whence.explain(pipeline, TEXTS), whence.explain(again, TEXTS), strict=True):
        assert (one.tokens, one.relevance, one.unknown) == (another.tokens, another.relevance, another.unknown)
    again.save(tmp_path / "twice")
    for path in (tmp_path / "mine").iterdir():
        assert path.read_bytes() == (tmp_path / "twice" / path.name).read_bytes()


def test_a_function_is_given_at_loading(tmp_path: Path) -> None:
    pipeline = saved(tmp_path, words)
    again = whence.load(tmp_path, Mine(), words)
    assert whence.explain(again, TEXTS[0]).relevance == whence.explain(pipeline, TEXTS[0]).relevance
    with pytest.raises(ModelError, match=r"was saved with a tokenizer of your own, .* whence\.load\(folder, tokenizer=…\)"):
        whence.load(tmp_path, module=Mine())
    with pytest.raises(ModelError, match=r"the given tokenizer is a Tokenizer; .* without ids of its own"):
        whence.load(tmp_path, Mine(), huggingface())


class Dashes:
    """A step of the user's own in a tokenizer of the library."""

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        def parts(_: int, each: NormalizedString) -> list[NormalizedString]:
            return each.split("-", "removed")

        text.split(parts)


def test_a_tokenizer_with_code_in_it_is_given_at_loading(tmp_path: Path) -> None:
    def make() -> Tokenizer:
        tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "film": 2}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = cast(Any, pre_tokenizers.PreTokenizer).custom(Dashes())
        return tokenizer

    pipeline = saved(tmp_path, make(), None)
    assert whence.explain(pipeline, "good-film-noir").unknown == (False, False, True)
    again = whence.load(tmp_path, module=Mine(), tokenizer=make())
    assert whence.explain(again, "good-film").relevance == whence.explain(pipeline, "good-film").relevance
    with pytest.raises(ModelError, match=r"the given tokenizer is a function; .* that brings its ids"):
        whence.load(tmp_path, module=Mine(), tokenizer=words)
    with pytest.raises(ModelError, match="tokenizer of your own"):
        whence.load(tmp_path, module=Mine())


def test_spacy_with_rules_of_other_languages_is_given_at_loading(tmp_path: Path) -> None:
    class Odd:
        """A tokenizer that spaCy allows, without rules."""

        def __init__(self, nlp: Language) -> None:
            self.vocab = nlp.vocab

        def __call__(self, text: str) -> Any:
            return Doc(self.vocab, words=text.split(" "))

    nlp = spacy.blank("xx")
    nlp.tokenizer = Odd(nlp)
    saved(tmp_path, nlp)
    with pytest.raises(ModelError, match="tokenizer of your own"):
        whence.load(tmp_path, module=Mine())
    assert whence.explain(whence.load(tmp_path, Mine(), nlp), "a good film").tokens == ("a", "good", "film")


def test_a_module_of_ones_own_is_given_at_loading(tmp_path: Path) -> None:
    pipeline = saved(tmp_path, TreebankTokenizer())
    assert json.loads((tmp_path / "config.json").read_text())["architecture"] == {"kind": "own", "class": "Mine"}
    with pytest.raises(
        ModelError, match=r"weights of a Mine, a module of your own .* whence\.load\(folder, module=Mine\(…\)\)"
    ):
        whence.load(tmp_path)
    with pytest.raises(ModelError, match=r"again is \(12, 4\) torch\.float32; it must be \(13, 4\) floats"):
        whence.load(tmp_path, module=Mine(13))
    with pytest.raises(ModelError, match="does not hold each weight of the architecture once: again, "):
        whence.load(tmp_path, module=nn.Linear(1, 1))
    with pytest.raises(ModelError, match=r"module is a str; give a torch\.nn\.Module, the Mine"):
        whence.load(tmp_path, module=cast(Any, "Mine"))
    with pytest.raises(ModelError, match=r"holds its tokenizer \(\w+\); leave out tokenizer="):
        whence.load(tmp_path, module=Mine(), tokenizer=words)
    doubled = whence.load(tmp_path, module=Mine().double())
    assert doubled.module.words.weight.dtype == torch.float64
    assert doubled.module.words.weight.float().equal(cast(Mine, pipeline.module).words.weight)
    assert doubled.module.again is doubled.module.words.weight


def test_a_subclass_of_our_module_is_the_users_own(tmp_path: Path) -> None:
    class Halved(RecurrentClassifier):
        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            return super().forward(ids, lengths) / 2

    module = Halved(Architecture(7, 2, "gru", 3, 2))
    whence.Pipeline(module, TreebankTokenizer(), WORDS, ("no", "yes")).save(tmp_path)
    with pytest.raises(ModelError, match="a Halved, a module of your own"):
        whence.load(tmp_path)


def test_our_module_with_a_tokenizer_of_another_library(tmp_path: Path) -> None:
    module = RecurrentClassifier(Architecture(11, 2, "gru", 3, 2))
    pipeline = whence.Pipeline(module, huggingface(), None, ("no", "yes"))
    pipeline.save(tmp_path)
    assert whence.explain(whence.load(tmp_path), TEXTS).by_word() is not None
    again: whence.Pipeline = whence.load(tmp_path)
    assert whence.explain(again, TEXTS[0]).relevance == whence.explain(pipeline, TEXTS[0]).relevance
    with pytest.raises(ModelError, match="holds its module; leave out module="):
        whence.load(tmp_path, module=Mine())
    with pytest.raises(ModelError, match="holds its module; leave out module="):
        whence.load("river-lstm", module=Mine())
    with pytest.raises(ModelError, match="holds a model of series, which has no tokenizer"):
        whence.load("river-lstm", tokenizer=words)


def test_what_has_no_numbers_is_not_saved(tmp_path: Path) -> None:
    class Noted(Mine):
        def get_extra_state(self) -> dict[str, int]:
            return {"note": 1}

    lazy = Mine()
    lazy.out = nn.LazyLinear(2)
    for module, message in ((Noted(), "_extra_state of the module is a dict"), (lazy, "out.weight .* is a UninitializedParam")):
        with pytest.raises(ModelError, match=message):
            whence.Pipeline(module, TreebankTokenizer(), WORDS, ("no", "yes")).save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def edited(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def rules(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    found = json.loads((folder / "spacy.json").read_text())
    change(found)
    (folder / "spacy.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json does not exist; a saved pipeline holds"),
        (lambda d: (d / "tokenizer.json").write_text("{"), "tokenizer.json is no tokenizer's: "),
        (lambda d: (d / "tokenizer.json").write_text("[" * 10**6), "tokenizer.json is no tokenizer's: "),
        (lambda d: (d / "tokenizer.json").write_bytes(b"\xff"), "tokenizer.json is not utf-8 text"),
        (lambda d: (d / "tokenizer.json").write_text('{"class_name": "Tokenizer", "config": {}}'), "is no tokenizer's"),
        (lambda d: (d / "tokenizer.json").write_text(' {"' + "x" * 10**6), "is no tokenizer's"),
        (lambda d: edited(d, unknown=11), "unknown is 11; it must be an id from 0 to 10, or null"),
        (lambda d: edited(d, padding=-1), "padding is -1"),
        (lambda d: edited(d, padding="[PAD]"), r"padding is '\[PAD\]'"),
        (lambda d: edited(d, padding=True), "padding is True"),
        (
            lambda d: edited(d, tokenizer=["spacy"]),
            r"tokenizer is \['spacy'\]; known are characters, treebank, keras, keras-layer, tokenizers",
        ),
        (lambda d: edited(d, tokenizer="treebank"), "vocabulary.txt does not exist"),
        (lambda d: edited(d, architecture={"kind": "eval"}), "its module is of the kind 'eval'; known are keras, onnx, own"),
        (lambda d: edited(d, architecture={"kind": ["own"]}), "is no pipeline's"),
        (lambda d: edited(d, architecture="kind"), "is no pipeline's"),
        (lambda d: edited(d, architecture={"kind": "own", "class": "x" * 10**6}, sha256={}), "do not belong together"),
        (
            lambda d: (d / "tokenizer.json").write_text((d / "tokenizer.json").read_text().replace("good", "fine")),
            "do not belong together",
        ),
    ],
)
def test_a_damaged_tokenizer_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    saved(tmp_path, huggingface(), None)
    spoil(tmp_path)
    module = Mine()
    before = [each.clone() for each in module.parameters()]
    with pytest.raises(ModelError, match=message) as caught:
        whence.load(tmp_path, module=None if "kind" in message or "no pipeline" in message else module)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert all(one.equal(other) for one, other in zip(module.parameters(), before, strict=True))


def test_a_huge_tokenizer_is_not_parsed(tmp_path: Path) -> None:
    saved(tmp_path, huggingface(), None)
    with (tmp_path / "tokenizer.json").open("r+b") as file:
        file.truncate(LARGEST_TOKENIZER + 1)
    with pytest.raises(ModelError, match=f"it has {LARGEST_TOKENIZER + 1} bytes; at most {LARGEST_TOKENIZER} are read"):
        whence.load(tmp_path, module=Mine())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("patterns"), "KeyError"),
        (lambda r: r["patterns"].pop("url_match"), "it has the patterns"),
        (lambda r: r["patterns"].update(url_match=["(", 0]), "missing"),
        (lambda r: r["patterns"].update(url_match="abc"), "TypeError"),
        (lambda r: r["patterns"].update(url_match=["a", "b"]), "TypeError"),
        (lambda r: r["patterns"].update(url_match=["a{99999999999}", 0]), "is no tokenizer's"),
        (lambda r: r["exceptions"].update(ab=["a", "c"]), "ValueError"),
        (lambda r: r["exceptions"].update(ab=5), "is no tokenizer's"),
        (lambda r: r.update(exceptions=[]), "is no tokenizer's"),
    ],
)
def test_damaged_rules_are_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    saved(tmp_path, english())
    rules(tmp_path, change)
    with pytest.raises(ModelError, match=message):
        whence.load(tmp_path, module=Mine())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<pad>\n<unk>\ngood\ngood\n", "must hold different tokens, one a line$"),
        ("<pad>\n<unk>\ngood", "must hold different tokens, one a line$"),
        ("", "must hold different tokens"),
        ("\\\n\\\n", "must hold different tokens"),
    ],
)
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, content: str, message: str) -> None:
    saved(tmp_path, TreebankTokenizer())
    (tmp_path / "vocabulary.txt").write_text(content)
    with pytest.raises(ModelError, match=message):
        whence.load(tmp_path, module=Mine())


def test_half_a_character_in_a_vocabulary_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the vocabulary holds '\\\\ud800', which is no character"):
        saved(tmp_path, TreebankTokenizer(), Vocabulary(["\ud800"]))
    assert list(tmp_path.iterdir()) == []


# Modules that are built again from their settings, as those of other frameworks are


class Built(nn.Module):
    """A stand-in for a module that is made from the file of another framework."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.words, self.gru, self.out = nn.Embedding(rows, 4), nn.GRU(4, 3, batch_first=True), nn.Linear(3, 2)
        self.rows = rows

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.gru(self.words(x) if x.dtype == torch.long else x)[0][:, -1])

    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows, "layers": [{"gru": 3}]}

    @classmethod
    def built(cls, settings: Mapping[str, Any]) -> "Built":
        if set(settings) != {"rows", "layers"} or not isinstance(settings["rows"], int):
            raise ModelError(f"the layers are {settings!r}")
        return cls(settings["rows"])


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ModuleType("stand_in")
    cast(Any, home).Built = Built
    monkeypatch.setitem(sys.modules, "stand_in", home)
    monkeypatch.setitem(architectures.BUILT, "stand-in", ("stand_in", "Built"))


@pytest.mark.usefixtures("registered")
def test_a_module_is_built_again_from_its_settings(tmp_path: Path) -> None:
    pipeline = whence.Pipeline(Built(7), TreebankTokenizer(), WORDS, ("no", "yes"))
    pipeline.save(tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())["architecture"]
    assert described == {"kind": "stand-in", "rows": 7, "layers": [{"gru": 3}]}
    again: whence.Pipeline = whence.load(tmp_path)
    assert fingerprint(again) == fingerprint(pipeline) and isinstance(again.module, Built)
    assert whence.explain(again, TEXTS[0]).relevance == whence.explain(pipeline, TEXTS[0]).relevance
    with pytest.raises(ModelError, match="holds its module; leave out module="):
        whence.load(tmp_path, module=Built(7))
    for wrong, message in (({"rows": 8}, r"words\.weight is \(7, 4\)"), ({"rows": "7"}, "the layers are")):
        edited(tmp_path, architecture=described | wrong)
        with pytest.raises(ModelError, match=message):
            whence.load(tmp_path)


@pytest.mark.usefixtures("registered")
def test_a_built_module_without_all_its_numbers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whence.Pipeline(Built(7), TreebankTokenizer(), WORDS, ("no", "yes")).save(tmp_path)

    def built(cls: type[Built], settings: Mapping[str, Any]) -> Built:
        module = Built(settings["rows"])
        module.register_buffer("scale", torch.ones(1), persistent=False)
        return module

    monkeypatch.setattr(Built, "built", classmethod(built))
    with pytest.raises(ModelError, match="does not hold all numbers of the module: scale"):
        whence.load(tmp_path)


@pytest.mark.usefixtures("registered")
def test_series_models_around_such_modules_come_back(tmp_path: Path) -> None:
    series = torch.randn(1, 5, 4)
    for n, (module, given) in enumerate([(Built(3), None), (Mine(), Mine())]):
        model = whence.SeriesModel(module.eval(), features=tuple("abcd"), outputs=("low", "high"), unit="m")
        model.save(tmp_path / str(n))
        again: whence.SeriesModel = whence.load(tmp_path / str(n), module=given)
        assert (again.features, again.outputs, again.unit) == (model.features, model.outputs, "m")
        for name, weight in model.module.state_dict().items():
            assert again.module.state_dict()[name].equal(weight)
    assert whence.load(tmp_path / "0").module(series).shape == (1, 2)
    with pytest.raises(ModelError, match="the weights of a Mine, a module of your own"):
        whence.load(tmp_path / "1")


def test_the_example_runs() -> None:
    script = Path(__file__).parents[2] / "examples" / "own_tokenizer.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "loaded again, the same relevance: True" in done.stdout
