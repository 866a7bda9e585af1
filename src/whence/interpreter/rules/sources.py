"""Which factors of a product carry its content: those of the lowest rank. The others are gates.

The order of precedence is that of the ranks in `step`: marked by the user, a normaliser, squashed into [0, 1], positive.
"""

from collections.abc import Sequence

from whence.choice import Choice
from whence.interpreter.record.step import Operand, Step, Value


def rank_of(factor: Operand) -> int:
    """How surely a factor is a gate."""
    return factor.rank if isinstance(factor, Value) else 0


def sources_of(a: Operand, b: Operand) -> Sequence[Operand]:
    """The factors that carry the content of a product: those of the lower rank, both if the ranks are equal."""
    ranks = rank_of(a), rank_of(b)
    return (a, b) if ranks[0] == ranks[1] else (b,) if ranks[0] > ranks[1] else (a,)


def chosen_gate(step: Step, factors: Sequence[Operand]) -> Choice | None:
    """What had to be decided about a product, if neither the paper nor the user says which factor is the gate."""
    live = [factor for factor in factors if isinstance(factor, Value) and factor.is_live]
    highest = max(live, key=rank_of, default=None)
    lowest = min(map(rank_of, live), default=0)
    if highest is None or len({id(factor) for factor in live}) < 2:
        return None
    if highest.gate is None or highest.rank == lowest:
        sources = [factor for factor in live if factor.rank == lowest]
        each = "a half" if len(sources) == 2 else f"1/{len(sources)}"
        why = "none came out of a squashing function" if highest.gate is None else "all came out of one"
        return Choice(step.layer, step.name, "no gate", f"{_made_by(sources)} get {each} each, because {why}")
    if not highest.gate.is_choice:
        return None
    return Choice(step.layer, step.name, f"the gate is the result of {_made_by([highest])}", highest.gate.why)


def _made_by(factors: Sequence[Value]) -> str:
    """How factors were computed, in words."""
    return " and ".join("the inputs" if factor.step is None else factor.step.name for factor in factors)
