"""`whence bench`: what an explanation costs relative to the prediction."""

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from whence.cli.streams import require_place, write_file

if TYPE_CHECKING:
    from whence.speed.results import Growth, Speed, Value

CALL_COLUMNS = {
    "relevance() / model": "relevance_over_prediction",
    "by step / model": "by_step_over_prediction",
    "gradient / model": "gradient_over_prediction",
    "relevance() / gradient": "relevance_over_gradient",
    'check="model" / relevance': "asked_over_relevance",
    "5 classes / 1": "all_classes_over_one",
}
SOME_COLUMNS = {  # of some calls alone
    "first call / gradient": "first_over_gradient",
    "physioex / model": "physioex_over_prediction",
}
COLUMNS = {
    "LRP / forward": "lrp_over_forward",
    "LRP / gradient": "lrp_over_gradient",
    "5 classes / 1": "all_classes_over_one",
}


def bench(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all measurements to this JSON file.")] = None,
    repeats: Annotated[int, typer.Option(help="How often each measurement is repeated.", min=3)] = 21,
    scaling: Annotated[
        bool, typer.Option(help="Also measure how time grows with steps, samples and layer size, and the peak memory.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Plot how time grows into this PNG file; implies --scaling.")] = None,
    sst: Annotated[Path | None, typer.Option(help="The folder of SST's tree files: also measure its whole test set.")] = None,
) -> None:
    """Measure the time of an explanation relative to the prediction and to its gradient.

    The first table has whole calls of whence.relevance, relative to the model's prediction and to autograd's gradient. In the
    second, forward, gradient and LRP are times of the recurrent layer alone.
    """
    from rich.console import Console

    from whence.data.sst import find_sst
    from whence.speed.growth import growth, memory
    from whence.speed.ratios import speed
    from whence.speed.sst import whole_test_set

    if sst is not None:
        sst = find_sst(sst)
    for path in filter(None, (json_file, plot)):
        require_place(path)
    if plot is not None:
        importlib.import_module("whence.render.figure")  # it needs matplotlib: if that is missing, say so before measuring
    with Console(stderr=True).status("measuring"):
        found = speed(device, repeats=repeats)
        if scaling or plot is not None:
            found["scaling"] = growth(device)
            found["memory"] = memory()
        if sst is not None:
            found["sst"] = whole_test_set(sst)
    _show(found)
    if plot is not None:
        write_file(plot, _drawn(found.get("scaling", {})))
    if json_file is not None:
        write_file(json_file, (json.dumps(found, indent=1) + "\n").encode())


def _show(found: "Speed") -> None:
    """Print the table of cases, and one line for each other measurement."""
    from rich.console import Console
    from rich.table import Table

    is_gpu = found["cases"][0]["device"] == "cuda"
    others = {name: key for name, key in SOME_COLUMNS.items() if any(key in each for each in found["calls"])}
    whole = Table("whole call", *CALL_COLUMNS, *others, "memory / gradient's", box=None)
    for call in found["calls"]:
        more = [_with_spread(call, key) if key in call else "–" for key in others.values()]
        ratios = (_with_spread(call, key) for key in CALL_COLUMNS.values())
        whole.add_row(str(call["name"]), *ratios, *more, f"{call['memory_over_gradient']:.2f}")
    Console(width=180).print(whole)
    print()
    table = Table("layer alone", "path", *COLUMNS, *(["forward ms", "LRP ms", "TFLOP/s", "TB/s"] if is_gpu else []), box=None)
    for case in found["cases"]:
        cells = [_with_spread(case, key) for key in COLUMNS.values()]
        absolute = ("forward_ms", "lrp_ms", "teraflops", "terabytes_per_second") if is_gpu else ()
        table.add_row(str(case["name"]), str(case["path"]), *cells, *(f"{case[key]:.2f}" for key in absolute))
    Console(width=160).print(table)
    for case in found["cases"]:
        for key, name in (
            ("oracle_over_lrp", "the tests' NumPy oracle"),
            ("captum_ig_over_lrp", "Captum's Integrated Gradients, 50 steps"),
        ):
            if key in case:
                print(f"{case['name']}: {name} takes {case[key]:.0f} times as long as LRP")
    by_step = found["output_steps"]
    print(f"all {by_step['steps']} output steps in one call: {by_step['loop_over_all']:.0f} times faster than a call for each")
    for name, gain in found["two_threads"].items():
        print(f"{name}: {gain:.2f} times faster on two threads")
    for name, each in found.get("scaling", {}).items():
        first, last = each["values"][0], each["values"][-1]
        print(f"time grows with {name} from {first} to {last} with a slope of {each['slope']:.2f} on log axes")
    if "memory" in found:
        told = found["memory"]
        print(f"{told['steps']:,} steps of a bi-LSTM 128/128 take {told['peak_gib']:.2f} GiB at peak, PyTorch included")
    if "sst" in found:
        told = found["sst"]
        oracle = (
            f"; the tests' NumPy oracle takes {told['oracle_over_lrp']:.0f} times as long" if "oracle_over_lrp" in told else ""
        )
        print(
            f"SST's {told['sentences']} test sentences: LRP takes {told['lrp_over_forward']:.2f} times the packed forward "
            f"pass, explain() {told['explain_over_forward']:.2f} times{oracle}"
        )
    print(f"medians of {found['repeats']} interleaved repeats, quartiles in brackets; {found['machine']}, one thread")


def _with_spread(case: "dict[str, Value]", key: str) -> str:
    low, high = cast(list[float], case[f"{key}_spread"])
    return f"{case[key]:.2f} ({low:.2f}–{high:.2f})"


def _drawn(scaling: "dict[str, Growth]") -> bytes:
    from whence.render.figure import files, growth

    names = {"steps": "steps T", "batch": "samples B", "size": "embedding and state H"}
    panels = {names[name]: (each["values"], each["ms"], each["slope"]) for name, each in scaling.items()}
    return files("growth", growth(panels, y="milliseconds for LRP"))["growth.png"]
