"""What a rule is: how one kind of call is followed, so that the way back through it hands relevance on."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.engine.marks import Args, Kwargs, ModelCall

if TYPE_CHECKING:
    from whence.engine.run import ModelRun


class NoRule(Exception):  # noqa: N818 - the public one is NoRuleError
    """Why a call has no rule; becomes a `NoRuleError` where the call's name and layer are known."""


class Refused(NoRule):
    """A call that makes the explanation wrong even if no relevance passes through it."""


class OverwrittenError(Exception):
    """The model writes over numbers, or into views, in a way that needs copies: it must run again with them."""


class Rule:
    """One kind of call. `follow` makes the call and marks its results; the marks and their graphs are all that is kept."""

    words = "rule"  # for people
    moves = False  # whether every element of the result is an element of the inputs or a constant
    rearranges = False  # whether it moves elements by position, not by value, and adds none of its own
    squashes = False  # whether it changes the sign of some scores, so that relevance starts before it at the end of a model
    casts = False  # whether it only changes precision or device
    multiplies = False  # whether it multiplies a gate with its source
    combines = False  # whether it combines its inputs and numbers by + − ×
    has_sides = False  # whether it can tell the positive contributions to its sum from the negative ones

    def follow(self, run: "ModelRun", call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        """Make the call, with what is live as it stands on the graph."""
        raise NotImplementedError


def is_number(thing: object) -> bool:
    """Whether something is a plain number."""
    return isinstance(thing, (int, float, complex)) and not isinstance(thing, bool)


def detached(thing: Any) -> Any:
    """A tensor without its graph; anything else as it is."""
    return thing.detach() if isinstance(thing, Tensor) else thing
