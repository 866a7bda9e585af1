"""Which factors of a product carry its content: those of the lowest rank. The others are gates.

The order of precedence is that of the ranks in `marks`: marked by the user, a normaliser, squashed into [0, 1], positive.
"""

from collections.abc import Sequence

from whence.engine.marks import ModelCall, Node


def decide_factors(call: ModelCall, live: Sequence[Node]) -> None:
    """Note what had to be decided about a product, if neither the paper nor the user says which factor is the gate."""
    live = list(dict.fromkeys(live))
    if len(live) < 2:
        return
    ranks = [node.rank for node in live]
    highest, lowest = live[ranks.index(max(ranks))], min(ranks)
    if highest.gate is None or highest.rank == lowest:
        sources = [node for node in live if node.rank == lowest]
        each = "a half" if len(sources) == 2 else f"1/{len(sources)}"
        why = "none came out of a squashing function" if highest.gate is None else "each is a gate of the same rank"
        call.decide("no gate", f"{_made_by(sources)} get {each} each, because {why}")
    elif highest.gate.is_choice:
        call.decide(f"the gate is the result of {_made_by([highest])}", highest.gate.why)


def _made_by(factors: Sequence[Node]) -> str:
    """How factors were computed, in words."""
    return " and ".join("the inputs" if factor.call is None else factor.call.name for factor in factors)
