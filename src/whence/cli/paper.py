"""`whence paper`: recomputes the paper's figures and tables."""

from pathlib import Path
from typing import Annotated

import typer


def paper(
    output: Annotated[Path, typer.Option(help="The folder for report.html, the figures and results.json.")],
    sst: Annotated[Path | None, typer.Option(help="The folder of SST's tree files.")] = None,
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
) -> None:
    """Recompute every figure and table of the paper, and compare them with the published ones."""
    import resource

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from whence.cli.loading import pipeline_of
    from whence.experiments.paper import run
    from whence.render.colour import one_line

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:13}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(part: str, done: int, total: int) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(part)
            bar.update(tasks[part], completed=done, total=total)

        found = run(output=output, sst=sst, model=pipeline_of(model), progress=progress)
    seconds = found["seconds"]
    accuracy, held = found["accuracy"], [finding["holds"] for finding in found["findings"]]
    print(f"{found['counts']['sentences']} sentences; {accuracy['five']:.1%} of five classes right", end="")
    print("" if accuracy["binary"] is None else f", {accuracy['binary']:.1%} positive or negative")
    for curves, title in ((found["fig3"]["correct"], "first right"), (found["fig3"]["wrong"], "first wrong")):
        last = ", ".join(f"{method} {curve[-1]:.3f}" for method, curve in curves.items())
        print(f"accuracy after 5 deletions, {title}: {last or 'no such sentence'}")
    print(f"findings of the paper that hold here: {held.count(True)} of {len(held)}")
    parts = ", ".join(f"{part} {spent:.1f}" for part, spent in seconds.items())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{sum(seconds.values()):.0f} s ({parts}), at most {peak:.2f} GiB of memory")
    print(f"report: {one_line(str(output / 'report.html'))}")
