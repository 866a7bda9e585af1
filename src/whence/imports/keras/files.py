"""A .keras or .h5 file, read without Keras: configuration and weights. Every size is checked before it is used."""

import io
import json
import math
import stat
import struct
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy
import torch
from torch import Tensor

from whence.errors import ModelError
from whence.imports.keras.probe import require_readable
from whence.imports.keras.probe_script import MOST_NAMES, holds_numbers, is_plain, is_short, is_whole
from whence.quoting import quoted, shortened

LARGEST = 512 * 2**20  # bytes of a file
LARGEST_TEXT = 4 * 2**20  # bytes of a configuration
MOST_MEMBERS = 1000  # files in an archive
HEAP_BYTES = 128 * 2**20  # of texts in one attribute
DEEPEST_PATH = 40  # groups in a path
MOST_HEAPS = 200  # collections of texts
HEAP = b"GCOL\x01"  # begins a collection of texts in HDF5
NEEDED = ("config.json", "metadata.json", "model.weights.h5")


def h5py() -> ModuleType:
    """The library that reads HDF5."""
    try:
        return import_module("h5py")
    except ImportError:
        raise ModelError("reading a Keras file needs h5py; run: pip install 'whence[keras]'") from None


def read_content(path: Path) -> bytes:
    """The bytes of an ordinary file that is not too large."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is no ordinary file")
        if status.st_size > LARGEST:
            raise ModelError(f"{path} has {status.st_size} bytes; at most {LARGEST} are read")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"it cannot be read: {shortened(getattr(error, 'strerror', None) or error)}") from None


@contextmanager
def refusing() -> Generator[None]:
    """Whatever a damaged file makes its readers raise becomes one sentence."""
    try:
        yield
    except ModelError:
        raise
    except RecursionError:
        raise ModelError("it is nested too deeply") from None
    except MemoryError:
        raise ModelError("it needs too much memory") from None
    except Exception as error:
        raise ModelError(f"it is damaged: {shortened(error) or type(error).__name__}") from None


def read_archive(content: bytes) -> Mapping[str, bytes]:
    """The three parts of a .keras file."""
    with refusing(), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise ModelError(f"it holds {len(members)} files; a model has a few")
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            raise ModelError("it holds two files of one name")
        for name in names:
            if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or "\0" in name or ":" in name:
                raise ModelError(f"it holds a file {quoted(name)}, whose name leads out of the archive")
        missing = [name for name in NEEDED if name not in names]
        if missing:
            raise ModelError(f"{', '.join(missing)} is missing; a .keras file holds {', '.join(NEEDED)}")
        return {member.filename: _member(archive, member) for member in members if member.filename in NEEDED}


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    largest = LARGEST if member.filename.endswith(".h5") else LARGEST_TEXT
    if member.flag_bits & 1:
        raise ModelError(f"{member.filename} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelError(f"{member.filename} is compressed by method {member.compress_type}; known are 0 and 8")
    if member.file_size > largest:
        raise ModelError(f"{member.filename} has {member.file_size} bytes; at most {largest} are read")
    if member.file_size > 100 * member.compress_size + 2**20:
        raise ModelError(f"{member.filename} would grow from {member.compress_size} to {member.file_size} bytes")
    with archive.open(member) as file:
        found = file.read(member.file_size + 1)
    if len(found) != member.file_size:
        raise ModelError(f"{member.filename} has another size than the archive says")
    return found


def read_json(content: bytes | str, name: str) -> dict[str, Any]:
    """An object, with every key once and finite numbers."""
    if len(content) > LARGEST_TEXT:
        raise ModelError(f"{name} has {len(content)} bytes; at most {LARGEST_TEXT} are read")
    try:
        found = json.loads(content, object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError:
        raise ModelError(f"{name} is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{name} is no JSON: {shortened(error)}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{name} is no object")
    return cast(dict[str, Any], found)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ModelError(f"its key {quoted(next(key for key in keys if keys.count(key) > 1))} stands there twice")
    return found


def _no_number(name: str) -> None:
    raise ModelError(f"it holds {name}, which is no finite number")


class Hdf5:
    """An HDF5 file in memory, of which only plain groups and plain, stored arrays are read; first by another process."""

    def __init__(self, content: bytes) -> None:
        self._library = h5py()
        self._left = 2 * len(content) + 2**20  # bytes that may still be read
        self._heap = largest_heap(content)
        require_readable(content, [str(Path(each.__file__ or "").parents[1]) for each in (self._library, numpy)])
        with refusing():
            self.root = self._library.File(self._library.h5f.open_file_image(content))

    def close(self) -> None:
        """Give the memory back."""
        with refusing():
            self.root.close()

    def find(self, group: Any, path: str) -> Any:
        """What stands at a path below a group, None if nothing does. Links to other places are refused."""
        parts = path.split("/")
        if len(parts) > DEEPEST_PATH or any(part in ("", ".", "..") for part in parts):
            raise ModelError(f"{quoted(path)} is no path in a file of weights")
        with refusing():
            for part in parts:
                if not isinstance(group, self._library.Group):
                    return None
                link = group.get(part, getlink=True)
                if link is None:
                    return None
                if type(link) is not self._library.HardLink:
                    raise ModelError(f"{quoted(path)} is a link to another place; weights must be in the file itself")
                group = group[part]
            return group

    def group(self, group: Any, path: str) -> Any:
        """The group at a path, None if there is none."""
        found = self.find(group, path)
        return found if isinstance(found, self._library.Group) else None

    def array(self, group: Any, path: str) -> Tensor:
        """The array at a path, in float32."""
        found = self.find(group, path)
        if not isinstance(found, self._library.Dataset):
            raise ModelError(f"the weight {quoted(path)} is missing")
        with refusing():
            self._require_plain(found, path)
            numbers = torch.from_numpy(numpy.asarray(found[()], dtype="float32"))
        if not bool(numbers.isfinite().all()):
            raise ModelError(f"the weight {quoted(path)} holds numbers that are not finite: was its training cut off?")
        return numbers

    def _require_plain(self, found: Any, path: str) -> None:
        """Refuse an array that is not stored as it is, whole, in this file."""
        if not holds_numbers(found):
            raise ModelError(f"the weight {quoted(path)} is of the type {shortened(found.dtype)}; it must be of numbers")
        if not is_plain(self._library, found):
            raise ModelError(f"the weight {quoted(path)} is compressed or stored elsewhere; Keras writes plain arrays")
        if not is_whole(found):
            raise ModelError(f"the weight {quoted(path)} is declared as {quoted(found.shape)} and not stored whole")
        self._left -= found.nbytes
        if self._left < 0:
            raise ModelError("it names more weights than it holds")

    def text(self, group: Any, name: str) -> str | None:
        """A text in an attribute, None if there is none."""
        with refusing():
            if name not in group.attrs:
                return None
            value = self._attribute(group, name)
            value = value.decode("utf-8") if isinstance(value, bytes) else value
        if not isinstance(value, str):
            raise ModelError(f"its attribute {name} is no text")
        return value

    def names(self, group: Any, name: str) -> list[str]:
        """A list of names in an attribute, or in several numbered ones, as Keras splits a long list."""
        with refusing():
            if name in group.attrs:
                return self._names(group, name)
            found: list[str] = []
            for n in range(MOST_NAMES):
                if f"{name}{n}" not in group.attrs:
                    break
                found += self._names(group, f"{name}{n}")
                if len(found) > MOST_NAMES:
                    raise ModelError(f"its attribute {name} holds more than {MOST_NAMES} names")
            return found

    def _names(self, group: Any, name: str) -> list[str]:
        value = self._attribute(group, name)
        found = [each.decode("utf-8") if isinstance(each, bytes) else each for each in value.tolist()]
        if not all(isinstance(each, str) for each in found):
            raise ModelError(f"its attribute {name} holds something else than names")
        return found

    def _attribute(self, group: Any, name: str) -> Any:
        """An attribute, read only if its texts cannot be too large."""
        attribute = group.attrs.get_id(name)
        heap = self._heap if attribute.dtype.kind == "O" else 0
        if not is_short(attribute) or math.prod(attribute.shape or ()) * heap > HEAP_BYTES:
            raise ModelError(f"its attribute {name} is too large")
        return group.attrs[name]


def largest_heap(content: bytes) -> int:
    """The bytes of the largest collection of texts in an HDF5 file; one text is not larger.

    Every collection is checked: the HDF5 library itself does not come to an end with one whose objects have wrong sizes.
    """
    sizes = content[13:15] if content[8:9] in (b"\0", b"\1") else content[9:11]
    if sizes != b"\x08\x08":
        raise ModelError("its places are not numbers of 8 bytes, as in the files that Keras writes")
    largest, count, place = 0, 0, content.find(HEAP)
    while place >= 0:
        largest, count, place = max(largest, _heap(content, place)), count + 1, content.find(HEAP, place + 16)
        if count > MOST_HEAPS:
            raise ModelError(f"it holds more than {MOST_HEAPS} collections of texts")
    return largest


def _heap(content: bytes, place: int) -> int:
    """The bytes of one collection: a header of 16 bytes, then objects, each a header of 16 bytes and a text."""
    (size,) = struct.unpack_from("<8xQ", content.ljust(place + 16), place)
    end = place + size
    if not 16 <= size <= len(content) - place:
        raise ModelError("a collection of texts in it has a wrong size")
    at = place + 16
    while at + 16 <= end:
        index, length = struct.unpack_from("<H6xQ", content, at)
        at += length if index == 0 else 16 + -(-length // 8) * 8  # number 0 is what is left over, with its header
        if length > size or at > end or (index == 0 and length < 16):
            raise ModelError("a text in it has a wrong size")
    return size


def require_version(version: object) -> int:
    """Keras' main version; files of Keras 1 order their weights in another way."""
    text = version if isinstance(version, str) else ""
    major = text.split(".")[0]
    if major not in ("2", "3"):
        raise ModelError(f"its Keras version is {quoted(version)}; files of Keras 2 and 3 are read")
    return int(major)
