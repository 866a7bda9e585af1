"""The kinds of figures by name, and which of them fits what was given."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, cast

from matplotlib.figure import Figure

from whence._series import SeriesExplanation
from whence.errors import InputError
from whence.explanation import Explanation
from whence.plots import heatmaps, shares, words
from whence.plots.reading import Asked, series_of
from whence.plots.series import Series
from whence.plots.settings import Settings
from whence.result import Result

NUMBERS: dict[str, Callable[[Series, Settings], Figure]] = {
    "heatmap": heatmaps.heatmap,
    "matrix": heatmaps.matrix,
    "horizons": shares.horizons,
    "memory": shares.memory,
}
TEXTS: dict[str, Callable[[Sequence[Explanation], Settings], Figure]] = {
    "words": words.words,
    "bars": words.bars,
    "top": words.top,
}
FEW = 12  # texts; of more, the top words are drawn


def drawn(explained: object, kind: str | None, asked: Asked, settings: Settings) -> Figure:
    """The figure of what was given."""
    given: Any = [explained] if isinstance(explained, (Explanation, SeriesExplanation)) else explained
    if kind is not None and kind not in (*NUMBERS, *TEXTS):
        raise InputError(f"kind is {kind!r}; the kinds are {', '.join((*NUMBERS, *TEXTS))}")
    if isinstance(given, Result) or _are(given, SeriesExplanation):
        return _of_numbers(given, kind, asked, settings)
    if _are(given, Explanation):
        return _of_texts(given, kind, asked, settings)
    shown = "an empty list" if given == [] else f"a {type(explained).__name__}"
    raise InputError(f"{shown} cannot be drawn; give a Result, an Explanation, a SeriesExplanation, or a list of explanations")


def _are(given: object, kind: type) -> bool:
    each = list(cast(Sequence[object], given)) if isinstance(given, (list, tuple)) else []
    return bool(each) and all(isinstance(one, kind) for one in each)


def _of_numbers(given: Any, kind: str | None, asked: Asked, settings: Settings) -> Figure:
    if kind in TEXTS:
        raise InputError(f"kind={kind!r} draws explanations of texts; for numbers, the kinds are {', '.join(NUMBERS)}")
    series = series_of(given, asked)
    kind = kind or _fitting(series, settings, is_list=not isinstance(given, Result))
    if settings.last is not None and kind == "horizons":
        raise InputError("last= is for steps that are drawn, and kind='horizons' sums over all of them; leave it out")
    return NUMBERS[kind](series, settings)


def _fitting(series: Series, settings: Settings, *, is_list: bool) -> str:
    if len(series.outputs) == 1 or (settings.output is not None and series.classes == 1):
        return "heatmap"
    return "horizons" if is_list or not series.sequences else "matrix"


def _of_texts(given: Sequence[Explanation], kind: str | None, asked: Asked, settings: Settings) -> Figure:
    if kind in NUMBERS:
        raise InputError(f"kind={kind!r} draws series of numbers; for texts, the kinds are {', '.join(TEXTS)}")
    if settings.last is not None:
        raise InputError("last= is for series of numbers; leave it out for texts")
    for each in fields(Asked):
        value = getattr(asked, each.name)
        if value is not each.default and not (isinstance(value, (str, int)) and value == each.default):
            raise InputError(f"{each.name}= is for series of numbers; leave it out for texts")
    explained = [each for each in given if not getattr(each, "error", None)]
    if not explained:
        raise InputError(f"none of the {len(given)} texts has an explanation, so there is nothing to draw")
    return TEXTS[kind or ("words" if len(given) <= FEW else "top")](explained, settings)
