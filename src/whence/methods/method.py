"""What a method is: a frozen value that turns a forward pass and a question about it into a result."""

from dataclasses import fields, is_dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from whence.errors import InputError
from whence.methods.forward import Forward
from whence.methods.target import Target
from whence.result import Result


class Question(NamedTuple):
    """What a call asks for.

    `direction`: only what came through that direction (0 forward, 1 backward) of the first bidirectional layer. `at`: the
    relevance of that layer's output. `memory`: also the relevance that the states of recurrent layers carry. `by_step`:
    relevance summed over the last axis of the inputs. `check`: refuse an answer that does not add up, or that cannot be
    compared with the model. `asks_model`: also what the model itself says of the signs; of text, `words` (B, T) numbers the
    word of every token, with −1 for those of none.
    """

    target: Target = None
    direction: int | None = None
    at: str | None = None
    memory: bool = False
    by_step: bool = False
    check: bool = True
    asks_model: bool = False
    words: Tensor | None = None


class Method:
    """A way to explain a model's score. A subclass is a frozen dataclass whose fields are its settings.

    It sets the attributes below and implements `relevance`; a line in `registry` makes it known by name.
    """

    name: ClassVar[str]  # for commands and files
    label: ClassVar[str]  # for people
    short: ClassVar[str] = ""  # a shorter label for tables and legends
    is_signed: ClassVar[bool] = True  # whether relevance can speak against the target
    is_additive: ClassVar[bool] = True  # whether the relevance of the two directions adds up to the whole
    adds_up: ClassVar[bool] = False  # whether relevance adds up to the score, with what the ledger holds
    answers: ClassVar[frozenset[str]] = frozenset()  # which of direction, at and memory it supports
    shares_runs: ClassVar[bool] = False  # whether all classes cost about as much as one
    takes_derivatives: ClassVar[bool] = False  # whether it takes derivatives at other inputs than the given ones
    sums_by_step: ClassVar[bool] = False  # whether `relevance` itself does the sum for `by_step`

    @property
    def explains_score(self) -> bool:
        """Whether what is explained is the score of a class itself, not something made of it."""
        return True

    def work(self, steps: int, *, targets: int = 1) -> int:
        """About how much work it is to explain a sample of so many steps: how many steps the model runs for it."""
        return steps * targets

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Explain the score that `question.target` picks out of the forward pass."""
        raise NotImplementedError(f"{type(self).__name__} does not implement relevance(forward, question), as a method must")

    def answer(self, forward: Forward, question: Question) -> Result:
        """Answer a question; raises if this method cannot."""
        for name, reason in UNANSWERED.items():
            asked: object = getattr(question, name)
            if asked is not None and asked is not False and name not in self.answers:
                raise InputError(reason.format(type(self).__name__))
        if question.at is not None and question.by_step:
            raise InputError(
                "by_step= sums over the features of the inputs; leave it out with at=, and sum what the layer gave"
            )
        result = self.relevance(forward, question)
        if not isinstance(result, Result):
            raise InputError(
                f"{type(self).__name__}.relevance returned a {type(result).__name__}; it must return a whence.Result"
            )
        return result.by_step() if question.by_step and not self.sums_by_step else result

    def settings(self) -> dict[str, object]:
        """The method's settings by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)} if is_dataclass(self) else {}


INSIDE = "at= and memory= need method=LRP(...) and samples of one length, or a model that packs them"
UNANSWERED = {
    "direction": "{} does not keep the directions apart; leave out encoders=True",
    "at": INSIDE,
    "memory": INSIDE,
}
