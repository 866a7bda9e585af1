"""The suite: all tasks whose right answer is known, for any methods. What the tasks are stands in their own files."""

from collections.abc import Callable, Mapping, Sequence

from whence.errors import InputError
from whence.methods.method import Method
from whence.threads import one_thread
from whence.trust.ground_truth.arithmetic import ADD, SUBTRACT
from whence.trust.ground_truth.brackets import BALANCED_BRACKETS, BRACKETS
from whence.trust.ground_truth.copying import COPY
from whence.trust.ground_truth.counter import COUNTER, DETECTOR, GATED_COUNTER
from whence.trust.ground_truth.hybrid import HYBRID, hybrid
from whence.trust.ground_truth.series import SERIES_TASK
from whence.trust.ground_truth.shortcut import SHORTCUT
from whence.trust.ground_truth.task import Outcome, Task

__all__ = ["Outcome", "Task", "ground_truth", "tasks"]


def tasks(*, sentences: Sequence[tuple[str, str]] | None = None) -> tuple[Task, ...]:
    """All tasks. `sentences`: pairs of (sentence, class), of two classes, for the hybrid documents instead of our own."""
    built = (COUNTER, GATED_COUNTER, DETECTOR, BRACKETS, BALANCED_BRACKETS, COPY)
    return (ADD, SUBTRACT, *built, HYBRID if sentences is None else hybrid(sentences), SHORTCUT, SERIES_TASK)


def ground_truth(
    methods: Mapping[str, Method],
    *,
    progress: Callable[[str, int, int], None] = lambda step, done, total: None,
    names: Sequence[str] | None = None,
    sentences: Sequence[tuple[str, str]] | None = None,
) -> dict[str, dict[str, Outcome]]:
    """The outcome of every method on every task, or on those of these names.

    `progress` is called with what was done last, how many outcomes there are, and how many there will be.

        ground_truth({"lrp": LRP(), "gi": GradientXInput()})["detector"]["gi"].reason
    """
    chosen = _chosen(tasks(sentences=sentences), names)
    total = len(chosen) * len(methods)
    found: dict[str, dict[str, Outcome]] = {}
    done = 0
    with one_thread():
        for task in chosen:

            def report(method: str, name: str = task.name) -> None:
                nonlocal done
                done += 1
                progress(f"{name}: {method}", done, total)

            found[task.name] = task.run(methods, report)
    return found


def _chosen(known: Sequence[Task], names: Sequence[str] | None) -> list[Task]:
    by_name = {task.name: task for task in known}
    wrong = [name for name in names or () if name not in by_name]
    if wrong:
        raise InputError(f"there is no task {wrong[0]!r}; the tasks are {', '.join(by_name)}")
    return list(known) if names is None else [by_name[name] for name in names]
