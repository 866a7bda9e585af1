"""A model as plain data: inputs, nodes and constants. Made from a file or from saved settings, and checked either way.

Nothing is computed here; `module` runs a model.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from whence.errors import ModelError
from whence.quoting import quoted, shortened

KINDS = ("float", "int64", "int32", "int16", "int8", "uint8", "bool")  # all float types of ONNX become one
OPSETS = range(7, 27)
MOST_NODES = 20_000
MOST_DEPTH = 16  # graphs inside graphs
MOST_PLACES = 2_000  # inputs, outputs or attribute numbers of a node
MOST_WHOLE = 2**16  # numbers of whole-number constants in the settings, in total
MOST_NUMBERS = 2**27  # of all weights: 512 MiB
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

Number = int | float | bool
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """A constant's type and shape. `values` are its numbers; None if they are among the module's weights."""

    kind: str
    shape: tuple[int, ...]
    values: tuple[Number, ...] | None = None

    @property
    def size(self) -> int:
        """The number of its numbers."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Input:
    """An input; a size is a number, a name, or None if nothing is known. `shape` is None if not even the axes are known."""

    name: str
    kind: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class Graph:
    """Nodes in the order they run, and the names of what goes in and out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple["Node", ...]


@dataclass(frozen=True)
class Node:
    """One operation. An input "" is left out; `graphs` are the bodies of If, Loop and Scan."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    graphs: Mapping[str, Graph] = field(default_factory=dict[str, Graph])


@dataclass(frozen=True)
class Model:
    """All that a module is made of, except its weights."""

    opset: int
    inputs: tuple[Input, ...]
    graph: Graph
    constants: Mapping[str, Constant]

    def settings(self) -> dict[str, Any]:
        """The model as data for JSON."""
        return {
            "opset": self.opset,
            "inputs": [{"name": each.name, "kind": each.kind, "shape": _listed(each.shape)} for each in self.inputs],
            "graph": _graph_settings(self.graph),
            "constants": {
                name: {"kind": each.kind, "shape": list(each.shape), "values": _written(each.values)}
                for name, each in self.constants.items()
            },
        }


def _listed(shape: tuple[int | str | None, ...] | None) -> list[int | str | None] | None:
    return None if shape is None else list(shape)


def _graph_settings(graph: Graph) -> dict[str, Any]:
    return {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "nodes": [
            {
                "op": node.op,
                "name": node.name,
                "inputs": list(node.inputs),
                "outputs": list(node.outputs),
                "attributes": {
                    key: list(value) if isinstance(value, tuple) else value for key, value in node.attributes.items()
                },
                "graphs": {key: _graph_settings(each) for key, each in node.graphs.items()},
            }
            for node in graph.nodes
        ],
    }


def _written(values: tuple[Number, ...] | None) -> list[Number | str] | None:
    """Numbers for JSON, which knows no infinity."""
    if values is None:
        return None
    return [str(value) if isinstance(value, float) and math.isinf(value) else value for value in values]


def model_of(settings: object) -> Model:
    """The model that settings describe; anything else is refused."""
    try:
        found = _entries(settings, "the settings", "opset", "inputs", "graph", "constants")
        inputs = tuple(_input(each) for each in _sequence(found["inputs"], "inputs", 100))
        constants = {
            _name(name, "a constant"): _constant(each) for name, each in _mapping(found["constants"], "constants").items()
        }
        opset = found["opset"]
        if isinstance(opset, bool) or not isinstance(opset, int) or opset not in OPSETS:
            raise ModelError(f"opset {quoted(opset)} is not known; {OPSETS.start} to {OPSETS.stop - 1} are")
        model = Model(opset, inputs, _graph(found["graph"], [0], 0), constants)
    except RecursionError:
        raise ModelError("the settings of an ONNX model are nested too deeply") from None
    require_sound(model)
    return model


def require_sound(model: Model) -> None:
    """Refuse names that are used twice or before they are there, and sizes beyond all use."""
    if model.graph.inputs != tuple(each.name for each in model.inputs):
        raise ModelError("the graph's inputs are not those of the model")
    whole = sum(each.size for each in model.constants.values() if each.values is not None)
    if whole > MOST_WHOLE:
        raise ModelError(f"its whole-number constants hold {whole} numbers; at most {MOST_WHOLE} are read")
    _require_order(model.graph, set(model.constants), set(model.constants))
    names = [node.name for node in all_nodes(model.graph)]
    if len(set(names)) != len(names):
        raise ModelError("two nodes have the same name")


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Every node, also of graphs inside nodes."""
    for node in graph.nodes:
        yield node
        for inner in node.graphs.values():
            yield from all_nodes(inner)


def _require_order(graph: Graph, known: set[str], taken: set[str]) -> None:
    """Every name is made once, and before it is used. `taken` are the names made anywhere so far."""
    known = set(known)
    _make(graph.inputs, known, taken)
    for node in graph.nodes:
        missing = [name for name in node.inputs if name and name not in known]
        if missing:
            raise ModelError(
                f"{node.op} node {quoted(node.name)} uses {quoted(missing[0])}, which nothing before it makes; "
                "the nodes must be in the order they run, without cycles"
            )
        for inner in node.graphs.values():
            _require_order(inner, known, taken)
        _make([name for name in node.outputs if name], known, taken)
    missing = [name for name in graph.outputs if name not in known]
    if missing:
        raise ModelError(f"the output {quoted(missing[0])} is made by no node")


def _make(names: Sequence[str], known: set[str], taken: set[str]) -> None:
    for name in names:
        if name in taken:
            raise ModelError(f"{quoted(name)} is made twice")
        known.add(name)
        taken.add(name)


def _graph(settings: object, count: list[int], depth: int) -> Graph:
    if depth > MOST_DEPTH:
        raise ModelError(f"graphs are nested more than {MOST_DEPTH} deep")
    found = _entries(settings, "a graph", "inputs", "outputs", "nodes")
    nodes = _sequence(found["nodes"], "nodes", MOST_NODES)
    count[0] += len(nodes)
    if count[0] > MOST_NODES:
        raise ModelError(f"it has more than {MOST_NODES} nodes")
    return Graph(
        _names(found["inputs"], "inputs"),
        _names(found["outputs"], "outputs"),
        tuple(_node(each, count, depth) for each in nodes),
    )


def _node(settings: object, count: list[int], depth: int) -> Node:
    found = _entries(settings, "a node", "op", "name", "inputs", "outputs", "attributes", "graphs")
    attributes = {
        _text(key, "an attribute"): _attribute(value) for key, value in _mapping(found["attributes"], "attributes").items()
    }
    graphs = {
        _text(key, "a graph"): _graph(value, count, depth + 1) for key, value in _mapping(found["graphs"], "graphs").items()
    }
    return Node(
        _text(found["op"], "an operator"),
        _name(found["name"], "a node"),
        _names(found["inputs"], "inputs"),
        _names(found["outputs"], "outputs"),
        attributes,
        graphs,
    )


def _attribute(value: object) -> Attribute:
    if isinstance(value, list):
        values = _sequence(cast(object, value), "an attribute", MOST_PLACES)
        kinds = {type(each) for each in values}
        if len(kinds) > 1 or not kinds <= {int, float, str} or not all(map(_is_finite, values)):
            raise ModelError(f"an attribute is {quoted(values)}; it must be a list of numbers or of texts")
        return cast(Attribute, tuple(values))
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or not _is_finite(value):
        raise ModelError(f"an attribute is {quoted(value)}; it must be a number, a text or a list of them")
    return value


def _is_finite(value: object) -> bool:
    """Whether a value is no infinity, no NaN and no whole number beyond 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, float) or math.isfinite(value)


def _input(settings: object) -> Input:
    found = _entries(settings, "an input", "name", "kind", "shape")
    shape: object = found["shape"]
    if shape is not None:
        shape = tuple(_sequence(shape, "an input's shape", 16))
        if not all(each is None or isinstance(each, str) or _is_size(each) for each in shape):
            raise ModelError(f"an input's shape is {quoted(shape)}; a size is a number, a name or null")
    return Input(_text(found["name"], "an input"), _kind(found["kind"]), cast("tuple[int | str | None, ...] | None", shape))


def _constant(settings: object) -> Constant:
    found = _entries(settings, "a constant", "kind", "shape", "values")
    kind, shape = _kind(found["kind"]), tuple(_sequence(found["shape"], "a constant's shape", 16))
    if not all(map(_is_size, shape)) or math.prod(cast("tuple[int, ...]", shape)) > MOST_NUMBERS:
        raise ModelError(f"a constant's shape is {quoted(shape)}; it must be sizes of at most {MOST_NUMBERS} numbers in all")
    sizes = cast("tuple[int, ...]", shape)
    if found["values"] is None:
        return Constant(kind, sizes)
    values = tuple(_number(each, kind) for each in _sequence(found["values"], "a constant's values", MOST_WHOLE))
    if len(values) != math.prod(sizes):
        raise ModelError(f"a constant of shape {quoted(sizes)} has {len(values)} values")
    return Constant(kind, sizes, values)


def _number(value: object, kind: str) -> Number:
    """A number of a constant, if it is one of its kind."""
    if kind == "float":
        if isinstance(value, str) and value in ("inf", "-inf"):
            return float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and _is_finite(value):
            return float(value)
    elif kind == "bool":
        if isinstance(value, bool):
            return value
    elif isinstance(value, int) and not isinstance(value, bool) and fits(value, kind):
        return value
    raise ModelError(f"a constant holds {quoted(value)}, which is no {kind}")


def fits(value: int, kind: str) -> bool:
    """Whether a whole number can be one of this kind."""
    bits = int(kind.removeprefix("u").removeprefix("int"))
    return 0 <= value < 2**bits if kind.startswith("u") else -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _entries(settings: object, what: str, *names: str) -> Mapping[str, object]:
    found = _mapping(settings, what)
    if set(found) != set(names):
        raise ModelError(f"{what}: has {shortened(', '.join(map(str, found)))}; needed are {', '.join(names)}")
    return found


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[object, object]", value)):
        raise ModelError(f"{what}: {quoted(cast(object, value))} is no object")
    return cast("dict[str, object]", value)


def _sequence(value: object, what: str, most: int) -> Sequence[object]:
    if not isinstance(value, (list, tuple)):
        raise ModelError(f"{what}: {quoted(value)} is no list")
    found = cast(Sequence[object], value)
    if len(found) > most:
        raise ModelError(f"{what}: {len(found)} are too many; at most {most} are read")
    return found


def _names(value: object, what: str) -> tuple[str, ...]:
    return tuple(_text(each, what) for each in _sequence(value, what, MOST_PLACES))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise ModelError(f"{what}: {quoted(value)} is no name")
    return value


def _name(value: object, what: str) -> str:
    """A name that a part of a module can have."""
    if not NAME.fullmatch(_text(value, what)):
        raise ModelError(f"{what}: {quoted(value)} is no name made of letters, digits and _")
    return cast(str, value)


def _kind(value: object) -> str:
    if value not in KINDS:
        raise ModelError(f"the type {quoted(value)} is not known; known are {', '.join(KINDS)}")
    return cast(str, value)
