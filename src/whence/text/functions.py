"""A plain function as a tokenizer: from a text to spans, to words, or to spans with words."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import cast

from whence.errors import InputError
from whence.text.aligning import aligned
from whence.text.tokenizer import Token

NEEDED = "it has to give (start, end) or (start, end, word) for every token, or a list of words"


class FunctionTokenizer:
    """A function of the user's that splits a text: into (start, end) spans, into words, or into (start, end, word)."""

    name = "function"

    def __init__(self, function: Callable[[str], object]) -> None:
        self.function = function

    def tokens(self, text: str) -> list[Token]:
        """The text's tokens, in order."""
        try:
            given = self.function(text)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InputError(f"the tokenizer gave a {type(given).__name__}; {NEEDED}")
            found = list(cast(Iterable[object], given))
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the tokenizer failed: {type(error).__name__}: {str(error)[:200]}") from error
        if all(isinstance(each, str) for each in found):
            return aligned(text, cast(list[str], found))
        return _checked(text, found)

    def forms(self, words: Sequence[str]) -> list[str]:
        """The words as the function spells them; none if it splits or drops one, so that all are read as running text."""
        found = [self.tokens(word) for word in words]
        return [own[0].form for own in found] if all(len(own) == 1 for own in found) else []


def _checked(text: str, given: Sequence[object]) -> list[Token]:
    """Tokens out of spans; raises unless they are in order, do not overlap and lie in the text."""
    found: list[Token] = []
    place = 0
    for n, each in enumerate(given):
        token = _token(text, each, n)
        if not place <= token.start <= token.end <= len(text):
            raise InputError(
                f"the tokenizer's token {n + 1} is {_quoted(each)}; spans must be in order, without overlap and in the text: "
                f"here {place} ≤ start ≤ end ≤ {len(text)}"
            )
        found.append(token)
        place = token.end
    return found


def _token(text: str, given: object, number: int) -> Token:
    parts = _parts(given)
    places = [int(each) for each in parts[:2] if isinstance(each, Integral) and not isinstance(each, bool)]
    if len(parts) not in (2, 3) or len(places) != 2 or (len(parts) == 3 and not isinstance(parts[2], str)):
        raise InputError(f"the tokenizer's token {number + 1} is {_quoted(given)}; {NEEDED}")
    start, end = places
    if len(parts) == 2 and start == end:
        raise InputError(
            f"the tokenizer's token {number + 1} is {_quoted(given)}, which holds no text; a mark without text needs a name: "
            "(start, end, name)"
        )
    return Token(start, end, cast(str, parts[2]) if len(parts) == 3 else text[max(start, 0) : max(end, 0)])


def _parts(given: object) -> tuple[object, ...]:
    is_several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    return tuple(cast(Iterable[object], given)) if is_several else ()


def _quoted(value: object) -> str:
    written = repr(value)
    return written if len(written) <= 80 else f"{written[:80]}…"
