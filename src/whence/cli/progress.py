"""A progress bar for every part of long work, on a terminal; nothing when standard error is none."""

import time
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


@contextmanager
def counting(is_wanted: bool = True) -> Generator[Callable[[int], None]]:
    """A function that gets how many texts are done, of nobody knows how many."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} texts"), TimeElapsedColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=console, disable=not (is_wanted and console.is_terminal), transient=True) as bar:
        task = bar.add_task("", total=None, rate="")
        start = time.monotonic()

        def progress(done: int) -> None:
            bar.update(task, completed=done, rate=f"{done / max(time.monotonic() - start, 1e-3):,.0f}/s")

        yield progress
