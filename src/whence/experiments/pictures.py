"""The figures of one model, as PNG and PDF."""

from collections.abc import Iterable

from whence.experiments import published
from whence.experiments.fig1_fig2_heatmaps import Panel
from whence.experiments.fig4_position import distributions
from whence.experiments.methods import further_of, names_of
from whence.experiments.reproduction import Reproduction
from whence.render import colour, figure
from whence.render.colour import visible

SHORT = ("− −", "−", "0", "+", "+ +")  # the paper's signs for the five classes
SIDES = {
    "correct": "{} sentences first right, most relevant first",
    "wrong": "{} sentences first wrong, least relevant first",
}
ROWS = {"total": "both encoders", "left": "left encoder", "right": "right encoder"}


def shown_order(found: Reproduction) -> list[str]:
    """The methods in the order of the report, with random deletion."""
    return ["lrp", "sa", "lrp_cons", "gi", "random", *further_of(found.methods)]


def figures(found: Reproduction) -> dict[str, bytes]:
    """Every figure as PNG and PDF, by the name of its file."""
    names = names_of(found.methods)
    drawn = {
        "fig1_sa_heatmaps": figure.heatmaps(
            _heatmap_groups(found, "sa"), title="Sensitivity analysis: red words matter for the label"
        ),
        "fig2_lrp_heatmaps": figure.heatmaps(
            _heatmap_groups(found, "lrp"), title="LRP: red words speak for the label, blue ones against it"
        ),
        "confusion": figure.confusion(found.test.confusion, _classes(found)),
    }
    for name in further_of(found.methods):
        drawn[f"heatmaps_{name}"] = figure.heatmaps(_heatmap_groups(found, name), title=visible(names[name]))
    if found.deletion:
        drawn["fig3_deletion"] = _deletion(found)
    if found.position["lrp"]:
        drawn["fig4_position"] = _position(found)
    return {name: content for title, each in drawn.items() for name, content in figure.files(title, each).items()}


def _classes(found: Reproduction) -> list[str]:
    return [visible(name)[:30] for name in found.test.pipeline.classes]


def _colours(found: Reproduction) -> dict[str, str]:
    names, order = names_of(found.methods), shown_order(found)
    return {names[method]: colour.SERIES[n % len(colour.SERIES)] for n, method in enumerate(order)}


def _deletion(found: Reproduction) -> figure.Figure:
    names = names_of(found.methods)
    panels = {
        SIDES[side].format(f"{curves.sentences:,}"): [
            figure.Curve(names[method], curves.accuracy(method), *curves.band(method)) for method in shown_order(found)
        ]
        for side, curves in found.deletion.items()
    }
    return figure.curves(panels, colours=_colours(found), x="deleted words", y="accuracy")


def _position(found: Reproduction) -> figure.Figure:
    names, by_method = names_of(found.methods), {name: distributions(own) for name, own in found.position.items()}
    rows = {
        ROWS[part]: {
            name: {names[method]: by_method[method][part][c] for method in ("lrp", "sa")}
            for c, name in enumerate(_classes(found))
        }
        for part in by_method["lrp"]
    }
    return figure.distributions(rows, colours=_colours(found), x="interval of the sentence, of ten", y="part of relevance")


def _heatmap_groups(found: Reproduction, method: str) -> list[tuple[str, list[figure.HeatmapRow]]]:
    return [
        (
            heading(panel, found.test.pipeline.classes),
            [
                figure.HeatmapRow(number, SHORT[panel.label], SHORT[found.test.predicted[n]], found.by_label[method][n])
                for number, n in zip(panel.numbers, panel.rows, strict=True)
            ],
        )
        for panel in found.panels
        if panel.rows
    ]


def heading(panel: Panel, classes: Iterable[str]) -> str:
    """What a panel of heatmaps shows."""
    label = list(classes)[panel.label][:60]
    if panel.is_correct is None:
        return f"the paper's sentences: {label}"
    kind = "further sentences: " if panel.numbers[:1] > [published.HEATMAPS] else ""
    return f"{kind}{label}, {'correctly' if panel.is_correct else 'wrongly'} classified"
