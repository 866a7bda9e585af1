"""The figures of docs/plots.md: `python docs/make_plots.py [FOLDER]` draws all of them with bundled models."""

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import cast

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import whence
from whence.models.files import write_whole
from whence.models.forecaster import Forecaster

FIGURES = Path(__file__).parent / "figures"
TEXTS = [
    "neither funny nor suspenseful nor particularly well-drawn .",
    "a gorgeous , witty , seductive movie .",
    "it 's not horrible , just horribly mediocre .",
]
REVIEWS = [
    *TEXTS,
    "a moving and brilliant joy of a film .",
    "dull , lifeless and far too long .",
    "the cast is wonderful and the script is awful .",
    "an awful mess .",
    "a funny , moving and gorgeous story .",
    "boring and badly acted .",
    "not bad at all .",
    "too dull to be funny .",
    "a wonderful cast brings warmth to a dull script .",
    "a mess , but a brilliant mess .",
]


class EveryDay(nn.Module):
    """river-lstm's forecasts after every day, not only after the last."""

    def __init__(self, forecaster: Forecaster) -> None:
        super().__init__()
        self.forecaster = forecaster

    def forward(self, x: Tensor) -> Tensor:
        """The forecasts (B, T, 3)."""
        return self.forecaster.every_step(x)


def heatmap() -> Figure:
    """Time × feature, with the values above."""
    river = whence.load("river-lstm")
    table = river.example_table()
    explanation = whence.explain_series(river, table.values, output="1 day")
    return whence.plot(explanation, inputs=table.values, steps=table.labels, step="day")


def horizons() -> Figure:
    """What each feature gave to every horizon."""
    river = whence.load("river-lstm")
    values = river.example_table().values
    return whence.plot([whence.explain_series(river, values, output=name) for name in river.outputs])


def memory() -> Figure:
    """How far back the relevance goes."""
    river = whence.load("river-lstm")
    explanation = whence.explain_series(river, river.example_table().values, output="1 day")
    return whence.plot(explanation, "memory", step="day")


def matrix() -> Figure:
    """Every day's forecast, by the days that it comes from."""
    river = whence.load("river-lstm")
    table = river.example_table()
    x = (torch.tensor(table.values) - torch.tensor(river.feature_centre)) / torch.tensor(river.feature_scale)
    every_day = EveryDay(cast(Forecaster, river.module))
    result = whence.relevance(every_day, x[None, -60:], target=("all", 0))
    result = whence.Result(river.output_scale[0] * result.relevance, result.score, result.target, result.method)
    return whence.plot(
        result, steps=table.labels[-60:], step="day", unit="m³/s", title="LRP for tomorrow's flow, forecast every day"
    )


def words() -> Figure:
    """The words of a few texts in colour."""
    return whence.plot(whence.explain(whence.load("sst-bilstm"), TEXTS))


def top() -> Figure:
    """The words with the most relevance in many texts."""
    return whence.plot(whence.explain(whence.load("sst-bilstm"), REVIEWS, target="positive"), "top", most=16)


def bars() -> Figure:
    """The words of one text as bars."""
    return whence.plot(whence.explain(whence.load("sst-bilstm"), TEXTS[0]), "bars")


DRAWN: dict[str, Callable[[], Figure]] = {each.__name__: each for each in (heatmap, matrix, horizons, memory, words, bars, top)}


def main(folder: Path = FIGURES) -> None:
    """Draw and save all figures."""
    for name, draw in DRAWN.items():
        content = BytesIO()
        draw().savefig(content, format="png", dpi=100, metadata={"Software": None}, pil_kwargs={"optimize": True})
        write_whole(folder / f"plot-{name}.png", content.getvalue())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
