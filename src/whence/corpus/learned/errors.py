"""Why a model is wrong: the words that pull to wrong predictions, suspected shortcuts, and suspected labels."""

from pathlib import Path
from typing import Any, NamedTuple

from whence.corpus.learned.label_noise import CONFIDENT, label_noise
from whence.corpus.learned.labels import add_judged
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.results import table_of, with_notes
from whence.corpus.learned.shortcuts import add_shares, shortcuts
from whence.corpus.learned.snippets import snippets
from whence.corpus.learned.words import OFTEN
from whence.data.arrow import arrow
from whence.errors import InputError

COUNT = 5


class Errors(NamedTuple):
    """What wrong predictions have in common, as Arrow tables."""

    confusion: Any  # how many texts have which label and prediction
    words: Any  # that pull from a label to a wrong prediction
    shortcuts: Any
    label_noise: Any


def errors(out: str | Path, *, count: int = COUNT, least_count: int = OFTEN, confident: float = CONFIDENT) -> Errors:
    """Which words pull wrong predictions, and what is suspicious about them. The corpus must have labels.

    `words`: for every label and wrong prediction, the words with the largest pull: the relevance of all their occurrences for
    the predicted class, divided by the number of these texts. (If the corpus explains one class, and a text has it as its
    label, the pull is the relevance against that class.) `shortcuts` and `label_noise` say in their notes how they are
    measured; `least_count` is the number of wrong texts that a shortcut must be in.
    """
    with opened(out) as corpus:
        return errors_of(corpus, count=count, least_count=least_count, confident=confident)


def errors_of(corpus: Opened, *, count: int = COUNT, least_count: int = OFTEN, confident: float = CONFIDENT) -> Errors:
    """The same for a corpus that is open."""
    if not 0 <= confident <= 1:
        raise InputError(f"confident is {confident}; a probability is between 0 and 1")
    notes = [*corpus.notes, *add_judged(corpus)]
    add_shares(corpus)
    own = [*_unpredicted(corpus), *notes]
    return Errors(
        _confusion(corpus, notes),
        with_notes(_pulling(corpus, count), [*_unexplained(corpus), *notes]),
        with_notes(shortcuts(corpus, count=count, least_count=least_count), own),
        with_notes(label_noise(corpus, count=count, confident=confident), own),
    )


def _confusion(corpus: Opened, notes: list[str]) -> Any:
    """The number of texts by label and prediction."""
    rows = corpus.rows("SELECT truth AS label, predicted, count(DISTINCT row) AS texts FROM judged GROUP BY ALL")
    rows.sort(key=lambda row: (corpus.number_of(row["label"]), corpus.number_of(row["predicted"])))
    total, right = sum(row["texts"] for row in rows), sum(row["texts"] for row in rows if row["label"] == row["predicted"])
    said = [f"{right:,} of {total:,} predictions are right ({100 * right / total:.1f} %)"] if total else []
    pa = arrow()
    return table_of(rows, [("label", pa.string()), ("predicted", pa.string()), ("texts", pa.int64())], [*notes, *said])


def _unexplained(corpus: Opened) -> list[str]:
    """A note on the wrong predictions of which no pull is known."""
    sql = "SELECT count(*) AS n FROM (SELECT row FROM judged WHERE truth <> predicted GROUP BY row HAVING count(sign) = 0)"
    number = corpus.rows(sql)[0]["n"]
    why = (
        "neither the predicted class nor the label was explained"
        if corpus.is_signed
        else "the predicted class was not explained"
    )
    return [f"pull: {number:,} wrong predictions are left out because {why} there"] if number else []


def _unpredicted(corpus: Opened) -> list[str]:
    """A note on the texts that say nothing of shortcuts and labels."""
    sql = "SELECT count(*) AS n FROM (SELECT row FROM judged GROUP BY row HAVING NOT bool_or(target = predicted))"
    number = corpus.rows(sql)[0]["n"]
    told = "shortcuts and label noise: {:,} texts are left out because their predicted class was not explained"
    return [told.format(number)] if number else []


def _pulling(corpus: Opened, count: int) -> Any:
    """The words that pull most from each label to each wrong prediction; the most frequent kind of error first."""
    rows = corpus.rows(
        """
        WITH wrong AS (SELECT * FROM judged WHERE truth <> predicted AND sign IS NOT NULL),
        kinds AS (SELECT truth, predicted, count(*) AS texts FROM wrong GROUP BY ALL),
        spoken AS (
            SELECT row, target, truth, predicted, unnest(range(len(tokens))) AS position, unnest(tokens) AS word,
                unnest(relevance)::DOUBLE * sign + 0.0 AS pull FROM wrong),
        pulls AS (
            SELECT truth, predicted, word, count(*) AS count, favg(pull) AS mean, fsum(pull) AS total,
                arg_max({'row': row, 'target': target, 'position': position}, (pull, -row, -position)) AS place
            FROM spoken GROUP BY truth, predicted, word)
        SELECT *, total / texts AS pull FROM pulls JOIN kinds USING (truth, predicted) WHERE total > 0
        QUALIFY row_number() OVER (PARTITION BY truth, predicted ORDER BY total DESC, word) <= $1""",
        [count],
    )
    order = corpus.classes.index
    rows.sort(key=lambda row: (-row["texts"], order(row["truth"]), order(row["predicted"]), -row["total"], row["word"]))
    for row, example in zip(rows, snippets(corpus, [row["place"] for row in rows]), strict=True):
        row |= {"label": row["truth"], "row": row["place"]["row"], "example": example}
    pa = arrow()
    head = [("label", pa.string()), ("predicted", pa.string()), ("texts", pa.int64()), ("word", pa.string())]
    numbers = [("count", pa.int64()), ("mean", pa.float64()), ("pull", pa.float64())]
    return table_of(rows, [*head, *numbers, ("row", pa.int64()), ("example", pa.string())], [_measure(corpus)])


def _measure(corpus: Opened) -> str:
    """What the pull is, which depends on the class that was explained."""
    said = "pull: the relevance of all occurrences of a word for the wrong class, divided by the number of texts"
    turned = corpus.rows("SELECT truth, count(*) AS n FROM judged WHERE truth <> predicted AND sign = -1 GROUP BY truth")
    for row in turned:
        said += (
            f"; but in the {row['n']:,} texts with the label {row['truth']}, the only class that was explained, it is the"
            f" relevance against {row['truth']} (explain the predicted class to see what speaks for the wrong one)"
        )
    return said
