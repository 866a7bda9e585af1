"""`whence bench`: what an explanation costs beside the prediction, as ratios."""

import json
from pathlib import Path
from typing import Annotated

import typer


def bench(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything that was measured to this file.")] = None,
    repeats: Annotated[int, typer.Option(help="How often each thing is run.", min=3)] = 21,
) -> None:
    """Measure what an explanation costs as a multiple of the prediction and of its gradient, side by side."""
    from rich.console import Console
    from rich.table import Table

    from whence.experiments.speed import speed
    from whence.models.files import write_whole

    console = Console(stderr=True)
    with console.status("measuring"):
        found = speed(device, repeats=repeats)
    table = Table("case", "path", "LRP / forward", "LRP / gradient", "gradient / forward", "all classes / one", box=None)
    for case in found["cases"]:
        keys = ("lrp_over_forward", "lrp_over_gradient", "gradient_over_forward", "all_classes_over_one")
        cells = [f"{case[key]:.2f} ({case[f'{key}_spread'][0]:.2f}–{case[f'{key}_spread'][1]:.2f})" for key in keys]
        table.add_row(case["name"], case["path"], *cells)
    Console(width=140).print(table)
    by_step = found["output_steps"]
    print(
        f"all {by_step['steps']} output steps in one call: {by_step['loop_over_all']:.0f} times faster than one call for each"
    )
    print(f"medians of {found['repeats']} interleaved repeats, in brackets the quartiles; {found['machine']}, one thread")
    if json_file is not None:
        write_whole(json_file, (json.dumps(found, indent=1) + "\n").encode())
