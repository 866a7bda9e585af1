"""Many texts: columns of tables, entries with an error, labels, and the tables that explanations become."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

import whence
from whence.errors import InputError
from whence.explanations import Explanations
from whence.models.labels import class_of_label, labels_read
from whence.models.pipeline import Pipeline
from whence.text.tokenizer import TreebankTokenizer
from whence.text.vocabulary import Vocabulary

TEXTS = ["a fine film", "not bad", "dull and slow"]
COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "pandas": lambda texts: pd.Series(texts, dtype=object),
    "polars": lambda texts: pl.Series("text", texts, dtype=pl.String),
    "arrow": lambda texts: pa.chunked_array([pa.array(texts[:1], pa.string()), pa.array(texts[1:], pa.string())]),
    "numpy": lambda texts: np.array(texts, dtype=object),
    "datasets": lambda texts: datasets.Dataset.from_dict({"text": texts})["text"],
}


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return whence.load("sst-bigru")


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_of_column_is_explained_in_place(kind: str, pipeline: Pipeline) -> None:
    found = whence.explain(pipeline, COLUMNS[kind]([TEXTS[0], None, "", *TEXTS[1:]]))
    assert [each.row for each in found] == [0, 1, 2, 3, 4]
    assert [each.error for each in found.failures()] == ["there is no text", "the text is empty"]
    alone = [whence.explain(pipeline, text) for text in TEXTS]
    for one, other in zip(alone, [found[0], found[3], found[4]], strict=True):
        assert one.tokens == other.tokens and one.relevance == pytest.approx(other.relevance, abs=1e-5)


def test_what_is_no_text_keeps_its_place(pipeline: Pipeline) -> None:
    odd = [None, math.nan, pd.NA, pd.NaT, 3, b"good", {}, [], ["not", "bad"], ("not", "bad"), "lone \ud800", "\n", "good"]
    found = whence.explain(pipeline, odd)
    assert [bool(each.error) for each in found] == [True] * 8 + [False] * 2 + [True] * 2 + [False]
    assert found[8].relevance == found[9].relevance
    assert all(math.isnan(each.score) and each.tokens == () for each in found.failures())
    assert found.failures()[-2].error == "the text is not valid UTF-8 (at character 5)"


@pytest.mark.parametrize(
    "given", [pd.DataFrame({"a": ["b"]}), {"a": ["b"]}, pl.DataFrame({"a": ["b"]}), np.array([["a"]]), {"a"}, 3, b"x"]
)
def test_a_whole_table_and_other_things_are_refused(given: Any, pipeline: Pipeline) -> None:
    with pytest.raises(whence.InputError, match=r"texts is a .*; give"):
        whence.explain(pipeline, given)


def test_pandas_rows_are_joined_back(pipeline: Pipeline) -> None:
    frame = pd.DataFrame({"text": [*TEXTS, None]}, index=["x", "y", "z", "w"])
    found = whence.explain(pipeline, frame["text"])
    assert list(found.to_pandas().index) == ["x", "y", "z", "w"]
    assert list(found[1:].by_word().to_pandas().index) == ["y", "z", "w"]
    assert list(found.where(lambda each: each.row == 2).to_pandas().index) == ["z"]
    every = whence.explain(pipeline, frame["text"], target="all").to_pandas()
    assert list(every.index) == ["x"] * 5 + ["y"] * 5 + ["z"] * 5 + ["w"]
    assert frame.join(found.to_pandas()[["score", "error"]]).loc["w", "error"].startswith("there is no text")


def test_an_index_of_several_levels_is_kept(pipeline: Pipeline) -> None:
    index = pd.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")], names=["x", "y"])
    frame = pd.DataFrame({"text": TEXTS}, index=index)
    found = whence.explain(pipeline, frame["text"])
    assert frame.join(found.to_pandas()[["predicted"]])["predicted"].tolist() == [each.predicted for each in found]
    more = copy.copy(found)
    more.extend(whence.explain(pipeline, ["x"] * 4))
    assert list(more.to_pandas().index) == list(range(7))  # of other rows it says nothing


def test_deleted_tokens_are_counted_over_all_texts(pipeline: Pipeline) -> None:
    found = whence.explain(pipeline, ["good film", None, "bad film"], deleted=[[0], [7], [1]])
    assert [each.deleted for each in found] == [(0,), (), (1,)] and found[1].error
    for deleted, says in (
        ([[0], [1]], "deleted has 2 lists for 3 texts"),
        ([[0], [], [9]], r"deleted\[2\] holds 9; text 3 has the tokens 0 to 1"),
        ([[0], [-1], []], r"deleted\[1\] holds -1; give the numbers of tokens, from 0 on"),
        ([[0], "x", []], r"deleted\[1\] is a str; give a list of token numbers"),
    ):
        with pytest.raises(InputError, match=says):
            whence.explain(pipeline, ["good film", None, "bad film"], deleted=cast(Any, deleted))


@pytest.mark.parametrize("text", ["", " \n", "lone \ud800", "bad \udcff film"])
def test_a_text_alone_and_in_a_list_have_one_rule(text: str, pipeline: Pipeline) -> None:
    with pytest.raises(InputError) as caught:
        whence.explain(pipeline, text)
    assert whence.explain(pipeline, [text, "good"])[0].error == str(caught.value)


def test_what_is_no_character_does_not_spoil_a_table(pipeline: Pipeline, tmp_path: Path) -> None:
    found = whence.explain(pipeline, ["good\ud800film", "ok"], labels=["\ud800", None])
    assert found.to_pandas()["label"][0] == "?" and found.to_arrow()["text"].to_pylist() == ["good?film", "ok"]
    found.save(tmp_path / "a.parquet")
    found.save(tmp_path / "a.jsonl")
    assert pl.read_ndjson(tmp_path / "a.jsonl")["text"].to_list() == ["good?film", "ok"]
    odd = pa.array([b"caf\xe9", b"good"]).view(pa.string())
    assert [each.error for each in whence.explain(pipeline, odd)] == ["b'caf\\xe9' is not a text but a bytes", ""]


def test_labels_are_names_or_numbers(pipeline: Pipeline) -> None:
    labels = ["positive", 1, np.int64(0)]
    found = whence.explain(pipeline, TEXTS, labels=labels)
    assert [each.label for each in found] == ["positive", pipeline.classes[1], pipeline.classes[0]]
    assert [each.is_right for each in found] == [each.label == each.predicted for each in found]
    assert whence.explain(pipeline, "good", labels="neutral").label == "neutral"
    unknown = whence.explain(pipeline, TEXTS, labels=[None, math.nan, "no class"])
    assert [each.label for each in unknown] == [None, None, "no class"]
    assert [each.is_right for each in unknown] == [None, None, None]
    written = whence.explain(pipeline, TEXTS, labels=["1", " Positive ", ""])
    assert [each.label for each in written] == [pipeline.classes[1], "positive", None]
    assert [each.label for each in whence.explain(pipeline, TEXTS, labels=[True, 2.0, "2.5"])] == ["negative", "neutral", "2.5"]
    assert whence.explain(pipeline, "good", labels=["neutral"]).label == "neutral"
    assert class_of_label(("positive",), 0) is None and class_of_label(("positive",), "Positive ") == 0  # for every command
    with pytest.raises(whence.InputError, match="texts and labels have different indexes"):
        whence.explain(pipeline, pd.Series(TEXTS), labels=pd.Series(labels, index=[2, 1, 0]))
    with pytest.raises(whence.InputError, match="there are 2 labels for 3 texts"):
        whence.explain(pipeline, TEXTS, labels=["a", "b"])


def test_how_labels_were_read_is_said_where_it_may_surprise(pipeline: Pipeline) -> None:
    found = whence.explain(pipeline, TEXTS, labels=[1, 0, None])
    assert found.note == "labels are numbers: 0 is 'very negative', 1 is 'negative'"
    for each in (found, found[:2], found.by_word(), found.where(lambda each: True)):
        assert found.note in repr(each) and "labels are numbers: 0 is" in str(each._repr_html_())
    none = whence.explain(pipeline, TEXTS, labels=["good", "bad", math.nan])
    assert none.note.startswith("no label is a class of the model: labels are '")
    assert none.note.endswith("; classes are very negative, negative, neutral, positive, very positive")
    for labels in (None, ["positive", 0, None], ["Neutral", "bad", None], [None] * 3, ["", " ", None]):
        assert whence.explain(pipeline, TEXTS, labels=labels).note == ""
    assert labels_read(tuple("abcdefg"), range(9)) == "labels are numbers: 0 is 'a', 1 is 'b', 2 is 'c', 3 is 'd', 4 is 'e', …"
    assert labels_read(("0", "1"), ["0", 1]) == ""  # these are names
    assert labels_read(("up",), ["0", "1"]).startswith("no label is a class of the model: labels are '0', '1'; classes are up")


class Broken(nn.Module):
    """Fails on a text that holds the word with id 2."""

    def __init__(self, word: int) -> None:
        super().__init__()
        self.word = word
        self.embedding, self.head = nn.Embedding(4, 3), nn.Linear(3, 2)

    def forward(self, ids: Tensor) -> Tensor:
        if bool((ids == self.word).any()):
            raise RuntimeError("cannot read this")
        return self.head(self.embedding(ids).sum(1))


def test_a_text_on_which_the_model_fails_costs_only_itself() -> None:
    torch.manual_seed(0)
    words = Vocabulary(["good", "bad", "ugly"])
    texts = ["good good", "bad good", "good good", "good bad", "ugly ugly"]
    own = Pipeline(Broken(2).eval(), TreebankTokenizer(), words, ("no", "yes"))
    found = whence.explain(own, texts)
    assert [each.error for each in found] == [
        "",
        *["the model failed: RuntimeError: cannot read this"] * 1,
        "",
        found[3].error,
        "",
    ]
    assert found[3].error.startswith("the model failed")
    with pytest.raises(RuntimeError, match="cannot read this"):  # no text can be explained: the model is at fault
        whence.explain(own, ["bad good", "good bad"])


def test_tables_hold_everything(pipeline: Pipeline, tmp_path: Path) -> None:
    found = whence.explain(pipeline, [*TEXTS, None], labels=["positive", None, "negative", None])
    table = found.to_arrow()
    assert table.num_rows == 4
    row = cast(dict[str, Any], table.slice(0, 1).to_pylist()[0])
    first = found[0]
    assert row["tokens"] == list(first.tokens) and row["relevance"] == list(first.relevance)
    assert row["spans"] == [list(span) for span in first.spans] and row["unknown"] == list(first.unknown)
    assert dict(row["scores"]) == first.scores and row["error"] is None
    assert sum(row["relevance"]) + sum(dict(row["absorbed"]).values()) == pytest.approx(row["score"], abs=1e-4)
    for suffix in ("parquet", "csv", "jsonl", "html", "tex", "txt"):
        found.save(tmp_path / f"a.{suffix}")
    assert pq.read_table(tmp_path / "a.parquet").equals(table)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == [0, 1, 2, 3]
    assert lines[3] == {"row": 3, "text": "", "error": "there is no text"}
    assert r"{\small row\ 3:\ there\ is\ no\ text}" in (tmp_path / "a.tex").read_text()
    read = pd.read_csv(tmp_path / "a.csv")
    assert json.loads(read.loc[0, "relevance"]) == list(first.relevance) and list(read["row"]) == [0, 1, 2, 3]
    whence.explain(pipeline, "good").save(tmp_path / "one.svg")
    assert "<svg" in (tmp_path / "one.svg").read_text()
    with pytest.raises(whence.InputError, match=r"ends in '.docx'; a format is known by its suffix: .html"):
        found.save(tmp_path / "a.docx")
    with pytest.raises(whence.WhenceError, match="cannot be written"):
        found.save(tmp_path / "no" / "a.csv")


def test_odd_strings_are_written(pipeline: Pipeline, tmp_path: Path) -> None:
    evil = ["</style><script>alert(1)</script>", 'a "quoted",\nline\x00\x1b[31m', "=1+1", "שלום \u202e 🙂"]
    found = whence.explain(pipeline, evil, labels=["<b>"] * 4)
    for suffix in ("parquet", "csv", "jsonl", "html", "tex", "txt"):
        found.save(tmp_path / f"a.{suffix}")
    assert pq.read_table(tmp_path / "a.parquet")["text"].to_pylist() == evil
    for page in ((tmp_path / "a.html").read_text(), found._repr_html_() or ""):
        assert "<script" not in page and "&lt;b&gt;" in page and "\x1b" not in page


def test_the_list_sorts_and_filters_without_scripts(pipeline: Pipeline) -> None:
    found = whence.explain(pipeline, [*TEXTS, ""], labels=["positive", "neutral", "negative", None])
    page = found._repr_html_() or ""
    order = sorted(range(3), key=lambda n: -found[n].score)
    for rank, n in enumerate(order):
        assert f'style="--o0:{n};--o1:{rank};--o2:{2 - rank}"' in page
    assert "--o0:3;--o1:3;--o2:3" in page  # an error comes last
    assert page.count('type="radio"') == 3 + 1 + 3 + len({each.predicted for each in found if not each.error})
    assert "4 texts" in page and "1 could not be explained" in page
    other = found._repr_html_() or ""
    assert "name=" in page and set(_names(page)).isdisjoint(_names(other))


def _names(page: str) -> list[str]:
    return [piece.split('"')[0] for piece in page.split('name="')[1:]]


def test_top_words_add_up(pipeline: Pipeline) -> None:
    found = whence.explain(pipeline, ["Good film , good end", "bad film"])
    sums = {word: (total, times) for word, total, times in found.top_words(20)}
    assert set(sums) == {"good", "film", "end", "bad"}
    assert sums["good"] == (pytest.approx(found[0].relevance[0] + found[0].relevance[3]), 2)
    assert Explanations().top_words() == []
