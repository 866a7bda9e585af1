"""The content of an ONNX file as plain data: a `Model` and its numbers. Nothing is run, except moves of constants."""

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from whence.errors import ModelError
from whence.imports.onnx.graph import (
    MOST_DEPTH,
    MOST_NODES,
    MOST_PLACES,
    OPSETS,
    Attribute,
    Constant,
    Graph,
    Input,
    Model,
    Node,
    Number,
    all_nodes,
    require_sound,
)
from whence.imports.onnx.operators.table import OPERATORS
from whence.imports.onnx.recurrent import is_recurrent, weight_names
from whence.imports.onnx.run import Run
from whence.imports.onnx.tensors import kind_of, tensor_from
from whence.imports.onnx.whole_gelus import with_whole_gelus
from whence.quoting import quoted, shortened

# Operators that only move numbers: they are run when the file is read if all their inputs are constants, since exporters
# rearrange the weights of recurrent layers by them. Their results are no larger than their inputs together.
MOVES = frozenset("Identity Cast Transpose Reshape Flatten Squeeze Unsqueeze Concat Split Slice".split())
MOST_MOVES = 8  # of each number of the file
MOST_MOVED = 2**20  # numbers, beyond those
FEW = 1024  # whole numbers that a constant may have to be among the settings
EXACT = 2**24  # the whole numbers below it are exact as float32
TYPED_ATTRIBUTES = {("Cast", "to"), ("EyeLike", "dtype")}  # attributes that name a type of numbers
STANDARD = ("", "ai.onnx")

Scope = MutableMapping[str, str]


def model_from(proto: Any) -> tuple[Model, dict[str, Tensor]]:
    """The model that a ModelProto describes, and the numbers of its constants."""
    try:
        return _Reader(proto).model()
    except UnicodeError:
        raise ModelError("it has names that are not UTF-8 text") from None


class _Reader:
    """Reads one file: gives every value, node and constant a name of its own, and counts."""

    def __init__(self, proto: Any) -> None:
        self.proto = proto
        versions = [int(each.version) for each in proto.opset_import if each.domain in STANDARD]
        self.opset = max(versions, default=OPSETS.stop - 1 if len(proto.opset_import) else 1)
        if self.opset not in OPSETS:
            raise ModelError(
                f"its opset is {self.opset}; {OPSETS.start} to {OPSETS.stop - 1} are read: export it with another one"
            )
        self.functions: dict[tuple[str, str], Any] = {(each.domain, each.name): each for each in proto.functions}
        self.numbers: dict[str, Tensor] = {}
        self.kinds: dict[str, str] = {}
        self.count = 0
        self.taken: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.left = MOST_MOVED

    def model(self) -> tuple[Model, dict[str, Tensor]]:
        """The whole file."""
        graph = self.proto.graph
        weights = {each.name for each in graph.initializer}
        inputs = tuple(_input(each) for each in graph.input if each.name not in weights)
        scope: Scope = {each.name: self._value(each.name) for each in inputs}  # they keep their names
        if len(scope) != len(inputs):
            raise ModelError("two of its inputs have the same name")
        self._initializers(graph, scope)
        nodes = self._nodes(graph.node, scope, 0)
        outputs = self._found([each.name for each in graph.output], scope, "the outputs need")
        if not outputs or len(outputs) > MOST_PLACES:
            raise ModelError(f"it has {len(outputs)} outputs")
        nodes = with_whole_gelus(nodes, outputs, self.numbers)
        whole = Graph(tuple(each.name for each in inputs), outputs, _needed(nodes, outputs))
        model, numbers = self._with_constants(whole, inputs)
        require_sound(model)
        return model, numbers

    def _initializers(self, graph: Any, scope: Scope) -> None:
        if len(graph.sparse_initializer):
            raise ModelError("it has sparse tensors, which are not read")
        for each in graph.initializer:
            if each.name in scope:
                raise ModelError(f"{quoted(each.name)} is made twice")
            scope[each.name] = self._stored(each.name, *tensor_from(each, f"the tensor {quoted(each.name)}"))

    def _stored(self, name: str, kind: str, numbers: Tensor) -> str:
        """Note a constant of the file."""
        self.left += MOST_MOVES * numbers.numel()
        return self._constant(name, kind, numbers)

    def _constant(self, name: str, kind: str, numbers: Tensor) -> str:
        """Note a constant under a name that a parameter can have."""
        own = self._value(_spelled(name, "constant"))
        self.numbers[own], self.kinds[own] = numbers, kind
        return own

    def _value(self, name: str) -> str:
        return _numbered(name, self.taken)

    def _graph(self, graph: Any, outer: Scope, depth: int) -> Graph:
        """A graph inside a node; it sees the names around it."""
        if depth > MOST_DEPTH:
            raise ModelError(f"its graphs are nested more than {MOST_DEPTH} deep")
        scope: Scope = ChainMap(dict[str, str](), cast("dict[str, str]", outer))
        names = {each.name for each in graph.initializer}
        own: Scope = {}
        self._initializers(graph, own)
        scope.update(own)
        given = [each.name for each in graph.input if each.name not in names]
        inputs = tuple(self._value(name) for name in given)
        scope.update(zip(given, inputs, strict=True))
        nodes = self._nodes(graph.node, scope, depth)
        outputs = self._found([each.name for each in graph.output], scope, "a graph's outputs need")
        nodes = with_whole_gelus(nodes, outputs, self.numbers)
        return Graph(inputs, outputs, _needed(nodes, outputs))

    def _nodes(self, nodes: Iterable[Any], scope: Scope, depth: int) -> list[Node]:
        made: list[Node] = []
        local = scope.maps[0] if isinstance(scope, ChainMap) else scope
        for proto in nodes:
            self.count += 1
            if self.count > MOST_NODES:
                raise ModelError(f"it has more than {MOST_NODES} nodes")
            what = f"the {shortened(proto.op_type)} node {quoted(proto.name)}"
            if max(len(proto.input), len(proto.output)) > MOST_PLACES:
                raise ModelError(f"{what} has more than {MOST_PLACES} inputs or outputs")
            inputs = self._found(proto.input, scope, f"{what} needs")
            if any(name in local for name in proto.output if name):
                raise ModelError(f"{what} makes {quoted(list(proto.output))}, which is made twice")
            scope.update(zip(proto.output, self._made(proto, inputs, scope, made, what, depth), strict=False))
        return made

    def _made(
        self, proto: Any, inputs: tuple[str, ...], scope: Scope, made: list[Node], what: str, depth: int
    ) -> Iterable[str]:
        """The names of what a node makes; the node is added to those made, if it is one that runs."""
        if (proto.domain, proto.op_type) in self.functions:
            return self._inlined(proto, inputs, made, depth)
        if proto.op_type == "Constant" and proto.domain in STANDARD:
            return [self._stored(proto.output[0] if len(proto.output) else "constant", *_value_of(proto, what))]
        name = _numbered(_spelled(proto.name or proto.op_type, proto.op_type), self.parts)
        attributes, graphs = self._attributes(proto, scope, what, depth)
        op = proto.op_type if proto.domain in STANDARD else f"{proto.domain}.{proto.op_type}"
        node = Node(op, name, inputs, tuple(proto.output), attributes, graphs)
        moved = self._moved(node)
        if moved is not None:
            return moved
        outputs = tuple(self._value(each) if each else "" for each in proto.output)
        made.append(Node(op, name, inputs, outputs, attributes, graphs))
        return outputs

    def _inlined(self, proto: Any, inputs: tuple[str, ...], made: list[Node], depth: int) -> Iterable[str]:
        """The nodes of a function in place of its call."""
        function = self.functions[proto.domain, proto.op_type]
        if depth >= MOST_DEPTH:
            raise ModelError(f"its functions are nested more than {MOST_DEPTH} deep")
        versions = {int(each.version) for each in function.opset_import if each.domain in STANDARD}
        if not versions <= {self.opset}:
            raise ModelError(f"its function {quoted(proto.op_type)} has another opset than the model")
        if len(inputs) > len(function.input) or len(proto.output) > len(function.output):
            raise ModelError(f"its function {quoted(proto.op_type)} is called with too many inputs or outputs")
        scope: Scope = dict(zip(function.input, [*inputs, *[""] * len(function.input)], strict=False))
        given = {each.name: each for each in [*function.attribute_proto, *proto.attribute]}
        body: list[Any] = []
        for node in function.node:
            self.count += 1
            if self.count > MOST_NODES:
                raise ModelError(f"it has more than {MOST_NODES} nodes")
            body.append(_filled(node, given))
        made += self._nodes(body, scope, depth + 1)
        return self._found(function.output, scope, "a function's outputs need")[: len(proto.output)]

    def _attributes(self, proto: Any, scope: Scope, what: str, depth: int) -> tuple[dict[str, Attribute], dict[str, Graph]]:
        attributes: dict[str, Attribute] = {}
        graphs: dict[str, Graph] = {}
        if proto.domain not in STANDARD:
            return attributes, graphs  # its operator is not known
        for each in proto.attribute:
            if each.type == 5:
                graphs[each.name] = self._graph(each.g, scope, depth + 1)
            elif (proto.op_type, each.name) == ("ConstantOfShape", "value"):
                kind, numbers = tensor_from(each.t, what)
                if numbers.numel() != 1:
                    raise ModelError(f"{what} fills with {numbers.numel()} numbers; it must be one")
                attributes["kind"], attributes["value"] = kind, numbers.reshape(()).item()
            elif (proto.op_type, each.name) in TYPED_ATTRIBUTES:
                attributes[each.name] = kind_of(int(each.i), what)
            else:
                attributes[each.name] = _plain(each, what)
        return attributes, graphs

    def _found(self, names: Iterable[str], scope: Mapping[str, str], who_needs: str) -> tuple[str, ...]:
        for name in names:
            if name and name not in scope:
                raise ModelError(
                    f"{who_needs} {quoted(name)}, which no input and no node before makes; "
                    "nodes must be in the order they run, without cycles"
                )
        return tuple(scope[name] if name else "" for name in names)

    def _moved(self, node: Node) -> list[str] | None:
        """The names of constants that a node only moves; None if it must run with the model."""
        if node.op not in MOVES or not node.inputs or any(name and name not in self.numbers for name in node.inputs):
            return None
        if OPERATORS[node.op].problems(node) or node.op == "Cast":
            return None
        given = [self.numbers[name] if name else None for name in node.inputs]
        size = sum(each.numel() for each in given if each is not None)
        if size > self.left:
            return None
        self.left -= size
        operator, kind = OPERATORS[node.op], self.kinds[node.inputs[0]]
        keywords = {**node.attributes, **({"outputs": len(node.outputs)} if operator.counts_outputs else {})}
        try:
            results = operator.function(Run(self.opset), *given, **keywords)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the {node.op} node {quoted(node.name)} cannot be run: {shortened(error)}") from None
        found = [results] if isinstance(results, Tensor) else list(results)
        if len(found) < len(node.outputs):
            raise ModelError(f"the {node.op} node {quoted(node.name)} makes {len(found)} outputs, not {len(node.outputs)}")
        return [self._constant(name, kind, each.contiguous()) for name, each in zip(node.outputs, found, strict=False)]

    def _with_constants(self, graph: Graph, inputs: tuple[Input, ...]) -> tuple[Model, dict[str, Tensor]]:
        """The model with the constants that its nodes use; large ones are weights."""
        nodes = list(all_nodes(graph))
        graphs = [graph, *(inner for node in nodes for inner in node.graphs.values())]
        weights = {name for node in nodes if is_recurrent(node) for name in weight_names(node)}
        used = {name for node in nodes for name in node.inputs} | {name for each in graphs for name in each.outputs}
        numbers = {name: each for name, each in self.numbers.items() if name in used}
        constants = {name: _described(name, self.kinds[name], each, name in weights) for name, each in numbers.items()}
        return Model(self.opset, inputs, graph, constants), numbers


def _needed(nodes: list[Node], outputs: Iterable[str]) -> tuple[Node, ...]:
    """The nodes that the outputs depend on."""
    needed, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if any(name in needed for name in node.outputs if name):
            kept.append(node)
            needed.update(node.inputs)
            for graph in node.graphs.values():
                needed.update(graph.outputs)
                needed.update(name for inner in all_nodes(graph) for name in inner.inputs)
                needed.update(name for inner in all_nodes(graph) for each in inner.graphs.values() for name in each.outputs)
    return tuple(reversed(kept))


def _described(name: str, kind: str, numbers: Tensor, is_weight: bool) -> Constant:
    shape = tuple(numbers.shape)
    if kind == "float":
        is_finite = bool(numbers.isfinite().all())
        if numbers.numel() > 1 or is_weight:
            if is_finite:
                return Constant(kind, shape)
            if is_weight or numbers.numel() > FEW:
                raise ModelError(f"the tensor {quoted(name)} holds infinities; the model's weights must be finite")
    elif numbers.numel() > FEW:
        if bool((numbers.long().abs() < EXACT).all()):
            return Constant(kind, shape)
        raise ModelError(f"the tensor {quoted(name)} holds {numbers.numel()} whole numbers beyond {EXACT}, which are too many")
    return Constant(kind, shape, tuple(cast("list[Number]", numbers.reshape(-1).tolist())))


def _input(proto: Any) -> Input:
    what = f"the input {quoted(proto.name)}"
    if not isinstance(proto.name, str) or not 0 < len(proto.name) <= 1000:
        raise ModelError(f"{what} has no usable name")
    if not proto.type.HasField("tensor_type"):
        raise ModelError(f"{what} is no tensor; sequences, maps and optional inputs are not read")
    tensor = proto.type.tensor_type
    kind = kind_of(int(tensor.elem_type), what)
    if not tensor.HasField("shape"):
        return Input(proto.name, kind, None)
    if len(tensor.shape.dim) > 16:
        raise ModelError(f"{what} has {len(tensor.shape.dim)} axes")
    return Input(proto.name, kind, tuple(_size(each) for each in tensor.shape.dim))


def _size(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if 0 < dim.dim_value < 2**31 else None
    name: object = dim.dim_param
    return name[:200] or None if isinstance(name, str) else None


def _plain(attribute: Any, what: str) -> Attribute:
    """An attribute's number, text or list of them."""
    kind = int(attribute.type)
    if kind == 1:
        return float(attribute.f)
    if kind == 2:
        return int(attribute.i)
    if kind == 3:
        return _decoded(attribute.s)
    lists = {6: attribute.floats, 7: attribute.ints, 8: attribute.strings}
    if kind not in lists or len(lists[kind]) > MOST_PLACES:
        raise ModelError(f"{what} has an attribute {quoted(attribute.name)} of a type or size that is not read")
    return tuple(_decoded(each) if kind == 8 else each for each in lists[kind])


def _decoded(text: bytes) -> str:
    if len(text) > 1000:
        raise ModelError("an attribute has a text of more than 1000 bytes")
    return text.decode()


def _value_of(proto: Any, what: str) -> tuple[str, Tensor]:
    """The kind and the numbers of a Constant node."""
    if len(proto.attribute) != 1 or len(proto.output) != 1:
        raise ModelError(f"{what} must have one value and one output")
    each = proto.attribute[0]
    if each.name == "value" and each.HasField("t"):
        return tensor_from(each.t, what)
    kinds = {"value_float": "float", "value_floats": "float", "value_int": "int64", "value_ints": "int64"}
    if each.name not in kinds:
        raise ModelError(f"{what} has {quoted(each.name)}, which is not read")
    value, kind = _plain(each, what), kinds[each.name]
    if isinstance(value, str) or (isinstance(value, tuple) and any(isinstance(one, str) for one in value)):
        raise ModelError(f"{what} holds text, which is not read")
    numbers = torch.tensor(value, dtype=torch.float32 if kind == "float" else torch.int64)
    if kind == "float" and bool(numbers.isnan().any()):
        raise ModelError(f"{what} holds NaN")
    return kind, numbers


def _filled(node: Any, given: Mapping[str, Any]) -> Any:
    """A function's node with the attributes of the call in place of references to them."""
    if not any(each.ref_attr_name for each in node.attribute):
        return node
    copied = type(node)()
    copied.CopyFrom(node)
    del copied.attribute[:]
    for each in node.attribute:
        if not each.ref_attr_name:
            copied.attribute.append(each)
        elif each.ref_attr_name in given:
            own = copied.attribute.add()
            own.CopyFrom(given[each.ref_attr_name])
            own.name = each.name
    return copied


def _spelled(name: str, instead: str) -> str:
    """A name for a part of a module: letters, digits and _."""
    written = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:100] or re.sub(r"[^A-Za-z0-9]+", "_", instead)[:100] or "part"
    written = written if written[0].isalpha() else f"n_{written}"
    return f"{written}_" if hasattr(nn.Module, written) or written in ("graph", "training") else written


def _numbered(name: str, taken: dict[str, int]) -> str:
    """The name, or with a number if it is taken."""
    if name not in taken:
        taken[name] = 1
        return name
    while True:
        taken[name] += 1
        other = f"{name}_{taken[name]}"
        if other not in taken:
            taken[other] = 1
            return other
