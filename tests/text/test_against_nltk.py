"""The tokens, and running text, are those of NLTK: in odd cases, in prose, on all of SST and in random texts."""

import argparse
import ast
import collections
import difflib
import inspect
import textwrap
import unicodedata
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import treebank as oracle
from whence.data.sst import SPLITS, read_split
from whence.text import tokenizer
from whence.text.tokenizer import TreebankTokenizer, running_text
from whence.text.treebank import is_word_character, words_of

TREEBANK = TreebankTokenizer()
ROOT = Path(__file__).parents[2]

COMMAS_AND_CONTRACTIONS = (
    "a,,b c,,|,1:2:,x|dog's'|dog's' x|dog's'\tx|don't' x|it's's x|'tis 'twas|d'ye'tis'twas|'twas'tis|cannot-gimme|I wanna.|"
    "wanna|wanna, x|more'n d'ye|gımme GİMME|'ſ x 're 'rex 'n' x|can\u0301not cannot\u0301|"
    "gım me gİm me|wan na-x wan na|he'd I'M she'D's"
)
ENDS = (
    "etc.|etc. )|etc.) |etc. ''|etc. \"|etc.\t)|etc. )\t|etc. ' » ]|etc. x|etc.. |.|.'| .)|x .|a!\n B|a.\u00a0“B”|"
    "One. Two! (Three? 'four' Mr. Five J. Six Mrs. A|a—b – c… d―e‒f|--- ---- a--b|*a* <b> {c} [d] x@y#1$2%3&4;5|| |\n"
)
QUOTES = (
    "\"\"x| \"\"x|(\"x\")|''x| ''x|\t''x| ''''| '''| ''\"|'' '| '' '''twas|x '' 'tis|'' x '' y|`` a '' b, `` c ''|"
    "a '' b, c \" d, a| ''ab\" abc|```x````|„x x„|«\"x\"»„'x|(''x|'' ``| '' x \"|x''y'z'"
)
UNICODE = (
    "a\x1c'tis\x1f.|dog's\x1cx|a.\x1d|a\x85b\u3000c's\u2028d|\u200d'x \u0301'x ²'x ⓐ'x ‿'x|'\u0301x '²x|\x00'\x00|\ud800'x|"
    "can\u3000not|\u0301can not can not\u200d"
)
ODD = "|".join((COMMAS_AND_CONTRACTIONS, ENDS, QUOTES, UNICODE)).split("|")

SEPARATORS = st.sampled_from(["", " ", "  ", "\t", "\n", "\u00a0", "\u3000", "\x1c"])
ATOMS = st.sampled_from(
    "film film. film, isn't N'T cannot wanna gimme 'tis 'twas d'ye more'n dog's' dogs' it's 'll 's 't ' '' ''' \" `` ` “ ” ‘ ’ "
    "« » „ ( ) [ ] { } < > . .. ... … -- - — – ‒ ― , ,, : ; @ # $ % & * / ? ! A B. Mr. U.S. etc. 1 2,3 _ é \u0301 ² ⓐ न ि ſ "
    "İ ı \u200d ‿ 😀 \x00 -lrb- -RRB- \\/ \\* can not gim me gon na got ta lem wan 'ye more 'n is was d".split()
)
# Characters that this Python's Unicode tables do not have yet are left out: NLTK's `regex` may have newer ones.
CHARACTERS = st.characters(exclude_categories=["Cn"])
TEXTS = st.one_of(
    st.lists(st.tuples(ATOMS, SEPARATORS).map("".join), max_size=40).map("".join),
    st.lists(st.sampled_from(["''", '"', "``", "'", "a", "b,", "a.", "'tis", ")"]), max_size=20).map(" ".join),
    st.text(CHARACTERS),
    st.text(st.one_of(CHARACTERS, st.sampled_from("''\"`.,: "))),
    st.tuples(ATOMS, SEPARATORS, st.integers(1, 300)).map(lambda parts: (parts[0] + parts[1]) * parts[2]),
)
WORDS = st.lists(st.one_of(ATOMS, st.tuples(ATOMS, ATOMS).map("".join), st.text(CHARACTERS)), max_size=30)


def docstrings() -> list[str]:
    """The docstrings of a few modules of the standard library, with their line breaks and without."""
    found: list[str] = []
    for module in (argparse, collections, difflib, inspect, textwrap):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                found += [text, text.replace("\n", " ")]
    return found


@pytest.mark.parametrize("text", ODD)
def test_odd_cases(text: str) -> None:
    for each in (text, f"x {text}", f"{text} x", f" {text} "):
        assert TREEBANK.tokens(each) == oracle.tokens(each)
    assert running_text(text.split(" ")) == oracle.running_text(text.split(" "))


def test_prose() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]
    for text in (*docstrings(), *pages):
        assert TREEBANK.tokens(text) == oracle.tokens(text)


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_all_of_sst(split: str, sst: Path) -> None:
    for tree in read_split(sst, split):
        written = running_text(tree.tokens)
        assert written == oracle.running_text(tree.tokens)
        for text in (written, " ".join(tree.tokens)):
            assert TREEBANK.tokens(text) == oracle.tokens(text)


@settings(max_examples=500)
@given(text=TEXTS)
def test_random_texts(text: str) -> None:
    assert TREEBANK.tokens(text) == oracle.tokens(text)


@settings(max_examples=300)
@given(text=TEXTS)
def test_random_sentences_as_a_whole(text: str) -> None:
    sentence = text.translate(oracle.MARKS).replace("\n", " ")
    assert words_of(sentence) == oracle.words(sentence)


@settings(max_examples=300)
@given(words=WORDS)
def test_running_text_of_random_words(words: list[str]) -> None:
    assert running_text(words) == oracle.running_text(words)


def test_word_characters_are_those_of_regex() -> None:
    everything = "".join(map(chr, range(0x110000)))
    expected = set(regex.findall(r"\w", everything))
    wrong = [
        each for each in everything if unicodedata.category(each) != "Cn" and is_word_character(each) != (each in expected)
    ]
    assert not wrong


@pytest.mark.parametrize(
    "unit",
    [
        '"',
        "'",
        ".",
        "a",
        "`",
        ",",
        " ",
        "\t",
        "—",
        ' "a"',
        " ''",
        "'' \" ",
        "'' ``",
        "'' 'a ",
        "it isn't ",
        "a. ",
        ". A",
        ". (",
    ],
)
def test_the_work_grows_with_the_length_of_the_text(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that the rules read, and characters that are searched for words; nothing is known from before."""
    read = searched = 0

    def counted_words(sentence: str) -> list[str]:
        nonlocal read
        read += len(sentence)
        return words_of(sentence)

    def counted_place(piece: str, spelling: str, place: int) -> int:
        nonlocal searched
        found = piece.find(spelling, place)
        searched += (len(piece) if found < 0 else found + len(spelling)) - place
        return found

    monkeypatch.setattr(tokenizer, "words_of", counted_words)
    monkeypatch.setattr(tokenizer, "_next_place", counted_place)
    chunks = type(tokenizer._CHUNKS)()
    chunks.longest = -1  # keeps none
    monkeypatch.setattr(tokenizer, "_CHUNKS", chunks)
    text = unit * (2**15 // len(unit))
    TREEBANK.tokens(text)
    assert read <= 8 * len(
        text
    )  # a chunk has at most 4 neighbouring characters, and a sentence may be read once more as a whole
    assert searched <= 4 * len(text)


def test_few_and_short_chunks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = type(tokenizer._CHUNKS)()
    monkeypatch.setattr(tokenizer, "_CHUNKS", chunks)
    TREEBANK.tokens(f"short {'x' * 100} {',' * 10} short")
    assert set(chunks) == {"\nshort", "short\n"}
    chunks.most = 10
    for n in range(100):
        TREEBANK.tokens(f"a word{n} b")
        assert len(chunks) <= 10
    assert "word99" in chunks
