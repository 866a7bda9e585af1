"""The figures, and the report: a self-contained page to read or to print."""

import base64
import platform
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import NamedTuple

import torch
from jinja2 import Environment
from markupsafe import Markup

import whence
from whence.data.sst import CLASSES
from whence.evaluation.bootstrap import Band
from whence.experiments import published
from whence.experiments.fig1_fig2_heatmaps import RULE, discussed
from whence.experiments.fig4_position import distributions
from whence.experiments.reproduction import Reproduction
from whence.experiments.table1_words import overlap
from whence.experiments.test_set import METHODS, NAMES
from whence.models.pipeline import fingerprint
from whence.render import colour, figure
from whence.render.colour import visible

SHORT = ("− −", "−", "0", "+", "+ +")  # the paper's signs for the five classes
SIDES = {
    "correct": "{} sentences first right, most relevant first",
    "wrong": "{} sentences first wrong, least relevant first",
}
ORDER = ("lrp", "sa", "lrp_cons", "gi", "random")
COLOURS = dict(zip((NAMES[method] for method in ORDER), colour.SERIES, strict=False))
ROWS = {"total": "both encoders", "left": "left encoder", "right": "right encoder"}


def figures(found: Reproduction) -> dict[str, bytes]:
    """Every figure as PNG and PDF, by the name of its file."""
    classes = [visible(name)[:30] for name in found.test.pipeline.classes]
    drawn = {
        "fig1_sa_heatmaps": figure.heatmaps(
            _heatmap_groups(found, "sa"), title="Sensitivity analysis: red words matter for the label"
        ),
        "fig2_lrp_heatmaps": figure.heatmaps(
            _heatmap_groups(found, "lrp"), title="LRP: red words speak for the label, blue ones against it"
        ),
        "confusion": figure.confusion(found.test.confusion, classes),
    }
    if found.deletion:
        panels = {
            SIDES[side].format(f"{curves.sentences:,}"): [
                figure.Curve(NAMES[method], curves.accuracy(method), *curves.band(method)) for method in ORDER
            ]
            for side, curves in found.deletion.items()
        }
        drawn["fig3_deletion"] = figure.curves(panels, colours=COLOURS, x="deleted words", y="accuracy")
    if found.position["lrp"]:
        by_method = {method: distributions(intervals) for method, intervals in found.position.items()}
        rows = {
            ROWS[part]: {
                name: {NAMES[method]: by_method[method][part][c] for method in ("lrp", "sa")} for c, name in enumerate(classes)
            }
            for part in by_method["lrp"]
        }
        drawn["fig4_position"] = figure.distributions(
            rows, colours=COLOURS, x="interval of the sentence, of ten", y="part of relevance"
        )
    return {name: content for title, each in drawn.items() for name, content in figure.files(title, each).items()}


def _heatmap_groups(found: Reproduction, method: str) -> list[tuple[str, list[figure.HeatmapRow]]]:
    classes = found.test.pipeline.classes
    return [
        (
            f"{classes[panel.label][:60]}, {'correctly' if panel.is_correct else 'wrongly'} classified",
            [
                figure.HeatmapRow(number, SHORT[panel.label], SHORT[found.test.predicted[n]], found.by_label[method][n])
                for number, n in zip(panel.numbers, panel.rows, strict=True)
            ],
        )
        for panel in found.panels
        if panel.rows
    ]


def report(found: Reproduction, contents: Mapping[str, bytes], seconds: Mapping[str, float]) -> str:
    """The report as a self-contained page, with the figures in it."""
    template = resources("whence.experiments") / "report.jinja"
    page = Environment(autoescape=True, finalize=_shown).from_string(template.read_text(encoding="utf-8"))
    pictures = {
        Path(name).stem: "data:image/png;base64," + base64.b64encode(content).decode()
        for name, content in contents.items()
        if name.endswith(".png")
    }
    return page.render(
        found=found,
        counts=found.counts,
        classes=found.test.pipeline.classes,
        sst_classes=CLASSES,
        model=found.test.pipeline.name,
        pictures=pictures,
        published=published,
        comparison=_comparison(found),
        tables=_tables(found),
        negators=_negators(found),
        rule=RULE,
        colours=colour.REPORT,
        names=NAMES,
        order=ORDER,
        methods=METHODS,
        seconds=seconds,
        fingerprint=fingerprint(found.test.pipeline),
        versions=f"whence {whence.__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}",
    )


def _shown(thing: object) -> object:
    """Text from models and data, with control characters and marks of reading direction made visible."""
    return visible(thing) if isinstance(thing, str) and not isinstance(thing, Markup) else thing


def _comparison(found: Reproduction) -> list[tuple[str, str, str]]:
    """The rows of the first table: a measurement, the paper's result and ours."""
    accuracy, counts = found.accuracy, found.counts
    rows = [
        ("test sentences", f"{published.SENTENCES:,}", f"{counts['sentences']:,}"),
        (
            f"… of {published.DELETION_WORDS} words or more (Fig. 3)",
            f"{published.DELETION_SENTENCES:,}",
            f"{counts['deletion']:,}",
        ),
        (
            f"… of {published.POSITION_WORDS} words or more (Fig. 4)",
            f"{published.POSITION_SENTENCES:,}",
            f"{counts['position']:,}",
        ),
        ("accuracy, five classes", f"{published.FIVE_CLASSES:.1%}", _percent(accuracy.five, accuracy.five_band)),
        ("accuracy, positive or negative", f"{published.TWO_CLASSES:.1%}", _percent(accuracy.binary, accuracy.binary_band)),
    ]
    for side, title in (("correct", "first right"), ("wrong", "first wrong")):
        if side in found.deletion:
            curves = found.deletion[side]
            shown = ", ".join(f"{NAMES[method]} {curves.accuracy(method)[-1]:.3f}" for method in ("lrp", "sa", "random", "gi"))
            claim = "LRP falls most steeply" if side == "correct" else "LRP rises most steeply, SA below random"
            rows.append((f"accuracy after 5 deletions, {title}", claim, shown))
    deviations = [curves.runs.std(0).max() for curves in found.deletion.values()]
    if deviations:
        rows.append(("standard deviation of random deletions", f"< {published.RANDOM_DEVIATION}", f"{max(deviations):.3f}"))
    for method in ("lrp", "sa"):
        same = overlap(found.words[-1][method], method)
        rows += [(f"ten {end} relevant words by {NAMES[method]}", "10 words", f"{len(same[end])} in common") for end in same]
    held = [finding.holds for finding in found.findings]
    undecided = f", {held.count(None)} undecided" if None in held else ""
    rows.append(("findings", "all claimed", f"{held.count(True)} of {len(held)} hold{undecided}"))
    return rows


def _percent(value: float, band: Band) -> str:
    return "–" if value != value else f"{value:.1%} (95 %: {float(band.low):.1%} to {float(band.high):.1%})"


class Row(NamedTuple):
    """A row of Table 1: the words at one end of a method's ranking, here and in the paper."""

    method: str
    end: str
    here: list[str]
    paper: tuple[str, ...]


class Table(NamedTuple):
    """Table 1 for one target class; the paper printed it for the last one alone."""

    target: str
    is_paper: bool
    rows: list[Row]


def _tables(found: Reproduction) -> list[Table]:
    """Table 1 for every class, the paper's own first."""
    classes, made = found.test.pipeline.classes, list[Table]()
    for c, name in enumerate(classes):
        is_paper = c == len(classes) - 1
        rows = [
            Row(
                NAMES[method],
                end,
                [each.word for each in getattr(found.words[c][method], end)],
                getattr(published.TABLE1[method], end) if is_paper else (),
            )
            for end in ("most", "least")
            for method in ("sa", "lrp")
        ]
        made.append(Table(name, is_paper, rows))
    return made[::-1]


def _negators(found: Reproduction) -> list[tuple[int, str, str]]:
    """The discussed words in the heatmaps with LRP's sign, by the sentence's number."""
    rows: list[tuple[int, str, str]] = []
    for panel in found.panels:
        for number, n in zip(panel.numbers, panel.rows, strict=True):
            words = discussed(found.by_label["lrp"][n])
            if words:
                shown = ", ".join(f"{word} {relevance:+.2f}" for word, relevance in words.items())
                rows.append((number, found.test.pipeline.classes[panel.label], shown))
    return rows
