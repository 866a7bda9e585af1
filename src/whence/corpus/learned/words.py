"""The most and the least relevant words of every class, as Table 1 of the paper ranks them, or by their mean."""

from pathlib import Path
from typing import Any, Literal

from whence.corpus.learned.classes import chosen_targets
from whence.corpus.learned.grams import Sizes, in_parts, occurrences, sizes_of
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.results import table_of
from whence.corpus.learned.snippets import snippets
from whence.data.arrow import arrow
from whence.errors import InputError

COUNT, OFTEN = 10, 5  # how many words are listed; how often a word must occur where a single occurrence says little
By = Literal["most", "mean"]


def words(
    out: str | Path,
    *,
    target: str | None = None,
    count: int = COUNT,
    least_count: int | None = None,
    ngrams: Sizes = 1,
    by: By = "most",
    ignore_case: bool = False,
) -> Any:
    """The most and the least relevant words of every class as an Arrow table.

    With `by="most"` a word is ranked by its most relevant single occurrence (for the least relevant words, by its least
    relevant one), which is Table 1 of the paper: among equals, the first text comes first, and for the least relevant words
    the last text. With `by="mean"` it is ranked by the mean over its occurrences. `spread` is their standard deviation.
    `ngrams=2` gives phrases of two words, `ngrams=(1, 4)` those of one to four; their relevance is the sum over their words.
    `least_count`: how often a word must occur; by default once, and five times for phrases and means.

        whence.corpus.words("explained", target="very positive")
    """
    with opened(out) as corpus:
        return ranked(
            corpus, target=target, count=count, least_count=least_count, ngrams=ngrams, by=by, ignore_case=ignore_case
        )


def ranked(
    corpus: Opened,
    *,
    target: str | None = None,
    count: int = COUNT,
    least_count: int | None = None,
    ngrams: Sizes = 1,
    by: By = "most",
    ignore_case: bool = False,
) -> Any:
    """The same for a corpus that is open."""
    if by not in ("most", "mean"):
        raise InputError(f"by is {by!r}; words are ranked by 'most' or by 'mean'")
    sizes = sizes_of(ngrams)
    often = least_count if least_count is not None else 1 if by == "most" and sizes == range(1, 2) else OFTEN
    targets = chosen_targets(corpus.classes, corpus.targets(), target)
    found = occurrences(sizes, ignore_case=ignore_case)
    _count(corpus, sizes, targets, often, ignore_case=ignore_case)
    rows = [row for end in ("most", "least") for row in _end(corpus, found, end, by=by, count=count)]
    rows.sort(key=lambda row: (targets.index(row["target"]), row["end"] == "least", row["rank"]))
    for row, example in zip(rows, snippets(corpus, rows), strict=True):
        row["example"] = example
    notes = list(corpus.notes)
    if not rows and not notes:
        notes.append(f"no word occurs {often} times or more; ask for fewer occurrences with --least-count")
    return table_of(rows, _columns(), notes)


def _columns() -> list[tuple[str, Any]]:
    pa = arrow()
    numbers = [(name, pa.float64()) for name in ("mean", "spread", "most", "least")]
    head = [("target", pa.string()), ("end", pa.string()), ("rank", pa.int64()), ("word", pa.string()), ("count", pa.int64())]
    return [*head, *numbers, ("row", pa.int64()), ("position", pa.int64()), ("example", pa.string())]


def _count(corpus: Opened, sizes: range, targets: list[str], often: int, *, ignore_case: bool) -> None:
    """Make the table `counted`, a row for every word of a class that occurs often enough."""
    corpus.run(
        "CREATE OR REPLACE TEMP TABLE counted (target VARCHAR, word VARCHAR, size INTEGER, count BIGINT, mean DOUBLE,"
        " spread DOUBLE, most DOUBLE, least DOUBLE)"
    )
    for found in in_parts(corpus, sizes, ignore_case=ignore_case):
        corpus.run(
            "INSERT INTO counted SELECT target, word, size, count(*), favg(relevance), stddev_pop(relevance), max(relevance),"
            f" min(relevance) FROM ({found}) WHERE list_contains(?, target) GROUP BY target, word, size HAVING count(*) >= ?",
            [targets, often],
        )


def _end(corpus: Opened, found: str, end: str, *, by: By, count: int) -> list[dict[str, Any]]:
    """The words at one end of the ranking, each with the place of its most extreme occurrence.

    Words that tie with the last one are kept until the places are known, which decide between equals.
    """
    is_most = end == "most"
    key, down, first = (end if by == "most" else "mean"), ("DESC" if is_most else "ASC"), ("ASC" if is_most else "DESC")
    corpus.run(
        f"CREATE OR REPLACE TEMP TABLE candidates AS SELECT * FROM counted"
        f" QUALIFY rank() OVER (PARTITION BY target ORDER BY {key} {down}) <= ?",
        [count],
    )
    choose = "min" if is_most else "max"
    return corpus.rows(
        f"WITH places AS (SELECT target, word, size, {choose}((row, position)) AS place"
        f" FROM ({found}) AS found SEMI JOIN candidates ON found.target = candidates.target AND found.word = candidates.word"
        f" AND found.size = candidates.size AND found.relevance = candidates.{end} GROUP BY target, word, size)"
        f" SELECT candidates.*, place[1] AS row, place[2] AS position, '{end}' AS \"end\","
        f" row_number() OVER (PARTITION BY candidates.target ORDER BY {key} {down}, place {first}, size) AS rank"
        " FROM candidates JOIN places USING (target, word, size) QUALIFY rank <= ?",
        [count],
    )
