"""What a call does with relevance, in plain words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whence.engine.activations import Activation
from whence.engine.marks import NORMALISER, ModelCall, Node
from whence.engine.products import LogProduct
from whence.engine.recurrence import Recurrence
from whence.engine.sums import Sum
from whence.engine.weighted import Weighted

NORMALISATIONS = {"layer_norm": "normaliser, taken as a constant", "batch_norm": "fixed scale and shift"}
GATES = {"nn.LSTM": "i, f, o", "nn.GRU": "r, z"}  # inside recurrent layers, by PyTorch's names
SOURCES = {"nn.LSTM": "g, c", "nn.GRU": "n, h"}


class Factors(NamedTuple):
    """Which factor of a product is the gate, which the source, and why."""

    gate: str = ""
    source: str = ""
    why: str = ""


def rule_in_words(call: ModelCall) -> str:
    """The kind of rule that a call follows."""
    rule = call.rule
    if isinstance(rule, Recurrence):
        name, _, kind = rule.cell.label.partition(" ")
        cell = f"{name}Cell {kind}".strip() if call.name == rule.cell.step_function else rule.cell.label
        return f"recurrent layer {cell}"
    if isinstance(rule, Weighted) and call.name in NORMALISATIONS:
        return NORMALISATIONS[call.name]
    if isinstance(rule, Activation) and call.outputs and call.outputs[0].rank == NORMALISER:
        return "normaliser"
    if isinstance(rule, Sum) and call.is_scale:
        return "constant scale"
    return rule.words


def factors_in_words(call: ModelCall, received: Iterable[Node]) -> Factors:
    """The factors of a product, given the inputs that relevance goes on to; nothing for a call that multiplies nothing live."""
    rule, sources = call.rule, list(received)
    if isinstance(rule, Recurrence):
        return _inside(call, rule)
    live = [node for node in call.inputs if node.is_live]
    gates = [node for node in live if node not in sources and node.gate is not None]
    if call.product != "all" and rule.multiplies:
        return Factors(source=made_by(live), why=f'product="{call.product}" gives a part to each factor')
    if isinstance(rule, LogProduct):
        gates = [node for node in live if sources and node not in sources]
        return (
            Factors(made_by(gates), made_by(sources), "logarithms are added, so factors are multiplied") if gates else Factors()
        )
    if not gates:
        is_shared = len(sources) > 1 and (rule.multiplies or isinstance(rule, Weighted))
        return Factors(source=made_by(sources)) if is_shared else Factors()
    why = next(node.gate.why for node in gates if node.gate is not None)
    return Factors(made_by(gates), made_by(sources) if sources else "a constant", why)


def _inside(call: ModelCall, rule: Recurrence) -> Factors:
    gate = GATES.get(rule.cell.label)
    if gate is None:
        return Factors()
    if call.product != "all":
        return Factors(why=f'product="{call.product}" gives a part to each factor')
    return Factors(gate, SOURCES[rule.cell.label], "the paper's rule")


def made_by(nodes: Sequence[Node]) -> str:
    """Which calls made nodes, in words; calls that only move numbers are passed over."""
    return ", ".join(dict.fromkeys(_maker(node) for node in nodes))


def _maker(node: Node) -> str:
    call = node.call
    while call is not None and call.rule.moves and len(call.inputs) == 1:
        node = call.inputs[0]
        call = node.call
    if call is None:
        return "the inputs" if node.is_live else "a constant"
    if node.gate is not None and not node.in_sum and isinstance(call.rule, Sum):
        return f"{call.name} of {made_by(call.inputs)}"  # such as 1 − sigmoid
    return call.name
