"""`Settings`: how a figure is drawn, and which of several outputs and inputs."""

from dataclasses import dataclass, replace
from textwrap import fill

import numpy as np

from whence.errors import InputError
from whence.plots.series import Part, Series
from whence.plots.thinning import short


@dataclass(frozen=True)
class Settings:
    """What the caller says about the drawing; see `whence.plot`."""

    ax: object = None
    title: str | None = None
    output: int | str | None = None
    limit: float | None = None
    most: int = 20
    last: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.most, int) or isinstance(self.most, bool) or self.most < 2:
            raise InputError(f"most is {self.most!r}; give the number of rows to draw, at least 2")
        if self.last is not None and (not isinstance(self.last, int) or isinstance(self.last, bool) or self.last < 1):
            raise InputError(f"last is {self.last!r}; give the number of last steps to draw, at least 1")

    def one_output(self, series: Series) -> Series:
        """The series with the one output that the caller chose, or the only one there is."""
        if self.output is None and len(series.outputs) == 1:
            return series
        last = len(series.outputs) - 1
        if self.output is None:
            raise InputError(
                f"this explains {last + 1} outputs, {series.shapes}; say which to draw with output=0 … {last}, "
                'or draw all of them with kind="matrix" or kind="horizons"'
            )
        return series.only([self._place(series)])

    def _place(self, series: Series) -> int:
        if isinstance(self.output, str) and self.output in series.outputs:
            return series.outputs.index(self.output)
        if (
            isinstance(self.output, (int, np.integer))
            and not isinstance(self.output, bool)
            and 0 <= self.output < len(series.outputs)
        ):
            return int(self.output)
        names = ", ".join(map(repr, series.outputs[:12])) + (", …" if len(series.outputs) > 12 else "")
        raise InputError(f"output is {self.output!r}; the outputs are {names}, numbered from 0")

    def one_class(self, series: Series) -> Series:
        """If every step has the outputs of several classes, those of the class that the caller chose."""
        classes = series.classes
        if classes == 1:
            return series
        if not isinstance(self.output, (int, np.integer)) or not 0 <= self.output < classes:
            row = "horizon" if series.are_horizons else "step"
            raise InputError(
                f"output is {self.output!r}; the result explains {classes} classes at every {row}: choose one with "
                f"output=0 … {classes - 1}"
            )
        return series.only(range(int(self.output), len(series.outputs), classes))

    def one_sequence(self, series: Series) -> Part:
        """The inputs that have steps as one; they must have the same steps."""
        found = series.sequences
        if not found:
            raise InputError(f"no input has steps, {series.shapes}; draw a heatmap")
        if len({part.length for part in found}) > 1:
            listed = ", ".join(f"{part.name!r} has {part.length}" for part in found)
            raise InputError(f"the inputs have different numbers of steps: {listed}; choose one with part=")
        if len(found) == 1:
            return found[0]
        names = tuple(name for part in found for name in part.full_names)
        joined = np.concatenate([part.relevance for part in found], axis=-1)
        return replace(found[0], name="", relevance=joined, features=names, values=None, is_named=True)

    def title_of(self, series: Series) -> str:
        """The caller's title, or what is explained and by which method; below it why that is in doubt."""
        doubts = list(dict.fromkeys(filter(None, series.doubts)))
        below = "\n" + fill(f"in doubt: {doubts[0]}", 80) if doubts else ""
        return (self._heading(series) if self.title is None else self.title) + below

    def _heading(self, series: Series) -> str:
        if len(series.outputs) == 1:
            what = f"{short(series.outputs[0], 40)}: {series.amounts[0]}"
        else:
            kind = f"{series.row}s" if series.output_steps else "outputs"
            what = f"{len(series.outputs)} {kind}"
        return ", ".join(filter(None, [f"{series.method} for {what}", series.sample]))
