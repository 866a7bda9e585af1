"""Relevance by word: nothing is lost, and what is known of the tokens is known of the words."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

import whence
from whence import Explanation
from whence.render.formats import FORMATS, rendered
from whence.text.tokenizer import Token
from whence.text.words import word_groups

TEXTS = [
    "It isn't funny .",
    "  Neither funny nor suspenseful  ",
    "“Well-drawn”,\nsaid the naïve critic…",
    "a",
    "gonna cost $3.50, e.g.",
    "\ta\t ",
    "...",
]


class Pieces:
    """A tokenizer of pieces of up to three characters, each with the space before it, between two marks without text."""

    name = "pieces"

    def tokens(self, text: str) -> list[Token]:
        found, start = [Token(0, 0, "[start]")], 0
        while start < len(text):
            end = start + (1 if text[start].isspace() else 0)
            while end < len(text) and end - start < 3 and not text[end].isspace():
                end += 1
            found.append(Token(start, end, text[start:end].lower()))
            start = end
        return [*found, Token(len(text), len(text), "[end]")]

    def forms(self, words: Sequence[str]) -> list[str]:
        return [token.form for token in self.tokens(" ".join(words))]


@pytest.mark.parametrize("text", TEXTS)
def test_characters_add_up_to_words(text: str) -> None:
    whole = whence.explain("sst-char-gru", text, encoders=True)
    words = whole.by_word()
    assert sum(words.relevance) == pytest.approx(sum(whole.relevance))
    assert [sum(each) for each in words.encoders] == pytest.approx([sum(each) for each in whole.encoders])
    assert words.absorbed == whole.absorbed and words.score == whole.score
    expected = whence.explain("sst-bilstm", text).tokens if text.strip() else (text,)
    assert words.tokens == expected
    assert tuple(text[start:end] for start, end in words.spans) == words.tokens
    assert words.by_word() == words


def test_the_space_behind_a_word_is_its_own() -> None:
    whole = whence.explain("sst-char-gru", "It isn't funny .")
    words = whole.by_word()
    assert words.tokens == ("It", "is", "n't", "funny", ".")
    assert words.relevance[3] == pytest.approx(sum(whole.relevance[9:15]))
    assert sum(map(len, word_groups(whole.text, whole.spans))) == len(whole.tokens)


@pytest.mark.parametrize("text", ["It isn't funny .", ("a", "b c", "gon", "na")])
def test_words_stay_as_they_are(text: str | tuple[str, ...]) -> None:
    (whole,) = whence.explain("sst-bilstm", [text], deleted=[[1]])
    assert whole.by_word() is whole


def test_pieces_of_words_add_up_and_marks_stay() -> None:
    pipeline = replace(whence.load("sst-bilstm"), tokenizer=Pieces())
    whole = whence.explain(pipeline, "unbelievably good film")
    assert whole.tokens == ("[start]", "unb", "eli", "eva", "bly", " go", "od", " fi", "lm", "[end]")
    words = whole.by_word()
    assert words.tokens[1:-1] == ("unbelievably", "good", "film") and words.spans[0] == (0, 0) and words.spans[-1] == (22, 22)
    expected = [whole.relevance[0], *(sum(whole.relevance[a:b]) for a, b in ((1, 5), (5, 7), (7, 9))), whole.relevance[9]]
    assert words.relevance == pytest.approx(expected)


def test_a_word_is_unknown_if_a_character_is_and_deleted_if_all_are() -> None:
    whole = whence.explain("sst-char-gru", "a na☃ve film", deleted=[0, 2, 3, 8, 9, 10, 11])
    words = whole.by_word()
    assert words.tokens == ("a", "na☃ve", "film")
    assert words.unknown == (False, True, False)
    assert words.deleted == (0, 2)


def test_standard_errors_of_characters_are_none_of_words() -> None:
    whole = whence.explain("sst-char-gru", "not so", method=whence.Shapley(samples=6))
    assert len(whole.errors) == 6 and whole.by_word().errors == ()


def test_a_list_is_gathered_too() -> None:
    found = whence.explain("sst-char-gru", ["good", "bad film"], target="all").by_word()
    assert isinstance(found, whence.Explanations)
    assert [each.tokens for each in found[::5]] == [("good",), ("bad", "film")]


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_shows_words(format: str) -> None:
    words: Explanation = whence.explain("sst-char-gru", "not suspenseful").by_word()
    found = rendered([[words]], format)
    if format == "json":
        assert json.loads(found)["tokens"] == ["not", "suspenseful"]
    else:
        assert "suspenseful" in found
    if format == "html":
        assert found.count("suspenseful</") == 1
