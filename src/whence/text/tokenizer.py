"""Tokenizers: from a string to tokens with their positions in it. The text itself is never changed.

Each token has a position (`start`, `end`) and a spelling under which a vocabulary lists it (`form`). Everything but white space
belongs to a token, so the text can be restored from the tokens and the white space between them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from nltk.tokenize.destructive import NLTKWordTokenizer


class Token(NamedTuple):
    """A token: text[start:end], and its spelling in a vocabulary."""

    start: int
    end: int
    form: str


class Tokenizer(Protocol):
    """Anything that splits a text into tokens."""

    @property
    def name(self) -> str:
        """The tokenizer's name in a saved pipeline."""
        ...

    def tokens(self, text: str) -> list[Token]:
        """The text's tokens, in order."""
        ...

    def forms(self, words: Sequence[str]) -> list[str]:
        """The forms of words that are already split, as a treebank has them."""
        ...


class CharacterTokenizer:
    """Every character is a token, in lower case."""

    name = "characters"

    def tokens(self, text: str) -> list[Token]:
        """The text's characters, in order."""
        return [Token(n, n + 1, character.lower()) for n, character in enumerate(text)]

    def forms(self, words: Sequence[str]) -> list[str]:
        """The characters of the running text of these words."""
        return list(running_text(words).lower())


class TreebankTokenizer:
    """The Penn Treebank's tokens ("isn't" → is, n't), in lower case and with its escapes, as in SST."""

    name = "treebank"

    def tokens(self, text: str) -> list[Token]:
        """The text's words and punctuation marks, in order."""
        found: list[Token] = []
        for start, end in _pieces(text):
            found += _aligned(text, start, end)
        return found

    def forms(self, words: Sequence[str]) -> list[str]:
        """The words themselves, in lower case."""
        return [word.lower() for word in words]


TOKENIZERS: dict[str, type[CharacterTokenizer] | type[TreebankTokenizer]] = {
    "characters": CharacterTokenizer,
    "treebank": TreebankTokenizer,
}

# Typographic quotes and spaces are read as plain ones, character by character.
_MARKS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})
# Dashes and ellipses are tokens of their own. A sentence ends before white space and a capital letter, but not after a title or
# an initial.
_BREAKS = re.compile(
    r"[—–…]|(?<=[.!?])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bJr\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)(?=\s+[\"'“‘(]*[A-Z])|\n"
)
_FORMS = {"(": "-lrb-", ")": "-rrb-", "—": "--", "–": "--", "…": "..."}


@cache
def _nltk() -> "NLTKWordTokenizer":
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes a quarter of a second, so only when needed

    return NLTKWordTokenizer()


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The pieces of a text that are split into words separately: sentences, and dashes and ellipses."""
    start = 0
    for match in _BREAKS.finditer(text):
        yield start, match.start()
        if match.end() > match.start():
            yield match.start(), match.end()
        start = match.end()
    yield start, len(text)


def _aligned(text: str, start: int, end: int) -> list[Token]:
    """The words of one piece with their positions. NLTK drops or changes some characters; these become tokens of their own."""
    piece = text[start:end].translate(_MARKS)
    found: list[Token] = []
    place = 0
    # the next position of each spelling; searched again only when it is passed, so that the whole takes linear time
    ahead: dict[str, int] = {}
    for word in _nltk().tokenize(piece):
        spellings = (word, '"') if word in ("``", "''") else (word,)
        for spelling in spellings:
            if 0 <= ahead.get(spelling, 0) < max(place, 1):
                ahead[spelling] = _next_place(piece, spelling, place)
        places = [(ahead[spelling], spelling) for spelling in spellings if ahead[spelling] >= 0]
        if not places:
            continue
        at, spelling = min(places)
        found += _leftover(piece, place, at, start)
        found.append(Token(start + at, start + at + len(spelling), form_of(word)))
        place = at + len(spelling)
    return found + _leftover(piece, place, len(piece), start)


def _next_place(piece: str, spelling: str, place: int) -> int:
    return piece.find(spelling, place)


def _leftover(piece: str, place: int, end: int, offset: int) -> list[Token]:
    return [
        Token(offset + place + match.start(), offset + place + match.end(), form_of(match.group()))
        for match in re.finditer(r"\S+", piece[place:end])
    ]


def form_of(word: str) -> str:
    """A word in SST's spelling: lower case, brackets by name, slashes and asterisks escaped."""
    return _FORMS.get(word) or word.lower().replace("/", "\\/").replace("*", "\\*")


def running_text(words: Sequence[str]) -> str:
    """Treebank words as ordinary text: "is n't" becomes "isn't", and brackets and quotes become what they stand for."""
    from nltk.tokenize.treebank import TreebankWordDetokenizer

    names = {"-lrb-": "(", "-rrb-": ")"}
    plain = [names.get(word.lower(), word).replace("\\/", "/").replace("\\*", "*") for word in words]
    return TreebankWordDetokenizer().detokenize(plain)
