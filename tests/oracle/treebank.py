"""The treebank's tokens by NLTK: its tokenizer's words, then searched for in the text; and running text by its detokenizer."""

import re
from collections.abc import Iterator, Sequence

from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.treebank import TreebankWordDetokenizer

Token = tuple[int, int, str]  # start, end, form

MARKS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})
BREAKS = re.compile(
    r"[—–…]|(?<=[.!?])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bJr\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)(?=\s+[\"'“‘(]*[A-Z])|\n"
)
FORMS = {"(": "-lrb-", ")": "-rrb-", "—": "--", "–": "--", "…": "..."}
NLTK = NLTKWordTokenizer()


def tokens(text: str) -> list[Token]:
    """The text's tokens, in order."""
    return [token for start, end in pieces(text) for token in aligned(text, start, end)]


def words(sentence: str) -> list[str]:
    """The words of a sentence, as NLTK gives them."""
    return NLTK.tokenize(sentence)


def pieces(text: str) -> Iterator[tuple[int, int]]:
    """The pieces that NLTK gets one by one: sentences, and dashes and ellipses."""
    start = 0
    for match in BREAKS.finditer(text):
        yield start, match.start()
        if match.end() > match.start():
            yield match.start(), match.end()
        start = match.end()
    yield start, len(text)


def aligned(text: str, start: int, end: int) -> list[Token]:
    """Each word where it comes next. NLTK changes some quotes; what is not found becomes tokens of its own."""
    piece = text[start:end].translate(MARKS)
    found: list[Token] = []
    place = 0
    for word in words(piece):
        spellings = (word, '"') if word in ("``", "''") else (word,)
        places = [(at, each) for each in spellings if (at := piece.find(each, place)) >= 0]
        if places:
            at, spelling = min(places)
            found += leftover(piece, place, at, start)
            found.append((start + at, start + at + len(spelling), form_of(word)))
            place = at + len(spelling)
    return found + leftover(piece, place, len(piece), start)


def leftover(piece: str, place: int, end: int, offset: int) -> list[Token]:
    """What stands between two words."""
    matches = re.finditer(r"\S+", piece[place:end])
    return [(offset + place + match.start(), offset + place + match.end(), form_of(match.group())) for match in matches]


def form_of(word: str) -> str:
    """A word in SST's spelling."""
    return FORMS.get(word) or word.lower().replace("/", "\\/").replace("*", "\\*")


def running_text(words: Sequence[str]) -> str:
    """Treebank words as ordinary text."""
    names = {"-lrb-": "(", "-rrb-": ")"}
    plain = [names.get(word.lower(), word).replace("\\/", "/").replace("\\*", "*") for word in words]
    return TreebankWordDetokenizer().detokenize(plain)
