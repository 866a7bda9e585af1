"""The folder that a corpus is explained into: a local one, or one of an object store. A file is there whole or not at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from whence.corpus.places import filesystem_of, is_address, local_path, reason, shown
from whence.data.arrow import arrow
from whence.errors import InputError, WhenceError

LOCK, TEMPORARY = ".lock", ".tmp"


class Storage(Protocol):
    """A folder of files that are written whole."""

    @property
    def place(self) -> str:
        """Where it is."""
        ...

    def sizes(self) -> dict[str, int]:
        """The names of its files, and their bytes; empty if there is no such folder."""
        ...

    def open(self, name: str) -> Any:
        """A file to read, with random access."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it survives the end of the process and of the machine; other files stay as they are."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        ...

    def locked(self) -> Any:
        """A context in which no other job on this machine has the folder."""
        ...


def storage_of(place: str) -> Storage:
    """The folder at a path, or at an address such as s3://bucket/folder."""
    return Remote(place) if is_address(place) else Local(local_path(place))


@dataclass(frozen=True)
class Local:
    """A folder of this machine, or one that several machines share."""

    place: str

    def sizes(self) -> dict[str, int]:
        """The names of its files, and their bytes."""
        with suppress(FileNotFoundError):
            return {entry.name: entry.stat().st_size for entry in os.scandir(self.place) if entry.is_file()}
        return {}

    def open(self, name: str) -> Any:
        """A file to read."""
        return (Path(self.place) / name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """Write a temporary file, and rename it once it is on the disk; then the folder's entry is put on the disk too."""
        folder = Path(self.place)
        temporary = folder / f".{name}.{secrets.token_hex(4)}{TEMPORARY}"
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / name)
            _sync_folder(folder)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise WhenceError(
                f"{folder / name} cannot be written: {error.strerror}; what was done is kept, and the same command goes on"
            ) from error

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (Path(self.place) / name).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Generator[None]:
        """The kernel holds the lock for this process and frees it when the process ends, however it ends."""
        folder = Path(self.place)
        lock = FileLock(folder / LOCK, timeout=0)
        try:  # also for an interrupt that comes as soon as the lock is taken
            try:
                folder.mkdir(parents=True, exist_ok=True)
                lock.acquire()
            except Timeout:
                raise InputError(f"another job is writing to {folder}; wait for it to end, or give another folder") from None
            except (OSError, NotImplementedError) as error:
                reason = getattr(error, "strerror", None) or error
                raise InputError(f"{folder} cannot be written to: {reason}; give a folder that can") from None
            for name in self.sizes():
                if name.startswith(".") and name.endswith(TEMPORARY):  # of a job that was killed
                    self.remove(name)
            yield
        finally:
            lock.release()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows cannot open a folder
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@dataclass(frozen=True)
class Remote:
    """A folder of an object store. A file appears there when all of it has arrived. There is no lock: two equal jobs write
    equal files, and unequal ones are told apart by the manifest.
    """

    address: str = field(repr=False)  # with the user and password, if it holds them

    @property
    def place(self) -> str:
        """Where it is, as people may see it."""
        return shown(self.address)

    def _at(self, name: str) -> tuple[Any, str]:
        filesystem, path = filesystem_of(self.address)
        return filesystem, f"{path.rstrip('/')}/{name}"

    def sizes(self) -> dict[str, int]:
        """The names of its files, and their bytes."""
        from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

        pa_fs: Any = fs
        filesystem, path = filesystem_of(self.address)
        found = self._tried(lambda: filesystem.get_file_info(pa_fs.FileSelector(path, allow_not_found=True)))
        return {each.base_name: each.size for each in found if each.type == pa_fs.FileType.File}

    def open(self, name: str) -> Any:
        """A file to read."""
        filesystem, path = self._at(name)
        return self._tried(lambda: filesystem.open_input_file(path))

    def write(self, name: str, content: bytes) -> None:
        """Send a file."""
        filesystem, path = self._at(name)

        def send() -> None:
            with closing(filesystem.open_output_stream(path)) as stream:
                stream.write(content)

        self._tried(send)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        filesystem, path = self._at(name)
        with suppress(FileNotFoundError):
            self._tried(lambda: filesystem.delete_file(path))

    @contextmanager
    def locked(self) -> Generator[None]:
        """Nothing is locked."""
        yield

    def _tried(self, action: Any) -> Any:
        try:
            return action()
        except FileNotFoundError:
            raise
        except (OSError, arrow().ArrowException) as error:
            if "NO_SUCH_BUCKET" in str(error):
                raise InputError(f"{self.place} is in a bucket that does not exist; make it, or give another place") from None
            raise WhenceError(
                f"{self.place} cannot be used: {reason(error)}; what was done is kept, and the same command goes on"
            ) from None
