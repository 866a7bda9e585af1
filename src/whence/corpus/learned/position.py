"""Where relevance lies in a text, class by class, as Fig. 4 of the paper shows it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.corpus.learned.classes import chosen_targets
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.results import table_of
from whence.data.arrow import arrow
from whence.errors import InputError
from whence.evaluation.bootstrap import Band, mean_band
from whence.evaluation.position import portions

INTERVALS, LEAST_WORDS = 10, 19  # as in the paper
GROUPS = 4096  # from so many texts on, groups of texts are resampled together
Numbers = NDArray[np.float64]


def position(out: str | Path, *, target: str | None = None, least_words: int = LEAST_WORDS, intervals: int = INTERVALS) -> Any:
    """The share of absolute relevance in every tenth of the texts, for every class, as an Arrow table.

    Texts of fewer than `least_words` words are left out. `low` and `high` are the middle 95 % of 2,000 bootstrap resamples of
    the texts; from 4,096 texts on, groups of texts are resampled, so that memory stays small.
    """
    with opened(out) as corpus:
        return positions(corpus, target=target, least_words=least_words, intervals=intervals)


def positions(corpus: Opened, *, target: str | None = None, least_words: int = LEAST_WORDS, intervals: int = INTERVALS) -> Any:
    """The same for a corpus that is open."""
    if least_words < 1 or intervals < 1:
        raise InputError(f"{intervals} intervals in texts of {least_words} words or more; both must be at least 1")
    rows: list[dict[str, Any]] = []
    notes = list(corpus.notes)
    targets = chosen_targets(corpus.classes, corpus.targets(), target)
    for name in targets:
        groups, texts = _groups(corpus, name, least_words, intervals)
        if not groups.any():
            notes.append(
                f"{name}: " + ("all relevance is 0" if texts else f"no text has {least_words} words or more; see --least-words")
            )
            continue
        shares, band = _shares(groups.mean(0)), mean_band(groups, _shares)
        rows += _rows(name, shares, band, texts)
    return table_of(rows, _columns(), [*notes, *(_short(corpus, targets, least_words) if rows else ())])


def _short(corpus: Opened, targets: Sequence[str], least_words: int) -> list[str]:
    """A note on the texts that are left out."""
    sql = (
        "SELECT count(DISTINCT row) AS texts, count(DISTINCT row) FILTER (len(tokens) < ?) AS short FROM texts"
        " WHERE list_contains(?, target)"
    )
    (found,) = corpus.rows(sql, [least_words, list(targets)])
    told = f"{found['short']:,} of {found['texts']:,} texts are left out: they have fewer than {least_words} words"
    return [f"{told}; see --least-words"] if found["short"] else []


def _shares(amounts: Numbers) -> Numbers:
    """The share of every interval (…, K). A resample without any relevance has equal shares."""
    total = amounts.sum(-1, keepdims=True)
    return np.divide(amounts, total, out=np.full_like(amounts, 1 / amounts.shape[-1]), where=total > 0)


def _groups(corpus: Opened, target: str, least_words: int, intervals: int) -> tuple[Numbers, int]:
    """The absolute relevance in every interval (G, K), summed over groups of texts, and the number of texts.

    Text n is in group n mod G, so a group of its own if there are few.
    """
    sums, texts = np.zeros((GROUPS, intervals)), 0
    sql = "SELECT relevance FROM texts WHERE target = ? AND len(tokens) >= ?"
    for batch in corpus.batches(sql, [target, least_words]):
        lists = batch.column(0)
        values = np.abs(lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64))
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        for length in np.unique(lengths):  # texts of one length are split in one product
            own = np.flatnonzero(lengths == length)
            words = values[starts[own, None] + np.arange(length)]  # (texts, L)
            np.add.at(sums, (texts + own) % GROUPS, words @ portions(int(length), intervals))
        texts += len(lengths)
    return sums[: min(texts, GROUPS)], texts


def _rows(target: str, shares: Numbers, band: Band, texts: int) -> list[dict[str, Any]]:
    edges = np.linspace(0, 1, len(shares) + 1)
    return [
        {
            "target": target,
            "interval": k + 1,
            "start": float(edges[k]),
            "end": float(edges[k + 1]),
            "share": float(shares[k]),
            "low": float(band.low[k]),
            "high": float(band.high[k]),
            "texts": texts,
        }
        for k in range(len(shares))
    ]


def _columns() -> list[tuple[str, Any]]:
    pa = arrow()
    numbers = [(name, pa.float64()) for name in ("start", "end", "share", "low", "high")]
    return [("target", pa.string()), ("interval", pa.int64()), *numbers, ("texts", pa.int64())]
