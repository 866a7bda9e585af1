"""Counts what is in the bytes of an ONNX file before anything is made of them: two bytes can stand for an object of 300.

Protocol buffers are fields, each a tag and a content; a content may be a message, with fields of its own.
"""

from dataclasses import dataclass

from whence.errors import ModelError

MOST_FIELDS = 600_000
MOST_PACKED = 2**25  # bytes of packed whole numbers, of which one byte can become eight
MOST_DEPTH = 60  # messages inside messages

# The messages of onnx.proto, with the numbers of the fields that are messages. A "value" is a type; it is not looked into.
FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph", 3: "leaf", 4: "leaf"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 14: "leaf", 15: "sparse", 16: "leaf"},
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "value", 14: "leaf"},
    "node": {5: "attribute", 9: "leaf", 10: "leaf"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 14: "value", 15: "value", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {3: "leaf", 13: "leaf", 16: "leaf"},
    "leaf": {},
}
# Which of the other fields are texts; the protocol-buffer library returns bytes for one that is not UTF-8.
TEXTS: dict[str, frozenset[int]] = {
    "node": frozenset({1, 2, 3, 4, 7, 8}),
    "attribute": frozenset({1, 21}),
    "tensor": frozenset({8}),
    "function": frozenset({1, 4, 5, 6, 10}),
    "leaf": frozenset({1, 2}),
}
PACKED: dict[str, frozenset[int]] = {
    "tensor": frozenset({1, 5, 7, 11}),
    "attribute": frozenset({8}),
    "sparse": frozenset({3}),
}


@dataclass
class _Count:
    fields: int = 0
    packed: int = 0


def require_readable(content: bytes) -> None:
    """Refuse bytes that would become far more than they are."""
    _count(memoryview(content), "model", _Count(), 0)


def _count(content: memoryview, message: str, count: _Count, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise ModelError("it is nested too deeply")
    place, end = 0, len(content)
    while place < end:
        count.fields += 1
        if count.fields > MOST_FIELDS:
            raise ModelError(f"it has more than {MOST_FIELDS} parts; no model that can be explained is that large")
        tag, place = _varint(content, place)
        number, kind = tag >> 3, tag & 7
        if kind == 2:
            size, place = _varint(content, place)
            if size > end - place:
                raise ModelError("it is cut off")
            _look_inside(content[place : place + size], number, message, count, depth)
            place += size
        elif kind == 0:
            _, place = _varint(content, place)
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise ModelError(f"it has a field of the type {kind}, which ONNX does not have")


def _look_inside(content: memoryview, number: int, message: str, count: _Count, depth: int) -> None:
    if number in PACKED.get(message, ()):
        count.packed += len(content)
        if count.packed > MOST_PACKED:
            raise ModelError(f"its whole numbers take more than {MOST_PACKED} bytes; store them as raw_data")
    elif number in TEXTS.get(message, ()):
        try:
            str(content, "utf-8")
        except UnicodeDecodeError:
            raise ModelError("it has a name that is not UTF-8 text") from None
    elif FIELDS[message].get(number) == "value":
        _count_types(content, count)
    elif number in FIELDS[message]:
        _count(content, FIELDS[message][number], count, depth + 1)


def _count_types(content: memoryview, count: _Count) -> None:
    """The fields of a type, at most: every two bytes of it may be one."""
    count.fields += len(content) // 2
    if count.fields > MOST_FIELDS:
        raise ModelError(f"it has more than {MOST_FIELDS} parts; no model that can be explained is that large")


def _varint(content: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(content) or shift > 63:
            raise ModelError("it is cut off or no ONNX file")
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
