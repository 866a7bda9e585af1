"""Files of every kind, as they are found in the world: each row is read, or has a problem, and none is lost."""

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.corpus.sources import source_of
from whence.data.rows import Columns, Row, Spelling, format_of, read_rows
from whence.errors import DataError


def rows(content: bytes, name: str, columns: Columns = Columns(("text",))) -> list[Row]:  # noqa: B008 - it is frozen
    format = format_of(name)
    assert format is not None
    return list(read_rows(lambda: io.BytesIO(content), name, format, columns))


def texts(content: bytes, name: str, /, **columns: Any) -> list[Any]:
    found = rows(content, name, Columns(**columns)) if columns else rows(content, name)
    assert not any(row.problem for row in found)
    return [row.content for row in found]


def test_json_lines_with_one_field_need_no_name() -> None:
    found = rows(b'{"review": "good"}\n{"review": "bad"}\n{"other": "lost"}\n', "a.jsonl", Columns())
    assert [row.content for row in found] == ["good", "bad", None] and found[2].problem == "there is no field 'review'"
    assert [row.problem for row in rows(b'{"a": "good", "b": 1}\n', "a.jsonl", Columns())] == ["there is no field 'text'"]


def test_lines_are_texts() -> None:
    content = "\ufeffgood\r\nbad\n\nlast\u2028one".encode()
    assert texts(content, "a.txt") == ["good", "bad", "", "last\u2028one"]


def test_an_old_mac_text_has_lines_too() -> None:
    assert texts(b"good\rbad\r", "a.txt") == ["good", "bad"]


def test_csv_has_quotes_commas_and_line_breaks_in_fields() -> None:
    content = '\ufeffid,text\r\n1,"a, ""b""\r\nc"\r\n\r\n2,d\r\n'.encode()
    found = rows(content, "a.CSV", Columns(("text",), "id"))
    assert [(row.id, row.content) for row in found] == [("1", 'a, "b"\r\nc'), ("2", "d")]


def test_a_row_with_too_few_fields_has_no_text_and_one_with_too_many_a_problem() -> None:
    short, long, good = rows(b"id,text\n1\n2,a,b\n3,c\n", "a.csv", Columns(("text",), "id"))
    assert short.problem == "there is no field 'text'"
    assert long.id == "2" and "line 3 has 3 fields for 2 columns" in long.problem
    assert good == Row("c", "3")


def test_a_quote_that_is_never_closed_costs_one_row() -> None:
    good, bad, after = rows(b'text\ngood\n"open\nand on\n', "a.csv")
    assert (good.content, after.content) == ("good", "and on")
    assert bad.problem == "line 3: unexpected end of data; is a quote not closed?"


def test_an_open_quote_swallows_nothing_up_to_the_next_quote_either() -> None:
    found = rows(b'text,n\n"open,1\na,2\nb,3\n"c, d",4\ne,5\n', "a.csv", Columns(("text",), "n"))
    assert [(row.content, row.id) for row in found[1:]] == [("a", "2"), ("b", "3"), ("c, d", "4"), ("e", "5")]
    assert found[0].problem.startswith("line 2: ")


def test_a_row_of_many_fields_or_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.data.rows.LONGEST_LINE", 50)
    found = rows(b'text\n"' + b"a\n" * 100 + b'",x\nlast\n', "a.csv")
    assert found[-1].content == "last"
    assert "longer than 50 characters" in found[0].problem


def test_other_spellings_of_csv() -> None:
    content = "text;n\ncafé, good;1\n"
    for encoding in ("latin-1", "utf-16", "cp1252"):
        spelled = read_rows(
            lambda encoding=encoding: io.BytesIO(content.encode(encoding)), "a.csv", "csv", Columns(), Spelling(encoding, ";")
        )
        assert [row.content for row in spelled] == ["café, good"]
    with pytest.raises(DataError, match=r"is written in UTF-16; give --encoding utf-16"):
        rows(content.encode("utf-16"), "a.csv")
    with pytest.raises(DataError, match=r"is it parted by ';'\? Then give --delimiter ';'"):
        rows(content.encode(), "a.csv")


def test_a_line_that_is_too_long_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.data.rows.LONGEST_LINE", 50)
    long = b"x" * 333
    assert [bool(row.problem) for row in rows(b"a\n" + long + b"\nb\n", "a.txt")] == [False, True, False]
    assert [bool(row.problem) for row in rows(b"text\na\n" + long + b"\nb\n", "a.csv")] == [False, True, False]
    assert [bool(row.problem) for row in rows(b'"a"\n"' + long + b'"\n"b"\n', "a.jsonl")] == [False, True, False]


def test_bytes_that_are_no_utf8_stay_in_their_row() -> None:
    for name in ("a.txt", "a.csv", "a.tsv"):
        found = rows(b"text\ncaf\xe9\ngood\n", name)[-2:]
        assert found[1].content == "good"
        with pytest.raises(UnicodeEncodeError):
            found[0].content.encode()


def test_nul_is_a_character() -> None:
    assert texts(b"text\na\x00b\n", "a.csv") == ["a\x00b"]


def test_json_lines_are_objects_or_texts() -> None:
    content = b'{"text": "a", "id": 7}\n\n"b"\n{"text": ["c", "d"]}\n'
    assert [row.content for row in rows(content, "a.jsonl", Columns((), "id"))] == ["a", "b", ["c", "d"]]
    assert rows(content, "a.ndjson", Columns((), "id"))[0].id == "7"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "line 1 is not JSON, or lists in it are nested too deeply"),
        (b"[" * 10**5, "line 1 is not JSON, or lists in it are nested too deeply"),
        (b'{"text": ' + b"[" * 300 + b"]" * 300 + b"}", "line 1 is not JSON, or lists in it are nested too deeply"),
        (b'{"other": 1}', "there is no field 'text'"),
    ],
)
def test_a_bad_line_of_json_has_a_problem(line: bytes, problem: str) -> None:
    bad, good = rows(line + b'\n{"text": "good"}\n', "a.jsonl")
    assert bad.problem == problem
    assert good.content == "good"


def packed_zst(content: bytes) -> bytes:
    sink: Any = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", packed_zst)])
def test_packed_files(suffix: str, pack: Callable[[bytes], bytes]) -> None:
    content = "".join(f"text {n}\n" for n in range(10**5)).encode()
    assert len(texts(pack(content), f"a.txt{suffix}")) == 10**5
    cut = rows(pack(content)[:-1000], f"a.txt{suffix}")
    assert cut[0].content == "text 0"
    assert "cannot be read any further" in cut[-1].problem
    (bad,) = rows(b"not packed at all", f"a.txt{suffix}")
    assert "cannot be read" in bad.problem


def test_gzip_files_that_were_joined() -> None:
    assert texts(gzip.compress(b"a\n") + gzip.compress(b"b\n"), "a.txt.gz") == ["a", "b"]


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=100)
    return sink.getvalue()


def test_parquet_of_all_kinds_of_texts() -> None:
    words = pa.array(["a", None, "c"])
    for column in (words, words.cast(pa.large_string()), words.dictionary_encode()):
        assert texts(parquet(text=column), "a.parquet") == ["a", None, "c"]
    assert texts(parquet(text=pa.array([["a", "b"]])), "a.pq") == [["a", "b"]]


def test_parquet_whose_texts_are_no_utf8() -> None:
    raw: Any = pa.array([b"good", b"caf\xe9"])
    found = rows(parquet(text=raw.view(pa.string()), id=pa.array([1, 2])), "a.parquet", Columns(("text",), "id"))
    assert found[0] == Row("good", "1")
    assert found[1] == Row("caf\udce9", "2")


def test_parquet_values_that_python_cannot_hold_cost_one_row() -> None:
    raw: Any = pa.array([b"good", b"caf\xe9"])
    coded = raw.view(pa.string()).dictionary_encode()
    assert [row.content for row in rows(parquet(text=coded), "a.parquet")] == ["good", "caf\udce9"]
    late = pa.array([1, 2**62], pa.timestamp("us"))
    good, no_id = rows(parquet(text=pa.array(["a", "b"]), id=late), "a.parquet", Columns(("text",), "id"))
    assert (good.content, no_id) == ("a", Row("b"))
    _, bad = rows(parquet(text=late), "a.parquet")
    assert bad.problem.startswith("the value of 'text' cannot be read")
    words: Any = pa.ListArray.from_arrays([0, 1, 2], raw.view(pa.string()))
    good, bad = rows(parquet(text=words), "a.parquet")
    assert good.content == ["good"]
    assert bad.problem == "the value of 'text' cannot be read: it is not valid UTF-8"


def test_links_that_lead_back_and_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    source = source_of(str(tmp_path), Columns())
    assert [row.content for row in source.rows()] == ["1"]
    assert source.skipped == ["gone.txt", "loop"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 [1]*\n.txt")
    (tmp_path / name).write_text("1\n")
    for place in (tmp_path, tmp_path / name):
        source = source_of(str(place), Columns())
        assert [row.content for row in source.rows()] == ["1"]
        assert source.files[0].name == "caf\\udce9 [1]*\n.txt"


def test_the_rows_of_a_damaged_parquet_file_are_all_counted() -> None:
    content = bytearray(parquet(text=pa.array([f"text {n} {n * 7919 % 1000}" for n in range(1000)])))
    middle = len(content) // 2
    content[middle : middle + 300] = b"\x00" * 300
    found = rows(bytes(content), "a.parquet")
    assert len(found) == 1000
    assert any("cannot be read here" in row.problem for row in found)
    (bad,) = rows(bytes(content[:-20]), "a.parquet")
    assert "cannot be read" in bad.problem


def test_a_column_is_chosen() -> None:
    assert texts(b"review\ngood\n", "a.csv", content=()) == ["good"]
    assert texts(b"a,text\n1,good\n", "a.csv", content=()) == ["good"]
    for content, message in {
        b"a,b\n": "has no column 'text'; its columns are 'a', 'b'",
        b"text,text\n": "has 2 columns 'text'",
        b"text;id\n": "has no column 'text'; its columns are 'text;id'",
    }.items():
        with pytest.raises(DataError, match=message):
            rows(content, "a.csv")


def test_empty_files_have_no_rows() -> None:
    for name in ("a.txt", "a.csv", "a.tsv", "a.jsonl"):
        assert rows(b"", name) == []
    assert rows(b"text\n", "a.csv") == []
    assert rows(parquet(text=pa.array([], pa.string())), "a.parquet") == []


@given(st.binary(max_size=300), st.sampled_from(["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.txt.gz", "a.csv.zst"]))
def test_any_bytes_are_rows_or_refused(content: bytes, name: str) -> None:
    try:
        found = rows(content, name, Columns())
    except DataError:
        return
    assert all(isinstance(row, Row) for row in found)


@given(st.lists(st.tuples(st.text(), st.text())))
def test_every_row_that_python_writes_as_csv_is_read_again(written: list[tuple[str, str]]) -> None:
    written = [tuple(each.encode("utf-8", "replace").decode() for each in row) for row in written]  # pyright: ignore
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("id", "text"), *written])
    found = rows(file.getvalue().encode(), "a.csv", Columns(("text",), "id"))
    assert [(row.id, row.content) for row in found] == written


@given(st.lists(st.one_of(st.text(), st.none(), st.integers(), st.lists(st.text()), st.dictionaries(st.text(), st.text()))))
def test_every_row_that_python_writes_as_json_is_read_again(written: list[Any]) -> None:
    lines = "".join(json.dumps({"text": each}) + "\n" for each in written)
    assert [row.content for row in rows(lines.encode(), "a.jsonl")] == written


def test_a_folder_is_read_in_order_and_says_what_it_skips(tmp_path: Path) -> None:
    for name, content in {
        "b.txt": "2\n",
        "sub/a.csv": "text\n3\n",
        "a.txt": "1\n",
        "notes.md": "x",
        ".hidden.txt": "x",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    source = source_of(str(tmp_path), Columns())
    assert [row.content for row in source.rows()] == ["1", "2", "3"]
    assert source.skipped == [".hidden.txt", "notes.md"]
    assert source.read == source.size
    assert [row.content for row in source_of(f"{tmp_path}/*.txt", Columns()).rows()] == ["1", "2"]
    assert [row.content for row in source_of(f"{tmp_path}/**/*.csv", Columns()).rows()] == ["3"]


def test_mixed_tables_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\ngood\n")
    (tmp_path / "b.csv").write_text("review,stars\nbad,1\n")
    (tmp_path / "c.parquet").write_bytes(b"no Parquet")
    (tmp_path / "d.jsonl").write_text('{"text": "fine"}\n')
    good, no_column, broken, fine = source_of(str(tmp_path), Columns()).rows()
    assert (good.content, fine.content) == ("good", "fine")
    assert no_column.problem.startswith("b.csv has no column 'text'")
    assert broken.problem.startswith("c.parquet cannot be read")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("missing.csv", "does not exist"),
        ("*.csv", "has no file to read"),
        ("notes.doc", "suffix that says no format"),
        ("-", "cannot be Parquet"),
        ("nowhere://x", "cannot be opened"),
        ("", "does not exist"),
        ("a\0b", "cannot be read"),
        ("pipe.csv", "neither a file nor a folder"),
    ],
)
def test_an_input_that_is_none(place: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.doc").write_text("x")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=message):
        source_of(place, Columns(), format="parquet" if place == "-" else None)
