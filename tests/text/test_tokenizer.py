"""Free text becomes the treebank's tokens, each with its position; no character is lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.data.sst import read_split
from whence.text.tokenizer import CharacterTokenizer, Token, Tokenizer, TreebankTokenizer, running_text

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
