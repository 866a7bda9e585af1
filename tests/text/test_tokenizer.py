"""Free text becomes the treebank's tokens, each with its position; no character is lost."""

import re
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.data.sst import read_split
from whence.text.tokenizer import TOKENIZERS, CharacterTokenizer, Token, Tokenizer, TreebankTokenizer, running_text

TREEBANK = TreebankTokenizer()


def forms(text: str) -> list[str]:
    return [token.form for token in TREEBANK.tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It isn't good.", "it is n't good ."),
        ("I can't, won't and shouldn’t", "i ca n't , wo n't and should n't"),
        ("(really) \"good\" 'fun'", "-lrb- really -rrb- `` good '' ' fun '"),
        ("“well-drawn” — or not…", "`` well-drawn '' -- or not ..."),
        ("and/or 5*", "and\\/or 5 \\*"),
        ("Great movie. I loved it! Mr. Smith did.", "great movie . i loved it ! mr. smith did ."),
        ("one\ntwo.\n\nthree", "one two . three"),
        ("neither funny nor suspenseful .", "neither funny nor suspenseful ."),
        ("it costs $5, 50% off", "it costs $ 5 , 50 % off"),
    ],
)
def test_treebank_forms(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


def assert_nothing_lost(text: str, tokens: list[Token]) -> None:
    place = 0
    for token in tokens:
        assert place <= token.start < token.end <= len(text)
        assert not text[place : token.start].strip()
        assert text[token.start : token.end].strip() or token.end - token.start == 1
        place = token.end
    assert not text[place:].strip()


TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="ab.'\"`()-– —… \n\t$%/*!?A’“”\u00a0n't"),
    st.lists(st.sampled_from(["isn't", '"', "''", "``", "...", "--", "(", "Mr.", "cannot", "'", "\x1b[31m"])).map(" ".join),
)


@settings(max_examples=1000)
@given(text=TEXTS)
def test_the_tokens_give_the_text_back(text: str) -> None:
    assert_nothing_lost(text, TREEBANK.tokens(text))


@settings(max_examples=200)
@given(text=st.text())
def test_characters_are_tokens(text: str) -> None:
    tokens = CharacterTokenizer().tokens(text)
    assert "".join(text[token.start : token.end] for token in tokens) == text


@pytest.mark.parametrize("tokenizer", [TreebankTokenizer(), CharacterTokenizer()])
def test_nothing_gives_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens("") == []
    assert tokenizer.forms(()) == []


def test_running_text_is_what_a_person_writes() -> None:
    assert (
        running_text("it is n't -lrb- really -rrb- good , `` and\\/or '' bad .".split())
        == 'it isn\'t (really) good, "and/or" bad.'
    )


def test_the_treebanks_own_sentences_come_back_from_running_text(sst: Path) -> None:
    trees = read_split(sst, "test")
    same = sum(tuple(forms(running_text(tree.tokens))) == tree.tokens for tree in trees)
    assert same >= 0.98 * len(trees)


ODD = st.text(st.sampled_from(string.printable + "éßΣ—’\u00a0"), max_size=40)


@given(ODD)
def test_the_words_of_keras_are_those_of_its_tokenizer(text: str) -> None:
    filters = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'  # the default of keras.preprocessing.text.Tokenizer
    expected = [word for word in text.lower().translate(str.maketrans(filters, " " * len(filters))).split(" ") if word]
    found = TOKENIZERS["keras"]().tokens(text)
    assert [token.form for token in found] == expected
    assert [text[token.start : token.end].lower() for token in found] == expected


@given(ODD)
def test_the_words_of_the_layer_are_those_of_text_vectorization(text: str) -> None:
    marks = r"""[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~']"""  # removed by "lower_and_strip_punctuation"
    found = TOKENIZERS["keras-layer"]().tokens(text)
    assert [token.form for token in found] == re.sub(marks, "", text.lower()).split()
    for start, end, form in found:
        assert re.sub(marks, "", text[start:end].lower()) == form and text[start].isspace() is False


def test_words_that_keras_would_split_are_running_text() -> None:
    for name, forms in {"keras": [], "keras-layer": ["welldrawn", "film"]}.items():
        assert TOKENIZERS[name]().forms(["Well-drawn", "film"]) == forms
        assert TOKENIZERS[name]().forms(["film", "!"]) == []
