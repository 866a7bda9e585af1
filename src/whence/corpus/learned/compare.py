"""Two explained corpora, or two parts of one, side by side: words, predictions, and texts explained differently."""

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.corpus.learned.classes import chosen_targets
from whence.corpus.learned.heatmaps import explanation_of
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.query import require_select
from whence.corpus.learned.results import table_of, with_notes
from whence.corpus.learned.words import COUNT, OFTEN
from whence.data.arrow import arrow
from whence.errors import InputError
from whence.explanation import Explanation

NORMAL = 1.959964  # the intervals are of 95 %
LEAST_WORDS = 5  # a rank correlation over fewer words says little
PAIRED = (
    "difference: the mean of b − a over the same words in the same texts; the intervals are normal ones of 95 %, which take"
    " occurrences for independent"
)
APART = (
    "difference: the mean in b − the mean in a; the intervals are normal ones of 95 % (Welch), which take occurrences for"
    " independent"
)


class Comparison(NamedTuple):
    """What differs between a and b, as Arrow tables."""

    words: Any  # whose mean relevance differs
    predictions: Any  # how many texts have which predictions
    texts: Any  # the texts whose relevance differs most in its order; empty for parts of one corpus


def compare(
    a: str | Path,
    b: str | Path | None = None,
    *,
    slice_a: str = "",
    slice_b: str = "",
    target: str | None = None,
    count: int = COUNT,
    least_count: int = OFTEN,
    ignore_case: bool = False,
) -> Comparison:
    """Compare two corpora, whose texts are matched by `row`, or two parts of one.

    Two models on the same texts: words are compared where both have the same tokens and explain the same class. Parts are
    given by conditions in SQL on the columns of `texts`; without `slice_b`, the second part is the rest. Words are ordered by
    the end of their difference's interval that is closer to 0, so rare words need larger differences.

        whence.corpus.compare("lstm", "gru")
        whence.corpus.compare("explained", slice_a="label = 'positive'", slice_b="label = 'negative'")
    """
    require_two(b, slice_a)
    with opened(a, b) as corpus:
        return compared(
            corpus,
            slice_a=slice_a,
            slice_b=slice_b,
            target=target,
            count=count,
            least_count=least_count,
            ignore_case=ignore_case,
        )


def require_two(b: object, slice_a: str) -> None:
    """Refuse a call that names nothing to compare with."""
    if b is None and not slice_a:
        raise InputError("there is nothing to compare with; give a second corpus, or a part of the first with --slice-a")


def compared(
    corpus: Opened,
    *,
    slice_a: str = "",
    slice_b: str = "",
    target: str | None = None,
    count: int = COUNT,
    least_count: int = OFTEN,
    ignore_case: bool = False,
) -> Comparison:
    """The same for corpora that are open."""
    _add_sides(corpus, slice_a, slice_b)
    targets = chosen_targets(corpus.classes, corpus.targets(), target)
    if corpus.other is None:
        words = _words(corpus, targets, count, least_count, ignore_case, is_paired=False)
        return _noted(corpus, Comparison(words, _balances(corpus), _texts(corpus, targets, 0)))
    is_paired = corpus.rows("SELECT count(*) AS n FROM pairs")[0]["n"] > 0
    words = _words(corpus, targets, count, least_count, ignore_case, is_paired=is_paired)
    return _noted(corpus, Comparison(words, _predictions(corpus), _texts(corpus, targets, count)))


def _noted(corpus: Opened, found: Comparison) -> Comparison:
    """Every table with the notes on the corpora, since each may be shown alone."""
    return Comparison(*(with_notes(table, corpus.notes) for table in found))


def _add_sides(corpus: Opened, slice_a: str, slice_b: str) -> None:
    """The views `side_a` and `side_b` of both sides' texts, and `pairs` of the texts that both explain for the same class."""
    other = "main.texts" if corpus.other is None else "other.texts"
    if corpus.other is None and not slice_b:
        slice_b = f"({slice_a}\n) IS NOT TRUE"
    for name, texts, condition in (("side_a", "main.texts", slice_a), ("side_b", other, slice_b)):
        sql = f"SELECT * FROM {texts}" + (f" WHERE ({condition}\n)" if condition else "")
        require_select(corpus, sql)
        corpus.run(f"CREATE TEMP VIEW {name} AS {sql}")
    corpus.run(
        "CREATE TEMP VIEW pairs AS SELECT a.row, a.target, a.text, a.tokens, a.relevance AS relevance_a,"
        " b.relevance AS relevance_b, a.predicted AS predicted_a, b.predicted AS predicted_b"
        " FROM side_a AS a JOIN side_b AS b ON a.row = b.row AND a.target = b.target WHERE a.tokens = b.tokens"
    )


def _words(corpus: Opened, targets: list[str], count: int, least_count: int, ignore_case: bool, *, is_paired: bool) -> Any:
    """The words whose mean relevance differs most."""
    sql = _paired(ignore_case) if is_paired else _apart(ignore_case)
    rows = corpus.rows(
        f"WITH found AS ({sql}),"
        " judged AS (SELECT *, difference - $3 * error AS low, difference + $3 * error AS high FROM found)"
        " SELECT *, count(*) OVER () AS compared FROM judged QUALIFY row_number() OVER (PARTITION BY target"
        " ORDER BY greatest(low, -high, 0) DESC, abs(difference) DESC, word) <= $4",
        [targets, least_count, NORMAL, count],
    )
    rows.sort(
        key=lambda row: (targets.index(row["target"]), -max(row["low"], -row["high"], 0), -abs(row["difference"]), row["word"])
    )
    number = rows[0]["compared"] if rows else 0
    rows = [row for row in rows if row["difference"]]  # words that do not differ come last
    if rows:
        told = [PAIRED if is_paired else APART]
        told.append(f"{number:,} words were compared; about one in twenty would lie apart by chance")
    elif number:
        told = [f"no word differs: all {number:,} words that were compared have the same mean relevance on both sides"]
    else:
        told = [f"no word occurs {least_count} times or more on both sides; see --least-count"]
    pa = arrow()
    counts = [(name, pa.int64()) for name in ("count_a", "count_b")]
    numbers = [(name, pa.float64()) for name in ("mean_a", "mean_b", "difference", "low", "high")]
    return table_of(rows, [("target", pa.string()), ("word", pa.string()), *counts, *numbers], told)


def _paired(ignore_case: bool) -> str:
    """SQL for the mean difference of every word over its paired occurrences, with its standard error."""
    return f"""
        SELECT target, word, count(*) AS count_a, count(*) AS count_b, favg(a) AS mean_a, favg(b) AS mean_b,
            favg(b - a) AS difference, coalesce(stddev_samp(b - a), 0) / sqrt(count(*)) AS error
        FROM (SELECT target, {_word(ignore_case)} AS word, a::DOUBLE AS a, b::DOUBLE AS b FROM (
            SELECT target, unnest(tokens) AS token, unnest(relevance_a) AS a, unnest(relevance_b) AS b FROM pairs))
        WHERE list_contains($1, target) GROUP BY target, word HAVING count(*) >= $2"""


def _apart(ignore_case: bool) -> str:
    """SQL for the difference of the means of every word on both sides, with its standard error."""
    sides = [
        f"""(SELECT target, word, count(*) AS count_{side}, favg(r) AS mean_{side},
            coalesce(var_samp(r), 0) / count(*) AS error_{side}
        FROM (SELECT target, {_word(ignore_case)} AS word, r::DOUBLE AS r FROM (
            SELECT target, unnest(tokens) AS token, unnest(relevance) AS r FROM side_{side}))
        WHERE list_contains($1, target) GROUP BY target, word HAVING count(*) >= $2)"""
        for side in "ab"
    ]
    return (
        "SELECT *, mean_b - mean_a AS difference, sqrt(error_a + error_b) AS error"
        f" FROM {sides[0]} JOIN {sides[1]} USING (target, word)"
    )


def _word(ignore_case: bool) -> str:
    return "lower(token)" if ignore_case else "token"


def _predictions(corpus: Opened) -> Any:
    """How many texts of both corpora have which two predictions, the most frequent first."""
    rows = corpus.rows(
        "SELECT a.predicted AS predicted_a, b.predicted AS predicted_b, count(*) AS texts"
        " FROM (SELECT DISTINCT row, predicted FROM side_a) AS a JOIN (SELECT DISTINCT row, predicted FROM side_b) AS b"
        " USING (row) GROUP BY ALL ORDER BY texts DESC, predicted_a, predicted_b"
    )
    total = sum(row["texts"] for row in rows)
    other = sum(row["texts"] for row in rows if row["predicted_a"] != row["predicted_b"])
    paired = corpus.rows("SELECT count(DISTINCT row) AS n FROM pairs")[0]["n"]
    notes = [f"{total:,} rows are in both; predictions differ in {other:,} of them ({100 * other / max(1, total):.1f} %)"]
    strange = corpus.rows(
        "SELECT count(DISTINCT row) AS n FROM side_a AS a JOIN side_b AS b USING (row) WHERE a.text <> b.text"
    )
    if strange[0]["n"]:
        notes.append(f"the text differs in {strange[0]['n']:,} of them; are both corpora made from the same file?")
    if paired < total:
        notes.append(f"words cannot be paired in {total - paired:,} of them: other tokens, or explained for another class")
    pa = arrow()
    columns = [("predicted_a", pa.string()), ("predicted_b", pa.string()), ("texts", pa.int64())]
    return table_of(rows, columns, notes)


def _balances(corpus: Opened) -> Any:
    """How often every class is predicted in two parts of a corpus."""
    rows = corpus.rows(
        "WITH a AS (SELECT predicted, count(DISTINCT row) AS texts_a FROM side_a GROUP BY predicted),"
        " b AS (SELECT predicted, count(DISTINCT row) AS texts_b FROM side_b GROUP BY predicted)"
        " SELECT predicted, coalesce(texts_a, 0) AS texts_a, coalesce(texts_b, 0) AS texts_b"
        " FROM a FULL JOIN b USING (predicted)"
    )
    for side in "ab":
        total = sum(row[f"texts_{side}"] for row in rows)
        for row in rows:
            row[f"share_{side}"] = row[f"texts_{side}"] / total if total else None
    rows.sort(key=lambda row: (-row["texts_a"] - row["texts_b"], row["predicted"]))
    pa = arrow()
    numbers = [column for side in "ab" for column in ((f"texts_{side}", pa.int64()), (f"share_{side}", pa.float64()))]
    return table_of(rows, [("predicted", pa.string()), *numbers])


class _Alike(NamedTuple):
    """How alike two explanations of a text are; the least alike sorts first."""

    correlation: float
    row: int
    target: str


def _texts(corpus: Opened, targets: list[str], count: int) -> Any:
    """The texts for which both sides order the words most differently; none that both order alike."""
    worst = nsmallest(count, _correlations(corpus, targets)) if count else []
    notes = ["no text differs: both sides order the words of every text alike"] if worst and worst[0].correlation == 1 else []
    worst = [each for each in worst if each.correlation < 1]
    rows: list[dict[str, Any]] = []
    for each in worst:
        (found,) = corpus.rows("SELECT * FROM pairs WHERE row = ? AND target = ? LIMIT 1", [each.row, each.target])
        rows.append(found | {"correlation": each.correlation})
    pa = arrow()
    names = [
        ("predicted_a", pa.string()),
        ("predicted_b", pa.string()),
        ("text", pa.string()),
        ("tokens", pa.list_(pa.string())),
    ]
    lists = [(f"relevance_{side}", pa.list_(pa.float32())) for side in "ab"]
    head = [("row", pa.int64()), ("target", pa.string()), ("correlation", pa.float64())]
    return table_of(rows, [*head, *names, *lists], notes)


def _correlations(corpus: Opened, targets: list[str]) -> Iterator[_Alike]:
    """The rank correlation of every pair of explanations of a text with enough words."""
    sql = "SELECT row, target, relevance_a, relevance_b FROM pairs WHERE list_contains(?, target) AND len(tokens) >= ?"
    for batch in corpus.batches(sql, [targets, LEAST_WORDS]):
        numbers = [batch.column(name).to_pylist() for name in ("row", "target", "relevance_a", "relevance_b")]
        for row, target, one, other in zip(*numbers, strict=True):
            correlation = rank_correlation(np.array(one), np.array(other))
            if correlation is not None:
                yield _Alike(correlation, row, target)


def rank_correlation(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    """Spearman's rank correlation; None if one side has no order because all its values are equal."""
    first, second = (_centred_ranks(each) for each in (one, other))
    size = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / size if size else None


def _centred_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """The ranks minus their mean; equal values share the mean of their ranks."""
    order = np.sort(values)
    ranks = (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") - 1) / 2
    return ranks - ranks.mean()


def heatmaps_of(corpus: Opened, row: Mapping[str, Any]) -> list[Explanation]:
    """Both explanations of a text in the table `texts`."""
    found: list[Explanation] = []
    for side, manifest in (("a", corpus.manifest), ("b", corpus.other)):
        assert manifest is not None
        own = {"relevance": row[f"relevance_{side}"], "predicted": row[f"predicted_{side}"], "scores": (), "score": 0.0}
        found.append(explanation_of({**row, **own}, manifest))
    return found
