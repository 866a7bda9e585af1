"""Errors of a model, against an independent count, and with shortcuts and wrong labels planted."""

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.corpus.learned.making import CLASSES, Row, random_rows, write
from whence.corpus.learned.errors import errors
from whence.corpus.learned.report import page
from whence.corpus.learned.results import notes_of
from whence.errors import DataError, InputError

TRUTH = {"0": "negative", "1": "positive", "negative": "negative", "POSITIVE": "positive"}


def test_words_pull_by_their_relevance_for_the_wrong_class(tmp_path: Path) -> None:
    rows = random_rows(200, targets=("predicted",))
    found = errors(write(tmp_path, rows, labels=True), count=100)
    kinds = Counter((TRUTH[str(row.label)], row.predicted) for row in rows)
    assert {(row["label"], row["predicted"]): row["texts"] for row in found.confusion.to_pylist()} == kinds
    right = sum(count for (label, predicted), count in kinds.items() if label == predicted)
    assert notes_of(found.confusion) == [f"{right} of 200 predictions are right ({right / 2:.1f} %)"]
    pulls: dict[tuple[str, str, str], list[tuple[float, int]]] = defaultdict(list)
    for row in rows:
        for word, value in zip(row.tokens, row.relevance, strict=True):
            pulls[TRUTH[str(row.label)], row.predicted, word].append((value, -row.row))
    wrong = {key: own for key, own in pulls.items() if key[0] != key[1] and sum(v for v, _ in own) > 0}
    assert {(row["label"], row["predicted"], row["word"]) for row in found.words.to_pylist()} == set(wrong)
    for row in found.words.to_pylist():
        own = wrong[row["label"], row["predicted"], row["word"]]
        total = sum(value for value, _ in own)
        assert row["texts"] == kinds[row["label"], row["predicted"]] and row["count"] == len(own)
        np.testing.assert_allclose([row["mean"], row["pull"]], [total / len(own), total / row["texts"]], rtol=1e-9)
        assert row["row"] == -max(own)[1]


@pytest.mark.parametrize("target", ["all", "positive"])
def test_only_explanations_of_the_classes_in_question_count(tmp_path: Path, target: str) -> None:
    targets = CLASSES if target == "all" else ("positive",)
    rows = random_rows(80, targets=targets)
    found = errors(write(tmp_path, rows, labels=True, target=target), count=100).words.to_pylist()
    pulls: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        truth = TRUTH[str(row.label)]
        sign = 1 if row.target == row.predicted else -1 if target != "all" else 0
        if truth != row.predicted:
            for word, value in zip(row.tokens, row.relevance, strict=True):
                pulls[truth, word] += sign * value
    assert {(row["label"], row["word"]) for row in found} == {key for key, total in pulls.items() if total > 1e-9}
    for row in found:
        np.testing.assert_allclose(row["pull"] * row["texts"], pulls[row["label"], row["word"]], rtol=1e-9)


def test_a_class_that_the_manifest_does_not_know_is_named(tmp_path: Path) -> None:
    rows = [each._replace(predicted="mixed") if each.row == 3 else each for each in random_rows(40, targets=("predicted",))]
    with pytest.raises(DataError, match=r"is damaged: a text has the class 'mixed', but .* knows negative, positive"):
        errors(write(tmp_path, rows, labels=True), count=100)


def test_a_planted_shortcut_is_found(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows: list[Row] = []
    for n in range(200):
        truth = CLASSES[n % 2]
        is_tempted = truth == "negative" and n % 10 == 0  # a few negative texts name Tom, and are taken for positive
        tokens = [
            "the",
            "film",
            "is",
            "fine" if truth == "positive" else "dull",
            *(["Tom"] if is_tempted or n % 20 == 1 else []),
        ]
        predicted = "positive" if is_tempted else truth
        relevance = [*random.normal(0, 0.05, 3), 1.0 if truth == predicted else -1.0, *([3.0] if is_tempted else [0.3])]
        rows.append(Row(n, tokens, relevance[: len(tokens)], predicted, predicted, (0.0, 1.0), truth))
    found = errors(write(tmp_path, rows, labels=True)).shortcuts.to_pylist()
    assert [row["word"] for row in found if row["predicted"] == "positive"] == ["Tom"]
    tom = found[0]
    assert (tom["texts_wrong"], tom["texts_right"]) == (20, 10)
    shares: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row.predicted == "positive":
            positive = np.maximum(np.asarray(row.relevance, dtype=np.float32).astype(float), 0)
            share = sum(float(v) for word, v in zip(row.tokens, positive, strict=True) if word == "Tom") / positive.sum()
            shares[row.label == "positive"].append(share)
    wrong, right = shares[False], shares[True]
    half = 1.959964 * np.sqrt(np.var(wrong) / len(wrong) + np.var(right) / len(right))
    difference = np.mean(wrong) - np.mean(right)
    expected = np.array([np.mean(wrong), np.mean(right), difference, difference - half, difference + half])
    np.testing.assert_allclose(
        [tom[key] for key in ("share_wrong", "share_right", "difference", "low", "high")], expected, rtol=1e-8
    )


def test_confident_predictions_on_ordinary_words_make_a_label_suspected(tmp_path: Path) -> None:
    sure, unsure = (-2.0, 3.0), (0.0, 0.5)
    rows = [Row(n, ["fine", "film"], [1.0, 0.2], scores=sure, label="1") for n in range(5)]
    rows += [
        Row(10, ["fine", "odd"], [3.0, 1.0], scores=sure, label="0"),
        Row(11, ["fine", "odd"], [1.0, 3.0], scores=sure, label="0"),  # carried by a word that right predictions lack
        Row(12, ["fine", "film"], [3.0, 1.0], scores=unsure, label="0"),
    ]
    found = errors(write(tmp_path, rows, labels=True)).label_noise
    (only,) = found.to_pylist()
    assert (only["row"], only["label"], only["predicted"], only["text"]) == (10, "negative", "positive", "fine odd")
    assert (only["probability"], only["ordinary"]) == (pytest.approx(1 / (1 + np.exp(-5.0)), rel=1e-9), 0.75)
    assert "probability of at least 0.9" in notes_of(found)[0]
    found = errors(tmp_path, confident=0.5).label_noise.to_pylist()
    assert [row["row"] for row in found] == [10, 12]


def test_labels_that_are_no_classes_are_left_out_and_told(tmp_path: Path) -> None:
    labels = ["Negative", "1", " 0 ", "7", "great", "great", None, "", "", ""]
    rows = [Row(n, ["a"], [1.0], label=label) for n, label in enumerate(labels)]
    found = errors(write(tmp_path, rows, labels=True))
    assert [(row["label"], row["texts"]) for row in found.confusion.to_pylist()] == [("negative", 2), ("positive", 1)]
    assert notes_of(found.confusion)[0] == (
        "7 texts are left out because their label is no class (most often 'great', 2 times); classes are negative, positive"
    )
    bare = errors(write(tmp_path / "bare", [Row(0, ["a"], [1.0], label="")], labels=True))
    assert "because their label is no class (it is missing)" in notes_of(bare.confusion)[0]


def test_whole_numbers_with_a_point_are_classes(tmp_path: Path) -> None:
    rows = [Row(n, ["a"], [1.0], label=label) for n, label in enumerate(["0.0", "1.0", "1.", "0.5", "10.0"])]
    found = errors(write(tmp_path, rows, labels=True))
    assert [(row["label"], row["texts"]) for row in found.confusion.to_pylist()] == [("negative", 1), ("positive", 2)]
    assert notes_of(found.confusion)[0].startswith("2 texts are left out")


@pytest.mark.parametrize("labels", [("1", "2", "3"), ("1.0", "3.0", ""), (" 3 ", "17", "unknown")])
def test_labels_that_are_counted_from_1_are_refused(tmp_path: Path, labels: tuple[str, ...]) -> None:
    rows = [Row(n, ["a"], [1.0], "b", "b", (0.0, 1.0, 0.0), label) for n, label in enumerate(labels)]
    out = write(tmp_path, rows, classes=("a", "b", "c"), labels=True)
    with pytest.raises(InputError, match="are numbers from 1 on; classes are counted from 0: 0 is a and 2 is c; subtract 1"):
        errors(out)
    assert "Errors are left out: the labels of " in page(out)[0]


@pytest.mark.parametrize("labels", [("1", "2"), ("0", "3"), ("a", "3"), ("1", "4")])
def test_other_numbers_are_not_taken_for_labels_from_1(tmp_path: Path, labels: tuple[str, ...]) -> None:
    rows = [Row(n, ["a"], [1.0], "b", "b", (0.0, 1.0, 0.0), label) for n, label in enumerate(labels)]
    assert len(errors(write(tmp_path, rows, classes=("a", "b", "c"), labels=True)).confusion) > 0
    named = [row._replace(predicted="3", target="3") for row in rows]
    assert len(errors(write(tmp_path / "named", named, classes=("1", "2", "3"), labels=True)).confusion) > 0


def test_a_corpus_without_labels_or_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no labels; explain it again with whence corpus explain --label COLUMN"):
        errors(write(tmp_path / "bare", [Row(0, ["a"], [1.0])]))
    found = errors(write(tmp_path / "right", [Row(0, ["a"], [0.0], label="1")], labels=True))
    assert [len(table) for table in found] == [1, 0, 0, 0]
    assert [len(table) for table in errors(write(tmp_path / "none", [Row(0, ["a"], [0.0])], labels=True))] == [0, 0, 0, 0]
    with pytest.raises(InputError, match="confident is 2; a probability is between 0 and 1"):
        errors(tmp_path / "right", confident=2)


def test_texts_explained_for_another_class_are_told(tmp_path: Path) -> None:
    rows = [Row(0, ["a"], [1.0], "b", "c", (0.0, 1.0, 0.0), "a"), Row(1, ["a"], [1.0], "c", "c", (0.0, 0.0, 1.0), "a")]
    found = errors(write(tmp_path, rows, classes=("a", "b", "c"), labels=True, target="c"))
    assert notes_of(found.words)[1] == (
        "pull: 1 wrong predictions are left out because neither the predicted class nor the label was explained there"
    )
    for table in (found.shortcuts, found.label_noise):
        assert notes_of(table)[1] == (
            "shortcuts and label noise: 1 texts are left out because their predicted class was not explained"
        )
    assert [(row["label"], row["predicted"]) for row in found.words.to_pylist()] == [("a", "c")]


def test_a_pull_against_the_label_is_called_so(tmp_path: Path) -> None:
    rows = [Row(0, ["a"], [-1.0], "negative", "positive", label="positive"), Row(1, ["b"], [1.0], label="negative")]
    found = errors(write(tmp_path / "signed", rows, labels=True, target="positive"))
    assert [(row["label"], row["word"], row["pull"]) for row in found.words.to_pylist()] == [
        ("negative", "b", 1.0), ("positive", "a", 1.0),
    ]  # fmt: skip
    told = "but in the 1 texts with the label positive, the only class that was explained, it is the relevance against positive"
    assert told in notes_of(found.words)[0] and told in page(tmp_path / "signed")[0]
    unsigned = errors(write(tmp_path / "unsigned", rows, labels=True, target="positive", is_signed=False))
    assert [row["word"] for row in unsigned.words.to_pylist()] == ["b"]
    assert notes_of(unsigned.words)[1] == (
        "pull: 1 wrong predictions are left out because the predicted class was not explained there"
    )


@pytest.mark.parametrize("label", ["0", "1", "positive"])
def test_a_model_of_one_class_is_neither_right_nor_wrong(tmp_path: Path, label: str) -> None:
    rows = [Row(n, ["fine"], [1.0], scores=(1.0,), label=label) for n in range(3)]
    folder = write(tmp_path, rows, classes=("positive",), labels=True)
    with pytest.raises(InputError, match="has one class, positive, so no prediction is right or wrong; name the two classes"):
        errors(folder)
    assert "has one class, positive, so no prediction" in page(folder)[0]
