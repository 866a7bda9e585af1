"""Words whose sign depends on their context, against an independent count."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.corpus.learned.making import Row, random_rows, write
from whence.corpus.learned import grams
from whence.corpus.learned.mixed import mixed
from whence.corpus.learned.results import notes_of
from whence.errors import InputError


def test_the_sides_are_those_of_the_strong_occurrences(tmp_path: Path) -> None:
    rows = random_rows(300, seed=2)
    found = mixed(write(tmp_path, rows), count=100, least_count=3).to_pylist()
    strong: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for row in rows:
        largest = max(map(abs, row.relevance))
        for n, (word, value) in enumerate(zip(row.tokens, row.relevance, strict=True)):
            if value and abs(value) >= 0.1 * largest:
                strong[word].append((value, -row.row, -n))
    assert {row["word"] for row in found} == set(strong)  # ten words with random signs
    weaker: list[float] = []
    for row in found:
        own = strong[row["word"]]
        pro, contra = [v for v, _, _ in own if v > 0], [v for v, _, _ in own if v < 0]
        assert (row["count"], row["count_for"], row["count_against"]) == (len(own), len(pro), len(contra))
        expected = np.array([len(pro) / len(own), np.mean(pro), np.mean(contra)])
        np.testing.assert_allclose([row["share_for"], row["mean_for"], row["mean_against"]], expected, rtol=1e-11)
        assert (row["row_for"], row["row_against"]) == (-max(own)[1], -min(own)[1])
        weaker.append(min(sum(pro), -sum(contra)) / len(own))
    assert weaker == sorted(weaker, reverse=True)


def test_faint_and_rare_sides_are_noise(tmp_path: Path) -> None:
    strong = [Row(n, ["good", "x"], [1.0, 5.0]) for n in range(95)]
    against = [Row(n, ["good", "x"], [-1.0, 5.0]) for n in range(95, 100)]
    assert [row["word"] for row in mixed(write(tmp_path / "5 %", strong + against)).to_pylist()] == []
    faint = [Row(n, ["good", "x"], [-0.4, 5.0]) for n in range(95, 195)]
    assert mixed(write(tmp_path / "faint", strong + faint)).num_rows == 0
    found = mixed(write(tmp_path / "mixed", [*strong, *(row._replace(relevance=[-0.6, 5.0]) for row in faint)]))
    assert [(row["word"], row["count_for"], row["count_against"]) for row in found.to_pylist()] == [("good", 95, 100)]
    assert notes_of(mixed(tmp_path / "faint")) == [
        "no word speaks 5 times or more for a class and as often against it; see --least-count"
    ]


def test_relevance_without_a_sign_has_no_mixed_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no sign, so no word can change it"):
        mixed(write(tmp_path, random_rows(3), is_signed=False))


def test_phrases_can_be_mixed(tmp_path: Path) -> None:
    rows = [Row(n, ["not", "good"], [0.5, 1.0] if n % 2 else [-2.0, 1.0]) for n in range(20)]
    found = mixed(write(tmp_path, rows), ngrams=2).to_pylist()
    assert [(row["word"], row["mean_for"], row["mean_against"]) for row in found] == [("not good", 1.5, -1.0)]


def test_phrases_of_a_large_corpus_are_counted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write(tmp_path, random_rows(300, targets=("negative", "positive")), target="all")
    whole = mixed(out, ngrams=(1, 2), count=12)
    monkeypatch.setattr(grams, "AT_ONCE", 100)
    assert mixed(out, ngrams=(1, 2), count=12).equals(whole) and len(whole) == 24
