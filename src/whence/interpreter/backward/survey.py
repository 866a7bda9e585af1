"""A backward pass that only looks: where relevance goes from the outputs, where it is absorbed, and where it cannot pass."""

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor

from whence.equations import Rules
from whence.interpreter.backward.backward_pass import BackwardPass
from whence.interpreter.backward.samples import Samples
from whence.interpreter.record.refusal import NoRule, first_line
from whence.interpreter.record.step import Arriving, Step, Trace, Value


class Survey(BackwardPass):
    """Hands an amount of 1 back from every number of the outputs; the amounts themselves mean nothing.

    A step that refuses relevance does not end it: all its live inputs are surveyed too.
    """

    _adds_parts = False

    def __init__(self, trace: Trace, rules: Rules, *, is_strict: bool = False, head: Collection[Step] = ()) -> None:
        super().__init__(trace, rules, Samples(1, None), head=head)
        self.is_strict = is_strict
        self.received: dict[Step, dict[Value, None]] = {}  # by step that relevance reaches, the inputs that it goes on to
        self.places: dict[Step, dict[str, None]] = {}  # by step, the names of what is absorbed there
        self.refused: dict[Step, str] = {}  # why relevance cannot pass a step

    def look(self, starts: Iterable[Value]) -> None:
        """Go through the whole record, from `starts` to the inputs."""
        self._arriving.update((value, Arriving(r=_ones(value))) for value in starts)
        for step in reversed(self.trace.steps):
            arriving = [self._arriving.pop(value, None) for value in step.outputs]
            if any(each is not None for each in arriving):
                self.received[step] = {}
                self._pass(step, arriving)

    def _pass(self, step: Step, arriving: Sequence[Arriving | None]) -> None:
        """Hand relevance back through a step; if it refuses, note why."""
        choice = step.rule.choice(step) if self.is_strict else None
        if choice is not None:
            self.refused[step] = f"strict=True makes no choice ({choice.gate}; {choice.why})"
        try:
            step.rule.receivers(step)
            step.rule.hand_back(step, arriving, self)
            while self._ends:
                self._ends.pop()()
        except NoRule as reason:
            self.refused[step] = str(reason) or "it has no rule"
            self._go_on(step)
        except Exception as error:  # a user's rule may raise anything
            self.refused[step] = f"relevance could not be handed back through it ({first_line(error)})"
            self._go_on(step)

    def _go_on(self, step: Step) -> None:
        for value in step.inputs:
            if value.is_live:
                is_complex = value.tensor.is_complex()
                self.deliver(step, value, r=None if is_complex else _ones(value), q=_ones(value) if is_complex else None)

    def deliver(
        self,
        step: Step,
        value: Value,
        *,
        r: Tensor | None = None,
        q: Tensor | None = None,
        s: Tensor | None = None,
        n: Tensor | None = None,
    ) -> None:
        """Note that relevance goes from a step to one of its inputs."""
        super().deliver(step, value, r=r, q=q, s=s, n=n)
        if value.is_live:
            self.received[step][value] = None

    def is_in_order(self, value: Value) -> bool:
        """Never: every step has a ledger of its own."""
        return False

    def absorb(self, step: Step, kind: str, amount: Tensor, value: Value, *, part: str = "") -> None:
        """Note that relevance is absorbed at a step, under the name that it has in the ledger."""
        if bool(amount.any()):
            self.places.setdefault(step, {})[".".join(filter(None, (step.layer, part, kind)))] = None

    def absorb_columns(self, step: Step, kind: str, amount: Tensor, value: Value, *, part: str = "") -> None:
        """The same for amounts by column."""
        self.absorb(step, kind, amount, value, part=part)


def _ones(value: Value) -> Tensor:
    return torch.ones_like(value.tensor)[None]
