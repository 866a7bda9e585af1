"""A string to tokens with their places in it; what the user wrote is never changed, only read.

Each token knows where it stands (`start`, `end`) and the form under which a vocabulary knows it (`form`). Everything that is
not white space belongs to a token, so the tokens and the spaces between them give the text back.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from nltk.tokenize.destructive import NLTKWordTokenizer


class Token(NamedTuple):
    """A piece of a text: text[start:end], and how a vocabulary spells it."""

    start: int
    end: int
    form: str


class Tokenizer(Protocol):
    """Anything that cuts a text into tokens."""

    @property
    def name(self) -> str:
        """The name under which a saved pipeline knows the tokenizer."""
        ...

    def tokens(self, text: str) -> list[Token]:
        """The text's tokens, in order."""
        ...

    def forms(self, words: Sequence[str]) -> list[str]:
        """The same forms from words that are already cut, as a treebank gives them."""
        ...


class CharacterTokenizer:
    """Every character is a token, in lower case."""

    name = "characters"

    def tokens(self, text: str) -> list[Token]:
        """The text's characters, in order."""
        return [Token(n, n + 1, character.lower()) for n, character in enumerate(text)]

    def forms(self, words: Sequence[str]) -> list[str]:
        """The characters of the words as running text."""
        return list(running_text(words).lower())


class TreebankTokenizer:
    """The Penn Treebank's tokens ("isn't" → is, n't), in lower case and with its escapes, as SST has them."""

    name = "treebank"

    def tokens(self, text: str) -> list[Token]:
        """The text's words and marks, in order."""
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

# Typographic marks stand for the typewriter's, one character for one.
_MARKS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})
# Dashes and ellipses stand alone; a sentence ends before white space and a capital, but not after a title or an initial.
_BREAKS = re.compile(
    r"[—–…]|(?<=[.!?])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bJr\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)(?=\s+[\"'“‘(]*[A-Z])|\n"
)
_FORMS = {"(": "-lrb-", ")": "-rrb-", "—": "--", "–": "--", "…": "..."}


@cache
def _nltk() -> "NLTKWordTokenizer":
    from nltk.tokenize.destructive import NLTKWordTokenizer  # a quarter of a second, only when words are cut

    return NLTKWordTokenizer()


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The stretches of a text that are cut into words one at a time: sentences, and marks that stand alone."""
    start = 0
    for match in _BREAKS.finditer(text):
        yield start, match.start()
        if match.end() > match.start():
            yield match.start(), match.end()
        start = match.end()
    yield start, len(text)


def _aligned(text: str, start: int, end: int) -> list[Token]:
    """The words of one stretch, found again in the text; whatever the cutting lost becomes a token of its own."""
    piece = text[start:end].translate(_MARKS)
    found: list[Token] = []
    place = 0
    ahead: dict[
        str, int
    ] = {}  # where each spelling comes next; looked for once until that is passed, so the whole stays linear
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
    """A word as SST spells it: in lower case, brackets by name, slashes and stars escaped."""
    return _FORMS.get(word) or word.lower().replace("/", "\\/").replace("*", "\\*")


def running_text(words: Sequence[str]) -> str:
    """Treebank words as a person would write them: "is n't" as "isn't", brackets and quotes as such."""
    from nltk.tokenize.treebank import TreebankWordDetokenizer

    names = {"-lrb-": "(", "-rrb-": ")"}
    plain = [names.get(word.lower(), word).replace("\\/", "/").replace("\\*", "*") for word in words]
    return TreebankWordDetokenizer().detokenize(plain)
