"""Texts whose label may be wrong: a confident prediction against it, carried by words that carry right predictions too."""

from typing import Any

from whence.corpus.learned.opening import Opened
from whence.corpus.learned.results import table_of
from whence.data.arrow import arrow

CONFIDENT = 0.9
USUAL = 2  # a word is ordinary for a class if it speaks for it in so many texts that are rightly predicted
HALF = 0.5
MEASURE = (
    "label noise: the predicted class has a probability of at least {confident:g} (softmax of the scores), and at least half of"
    " what speaks for it in the text is on ordinary words, which speak for the class in two or more rightly predicted texts;"
    " ordered by probability × share of ordinary words"
)


def label_noise(corpus: Opened, *, count: int, confident: float = CONFIDENT) -> Any:
    """The texts with suspected labels. Needs the table `shares`."""
    rows = corpus.rows(
        """
        WITH sure AS (
            SELECT row, id, label, truth, predicted, text, tokens, relevance,
                1 / list_sum(list_transform(scores, lambda s: exp(s::DOUBLE - list_max(scores)))) AS probability
            FROM judged WHERE target = predicted AND truth <> predicted),
        spoken AS (
            SELECT row, predicted, unnest(tokens) AS word, greatest(unnest(relevance)::DOUBLE, 0) AS amount
            FROM sure WHERE probability >= $1),
        usual AS (SELECT predicted, word FROM shares WHERE is_right AND texts >= $2 AND total > 0),
        carried AS (
            SELECT row, sum(amount) FILTER (usual.word IS NOT NULL) / sum(amount) AS ordinary
            FROM spoken LEFT JOIN usual USING (predicted, word) GROUP BY row HAVING sum(amount) > 0)
        SELECT row, id, truth AS label, predicted, probability, ordinary, text FROM sure JOIN carried USING (row)
        WHERE ordinary >= $3 ORDER BY probability * ordinary DESC, row LIMIT $4""",
        [confident, USUAL, HALF, count],
    )
    pa = arrow()
    names = [("row", pa.int64()), *((name, pa.string()) for name in ("id", "label", "predicted"))]
    columns = [*names, ("probability", pa.float64()), ("ordinary", pa.float64()), ("text", pa.string())]
    return table_of(rows, columns, [MEASURE.format(confident=confident)])
