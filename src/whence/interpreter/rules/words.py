"""What a recorded step does with relevance, in plain words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whence.interpreter.record.refusal import Unruled
from whence.interpreter.record.step import NORMALISER, Rule, Step, Value
from whence.interpreter.rules.activations import Activation, LogSum, RunningProduct, Softmax
from whence.interpreter.rules.custom import Custom
from whence.interpreter.rules.gates import GatedProduct, LogProduct, Marked
from whence.interpreter.rules.linear import Map
from whence.interpreter.rules.recurrence import Recurrence
from whence.interpreter.rules.routing import Dropout, Pick, Routing
from whence.interpreter.rules.sums import Cumulative, Reduction, Sum
from whence.interpreter.rules.weighted import Weighted

# The first that fits.
WORDS: tuple[tuple[type[Rule], str], ...] = (
    (Unruled, "no rule"),
    (Custom, "your own rule"),
    (Weighted, "weighted connection"),
    (LogProduct, "product, by its logarithms"),
    (GatedProduct, "product"),
    (Cumulative, "running sum"),
    (Reduction, "sum over an axis"),
    (Sum, "sum"),
    (Map, "linear map"),
    (RunningProduct, "product over an axis"),
    (LogSum, "sum, by its logarithms"),
    (Softmax, "softmax"),
    (Activation, "activation"),
    (Marked, "marked as a gate"),
    (Pick, "picks numbers by value"),
    (Dropout, "dropout, switched off"),
    (Routing, "moves numbers"),
)
NORMALISATIONS = {"layer_norm": "normaliser, taken as a constant", "batch_norm": "fixed scale and shift"}
GATES = {"nn.LSTM": "i, f, o", "nn.GRU": "r, z"}  # inside recurrent layers, by PyTorch's names
SOURCES = {"nn.LSTM": "g, c", "nn.GRU": "n, h"}


class Factors(NamedTuple):
    """Which factor of a product is the gate, which the source, and why."""

    gate: str = ""
    source: str = ""
    why: str = ""


def rule_in_words(step: Step) -> str:
    """The kind of rule that a step follows."""
    rule = step.rule
    if isinstance(rule, Recurrence):
        name, _, kind = rule.cell.label.partition(" ")
        cell = f"{name}Cell {kind}".strip() if step.name == rule.cell.step_function else rule.cell.label
        return f"recurrent layer {cell}"
    if isinstance(rule, Weighted) and step.name in NORMALISATIONS:
        return NORMALISATIONS[step.name]
    if isinstance(rule, Activation) and step.outputs and step.outputs[0].rank == NORMALISER:
        return "normaliser"
    if isinstance(rule, Sum) and is_scale(step):
        return "constant scale"
    if isinstance(rule, Routing) and rule.casts:
        return "changes precision or device"
    return next((words for kind, words in WORDS if isinstance(rule, kind)), "rule")


def is_scale(step: Step) -> bool:
    """Whether a sum is a single term, times a constant."""
    return isinstance(step.rule, Sum) and len(step.rule.terms(step)) == 1


def factors_in_words(step: Step, received: Iterable[Value]) -> Factors:
    """The factors of a product, given the inputs that relevance goes on to; nothing for a step that multiplies nothing live."""
    rule, sources = step.rule, list(received)
    if isinstance(rule, Recurrence):
        return _inside(step, rule)
    live = [value for value in step.inputs if value.is_live]
    gates = [value for value in live if value not in sources and value.gate is not None]
    if step.product != "all" and rule.multiplies:
        return Factors(source=made_by(live), why=f'product="{step.product}" gives a part to each factor')
    if isinstance(rule, LogProduct):
        gates = [value for value in live if sources and value not in sources]
        return (
            Factors(made_by(gates), made_by(sources), "logarithms are added, so factors are multiplied") if gates else Factors()
        )
    if not gates:
        is_shared = len(sources) > 1 and (rule.multiplies or isinstance(rule, Weighted))
        return Factors(source=made_by(sources)) if is_shared else Factors()
    why = next(value.gate.why for value in gates if value.gate is not None)
    return Factors(made_by(gates), made_by(sources) if sources else "a constant", why)


def _inside(step: Step, rule: Recurrence) -> Factors:
    gate = GATES.get(rule.cell.label)
    if gate is None:
        return Factors()
    if step.product != "all":
        return Factors(why=f'product="{step.product}" gives a part to each factor')
    return Factors(gate, SOURCES[rule.cell.label], "the paper's rule")


def made_by(values: Sequence[Value]) -> str:
    """Which calls made values, in words; calls that only move numbers are passed over."""
    return ", ".join(dict.fromkeys(_maker(value) for value in values))


def _maker(value: Value) -> str:
    step = value.step
    while step is not None and step.rule.moves and len(step.inputs) == 1:
        value = step.inputs[0]
        step = value.step
    if step is None:
        return "the inputs" if value.is_live else "a constant"
    if value.gate is not None and not value.in_sum and isinstance(step.rule, Sum):
        return f"{step.name} of {made_by(step.inputs)}"  # such as 1 − sigmoid
    return step.name
