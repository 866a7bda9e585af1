"""What is known about one torch function, however a call of it is spelled; the table of all functions is in `table`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from whence.engine.marks import Args, Function, Kwargs, Node
from whence.engine.rule import Rule
from whence.equations import Product

if TYPE_CHECKING:
    from whence.engine.run import ModelRun

RuleFor = Callable[["ModelRun", Args, Kwargs], Rule]  # which rule it is may depend on the arguments
Reads = Literal["numbers", "form", "nothing"]


@dataclass(frozen=True, eq=False)
class LookUp:
    """A look-up of token ids in a table: `rows` maps ids to vectors, `finish` maps those to the call's result."""

    ids: Tensor
    table: Tensor
    rows: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor], Tensor] = lambda rows: rows
    bag_starts: Tensor | None = None  # where each sample's ids begin, if all are in one 1-d tensor
    lowest: int = 0  # the smallest id that can be looked up; indexing takes negative ones too
    is_bag: bool = False
    is_count: bool = False  # one_hot, which counts as a look-up only of ids that are looked up nowhere else


@dataclass(frozen=True)
class Operation:
    """Everything that is known about one torch function.

    Either `rule` says how relevance passes through it, or `rewrite` computes the same result with calls that have rules.
    A function with neither has no rule.
    """

    name: str
    rule: Rule | RuleFor | None = None
    rewrite: Function | None = None
    # Some calls multiply live factors, and are split into elementwise products for the product rule. Given the node of
    # every tensor argument (None for a constant), and the product rule, this returns a function that does so, or None.
    apart: Callable[[Sequence[Node | None], Product], Function | None] | None = None
    reads: Reads = "numbers"  # "form": only shape, dtype or device; "nothing": the numbers do not matter to it
    reads_like: bool = False  # whether it reads only the form of its arguments after the first
    makes_constant: bool = False  # whether the result does not depend on the numbers of the first argument
    writes: bool = False  # whether every spelling writes into the first argument
    erases: bool = False  # whether its in-place form replaces all of the old content
    weighs: Literal["", "always", "trained"] = ""  # when constants that go through it count as lower neurons of a sum
    # what becomes of token ids: it "moves" them, "casts" them alone, or "computes" each from ids at the same place, as ids + 1
    ids: Literal["", "moves", "casts", "computes"] = ""
    look_up: Callable[[Function, Args, Kwargs], LookUp | None] | None = None
    leaks: bool = False  # whether it hands out memory, which others may read and write unseen
    refused: str = ""  # why a call on explained values is refused, whatever comes of it

    @cached_property
    def is_odd(self) -> bool:
        """Whether it hands out memory, or does not read numbers."""
        return self.leaks or self.reads == "nothing"

    @property
    def has_rule(self) -> bool:
        """Whether relevance can pass through it."""
        return self.rule is not None or self.rewrite is not None


class Table(dict[str, Operation]):
    """Operations by name. A function, its method, its operators and its in-place form share one entry."""

    def __init__(self, lines: Iterable[tuple[Sequence[Operation], Sequence[str]]]) -> None:
        """Each line holds operations that differ only in name, and the operators that call the first of them."""
        super().__init__()
        self.operators: dict[str, str] = {}
        self._spellings: dict[Function, tuple[str, bool]] = {}  # of functions that were met
        for operations, operators in lines:
            for operation in operations:
                assert operation.name not in self, f"{operation.name} has two lines"
                self[operation.name] = operation
            self.operators |= dict.fromkeys(operators, operations[0].name)

    def find(self, function: Function) -> Operation:
        """What is known about a function; for one that is not in the table, only its name."""
        name = self.name_of(function)
        is_property = getattr(function, "__name__", "") == "__get__"  # those that give numbers have a line
        return self.get(name) or Operation(name, reads="form" if is_property else "numbers")

    def name_of(self, function: Function) -> str:
        """The name under which a function, its method, its operator and its in-place form are looked up."""
        name: str = getattr(function, "__name__", repr(function))
        owner: str = getattr(getattr(function, "__self__", None), "__name__", name)
        if name == "__get__" or owner == "_backward_hooks":  # a property getter: the name is the property's
            return owner
        return self.operators.get(name) or (name if name.startswith("__") else name.strip("_"))

    def spelling(self, function: Function) -> tuple[Operation, bool]:
        """What is known about a function, and whether this spelling writes in place: `add_`, `+=`, `y[i] = x`."""
        known = self._spellings.get(function)
        if known is None:
            name: str = getattr(function, "__name__", "")
            ends = name.endswith("_") and not name.endswith("__")
            augments = name.startswith("__i") and f"__{name[3:]}" in self.operators  # __iadd__ beside __add__
            known = self._spellings[function] = self.name_of(function), ends or augments
        operation = self.get(known[0]) or self.find(function)
        return operation, known[1] or operation.writes


# Keyword names of operands that are usually given by position.
OPERANDS = "condition self input tensor tensors mat1 batch1 tensor1 other mat2 batch2 tensor2 vec".split()


def positional(args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """A call's arguments with its operands by position, also where they are given by name: `torch.add(input=x, other=y)`."""
    kwargs = dict(kwargs)
    for name in OPERANDS:
        if name in kwargs:
            args = (*args, kwargs.pop(name))
    return args, kwargs
