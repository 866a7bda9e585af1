"""Words whose sign depends on their context: they speak for a class in some texts and against it in others."""

from pathlib import Path
from typing import Any

from whence.corpus.learned.classes import chosen_targets
from whence.corpus.learned.grams import Sizes, in_parts, sizes_of
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.results import table_of
from whence.corpus.learned.snippets import snippets
from whence.corpus.learned.words import COUNT, OFTEN
from whence.data.arrow import arrow
from whence.errors import InputError

FAINT = 0.1  # a word with less than this part of its text's largest relevance is noise
SHARE = 0.1  # the rarer side must have more than this share of the occurrences, also at the lower end of its interval
NORMAL = 1.959964  # the interval is of 95 %


def mixed(
    out: str | Path,
    *,
    target: str | None = None,
    count: int = COUNT,
    least_count: int | None = None,
    ngrams: Sizes = 1,
    ignore_case: bool = False,
) -> Any:
    """Words that speak for a class in some texts and against it in others, as an Arrow table.

    An occurrence counts if its relevance is at least a tenth of its text's largest, without the sign. A word is mixed if it
    occurs `least_count` times (5 by default) on either side, and the lower end of the 95 % interval (Wilson) of the rarer
    side's share is above a tenth. Words are ordered by what they give to the weaker side:  min(Σ R⁺, Σ R⁻) / occurrences.
    """
    with opened(out) as corpus:
        return mixed_words(corpus, target=target, count=count, least_count=least_count, ngrams=ngrams, ignore_case=ignore_case)


def mixed_words(
    corpus: Opened,
    *,
    target: str | None = None,
    count: int = COUNT,
    least_count: int | None = None,
    ngrams: Sizes = 1,
    ignore_case: bool = False,
) -> Any:
    """The same for a corpus that is open."""
    if not corpus.is_signed:
        raise InputError(f"the relevance in {corpus.place} has no sign, so no word can change it; explain with another method")
    targets = chosen_targets(corpus.classes, corpus.targets(), target)
    often = OFTEN if least_count is None else least_count
    rows = [
        row
        for found in in_parts(corpus, sizes_of(ngrams), ignore_case=ignore_case)
        for row in corpus.rows(_sql(found), [targets, often, NORMAL, SHARE, count])
    ]
    rows.sort(key=lambda row: (targets.index(row["target"]), -row["weaker"], row["word"]))
    rows = [row for name in targets for row in [own for own in rows if own["target"] == name][:count]]
    for side in ("for", "against"):
        for row, example in zip(rows, snippets(corpus, [_place(row, side) for row in rows]), strict=True):
            row[f"row_{side}"], row[f"example_{side}"] = row[f"place_{side}"]["row"], example
    notes = list(corpus.notes)
    if not rows and not notes:
        notes.append(f"no word speaks {often} times or more for a class and as often against it; see --least-count")
    return table_of(rows, _columns(), notes)


def _sql(found: str) -> str:
    """The mixed words; p is the rarer side's share of n occurrences, and its lower limit is Wilson's."""
    lower = "(p + z * z / (2 * n) - z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)"
    place = "{'row': row, 'position': position, 'size': size}"
    return f"""
        WITH sides AS (
            SELECT target, word, count(*) AS count,
                count(*) FILTER (relevance > 0) AS count_for, count(*) FILTER (relevance < 0) AS count_against,
                favg(relevance) FILTER (relevance > 0) AS mean_for, favg(relevance) FILTER (relevance < 0) AS mean_against,
                arg_max({place}, (relevance, -row, -position)) AS place_for,
                arg_min({place}, (relevance, -row, -position)) AS place_against
            FROM ({found}) WHERE abs(relevance) >= {FAINT} * largest AND relevance <> 0 AND list_contains($1, target)
            GROUP BY target, word
            HAVING count_for >= $2 AND count_against >= $2),
        shares AS (
            SELECT *, count_for / count AS share_for, least(count_for, count_against) / count AS p, count AS n, $3 AS z,
                least(count_for * mean_for, -count_against * mean_against) / count AS weaker FROM sides)
        SELECT * FROM shares WHERE {lower} > $4
        QUALIFY row_number() OVER (PARTITION BY target ORDER BY weaker DESC, word) <= $5"""


def _place(row: dict[str, Any], side: str) -> dict[str, Any]:
    return {"target": row["target"], **row[f"place_{side}"]}


def _columns() -> list[tuple[str, Any]]:
    pa = arrow()
    counts = [(name, pa.int64()) for name in ("count", "count_for", "count_against")]
    numbers = [(name, pa.float64()) for name in ("share_for", "mean_for", "mean_against")]
    sides = [
        (name, kind)
        for side in ("for", "against")
        for name, kind in ((f"row_{side}", pa.int64()), (f"example_{side}", pa.string()))
    ]
    return [("target", pa.string()), ("word", pa.string()), *counts, *numbers, *sides]
