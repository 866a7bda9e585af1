"""Puts together a Gelu that an exporter wrote in parts: as one activation, relevance passes through it.

    x · ½ · (1 + erf(x / √2))

In parts it would be a product of two factors that depend on the input, which share the relevance.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from whence.imports.onnx.graph import Node, all_nodes


def with_whole_gelus(nodes: Sequence[Node], outputs: Iterable[str], numbers: Mapping[str, Tensor]) -> list[Node]:
    """The nodes, with a Gelu in place of the last part of each; the other parts are then used by nothing."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    uses = Counter([*outputs, *(name for node in nodes for name in node.inputs)])
    for node in nodes:
        for graph in node.graphs.values():
            uses.update(name for inner in all_nodes(graph) for name in inner.inputs)
    users = {name: node for node in nodes for name in node.inputs}
    whole: dict[str, Node] = {}  # by the name of the last part
    for node in nodes:
        found = _gelu(node, makers, users, uses, numbers) if node.op == "Erf" else None
        if found is not None:
            last, x = found
            whole[last.name] = Node("Gelu", last.name, (x,), last.outputs)
    return [whole.get(node.name, node) for node in nodes]


def _gelu(
    erf: Node, makers: Mapping[str, Node], users: Mapping[str, Node], uses: Mapping[str, int], numbers: Mapping[str, Tensor]
) -> tuple[Node, str] | None:
    """The last part of a Gelu and its input, from its Erf; None if it is something else."""
    if len(erf.inputs) != 1 or len(erf.outputs) != 1:
        return None
    x = _beside(makers.get(erf.inputs[0]), {"Div": math.sqrt(2), "Mul": math.sqrt(0.5)}, numbers)
    shifted = _next(erf, users, uses)
    if x is None or _beside(shifted, {"Add": 1.0}, numbers) != erf.outputs[0] or shifted is None:
        return None
    product = _next(shifted, users, uses)
    if product is None or product.op != "Mul" or len(product.inputs) != 2:
        return None
    (other,) = [name for name in product.inputs if name != shifted.outputs[0]] or [""]
    if _beside(makers.get(other), {"Mul": 0.5}, numbers) == x:  # (½ x) · (1 + erf)
        return product, x
    last = _next(product, users, uses)
    if last is None or last.op != "Mul":
        return None
    if other == x and _beside(last, {"Mul": 0.5}, numbers) == product.outputs[0]:  # (x · (1 + erf)) · ½
        return last, x
    is_halved = _beside(product, {"Mul": 0.5}, numbers) == shifted.outputs[0]
    return (last, x) if is_halved and set(last.inputs) == {product.outputs[0], x} else None  # ((1 + erf) · ½) · x


def _beside(node: Node | None, wanted: Mapping[str, float], numbers: Mapping[str, Tensor]) -> str | None:
    """What an operator has beside a number; None if it is another operator or another number."""
    if node is None or node.op not in wanted or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    if node.op != "Div" and first in numbers:
        first, second = second, first
    number = numbers.get(second)
    if number is None or number.numel() != 1 or first in numbers:
        return None
    return first if math.isclose(float(number), wanted[node.op], rel_tol=1e-4) else None


def _next(node: Node, users: Mapping[str, Node], uses: Mapping[str, int]) -> Node | None:
    """The only user of what a node makes."""
    return users.get(node.outputs[0]) if len(node.outputs) == 1 and uses[node.outputs[0]] == 1 else None
