"""The files of an evaluation: report.html, a self-contained page; results.json; leaderboard.csv."""

import base64
import csv
import io
import json
import platform
from importlib.resources import files as resources
from typing import Any, NamedTuple

import numpy as np
import torch

import whence
from whence.data.formulas import inert
from whence.errors import InputError
from whence.render import colour
from whence.render.colour import Shade, hexadecimal, visible
from whence.trust.contestants import RANDOM
from whence.trust.disagreement import disagreements
from whence.trust.evaluation import COLUMNS, Evaluation
from whence.trust.results import Plain

DISTINCT = [each for each in colour.SERIES if each != "#666666"]  # random relevance is grey
DRAWN = 5  # methods in the figures of curves, beside random relevance


def contents(found: Evaluation) -> dict[str, bytes]:
    """The files by name."""
    return {
        "results.json": (json.dumps(found.results, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(
            errors="replace"
        ),
        "leaderboard.csv": visible(leaderboard(found)).encode(errors="replace"),
        "report.html": page(found).encode(errors="replace"),
    }


def leaderboard(found: Evaluation) -> str:
    """The table as CSV."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["method", *COLUMNS, "error", "flags"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: inert(cell) for name, cell in row.items()} for row in found.table())
    return stream.getvalue()


class Word(NamedTuple):
    """A unit in a heatmap."""

    text: str
    background: str
    letters: str
    relevance: float


class Sample(NamedTuple):
    """A sample that methods explain differently."""

    number: int
    head: str
    pair: tuple[str, str]
    similarity: float
    rows: dict[str, list[Word]]


def page(found: Evaluation) -> str:
    """The report as a self-contained page, with its figures in it."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ModuleNotFoundError:
        raise InputError("the report needs jinja2; run: pip install 'whence[paper]'") from None

    def shown(thing: object) -> object:
        return visible(thing) if isinstance(thing, str) and not isinstance(thing, Markup) else thing

    template = (resources("whence.trust") / "report.jinja").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True, finalize=shown, trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(
            results=found.results,
            table=found.table(),
            columns=[column for column in COLUMNS if any(row[column] is not None for row in found.table())],
            best=_best(found),
            pictures=_pictures(found),
            samples=_samples(found),
            recommended=found.recommended,
            random=RANDOM,
            colours=colour.REPORT,
            versions=f"whence {whence.__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}",
        )
    )


def _best(found: Evaluation) -> dict[str, object]:
    """The best number of every column, which the page prints in bold."""
    made: dict[str, object] = {}
    for column, (_, lower) in COLUMNS.items():
        values = [row[column] for row in found.table() if isinstance(row[column], float) and row["method"] != RANDOM]
        if values and column != "sparsity":
            made[column] = (min if lower else max)(values)  # pyright: ignore[reportArgumentType] - they are numbers
    return made


def _pictures(found: Evaluation) -> dict[str, str]:
    """The figures, as addresses that hold them."""
    from matplotlib.figure import Figure

    from whence.render import figure

    methods = {
        name: each for name, each in found.results["methods"].items() if each.get("separation", {}).get("value") is not None
    }
    if not methods:
        return {}
    order = [str(row["method"]) for row in found.table() if row["method"] in methods]
    drawn: dict[str, Figure] = {
        "separation": figure.intervals({name: _interval(methods[name]["separation"]) for name in order}, x="separation")
    }
    chosen = [*[name for name in order if name != RANDOM][:DRAWN], *[name for name in order if name == RANDOM]]
    colours = dict(zip(chosen, DISTINCT, strict=False)) | {RANDOM: colour.NOTE}
    for kind in ("deletion", "insertion"):
        panels = {
            title.format(methods[chosen[0]][kind]["texts"][side]): [
                figure.Curve(name, np.array(methods[name][kind][side]), *np.array(methods[name][kind]["intervals"][side]).T)
                for name in chosen
            ]
            for side, title in PANELS[kind].items()
            if methods[chosen[0]][kind].get(side)
        }
        if panels:
            y = "accuracy" if found.results["accuracy"] is not None else "output"
            drawn[kind] = figure.curves(
                panels, colours=colours, x=f"{'deleted' if kind == 'deletion' else 'inserted'} units", y=y
            )
    return {
        name: "data:image/png;base64," + base64.b64encode(figure.files(name, each)[f"{name}.png"]).decode()
        for name, each in drawn.items()
    }


PANELS = {
    "deletion": {
        "correct": "{:,} first right, most relevant deleted first",
        "wrong": "{:,} first wrong, least relevant deleted first",
        "all": "{:,} samples, most relevant deleted first",
    },
    "insertion": {
        "correct": "{:,} first right, most relevant inserted first",
        "wrong": "{:,} first wrong, most relevant inserted first",
        "all": "{:,} samples, most relevant inserted first",
    },
}


def _interval(found: Plain) -> tuple[float, float, float]:
    return found["value"], *found["interval"]


def _samples(found: Evaluation) -> list[Sample]:
    """The samples on which methods disagree most about the same question, with every method's heatmap."""
    fit = {
        each.name: found.relevance[each.name]
        for each in found.contestants
        if each.name in found.relevance and each.method.is_signed and not _is_doubtful(found, each.name)
        if each.against == found.contestants[0].against
    }
    if found.subject is None:
        return []
    said = found.subject.whole()
    made: list[Sample] = []
    for each in disagreements(found.subject, fit):
        names = found.subject.unit_names(each.row)
        head = _head(found, each.row, int(said.predicted[each.row]))
        rows = {name: _words(names, relevance[each.row]) for name, relevance in fit.items()}
        made.append(Sample(found.rows[each.row] + 1, head, each.pair, each.pair_similarity, rows))
    return made


def _is_doubtful(found: Evaluation, name: str) -> bool:
    return any(flag["check"] != "few" for flag in found.results["methods"][name]["flags"])


def _head(found: Evaluation, row: int, predicted: int) -> str:
    """What the sample is, and what the model said."""
    subject = found.subject
    assert subject is not None
    if not subject.has_classes:
        return f"output {subject.of[row]}"
    name = subject.class_name
    label = "" if subject.labels is None else f"label {name(int(subject.labels[row]))}, "
    return f"{label}predicted {name(predicted)}; explained: {name(int(subject.of[row]))}"


def _words(names: list[str], relevance: Any) -> list[Word]:
    largest = float(np.abs(relevance).max(initial=0)) or 1.0
    found: list[Word] = []
    for name, value in zip(names, relevance.tolist(), strict=True):
        shade = Shade(abs(value) / largest, value >= 0)
        found.append(Word(name, hexadecimal(shade.mixed()), shade.letters, value))
    return found
