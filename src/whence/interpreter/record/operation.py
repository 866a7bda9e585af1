"""What is known of one torch function, under whatever spelling it is called; the table of all of them is in `rules`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

from whence.equations import Product
from whence.interpreter.record.step import Arguments, Rule

Function = Callable[..., Any]
Choice = Callable[[Arguments, Callable[[object], bool], Product], Rule]  # arguments, whether trained, the rule of products
Reads = Literal["numbers", "form", "nothing"]


class LookUp(NamedTuple):
    """Token ids that are looked up in a table: `rows` gives the vectors of ids, `finish` makes the call's result of them."""

    ids: Any
    table: Tensor
    rows: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor], Tensor] = lambda rows: rows
    bag_starts: Tensor | None = None  # where each sample's ids begin, when all lie in one line


@dataclass(frozen=True)
class Operation:
    """One torch function, with all that the interpreter has to know of it.

    Either `rule` says how relevance passes through it, or `rewrite` makes the same call in parts that have rules of their own.
    A function with neither has no rule.
    """

    name: str
    rule: Rule | Choice | None = None
    rewrite: Function | None = None
    # The same call as products of single numbers, where the product rule has to see them: from whether each tensor argument is
    # live and the rule of products to a function, or None.
    apart: Callable[[Sequence[bool], Product], Function | None] | None = None
    out_of_place: Function | None = None  # what the in-place spelling computes, unless the method of the same name does
    reads: Reads = "numbers"  # "form": it tells of shape, type or device alone; "nothing": it leaves the numbers alone
    reads_like: bool = False  # whether only the form of the arguments behind the first one is read
    makes_constant: bool = False  # whether the result is a constant whatever the first argument is
    writes: bool = False  # whether it writes into its first argument under any spelling
    erases: bool = False  # whether its in-place spelling replaces all that was there
    weighs: Literal["", "always", "trained"] = ""  # when constants that go through it count as lower neurons of a sum
    moves_ids: bool = False  # whether token ids only change their place in it; true of every rule that only moves
    look_up: Callable[[Function, tuple[Any, ...], Mapping[str, Any]], LookUp | None] | None = None

    @property
    def has_rule(self) -> bool:
        """Whether relevance can pass through it."""
        return self.rule is not None or self.rewrite is not None


class Table(dict[str, Operation]):
    """Operations by name. A function, its method, its operators and its in-place form share one entry."""

    def __init__(self, lines: Iterable[tuple[Sequence[Operation], Sequence[str]]]) -> None:
        """Operations that differ in name alone, and the operators that stand for the first of them, line by line."""
        super().__init__()
        self.operators: dict[str, str] = {}
        for operations, operators in lines:
            for operation in operations:
                assert operation.name not in self, f"{operation.name} has two lines"
                self[operation.name] = operation
            self.operators |= dict.fromkeys(operators, operations[0].name)

    def find(self, function: Function) -> Operation:
        """What is known of a function; one that is not in the table has a name alone."""
        name = self.name_of(function)
        return self.get(name) or Operation(name)

    def name_of(self, function: Function) -> str:
        """The name under which a function, its method, its operator and its in-place form are looked up."""
        name: str = getattr(function, "__name__", repr(function))
        if name == "__get__":  # a property: the name is that of what it belongs to
            return getattr(getattr(function, "__self__", None), "__name__", name)
        return self.operators.get(name) or (name if name.startswith("__") else name.strip("_"))

    def spelling(self, function: Function) -> tuple[Operation, bool]:
        """What is known of a function, and whether this spelling writes into its first argument: `add_`, `+=`, `y[i] = x`."""
        name: str = getattr(function, "__name__", "")
        ends = name.endswith("_") and not name.endswith("__")
        augments = name.startswith("__i") and f"__{name[3:]}" in self.operators  # __iadd__ beside __add__
        operation = self.find(function)
        return operation, ends or augments or operation.writes


# Names under which PyTorch's functions take operands that are otherwise given by position.
OPERANDS = "condition self input tensors mat1 batch1 tensor1 other mat2 batch2 tensor2 vec".split()


def positional(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call with its operands by position, as `torch.add(input=x, other=y)` means them."""
    kwargs = dict(kwargs)
    for name in OPERANDS:
        if name in kwargs:
            args = (*args, kwargs.pop(name))
    return args, kwargs
