"""What a record consists of: values, the steps that made them, and the rule of each step.

A step keeps its call with every recorded tensor replaced by its `Value`, so that the call can be repeated with other
tensors of the same shape (fan-ins, biases, sample numbers).

The backward pass hands back two kinds of amounts. Between neurons it is relevance `r`. Inside one weighted sum, which may
be computed by many calls, it is the pair `q` (relevance per unit of the sum: a term with value v gets v·q) and `s` (the
equal share of the stabiliser and of δ·bias that each of the sum's N lower neurons gets). In the sums of a model's head, whose
rule may tell positive from negative contributions, q is for the positive ones and `n` for the negative ones. All have a leading
axis K, one entry per target.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from whence.choice import Choice
from whence.equations import Product, Rules, Sides
from whence.trees import rebuilt

Function = Callable[..., Any]
Args = tuple[object, ...]  # of a call that a model makes
Kwargs = Mapping[str, object]
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]  # of a recorded call, which its rule takes apart
FanIn = float | Tensor
Index = tuple[Any, ...]  # of a tensor (K, ...)


MARKED, NORMALISER, SQUASHED, POSITIVE, SOURCE = 4, 3, 2, 1, 0


class Gate(NamedTuple):
    """Why a value opens or closes what it is multiplied with, and how surely: the factor of the highest rank is the gate.

    The ranks are: marked by the user, a normaliser, squashed into [0, 1] as in the paper, positive (an exponential), and 0 for
    a source. `is_choice`: neither the paper nor the user says so; it was decided here.
    """

    why: str
    rank: int = SQUASHED
    is_choice: bool = False


@dataclass(eq=False, slots=True, repr=False)
class Value:
    """A tensor on the record.

    `is_live`: it depends on an explained input; any other value is computed from constants alone (an initial state).
    `gate`: why it opens or closes what it is multiplied with (it came out of a sigmoid, …); None for a source.
    `in_sum`: it is part of an open sum, a weighted sum that may still be added to; relevance may arrive as `q` and `s`.
    `fixed`: where constants were put beside live numbers, a mask of them; None if there are none, or if it is not known.
    `log`: it is the logarithm of a factor, and this is the factor's rank; None for anything else.
    """

    tensor: Tensor
    step: "Step | None" = None
    is_live: bool = True
    gate: Gate | None = None
    in_sum: bool = False
    log: int | None = None
    fixed: Tensor | None = None

    @property
    def is_gate(self) -> bool:
        """Whether it is a gate."""
        return self.gate is not None

    @property
    def rank(self) -> int:
        """How surely it is a gate; 0 for a source."""
        return SOURCE if self.gate is None else self.gate.rank


Operand = Value | Tensor | float  # of an elementwise call


@dataclass(eq=False, slots=True, repr=False)
class Step:
    """One call that the module made: its rule, its arguments, and the layer that made it."""

    rule: "Rule"
    name: str
    layer: str
    function: Function
    arguments: Arguments
    leaves: Sequence[object]  # of the arguments, in order
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()  # the floating-point tensors of the result
    saved: Any = None  # what the rule keeps for the backward pass
    product: Product = "all"  # the rule that products follow
    is_trained: Callable[[object], bool] = bool  # whether a tensor is a parameter of the model
    is_held: Callable[[object], bool] = bool  # whether it is a parameter or a buffer, or computed from these alone
    is_watched: bool = False  # whether a write to one of its values is found out after the run, so that no copy is needed

    def has_finite_constants(self) -> bool:
        """Whether its constants are finite: weights are, a mask may hold infinities."""
        constants = [leaf for leaf in self.leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        return all(
            self.is_trained(constant) or (constant.layout == torch.strided and bool(constant.isfinite().all()))
            for constant in constants
        )

    def again(self, stand_in: Callable[[Value], Tensor], constant: Callable[[Tensor], Tensor] | None = None) -> Any:
        """Repeat the call with stand-ins for its values and, if `constant` is given, for its constant float tensors."""

        def replaced(leaf: object) -> object:
            if isinstance(leaf, Value):
                return stand_in(leaf)
            if constant is not None and isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
                return constant(leaf)
            return leaf

        args, kwargs = rebuilt(self.arguments, [replaced(leaf) for leaf in self.leaves])
        return self.function(*args, **kwargs)


@dataclass(eq=False, slots=True, repr=False)
class Trace:
    """All steps of a forward pass, in order, and the explained inputs they start from."""

    leaves: list[Value]
    steps: list[Step] = field(default_factory=list["Step"])

    def forget(self) -> None:
        """Break the references between values and steps, so that memory is freed now and not by the garbage collector."""
        for step in self.steps:
            if step.saved is not None:
                step.rule.release(step)
            step.inputs = step.outputs = step.leaves = ()
            step.arguments, step.saved, step.is_trained, step.is_held = ((), {}), None, bool, bool
        self.steps.clear()


def common_gate(values: Sequence[Value]) -> Gate | None:
    """The gate that a result is if everything it is made of is a gate: one of the lowest rank."""
    gates = [value.gate for value in values]
    if not gates or any(gate is None for gate in gates):
        return None
    known = cast(Sequence[Gate], gates)
    lowest = min(known, key=lambda gate: gate.rank)
    return lowest._replace(is_choice=any(gate.is_choice for gate in known))


def common_log(values: Sequence[Value]) -> int | None:
    """The rank of a product of factors, given their logarithms; None if one of them is no logarithm."""
    ranks = [value.log for value in values]
    return None if not ranks or None in ranks else min(cast(Sequence[int], ranks))


class MixedSamplesError(Exception):
    """A step computed one element from two samples, so they are not separate samples."""

    def __init__(self, step: Step) -> None:
        self.step = step


class Owners(dict[Value, Tensor]):
    """For every live value, which of `count` samples each element belongs to: 1, 2, …, and 0 for a constant."""

    def __init__(self, *known: "Iterable[tuple[Value, Tensor]]") -> None:
        super().__init__(*known)
        self.count = 0
        self.partial: set[Value] = set()  # values that may hold constants among elements that belong to a sample

    def agreed(self, step: Step, owners: Sequence[Tensor]) -> Tensor:
        """The common owner of operands that are combined elementwise; constants (0) take the owner of the others."""
        joint = owners[0]
        for other in owners[1:]:
            first, second = cast(Sequence[Tensor], torch.broadcast_tensors(joint, other))
            if ((first != second) & (first != 0) & (second != 0)).any():
                raise MixedSamplesError(step)
            joint = torch.maximum(first, second)
        return joint

    def reduced(self, step: Step, owner: Tensor, axes: Sequence[int]) -> Tensor:
        """The common owner along `axes`, which are kept with size 1."""
        if not axes:
            return owner
        if owner.numel() == 0:
            along = [axis % owner.dim() for axis in axes]
            return owner.new_zeros([1 if axis in along else size for axis, size in enumerate(owner.shape)])
        if all(owner.stride(axis) == 0 for axis in axes):  # an expanded tensor repeats one number: nothing to compare
            for axis in axes:
                owner = owner.narrow(axis, 0, 1)
            return owner
        highest = owner.amax(tuple(axes), keepdim=True)
        if ((owner != highest) & (owner != 0)).any():
            raise MixedSamplesError(step)
        return highest


class Arriving(NamedTuple):
    """What has arrived at a value from everything that used it."""

    r: Tensor | None = None
    q: Tensor | None = None
    s: Tensor | None = None
    n: Tensor | None = None

    def amounts(self) -> dict[str, Tensor]:
        """What has arrived, by name."""
        if self.q is None and self.s is None and self.r is not None and self.n is None:
            return {"r": self.r}
        return {name: own for name, own in zip(self._fields, self, strict=True) if own is not None}

    def has_only(self, dtype: torch.dtype) -> bool:
        """Whether everything has this precision."""
        return (
            (self.r is None or self.r.dtype == dtype)
            and (self.q is None or self.q.dtype == dtype)
            and (self.s is None or self.s.dtype == dtype)
            and (self.n is None or self.n.dtype == dtype)
        )


class Open(NamedTuple):
    """What is handed back inside an open sum: the coefficient q, the share s and, where the sides differ, n."""

    q: Tensor
    s: Tensor | None
    n: Tensor | None = None

    @property
    def sides(self) -> Sides:
        """The coefficients of the positive and of the negative contributions."""
        return Sides(self.q, self.q if self.n is None else self.n)


class Backward(Protocol):
    """What a rule can use of the backward pass. `direction` and `memory` are for recurrent layers only."""

    rules: Rules
    biases: dict[Value, Tensor | None]
    direction: int | None
    memory: dict[str, Tensor] | None
    together: dict[Step, Any]  # what a rule computes for several of its steps at once, by step

    def alike(self, step: Step) -> Sequence[Step]:
        """The steps that relevance passes with the same rule in the same layer, in order."""
        ...

    def at_end(self, enter: Callable[[], None]) -> None:
        """Call a function after the last step, before the ledger is closed."""
        ...

    def is_in_order(self, value: Value) -> bool:
        """Whether the samples of a value (..., n, ·) lie in order along its second-to-last axis."""
        ...

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
        """Hand a step's relevance on to one of its inputs."""
        ...

    def deliver_part(self, step: Step, value: Value, index: Index, amounts: Mapping[str, Tensor]) -> None:
        """Hand relevance on to the elements of an input that an index (K, ...) picks; `amounts` are r, q, s and n by name."""
        ...

    def absorb(self, step: Step, kind: str, amount: Tensor, value: Value, *, part: str = "") -> None:
        """Enter an amount (K, *shape of value) into the ledger as absorbed."""
        ...

    def absorb_columns(self, step: Step, kind: str, amount: Tensor, value: Value, *, part: str = "") -> None:
        """Enter an amount (K, n) that lies along the second-to-last axis of a value (..., n, ·)."""
        ...

    def unfinished(self, step: Step, value: Value, arriving: Arriving | None) -> Open:
        """What is handed back inside an open sum; relevance that arrived at it as a finished neuron is converted."""
        ...

    def held(self, value: Value, arriving: Arriving) -> Tensor:
        """What arrived at a value, as relevance."""
        ...

    def adopt(self, term: Value, total: Value) -> None:
        """Give a term that belongs to no sample the owners of the sum it is added to."""
        ...

    def wants_sums(self, value: Value) -> bool:
        """Whether only sums over a value's last axis are needed."""
        ...

    def remember(self, step: Step, amount: Tensor, value: Value, *, part: str) -> None:
        """Keep the relevance that the states of a recurrent layer carry (K, n, T + 1)."""
        ...


class Rule:
    """One kind of call. The defaults are those of an elementwise operation that ends a sum (an activation, a product)."""

    in_sum = False  # whether the result is part of an open sum
    is_users = False  # whether a user wrote it
    moves = False  # whether every element of the result is an element of the inputs or a constant
    rearranges = False  # whether it moves elements by position, not by value, and adds none of its own
    fills = False  # whether it moves elements by position, and fills other places with numbers of its own
    squashes = False  # whether it changes the sign of some scores, so that relevance starts before it at the end of a model
    casts = False  # whether it only changes precision or device
    multiplies = False  # whether it multiplies a gate with its source
    combines = False  # whether it combines its inputs and numbers by + − ×
    has_sides = False  # whether it can tell the positive contributions to its sum from the negative ones

    def run(self, step: Step) -> object:
        """Compute the call's result, keeping in `step.saved` what `hand_back` will need."""
        return step.again(lambda value: value.tensor)

    def lasts(self, step: Step) -> bool:
        """Whether what it saved in a step holds for other numbers too, so that making the call again is all there is to do."""
        return type(self).run is Rule.run

    def is_finite(self, step: Step) -> bool:
        """Whether its results are surely finite, if its live inputs and the model's weights are."""
        return False

    def gate_of(self, step: Step) -> Gate | None:
        """Why the result opens or closes what it is multiplied with; None if it is a source."""
        return None

    def fixed_of(self, step: Step) -> "Sequence[Tensor] | None":
        """For every output a mask of the constants in it; None if there are none, or if it is not known."""
        return None

    def log_of(self, step: Step) -> int | None:
        """The rank of the factor whose logarithm the result is; None if it is no logarithm."""
        return None

    def choice(self, step: Step) -> Choice | None:
        """What had to be decided for relevance to pass through this call; None if nothing had to."""
        return None

    def continues_sum(self, step: Step) -> bool:
        """Whether the result is part of an open sum."""
        return self.in_sum

    def moves_rows(self, step: Step) -> bool:
        """Whether it moves whole rows and leaves the last axis alone, so that sums over that axis can be handed back too."""
        return False

    def scaled(self, step: Step, amount: Tensor) -> "Sequence[tuple[Value, Tensor]]":
        """An amount (K, *shape of the result) times the scale of each live term, if the call is a sum of nothing else."""
        return []

    def receivers(self, step: Step) -> Sequence[Value]:
        """The inputs that relevance goes on to."""
        return [value for value in step.inputs if value.is_live]

    def fan_in(self, step: Step, fan_ins: dict[Value, FanIn]) -> Sequence[FanIn]:
        """For every output the number N of lower neurons in its sum so far."""
        return [1] * len(step.outputs)

    def counts_alike(self, step: Step) -> bool:
        """Whether its fan-in follows from the structure of a model, if those of its inputs do: it depends on no number."""
        return False

    def bias(self, step: Step, biases: dict[Value, Tensor | None]) -> Sequence[Tensor | None]:
        """For every output the bias in its sum so far."""
        return [None] * len(step.outputs)

    def sides(self, step: Step, known: Mapping[Value, Sides], *, of_bias: bool = False) -> Sequence[Sides]:
        """For every output the sums of the positive and of the negative contributions; those of its biases if `of_bias`.

        A value that is not `known` is one contribution.
        """
        raise NotImplementedError

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        """For every output the number of the sample that each element belongs to."""
        agreed = owners.agreed(step, [owners[value] for value in step.inputs if value.is_live])
        return [agreed.expand(value.tensor.shape) for value in step.outputs]

    def owners_back(self, step: Step, value: Value, out: Value, owner: Tensor) -> Tensor | None:
        """The owners of an input's elements, given those of an output; None if they cannot be told."""
        shape, given = value.tensor.shape, out.tensor.shape
        if shape == given:
            return owner
        if len(shape) > len(given):
            return None
        padded = (*(1,) * (len(given) - len(shape)), *shape)
        if any(size not in (1, full) for size, full in zip(padded, given, strict=True)):
            return None
        spread = [axis for axis, size in enumerate(padded) if size == 1 and given[axis] != 1]
        lowest, highest = (owner.amin(spread, keepdim=True), owner.amax(spread, keepdim=True)) if spread else (owner, owner)
        return torch.where(lowest == highest, highest, 0.0).reshape(shape)

    def reads(self, step: Step) -> Sequence[Value]:
        """The values whose numbers `hand_back` needs; those of a sum's outputs only if relevance arrives there as `r`."""
        return *step.inputs, *step.outputs

    def finishes(self, step: Step, value: Value, finished: "set[Value]") -> bool:
        """Whether an input may receive relevance as `r`, a finished neuron's, where only the outputs in `finished` do."""
        return True

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        """Hand what arrived at the outputs on to the inputs and the ledger."""
        raise NotImplementedError

    def release(self, step: Step) -> None:
        """Give back buffers of the step that later calls can reuse."""
