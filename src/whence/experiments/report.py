"""The report: a self-contained page to read or to print, with one model or several side by side."""

import platform
from collections.abc import Sequence
from importlib.resources import files as resources
from itertools import groupby
from typing import NamedTuple

import torch
from jinja2 import Environment
from markupsafe import Markup

import whence
from whence.data.sst import CLASSES
from whence.experiments import published
from whence.experiments.chapter import Chapter
from whence.experiments.fig1_fig2_heatmaps import RULE
from whence.experiments.findings import Finding, Part
from whence.methods.lrp import LRP
from whence.render import colour
from whence.render.colour import visible


def report(chapters: Sequence[Chapter]) -> str:
    """The report as a self-contained page, with the figures in it."""
    template = resources("whence.experiments") / "report.jinja"
    page = Environment(autoescape=True, finalize=_shown).from_string(template.read_text(encoding="utf-8"))
    first = chapters[0]
    return page.render(
        chapters=chapters,
        first=first,
        models=" and ".join(each.model for each in chapters),
        sst_classes=CLASSES,
        published=published,
        comparison=_comparison(chapters),
        verdicts=_verdicts(chapters),
        certain=_numbers([n for n in range(1, len(published.LINES) + 1) if n not in published.REMEMBERED]),
        remembered=_numbers(published.REMEMBERED),
        missing=_missing(first),
        rule=RULE,
        is_paper_lrp=first.methods["lrp"] == LRP(published.EPSILON, published.DELTA),
        further=[first.names[name] for name in first.heatmaps if name not in ("sa", "lrp")],
        colours=colour.REPORT,
        versions=f"whence {whence.__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}",
    )


def _shown(thing: object) -> object:
    """Text from models and data, with control characters and marks of reading direction made visible."""
    return visible(thing) if isinstance(thing, str) and not isinstance(thing, Markup) else thing


def _comparison(chapters: Sequence[Chapter]) -> list[tuple[str, str, list[str]]]:
    """The rows of the first table: a measurement, the paper's result and that of every model."""
    paper = {what: pair[0] for each in chapters for what, pair in each.comparison.items()}
    return [(what, given, [each.comparison.get(what, ("", "–"))[1] for each in chapters]) for what, given in paper.items()]


class Verdicts(NamedTuple):
    """The claims about one part of the paper, each with the finding of every model."""

    part: Part
    claims: list[tuple[Finding, ...]]
    held: list[int]  # how many hold, for every model


PARTS: tuple[Part, ...] = ("Fig. 1", "Fig. 2", "Table 1", "Fig. 3", "Fig. 4", "Cost")


def _verdicts(chapters: Sequence[Chapter]) -> list[Verdicts]:
    claims = sorted(zip(*(each.findings for each in chapters), strict=True), key=lambda own: PARTS.index(own[0].part))
    return [
        Verdicts(part, own, [sum(each[n].holds is True for each in own) for n in range(len(chapters))])
        for part, own in ((part, list(group)) for part, group in groupby(claims, key=lambda own: own[0].part))
    ]


def _numbers(numbers: Sequence[int]) -> str:
    """Numbers as a list, three or more in a row as 1–3."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _missing(chapter: Chapter) -> str:
    """Which sentences of the paper this data does not have, and why."""
    if not chapter.missing:
        return ""
    if len(chapter.missing) == len(published.LINES):
        return f"The paper's {len(published.LINES)} sentences are not in this data: {chapter.missing[1]}, and so on."
    told = "; ".join(f"{number}: {why}" for number, why in chapter.missing.items())
    return f"Some of the paper's {len(published.LINES)} sentences are not in this data. {told}."
