"""The way back through a run: from the scores of every target to the explained inputs, on PyTorch's own graph."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from whence.engine import neurons
from whence.engine.graph import Cut
from whence.engine.ledger import Ledger
from whence.engine.refusal import first_line
from whence.engine.rule import OverwrittenError
from whence.engine.run import ModelRun
from whence.engine.starts import Start
from whence.errors import NoRuleError, WhenceError


class Arrived(NamedTuple):
    """The relevance (K, *shape) of every explained input, and what was absorbed, (K, B) by name."""

    relevance: list[Tensor]
    absorbed: dict[str, Tensor]


def way_back(run: ModelRun, start: Start) -> Arrived:
    """Hand the scores of all K targets back. The graph is used up.

    For several targets, the graph is cut at the recurrent layers, which hand them back all at once.
    """
    run.require_unwritten()
    leaves = [cast(Tensor, leaf) for leaf in run.leaves]
    targets = len(start.origins[0].mask)
    run.ledgers = [Ledger(run) for _ in range(targets)]
    known = _Known(leaves, run.cuts, targets)
    rest = [origin.mark.rests for origin in start.origins]  # of these, multipliers go back
    pairs = list(zip(start.origins, rest, strict=True))
    ends = [run.rested(each.tensor, each.mark)[0] if rests else run.finished(each.tensor, each.mark) for each, rests in pairs]
    known.walk(run, ends, [each.mask if rests else each.amounts() for each, rests in pairs], len(run.cuts))
    for place in reversed(range(len(run.cuts))):
        known.walk_past(run, place)
    closed = [ledger.close() for ledger in run.ledgers]
    names = dict.fromkeys(name for each in closed for name in each)
    count = run.samples.count
    zero = leaves[0].new_zeros(count)
    absorbed = {name: rows_of([each.get(name, zero) for each in closed]) for name in names}
    return Arrived([known.whole(leaf) for leaf in leaves], absorbed)


def rows_of(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape as the rows of one; a single one is not copied."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack(list(tensors))


def _grad(total: Tensor, wanted: Sequence[Tensor], *, retain_graph: bool) -> Sequence[Tensor | None]:
    """PyTorch's own way back; an error of ours on it becomes one sentence."""
    try:
        return cast(Sequence[Tensor | None], torch.autograd.grad(total, wanted, retain_graph=retain_graph, allow_unused=True))
    except (WhenceError, OverwrittenError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if "inplace" in str(error):  # the model wrote over numbers: it runs again with copies
            raise OverwrittenError from error
        raise NoRuleError(f"relevance could not be handed back through the model ({first_line(error)})") from error


class _Known:
    """What has arrived so far at the explained inputs and at the cuts of the graph, for every target."""

    def __init__(self, leaves: Sequence[Tensor], cuts: Sequence[Cut], targets: int) -> None:
        self.leaves, self.cuts, self.targets = leaves, cuts, targets
        self._rows: dict[int, list[Tensor | None]] = {}

    def walk(self, run: ModelRun, ends: Sequence[Tensor], amounts: Sequence[Tensor], cuts: int) -> None:
        """Go back from some tensors with amounts (K, *shape) to the inputs and to the first `cuts` cuts."""
        wanted = [*self.leaves, *(leaf for cut in self.cuts[:cuts] for leaf in cut.leaves)]
        for k in range(self.targets):
            run.target = k
            is_last = k == self.targets - 1 and not self.cuts
            found = _grad(
                neurons.Started.apply([own[k] for own in amounts], *ends), [*wanted, run.anchor], retain_graph=not is_last
            )
            for leaf, r in zip(wanted, found, strict=False):
                if r is not None:
                    rows = self._rows.setdefault(id(leaf), [None] * self.targets)
                    known = rows[k]
                    rows[k] = r if known is None else known + r

    def walk_past(self, run: ModelRun, place: int) -> None:
        """Hand what arrived at a cut back through its recurrent call, for all targets at once, and go on."""
        cut = self.cuts[place]
        arrived = [self.at(leaf) for leaf in cut.leaves]
        if any(r is not None for r in arrived):
            found = cut.followed.back(arrived, cut.tensors[0].detach(), [each.detach() for each in cut.tensors[1:]])
            live = [n for n, each in enumerate(cut.followed.live) if each]
            self.walk(run, [cut.tensors[n] for n in live], [found[n] for n in live], place)

    def at(self, leaf: Tensor) -> Tensor | None:
        """What arrived at a tensor, (K, *shape); None if nothing did."""
        rows = self._rows.get(id(leaf))
        if rows is None or (len(rows) == 1 and rows[0] is not None):
            return None if rows is None else cast(Tensor, rows[0])[None]
        return torch.stack([leaf.detach().new_zeros(leaf.shape) if r is None else r for r in rows])

    def whole(self, leaf: Tensor) -> Tensor:
        """The same, with zeros where nothing arrived."""
        rows = self.at(leaf)
        return leaf.detach().new_zeros(self.targets, *leaf.shape) if rows is None else rows
