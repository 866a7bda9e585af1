"""The ledger of one way back: what was absorbed, by layer and by what absorbed it, for every sample."""

from typing import TYPE_CHECKING

from torch import Tensor

from whence.engine.marks import ModelCall, Node
from whence.equations import absorbed_by_bias

if TYPE_CHECKING:
    from whence.engine.run import ModelRun


def key_of(call: ModelCall | None, kind: str, part: str = "") -> str:
    """The name of an amount: the layer, the part of it, and what absorbed the amount."""
    return ".".join(filter(None, (call.layer if call is not None else "", part, kind)))


class Ledger:
    """Amounts by name. Those that lie alike are added up before they are summed over each sample."""

    def __init__(self, run: "ModelRun") -> None:
        self.run, self.samples, self.rules = run, run.samples, run.rules
        self._totals: dict[str, Tensor] = {}
        self._names: dict[str, None] = {}  # in the order in which amounts came
        self._waiting: dict[tuple[object, ...], tuple[Tensor, Node, ModelCall | None, tuple[int, ...]]] = {}
        self._biases: dict[tuple[object, ...], tuple[Tensor, Tensor, Node, ModelCall]] = {}

    def absorb(
        self, call: ModelCall | None, kind: str, amount: Tensor, node: Node, shape: tuple[int, ...], *, part: str = ""
    ) -> None:
        """Enter an amount that lies in a tensor with this node and shape."""
        name = key_of(call, kind, part)
        self._names[name] = None
        if self.run.places is not None:
            self._place(call, name, amount)
        if self.run.is_audit:
            self.run.note_gap(call, -self.samples.totals(amount, node.owner, shape, ""))
        entry = name, node.owner if isinstance(node.owner, int) else id(node), shape, amount.shape, amount.dtype
        known = self._waiting.get(entry)
        self._waiting[entry] = (amount if known is None else known[0] + amount), node, call, shape

    def absorb_bias(self, call: ModelCall, bias: Tensor, q: Tensor, node: Node) -> None:
        """Enter what stops at a bias,  (1 − δ) b q;  of one bias, the coefficients are added up first."""
        if self.rules.delta == 1:
            return
        if self.run.places is not None:  # a survey asks call by call
            self.absorb(call, "bias", absorbed_by_bias(bias, q=q, rules=self.rules), node, tuple(q.shape))
            return
        self._names[key_of(call, "bias")] = None
        entry = (
            bias.data_ptr(),
            bias.shape,
            call.layer,
            node.owner if isinstance(node.owner, int) else id(node),
            q.shape,
            q.dtype,
        )
        known = self._biases.get(entry)
        self._biases[entry] = bias, (q if known is None else known[1] + q), node, call

    def enter(self, call: ModelCall, kind: str, totals: Tensor, *, part: str = "") -> None:
        """Enter amounts by sample (B,), or (K, B) for several targets at once."""
        name = key_of(call, kind, part)
        self._names[name] = None
        self._place(call, name, totals)
        self.run.note_gap(call, -totals)
        self._totals[name] = self._totals[name] + totals if name in self._totals else totals

    def _place(self, call: ModelCall | None, name: str, amount: Tensor) -> None:
        """Note where an amount was absorbed, for a survey."""
        if self.run.places is not None and call is not None and bool(amount.any()):
            self.run.places.setdefault(call, {})[name] = None

    def close(self) -> dict[str, Tensor]:
        """The amounts by name, (B,) each."""
        for bias, q, node, call in self._biases.values():
            self.absorb(call, "bias", absorbed_by_bias(bias, q=q, rules=self.rules), node, tuple(q.shape))
        self._biases.clear()
        for (name, *_), (amount, node, call, shape) in self._waiting.items():
            totals = self.samples.totals(amount.detach(), node.owner, shape, call.layer if call is not None else "")
            self._totals[str(name)] = self._totals[str(name)] + totals if name in self._totals else totals
        self._waiting.clear()
        return {name: self._totals[name] for name in self._names}
