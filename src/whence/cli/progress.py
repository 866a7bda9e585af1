"""A progress bar for every part of long work, on a terminal; nothing when standard error is none."""

from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def bars(width: int = 24) -> Generator[Callable[[str, int, int], None]]:
    """A function that gets the name of a part, how much of it is done, and how much there is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from whence.render.colour import one_line

    console = Console(stderr=True)
    columns = (
        TextColumn(f"{{task.description:{width}}}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(part: str, done: int, total: int) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(one_line(part))
            bar.update(tasks[part], completed=done, total=total)

        yield progress
