"""Two corpora and two parts of one, against an independent count."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpus.learned.making import Row, random_rows, write
from whence.corpus.learned.compare import compare, heatmaps_of, rank_correlation
from whence.corpus.learned.opening import opened
from whence.corpus.learned.results import notes_of
from whence.errors import InputError

NUMBERS = ("mean_a", "mean_b", "difference", "low", "high")


def ranks(values: list[float]) -> list[float]:
    return [sum(other < each for other in values) + (sum(other == each for other in values) - 1) / 2 for each in values]


def two(tmp_path: Path) -> tuple[list[Row], list[Row], Path, Path]:
    one, other = random_rows(200, seed=4), random_rows(200, seed=4)
    random = np.random.default_rng(0)
    other = [row._replace(relevance=(random.integers(-8, 9, len(row.tokens)) / 8).tolist()) for row in other]
    other[3] = other[3]._replace(tokens=[*other[3].tokens, "x"], relevance=[*other[3].relevance, 1.0])
    other[5] = other[5]._replace(predicted="negative" if other[5].predicted == "positive" else "positive")
    other = [row for row in other if row.row != 7]
    return one, other, write(tmp_path / "a", one), write(tmp_path / "b", other, parts=3)


def test_words_are_compared_occurrence_by_occurrence(tmp_path: Path) -> None:
    one, other, a, b = two(tmp_path)
    found = compare(a, b, count=100)
    by_row = {row.row: row for row in other}
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in one:
        match = by_row.get(row.row)
        if match and match.tokens == row.tokens:
            for word, r, s in zip(row.tokens, row.relevance, match.relevance, strict=True):
                pairs[word].append((r, s))
    rows = found.words.to_pylist()
    assert {row["word"] for row in rows} == set(pairs)
    for row in rows:
        first, second = np.array(pairs[row["word"]]).T
        half = 1.959964 * np.std(second - first, ddof=1) / np.sqrt(len(first))
        mean = np.mean(second - first)
        expected = np.array([first.mean(), second.mean(), mean, mean - half, mean + half])
        np.testing.assert_allclose([row[key] for key in NUMBERS], expected, rtol=1e-9, atol=1e-12)
        assert row["count_a"] == row["count_b"] == len(first)
    bounds = [max(row["low"], -row["high"], 0) for row in rows]
    assert bounds == sorted(bounds, reverse=True)
    assert notes_of(found.words)[0].startswith("difference: the mean of b − a over the same words in the same texts")
    assert notes_of(found.words)[1].startswith("10 words were compared")


def test_corpora_that_were_made_by_different_rules_are_told_apart(tmp_path: Path) -> None:
    _, _, a, b = two(tmp_path)
    for folder, rules in ((a, 1), (b, 2)):
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, "rules": rules}))
    told = "the amounts were made by different rules (number 1 and 2): explain one again"
    for table in compare(a, b):
        assert told in notes_of(table)
    assert told not in notes_of(compare(a, a).words)


def test_predictions_are_counted_by_row(tmp_path: Path) -> None:
    one, other, a, b = two(tmp_path)
    found = compare(a, b)
    by_row = {row.row: row.predicted for row in other}
    expected = Counter((row.predicted, by_row[row.row]) for row in one if row.row in by_row)
    assert {(row["predicted_a"], row["predicted_b"]): row["texts"] for row in found.predictions.to_pylist()} == expected
    assert notes_of(found.predictions) == [
        "199 rows are in both; predictions differ in 1 of them (0.5 %)",
        "the text differs in 1 of them; are both corpora made from the same file?",
        "words cannot be paired in 1 of them: other tokens, or explained for another class",
    ]


def test_the_texts_are_those_whose_words_are_ordered_most_differently(tmp_path: Path) -> None:
    one, other, a, b = two(tmp_path)
    found = compare(a, b, count=6)
    by_row = {row.row: row for row in other}
    expected: list[tuple[float, int]] = []
    for row in one:
        match = by_row.get(row.row)
        if match and match.tokens == row.tokens and len(row.tokens) >= 5:
            expected.append((float(np.corrcoef(ranks(list(row.relevance)), ranks(list(match.relevance)))[0, 1]), row.row))
    rows = found.texts.to_pylist()
    assert [row["row"] for row in rows] == [row for _, row in sorted(expected)[:6]]
    np.testing.assert_allclose([row["correlation"] for row in rows], [each for each, _ in sorted(expected)[:6]], rtol=1e-9)
    with opened(a, b) as corpus:
        first, second = heatmaps_of(corpus, rows[0])
    assert first.relevance == tuple(one[rows[0]["row"]].relevance)
    assert second.relevance == tuple(by_row[rows[0]["row"]].relevance) and first.text == second.text


def welch(one: list[float], other: list[float]) -> list[float]:
    difference = float(np.mean(other) - np.mean(one))
    half = 1.959964 * float(np.sqrt(np.var(one, ddof=1) / len(one) + np.var(other, ddof=1) / len(other)))
    return [float(np.mean(one)), float(np.mean(other)), difference, difference - half, difference + half]


@pytest.mark.parametrize("second", ["label NOT IN ('0', 'negative')", ""])
def test_parts_of_a_corpus_are_compared(tmp_path: Path, second: str) -> None:
    rows = random_rows(300, seed=5)
    out = write(tmp_path, rows, labels=True)
    found = compare(out, slice_a="label IN ('0', 'negative') -- the worse ones", slice_b=second, count=100)
    sides: tuple[dict[str, list[float]], ...] = (defaultdict(list), defaultdict(list))
    for row in rows:
        for word, value in zip(row.tokens, row.relevance, strict=True):
            sides[row.label not in ("0", "negative")][word].append(value)
    for row in found.words.to_pylist():
        one, other = (side[row["word"]] for side in sides)
        assert (row["count_a"], row["count_b"]) == (len(one), len(other))
        np.testing.assert_allclose([row[key] for key in NUMBERS], welch(one, other), rtol=1e-9, atol=1e-12)
    assert notes_of(found.words)[0].startswith("difference: the mean in b − the mean in a")
    first = Counter(row.predicted for row in rows if row.label in ("0", "negative"))
    assert {row["predicted"]: row["texts_a"] for row in found.predictions.to_pylist()} == first
    assert sum(row["share_b"] for row in found.predictions.to_pylist()) == pytest.approx(1)
    assert len(found.texts) == 0


def test_corpora_that_cannot_be_paired_are_compared_apart(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [Row(n, ["good", "film"], [1.0 + n, 0.0]) for n in range(5)])
    b = write(tmp_path / "b", [Row(n, ["good film", "good"], [0.0, 2.0 * n]) for n in range(5)])
    (row,) = compare(a, b).words.to_pylist()
    assert row["word"] == "good"
    np.testing.assert_allclose([row[key] for key in NUMBERS], welch([1.0, 2, 3, 4, 5], [0.0, 2, 4, 6, 8]), rtol=1e-9)


def test_a_call_that_compares_nothing_is_refused(tmp_path: Path) -> None:
    out = write(tmp_path, random_rows(3))
    with pytest.raises(InputError, match="nothing to compare with; give a second corpus"):
        compare(out)
    for wrong in ("1 = 1); DROP VIEW texts; SELECT (1", "nothing = 1", "("):
        with pytest.raises(InputError, match=r"^(one SELECT is needed|the database refuses)"):
            compare(out, slice_a=wrong)
    found = compare(out, slice_a="row < 0")
    assert len(found.words) == 0 and "on both sides; see --least-count" in notes_of(found.words)[-1]


@pytest.mark.parametrize(
    ("one", "other", "expected"), [([1, 2, 3], [1, 5, 9], 1), ([1, 2, 3], [3, 2, 1], -1), ([1, 1], [1, 2], None)]
)
def test_ranks_correlate(one: Any, other: Any, expected: float | None) -> None:
    assert rank_correlation(np.array(one), np.array(other)) == expected


def test_what_does_not_differ_is_not_listed(tmp_path: Path) -> None:
    rows = random_rows(60, seed=6)
    a = write(tmp_path / "a", rows)
    same = compare(a, a)
    assert len(same.words) == 0 and len(same.texts) == 0
    assert notes_of(same.words) == [
        "no word differs: all 10 words that were compared have the same mean relevance on both sides"
    ]
    assert notes_of(same.texts) == ["no text differs: both sides order the words of every text alike"]
    long = next(n for n, row in enumerate(rows) if row.tokens.count("good") == 1 and len(row.tokens) >= 5)
    place = rows[long].tokens.index("good")
    relevance = [9.0 if n == place else value for n, value in enumerate(rows[long].relevance)]
    other = [row._replace(relevance=relevance) if n == long else row for n, row in enumerate(rows)]
    found = compare(a, write(tmp_path / "b", other))
    assert [row["word"] for row in found.words.to_pylist()] == ["good"]
    assert [row["row"] for row in found.texts.to_pylist()] == [rows[long].row]
    assert "10 words were compared" in notes_of(found.words)[1] and notes_of(found.texts) == []
