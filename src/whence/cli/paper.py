"""`whence paper`: recomputes the paper's figures and tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from whence.cli.phrases import MethodName

if TYPE_CHECKING:
    from whence.experiments.results import Results


def paper(
    output: Annotated[Path, typer.Option(help="The folder for report.html, the figures, results.json and CSV files.")],
    sst: Annotated[Path | None, typer.Option(help="The folder of SST's tree files.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A bundled model, the folder of a saved one, or package.module:factory; may be given several times.",
            show_default="sst-bilstm",
        ),
    ] = None,
    method: Annotated[
        list[MethodName] | None,
        typer.Option(help="A further method beside SA, LRP and LRP_cons; may be given several times."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="LRP's stabiliser.")] = 1e-3,
    delta: Annotated[float, typer.Option(help="The fraction of the biases that LRP distributes to the inputs.")] = 0.0,
) -> None:
    """Recompute every figure and table of the paper, and compare them with the published ones."""
    import resource

    from whence.cli.loading import pipeline_of
    from whence.cli.progress import bars
    from whence.experiments.paper import run
    from whence.render.colour import one_line

    with bars(13) as progress:
        found = run(
            output=output,
            sst=sst,
            model=[pipeline_of(each) for each in model or ["sst-bilstm"]],
            methods=[str(each) for each in method or []],
            epsilon=epsilon,
            delta=delta,
            progress=progress,
        )
    every = [found, *found.get("other_models", [])]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for each in every:
        if len(every) > 1:
            print(f"{one_line(each['model']['name'])}:")
        _print(each, peak)
    print(f"report: {one_line(str(output / 'report.html'))}")


def _print(found: "Results", peak: float) -> None:
    """Print what was found with one model; `peak` is the most memory of the whole run, in GiB."""
    seconds = found["seconds"]
    accuracy, held = found["accuracy"], [finding["holds"] for finding in found["findings"]]
    five = cast(float, accuracy["five"])
    print(f"{found['counts']['sentences']} sentences; {five:.1%} of five classes right", end="")
    print("" if accuracy["binary"] is None else f", {accuracy['binary']:.1%} positive or negative")
    for curves, title in ((found["fig3"]["correct"], "first right"), (found["fig3"]["wrong"], "first wrong")):
        last = ", ".join(f"{method} {curve[-1]:.3f}" for method, curve in curves.items())
        print(f"accuracy after 5 deletions, {title}: {last or 'no such sentence'}")
    undecided = f", {held.count(None)} undecided" if None in held else ""
    print(f"findings of the paper that hold here: {held.count(True)} of {len(held)}{undecided}")
    parts = ", ".join(f"{part} {spent:.1f}" for part, spent in seconds.items())
    print(f"{sum(seconds.values()):.0f} s ({parts}), at most {peak:.2f} GiB of memory")
