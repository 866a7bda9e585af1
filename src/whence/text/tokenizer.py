"""Tokenizers: from a string to tokens with their positions in it. The text itself is never changed.

Each token has a position (`start`, `end`) and a spelling under which a vocabulary lists it (`form`). Everything but white space
belongs to a token, so the text can be restored from the tokens and the white space between them; only the tokenizers of Keras
leave out marks.
"""

import re
import string
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from whence.text.running import running_text
from whence.text.sentences import NOT_AFTER_A_TITLE
from whence.text.treebank import WHITE, words_of


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
        plain = text if text.isascii() else text.translate(_MARKS)
        found: list[Token] = []
        for start, end in _pieces(text):
            found += _sentence(plain[start:end], start)
        return found

    def forms(self, words: Sequence[str]) -> list[str]:
        """The words themselves, in lower case."""
        return [word.lower() for word in words]


class KerasTokenizer:
    """The words of Keras' `Tokenizer` by default: in lower case, split at spaces and at marks other than apostrophes."""

    name = "keras"

    def tokens(self, text: str) -> list[Token]:
        """The text's words, in order; marks are no part of any."""
        lower = text.lower()  # of the whole text, because that of Σ depends on its neighbours, marks included
        source = lower if len(lower) == len(text) else text
        spans = [match.span() for match in _KERAS_WORD.finditer(text)]
        return [Token(start, end, source[start:end].lower()) for start, end in spans]

    def forms(self, words: Sequence[str]) -> list[str]:
        """The words in lower case; none if one of them is split or dropped, so that all are read as running text."""
        found = [[token.form for token in self.tokens(word)] for word in words]
        return [own[0] for own in found] if all(len(own) == 1 for own in found) else []


class KerasLayerTokenizer(KerasTokenizer):
    """The words of Keras' `TextVectorization` by default: split at white space, in lower case and without any marks."""

    name = "keras-layer"

    def tokens(self, text: str) -> list[Token]:
        """The text's words, in order, from their first to their last character that is no mark."""
        found: list[Token] = []
        for match in _NO_SPACE.finditer(text):
            word = match[0].strip(string.punctuation)
            if word:
                start = match.start() + len(match[0]) - len(match[0].lstrip(string.punctuation))
                found.append(Token(start, start + len(word), word.lower().translate(_NO_MARKS)))
        return found


TOKENIZERS: dict[str, type[CharacterTokenizer] | type[TreebankTokenizer] | type[KerasTokenizer]] = {
    each.name: each for each in (CharacterTokenizer, TreebankTokenizer, KerasTokenizer, KerasLayerTokenizer)
}

_KERAS_WORD = re.compile(r"""[^!"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n ]+""")  # all but Keras' filters and the space
_NO_MARKS = str.maketrans("", "", string.punctuation)

# Typographic quotes and spaces are read as plain ones, character by character.
_MARKS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})
# Dashes and ellipses are tokens of their own. A sentence ends before white space and a capital letter, but not after a title or
# an initial. The pattern starts with a set of characters so that `re` can skip all others quickly.
_BREAKS = re.compile(rf"[—–…\n.!?](?:(?<=[—–…\n])|{NOT_AFTER_A_TITLE}(?=\s+[\"'“‘(]*[A-Z]))")
_FORMS = {"(": "-lrb-", ")": "-rrb-", "—": "--", "–": "--", "…": "..."}
# The end of a sentence after its last period, if all of it is closing marks; a double quote after a space is an opening one.
_CLOSED = re.compile(rf"(?:[\])}}>\"'»]| (?!\"|''))*+[{WHITE}]*\Z")
# One word, perhaps with one mark after it, and no other character that a rule of the treebank looks for.
_SIMPLE = re.compile(rf"((?:[^\-.,:;@#$%&?!*'\"`«»„()\[\]{{}}<>\x1c-\x1f\u2012-\u2015{WHITE}]|-(?!-))++)([,:;?!.]?)")
_CONTRACTIONS = re.compile("(?i)cannot|gimme|gonna|gotta|lemme|wanna")
_NO_SPACE = re.compile(r"\S+")
_new = tuple[int | str].__new__  # _new(Token, …) takes half as long as Token(…)


class _Chunk(NamedTuple):
    """What stands between two spaces: its length and one space, its tokens with places in it, and words not found in it."""

    width: int
    tokens: tuple[Token, ...]
    missing: tuple[str, ...]


class _Chunks(dict[str, _Chunk]):
    """The chunks seen so far, by key. A key is the chunk and what matters of its neighbours.

    The treebank's rules look across spaces in three cases only. "\\n" stands before a chunk that starts the sentence and after
    one that ends it, " " after one whose period ends the sentence although spaces or closing marks follow.
    """

    most = 2**15  # how many are kept: 35 MB at worst, because long ones and those of many tokens are not kept
    longest = 32
    most_tokens = 4

    def __missing__(self, key: str) -> _Chunk:
        found = _chunk(key)
        if len(key) <= self.longest and len(found.tokens) <= self.most_tokens:
            if len(self) >= self.most:
                self.clear()
            self[key] = found
        return found


_CHUNKS = _Chunks()


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The pieces of a text that are split into words separately: sentences, and dashes and ellipses."""
    start = 0
    for match in _BREAKS.finditer(text):
        place, end = match.span()
        if text[place] in ".!?":
            yield start, end
        else:
            yield start, place
            yield place, end
        start = end
    yield start, len(text)


def _sentence(sentence: str, offset: int) -> list[Token]:
    """The tokens of a sentence that starts at `offset`: chunk by chunk, or as a whole if a quote was not found in its chunk."""
    found: list[Token] = []
    place = offset
    last_quote = -1
    for width, tokens, missing in map(_CHUNKS.__getitem__, _keys(sentence)):
        for start, end, form in tokens:
            found.append(_new(Token, (place + start, place + end, form)))
        place += width
        if missing:
            last_quote = last_quote if last_quote >= 0 else max(map(sentence.rfind, "\"'`"))
            if missing != ("``",) or place - offset <= last_quote:  # the missing word may be found in a later chunk
                tokens, _ = _aligned(sentence, words_of(sentence))
                return [Token(offset + start, offset + end, form) for start, end, form in tokens]
    return found


def _keys(sentence: str) -> list[str]:
    """The keys of a sentence's chunks."""
    keys = sentence.split(" ")
    period = sentence.rfind(".")
    if period >= 0 and _CLOSED.match(sentence, period + 1):
        keys[sentence.count(" ", 0, period)] += " "
    keys[0] = "\n" + keys[0]
    keys[-1] += "\n"
    return keys


def _chunk(key: str) -> _Chunk:
    """Split the chunk of a key."""
    chunk = key.strip("\n ")
    simple = _SIMPLE.fullmatch(chunk)
    if not simple or _CONTRACTIONS.search(chunk):
        tokens, missing = _aligned(chunk, _words_between_neighbours(key, chunk))
        return _Chunk(len(chunk) + 1, tuple(tokens), tuple(missing))
    word, mark = simple.groups()
    if not mark or (mark == "." and key[-1] not in "\n "):
        tokens = (Token(0, len(chunk), form_of(chunk)),)
    else:
        tokens = (Token(0, len(word), form_of(word)), Token(len(word), len(chunk), mark))
    return _Chunk(len(chunk) + 1, tokens, ())


def _words_between_neighbours(key: str, chunk: str) -> list[str]:
    """The chunk's words by the treebank's rules, between neighbours that have the same effect as its own."""
    starts, ends, closes = key.startswith("\n"), key.endswith("\n"), key.endswith(" ")
    words = words_of(f"{'' if starts else 'x '}{chunk}{'' if ends else ' ' if closes else ' x'}")
    return words[0 if starts else 1 : None if ends or closes else -1]


def _aligned(piece: str, words: Sequence[str]) -> tuple[list[Token], list[str]]:
    """Words with their positions in a piece, and the words not found there. What lies between them becomes tokens too."""
    found: list[Token] = []
    missing: list[str] = []
    place = 0
    ahead: dict[str, int] = {}
    for word in words:
        at, spelling = (place, word) if piece.startswith(word, place) else _next(piece, word, place, ahead)
        if at < 0:
            missing.append(word)
            continue
        found += _leftover(piece, place, at)
        place = at + len(spelling)
        found.append(Token(at, place, form_of(word)))
    return found + _leftover(piece, place, len(piece)), missing


def _next(piece: str, word: str, place: int, ahead: dict[str, int]) -> tuple[int, str]:
    """Where a word, or the double quote that it stands for, comes next, and how it is spelled there; a place of -1 if nowhere.

    `ahead` keeps the next place of each spelling. A spelling is searched for again only when its place is passed, so that all
    searches together take linear time.
    """
    spellings = (word, '"') if word in ("``", "''") else (word,)
    for spelling in spellings:
        if 0 <= ahead.get(spelling, 0) < max(place, 1):
            ahead[spelling] = _next_place(piece, spelling, place)
    return min(((ahead[spelling], spelling) for spelling in spellings if ahead[spelling] >= 0), default=(-1, word))


def _next_place(piece: str, spelling: str, place: int) -> int:
    return piece.find(spelling, place)


def _leftover(piece: str, place: int, end: int) -> list[Token]:
    if place == end:
        return []
    return [Token(match.start(), match.end(), form_of(match[0])) for match in _NO_SPACE.finditer(piece, place, end)]


def form_of(word: str) -> str:
    """A word in SST's spelling: lower case, brackets by name, slashes and asterisks escaped."""
    return _FORMS.get(word) or word.lower().replace("/", "\\/").replace("*", "\\*")
