"""Where the words that a tokenizer gives stand in the text."""

from collections.abc import Sequence

from whence.errors import InputError
from whence.text.tokenizer import Token

_BEFORE = ("▁", "Ġ", "##")  # marks of pieces in other tokenizers: of a word's start, and of its middle
_AFTER = ("</w>", "@@")
_AHEAD = 2**10  # characters in which a whole word is preferred to a part of a longer one


def aligned(text: str, words: Sequence[str]) -> list[Token]:
    """Words with their places in the text, found in order; upper and lower case, and marks of pieces, may differ from it.

    A word is first looked for where the last one ended, then further on, where whole words come first.
    """
    folded, places = _folded(text)
    found: list[Token] = []
    place = 0
    for number, word in enumerate(words):
        wanted = _spelling(folded, word, place)
        at = _next(folded, wanted, place)
        if at < 0:
            before = f" after {text[places[max(place - 20, 0)] : places[place]]!r}" if place else ""
            raise InputError(
                f"the tokenizer's word {number + 1}, {word[:40]!r}, does not stand in the text{before}; "
                "a tokenizer that changes words has to give (start, end, word) for each"
            )
        place = at + len(wanted)
        start = max(places[at], found[-1].end if found else 0)
        found.append(Token(start, max(start, places[place - 1] + 1) if wanted else start, word))
    return found


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """The text without upper and lower case, and for every character of that its place in the text."""
    folded = text.casefold()
    if len(folded) == len(text):  # no character became two
        return folded, range(len(text) + 1)
    return folded, [*(n for n, character in enumerate(text) for _ in character.casefold()), len(text)]


def _spelling(folded: str, word: str, place: int) -> str:
    """How a word is written in the text from `place` on; a mark of pieces is left out if it is not there."""
    bare = word
    for mark in _BEFORE:
        bare = bare.removeprefix(mark)
    for mark in _AFTER:
        bare = bare.removesuffix(mark)
    wanted = word.casefold()
    return wanted if bare == word or folded.find(wanted, place, place + _AHEAD) >= 0 else bare.casefold()


def _next(folded: str, wanted: str, place: int) -> int:
    """The next place of a spelling, or -1."""
    start = place
    while start < len(folded) and folded[start].isspace() and not wanted[:1].isspace():
        start += 1
    if not wanted:
        return place
    if folded.startswith(wanted, start):
        return start
    first = at = folded.find(wanted, start)
    while 0 <= at <= first + _AHEAD:
        if _is_whole(folded, at, at + len(wanted)):
            return at
        at = folded.find(wanted, at + 1)
    return first


def _is_whole(folded: str, start: int, end: int) -> bool:
    """Whether a spelling is no part of a longer word there."""
    before, after = folded[max(start - 1, 0) : start], folded[end : end + 1]
    return not (before.isalnum() and folded[start].isalnum()) and not (after.isalnum() and folded[end - 1].isalnum())
