"""What a rule is: how one kind of call is recorded, and how it hands relevance back; the kinds live in files of their own.

Two currencies travel back. Between neurons it is relevance `r`. Inside one weighted sum, which may be spelled as many
calls, it is the pair `q` (relevance per unit of the sum, so a term with value v earns v·q) and `s` (the equal share of the
stabiliser and of δ·bias that each of the sum's N lower neurons gets). All carry a leading axis K, one entry per target.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import resolve_name

from whence.errors import NoRuleError, WhenceError
from whence.interpreter.names import name_of
from whence.interpreter.trace import Step, Value, tensors_of

if TYPE_CHECKING:
    from whence.interpreter.samples import Owners
    from whence.interpreter.sweep import Sweep

FanIn = float | Tensor


class Arriving(NamedTuple):
    """What has arrived at a value from everything that used it."""

    r: Tensor | None = None
    q: Tensor | None = None
    s: Tensor | None = None

    def __add__(self, other: object) -> "Arriving":
        assert isinstance(other, Arriving)
        return Arriving(*(plus(mine, theirs) for mine, theirs in zip(self, other, strict=True)))


def plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """a + b, where None is nothing."""
    return b if a is None else a if b is None else a + b


class Rule:
    """One kind of call. The defaults are those of an elementwise operation that ends a sum (an activation, a product)."""

    in_sum = False
    is_users = False  # whether a user wrote it

    def run(self, step: Step) -> Any:
        """Compute the call's result, keeping in `step.saved` what `sweep` will need."""
        return step.again(lambda value: value.tensor)

    def is_gate(self, step: Step) -> bool:
        """Whether the result opens or closes what it is multiplied with."""
        return False

    def continues_sum(self, step: Step) -> bool:
        """Whether the result is a piece of a sum that may still be added to."""
        return self.in_sum

    def receivers(self, step: Step) -> Sequence[Value]:
        """The inputs that relevance goes on to."""
        return [value for value in step.inputs if value.is_live]

    def fan_in(self, step: Step, fan_ins: "dict[Value, FanIn]") -> Sequence[FanIn]:
        """For every output the number N of lower neurons in its sum so far."""
        return [1] * len(step.outputs)

    def bias(self, step: Step, biases: "dict[Value, Tensor | None]") -> Sequence[Tensor | None]:
        """For every output the bias in its sum so far."""
        return [None] * len(step.outputs)

    def owners(self, step: Step, owners: "Owners") -> Sequence[Tensor]:
        """For every output the number of the sample that each element belongs to."""
        agreed = owners.agreed(step, [owners[value] for value in step.inputs if value.is_live])
        return [agreed.expand(value.tensor.shape) for value in step.outputs]

    def sweep(self, step: Step, arriving: "Sequence[Arriving | None]", sweep: "Sweep") -> None:
        """Hand what arrived at the outputs on to the inputs and the ledger."""
        raise NotImplementedError

    def release(self, step: Step) -> None:
        """Give up what a step keeps that others can use."""


class Graph(NamedTuple):
    """PyTorch's own derivative of one call: for a linear map, its adjoint."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]

    def adjoint(self, arriving: Sequence[Tensor | None]) -> list[Tensor]:
        """Carry (K, *output shape) back to (K, *input shape) for every input."""
        targets = next(len(r) for r in arriving if r is not None)
        pairs = [(out, r) for out, r in zip(self.outputs, arriving, strict=True) if r is not None and out.requires_grad]
        if not pairs:  # constants alone, as after y[:] = 0
            return [x.new_zeros(targets, *x.shape) for x in self.inputs]
        outputs, grads = zip(*pairs, strict=True)
        single = targets == 1
        found = torch.autograd.grad(
            outputs,
            list(self.inputs),
            [grad[0] for grad in grads] if single else grads,
            retain_graph=True,
            materialize_grads=True,
            is_grads_batched=not single,
        )
        return [grad[None] for grad in found] if single else list(found)

    def covered(self) -> list[Tensor]:
        """For every output, which part of it comes from an input: 1, or 0 for a constant's, or a half where both tie."""
        return self._probed([torch.ones_like(x) for x in self.inputs])

    def touched(self, marked: Sequence[Tensor]) -> list[Tensor]:
        """For every output, where it changes with the marked elements of the inputs (same shapes, 1 where marked)."""
        return [each != 0 for each in self._probed(marked)]

    def _probed(self, marked: Sequence[Tensor]) -> list[Tensor]:
        """The derivative times the marks, for every output; 0 for one that is a constant."""
        live = [out for out in self.outputs if out.requires_grad]
        if not live:
            return [torch.zeros_like(out) for out in self.outputs]
        with torch.enable_grad():
            probes = [torch.ones_like(out, requires_grad=True) for out in live]
            back = torch.autograd.grad(live, list(self.inputs), probes, create_graph=True, materialize_grads=True)
            reached = torch.stack([(each * mark).sum() for each, mark in zip(back, marked, strict=True)]).sum()
            if not reached.requires_grad:  # every derivative is 0: all was written over
                return [torch.zeros_like(out) for out in self.outputs]
            found = iter(torch.autograd.grad(reached, probes, materialize_grads=True))
        return [next(found) if out.requires_grad else torch.zeros_like(out) for out in self.outputs]


def graph_of(step: Step) -> tuple[Any, Graph]:
    """Make the step's call on fresh leaves for its live values, and keep PyTorch's derivative of it."""
    with torch.enable_grad():
        aliases = {value: value.tensor.detach().requires_grad_() for value in step.inputs if value.is_live}
        result = step.again(
            lambda value: aliases.get(value, value.tensor),
            lambda constant: constant.detach(),
        )
    outputs = [tensor for tensor in tensors_of(result) if tensor.is_floating_point()]
    return result, Graph(tuple(aliases.values()), outputs)


class NoRule(Exception):  # noqa: N818 - the public one is NoRuleError
    """Why a call has no rule; whoever knows the call's name and layer makes a `NoRuleError` of it."""


class Refused(NoRule):
    """A call that spoils the explanation even where no relevance passes through it."""


class Unruled(Rule):
    """A call without a rule: harmless while no relevance reaches it (inside a gate, say, or a comparison)."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    def receivers(self, step: Step) -> Sequence[Value]:
        raise NoRule(self.reason)

    def owners(self, step: Step, owners: "Owners") -> Sequence[Tensor]:
        return [torch.zeros_like(value.tensor, dtype=torch.float64) for value in step.outputs]  # the trail is lost here


def no_rule(function: Callable[..., Any], layer: str, reason: str = "") -> NoRuleError:
    """The error for a call without a rule: which function, in which layer, why, and what to do."""
    name = resolve_name(function) or f"torch.{name_of(function)}"
    where = f"called in {layer!r}" if layer else "called in the model itself"
    because = f": {reason}" if reason else ""
    return NoRuleError(
        f"no rule for {name} ({where}){because}. Add one with @whence.handles({name}), "
        "or use a method that needs no rules, such as method=whence.GradientXInput()."
    )


def unforeseen(step: Step, error: RuntimeError) -> RuntimeError:
    """An error on the way back as one that names the call; our own errors, and those of a user's rule, stay as they are."""
    if isinstance(error, WhenceError) or step.rule.is_users:
        return error
    return no_rule(step.function, step.layer, f"relevance could not be handed back through it ({first_line(error)})")


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
