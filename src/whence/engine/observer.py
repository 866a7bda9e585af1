"""What is told of a run's calls while they are made; contextual decomposition carries its parts forward that way."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.engine.marks import Args, Kwargs, ModelCall, Node

if TYPE_CHECKING:
    from whence.engine.run import ModelRun

Move = Callable[[Tensor], Tensor]  # what a tensor becomes that is laid out in memory as a given one
Put = Callable[[Tensor, Tensor], None]  # writes its second tensor into the first, which is laid out as a given one
Known = tuple[Node | None, Tensor]  # a tensor and its node; None for constants


class Observer:
    """Is told of every followed call of a run, and of every node that no call makes. By itself, it notes nothing."""

    def made(self, run: "ModelRun", call: ModelCall, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A call was made; it is the last of `run.calls`."""

    def written(self, run: "ModelRun", node: Node, buffer: Known, content: Known, put: Put) -> None:
        """A content was put into a buffer, given with its node before that; `put` does so in memory laid out as the buffer."""

    def moved(self, run: "ModelRun", node: Node, source: Known, move: Move) -> None:
        """A tensor was found to hold elements of a source; `move` takes them from memory laid out as the source."""
