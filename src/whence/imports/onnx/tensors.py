"""Tensors of an ONNX file as torch tensors; also from a file beside it, if that is an ordinary one."""

import math
import os
import stat
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from whence.errors import ModelError
from whence.quoting import quoted

LARGEST = 512 * 2**20  # bytes of all tensors in files beside the model's

# ONNX's numbers for types: our kind, the NumPy type of raw_data, and the field of typed data.
TYPES: dict[int, tuple[str, str, str]] = {
    1: ("float", "<f4", "float_data"),
    2: ("uint8", "<u1", "int32_data"),
    3: ("int8", "<i1", "int32_data"),
    4: ("int32", "<u2", "int32_data"),
    5: ("int16", "<i2", "int32_data"),
    6: ("int32", "<i4", "int32_data"),
    7: ("int64", "<i8", "int64_data"),
    9: ("bool", "<u1", "int32_data"),
    10: ("float", "<f2", "int32_data"),
    11: ("float", "<f8", "double_data"),
    12: ("int64", "<u4", "uint64_data"),
    13: ("int64", "<u8", "uint64_data"),
    16: ("float", "<u2", "int32_data"),
}
NAMES = {
    8: "text",
    14: "complex",
    15: "complex",
    17: "float8",
    18: "float8",
    19: "float8",
    20: "float8",
    21: "int4",
    22: "int4",
}


def kind_of(number: int, what: str) -> str:
    """Our name for one of ONNX's types."""
    if number not in TYPES:
        raise ModelError(f"{what} is of type {NAMES.get(number, str(number))}; floats, whole numbers and bool are read")
    return TYPES[number][0]


def tensor_from(proto: Any, what: str) -> tuple[str, Tensor]:
    """The kind and the numbers of a TensorProto, as float32 or whole numbers. Its size must be that of its shape."""
    kind = kind_of(int(proto.data_type), what)
    _, stored, field = TYPES[int(proto.data_type)]
    shape = [int(each) for each in proto.dims]
    if min(shape, default=0) < 0 or len(shape) > 16:
        raise ModelError(f"{what} has the shape {quoted(shape)}")
    if proto.data_location or proto.external_data or proto.HasField("segment"):
        raise ModelError(f"{what} is not stored in one piece in the file")
    count = math.prod(shape)
    array = _raw(proto, stored, count, what) if proto.raw_data else _typed(proto, stored, field, count, what)
    if int(proto.data_type) == 16:  # bfloat16: the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
    if int(proto.data_type) == 13 and count and int(array.max()) >= 2**63:
        raise ModelError(f"{what} holds numbers beyond 63 bits")
    with np.errstate(over="ignore"):
        numbers = torch.from_numpy(array.astype(_numpy(kind))).reshape(shape)
    if kind == "float" and bool(numbers.isnan().any()):
        raise ModelError(f"{what} holds NaN; the model's weights must be numbers: was its training cut off?")
    return kind, numbers


def _numpy(kind: str) -> str:
    return {"float": "float32", "bool": "bool"}.get(kind, kind)


def _raw(proto: Any, stored: str, count: int, what: str) -> "np.ndarray[Any, Any]":
    raw, size = cast(bytes, proto.raw_data), np.dtype(stored).itemsize
    if len(raw) != count * size:
        raise ModelError(f"{what} has {len(raw)} bytes; its shape {list(proto.dims)} needs {quoted(count * size)}")
    return np.frombuffer(raw, dtype=stored)


def _typed(proto: Any, stored: str, field: str, count: int, what: str) -> "np.ndarray[Any, Any]":
    values = getattr(proto, field)
    if len(values) != count:
        raise ModelError(f"{what} has {len(values)} numbers; its shape {quoted(list(proto.dims))} needs {quoted(count)}")
    if stored == "<f2":
        return np.array(values, dtype=np.int64).astype(np.uint16).view(np.float16)
    if stored in ("<f4", "<f8"):
        return np.array(values, dtype=stored)
    whole = np.array(values, dtype=np.uint64 if field == "uint64_data" else np.int64)
    found = whole.astype(stored)
    if count and not bool((found == whole).all()):
        raise ModelError(f"{what} holds numbers beyond its type")
    return found


def all_tensors(model: Any) -> list[Any]:
    """Every TensorProto of a model, also in graphs inside nodes and in functions."""
    found: list[Any] = []
    graphs: list[Any] = [model.graph]
    nodes: list[Any] = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            found += graph.initializer
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            found += [attribute.t] if attribute.HasField("t") else []
            found += attribute.tensors
            graphs += [attribute.g] if attribute.HasField("g") else []
            graphs += attribute.graphs
    return found


def take_in(model: Any, folder: Path) -> None:
    """Replace tensors in files beside the model by their bytes, in place. Only ordinary files of the same folder are read."""
    left = LARGEST
    for proto in all_tensors(model):
        if not proto.data_location:
            continue
        what = f"the tensor {quoted(proto.name)}"
        entries = {each.key: each.value for each in proto.external_data}
        name, offset = entries.get("location", ""), _whole(entries.get("offset", "0"), what)
        kind_of(int(proto.data_type), what)
        size = math.prod(int(each) for each in proto.dims) * np.dtype(TYPES[int(proto.data_type)][1]).itemsize
        length = _whole(entries["length"], what) if "length" in entries else size
        if length != size or not 0 <= size <= left:
            raise ModelError(
                f"{what} has {length} bytes in another file; its shape needs {quoted(size)}, and {left} are allowed"
            )
        left -= size
        raw = _piece(folder, name, offset, size, what)
        del proto.external_data[:]
        proto.ClearField("data_location")
        proto.raw_data = raw


def _whole(text: str, what: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ModelError(f"{what} has {quoted(text)} for a place in another file")
    return int(text)


def _piece(folder: Path, name: str, offset: int, size: int, what: str) -> bytes:
    """Bytes of a file in the folder; links, devices and other folders are refused."""
    if not name or name in (".", "..") or any(each in name for each in "/\\\0:") or len(name) > 200:
        raise ModelError(f"{what} is in {quoted(name)}; only a file in the model's own folder is read")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = -1
    try:
        handle = os.open(folder / name, flags)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{what} is in {quoted(name)}, which is no ordinary file")
        if offset + size > status.st_size:
            raise ModelError(f"{what} ends at byte {offset + size} of {quoted(name)}, which has {status.st_size}")
        with open(handle, "rb", closefd=False) as file:
            file.seek(offset)
            return file.read(size)
    except OSError as error:
        raise ModelError(f"{what} is in {quoted(name)}, which cannot be read: {error.strerror}") from None
    finally:
        if handle >= 0:
            os.close(handle)
