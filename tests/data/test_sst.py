"""SST's trees: how they are read, and the errors for broken files."""

import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.cache import cache_home
from whence.data import download
from whence.data.sst import SPLITS, find_sst, parse_tree, read_split, read_trees
from whence.data.vectors import read_vectors
from whence.errors import DataError
from whence.recurrent.native.cache import kernel_folder


def test_a_tree_is_a_sentence_and_its_phrases() -> None:
    tree = parse_tree("(3 (2 It) (4 (2 (2 's) (3 and\\/or)) (1 -LRB-)))")
    assert tree.tokens == ("it", "'s", "and\\/or", "-lrb-")
    assert tree.label == 3
    assert list(tree.phrases()) == [
        (("it", "'s", "and\\/or", "-lrb-"), 3),
        (("it",), 2),
        (("'s", "and\\/or", "-lrb-"), 4),
        (("'s", "and\\/or"), 2),
        (("'s",), 2),
        (("and\\/or",), 3),
        (("-lrb-",), 1),
    ]
    assert parse_tree("(2 8\u00a01\\/2)").tokens == ("8\u00a01\\/2",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 It) (4 works)", "the tree ends before its last"),
        ("(3 (2 It) (4 works)))", r"column 21: '\)' comes after the end"),
        ("(7 It)", "column 2: '7' is not a label"),
        ("(It)", "column 2: 'It' is not a label"),
        ("(3)", r"column 3: '\)' closes an empty phrase"),
        ("(3 two words)", "column 8: the word 'words' is not the only word of its phrase"),
        ("(3 It (2 works))", "column 7: a phrase contains both a word and another phrase"),
        ("(3 (2 It) works)", "the word 'works' is not the only word of its phrase"),
        ("word", "column 1: the word 'word' is not the only word of its phrase"),
        ("", "the line has no tree"),
        ("(", "the tree ends before its last"),
        (")", r"column 1: '\)' closes an empty phrase"),
    ],
)
def test_a_broken_tree_says_where(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_tree(line)


@pytest.mark.parametrize("line", ["({} a)", "(2 a {})", "(2 a) {}"])
def test_a_message_quotes_little_of_a_line(line: str) -> None:
    with pytest.raises(DataError, match=r"column \d+: (the word )?'xxx.*x…'") as caught:
        parse_tree(line.format("x" * 10**6))
    assert len(str(caught.value)) < 200


def test_a_message_quotes_little_of_a_file_of_vectors(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(f"good 1 {'x' * 10**6}\n", encoding="utf-8")
    with pytest.raises(DataError, match="does not contain word vectors: could not convert string to float: 'xxx") as caught:
        read_vectors(tmp_path / "vectors.txt")
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


@settings(max_examples=1000)
@given(line=st.one_of(st.text(), st.text(alphabet="()01234 ab\u00a0")))
def test_any_line_is_a_tree_or_an_error(line: str) -> None:
    try:
        tree = parse_tree(line)
    except DataError:
        return
    assert tree.spans[0][:2] == (0, len(tree.tokens))
    assert all(0 <= start < end <= len(tree.tokens) and label in range(5) for start, end, label in tree.spans)


def test_deep_trees_are_read() -> None:
    assert parse_tree("(2 " * 50_000 + "deep" + ")" * 50_000).tokens == ("deep",)


def test_a_broken_file_says_which_line(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("(3 fine)\n\n(3 (2 cut\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train.txt, line 3: the tree ends before"):
        read_trees(tmp_path / "train.txt")
    (tmp_path / "dev.txt").write_bytes(b"(3 fine)\n\xff\xfe")
    with pytest.raises(DataError, match=r"dev.txt is not UTF-8 text \(byte 9\)"):
        read_split(tmp_path, "dev")
    with pytest.raises(DataError, match=r"test.txt does not exist; an SST folder contains"):
        read_split(tmp_path, "test")


def test_where_sst_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in SPLITS:
        (tmp_path / f"{split}.txt").write_text("(2 a)\n", encoding="utf-8")
    monkeypatch.delenv("WHENCE_SST", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"run 'whence data sst' to download it, or give its folder by --sst or \$WHENCE_SST"):
        find_sst()
    assert find_sst(tmp_path) == tmp_path
    monkeypatch.setenv("WHENCE_SST", str(tmp_path))
    assert find_sst() == tmp_path


def test_a_relative_cache_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its specification XDG_CACHE_HOME is absolute; a relative one would mean another folder in every working directory."""
    monkeypatch.delenv("WHENCE_SST", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_home() == tmp_path / "home" / ".cache"
    for place in (tmp_path / "cache" / "whence" / "sst", tmp_path / "home" / ".cache" / "whence" / "sst"):
        with pytest.raises(DataError, match="SST is not in"):
            find_sst()
        place.mkdir(parents=True)
        for split in SPLITS:
            (place / f"{split}.txt").write_text("(2 a)\n", encoding="utf-8")
    assert find_sst() == tmp_path / "home" / ".cache" / "whence" / "sst"
    kernel_folder()
    assert not (tmp_path / "cache" / "whence" / "kernels").exists()


def test_a_download_is_checked_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"the download has SHA-256 .*; it was not unpacked"):
        download.unpack(b"something else", tmp_path / "sst")
    assert not (tmp_path / "sst").exists()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for split in SPLITS:
            archive.writestr(f"trees/{split}.txt", "(2 a)\n")
    monkeypatch.setattr(download, "SHA256", hashlib.sha256(buffer.getvalue()).hexdigest())
    (tmp_path / "archive.zip").write_bytes(buffer.getvalue())
    folder = download.download_sst(tmp_path / "sst", address=(tmp_path / "archive.zip").as_uri())
    assert read_split(folder, "dev")[0].tokens == ("a",)
    assert sorted(path.name for path in folder.iterdir()) == ["dev.txt", "test.txt", "train.txt"]


def test_without_a_network_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be reached .*; download it elsewhere, unpack it, and give the"):
        download.download_sst(tmp_path, address="http://127.0.0.1:1/none.zip")


def test_the_official_files_have_their_counts(sst: Path) -> None:
    trees = {split: read_split(sst, split) for split in SPLITS}
    assert {split: len(found) for split, found in trees.items()} == {"train": 8544, "dev": 1101, "test": 2210}
    lengths = [len(tree.tokens) for tree in trees["test"]]
    assert sum(length >= 10 for length in lengths) == 1849
    assert sum(length >= 19 for length in lengths) == 1104
    assert len({phrase for tree in trees["train"] for phrase in tree.phrases()}) == 157_401
