"""Texts in which a word matters, and their heatmaps."""

from pathlib import Path

import pytest

from tests.corpus.learned.making import Row, random_rows, write
from whence.corpus.learned.examples import examples, examples_of, heatmaps_of
from whence.corpus.learned.heatmaps import Shown, page, plain
from whence.corpus.learned.opening import opened
from whence.corpus.learned.results import notes_of
from whence.errors import InputError

ROWS = [
    Row(0, ["good", "x", "good"], [1.0, 9.0, -2.0]),
    Row(1, ["good"], [3.0]),
    Row(2, ["not", "good"], [1.0, -4.0]),
    Row(3, ["Good"], [7.0]),
    Row(4, ["good", "good"], [0.0, 0.5]),
    Row(5, ["good"], [3.0]),
]


def test_texts_are_ordered_by_what_the_word_gives_there(tmp_path: Path) -> None:
    found = examples(write(tmp_path, ROWS), "good").to_pylist()
    assert [(row["side"], row["row"], row["position"], row["relevance"]) for row in found] == [
        ("for", 1, 0, 3.0),
        ("for", 5, 0, 3.0),
        ("for", 0, 0, 1.0),
        ("against", 2, 1, -4.0),
        ("against", 0, 2, -2.0),
        ("both", 0, 0, 1.0),
    ]
    assert found[3]["tokens"] == ["not", "good"] and found[3]["relevances"] == [1.0, -4.0]
    folded = examples(tmp_path, "GOOD", ignore_case=True, count=1).to_pylist()
    assert [(row["side"], row["row"]) for row in folded] == [("for", 3), ("against", 2), ("both", 0)]
    phrase = examples(tmp_path, "not good").to_pylist()
    assert [(row["side"], row["row"], row["relevance"]) for row in phrase] == [("against", 2, -3.0)]


def test_every_side_is_the_best_of_all_texts(tmp_path: Path) -> None:
    rows = random_rows(200, targets=("negative", "positive"))
    found = examples(write(tmp_path, rows, target="all"), "dull", target="negative", count=5).to_pylist()
    own = {
        row.row: [r for word, r in zip(row.tokens, row.relevance, strict=True) if word == "dull"]
        for row in rows
        if row.target == "negative"
    }
    best = sorted((-max(values), row) for row, values in own.items() if values)[:5]
    assert [(-row["relevance"], row["row"]) for row in found if row["side"] == "for"] == best
    both = sorted((-min(max(v), -min(v)), row) for row, v in own.items() if v and max(v) > 0 > min(v))[:5]
    assert [(-abs(row["relevance"]), row["row"]) for row in found if row["side"] == "both"] == both
    assert {row["target"] for row in found} == {"negative"}


def test_a_word_that_does_not_occur_is_told(tmp_path: Path) -> None:
    out = write(tmp_path, ROWS)
    told = "'Film' does not occur; words are compared as they are written, unless --ignore-case is given"
    assert notes_of(examples(out, "Film")) == [told]
    assert notes_of(examples(out, "Film", ignore_case=True)) == ["'Film' does not occur"]
    for wrong in ("", "a b c d e"):
        with pytest.raises(InputError, match="is no word; give one, or a phrase of up to 4"):
            examples(out, wrong)


def test_heatmaps_are_safe_on_a_terminal_and_in_a_page(tmp_path: Path) -> None:
    evil = ["<script>alert(1)</script>", "\x1b[31m", "\u202e", "bad\0"]
    out = write(tmp_path, [Row(0, evil, [1.0, -2.0, 0.5, 2.0], text="say " + " ".join(evil))])
    with opened(out) as corpus:
        found = examples_of(corpus, evil[0])
        (text,) = heatmaps_of(corpus, found)
    assert [text.text[start:end] for start, end in text.spans] == evil and text.score == 1.5
    shown = [Shown(f"about {evil[0]} \x1b", "row 0", text)]
    drawn, made = plain(shown), page(shown, title=f"{evil[0]}\x1b")
    assert "\x1b" not in drawn and "\0" not in drawn and "[--␛[31m]" in drawn
    assert (
        "<script" not in made
        and "&lt;script&gt;" in made
        and "\x1b" not in made
        and "http" not in made.replace("http-equiv", "")
    )


def test_tokens_that_are_not_in_the_text_still_have_a_place(tmp_path: Path) -> None:
    out = write(tmp_path, [Row(0, ["a", "GONE", "b"], [1.0, 2.0, 3.0], text="a b")])
    with opened(out) as corpus:
        (text, *_) = heatmaps_of(corpus, examples_of(corpus, "GONE"))
    assert text.spans == ((0, 1), (1, 1), (2, 3))
    assert "".join(piece for piece, _ in text.pieces()) == "aGONE b"
