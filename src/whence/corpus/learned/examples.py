"""Texts in which a word matters most: for a class, against it, and both in one text."""

from pathlib import Path
from typing import Any

from whence.corpus.learned.classes import chosen_targets
from whence.corpus.learned.grams import LONGEST, occurrences
from whence.corpus.learned.heatmaps import COLUMNS, explanation_of
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.results import table_of
from whence.corpus.learned.snippets import add_texts
from whence.data.arrow import arrow
from whence.errors import InputError
from whence.explanations import Explanations

COUNT = 3
SIDES = {"for": "speaks for the class", "against": "speaks against it", "both": "does both in one text"}


def examples(out: str | Path, word: str, *, target: str | None = None, count: int = COUNT, ignore_case: bool = False) -> Any:
    """The texts in which a word, or a phrase of up to four, matters most, as an Arrow table.

    `side` is "for", "against", or "both" where it speaks for the class at one place of a text and against it at another.
    Every text is listed once on a side, at the word's largest relevance there, in the order of that relevance. For "both",
    `relevance` is that at the weaker of the two places.

        whence.corpus.examples("explained", "good", target="negative")
    """
    with opened(out) as corpus:
        return examples_of(corpus, word, target=target, count=count, ignore_case=ignore_case)


def examples_of(corpus: Opened, word: str, *, target: str | None = None, count: int = COUNT, ignore_case: bool = False) -> Any:
    """The same for a corpus that is open."""
    size = max(1, word.count(" ") + 1) if word.strip() else 1
    if not word or size > LONGEST:
        raise InputError(f"{word!r} is no word; give one, or a phrase of up to {LONGEST} with a space between words")
    targets = chosen_targets(corpus.classes, corpus.targets(), target)
    sizes = range(1, 2) if size == 1 else range(1, size + 1)  # a token may hold spaces itself
    sql = _sql(occurrences(sizes, ignore_case=ignore_case), folded=ignore_case)
    rows = corpus.rows(sql, [word, targets, count])
    rows.sort(key=lambda row: (targets.index(row["target"]), list(SIDES).index(row["side"]), row["place"]))
    for row, text in zip(rows, add_texts(corpus, rows, COLUMNS[1:]), strict=True):
        row |= {"relevances": text["relevance"]} | {key: text[key] for key in text if key not in ("row", "target", "relevance")}
    notes = list(corpus.notes)
    if not rows and not notes:
        written = "" if ignore_case else "; words are compared as they are written, unless --ignore-case is given"
        notes.append(f"{word!r} does not occur{written}")
    return table_of(rows, _columns(), notes)


def _sql(found: str, *, folded: bool) -> str:
    """The places of the word by side, ranked; the best place of a text stands for it."""
    word = "lower($1)" if folded else "$1"
    return f"""
        WITH found AS MATERIALIZED (
            SELECT * FROM ({found}) WHERE word = {word} AND list_contains($2, target)),
        own AS (
            SELECT row, target, max(relevance) AS most, min(relevance) AS least,
                arg_max(position, (relevance, -position)) AS at_most, arg_min(position, (relevance, position)) AS at_least
            FROM found GROUP BY row, target),
        sides AS (
            SELECT 'for' AS side, row, target, at_most AS position, most AS relevance, most AS size FROM own WHERE most > 0
            UNION ALL
            SELECT 'against', row, target, at_least, least, -least FROM own WHERE least < 0
            UNION ALL
            SELECT 'both', row, target, CASE WHEN most < -least THEN at_most ELSE at_least END,
                CASE WHEN most < -least THEN most ELSE least END, least(most, -least) FROM own WHERE most > 0 AND least < 0)
        SELECT *, row_number() OVER (PARTITION BY target, side ORDER BY size DESC, row) AS place FROM sides
        QUALIFY place <= $3"""


def _columns() -> list[tuple[str, Any]]:
    pa = arrow()
    head = [("target", pa.string()), ("side", pa.string()), ("row", pa.int64()), ("id", pa.string()), ("position", pa.int64())]
    middle = [("relevance", pa.float64()), ("predicted", pa.string()), ("score", pa.float64()), ("text", pa.string())]
    lists = [("tokens", pa.list_(pa.string())), ("relevances", pa.list_(pa.float32())), ("scores", pa.list_(pa.float32()))]
    return [*head, *middle, *lists]


def heatmaps_of(corpus: Opened, table: Any) -> Explanations:
    """The texts of a table of examples as explanations."""
    return Explanations(explanation_of(row | {"relevance": row["relevances"]}, corpus.manifest) for row in table.to_pylist())
