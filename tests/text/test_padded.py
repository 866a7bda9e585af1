"""Texts that are padded or cut to one length."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whence
from whence.text.padded import PaddedTokenizer, padding_word, with_padding_word
from whence.text.tokenizer import CharacterTokenizer, TreebankTokenizer
from whence.text.vocabulary import Vocabulary

WORDS = Vocabulary(["<pad>", "<unk>", "a", "good", "film"], unknown="<unk>", padding="<pad>")


class Mean(nn.Module):
    """The mean over all words, padding included."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.lstm, self.head = nn.Embedding(5, 3), nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(ids))[0].mean(1))


def padded(tokenizer: object = None, **more: Any) -> PaddedTokenizer:
    settings: dict[str, Any] = {"length": 4, "token": "<pad>", "pad": "before", **more}
    return PaddedTokenizer(tokenizer or TreebankTokenizer(), **settings)


def pipeline_of(tokenizer: object) -> whence.Pipeline:
    return whence.Pipeline(Mean().double().eval(), tokenizer, WORDS, ("no", "yes"))


@pytest.mark.parametrize(
    ("pad", "cut", "text", "tokens", "ids"),
    [
        ("before", "before", " good film", ("<pad>", "<pad>", "good", "film"), [0, 0, 3, 4]),
        ("after", "before", "good film ", ("good", "film", "<pad>", "<pad>"), [3, 4, 0, 0]),
        ("before", "before", "a good a good film", ("good", "a", "good", "film"), [3, 2, 3, 4]),
        ("before", "after", "a good a good film", ("a", "good", "a", "good"), [2, 3, 2, 3]),
        ("after", "after", "a good a good", ("a", "good", "a", "good"), [2, 3, 2, 3]),
    ],
)
def test_texts_are_padded_and_cut(pad: str, cut: str, text: str, tokens: tuple[str, ...], ids: list[int]) -> None:
    pipeline = pipeline_of(padded(pad=pad, cut=cut))
    for given in (text, tuple(text.split())):
        (found,) = whence.explain(pipeline, [given])
        assert found.tokens == tokens
        expected = whence.relevance(pipeline.module, torch.tensor([ids]), target=int(found.target == "yes"), by_step=True)
        torch.testing.assert_close(torch.tensor(found.relevance).double(), expected.relevance[0])
        assert sum(found.relevance) + sum(found.absorbed.values()) == pytest.approx(found.score)
        assert [found.text[start:end] or found.tokens[n] for n, (start, end) in enumerate(found.spans)] == list(tokens)
        assert list(found.spans) == sorted(found.spans)
        assert found.by_word().tokens == tokens


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(whence.InputError, match="the text is empty"):
        whence.explain(pipeline_of(padded()), "  ")


@pytest.mark.parametrize("tokenizer", [TreebankTokenizer(), CharacterTokenizer(), str.split])
def test_it_is_saved_and_loaded(tokenizer: object, tmp_path: Path) -> None:
    pipeline = pipeline_of(padded(tokenizer, pad="after", cut="after"))
    pipeline.save(tmp_path)
    own = {"tokenizer": str.split} if tokenizer is str.split else {}
    again: Any = whence.load(tmp_path, module=Mean().double(), **own)
    for text in ("good film", "a good a good film"):
        assert whence.explain(again, text).relevance == whence.explain(pipeline, text).relevance
    if own:
        with pytest.raises(
            whence.ModelError, match=r"tokenizer=…\), or to a command by --model package.module:factory, a func"
        ):
            whence.load(tmp_path, module=Mean().double())
        with pytest.raises(whence.ModelError, match=r"tokenizer pads texts; config.json of .* give its own one"):
            whence.load(tmp_path, module=Mean().double(), tokenizer=padded(str.split))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (None, "padded is None; it must hold length, pad and cut"),
        ({"length": 4}, "padded is {'length': 4}; it must hold length, pad and cut"),
        ({"length": 0, "pad": "after", "cut": "after"}, "length is 0; give a whole number of tokens from 1 to"),
        ({"length": True, "pad": "after", "cut": "after"}, "length is True"),
        ({"length": 10**9, "pad": "after", "cut": "after"}, "length is 1000000000"),
        ({"length": 4, "pad": [], "cut": "after"}, r"pad is \[\]; give 'before' or 'after'"),
        ({"length": 4, "pad": "after", "cut": "pre"}, "cut is 'pre'; give 'before' or 'after'"),
    ],
)
def test_damaged_settings_are_refused(settings: object, says: str, tmp_path: Path) -> None:
    pipeline_of(padded()).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "padded": settings}), "utf-8")
    with pytest.raises(whence.ModelError, match=f"config.json: {says}"):
        whence.load(tmp_path, module=Mean().double())


def test_a_folder_whose_vocabulary_has_no_word_for_padding_is_refused(tmp_path: Path) -> None:
    pipeline_of(padded()).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "padding": None}), "utf-8")
    with pytest.raises(whence.ModelError, match="texts are padded, and no word of the vocabulary is its padding"):
        whence.load(tmp_path, module=Mean().double())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(whence.ModelError, match=r"padded with '\[PAD\]', and the vocabulary's word for padding is '<pad>'"):
        pipeline_of(padded(token="[PAD]"))
    with pytest.raises(whence.ModelError, match="a PaddedTokenizer pads texts itself; give a tokenizer of words"):
        padded(padded())


def test_padding_without_a_word_gets_one() -> None:
    bare = Vocabulary({"a": 1, "<pad>": 2}, unknown=None, padding=0)
    named = with_padding_word(bare)
    assert padding_word(bare) is None and padding_word(named) == "<pad 1>"
    assert named.ids(["<pad 1>", "a", "<pad>"]) == [0, 1, 2] and len(named) == len(bare)
    assert with_padding_word(WORDS) is WORDS and padding_word(Vocabulary(["a"])) is None
