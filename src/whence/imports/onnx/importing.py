"""The public function `from_onnx`: a file in, a module out."""

import importlib
import os
import stat
from pathlib import Path
from typing import Any

from whence.errors import ModelError, WhenceError
from whence.imports.onnx.module import OnnxModule
from whence.imports.onnx.proof import Arrays, prove
from whence.imports.onnx.reading import model_from
from whence.imports.onnx.tensors import take_in
from whence.imports.onnx.wire import require_readable
from whence.quoting import quoted, shortened

LARGEST = 512 * 2**20  # bytes; a larger file is refused


def from_onnx(path: str | os.PathLike[str], *, reference: tuple[Arrays, Arrays] | None = None) -> OnnxModule:
    """A module from an ONNX file, which `relevance` explains like any other.

    It is in evaluation mode, and takes the file's inputs in their order (`.inputs` are their names). It is compared with
    `reference`, which is (inputs, outputs), arrays or tuples of them; without one, with onnxruntime on random inputs, if
    that is installed. `.proof` says so. A file that holds anything this cannot run exactly is refused, with all its reasons.

        model = whence.from_onnx("sentiment.onnx")
        result = whence.relevance(model, ids, target=1)
    """
    place = Path(path)
    try:
        return _imported(place, _content(place), reference)
    except WhenceError as error:
        raise ModelError(f"{shortened(place)}: {error}") from None


def _content(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelError("it is no ordinary file")
        if status.st_size > LARGEST:
            raise ModelError(f"it has {status.st_size} bytes; at most {LARGEST} are read")
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError("it does not exist") from None
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"it cannot be read: {shortened(error)}") from None


def _imported(path: Path, content: bytes, reference: tuple[Arrays, Arrays] | None) -> OnnxModule:
    proto = parsed(content)
    take_in(proto, path.parent)
    model, numbers = model_from(proto)
    module = OnnxModule(model)
    module.take(numbers)
    module.proof = prove(module, proto.SerializeToString(), reference)
    return module


def parsed(content: bytes) -> Any:
    """The ModelProto in a file's bytes."""
    require_readable(content)
    try:
        onnx: Any = importlib.import_module("onnx")
    except ImportError:
        raise ModelError("reading ONNX files needs onnx; run: pip install 'whence[onnx]'") from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:
        raise ModelError(f"it is no ONNX file: {quoted(str(error))}") from None
    if not len(proto.graph.node):
        raise ModelError("it is no ONNX file with a graph")
    return proto
