"""A corpus of series: Parquet with columns of lists, through any model of series."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]
import pytest
import torch

import whence
from tests.corpus.outputs import accounted, explained, manifest, rejected
from whence.corpus._explain import explain
from whence.errors import InputError, TargetError


def write(path: Path, **columns: list[Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_one_column_for_every_feature(tmp_path: Path) -> None:
    model = whence.load("river-lstm")
    whole = np.array(model.example_table().values)
    series = [whole[:40], whole[10:45], whole[:1], whole[20:60]]
    columns = {name: [each[:, k].tolist() for each in series] for k, name in enumerate(model.features)}
    first = model.features[0]
    columns[first][3] = columns[first][3][:-1]
    for k, name in enumerate(model.features):
        columns[name] += [None, [float("nan")] * 3 if k == 0 else [1.0] * 3]
    corpus = write(tmp_path / "in.parquet", station=[f"s{n}" for n in range(6)], **columns)
    found = explain("river-lstm", corpus, tmp_path / "out", id="station", target="3 days", workers=1, part_rows=2)
    accounted(tmp_path / "out", 6)
    assert found["target"] == "3 days" and found["model"]["features"] == list(model.features)
    for row, own in zip(explained(tmp_path / "out"), series[:3], strict=True):
        wanted = whence.explain_series(model, own, output="3 days")
        assert row["relevance"] == [list(each) for each in wanted.relevance]
        assert row["score"] == wanted.score and dict(row["absorbed"]) == wanted.absorbed
        assert row["values"] == own.tolist()
        assert row["scores"] == list(wanted.outputs.values())
    reasons = rejected(tmp_path / "out")
    assert "39 to 40 steps" in reasons[3]
    assert "there is no series" in reasons[4]
    assert "all values must be finite numbers" in reasons[5]


class Forecast(torch.nn.Module):
    """A model that nobody named anything of."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(2, 3, batch_first=True)
        self.head = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def test_one_column_of_rows_through_any_module(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Forecast().eval()
    series = [[[1.0, 2.0], [3.0, 4.0]], [[0.5, 0.5]]]
    corpus = write(tmp_path / "in.parquet", values=series)
    explain(module, corpus, tmp_path / "out", values=["values"], workers=1)
    rows = explained(tmp_path / "out")
    assert [row["relevance"] for row in rows] == [
        [list(each) for each in whence.explain_series(module, own).relevance] for own in series
    ]
    assert manifest(tmp_path / "out")["complete"]


def test_a_call_that_cannot_work(tmp_path: Path) -> None:
    corpus = write(tmp_path / "in.parquet", values=[[[1.0, 2.0]]])
    with pytest.raises(InputError, match="does not name its features"):
        explain(Forecast(), corpus, tmp_path / "out")
    with pytest.raises(TargetError, match="there is no output '9 days'; river-lstm gives"):
        explain("river-lstm", corpus, tmp_path / "out", target="9 days")
    with pytest.raises(InputError, match="reads texts"):
        explain("sst-bilstm", corpus, tmp_path / "out", values=["values"])
