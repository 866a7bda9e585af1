"""One model's part of the report: its numbers and sentences as the page shows them, without the explanations behind them."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup, escape

from whence.evaluation.bootstrap import Band
from whence.experiments import published
from whence.experiments.fig1_fig2_heatmaps import discussed
from whence.experiments.fig3_deletion import Curves, Side
from whence.experiments.findings import Finding
from whence.experiments.methods import further_of, names_of
from whence.experiments.pictures import SHORT, heading, shown_order
from whence.experiments.reproduction import Data, Reproduction
from whence.experiments.table1_words import overlap
from whence.explanation import Explanation
from whence.methods.method import Method
from whence.models.pipeline import fingerprint
from whence.render.colour import hexadecimal, shades, visible


class Sentence(NamedTuple):
    """A sentence of the heatmaps, with its words coloured."""

    number: int
    label: str
    predicted: str
    words: Markup


class Group(NamedTuple):
    """Sentences under a heading."""

    heading: str
    sentences: list[Sentence]


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


class Chapter(NamedTuple):
    """What the page shows of one model."""

    model: str
    fingerprint: str
    classes: tuple[str, ...]
    data: Data
    methods: Mapping[str, Method]
    names: dict[str, str]
    order: list[str]  # of the methods
    counts: dict[str, int]
    comparison: dict[str, tuple[str, str]]  # by measurement, the paper's result and ours
    findings: list[Finding]
    heatmaps: dict[str, list[Group]]  # by method
    missing: dict[int, str]  # sentences of the paper that this data does not have
    discussed: list[tuple[int, str, str]]
    tables: list[Table]
    deletion: dict[Side, Curves]
    has_encoders: bool
    pictures: dict[str, str]  # by name, as data
    files: str  # what stands behind the names of its figures
    seconds: dict[str, float]


def chapter(found: Reproduction, contents: Mapping[str, bytes], seconds: Mapping[str, float], *, files: str = "") -> Chapter:
    """What the page shows of one model; `contents` are its figures by file name."""
    pipeline = found.test.pipeline
    return Chapter(
        model=pipeline.name,
        fingerprint=fingerprint(pipeline),
        classes=pipeline.classes,
        data=found.data,
        methods=found.methods,
        names=names_of(found.methods),
        order=shown_order(found),
        counts=found.counts,
        comparison=_comparison(found),
        findings=found.findings,
        heatmaps={method: _groups(found, method) for method in ("sa", "lrp", *further_of(found.methods))},
        missing=found.printed.missing,
        discussed=_discussed(found),
        tables=_tables(found),
        deletion=found.deletion,
        has_encoders="left" in found.position["lrp"],
        pictures={
            Path(name).stem: "data:image/png;base64," + base64.b64encode(content).decode()
            for name, content in contents.items()
            if name.endswith(".png")
        },
        files=files,
        seconds=dict(seconds),
    )


def _groups(found: Reproduction, method: str) -> list[Group]:
    test = found.test
    return [
        Group(
            heading(panel, test.pipeline.classes),
            [
                Sentence(number, SHORT[panel.label], SHORT[test.predicted[n]], _words(found.by_label[method][n]))
                for number, n in zip(panel.numbers, panel.rows, strict=True)
            ],
        )
        for panel in found.panels
        if panel.rows
    ]


def _words(explanation: Explanation) -> Markup:
    """The words of a sentence as HTML, each with its colour and, as its title, its relevance."""
    spans = [
        Markup('<span style="background:{};color:{}" title="{}">{}</span>').format(
            hexadecimal(shade.mixed()), shade.letters, f"{relevance:+.4g}", escape(visible(word))
        )
        for word, relevance, shade in zip(explanation.tokens, explanation.relevance, shades(explanation), strict=True)
    ]
    return Markup(" ").join(spans)


def _comparison(found: Reproduction) -> dict[str, tuple[str, str]]:
    """The rows of the first table: by measurement, the paper's result and ours."""
    accuracy, counts, long, longest = found.accuracy, found.counts, published.DELETION_WORDS, published.POSITION_WORDS
    rows = {
        "test sentences": (f"{published.SENTENCES:,}", f"{counts['sentences']:,}"),
        f"… of {long} words or more (Fig. 3)": (f"{published.DELETION_SENTENCES:,}", f"{counts['deletion']:,}"),
        f"… of {longest} words or more (Fig. 4)": (f"{published.POSITION_SENTENCES:,}", f"{counts['position']:,}"),
        "accuracy, five classes": (f"{published.FIVE_CLASSES:.1%}", _percent(accuracy.five, accuracy.five_band)),
        "accuracy, positive or negative": (f"{published.TWO_CLASSES:.1%}", _percent(accuracy.binary, accuracy.binary_band)),
        **_deletion_rows(found),
    }
    names = names_of(found.methods)
    for method in ("lrp", "sa"):
        same = overlap(found.words[-1][method], method)
        rows |= {f"ten {end} relevant words by {names[method]}": ("10 words", f"{len(same[end])} in common") for end in same}
    held = [finding.holds for finding in found.findings]
    undecided = f", {held.count(None)} undecided" if None in held else ""
    rows["findings"] = ("all claimed", f"{held.count(True)} of {len(held)} hold{undecided}")
    return rows


def _deletion_rows(found: Reproduction) -> dict[str, tuple[str, str]]:
    rows: dict[str, tuple[str, str]] = {}
    names = names_of(found.methods)
    for side, curves in found.deletion.items():
        order = ("lrp", "sa", "random", "gi", *further_of(found.methods))
        shown = ", ".join(f"{names[method]} {curves.accuracy(method)[-1]:.3f}" for method in order)
        is_right = side == "correct"
        claim = "LRP falls most steeply" if is_right else "LRP rises most steeply, SA below random"
        rows[f"accuracy after 5 deletions, first {'right' if is_right else 'wrong'}"] = (claim, shown)
    deviations = [curves.runs.std(0).max() for curves in found.deletion.values()]
    if deviations:
        rows["standard deviation of random deletions"] = (f"< {published.RANDOM_DEVIATION}", f"{max(deviations):.3f}")
    return rows


def _percent(value: float, band: Band) -> str:
    return "–" if value != value else f"{value:.1%} (95 %: {float(band.low):.1%} to {float(band.high):.1%})"


def _tables(found: Reproduction) -> list[Table]:
    """Table 1 for every class, the paper's own first."""
    classes, names, made = found.test.pipeline.classes, names_of(found.methods), list[Table]()
    for c, name in enumerate(classes):
        is_paper = c == len(classes) - 1
        rows = [
            Row(
                names[method],
                end,
                [each.word for each in getattr(ranked, end)],
                getattr(published.TABLE1[method], end) if is_paper and method in published.TABLE1 else (),
            )
            for end in ("most", "least")
            for method, ranked in found.words[c].items()
        ]
        made.append(Table(name, is_paper, rows))
    return made[::-1]


def _discussed(found: Reproduction) -> list[tuple[int, str, str]]:
    """The discussed words in the heatmaps with LRP's sign, by the sentence's number."""
    rows: list[tuple[int, str, str]] = []
    for panel in found.panels:
        for number, n in zip(panel.numbers, panel.rows, strict=True):
            words = discussed(found.by_label["lrp"][n])
            if words:
                shown = ", ".join(f"{word} {relevance:+.2f}" for word, relevance in words.items())
                rows.append((number, found.test.pipeline.classes[panel.label], shown))
    return rows
