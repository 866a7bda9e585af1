"""Compiled kernels are loaded and run, so only what this user built is: not what others can write to, nor of other flags."""

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from whence.recurrent.cells import GRU, LSTM
from whence.recurrent.native import cache, compiled
from whence.recurrent.native.layer import kernels

NOBODY = 65534
PLANTED = b"int planted(void) { return 1; } __attribute__((constructor)) static void run(void) { __builtin_trap(); }"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty user cache, and no kernel known yet."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("CC", raising=False)
    compiled.built.cache_clear()
    yield folder
    compiled.built.cache_clear()


def library() -> Path:
    """Where the kernels that are loaded now lie."""
    compiled.built.cache_clear()
    found = kernels(GRU, torch.float32)
    assert isinstance(found.library, ctypes.CDLL), found.reason
    return Path(found.library._name)


def kept(home: Path) -> list[Path]:
    return sorted((home / "whence" / "kernels").glob("*.so"))


def test_kernels_are_kept_in_a_folder_of_the_users_own(home: Path) -> None:
    first = library()
    assert first.parent == home / "whence" / "kernels"
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    made = first.stat().st_mtime_ns
    assert library() == first
    assert first.stat().st_mtime_ns == made


@pytest.mark.parametrize("part", ["whence", "whence/kernels"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_can_write_to_is_not_used(home: Path, part: str, mode: int) -> None:
    library()
    (home / part).chmod(mode)
    assert home not in library().parents
    assert f"for this process alone: others can write to {home / part}" in kernels(GRU, torch.float32).reason


def test_a_cache_that_others_can_rearrange_is_not_used(home: Path) -> None:
    home.chmod(0o777)
    assert home not in library().parents
    home.chmod(0o1777)  # as /tmp: others may add, not take away
    assert home in library().parents


def test_a_link_in_place_of_the_folder_or_the_file_is_not_followed(home: Path, tmp_path: Path) -> None:
    first = library()
    elsewhere = tmp_path / "elsewhere"
    shutil.move(first.parent, elsewhere)
    first.parent.symlink_to(elsewhere)
    assert home not in library().parents
    first.parent.unlink()
    shutil.move(elsewhere, first.parent)
    shutil.move(first, tmp_path / "own.so")
    first.symlink_to(tmp_path / "own.so")
    assert library() == first
    assert not first.is_symlink()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_kernel_that_another_user_planted_is_not_loaded(home: Path, what: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user's")
    first = library()
    source = tmp_path / "planted.c"
    source.write_bytes(PLANTED)
    first.unlink()  # or the loader would know the file already
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(first)], check=True)
    first.with_suffix(".sha256").write_text(compiled.hashlib.sha256(first.read_bytes()).hexdigest())
    for each in (first, first.with_suffix(".sha256")) if what == "file" else (first.parent,):
        os.chown(each, NOBODY, NOBODY)
    script = (
        "import torch; from whence.recurrent.cells import GRU; from whence.recurrent.native.layer import kernels;"
        "found = kernels(GRU, torch.float32);"
        "print(hasattr(found.library, 'planted'), found.reason)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("False built by"), ran.stdout


@pytest.mark.parametrize("value", ["relative/cache", "", "~/cache"])
def test_a_relative_cache_is_ignored(home: Path, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert library().parent == tmp_path / "home" / ".cache" / "whence" / "kernels"
    assert not (tmp_path / "relative").exists()


def test_without_a_home_directory_kernels_are_built_for_the_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert library().parent == cache._temporary_folder()
    assert stat.S_IMODE(cache._temporary_folder().stat().st_mode) == 0o700


def test_a_file_in_place_of_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "whence").write_text("no folder")
    assert library().parent == cache._temporary_folder()


def test_the_compilers_flags_belong_to_the_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = library()
    monkeypatch.setenv("CC", "cc -DOTHER")
    assert library() != first
    monkeypatch.setenv("CC", "cc")
    assert library() == first


def test_the_processor_belongs_to_the_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = library()
    monkeypatch.setattr(compiled, "_processor", lambda: "flags: another")
    assert library() != first


def test_another_compiler_in_the_same_place_builds_anew(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own-cc"
    own.write_text('#!/bin/sh\nexec cc "$@"\n')
    own.chmod(0o755)
    monkeypatch.setenv("CC", str(own))
    first = library()
    own.write_text('#!/bin/sh\nexec cc -DUPDATED "$@"\n')
    assert library() != first


@pytest.mark.parametrize("value", ["'unbalanced", '"', "/", "/dev/null"])
def test_a_compiler_that_cannot_be_read(home: Path, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", value)
    found = kernels(GRU, torch.float32)
    assert found.library is None
    assert "CC is" in found.reason or "there is no C compiler" in found.reason


def test_a_compiler_that_hangs_is_ended_and_not_asked_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, pid = tmp_path / "calls", tmp_path / "pid"
    own = tmp_path / "slow-cc"
    own.write_text(f"#!/bin/sh\necho called >> {calls}\nsleep 1000 &\necho $! > {pid}\nwait\n")
    own.chmod(0o755)
    monkeypatch.setenv("CC", str(own))
    monkeypatch.setattr(compiled, "PATIENCE", 1)
    for cell, dtype in ((GRU, torch.float32), (GRU, torch.float64), (LSTM, torch.float32)):
        found = kernels(cell, dtype)
        assert (found.library, found.reason) == (None, "slow-cc had not built it after 1 s")
    compiled.built.cache_clear()  # as the next process would begin
    assert kernels(GRU, torch.float32).library is None
    assert calls.read_text().split() == ["called"]
    assert not is_running(int(pid.read_text()))
    assert kept(home) == []


def is_running(process: int) -> bool:
    """Whether a process goes on, after a while; one that was ended may wait for its parent to notice."""
    for _ in range(100):
        shown = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False).stdout
        if not shown or shown.startswith("Z"):
            return False
        time.sleep(0.05)
    return True


def test_a_cache_is_made_for_its_user_alone_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "made"))
    mask = os.umask(0)
    try:
        assert cache.kernel_folder() == cache.Folder(tmp_path / "made" / "whence" / "kernels")
    finally:
        os.umask(mask)


def test_what_a_killed_build_left_is_swept_away(home: Path) -> None:
    folder = library().parent
    for name, age in (("build-old", 7200), ("build-new", 0)):
        (folder / name).mkdir()
        then = time.time() - age
        os.utime(folder / name, (then, then))
    for each in folder.glob("*.so"):
        each.unlink()
    library()
    assert [each.name for each in folder.glob("build-*")] == ["build-new"]
