"""Tokenizers of other libraries and plain functions: positions in the text as the user wrote it, and ids as theirs."""

import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, cast

import pytest
import spacy
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.implementations.byte_level_bpe import ByteLevelBPETokenizer
from torch import Tensor, nn

import whence
from whence._batches import batches, cut
from whence._explain import explain_all
from whence.errors import InputError, ModelError
from whence.text.aligning import aligned
from whence.text.huggingface import HuggingFaceTokenizer
from whence.text.tokenizer import CharacterTokenizer, Token
from whence.text.vocabulary import Vocabulary
from whence.text.words import word_groups

SENTENCES = ["a good film , not bad at all", "unbelievably boring films", "it isn't good , it is great !"] * 4
TEXTS = [
    "A Good  film, isn't it?",
    "🙂👩‍👩‍👧 naïve İstanbul ﬁlm",
    "\x00 nul",
    "مرحبا بالعالم",
    "你好世界 hello",
    "  lead\n\ntrail \t",
    "ΣΑΣ straße e\u0301",
    "<s> [SEP] </s> typed",
    "a\u200bb\ufeffc",
    "½ ﷺ Ⅷ",
]


def byte_pairs() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return tokenizer


def word_pieces() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=60, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def sentence_pieces() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=50, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


MAKERS = {"byte pairs": byte_pairs, "word pieces": word_pieces, "sentence pieces": sentence_pieces}


@cache
def trained(kind: str) -> Tokenizer:
    return MAKERS[kind]()


class Own(nn.Module):
    """A user's module over `rows` ids."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.gru, self.out = nn.Embedding(rows, 4), nn.GRU(4, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.gru(self.words(ids))[0].amax(1))


class Masked(Own):
    """The same, told which ids count."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        assert attention_mask is not None and attention_mask.shape == ids.shape and bool(attention_mask.all())
        return super().forward(ids)


class Measured(Own):
    """The same, told the lengths of the texts."""

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        assert lengths is not None
        states = self.gru(self.words(ids))[0]
        return self.out(states[torch.arange(len(ids)), lengths - 1])


def pipeline_of(tokenizer: Tokenizer, module: Callable[[int], nn.Module] = Own) -> whence.Pipeline:
    return whence.Pipeline(module(tokenizer.get_vocab_size()), tokenizer, None, ("no", "yes"))


def require_sane(explanation: whence.Explanation) -> None:
    text, place = explanation.text, 0
    for start, end in explanation.spans:
        assert place <= start <= end <= len(text)
        place = end
    assert len(explanation.tokens) == len(explanation.spans) == len(explanation.relevance) == len(explanation.unknown)
    assert "".join(text[start:end] for start, end in explanation.spans) == "".join(
        token for token, (start, end) in zip(explanation.tokens, explanation.spans, strict=True) if start < end
    )
    words = explanation.by_word(word_groups(text, explanation.spans, explanation.tokens))
    assert sum(words.relevance) == pytest.approx(sum(explanation.relevance), abs=1e-5)
    assert sum(explanation.by_word().relevance) == pytest.approx(sum(explanation.relevance), abs=1e-5)
    assert sum(explanation.relevance) + sum(explanation.absorbed.values()) == pytest.approx(explanation.score, abs=1e-5)
    assert str(explanation) and explanation._repr_html_() and explanation.to_dict()["tokens"] == list(explanation.tokens)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", MAKERS)
def test_ids_are_the_tokenizers_and_spans_are_the_texts(kind: str, text: str) -> None:
    pipeline, found = pipeline_of(trained(kind)), trained(kind).encode(text)
    assert pipeline.vocabulary.ids(cut(pipeline, text).forms) == found.ids
    explanation = whence.explain(pipeline, text)
    require_sane(explanation)
    assert explanation.unknown == tuple(number == pipeline.vocabulary.unknown for number in found.ids)


@pytest.mark.parametrize("kind", MAKERS)
def test_odd_texts_break_nothing(kind: str) -> None:
    pipeline, draw = pipeline_of(trained(kind)), random.Random(0)
    texts = ["".join(draw.choices("ab 🙂é\u0301İßﬁ\n\x00你م\u200d'[].,▁Ġ#<s>", k=draw.randint(1, 12))) for _ in range(150)]
    told = [text for text in texts if pipeline.tokenizer.tokens(text)]
    assert len(told) > 100
    for explanation in whence.explain(pipeline, told):
        require_sane(explanation)


def test_marks_are_tokens_without_text_and_have_names() -> None:
    explanation = whence.explain(pipeline_of(trained("word pieces")), "A good film")
    assert explanation.tokens == ("[CLS]", "A", "good", "film", "[SEP]")
    assert explanation.spans == ((0, 0), (0, 1), (2, 6), (7, 11), (11, 11))
    assert explanation.unknown == (False,) * 5
    assert explanation.relevance[0] != 0
    gone = whence.explain(pipeline_of(trained("word pieces")), "A good film", deleted=[0], target=explanation.target)
    assert gone.deleted == (0,) and gone.score != explanation.score


def test_the_bytes_of_a_character_belong_to_its_word() -> None:
    pipeline = pipeline_of(trained("byte pairs"))
    explanation = whence.explain(pipeline, "good🙂 é")
    emoji = explanation.tokens.index("🙂")
    assert explanation.tokens[emoji : emoji + 4] == ("🙂", "", "", "")
    assert explanation.spans[emoji : emoji + 4] == ((4, 5), (5, 5), (5, 5), (5, 5))
    groups = word_groups(explanation.text, explanation.spans, explanation.tokens)
    words = explanation.by_word(groups)
    assert [explanation.text[start:end] for start, end in words.spans] == ["", "good🙂", "é", ""]
    assert words.relevance[1] == pytest.approx(sum(explanation.relevance[n] for n in groups[1]))


@pytest.mark.parametrize(("kind", "pieces"), [("word pieces", 2), ("sentence pieces", 3), ("byte pairs", 3)])
def test_pieces_add_up_to_the_words_of_the_text(kind: str, pieces: int) -> None:
    explanation = whence.explain(pipeline_of(trained(kind)), "Unbelievably good, isn't it")
    groups = word_groups(explanation.text, explanation.spans, explanation.tokens)
    words = explanation.by_word(groups)
    written = [explanation.text[start:end] for start, end in words.spans if start < end]
    assert len(explanation.tokens) > len(words.tokens) + pieces
    assert written[:3] == ["Unbelievably", "good", ","] and "".join(written) == "Unbelievablygood,isn'tit"


def test_a_boundary_alone_leaves_the_character_to_the_next_piece() -> None:
    explanation = whence.explain(pipeline_of(trained("sentence pieces")), "🙂 good")
    assert (explanation.tokens[:2], explanation.spans[:2]) == (("", "🙂"), ((0, 0), (0, 1)))
    assert explanation.unknown[:2] == (False, True)


def test_lower_case_is_the_tokenizers_matter() -> None:
    explanation = whence.explain(pipeline_of(trained("word pieces")), "A GOOD Film")
    assert explanation.tokens[1:-1] == ("A", "GOOD", "Film") and not any(explanation.unknown)


def test_a_fast_tokenizer_of_transformers_reads_the_whole_text() -> None:
    own = trained("word pieces")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=own, unk_token="[UNK]", pad_token="[PAD]")
    fast(["a good film , not bad"], truncation=True, max_length=3, padding="max_length")  # settings stay in its backend
    pipeline = whence.Pipeline(Own(own.get_vocab_size()), fast, None, ("no", "yes"))
    assert (pipeline.vocabulary.unknown, pipeline.vocabulary.padding) == (1, 0)
    text = "a good film , not bad at all"
    assert pipeline.vocabulary.ids(cut(pipeline, text).forms) == fast(text)["input_ids"]
    assert whence.explain(pipeline, text).relevance == whence.explain(pipeline_of(own), text).relevance


def test_padding_is_left_out_and_truncation_kept() -> None:
    tokenizer = word_pieces()
    tokenizer.enable_padding(length=12, pad_id=0, pad_token="[PAD]")
    tokenizer.enable_truncation(4)
    explanation = whence.explain(pipeline_of(tokenizer), "a good film , not bad")
    assert explanation.tokens == ("[CLS]", "a", "good", "[SEP]")


def test_the_bytes_tokenizer_of_the_library_is_taken_as_it_is() -> None:
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(iter(SENTENCES), vocab_size=280, show_progress=False)
    pipeline = whence.Pipeline(Own(280), tokenizer, None, ("no", "yes"))
    require_sane(whence.explain(pipeline, "A good 🙂"))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_pipeline_can_be_copied_and_sent_to_another_process(kind: str) -> None:
    pipeline = pipeline_of(trained(kind))
    for other in (replace(pipeline, name="other"), pickle.loads(pickle.dumps(pipeline))):
        assert whence.explain(other, TEXTS[0]).relevance == whence.explain(pipeline, TEXTS[0]).relevance


def test_given_words_are_read_as_running_text() -> None:
    (found,) = whence.explain(pipeline_of(trained("word pieces")), [("it", "is", "n't", "good")])
    assert found.text == "it isn't good"


@pytest.mark.parametrize("text", ["", " \n ", "\ufeff"])
def test_a_text_of_marks_alone_is_empty(text: str) -> None:
    with pytest.raises(InputError, match="the text is empty"):
        whence.explain(pipeline_of(trained("word pieces")), text)


def test_a_text_that_the_tokenizer_reduces_to_nothing_is_an_entry_of_its_column() -> None:
    tokenizer = trained_words()
    tokenizer.normalizer = normalizers.Replace("#", "")
    good, nothing = whence.explain(pipeline_of(tokenizer), ["a good film", "###"])
    assert not good.error and nothing.error == "the text is empty: there is no word to explain in '###'"


def trained_words() -> Tokenizer:
    """Words without marks around the text."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "good": 1, "film": 2, "<unk>": 3}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_half_a_character_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"text 2 cannot be read: it holds '\\ud800' at character 5, which is half a character"
    ):
        explain_all(pipeline_of(trained("word pieces")), ["good", "good \ud800"])


def test_an_id_without_a_row_names_the_id_and_the_rows() -> None:
    tokenizer = trained("word pieces")
    pipeline = whence.Pipeline(Own(20), tokenizer, None, ("no", "yes"))
    number = max(tokenizer.encode("film").ids)
    assert number >= 20
    with pytest.raises(
        InputError, match=rf"has the id {number}; the module's nn.Embedding 'words' has 20 rows, for the ids 0 to 19"
    ):
        whence.explain(pipeline, "film")
    with pytest.raises(ModelError, match=r"nn.Embedding has 4 rows for a vocabulary of 6 tokens.*: the largest id is 5"):
        whence.explain(whence.Pipeline(Own(4), str.split, Vocabulary({"good": 5}, unknown=0), ("no", "yes")), "good")


def test_a_text_of_very_many_tokens() -> None:
    pipeline = pipeline_of(trained("byte pairs"))
    text = "a good 🙂 " * 14_000
    tokens = pipeline.tokenizer.tokens(text)
    assert len(tokens) > 100_000 and tokens[-1].end <= len(text)
    spans = [(token.start, token.end) for token in tokens]
    assert len(word_groups(text, spans, [text[start:end] for start, end in spans])) == 3 * 14_000
    words = "Good film, " * 50_000
    assert len(aligned(words, words.lower().replace(",", "").split())) == 100_000


@pytest.mark.parametrize("module", [Own, Masked, Measured])
def test_texts_of_several_lengths_are_explained_as_alone(module: Callable[[int], nn.Module]) -> None:
    pipeline = pipeline_of(trained("word pieces"), module)
    for text, explanation in zip(SENTENCES[:3], whence.explain(pipeline, SENTENCES[:3]), strict=True):
        assert whence.explain(pipeline, text).relevance == pytest.approx(explanation.relevance, abs=1e-6)


def test_batches_are_filled_up_with_the_padding_id() -> None:
    words = Vocabulary(["good", "film", "<unk>", "<pad>"], unknown="<unk>", padding="<pad>")
    pipeline = whence.Pipeline(Measured(4), str.split, words, ("no", "yes"))
    ((rows, forward),) = batches(pipeline, [cut(pipeline, text) for text in ("good zebra film", "film")], size=8)
    assert [forward.inputs.tensors[0].tolist()[rows.index(n)] for n in (0, 1)] == [[0, 2, 1], [1, 3, 3]]
    assert whence.explain(pipeline, "good zebra film").unknown == (False, True, False)


# spaCy


def test_spacys_words_stand_where_they_are_written() -> None:
    words = Vocabulary(["<unk>", "good", "n't", "is"], unknown="<unk>")
    for tokenizer in (spacy.blank("en"), spacy.blank("en").tokenizer):
        pipeline = whence.Pipeline(Own(4), tokenizer, words, ("no", "yes"))
        explanation = whence.explain(pipeline, "it isn't  good 🙂")
        assert explanation.tokens == ("it", "is", "n't", " ", "good", "🙂")
        assert explanation.unknown == (True, False, False, True, False, True)
        require_sane(explanation)
        (split,) = whence.explain(pipeline, [("is", "n't", "good")])
        assert split.tokens == ("is", "n't", "good")
        with pytest.raises(InputError, match="the text is empty"):
            whence.explain(pipeline, "  \n")


# functions

FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "words": lambda text: text.lower().replace(",", " ").split(),
    "spans": lambda text: [(0, 4), (5, 9), (11, 14)],
    "spans and words": lambda text: ((start, end, text[start:end].lower()) for start, end in ((0, 4), (5, 9), (11, 14))),
    "an array": lambda text: torch.tensor([[0, 4], [5, 9], [11, 14]]).numpy(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_give_spans_or_words(name: str) -> None:
    words = Vocabulary(["<pad>", "<unk>", "good", "film", "Good"], unknown="<unk>", padding="<pad>")
    explanation = whence.explain(whence.Pipeline(Own(5), FUNCTIONS[name], words, ("no", "yes")), "Good film, yes")
    assert explanation.tokens == ("Good", "film", "yes")
    assert explanation.unknown == (False, False, True)
    require_sane(explanation)


def test_a_function_may_add_marks() -> None:
    def marked(text: str) -> list[tuple[int, int, str]]:
        return [(0, 0, "<s>"), (0, len(text), text), (len(text), len(text), "</s>")]

    words = Vocabulary(["<s>", "</s>", "good"], unknown=None)
    explanation = whence.explain(whence.Pipeline(Own(3), marked, words, ("no", "yes")), "good")
    assert explanation.tokens == ("<s>", "good", "</s>")
    require_sane(explanation)


def test_split_words_stay_if_the_function_leaves_them_whole() -> None:
    pipeline = whence.Pipeline(Own(3), lambda text: text.lower().split("-"), Vocabulary(["good", "is"]), ("no", "yes"))
    whole, parts = whence.explain(pipeline, [("Is", "good"), ("well-made", "is")])
    assert whole.tokens == ("Is", "good") and whole.unknown == (False, False)
    assert parts.tokens == ("well", "made is")


@pytest.mark.parametrize(
    ("text", "words", "places"),
    [
        ("the he", ["he"], [(4, 6)]),
        ("The Film, THE film", ["the", "film", "the", "film"], [(0, 3), (4, 8), (10, 13), (14, 18)]),
        ("unbelievable", ["un", "##believ", "##able"], [(0, 2), (2, 8), (8, 12)]),
        ("a film", ["▁a", "▁fi", "lm"], [(0, 1), (2, 4), (4, 6)]),
        ("a film", ["a", "Ġfilm"], [(0, 1), (2, 6)]),
        ("low lowest", ["low</w>", "low@@", "est"], [(0, 3), (4, 7), (7, 10)]),
        ("İstanbul straße ΣΑΣ", ["i̇stanbul", "strasse", "σας"], [(0, 8), (9, 15), (16, 19)]),
        ("ß", ["s", "s"], [(0, 1), (1, 1)]),
        ("## is a mark", ["##", "is"], [(0, 2), (3, 5)]),
        ("🙂 \x00 مرحبا", ["🙂", "\x00", "مرحبا"], [(0, 1), (2, 3), (4, 9)]),
        ("running ponies", ["run", "poni"], [(0, 3), (8, 12)]),
        (" a ", [" ", "a", " "], [(0, 1), (1, 2), (2, 3)]),
        ("a\ud800b", ["a", "\ud800", "b"], [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_words_are_found_in_order(text: str, words: list[str], places: list[tuple[int, int]]) -> None:
    assert aligned(text, words) == [Token(*place, word) for place, word in zip(places, words, strict=True)]


def failing(text: str) -> list[str]:
    raise KeyError("no model")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: [(0, 3), (2, 5)], r"token 2 is \(2, 5\); spans must be in order, .* 3 ≤ start ≤ end ≤ 11"),
        (lambda text: [(4, 7), (0, 3)], r"token 2 is \(0, 3\)"),
        (lambda text: [(0, 12)], r"token 1 is \(0, 12\)"),
        (lambda text: [(-3, 3)], r"token 1 is \(-3, 3\)"),
        (lambda text: [(3, 1)], r"token 1 is \(3, 1\)"),
        (lambda text: [(0, 0)], "holds no text; a mark without text needs a name"),
        (lambda text: [(0, 3), "cat"], "token 2 is 'cat'; it has to give"),
        (lambda text: [(0, 3, 7)], r"token 1 is \(0, 3, 7\)"),
        (lambda text: [(0.0, 3.0)], r"token 1 is \(0.0, 3.0\)"),
        (lambda text: [(False, True)], r"token 1 is \(False, True\)"),
        (lambda text: [b"the"], "token 1 is b'the'"),
        (lambda text: "the cat", "the tokenizer gave a str"),
        (lambda text: None, "the tokenizer gave a NoneType"),
        (lambda text: ["the", "dog"], "word 2, 'dog', does not stand in the text after 'the'; a tokenizer that changes words"),
        (lambda text: ["cat", "the"], "word 2, 'the', does not stand in the text after"),
        (failing, "the tokenizer failed: KeyError: 'no model'"),
        (lambda text: [], "text 2 is empty"),
        (lambda text: [(0, 3, "x" * 10**6), (0, 1)], "token 2"),
    ],
)
def test_what_a_function_may_not_give(function: Callable[[str], Any], message: str) -> None:
    def own(text: str) -> Any:
        return ["fine"] if text == "fine" else function(text)

    pipeline = whence.Pipeline(Own(9), own, Vocabulary(["the"]), ("no", "yes"))
    with pytest.raises(InputError, match=message) as caught:
        explain_all(pipeline, ["fine", "the cat sat"])
    assert str(caught.value).startswith("text 2 ") and len(str(caught.value)) < 400


def test_a_word_that_is_not_in_a_vocabulary_without_an_unknown_one_names_the_text() -> None:
    pipeline = whence.Pipeline(Own(2), str.split, {"good": 0, "film": 1}, ("no", "yes"))
    assert whence.explain(pipeline, "good film").unknown == (False, False)
    with pytest.raises(InputError, match="text 2 cannot be read: the word 'bad' is not in the vocabulary"):
        explain_all(pipeline, ["good", "bad film"])


class Slow(transformers.PreTrainedTokenizerBase):  # pyright: ignore[reportUntypedBaseClass]
    """A tokenizer without a fast backend."""

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "Slow()"


@pytest.mark.parametrize(
    ("tokenizer", "vocabulary", "message"),
    [
        (None, {"a": 0}, "tokenizer is a NoneType; give a tokenizer of whence, a tokenizers.Tokenizer"),
        (CharacterTokenizer, {"a": 0}, r"tokenizer is the class CharacterTokenizer; give an instance of it, such as"),
        (str.split, None, "vocabulary is None, and the tokenizer has no ids of its own"),
        (str.split, ["a"], "vocabulary is a list; give a Vocabulary, or a dict"),
        (byte_pairs, None, "vocabulary is None"),
    ],
)
def test_what_is_no_tokenizer_or_vocabulary(tokenizer: object, vocabulary: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        whence.Pipeline(Own(3), tokenizer, cast(Any, vocabulary), ("no", "yes"))


def test_a_tokenizer_that_splits_at_random_is_refused() -> None:
    tokenizer = byte_pairs()
    tokenizer.model.dropout = 0.5
    with pytest.raises(ModelError, match=r"splits at random \(dropout 0\.5\), .* set tokenizer\.model\.dropout = None"):
        pipeline_of(tokenizer)


def test_a_token_that_is_added_later_is_refused() -> None:
    tokenizer = word_pieces()
    pipeline = pipeline_of(tokenizer)
    tokenizer.add_tokens(["zebra"])
    with pytest.raises(InputError, match="the tokenizer gave the id 60, which its vocabulary did not have when it was given"):
        whence.explain(pipeline, "a zebra")


def test_ids_come_from_one_place_only() -> None:
    with pytest.raises(ModelError, match="the tokenizer brings its own ids; give vocabulary=None"):
        whence.Pipeline(Own(60), trained("word pieces"), Vocabulary(["good"]), ("no", "yes"))
    with pytest.raises(ModelError, match=r"Slow, a slow tokenizer of transformers, .* give the fast one"):
        whence.Pipeline(Own(60), Slow(), None, ("no", "yes"))


def test_a_tokenizer_of_the_protocol_is_taken_as_it_is() -> None:
    tokenizer = CharacterTokenizer()
    assert whence.Pipeline(Own(3), tokenizer, Vocabulary("ab"), ("no", "yes")).tokenizer is tokenizer
    own = HuggingFaceTokenizer(trained("word pieces"))
    assert whence.Pipeline(Own(60), own, None, ("no", "yes")).vocabulary is own.vocabulary
