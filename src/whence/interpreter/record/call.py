"""A call that a model made, as it was made: what a plan of the model expects to see again."""

from dataclasses import dataclass
from typing import Any

from whence.interpreter.record.operation import Operation
from whence.interpreter.record.step import Args, Function, Kwargs, Step

NOTHING = object()  # the result of a call that raised an error


@dataclass(eq=False, slots=True)
class Call:
    """A call and what became of it: a recorded step, calls that a rewrite makes instead, a look-up of ids, or a constant."""

    operation: Operation
    function: Function
    args: Args
    kwargs: Kwargs
    writes: bool = False  # in place
    result: Any = NOTHING
    step: Step | None = None
    rewrite: Function | None = None
    looks_up: bool = False
