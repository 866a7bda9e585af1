"""Finds what the inputs of a model hold: ids of rows in tables, which become embeddings, and lengths of sequences."""

from collections.abc import Container, Iterator

from whence.imports.onnx.graph import Constant, Model, Node, all_nodes

# Operators whose results are still ids, each made of one id of the input.
WITHIN = frozenset(
    "Cast Identity Transpose Squeeze Unsqueeze Reshape Flatten Expand Slice Concat Clip Min Max Mod Where".split()
)
RECURRENT = frozenset(("RNN", "GRU", "LSTM"))
BEYOND = frozenset(("Add", "Sub"))  # these make ids that the input may not have


def look_ups(model: Model) -> Iterator[tuple[str, Constant]]:
    """The inputs whose ids, as they are, must be rows of a constant, each with that constant."""
    for name, node in _gathers(model, WITHIN):
        if _axis(node) == 0:
            yield name, model.constants[node.inputs[0]]


def tables(model: Model) -> dict[str, Constant]:
    """The constants that are embeddings: weights of two axes whose rows are looked up by the ids of an input."""
    found = {
        node.inputs[0]: model.constants[node.inputs[0]]
        for _, node in _gathers(model, WITHIN | BEYOND)
        if _axis(node) in (0, -2)
    }
    return {
        name: each
        for name, each in found.items()
        if each.kind == "float" and each.values is None and len(each.shape) == 2 and each.size
    }


def _axis(node: Node) -> object:
    return node.attributes.get("axis", 0)


def lengths(model: Model) -> set[str]:
    """The inputs that say how many steps of each sample a recurrent layer reads."""
    found: set[str] = set()
    for node, origins in _origins(model, WITHIN):
        if node.op in RECURRENT and len(node.inputs) > 4:
            found |= origins.get(node.inputs[4], set())
    return found


def _gathers(model: Model, keeping: Container[str]) -> Iterator[tuple[str, Node]]:
    """The inputs that hold ids, each with a node that gathers from a constant by them, or by what `keeping` makes of them."""
    for node, origins in _origins(model, keeping):
        if node.op == "Gather" and node.inputs[0] in model.constants:
            for name in origins.get(node.inputs[1], ()):
                yield name, node


def _origins(model: Model, keeping: Container[str]) -> Iterator[tuple[Node, dict[str, set[str]]]]:
    """Every node, with the inputs of the model that each name stands for, as they are or by what `keeping` makes of them."""
    origins = {each.name: {each.name} for each in model.inputs if each.kind != "bool"}
    for node in all_nodes(model.graph):
        yield node, origins
        if node.op in keeping:
            found = {origin for name in node.inputs for origin in origins.get(name, ())}
            if found:
                origins[node.outputs[0]] = found
