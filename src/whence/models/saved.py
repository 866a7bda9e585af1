"""A saved model's folder: config.json, weights as safetensors, other files. Nothing in it is run; damaged files are refused."""

import hashlib
import json
import stat
import struct
from collections import Counter
from collections.abc import Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from whence.errors import ModelError
from whence.models.files import write_whole
from whence.quoting import quoted, shortened

LARGEST = 512 * 2**20  # bytes; a larger file is refused
LARGEST_TEXT = 2**22  # bytes of config.json and of an example
UNNAMED = "your model"  # what a model is called that has no name of its own


def write_files(folder: Path, config: Mapping[str, object], files: Mapping[str, bytes]) -> None:
    """Write the files, then config.json with their hashes; each file completely or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    described = {**config, "sha256": {name: _sha256(content) for name, content in files.items()}}
    write_whole(folder / "config.json", (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode())


def read_files(folder: Path, files: Iterable[str], *, kind: str) -> list[bytes]:
    """The content of every file; `kind` says in messages whose they are, such as "pipeline"."""
    expected = tuple(files)
    return [_read(folder / file, f"a saved {kind} holds {', '.join(expected)}", kind) for file in expected]


def _read(path: Path, expected: str, kind: str) -> bytes:
    try:
        status = path.stat()
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is no ordinary file; {expected}")
        if size > LARGEST:
            raise ModelError(f"{path} has {size} bytes; a {kind}'s file has at most {LARGEST}")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{path} does not exist; {expected}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{str(path)!r} cannot be read: {error}") from None


@contextmanager
def refusing(path: Path, *, kind: str) -> Generator[None]:
    """Errors that arise while a file's content is parsed become one sentence about the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not {error.encoding} text (byte {error.start})") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} is no {kind}'s: {shortened(repr(error))}") from None


def read_config(path: Path, content: bytes, *, kind: str) -> dict[str, Any]:
    """The content of config.json: an object of a format that is known, with finite numbers and a record of the training."""
    with refusing(path, kind=kind):
        if len(content) > LARGEST_TEXT:
            raise ValueError(f"it has {len(content)} bytes; at most {LARGEST_TEXT} are read")
        found = json.loads(content, parse_constant=_refuse_number)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        config = cast(dict[str, Any], found)
        if config.get("format", 1) != 1:
            raise ValueError(f"its format is {quoted(config['format'])}; this version reads format 1")
        if not isinstance(config.get("training") or {}, dict):
            raise ValueError("its training is no object")
        return config


def _refuse_number(name: str) -> None:
    raise ValueError(f"it holds {name}, which is no finite number")


def require_size(path: Path, name: str, size: object, *, largest: int) -> None:
    """Refuse a size that is no whole number from 1 to `largest`."""
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= largest:
        raise ModelError(f"{path}: {name} is {quoted(size)}; it must be a whole number from 1 to {largest}")


def require_known(path: Path, name: str, value: object, known: Mapping[str, object]) -> None:
    """Refuse a name that is none of the known ones."""
    if not isinstance(value, str) or value not in known:
        raise ModelError(f"{path}: {name} is {quoted(value)}; known are {', '.join(known)}")


def require_hashes(folder: Path, config: Mapping[str, object], files: Mapping[str, bytes]) -> None:
    """Refuse files other than those that config.json was written with, if it holds their hashes."""
    hashes = {name: _sha256(content) for name, content in files.items()}
    if config.get("sha256", hashes) != hashes:
        raise ModelError(f"the files in {folder} do not belong together: one is not the one that config.json was written with")


def weight_bytes(module: nn.Module) -> bytes:
    """The weights as a safetensors file; tensors that share memory, such as tied weights, are each written."""
    state = cast(dict[str, object], module.state_dict())
    for name, each in state.items():
        if not isinstance(each, Tensor) or each.is_meta or is_lazy(each):
            raise ModelError(f"{shortened(name)} of the module is a {type(each).__name__} without numbers; it cannot be saved")
    return save({name: _alone(cast(Tensor, tensor)) for name, tensor in state.items()})


def _alone(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def load_weights(module: nn.Module, path: Path, content: bytes) -> None:
    """Give a module the weights of a safetensors file; each must be there once, finite and of the module's shape."""
    found = _weights(path, content, module, finite=module.state_dict())
    weights = {name: each.float() if each.is_floating_point() else each for name, each in found.items()}
    module.load_state_dict(weights, assign=True)


def fill_weights(module: nn.Module, path: Path, content: bytes) -> None:
    """Copy the weights of a safetensors file into a user's module, which keeps its devices and number types."""
    found = _weights(path, content, module, finite=dict(module.named_parameters()))
    module.load_state_dict(found)


def _weights(path: Path, content: bytes, module: nn.Module, *, finite: Container[str]) -> dict[str, Tensor]:
    """The weights in a file, checked against a module; those of the names in `finite` must be finite."""
    state = cast(dict[str, Tensor], module.state_dict())
    counts = Counter(_header_keys(path, content))
    wrong = sorted(name for name in {*counts, *state} if counts[name] != 1 or name not in state)
    if wrong:
        raise ModelError(f"{path} does not hold each weight of the architecture once: {shortened(', '.join(wrong))}")
    try:
        found = load(content)
    except Exception as error:
        raise ModelError(f"{path} is no safetensors file: {shortened(error)}") from None
    for name, expected in state.items():
        tensor = found[name]
        is_kind = tensor.is_floating_point() if expected.is_floating_point() else tensor.dtype == expected.dtype
        if tensor.shape != expected.shape or not is_kind:
            numbers = "floats" if expected.is_floating_point() else expected.dtype
            raise ModelError(
                f"{path}: {name} is {tuple(tensor.shape)} {tensor.dtype}; it must be {tuple(expected.shape)} {numbers}"
            )
        if name in finite and not bool(tensor.float().isfinite().all()):
            raise ModelError(f"{path}: {name} holds numbers that are not finite")
    return found


def _header_keys(path: Path, content: bytes) -> list[str]:
    """The names in a safetensors header with duplicates, which the library's own reader ignores."""
    try:
        (size,) = struct.unpack_from("<Q", content)
        if size > len(content) - 8:
            raise ValueError("its header is longer than the file")
        keys: list[str] = []

        def top(pairs: list[tuple[str, object]]) -> dict[str, object]:
            keys[:] = [key for key, _ in pairs if key != "__metadata__"]  # the outermost object is parsed last
            return dict(pairs)

        json.loads(content[8 : 8 + size], object_pairs_hook=top)
        return keys
    except (struct.error, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no safetensors file: {shortened(error)}") from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
