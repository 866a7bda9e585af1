"""A corpus is explained once and completely, whatever happens in between."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from filelock import FileLock

import whence
from tests.corpus.outputs import accounted, everything, explained, manifest, parts, rejected
from tests.trust.subjects import Bag, bag
from whence.corpus import job as job_room
from whence.corpus import texts as texts_room
from whence.corpus._explain import explain
from whence.errors import DataError, InputError, ModelError, WhenceError
from whence.models.pipeline import Pipeline

WORDS = "the a film is good bad not really great dull story , . with and very wonderful — “ isn't 3.5 naïve".split()


def write_corpus(path: Path, count: int, *, seed: int = 0) -> Path:
    """Texts of 1 to 30 words, and a few rows that cannot be explained."""
    random = np.random.default_rng(seed)
    with path.open("w") as file:
        for n in range(count):
            text = "" if n % 17 == 16 else " ".join(random.choice(WORDS, size=random.integers(1, 30)))
            file.write(json.dumps({"id": f"i{n}", "text": text, "stars": n % 5}) + "\n")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "in.jsonl", 100)


def run(pipeline: Pipeline, corpus: Path, out: Path, **options: Any) -> dict[str, Any]:
    return explain(pipeline, corpus, out, **{"id": "id", "workers": 1, "part_rows": 30, **options})


def test_every_row_is_explained_or_rejected(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    found = run(pipeline, corpus, tmp_path / "out", label="stars")
    accounted(tmp_path / "out", 100)
    assert found == manifest(tmp_path / "out")
    assert [part["first"] for part in found["parts"]] == [0, 30, 60, 90]
    assert rejected(tmp_path / "out") == dict.fromkeys(range(16, 100, 17), "the text is empty")
    assert found["reasons"] == {"the text is empty": 5}
    rows = explained(tmp_path / "out")
    assert [row["row"] for row in rows] == [n for n in range(100) if n % 17 != 16]
    assert all(row["id"] == f"i{row['row']}" and row["label"] == str(row["row"] % 5) for row in rows)


@pytest.mark.parametrize(
    ("target", "method"),
    [
        *((target, "lrp") for target in ("predicted", "negative", "all", whence.contrast("positive", "rest"))),
        ("all", "sa"),
        ("negative", "ig"),
    ],
)
def test_the_numbers_are_those_of_explain(pipeline: Pipeline, corpus: Path, tmp_path: Path, target: Any, method: str) -> None:
    run(pipeline, corpus, tmp_path / "out", target=target, method=method, part_rows=1000)
    rows = explained(tmp_path / "out")
    given = [json.loads(line)["text"] for line in corpus.read_text().splitlines()]
    wanted = whence.explain(pipeline, [text for text in given if text], target=target, method=method)
    assert len(rows) == len(wanted)
    for row, each in zip(rows, wanted, strict=True):
        assert (row["text"], tuple(row["tokens"])) == (each.text, each.tokens)
        assert (row["predicted"], row["target"]) == (each.predicted, each.target)
        assert row["relevance"] == pytest.approx(each.relevance, abs=0)  # to the last bit
        assert row["score"] == each.score
        assert dict(row["absorbed"]) == each.absorbed
        assert row["scores"] == pytest.approx(list(each.scores.values()), rel=1e-6)


@pytest.mark.parametrize("by", ["most", "mean"])
def test_a_word_that_makes_the_model_sure_ranks_first_against_the_rest(tmp_path: Path, by: Any) -> None:
    pipeline, random = bag(), np.random.default_rng(0)
    module = cast(Bag, pipeline.module)
    with torch.no_grad():
        planted = module.head.weight[0] - module.head.weight[1:].mean(0)
        module.embedding.weight[pipeline.vocabulary.ids(["k"])[0]] = 12 * planted / planted.norm()
    rows = [[*random.choice([*"abcdefghij"], size=6), *(["k"] if n % 4 == 0 else [])] for n in range(80)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": " ".join(row)}) + "\n" for row in rows))
    explain(pipeline, tmp_path / "in.jsonl", tmp_path / "out", target=whence.contrast("x", "rest"), workers=1)
    found = whence.corpus.words(tmp_path / "out", target="x", by=by).to_pylist()
    assert found[0]["word"] == "k" and found[0]["mean"] > 2 * found[1]["most"]


def test_relevance_and_what_was_absorbed_add_up(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    run(pipeline, corpus, tmp_path / "out")
    for row in explained(tmp_path / "out"):
        assert sum(row["relevance"]) + sum(dict(row["absorbed"]).values()) == pytest.approx(row["score"], abs=1e-4)


def test_texts_that_are_split_already_keep_their_words(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": ["is", "n\'t", "good-ish"]}\n')
    run(pipeline, tmp_path / "in.jsonl", tmp_path / "out", id=None)
    assert explained(tmp_path / "out")[0]["tokens"] == ["is", "n't", "good-ish"]


def test_a_document_is_explained_sentence_by_sentence(pipeline: Pipeline, tmp_path: Path) -> None:
    texts = ["A good film. The story is dull, though! I left.", "", "One sentence", "Fine. " + "x" * 70_000 + ". Bad."]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run(pipeline, tmp_path / "in.jsonl", tmp_path / "out", id=None, split="sentences", longest=1000)
    rows = explained(tmp_path / "out")
    assert [(row["row"], row["sentence"], row["text"]) for row in rows] == [
        (0, 0, "A good film."),
        (0, 1, "The story is dull, though!"),
        (0, 2, "I left."),
        (2, 0, "One sentence"),
    ]
    assert rows[1]["relevance"] == pytest.approx(whence.explain(pipeline, rows[1]["text"]).relevance, abs=1e-6)
    assert set(rejected(tmp_path / "out")) == {1, 3}
    assert manifest(tmp_path / "out")["explained"] == 2


def test_rows_that_are_no_text_are_rejected(pipeline: Pipeline, tmp_path: Path) -> None:
    lines = [5, None, True, {"a": 1}, [], [1], " \t ", "\ud800 bad", "good", "x" * 9000, "x " * 200]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines) + "nonsense\n")
    run(pipeline, tmp_path / "in.jsonl", tmp_path / "out", id=None, longest=100)
    accounted(tmp_path / "out", 12)
    reasons = rejected(tmp_path / "out")
    assert set(reasons) == set(range(12)) - {8}
    assert "5 is not a text but a int" in reasons[0]
    assert reasons[1] == "there is no text"
    assert "not valid UTF-8" in reasons[7]
    assert reasons[9] == "the text is too long: 9,000 characters; at most 6,400"
    assert reasons[10] == "the text is too long: 200 tokens; at most 100"


class Picky(torch.nn.Module):
    """A model that gives no number for one of its words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 3)
        self.lstm = torch.nn.LSTM(3, 4, batch_first=True)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.embedding(ids))
        scores = self.head(hidden[:, -1])
        return torch.where((ids == 3).any(1, keepdim=True), torch.nan, scores)


def test_a_text_that_the_model_fails_on_costs_no_other(tmp_path: Path) -> None:
    from whence.text.tokenizer import TreebankTokenizer
    from whence.text.vocabulary import Vocabulary

    torch.manual_seed(0)
    picky = Pipeline(Picky().eval(), TreebankTokenizer(), Vocabulary(["good", "bad", "poison"]), ("no", "yes"))
    texts = ["good bad", "bad poison", "bad bad", "good good", "poison good"]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts))
    run(picky, tmp_path / "in.txt", tmp_path / "out", id=None)
    accounted(tmp_path / "out", 5)
    assert set(rejected(tmp_path / "out")) == {1, 4}
    assert "not finite" in rejected(tmp_path / "out")[1]


def test_a_text_that_needs_too_much_memory_costs_no_other(
    pipeline: Pipeline, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = texts_room.answered

    def small(pipeline: Pipeline, forward: Any, *rest: Any) -> Any:
        if forward.inputs.tensors[0].shape[1] > 28:
            raise torch.OutOfMemoryError
        return answered(pipeline, forward, *rest)

    monkeypatch.setattr(texts_room, "answered", small)
    run(pipeline, corpus, tmp_path / "out", part_rows=1000)
    accounted(tmp_path / "out", 100)
    assert "the text needs more memory than there is" in rejected(tmp_path / "out").values()
    assert all(len(row["tokens"]) <= 28 for row in explained(tmp_path / "out"))


def test_a_job_that_is_done_is_left_alone(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    run(pipeline, corpus, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    run(pipeline, corpus, tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("harm", ["gone", "truncated", "empty", "no manifest entry", "another's", "leftover"])
def test_what_is_missing_or_damaged_is_done_again(pipeline: Pipeline, corpus: Path, tmp_path: Path, harm: str) -> None:
    out = tmp_path / "out"
    run(pipeline, corpus, out)
    before, content = everything(out), parts(out)[1].read_bytes()
    known = manifest(out)
    if harm == "gone":
        parts(out)[1].unlink()
    elif harm == "truncated":
        parts(out)[1].write_bytes(content[:-100])
    elif harm == "empty":
        parts(out)[1].write_bytes(b"")
    elif harm == "another's":
        shutil.copy(parts(out)[0], parts(out)[1])
    elif harm == "leftover":
        (out / ".part-000001.parquet.12345678.tmp").write_bytes(content[:100])
    if harm != "leftover":
        known["parts"].pop(1) if harm == "no manifest entry" else None
        (out / "manifest.json").write_text(json.dumps({**known, "complete": harm != "no manifest entry"}))
    run(pipeline, corpus, out)
    assert everything(out) == before
    assert not list(out.glob(".*.tmp"))


def test_a_flipped_bit_is_noticed(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(pipeline, corpus, out)
    before = everything(out)
    for place in (100, len(before[0][1]) // 2):
        content = bytearray(before[0][1])
        content[place] ^= 1
        parts(out)[1].write_bytes(content)
        run(pipeline, corpus, out)
        assert everything(out) == before


def test_what_others_left_or_took_is_mended(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(pipeline, corpus, out)
    before = everything(out)
    (out / "rejects.parquet").unlink()
    run(pipeline, corpus, out)
    assert everything(out) == before
    shutil.copy(parts(out)[1], out / "part-000099.parquet")
    parts(out)[0].unlink()
    run(pipeline, corpus, out)
    assert everything(out) == before

    def take(rows: int, *_: object) -> None:
        if rows == 90:
            parts(out)[0].unlink()

    with pytest.raises(WhenceError, match=r"part-000000\.parquet in .* was removed or changed while the job ran"):
        run(pipeline, corpus, out, restart=True, progress=take)
    assert not manifest(out)["complete"]


def test_a_text_that_the_model_raises_on_costs_no_other(
    pipeline: Pipeline, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = texts_room.answered

    def shy(pipeline: Pipeline, forward: Any, *rest: Any) -> Any:
        if (forward.inputs.tensors[0] == pipeline.vocabulary.ids(["wonderful"])[0]).any():
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return answered(pipeline, forward, *rest)

    monkeypatch.setattr(texts_room, "answered", shy)
    run(pipeline, corpus, tmp_path / "out")
    accounted(tmp_path / "out", 100)
    assert "the text needs more memory than there is" in rejected(tmp_path / "out").values()
    assert not any("wonderful" in row["tokens"] for row in explained(tmp_path / "out"))


def test_a_job_without_its_last_moments_goes_on(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    run(pipeline, corpus, tmp_path / "whole")
    out = tmp_path / "out"
    shutil.copytree(tmp_path / "whole", out)
    (out / "rejects.parquet").unlink()
    (out / "manifest.json").write_text(json.dumps({**manifest(out), "complete": False, "parts": []}))
    run(pipeline, corpus, out)
    assert everything(out) == everything(tmp_path / "whole")


def _changed_model(pipeline: Pipeline) -> Pipeline:
    import copy

    module = copy.deepcopy(pipeline.module)
    with torch.no_grad():
        next(iter(module.parameters()))[5, 5] += 1e-3
    return dataclasses.replace(pipeline, module=module)


def test_a_changed_job_is_refused_until_it_is_restarted(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(pipeline, corpus, out)
    before = everything(out)
    original = corpus.read_text()
    other = write_corpus(tmp_path / "other.jsonl", 100, seed=1)

    def refused(message: str, model: Pipeline, given: Path, **options: Any) -> None:
        with pytest.raises(InputError, match=message) as error:
            run(model, given, out, **options)
        assert "--restart" in str(error.value)
        assert everything(out) == before

    refused(r"the model \(hash: ", _changed_model(pipeline), corpus)
    refused(r"the method \(name: 'lrp', now 'gi'\)|the method \(epsilon", pipeline, corpus, method="gi")
    refused(r"the target \('predicted', now 'negative'\)", pipeline, corpus, target="negative")
    refused("what the target is compared with", pipeline, corpus, target=whence.contrast("positive", "rest"))
    refused(r"the columns \(id: 'id', now None\)", pipeline, corpus, id=None)
    refused("the settings", pipeline, corpus, part_rows=31)
    refused("the input", pipeline, other)
    corpus.write_text(original.replace("film", "filn", 1))  # as long as before
    refused("the input .*sha256", pipeline, corpus)
    run(pipeline, corpus, out, restart=True)
    accounted(out, 100)


def test_a_job_that_never_got_anywhere_may_change(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\ngood,bad\n")
    with pytest.raises(DataError, match=r"in.csv has no column 'text'"):
        run(pipeline, tmp_path / "in.csv", tmp_path / "out", id=None)
    run(pipeline, tmp_path / "in.csv", tmp_path / "out", id=None, text="a")
    accounted(tmp_path / "out", 1)


def test_standard_input_is_checked_row_by_row(pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Input:
        def __init__(self, content: bytes) -> None:
            self.buffer = io.BytesIO(content)

    content = "".join(f"text number {n}\n" for n in range(100)).encode()

    def given(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", Input(content))
        explain(pipeline, "-", tmp_path / "out", workers=1, part_rows=30)

    given(content)
    before = everything(tmp_path / "out")
    parts(tmp_path / "out")[2].unlink()
    given(content)
    assert everything(tmp_path / "out") == before
    parts(tmp_path / "out")[2].unlink()
    with pytest.raises(InputError, match="row 0 of the input or one after it has changed"):
        given(content.replace(b"number 5\n", b"number 6\n"))
    with pytest.raises(InputError, match="has changed"):
        given(content[:-50])
    given(content)
    with pytest.raises(InputError, match="the input ended before part"):
        given(b"")
    assert everything(tmp_path / "out") == before  # a complete job stays complete


def test_the_clock_does_not_matter(pipeline: Pipeline, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(pipeline, corpus, tmp_path / "whole")
    out = tmp_path / "out"
    run(pipeline, corpus, out)
    parts(out)[1].unlink()
    for path in [corpus, *out.iterdir()]:
        os.utime(path, (2**32, 2**32))  # as if all had been written in the year 2106
    monkeypatch.setattr(time, "time", lambda: 0.0)
    run(pipeline, corpus, out)
    assert everything(out) == everything(tmp_path / "whole")


def test_two_jobs_do_not_write_to_one_folder(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(InputError, match="another job is writing to"):
        run(pipeline, corpus, tmp_path / "out")
    run(pipeline, corpus, tmp_path / "out")  # the lock is free again, though its file is there


def test_a_folder_of_something_else_is_not_written_to(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("all my work")
    with pytest.raises(InputError, match=r"holds thesis.txt but no manifest.json"):
        run(pipeline, corpus, tmp_path / "out")
    run(pipeline, corpus, tmp_path / "out", restart=True)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "all my work"
    with pytest.raises(InputError, match="which is read; give a folder outside the input"):
        run(pipeline, corpus, tmp_path)
    with pytest.raises(InputError, match="which is read; give a folder outside the input"):
        run(pipeline, tmp_path, tmp_path / "new" / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written to"):
        run(pipeline, corpus, tmp_path / "file")


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "[" * 10**5, '{"format": 2}', '{"format": 1}', '{"format": 1, "complete": true, "parts": [1]}'],
)
def test_a_manifest_that_is_none(pipeline: Pipeline, corpus: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(content)
    with pytest.raises(DataError, match="--restart"):
        run(pipeline, corpus, tmp_path / "out")


def test_a_call_that_cannot_work_is_refused_before_any_work(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for options, error, message in [
        ({"target": "grand"}, whence.TargetError, "no class"),
        ({"method": "magic"}, InputError, "magic"),
        ({"workers": 0}, InputError, "workers is 0"),
        ({"part_rows": 0}, InputError, "part_rows is 0"),
        ({"part_rows": 1.5}, InputError, r"part_rows is 1\.5"),
        ({"workers": "x"}, InputError, "workers is 'x'"),
        ({"longest": None}, InputError, "longest is None"),
        ({"input_format": "zz"}, InputError, "input_format is 'zz'"),
        ({"text": 5}, InputError, "text is 5"),
        ({"delimiter": ";;"}, InputError, "delimiter is ';;'"),
        ({"encoding": "klingon"}, InputError, "encoding 'klingon' is not known"),
        ({"split": "words"}, InputError, "split is 'words'"),
        ({"engine": "cloud"}, InputError, "no engine 'cloud'"),
        ({"address": "auto"}, InputError, "of a Ray cluster"),
        ({"device": "cuda:99"}, InputError, "device 'cuda:99' cannot be used"),
        ({"device": "banana"}, InputError, "device 'banana' cannot be used"),
    ]:
        with pytest.raises(error, match=message):
            run(pipeline, corpus, out, **options)
    with pytest.raises(ModelError):
        explain("no-such-model", corpus, out)
    for place in ("", "a\0b", None, ["a good film"]):
        with pytest.raises(InputError, match="give the name of a file or folder"):
            explain(pipeline, place, out)  # pyright: ignore[reportArgumentType]
        with pytest.raises(InputError, match="out is"):
            explain(pipeline, corpus, place)  # pyright: ignore[reportArgumentType]
    assert not out.exists()


def test_a_corpus_without_rows_is_done_at_once(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\n")
    found = run(pipeline, tmp_path / "in.csv", tmp_path / "out", id=None)
    assert found["complete"] and found["rows"] == 0
    assert rejected(tmp_path / "out") == {}


def test_ten_thousand_tiny_files(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(10_000):
        (tmp_path / "in" / f"{n:05}.txt").write_text("good\n" if n % 100 == 0 else "")
    run(pipeline, tmp_path / "in", tmp_path / "out", id=None)
    accounted(tmp_path / "out", 100)
    assert len(manifest(tmp_path / "out")["input"]["files"]) == 10_000


def test_an_input_that_changes_while_it_is_read_ends_the_job(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    def append(rows: int, *_: object) -> None:
        if rows == 30:
            with corpus.open("a") as file:
                file.write('{"id": "late", "text": "too late"}\n')

    with pytest.raises(WhenceError, match=r"in.jsonl changed while it was read"):
        run(pipeline, corpus, tmp_path / "out", progress=append)
    assert not manifest(tmp_path / "out")["complete"]


def test_progress_tells_rows_and_bytes(pipeline: Pipeline, corpus: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int | None]] = []
    run(pipeline, corpus, tmp_path / "out", progress=lambda *each: seen.append(each))
    assert seen == sorted(seen)
    assert seen[-1] == (100, corpus.stat().st_size, corpus.stat().st_size)


def test_a_full_disk_keeps_what_was_done(
    pipeline: Pipeline, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pipeline, corpus, tmp_path / "whole")
    out, count = tmp_path / "out", [0]
    fsync = os.fsync

    def full(number: int) -> None:
        count[0] += 1
        if count[0] > 6:
            raise OSError(28, "No space left on device")
        fsync(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WhenceError, match="No space left on device; what was done is kept"):
            run(pipeline, corpus, out)
    assert not list(out.glob(".*.tmp"))
    assert 0 < len(parts(out)) < 4
    run(pipeline, corpus, out)
    assert everything(out) == everything(tmp_path / "whole")


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounting a small disk needs root on Linux")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "in.jsonl", 3000)
    (tmp_path / "disk").mkdir()
    command = [sys.executable, "-m", "whence", "corpus", "explain", str(corpus), str(tmp_path / "disk/out")]
    command += ["--part-rows", "300", "--workers", "1"]
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(tmp_path / "disk")], capture_output=True
    ).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        full = subprocess.run(command, capture_output=True, text=True)
        assert full.returncode == 1
        assert "No space left on device; what was done is kept" in full.stderr
        assert len(full.stderr.splitlines()) == 1
        kept = parts(tmp_path / "disk/out")
        assert kept
        subprocess.run(["mount", "-o", "remount,size=20m", str(tmp_path / "disk")], check=True)
        before = kept[0].stat().st_mtime_ns
        assert subprocess.run(command, capture_output=True).returncode == 0
        accounted(tmp_path / "disk/out", 3000)
        assert kept[0].stat().st_mtime_ns == before
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        read_only = subprocess.run([*command, "--restart"], capture_output=True, text=True)
        assert read_only.returncode == 2
        assert "cannot be written to: Read-only file system" in read_only.stderr
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "disk")], check=True)


def test_the_manifest_is_written_now_and_then(
    pipeline: Pipeline, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_room, "SECONDS", -1.0)
    seen: list[int] = []

    def watch(*_: object) -> None:
        found = manifest(tmp_path / "out")
        assert not found["complete"]
        seen.append(len(found["parts"]))

    run(pipeline, corpus, tmp_path / "out", progress=watch)
    assert seen[-1] == 4


@pytest.mark.skipif(sys.platform != "linux", reason="counts a process's threads in /proc")
def test_parts_are_read_without_threads(tmp_path: Path) -> None:
    """Threads of Arrow's that still run when Python ends abort the process."""
    program = """
import os, sys
import pyarrow, pyarrow.parquet
from whence.corpus.layout import read_table
pyarrow.parquet.write_table(pyarrow.table({"row": [1, 2]}), sys.argv[1])
before = len(os.listdir("/proc/self/task"))
read_table(sys.argv[1])
print(len(os.listdir("/proc/self/task")) - before)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "part.parquet")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"
