"""A decision that the paper's rules leave open: which factor of a product is the gate, and where relevance starts."""

from typing import NamedTuple


class Choice(NamedTuple):
    """What was decided about one operation of a layer. `gate` says which factor is the gate; `times`, how often it ran."""

    layer: str
    operation: str
    gate: str
    why: str
    times: int = 1

    def __str__(self) -> str:
        """One line."""
        where = f"in {self.layer!r}" if self.layer else "in the model itself"
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"{self.operation} {where}{often}: {self.gate}; {self.why}"
