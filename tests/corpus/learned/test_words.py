"""The most and the least relevant words, against an independent count, the ranking of the paper, and Table 1 itself."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import whence
from tests.corpus.learned.making import Row, random_rows, rows_of, write
from whence.corpus.learned import grams
from whence.corpus.learned.results import notes_of
from whence.corpus.learned.words import words
from whence.data.sst import read_split
from whence.errors import InputError, TargetError
from whence.evaluation.ranking import Occurrence
from whence.experiments.table1_words import table1


def counted(rows: list[Row], size: int = 1) -> dict[str, list[tuple[float, int, int]]]:
    """Every occurrence of every phrase of a size: its relevance and place."""
    found: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for row in rows:
        relevance = np.asarray(row.relevance, dtype=np.float32).astype(float)
        for n in range(len(row.tokens) - size + 1):
            found[" ".join(row.tokens[n : n + size])].append((float(relevance[n : n + size].sum()), row.row, n))
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_numbers_are_those_of_every_occurrence(tmp_path: Path, size: int) -> None:
    rows = random_rows(200)
    found = words(write(tmp_path, rows), ngrams=size, least_count=2, count=10**6).to_pylist()
    expected = {word: own for word, own in counted(rows, size).items() if len(own) >= 2}
    for end in ("most", "least"):
        assert {row["word"] for row in found if row["end"] == end} == set(expected)
    for row in found:
        values = [value for value, _, _ in expected[row["word"]]]
        assert row["count"] == len(values)
        numbers = [row["mean"], row["spread"], row["most"], row["least"]]
        np.testing.assert_allclose(
            numbers, np.array([np.mean(values), np.std(values), max(values), min(values)]), rtol=1e-11, atol=1e-12
        )
        place = (row[row["end"]], row["row"], row["position"])
        assert place in [(value, *rest) for value, *rest in expected[row["word"]]]


def test_a_word_ranks_by_its_most_extreme_occurrence_and_ties_go_as_in_the_paper(tmp_path: Path) -> None:
    rows = random_rows(120, seed=3)  # relevance is in eighths, so that most words tie
    found = words(write(tmp_path, rows, parts=5), count=7).to_pylist()
    texts = [
        Occurrence(word, r, row.row, n)
        for row in rows
        for n, (word, r) in enumerate(zip(row.tokens, row.relevance, strict=True))
    ]
    ranked = sorted(texts, key=lambda each: -each.relevance)
    for end, order in (("most", ranked), ("least", ranked[::-1])):
        firsts: dict[str, Occurrence] = {}
        for each in order:
            firsts.setdefault(each.word, each)
        own = [Occurrence(row["word"], row[end], row["row"], row["position"]) for row in found if row["end"] == end]
        assert own == list(firsts.values())[:7]
        assert [row["rank"] for row in found if row["end"] == end] == list(range(1, 8))


def test_minus_zero_ties_with_zero(tmp_path: Path) -> None:
    rows = [Row(0, ["a"], [-0.0]), Row(1, ["b"], [0.0]), Row(2, ["a"], [0.0])]
    found = words(write(tmp_path, rows)).to_pylist()
    assert [(row["word"], row["row"]) for row in found] == [("a", 0), ("b", 1), ("a", 2), ("b", 1)]


def test_words_are_ranked_by_their_mean_if_asked(tmp_path: Path) -> None:
    rows = random_rows(300, seed=1)
    found = words(write(tmp_path, rows), by="mean", count=4).to_pylist()
    means = {word: np.mean([value for value, _, _ in own]) for word, own in counted(rows).items()}
    order = sorted(means, key=lambda word: -means[word])
    assert [row["word"] for row in found] == [*order[:4], *order[::-1][:4]]


def test_every_class_has_words_of_its_own(tmp_path: Path) -> None:
    rows = random_rows(60, targets=("negative", "positive"))
    out = write(tmp_path, rows, target="all")
    found = words(out, count=3).to_pylist()
    assert [row["target"] for row in found] == ["negative"] * 6 + ["positive"] * 6
    for name in ("negative", "positive"):
        own = words(write(tmp_path / name, [row for row in rows if row.target == name]), count=3).to_pylist()
        assert [row for row in found if row["target"] == name] == own
        for given in (name.upper(), str(["negative", "positive"].index(name))):
            assert words(out, target=given, count=3).to_pylist() == own


def test_a_class_that_is_not_there_is_refused(tmp_path: Path) -> None:
    out = write(tmp_path, random_rows(3))
    with pytest.raises(TargetError, match="there is no class 'great'; the model has negative, positive"):
        words(out, target="great")
    with pytest.raises(TargetError, match="no text of this corpus was explained for 'negative'; there are positive"):
        words(out, target="negative")


def test_wrong_sizes_and_orders_are_refused(tmp_path: Path) -> None:
    out = write(tmp_path, random_rows(3))
    for sizes in (0, 5, (3, 2)):
        with pytest.raises(InputError, match=r"1 to 4 are possible"):
            words(out, ngrams=sizes)
    with pytest.raises(InputError, match="by is 'least'"):
        words(out, by="least")  # pyright: ignore[reportArgumentType]


def test_phrases_of_several_sizes_stand_in_one_ranking(tmp_path: Path) -> None:
    out = write(tmp_path, [Row(0, ["not", "good"], [-1.0, 3.0]), Row(1, ["good"], [1.0])])
    found = words(out, ngrams=(1, 2), least_count=1).to_pylist()[:3]
    assert [(row["word"], row["most"], row["example"]) for row in found] == [
        ("good", 3.0, "not good"),
        ("not good", 2.0, "not good"),
        ("not", -1.0, "not good"),
    ]
    assert words(out, ngrams=4).num_rows == 0
    assert notes_of(words(out, ngrams=4)) == ["no word occurs 5 times or more; ask for fewer occurrences with --least-count"]


def test_phrases_are_counted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write(tmp_path, random_rows(100))
    whole = words(out, ngrams=(1, 3), count=500)
    monkeypatch.setattr(grams, "AT_ONCE", 100)
    assert words(out, ngrams=(1, 3), count=500).equals(whole) and len(whole) > 200


def test_case_matters_unless_told_otherwise(tmp_path: Path) -> None:
    out = write(tmp_path, [Row(0, ["Good", "good", "ÄRGER", "ärger"], [1.0, 3.0, 0.0, 0.0])])
    assert [row["count"] for row in words(out).to_pylist()] == [1] * 8
    found = words(out, ignore_case=True).to_pylist()
    assert [(row["word"], row["count"], row["mean"]) for row in found[:2]] == [("good", 2, 2.0), ("ärger", 2, 0.0)]


def test_unsigned_relevance_and_odd_tokens_are_ordinary(tmp_path: Path) -> None:
    tokens = ["<script>alert(1)</script>", "a\0b", "quo\"te's", "שלום", "\u202eevil", " ", "\n", "a,b"]
    rows = [Row(0, tokens, [0.5] * 8, text="".join(tokens)), Row(1, ["x"], [0.0])]
    found = words(write(tmp_path, rows, is_signed=False), count=20).to_pylist()
    assert [row["word"] for row in found if row["end"] == "most"] == [*tokens, "x"]
    assert [row["word"] for row in found if row["end"] == "least"] == ["x", *tokens[::-1]]


def test_an_example_shows_the_text_around_the_word(tmp_path: Path) -> None:
    text = "one two three four five six seven eight GREAT nine ten eleven twelve thirteen fourteen"
    row = Row(0, text.split(), [1.0 if word == "GREAT" else 0.0 for word in text.split()])
    found = words(write(tmp_path, [row])).to_pylist()[0]
    assert found["example"] == "…four five six seven eight GREAT nine ten eleven twelve…"


def test_very_positive_words_of_sst_are_table_1(sst: Path, tmp_path: Path) -> None:
    pipeline = whence.load("sst-bilstm")
    texts = [tree.tokens for tree in read_split(sst, "test")]
    explanations = whence.explain(pipeline, texts, target="very positive")
    out = write(tmp_path, rows_of(explanations), classes=pipeline.classes, target="very positive", parts=7)
    found = words(out, target="very positive").to_pylist()
    expected = table1(explanations)
    for end, own in (("most", expected.most), ("least", expected.least)):
        assert [tuple(row[key] for key in ("word", end, "row", "position")) for row in found if row["end"] == end] == own
