"""Words and phrases of a corpus as SQL: every occurrence of one to four words in a row, with its relevance."""

from collections.abc import Iterator
from math import ceil

from whence.corpus.learned.opening import Opened
from whence.errors import InputError

LONGEST = 4
AT_ONCE = 8_000_000  # phrases that are counted at once, nearly all of which may be different
Sizes = int | tuple[int, int]


def sizes_of(ngrams: Sizes) -> range:
    """How many words a phrase has: a number, or the first and the last of several."""
    first, last = (ngrams, ngrams) if isinstance(ngrams, int) else ngrams
    if not 1 <= first <= last <= LONGEST:
        raise InputError(f"phrases of {first} to {last} words were asked for; 1 to {LONGEST} are possible, the fewest first")
    return range(first, last + 1)


LARGEST = "greatest(list_max(relevance), -list_min(relevance))::DOUBLE AS largest"


def occurrences(sizes: range, *, ignore_case: bool = False) -> str:
    """SQL for all occurrences: row, target, position (of the first word), size, word, relevance (the sum over its words), and
    `largest`, the largest relevance of a word in the text, without the sign.

    Adding 0.0 turns −0.0, which the database sorts before 0.0, into 0.0.
    """
    return " UNION ALL ".join(f"({_of_size(size, ignore_case)})" for size in sizes)


def in_parts(corpus: Opened, sizes: range, *, ignore_case: bool) -> Iterator[str]:
    """The same as several queries, for one after another: all occurrences of a word are in one of them.

    Phrases of a large corpus come in many parts, so that counting them takes little memory.
    """
    total = corpus.rows("SELECT coalesce(sum(len(tokens)), 0)::BIGINT AS n FROM texts")[0]["n"] if sizes[-1] > 1 else 0
    for size in sizes:
        found = _of_size(size, ignore_case)
        parts = 1 if size == 1 else max(1, ceil(total / AT_ONCE))
        for part in range(parts):
            yield found if parts == 1 else f"SELECT * FROM ({found}) WHERE hash(word) % {parts} = {part}"


def _of_size(size: int, ignore_case: bool) -> str:
    if size == 1:
        word = "lower(token)" if ignore_case else "token"
        return (
            f"SELECT row, target, position, 1 AS size, {word} AS word, relevance::DOUBLE + 0.0 AS relevance, largest"
            f" FROM (SELECT row, target, {LARGEST}, unnest(range(len(tokens))) AS position, unnest(tokens) AS token,"
            " unnest(relevance) AS relevance FROM texts)"
        )
    joined = f"array_to_string(tokens[position + 1 : position + {size}], ' ')"
    return (
        f"SELECT row, target, position, {size} AS size, {f'lower({joined})' if ignore_case else joined} AS word,"
        f" list_sum(relevance[position + 1 : position + {size}]::DOUBLE[]) + 0.0 AS relevance, largest"
        f" FROM (SELECT row, target, tokens, relevance, {LARGEST},"
        f" unnest(range(len(tokens) - {size - 1})) AS position FROM texts)"
    )
