"""Where relevance lies, against the functions behind Fig. 4 and a count by hand."""

from pathlib import Path

import numpy as np
import pytest

from tests.corpus.learned.making import Row, random_rows, write
from whence.corpus.learned import position as module
from whence.corpus.learned.position import position
from whence.corpus.learned.results import notes_of
from whence.errors import InputError
from whence.evaluation.bootstrap import mean_band
from whence.evaluation.position import distribution, relevance_by_interval


def test_shares_and_bands_are_those_of_fig_4(tmp_path: Path) -> None:
    rows = random_rows(150, longest=40, targets=("negative", "positive"))
    found = position(write(tmp_path, rows, target="all")).to_pylist()
    assert [row["target"] for row in found] == ["negative"] * 10 + ["positive"] * 10
    for target in ("negative", "positive"):
        own = [row for row in found if row["target"] == target]
        long = [row.relevance for row in rows if row.target == target and len(row.tokens) >= 19]
        by_interval = relevance_by_interval(long)
        band = mean_band(by_interval, lambda means: means / means.sum(-1, keepdims=True))
        for key, expected in (("share", distribution(by_interval)), ("low", band.low), ("high", band.high)):
            np.testing.assert_allclose([row[key] for row in own], expected, rtol=1e-10)
        assert {row["texts"] for row in own} == {len(long)}


def test_a_word_is_split_between_the_intervals_it_touches(tmp_path: Path) -> None:
    out = write(tmp_path, [Row(0, ["a", "b", "c"], [3.0, -1.0, 2.0])])
    found = position(out, least_words=1, intervals=2).to_pylist()
    assert [row["share"] for row in found] == pytest.approx([3.5 / 6, 2.5 / 6], rel=1e-11)
    assert [(row["start"], row["end"], row["low"] == row["high"]) for row in found] == [(0.0, 0.5, True), (0.5, 1.0, True)]


def test_many_texts_are_resampled_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(100, longest=40)
    out = write(tmp_path, rows, parts=3)
    alone = position(out, least_words=1).to_pylist()
    monkeypatch.setattr(module, "GROUPS", 16)
    found = position(out, least_words=1).to_pylist()
    assert [row["share"] for row in found] == pytest.approx([row["share"] for row in alone], rel=1e-10)
    amounts = relevance_by_interval([row.relevance for row in rows])
    groups = np.stack([amounts[n::16].sum(0) for n in range(16)])
    band = mean_band(groups, lambda means: means / means.sum(-1, keepdims=True))
    np.testing.assert_allclose([row["low"] for row in found], band.low, rtol=1e-10)


def test_short_texts_and_texts_without_relevance_are_told(tmp_path: Path) -> None:
    short = position(write(tmp_path / "short", [Row(0, ["a"], [1.0])]))
    assert len(short) == 0 and notes_of(short) == ["positive: no text has 19 words or more; see --least-words"]
    zero = position(write(tmp_path / "zero", [Row(0, ["a"], [0.0])]), least_words=1)
    assert len(zero) == 0 and notes_of(zero) == ["positive: all relevance is 0"]
    rows = random_rows(50, targets=("negative", "positive"))
    number = sum(len(row.tokens) < 19 for row in rows) // 2
    some = position(write(tmp_path / "some", rows, target="all"))
    assert notes_of(some) == [f"{number} of 50 texts are left out: they have fewer than 19 words; see --least-words"]
    assert notes_of(position(tmp_path / "some", least_words=1)) == []
    with pytest.raises(InputError, match="both must be at least 1"):
        position(tmp_path / "zero", intervals=0)
