"""What is known of a tensor while a model runs: its mark, the open sum that it is part of, and the call that made it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, autograd

from whence.choice import Choice
from whence.equations import Product, Sides

if TYPE_CHECKING:
    from whence.engine.rule import Rule

Function = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Owner = int | Tensor | None  # see `samples`
Rest = float | Tensor | Callable[[], Tensor] | None
Resting = Callable[[], "tuple[Tensor, OpenSum]"]

KEY = "_whence"  # the attribute of a tensor that holds its mark
# what runs in every call of a function with a derivative of its own
OWN_FUNCTION = cast(Any, autograd.Function.apply).__func__.__code__
MARKED, NORMALISER, SQUASHED, POSITIVE, SOURCE = 4, 3, 2, 1, 0
PART, WHOLE = 1, 2


class Gate(NamedTuple):
    """Why a value opens or closes what it is multiplied with, and how surely: the factor of the highest rank is the gate.

    The ranks are: marked by the user, a normaliser, squashed into [0, 1] as in the paper, positive (an exponential), and 0 for
    a source. `is_choice`: neither the paper nor the user says so; it was decided here.
    """

    why: str
    rank: int = SQUASHED
    is_choice: bool = False


@dataclass(eq=False, slots=True)
class OpenSum:
    """A weighted sum that may still be added to.

    `wire`: N, the number of lower neurons, as a tensor like the sum; what goes back through it is the share s. None if nothing
    is shared. `count`: N, where it is the same everywhere. `bias`: the biases in the sum, where they are needed. `call`: the
    call that added to it last, for the ledger.
    """

    call: "ModelCall"
    wire: Tensor | None = None
    count: float | None = None
    bias: Tensor | None = None
    sides: Sides | None = None
    bias_sides: Sides | None = None  # of a sum with sides: its biases, each on the side of its sign
    is_laid_out: bool = False  # of a buffer: wire and biases lie in memory of their own, like the buffer
    rest: Tensor | None = None  # what it is when the sums below it are 0; then what goes back is a multiplier, and never ends

    def each(self, made: Callable[[Tensor], Tensor]) -> "OpenSum":
        """The sum after a call that does the same with all of its parts: wire, biases and sides."""
        wire, bias, rest = (None if part is None else made(part) for part in (self.wire, self.bias, self.rest))
        sides, biases = (
            None if pair is None else Sides(made(pair.up), made(pair.down)) for pair in (self.sides, self.bias_sides)
        )
        return OpenSum(self.call, wire, self.count, bias, sides, biases, rest=rest)


@dataclass(eq=False, slots=True)
class Node:
    """A value that is followed: what is known of it apart from its numbers. It may outlive its tensor.

    `is_live`: it depends on what is explained; otherwise it is a constant that counts as a lower neuron. `gate`: why it opens
    or closes what it is multiplied with; None for a source. `log`: it is the logarithm of a factor, and this is the factor's
    rank. `owner`: which sample each element belongs to. `in_sum`: it is part of an open sum.
    """

    call: "ModelCall | None" = None
    is_live: bool = True
    gate: Gate | None = None
    log: int | None = None
    owner: Owner = None
    is_infinite: bool = False
    in_sum: bool = False

    @property
    def rank(self) -> int:
        """How surely it is a gate; 0 for a source."""
        return SOURCE if self.gate is None else self.gate.rank


@dataclass(eq=False, slots=True, weakref_slot=True)
class Mark:
    """What a tensor carries: its node, and how it stands on the graph.

    `sum`: the open sum that it is, None for a finished neuron. `fixed`: a mask of the constants in it. `before`: how to get the
    scores before the function that squashed it.
    """

    run: object
    node: Node
    version: int
    sum: OpenSum | None = None
    fixed: Tensor | None = None
    is_buffer: bool = False  # it is written to in place, so that its views follow it
    done: Tensor | None = None  # the same, finished
    twin: Tensor | None = None  # the same, made of neurons that were finished before; of a buffer, written to like it
    # constants in a buffer, and where
    ownerless: list[tuple[Node, Callable[[Tensor], Tensor]]] = field(default_factory=cast(Any, list))
    late: "Late | None" = None  # what hands its relevance on to another, until it is put on the graph
    carrier: Tensor | None = None  # for a tensor off the graph: the neuron on it that gets its relevance
    alias: Tensor | None = None  # the same tensor, out of reach of who detaches it
    before: "Before | Contents | None" = None
    uncast: "tuple[Tensor, Mark] | None" = None  # what it was before it changed its precision, and that one's mark
    rest: "Rest" = None  # of a finished neuron: what it is when the sum below it is 0
    resting: "Resting | None" = None  # how it stands as a sum with its value at rest, where that is another way
    exponent: "Known | None" = None  # it is the exponential of this
    partition: "tuple[Known, tuple[int, ...]] | None" = None  # it is the sum of the exponentials of this over axes
    shifted: "tuple[Known, Known] | None" = None  # it is the first less the second
    state: int = 0  # it is a gate times a constant, which may be a former state; WHOLE: it has its form
    log_sums: tuple[int, ...] | None = None  # there is a log Σ exp(z) over these axes in it

    @property
    def rests(self) -> bool:
        """Whether it has a value at rest other than 0."""
        return self.rest is not None or self.stands_apart

    @property
    def is_gated(self) -> bool:
        """Whether it is a gate times a source."""
        call = self.node.call
        return not self.rests and self.node.gate is None and call is not None and call.rule.multiplies

    @property
    def stands_apart(self) -> bool:
        """Whether it is a sum with a value at rest, or stands as one when it is asked for."""
        return self.resting is not None or (self.sum is not None and self.sum.rest is not None)

    @property
    def is_live(self) -> bool:
        """Whether it depends on what is explained."""
        return self.node.is_live

    @property
    def call(self) -> "ModelCall | None":
        """The call that made it."""
        return self.node.call

    @property
    def gate(self) -> Gate | None:
        """Why it is a gate."""
        return self.node.gate

    @property
    def rank(self) -> int:
        """How surely it is a gate."""
        return self.node.rank

    @property
    def log(self) -> int | None:
        """The rank of the factor whose logarithm it is."""
        return self.node.log

    @property
    def is_infinite(self) -> bool:
        """Whether it may hold infinities."""
        return self.node.is_infinite

    @property
    def owner(self) -> Owner:
        """Which sample each element belongs to."""
        return self.node.owner

    def clear(self) -> None:
        """Break the references to tensors, which refer to this mark."""
        self.ownerless.clear()
        self.sum = self.done = self.twin = self.late = self.carrier = None
        self.alias = self.before = self.fixed = self.uncast = None
        self.rest = self.resting = self.exponent = self.partition = self.shifted = None


@dataclass(eq=False, slots=True)
class Before:
    """A result that squashed scores lead to by moves alone: what to call again with the scores in their place."""

    call: "ModelCall"
    args: Args
    kwargs: Kwargs
    place: int  # which of the outputs
    squashes: bool
    versions: tuple[tuple[Tensor, int], ...] = ()  # the arguments as they were


class Known(NamedTuple):
    """A tensor, its mark, and how often it had been written to."""

    tensor: Tensor
    mark: Mark
    version: int

    @property
    def is_current(self) -> bool:
        """Whether it still holds the same numbers."""
        return self.tensor._version == self.version


class Late(NamedTuple):
    """The neuron that gets all relevance of a gate or a product, its mark, and how often it had been written to."""

    x: Tensor
    mark: Mark
    version: int


class Written(NamedTuple):
    """A write into a buffer: its content and what was known of it, and how to read and to write that place in other memory."""

    content: Tensor
    mark: Mark | None
    read: Callable[[Tensor], Tensor]
    put: Callable[[Tensor, Tensor], None]


class Contents(NamedTuple):
    """What was written into a buffer, in order, where squashed scores are among it."""

    writes: tuple[Written, ...]


@dataclass(eq=False, slots=True)
class Constant:
    """The mark of a tensor that a seen call made of constants. `is_held`: of parameters and buffers alone."""

    run: object
    version: int
    is_held: bool = False
    is_finite: bool = False
    is_zero: bool = False


@dataclass(eq=False, slots=True)
class ModelCall:
    """One call that the model made: its rule, its layer, and what was decided about it. It holds no numbers.

    `sources`: the inputs that relevance goes on to. `choice`: what had to be decided for that. `refused`: why relevance cannot
    pass. `is_mixed`: an element was computed from two samples.
    """

    rule: "Rule"
    name: str
    layer: str
    function: Function
    product: Product
    inputs: tuple[Node, ...] = ()
    outputs: tuple[Node, ...] = ()
    sources: tuple[Node, ...] = ()
    choice: Choice | None = None
    cut: str = ""  # what cuts it off PyTorch's graph in the model
    refused: str | None = None
    is_mixed: bool = False
    weights: Sequence[Tensor] = ()  # of a dense layer
    terms: int = 0  # of a sum, those that are followed
    is_layer: bool = False  # it connects what is explained with weights that the model holds
    is_trained: bool = False  # these weights are parameters
    is_scale: bool = False  # it multiplies by a constant
    is_complex: bool = False  # it gives complex numbers
    sideless: str = ""  # why its positive and negative contributions cannot be told apart
    tensors: Sequence[Tensor] = ()  # the operands, while the call is made
    marks: Sequence["Mark | None"] = ()  # and what is known of them

    def decide(self, gate: str, why: str) -> None:
        """Note a choice."""
        self.choice = Choice(self.layer, self.name, gate, why)


def put_mark(tensor: Tensor, mark: "Mark | Constant") -> None:
    """Put a mark on a tensor."""
    tensor.__dict__[KEY] = mark  # pyright: ignore[reportIndexIssue]


def cut_by(name: str) -> str:
    """What cuts a call off PyTorch's graph in the model: "detach", "no_grad", or "" for nothing.

    A user's own `autograd.Function`, too, runs its forward pass without a graph ("function"), but has a derivative.
    """
    if name in ("detach", "data"):
        return "detach"
    if torch.is_grad_enabled():
        return ""
    return "function" if is_in_own_function() else "no_grad"


def is_in_own_function() -> bool:
    """Whether a user's own `autograd.Function` is running."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is OWN_FUNCTION:
            return True
        frame = frame.f_back
    return False


def common_gate(nodes: Sequence[Node]) -> Gate | None:
    """The gate that a result is if everything it is made of is a gate: one of the lowest rank."""
    gates = [node.gate for node in nodes]
    if not gates or None in gates:
        return None
    known = cast(Sequence[Gate], gates)
    lowest = min(known, key=lambda gate: gate.rank)
    return lowest._replace(is_choice=any(gate.is_choice for gate in known))


def common_log(nodes: Sequence[Node]) -> int | None:
    """The rank of a product of factors, given their logarithms; None if one of them is no logarithm."""
    ranks = [node.log for node in nodes]
    return None if not ranks or None in ranks else min(cast(Sequence[int], ranks))
