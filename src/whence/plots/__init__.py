"""`plot`: results and explanations as matplotlib figures. matplotlib is loaded when something is drawn."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from whence.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def plot(
    explained: object,
    kind: str | None = None,
    *,
    inputs: object = None,
    features: object = None,
    steps: object = None,
    outputs: Sequence[str] | None = None,
    output: int | str | None = None,
    sample: int = 0,
    lengths: object = None,
    part: int | str | None = None,
    batch_first: bool | None = None,
    unit: str | None = None,
    step: str = "step",
    limit: float | None = None,
    most: int = 20,
    last: int | None = None,
    title: str | None = None,
    ax: "Axes | Figure | SubFigure | None" = None,
) -> "Figure":
    """Draw a result, an explanation, or a list of explanations; gives a matplotlib figure.

    Kinds for numbers (a `Result`, a `SeriesExplanation`, or several of these for one series):

    - "heatmap": time × feature, with the values of the series above if `inputs` are given
    - "matrix": output × input step, for a result with `target="all"` or `("all", class)`
    - "horizons": for every output what each feature gave it, and the score
    - "memory": which share of the absolute relevance comes from how many steps ago, and where 50 % and 90 % are reached

    Kinds for texts (an `Explanation`, or several): "words" in colour, "bars" of words, the "top" words of all texts. Without
    a kind, the one that fits is drawn. Red speaks for the target, blue against it, and white is 0; the scale is symmetrical.

    `inputs`: the numbers that were explained. `features`, `steps`, `outputs`: names; for several inputs, `features` is a list
    or a dictionary of lists. `sample`: which of a batch. `lengths`: as given to `relevance`; padding is not drawn. `part`: one
    of several inputs. `output`: one of several outputs. `batch_first=False`: samples are in the second axis, if that is not
    clear from the shape. `limit`: the relevance with full colour. `most`: rows to draw; other features are summed up.
    `last`: only that many of the last steps are drawn.
    `ax`: axes, a figure or a subfigure of your own to draw in.

        result = whence.relevance(model, inputs)
        whence.plot(result, inputs=inputs, features=["rain", "temperature"]).savefig("river.png")
    """
    if find_spec("matplotlib") is None:
        raise InputError("whence.plot needs matplotlib; run: pip install 'whence[plot]'")
    from whence.plots.kinds import drawn  # matplotlib is optional, and slow to load
    from whence.plots.reading import Asked
    from whence.plots.settings import Settings

    asked = Asked(inputs, features, steps, outputs, sample, lengths, part, batch_first, unit, step)
    return drawn(explained, kind, asked, Settings(ax, title, output, limit, most, last))
