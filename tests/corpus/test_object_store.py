"""A corpus read from and written to an object store: the files of a disk, and no password in what is said or written."""

import gzip
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from tests.corpus.test_ray import folder_content, write_corpus
from whence.corpus._explain import explain
from whence.corpus.places import reason, shown
from whence.corpus.sources import source_of
from whence.corpus.storage import storage_of
from whence.data.arrow import arrow
from whence.data.rows import Columns
from whence.errors import DataError, InputError, WhenceError

PASSWORD = "hush%2Fhush"
SETTINGS: Any = {"text": "text", "id": "id", "label": "label", "part_rows": 40, "longest": 50}


@dataclass(frozen=True)
class Store:
    """An object store on this machine."""

    port: int

    def at(self, path: str) -> str:
        """The address of a bucket or of a path in it."""
        return f"s3://somebody:{PASSWORD}@{path}?endpoint_override=http://127.0.0.1:{self.port}&region=us-east-1"

    @property
    def files(self) -> Any:
        return fs.FileSystem.from_uri(self.at("corpora") + "&allow_bucket_creation=true")[0]

    def put(self, file: Path, path: str) -> str:
        """A file of the disk put there; returns its address."""
        with self.files.open_output_stream(path, compression=None) as stream:
            stream.write(file.read_bytes())
        return self.at(path)

    def content(self, path: str) -> dict[str, bytes]:
        """The bytes of all files of a folder."""
        found = self.files.get_file_info(fs.FileSelector(path))
        return {each.base_name: self.files.open_input_file(each.path).read() for each in found if each.is_file}

    def settle(self, what: str, content: bytes = b"") -> None:
        """Tell the server something about itself."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/moto-api/{what}", content, {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request).close()


@pytest.fixture(scope="module")
def server() -> Generator[Store]:
    running = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    yield Store(running.get_host_and_port()[1])
    running.stop()


@pytest.fixture
def store(server: Store) -> Store:
    """An object store with one empty bucket."""
    server.settle("reset")
    server.files.create_dir("corpora")
    return server


@pytest.mark.parametrize("workers", [1, 2])
def test_the_files_are_those_of_a_folder_on_the_disk(tmp_path: Path, store: Store, workers: int) -> None:
    local = write_corpus(tmp_path / "in.csv", 150)
    explain("sst-bilstm", local, tmp_path / "out", workers=1, **SETTINGS)
    found = explain("sst-bilstm", store.put(local, "corpora/in.csv"), store.at("corpora/out"), workers=workers, **SETTINGS)
    assert found["complete"] and found["rows"] == 150
    assert store.content("corpora/out") == folder_content(tmp_path / "out")
    assert not [name for name, content in store.content("corpora/out").items() if b"hush" in content or b"somebody" in content]


def test_parquet_in_a_folder_is_read_and_other_files_are_listed(tmp_path: Path, store: Store) -> None:
    local = write_corpus(tmp_path / "in.csv", 30)
    explain("sst-bilstm", local, tmp_path / "out", workers=1, **SETTINGS)
    store.put(tmp_path / "out" / "part-000000.parquet", "corpora/in/a.parquet")
    store.put(local, "corpora/in/notes.md")
    found = explain("sst-bilstm", store.at("corpora/in"), store.at("corpora/again"), workers=1, id="id")
    assert found["input"]["skipped"] == ["notes.md"] and found["rows"] == found["explained"] == 28


@pytest.mark.parametrize("name", ["in.csv.gz", "in.csv.zst"])
def test_packed_files_are_unpacked(tmp_path: Path, store: Store, name: str) -> None:
    content = write_corpus(tmp_path / "in.csv", 30).read_bytes()
    packed = gzip.compress(content) if name.endswith(".gz") else arrow().compress(content, "zstd", asbytes=True)
    (tmp_path / name).write_bytes(packed)
    rows = source_of(store.put(tmp_path / name, f"corpora/{name}"), Columns(("text",))).rows()
    assert list(rows) == list(source_of(str(tmp_path / "in.csv"), Columns(("text",))).rows())


def test_a_killed_job_goes_on_and_a_changed_one_is_refused(tmp_path: Path, store: Store) -> None:
    local = write_corpus(tmp_path / "in.csv", 1200)
    source, out = store.put(local, "corpora/in.csv"), store.at("corpora/out")
    code = "from whence.cli.main import main; main()"
    options = ["--text", "text", "--part-rows", "40", "--workers", "1"]
    driver = subprocess.Popen([sys.executable, "-c", code, "corpus", "explain", source, out, *options], env=os.environ)
    while "part-000001.parquet" not in storage_of(out).sizes() and driver.poll() is None:
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    begun = store.content("corpora/out")
    assert 2 <= len(begun) - 1 < 30
    found = explain("sst-bilstm", source, out, workers=1, text="text", part_rows=40)
    expected = explain("sst-bilstm", local, tmp_path / "out", workers=1, text="text", part_rows=40)
    assert found == expected and store.content("corpora/out") == folder_content(tmp_path / "out")
    with pytest.raises(InputError, match=r"^s3://…@corpora/out\S* was begun with something else, .*: the method \(name: 'lrp'"):
        explain("sst-bilstm", source, out, workers=1, text="text", part_rows=40, method="gi")
    assert explain("sst-bilstm", source, out, workers=1, text="text", part_rows=40) == expected


def test_a_missing_bucket_and_file_are_told_without_the_password(tmp_path: Path, store: Store) -> None:
    local = write_corpus(tmp_path / "in.csv", 3)
    with pytest.raises(InputError, match=r"^s3://…@nowhere/out\S* is in a bucket that does not exist; make it, or give"):
        explain("sst-bilstm", local, store.at("nowhere/out"), text="text", workers=1)
    with pytest.raises(DataError, match=r"^'s3://…@corpora/in.csv\S*' does not exist; give a file"):
        explain("sst-bilstm", store.at("corpora/in.csv"), tmp_path / "out", workers=1)
    with pytest.raises(DataError, match=r"^'s3://…@[^@]*' cannot be opened: .*") as caught:
        explain("sst-bilstm", "s3://somebody:hush/hush@corpora/in.csv", tmp_path / "out", workers=1)
    assert "hush" not in str(caught.value)


def test_wrong_credentials_are_told_without_them(tmp_path: Path, store: Store) -> None:
    local = write_corpus(tmp_path / "in.csv", 3)
    source = store.put(local, "corpora/in.csv")
    store.settle("reset-auth", b"0")  # from now on nobody is let in
    try:
        with pytest.raises(DataError, match=r"^'s3://…@corpora/in.csv\S*' cannot be read: AWS Error \S+ during"):
            explain("sst-bilstm", source, tmp_path / "out", workers=1)
        with pytest.raises(
            WhenceError, match=r"^s3://…@corpora/out\S* cannot be used: AWS Error \S+ during .*; what was done is"
        ):
            explain("sst-bilstm", local, store.at("corpora/out"), text="text", workers=1)
    finally:
        store.settle("reset-auth", b"inf")


def test_a_store_that_goes_away_stops_the_job_instead_of_ending_the_input(tmp_path: Path) -> None:
    running = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    store = Store(running.get_host_and_port()[1])
    store.files.create_dir("corpora")
    (tmp_path / "in.txt").write_text("a fine film\n" * 10**6)
    rows = source_of(store.put(tmp_path / "in.txt", "corpora/in.txt"), Columns()).rows()
    assert next(rows).content == "a fine film"
    running.stop()
    with pytest.raises(
        WhenceError, match=r"^in.txt cannot be read any further: .*AWS Error NETWORK_CONNECTION .*; what was done"
    ):
        sum(row.content == "a fine film" for row in rows)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("s3://key:se/cr@et@bucket/a@b?x=y@z", "s3://…@b?x=y@z"),
        ("s3://key@bucket/a", "s3://…@bucket/a"),
        ("data/a@b.csv", "data/a@b.csv"),
    ],
)
def test_what_is_shown_of_a_place(place: str, expected: str) -> None:
    assert shown(place) == expected
    assert reason(OSError(f"Cannot parse URI: '{place}'\nmore")) == f"Cannot parse URI: '{expected}'"
    assert not re.search("key", repr(storage_of(place)))
