"""Which tokens make up a word: characters and pieces of words, gathered by their positions in the text."""

from bisect import bisect_right
from collections.abc import Sequence

from whence.text.tokenizer import TreebankTokenizer

Span = tuple[int, int]


def word_groups(text: str, spans: Sequence[Span], tokens: Sequence[str] | None = None) -> list[range]:
    """The tokens of every word, in order and without gaps; words are those of the treebank's tokenizer.

    A token belongs to the word that its first character stands in. White space, and anything else between two words, belongs to
    the first of them. A token without any text, such as a mark that a tokenizer adds, is a word of its own. With `tokens`, an
    empty one of them is no mark but the rest of a character, such as a byte of an emoji, and belongs to the character's word.
    """
    words = [word.start for word in TreebankTokenizer().tokens(text)]
    owners = [_owner(n, span, text, words) for n, span in enumerate(spans)]
    if tokens is not None and not all(tokens):
        owners = _with_rests(owners, tokens)
    firsts = [n for n, owner in enumerate(owners) if n == 0 or owner != owners[n - 1]]
    return [range(start, end) for start, end in zip(firsts, [*firsts[1:], len(spans)], strict=True)]


def _with_rests(owners: Sequence[int], tokens: Sequence[str]) -> list[int]:
    """Owners in which an empty token has that of the nearest word before it or, at the start of the text, behind it."""
    found = list(owners)
    for order in (range(1, len(found)), range(len(found) - 2, -1, -1)):
        step = 1 if order.step > 0 else -1
        for n in order:
            if not tokens[n] and found[n] < 0 <= found[n - step]:
                found[n] = found[n - step]
    return found


def _owner(number: int, span: Span, text: str, words: Sequence[int]) -> int:
    """The number of a token's word; a negative one for a token without text."""
    start, end = span
    if start == end:
        return -1 - number
    inside = len(text[start:end]) - len(text[start:end].lstrip())
    place = start + inside if inside < end - start else start
    return max(bisect_right(words, place) - 1, 0)


def word_span(text: str, first: Span, last: Span) -> Span:
    """The span from a word's first token to its last, without the white space around it."""
    start, end = first[0], last[1]
    inner = text[start:end].strip()
    return (start, end) if not inner else (place := text.index(inner, start), place + len(inner))
