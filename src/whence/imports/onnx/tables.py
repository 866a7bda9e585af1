"""Finds the tables that a model looks the ids of its inputs up in: they become embeddings, whose vectors are explained."""

from collections.abc import Container, Iterator

from whence.imports.onnx.graph import Constant, Model, Node, all_nodes

# Operators whose results are still ids, each made of one id of the input.
WITHIN = frozenset(
    "Cast Identity Transpose Squeeze Unsqueeze Reshape Flatten Expand Slice Concat Clip Min Max Mod Where".split()
)
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


def _gathers(model: Model, keeping: Container[str]) -> Iterator[tuple[str, Node]]:
    """The inputs that hold ids, each with a node that gathers from a constant by them, or by what `keeping` makes of them."""
    origins = {each.name: {each.name} for each in model.inputs if each.kind != "bool"}
    for node in all_nodes(model.graph):
        if node.op == "Gather" and node.inputs[0] in model.constants:
            for name in origins.get(node.inputs[1], ()):
                yield name, node
        elif node.op in keeping:
            found = {origin for name in node.inputs for origin in origins.get(name, ())}
            if found:
                origins[node.outputs[0]] = found
