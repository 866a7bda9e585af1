"""Words that a model leans on when it is wrong more than when it is right: suspected shortcuts."""

from typing import Any

from whence.corpus.learned.opening import Opened
from whence.corpus.learned.results import table_of
from whence.data.arrow import arrow

NORMAL = 1.959964
SMALLEST = 0.005  # differences of less than this part of a text's relevance are left out
MEASURE = (
    "shortcuts: a word's share of a text's relevance for the predicted class, in the mean over texts that are wrongly predicted"
    " so, minus that over texts that are rightly; the interval is a normal one of 95 %, and words are listed where it is above"
    f" 0 and the difference is at least {SMALLEST}"
)


def add_shares(corpus: Opened) -> None:
    """Make the table `shares`: for every predicted class, right or wrong, and word its texts, and its shares' sum and squares.

    The share of a word in a text is  Σ R⁺ of the word / Σ R⁺ of all words.
    """
    corpus.run("""
        CREATE OR REPLACE TEMP TABLE shares AS
        WITH spoken AS (
            SELECT row, predicted, truth = predicted AS is_right, unnest(tokens) AS word,
                greatest(unnest(relevance)::DOUBLE, 0) AS amount,
                list_sum(list_transform(relevance, lambda r: greatest(r::DOUBLE, 0))) AS whole
            FROM judged WHERE target = predicted),
        by_text AS (
            SELECT row, predicted, is_right, word, sum(amount) / any_value(whole) AS share FROM spoken WHERE whole > 0
            GROUP BY row, predicted, is_right, word)
        SELECT predicted, is_right, word, count(*) AS texts, sum(share) AS total, sum(share * share) AS squares
        FROM by_text GROUP BY ALL""")
    corpus.run("""
        CREATE OR REPLACE TEMP TABLE judged_texts AS SELECT predicted, truth = predicted AS is_right, count(*) AS n FROM judged
        WHERE target = predicted AND list_sum(list_transform(relevance, lambda r: greatest(r::DOUBLE, 0))) > 0 GROUP BY ALL""")


def shortcuts(corpus: Opened, *, count: int, least_count: int) -> Any:
    """The suspected shortcuts of every class. Needs the table `shares`."""
    rows = corpus.rows(
        """
        WITH wrong AS (SELECT * FROM shares JOIN judged_texts USING (predicted, is_right) WHERE NOT is_right),
        fit AS (SELECT * FROM shares WHERE is_right),
        fit_texts AS (SELECT predicted, n FROM judged_texts WHERE is_right),
        own AS (
            SELECT wrong.predicted, wrong.word, wrong.texts AS texts_wrong, coalesce(fit.texts, 0) AS texts_right,
                wrong.n AS n, fit_texts.n AS m,
                wrong.total / wrong.n AS share_wrong, wrong.squares / wrong.n AS square_wrong,
                coalesce(fit.total, 0) / fit_texts.n AS share_right, coalesce(fit.squares, 0) / fit_texts.n AS square_right
            FROM wrong JOIN fit_texts USING (predicted) LEFT JOIN fit USING (predicted, word) WHERE wrong.texts >= $1),
        judged AS (
            SELECT *, share_wrong - share_right AS difference, sqrt(greatest(0, (square_wrong - share_wrong ** 2) / n
                + (square_right - share_right ** 2) / m)) AS error FROM own)
        SELECT *, difference - $2 * error AS low, difference + $2 * error AS high FROM judged WHERE difference - $2 * error > 0
            AND difference >= $4
        QUALIFY row_number() OVER (PARTITION BY predicted ORDER BY low DESC, word) <= $3""",
        [least_count, NORMAL, count, SMALLEST],
    )
    rows.sort(key=lambda row: (corpus.number_of(row["predicted"]), -row["low"], row["word"]))
    pa = arrow()
    counts = [(name, pa.int64()) for name in ("texts_wrong", "texts_right")]
    numbers = [(name, pa.float64()) for name in ("share_wrong", "share_right", "difference", "low", "high")]
    return table_of(rows, [("predicted", pa.string()), ("word", pa.string()), *counts, *numbers], [MEASURE])
