"""SQL over a corpus: what it may ask, and what it must not be able to do."""

from pathlib import Path

import pytest

from tests.corpus.learned.making import Row, random_rows, write
from whence.corpus.learned.query import query, streamed
from whence.errors import InputError


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write(tmp_path / "out", [Row(0, ["a", 'b"\0c'], [1.0, -1.0]), Row(1, ["<script>"], [0.5])])


def test_an_answer_is_an_arrow_table(corpus: Path) -> None:
    found = query(corpus, "WITH t AS (SELECT token FROM tokens WHERE relevance < 0) SELECT * FROM t;  -- that is all;")
    assert found.to_pydict() == {"token": ['b"\0c']}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_parquet('{elsewhere}')",
        "SELECT * FROM '{elsewhere}'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_csv('https://example.org/x.csv')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = '{new}')",
        "COPY texts TO '{new}'",
        "COPY (SELECT 1) TO '{part}' (USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{part}' (USE_TMP_FILE false)",
        "EXPORT DATABASE '{new}'",
        "ATTACH '{new}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA enable_external_access",
        "CREATE TABLE x AS SELECT 1",
        "DROP VIEW texts",
        "CALL pragma_version()",
        "SELECT 1; DROP VIEW texts",
        "SELECT * FROM query('DROP VIEW texts')",
        "",
        "SELEC 1",
        "SELECT nothing FROM texts",
    ],
)
def test_nothing_else_can_be_read_and_nothing_written(corpus: Path, tmp_path: Path, sql: str) -> None:
    other = write(tmp_path / "other", [Row(0, ["secret"], [1.0])])
    part, new = corpus / "part-000000.parquet", tmp_path / "new"
    before = part.read_bytes()
    names = {"part": part, "new": new, "elsewhere": other / "part-000000.parquet"}
    with pytest.raises(InputError, match=r"^(the database refuses: .|one SELECT is needed)") as caught:
        query(corpus, sql.format(**names))
    assert "\n" not in str(caught.value)
    assert part.read_bytes() == before and not new.exists()


def test_an_answer_can_be_read_a_batch_at_a_time(tmp_path: Path) -> None:
    write(tmp_path, random_rows(3000, longest=20))
    with streamed(tmp_path, "SELECT row, position FROM tokens") as answer:
        sizes = [len(batch) for batch in answer.batches]
    assert answer.schema.names == ["row", "position"]
    assert len(sizes) > 1 and sum(sizes) == query(tmp_path, "SELECT count(*) AS n FROM tokens").to_pylist()[0]["n"]
