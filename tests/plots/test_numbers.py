"""Figures of results and of explanations of series: what is in them, not their pixels."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import whence
from whence.errors import InputError
from whence.plots import plot
from whence.result import Result


def result(*shape: int, target: Any = 0, seed: int = 0, method: Any = None) -> Result:
    """A result with random relevance (*leading axes, B, T, F)."""
    relevance = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    explained = relevance.sum((-1, -2))
    absorbed = {"bias": torch.full_like(explained, 0.5)}
    return Result(relevance, explained + 0.5, target, method or whence.LRP(), absorbed, explained)


class Tagger(nn.Module):
    """Scores of 2 classes for every step, from the steps before it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


class Last(Tagger):
    """Scores of 2 classes after the last step, also of packed sequences."""

    def forward(self, x: Tensor | PackedSequence) -> Tensor:
        return self.head(self.lstm(x)[1][0][-1])


def cells(axes: Axes) -> np.ndarray:
    (image,) = axes.images
    return np.asarray(image.get_array())


def texts(figure: Figure) -> list[str]:
    """All texts that are seen, after drawing."""
    figure.draw_without_rendering()
    return [each.get_text() for each in figure.findobj(Text) if each.get_visible() and each.get_text()]


def row_names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def heat(figure: Figure) -> Axes:
    """The axes of the heatmap."""
    return next(axes for axes in figure.axes if axes.images)


SIZES = [(steps, features) for steps in (1, 10, 365, 5000) for features in (1, 5, 200)]


@pytest.mark.parametrize(("steps", "features"), SIZES)
def test_a_heatmap_of_any_size_is_drawn_with_labels_that_do_not_overlap(steps: int, features: int) -> None:
    given = result(1, steps, features)
    figure = plot(given, inputs=given.relevance, features=[f"sensor {n}" for n in range(features)])
    figure.draw_without_rendering()
    axes = heat(figure)
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        boxes = [label.get_window_extent() for label in labels if label.get_text()]
        assert boxes
        assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])
    frame = figure.bbox
    assert all(frame.x0 <= text.get_window_extent().x0 for text in axes.get_yticklabels())


@pytest.mark.parametrize("steps", [2, 5, 8, 10])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_numbers_are_written_into_cells_only_where_they_fit(steps: int, scale: float) -> None:
    given = result(1, steps, 5)
    given = replace(given, relevance=given.relevance * scale)
    names = [f"a sensor with a long name, number {n}" for n in range(5)]
    figures = [plot(given, inputs=given.relevance, features=names, step="hour")]
    figures.append(plot(result(5, 1, steps, 5, target="all"), "matrix", outputs=names))
    own = Figure(figsize=(5, 4), layout="constrained")
    figures.append(plot(given, features=names, ax=own.subplots()))
    for figure in figures:
        figure.draw_without_rendering()
        axes = heat(figure)
        wide = axes.get_window_extent().width / steps
        assert all(text.get_window_extent().width < wide for text in axes.texts)
        assert axes.texts or steps > 2


@pytest.mark.parametrize("sample", [0, 1, -1])
def test_the_cells_are_the_relevance_of_the_sample(sample: int) -> None:
    given = result(3, 7, 4)
    axes = heat(plot(given, sample=sample))
    np.testing.assert_array_equal(cells(axes), given.relevance[sample].T.numpy())


def test_a_long_series_keeps_the_strongest_step_of_every_column() -> None:
    given = result(1, 5003, 2)
    given.relevance[0, 1234, 1] = -99.0
    axes = heat(plot(given))
    drawn = cells(axes)
    assert drawn.shape[1] <= 500
    size = -(-5003 // drawn.shape[1])
    assert f"the strongest of {size} steps" in axes.get_xlabel()
    for column in (0, 1234 // size, drawn.shape[1] - 1):
        group = given.relevance[0, column * size : (column + 1) * size, 1].numpy()
        assert drawn[1, column] == group[np.abs(group).argmax()]
    assert axes.get_xlim() == (-0.5, 5002.5)


@pytest.mark.parametrize("names", [None, [f"day {n}" for n in range(365)]])
def test_only_the_last_steps_are_drawn(names: list[str] | None) -> None:
    given = result(1, 365, 3)
    figure = plot(given, inputs=given.relevance, steps=names, last=7)
    axes = heat(figure)
    np.testing.assert_array_equal(cells(axes), given.relevance[0, -7:].T.numpy())
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), given.relevance[0, -7:, 0].numpy())
    assert axes.get_xlabel() == "step (the last 7 of 365)"
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks[0] == ("358" if names is None else "day 358")
    np.testing.assert_array_equal(cells(heat(plot(given, last=500))).shape, (3, 365))


def test_the_last_steps_of_a_matrix_and_of_memory() -> None:
    given = result(60, 1, 60, 3, target=("all", 0))
    axes = heat(plot(given, last=8))
    np.testing.assert_allclose(cells(axes), given.relevance[-8:, 0, -8:].sum(-1).numpy())
    assert axes.get_xlabel() == "input step (the last 8 of 60)"
    classes = heat(plot(result(2, 1, 60, 3, target="all"), last=8))
    assert cells(classes).shape == (2, 8)
    whole, some = plot(given, "memory"), plot(given, "memory", last=8)
    np.testing.assert_array_equal(distances(whole)[:8], distances(some)[:8])  # shares of all relevance
    assert max(some.axes[0].get_xlim()) < 9 < max(whole.axes[0].get_xlim())


def test_many_features_become_the_most_relevant_and_the_sum_of_the_others() -> None:
    given = result(1, 6, 200)
    given.relevance[0, :, 150] = 50.0
    axes = heat(plot(given, most=10))
    names, drawn = row_names(axes), cells(axes)
    assert len(names) == 10 and "150" in names
    assert names[-1] == "191 others, summed"
    np.testing.assert_allclose(drawn.sum(0), given.relevance[0].sum(-1).numpy(), rtol=1e-12)


def test_the_scale_is_symmetrical_and_has_the_colours_of_the_page() -> None:
    given = result(1, 6, 3)
    figure = plot(given, unit="kW")
    (image,) = heat(figure).images
    largest = float(given.relevance.abs().max())
    assert image.get_clim() == (-largest, largest)
    colours = [
        tuple(round(255 * part) for part in image.to_rgba(np.array([[amount]]))[0, 0, :3])
        for amount in (largest, 0.0, -largest)
    ]
    assert colours == [(178, 24, 43), (255, 255, 255), (33, 102, 172)]
    bar = figure.axes[-1]
    assert bar.get_ylabel() == "relevance in kW"
    assert [label.get_text().split("\n")[-1] for label in bar.get_yticklabels()] == ["against", "0", "for"]


def test_a_limit_cuts_the_scale() -> None:
    (image,) = heat(plot(result(1, 6, 3), limit=0.25)).images
    assert image.get_clim() == (-0.25, 0.25)


@pytest.mark.parametrize("factor", [0.0, 1e-30, 1e30])
def test_zeros_and_extreme_numbers_are_drawn(factor: float) -> None:
    given = result(1, 6, 3)
    figure = plot(replace(given, relevance=given.relevance * factor))
    figure.draw_without_rendering()
    assert (figure.axes[-1].get_ylabel() == "all relevance is 0") == (factor == 0)


def test_a_method_without_sign_has_no_against() -> None:
    given = result(1, 6, 3, method=whence.SensitivityAnalysis())
    figure = plot(replace(given, relevance=given.relevance.abs()))
    assert heat(figure).images[0].get_clim()[0] == 0
    assert not any("against" in text for text in texts(figure))


def test_values_are_drawn_above_the_heatmap_and_share_its_steps() -> None:
    given, values = result(2, 12, 3), torch.arange(72.0).reshape(2, 12, 3)
    figure = plot(given, inputs=values, sample=1, features=["rain", "heat", "sun"])
    *above, below, _ = figure.axes
    assert [axes.get_ylabel() for axes in above] == ["rain", "heat", "sun"]
    for n, axes in enumerate(above):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), values[1, :, n].numpy())
        assert axes.get_xlim() == below.get_xlim()


def test_a_series_explanation_brings_its_names_and_its_unit() -> None:
    model = whence.load("river-lstm")
    table = model.example_table()
    explanation = whence.explain_series(model, table.values, output="3 days")
    figure = plot(explanation, inputs=table.values, steps=table.labels, step="day")
    axes = heat(figure)
    assert row_names(axes) == ["rain", "temperature", "sunshine"]
    np.testing.assert_array_equal(cells(axes), np.array(explanation.relevance).T)
    assert axes.get_xlabel() == "day"
    assert axes.get_xticklabels()[0].get_text() == "2024-11-01"
    assert figure.axes[0].get_title(loc="left") == f"LRP for 3 days: {explanation.score:.4g} m³/s"


class Positive(Tagger):
    """Two numbers above 0 after the last step."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.softplus(self.head(self.lstm(x)[0][:, -1]))


def test_the_title_gives_the_forecast_and_says_what_was_explained() -> None:
    model = whence.SeriesModel(Positive(), outputs=("mean", "spread"), unit="kW")
    explanation = whence.explain_series(model, np.ones((12, 3)), output="spread")
    forecast, score = (f"{n:.4g}".replace("-", "−") for n in (explanation.outputs["spread"], explanation.score))
    figure = plot(explanation)
    assert figure.axes[0].get_title(loc="left") == f"LRP for spread: {forecast} kW (explained: {score}, before softplus)"
    assert figure.axes[-1].get_ylabel() == "relevance"  # which adds up to the score, not to the forecast


def test_horizons_stack_features_up_to_the_score() -> None:
    model = whence.load("river-lstm")
    values = model.example_table().values
    found = [whence.explain_series(model, values, output=name) for name in model.outputs]
    (axes,) = plot(found).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1 day", "3 days", "7 days"]
    heights = np.array([[bar.get_height() for bar in group] for group in axes.containers])
    sums = np.array([np.array(each.relevance).sum(0) for each in found]).T
    np.testing.assert_allclose(heights[:3], sums)
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), dtype=float), [each.score for each in found])
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["rain", "temperature", "sunshine", "score"]


def test_horizons_keep_features_apart_whatever_they_are_called() -> None:
    given = result(2, 1, 6, 3, target="all")
    (axes,) = plot(given, "horizons", features=["absorbed", "_hidden", "_hidden"]).axes
    heights = np.array([[bar.get_height() for bar in group] for group in axes.containers])
    np.testing.assert_allclose(heights[:3], given.relevance[:, 0].sum(1).T.numpy())
    np.testing.assert_allclose(heights[3], 0.5)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["absorbed", "_hidden", "_hidden", "absorbed", "score"]


def test_many_horizons_are_drawn_as_areas() -> None:
    figure = plot(result(300, 1, 4, 3, target="all"), "horizons")
    figure.draw_without_rendering()
    assert not figure.axes[0].containers and len(figure.axes[0].collections) == 4  # three features, and what was absorbed


def test_a_data_frame_names_the_features() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"rain": [1.0, 2.0], "heat": [3.0, 4.0]}, index=pandas.date_range("2024-01-31", periods=2))
    axes = heat(plot(result(1, 2, 2), inputs=frame, steps=frame.index))
    assert row_names(axes) == ["rain", "heat"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2024-01-31", "2024-02-01"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_columns_of_a_frame_are_drawn_by_name(library: str) -> None:
    frames = pytest.importorskip(library)
    model = whence.load("river-lstm")
    values = np.array(model.example_table().values)
    turned = frames.DataFrame({name: values[:, n] for n, name in reversed([*enumerate(model.features)])})
    explanation = whence.explain_series(model, turned)
    assert explanation == whence.explain_series(model, values)
    for names in (None, ["Regen", "Wärme", "Sonne"]):
        figure = plot(explanation, inputs=turned, features=names)
        assert row_names(heat(figure)) == (names or list(model.features))
        for n in range(3):
            np.testing.assert_array_equal(figure.axes[n].lines[0].get_ydata(), values[:, n])
    figure = plot(result(1, len(values), 3), inputs=turned, features=model.features)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), values[:, 0])
    with pytest.raises(InputError, match=r"the columns lack \['rain'\] and have \['snow'\] besides; the relevance names"):
        plot(explanation, inputs=frames.DataFrame({"snow": [1.0], "temperature": [1.0], "sunshine": [1.0]}))
    plain = whence.explain_series(Last(), values)
    assert row_names(heat(plot(plain, inputs=turned))) == list(reversed(model.features))
    assert row_names(heat(plot(explanation, inputs=frames.DataFrame(values)))) == list(model.features)


def test_the_matrix_shows_which_input_steps_every_output_step_used() -> None:
    x = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(1))
    given = whence.relevance(Tagger(), x, target=("all", 1))
    figure = plot(given, sample=1)
    axes = heat(figure)
    drawn = cells(axes)
    np.testing.assert_allclose(drawn, given.relevance[:, 1].sum(-1).numpy(), rtol=1e-6)
    assert (np.triu(drawn, 1) == 0).all() and (np.diag(drawn) != 0).all()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("input step", "output step")


def test_the_matrix_of_all_classes_has_their_names() -> None:
    given = whence.relevance(Last(), torch.ones(1, 5, 3), target="all")
    axes = heat(plot(given, outputs=["no", "yes"]))
    assert row_names(axes) == ["no", "yes"]
    np.testing.assert_allclose(cells(axes), given.relevance[:, 0].sum(-1).numpy(), rtol=1e-6)


def test_of_all_steps_and_classes_one_class_is_drawn() -> None:
    given = whence.relevance(Tagger(), torch.ones(1, 5, 3), target=("all", "all"))
    with pytest.raises(InputError, match="2 classes at every step: choose one with output=0 … 1"):
        plot(given)
    np.testing.assert_allclose(cells(heat(plot(given, output=1))), given.relevance[:, 1, 0].sum(-1).numpy(), rtol=1e-6)


def test_one_of_several_outputs_is_drawn_as_a_heatmap() -> None:
    given = result(4, 1, 6, 3, target="all")
    for output in (2, "c"):
        axes = heat(plot(given, outputs=list("abcd"), output=output))
        np.testing.assert_array_equal(cells(axes), given.relevance[2, 0].T.numpy())
    with pytest.raises(InputError, match=r"this explains 4 outputs.* say which to draw with output=0 … 3"):
        plot(given, "heatmap")
    with pytest.raises(InputError, match="output is 'e'; the outputs are 'a', 'b', 'c', 'd'"):
        plot(given, "heatmap", outputs=list("abcd"), output="e")


def test_memory_says_where_half_and_nine_tenths_are_reached() -> None:
    relevance = torch.zeros(1, 100, 2, dtype=torch.float64)
    relevance[0, -1, 0], relevance[0, -11, 1], relevance[0, -31, 1] = 4.0, -5.0, 1.0
    given = replace(result(1, 100, 2), relevance=relevance)
    figure = plot(given, "memory", step="day", features=["a", "b"])
    (axes,) = figure.axes
    shares = np.asarray(axes.lines[2].get_ydata())  # after those of both features
    assert (shares[0], shares[9], shares[10], shares[30]) == pytest.approx((0.4, 0.4, 0.9, 1.0))
    assert "50 % and 90 %: 10 days" in texts(figure)
    assert {"a (40 %)", "b (60 %)"} <= set(texts(figure))
    low, high = sorted(axes.get_xlim())
    assert low < 0 and high >= 30


def test_memory_counts_from_the_step_of_the_output() -> None:
    x = torch.randn(1, 9, 3, generator=torch.Generator().manual_seed(1))
    given = whence.relevance(Tagger(), x, target=(4, 0))
    (axes,) = plot(given, "memory").axes
    shares = np.asarray(axes.lines[3].get_ydata())
    amounts = given.relevance[0].abs().sum(-1).numpy()[4::-1]
    np.testing.assert_allclose(shares[:5], amounts.cumsum() / amounts.sum(), rtol=1e-5)
    assert axes.get_xlabel() == "steps before the output"


def distances(figure: Figure) -> np.ndarray:
    """The cumulative shares of all features in a plot of memory."""
    return np.asarray(figure.axes[0].lines[-1 - sum(line.get_linestyle() == ":" for line in figure.axes[0].lines)].get_ydata())


def test_memory_of_an_explained_step_counts_from_that_step() -> None:
    x = torch.randn(1, 60, 3, generator=torch.Generator().manual_seed(1))
    expected = distances(plot(whence.relevance(Tagger(), x, target=(30, 1)), "memory"))
    explained = [whence.explain_series(Tagger(), x[0], output=f"step {step}, output 1") for step in (30, 59)]
    assert [each.output_step for each in explained] == [30, 59]
    np.testing.assert_allclose(distances(plot(explained[0], "memory")), expected, atol=1e-5)
    np.testing.assert_allclose(distances(plot(explained, "memory", output=0)), expected, atol=1e-5)
    classes = whence.relevance(Tagger(), x, target=(30, "all"))
    np.testing.assert_allclose(distances(plot(classes, "memory", output=1)), expected, atol=1e-5)
    assert whence.explain_series(Last(), x[0]).output_step is None


class Ahead(Tagger):
    """Forecasts (B, 4, 2) of two numbers at four horizons after the series."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.head(self.lstm(x)[0][:, -1]) * n for n in (1, 2, 3, 4)], dim=1)


def test_horizons_come_after_the_last_step() -> None:
    x = torch.randn(1, 9, 3, generator=torch.Generator().manual_seed(1))
    given = whence.relevance(Ahead(), x, target=(1, 0))
    figure = plot(given, "memory")
    amounts = given.relevance[0].abs().sum(-1).numpy()[::-1]
    np.testing.assert_allclose(distances(figure), amounts.cumsum() / amounts.sum(), rtol=1e-5)
    assert figure.axes[0].get_xlabel() == "steps before the last input step"
    assert figure.axes[0].get_title(loc="left").startswith("LRP for horizon 1, target 0")
    every = whence.relevance(Ahead(), x, target=("all", 0))
    np.testing.assert_allclose(distances(plot(every, "memory")), distances(figure), rtol=1e-2)  # epsilon differs by scale
    matrix = heat(plot(every, "matrix"))
    assert (matrix.get_xlabel(), matrix.get_ylabel(), matrix.get_title(loc="left")) == (
        "input step", "horizon", "LRP for 4 horizons",
    )  # fmt: skip
    assert not matrix.lines
    assert plot(every, "horizons").axes[0].get_xlabel() == "horizon"
    padded = whence.relevance(Ahead(), x.repeat(2, 1, 1), target=("all", 0), lengths=[3, 9])
    assert cells(heat(plot(padded, lengths=[3, 9]))).shape == (4, 3)
    with pytest.raises(InputError, match="2 classes at every horizon"):
        plot(whence.relevance(Ahead(), x, target=("all", "all")), "matrix")


def test_as_many_horizons_as_steps_are_taken_for_the_steps() -> None:
    x = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(1))
    given = whence.relevance(Ahead(), x, target=("all", 0))
    assert heat(plot(given)).get_ylabel() == "output step"


def test_packed_sequences_are_drawn_without_padding() -> None:
    x = torch.randn(3, 6, 3, generator=torch.Generator().manual_seed(1))
    packed = pack_padded_sequence(x, [4, 6, 2], batch_first=True, enforce_sorted=False)
    given = whence.relevance(Last(), packed, target=1)
    alone = whence.relevance(Last(), x[:1, :4], target=1).relevance[0].T.numpy()
    figure = plot(given, inputs=packed)
    np.testing.assert_allclose(cells(heat(figure)), alone, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), x[0, :4, 0].numpy())
    classes = whence.relevance(Last(), packed, target="all")
    np.testing.assert_allclose(cells(heat(plot(classes)))[1], alone.sum(0), rtol=1e-4, atol=1e-6)


def test_padding_is_left_out_by_lengths() -> None:
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1))
    given = whence.relevance(Last(), x, target=1, lengths=[4, 6])
    assert cells(heat(plot(given, lengths=[4, 6]))).shape == (3, 4)
    steps = whence.relevance(Tagger(), x, target=("all", 0), lengths=[4, 6])
    assert cells(heat(plot(steps, lengths=[4, 6]))).shape == (4, 4)
    with pytest.raises(InputError, match="lengths is \\[4\\]; give one number above 0 for each of the 2 samples"):
        plot(given, lengths=[4])


def test_samples_in_the_second_axis_are_found() -> None:
    given = replace(result(1, 7, 4), absorbed={})
    turned = replace(given, relevance=torch.randn(7, 3, 4), score=torch.zeros(3))
    np.testing.assert_allclose(cells(heat(plot(turned, sample=2))), turned.relevance[:, 2].T.numpy(), rtol=1e-6)
    square = replace(given, relevance=torch.randn(3, 3, 4), score=torch.zeros(3))
    drawn = cells(heat(plot(square, sample=2, batch_first=False)))
    np.testing.assert_allclose(drawn, square.relevance[:, 2].T.numpy(), rtol=1e-6)


def test_several_inputs_get_a_panel_each_and_static_ones_bars() -> None:
    series = result(1, 12, 3)
    static = torch.tensor([[0.5, -0.75]], dtype=torch.float64)
    given = replace(series, relevance=(series.relevance, static))
    figure = plot(given, features=[["rain", "heat", "sun"], ["area", "height"]])
    above, below, _ = figure.axes
    assert row_names(above) == ["rain", "heat", "sun"] and row_names(below) == ["area", "height"]
    assert [bar.get_width() for bar in below.patches] == [0.5, -0.75]  # pyright: ignore[reportAttributeAccessIssue] - a bar
    (alone,) = plot(given, part="input 1", features=[None, ["area", "height"]]).axes
    assert row_names(alone) == ["area", "height"]
    with pytest.raises(InputError, match="part is 'x'; the inputs are 'input 0', 'input 1'"):
        plot(given, part="x")


def test_a_dictionary_of_inputs_keeps_its_keys() -> None:
    one, other = result(1, 12, 3), result(1, 12, 2, seed=1)
    given = replace(one, relevance={"weather": one.relevance, "market": other.relevance})
    figure = plot(given, inputs={"weather": one.relevance}, features={"market": ["coal", "gas"]})
    assert [axes.get_ylabel() for axes in figure.axes if axes.images] == ["weather", "market"]
    (axes,) = plot(given, "memory").axes
    legend = axes.get_legend()
    assert legend is not None and len(legend.get_texts()) == 6
    drawn: Mapping[str, Any] = {"weather": one.relevance, "market": torch.zeros(1, 5, 2)}
    with pytest.raises(InputError, match="different numbers of steps: 'weather' has 12, 'market' has 5; choose one with part="):
        plot(replace(one, relevance=drawn), "memory")


def test_relevance_by_step_is_one_row() -> None:
    given = result(2, 9, 3)
    np.testing.assert_allclose(cells(heat(plot(given.by_step()))), given.relevance[:1].sum(-1).numpy())


TARGETS = [
    (1, "no", "LRP for yes: "),
    ("predicted", None, "LRP for target "),
    ([0, 1], None, "LRP for target 0: "),
    (whence.contrast(0, 1), None, "LRP for contrast(0, 1): "),
    (lambda scores: scores[:, 0] - 1, None, "LRP for the score: "),
]


@pytest.mark.parametrize(("target", "names", "title"), TARGETS)
def test_the_title_says_what_is_explained(target: Any, names: object, title: str) -> None:
    given = whence.relevance(Last(), torch.ones(2, 5, 3), target=target)
    figure = plot(given, outputs=["no", "yes"] if names else None)
    assert figure.axes[0].get_title(loc="left").startswith(title)
    assert figure.axes[0].get_title(loc="left").endswith(", sample 0 of 2")


def test_a_single_vector_is_drawn_as_bars() -> None:
    given = whence.relevance(nn.Linear(3, 1), torch.tensor([1.0, 2.0, 3.0]))
    (axes,) = plot(given, features=["a", "b", "c"]).axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(given.relevance.tolist())  # pyright: ignore[reportAttributeAccessIssue]


HOSTILE = ["$\\alpha$", "$unclosed", "a_b^c{", "line\nbreak", "\u202eevil", "x" * 300]


@pytest.mark.parametrize("kind", ["heatmap", "horizons", "memory"])
def test_names_are_shown_as_they_are_never_as_formulas(kind: str) -> None:
    given = result(1, 4, len(HOSTILE))
    steps = ["$1$", "$2$", "$3$", "$4$"]
    figure = plot(given, kind, features=HOSTILE, steps=steps, outputs=["$o$"], title="100 $ and $x^2$", step="$s$", unit="$u$")
    shown = texts(figure)
    assert "100 $ and $x^2$" in shown
    assert any("$\\alpha$" in text for text in shown)
    assert any("$unclosed" in text for text in shown)
    assert max(map(len, shown)) < 80 and not any("\u202e" in text for text in shown)
    risky = [each for each in figure.findobj(Text) if "$" in each.get_text()]
    assert risky and not any(each.get_parse_math() or each.get_usetex() for each in risky)  # pyright: ignore[reportAttributeAccessIssue]


LONG = "catchment_of_the_upper_river_temperature_daily"
ALIKE = [
    f"{LONG}_mean",
    f"{LONG}_maximum",
    f"{LONG}_maximum_2m",
    "short",
    *(f"{LONG}_{n}_at_the_northern_gauge" for n in range(3)),
]


@pytest.mark.parametrize("kind", ["heatmap", "horizons", "memory", "matrix"])
def test_long_names_stay_different(kind: str) -> None:
    """Cut in the middle, and where that is not enough, from the letter in which they differ on."""
    given = result(len(ALIKE), 1, 12, len(ALIKE), target="all")
    output = 0 if kind in ("heatmap", "memory") else None
    figure = plot(given, kind, inputs=given.relevance[0], features=ALIKE, outputs=ALIKE, output=output)
    figure.draw_without_rendering()
    axes = next((each for each in figure.axes if each.images), figure.axes[0])
    legend = axes.get_legend()
    names = row_names(axes) if legend is None else [text.get_text() for text in legend.get_texts()]
    assert len(set(names)) == len(names) >= len(ALIKE)
    assert all(len(name.split(" (")[0]) <= 28 for name in names)
    if kind == "heatmap":
        assert {each.get_ylabel() for each in figure.axes[:5]} <= set(names)  # the same in both panels
    if kind == "horizons":
        ticks = [label.get_text() for label in axes.get_xticklabels()]
        assert len(set(ticks)) == len(ticks)


def test_of_a_single_step_the_name_is_cut_and_never_the_value() -> None:
    given = result(1, 1, len(ALIKE))
    values = torch.full((1, 1, len(ALIKE)), -1234.0)
    names = row_names(heat(plot(given, inputs=values, features=ALIKE)))
    assert len(set(names)) == len(names) and all(name.endswith(" = −1.23e+03") for name in names)


def test_a_users_style_is_followed_and_nothing_global_changes() -> None:
    code = """
import sys, torch, whence
from matplotlib import rcParams
from whence.plots import plot
rcParams["text.color"] = "green"
before = rcParams.copy()
result = whence.relevance(torch.nn.Linear(3, 1), torch.randn(1, 30, 3).sum(1))
figure = plot(result, inputs=torch.randn(1, 3), features=["a", "b", "c"])
figure.savefig(sys.argv[1])
assert rcParams.copy() == before
assert figure.axes[0].title.get_color() == "green"
assert "matplotlib.pyplot" not in sys.modules
"""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", code, f"{folder}/x.png"]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert Path(folder, "x.png").read_bytes().startswith(b"\x89PNG")


def test_it_draws_into_axes_and_subfigures_of_the_user() -> None:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = cast("tuple[SubFigure, SubFigure]", figure.subfigures(1, 2))
    axes = right.subplots()
    assert plot(result(1, 9, 3), ax=axes) is figure
    assert axes.images and axes.get_title(loc="left")
    assert plot(result(1, 9, 3), inputs=torch.randn(1, 9, 3), ax=left) is figure
    assert len(left.axes) == 5  # three lines, the heatmap and its legend
    figure.draw_without_rendering()
    with pytest.raises(InputError, match="this plot has 4 panels; give ax=None, a figure or a subfigure"):
        plot(result(1, 9, 3), inputs=torch.randn(1, 9, 3), ax=axes)
    with pytest.raises(InputError, match="ax is a str; give matplotlib's Axes, Figure or SubFigure"):
        plot(result(1, 9, 3), ax="mine")  # pyright: ignore[reportArgumentType]


def test_a_notebook_gets_a_png() -> None:
    figure: Any = plot(result(1, 9, 3), features=["温度", "b", "c"])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_results_and_explanations_plot_themselves() -> None:
    assert heat(result(1, 9, 3).plot("heatmap", features=list("abc"))).images


BAD = [
    (lambda given: plot(given, "pie"), "kind is 'pie'; the kinds are heatmap, matrix, horizons, memory, words, bars, top"),
    (lambda given: plot(given, "words"), "kind='words' draws explanations of texts; for numbers, the kinds are heatmap"),
    (lambda given: plot(given, "matrix"), r"this explains one, \(outputs, steps, features\) = \(1, 5, 3\)"),
    (lambda given: plot(given, sample=2), "sample 2 does not exist: the result has 2, so samples run 0–1"),
    (lambda given: plot(given, sample=cast(Any, "a")), "sample is 'a'; give the number of one sample"),
    (lambda given: plot(given, features=["a", "b"]), r"features has 2 names; the relevance has 3: \(5, 3\)"),
    (lambda given: plot(given, features="abc"), "features is 'abc'; give a list of names"),
    (lambda given: plot(given, steps=["a"]), "steps has 1 names; the series has 5 steps"),
    (
        lambda given: plot(given, inputs=torch.ones(4, 3)),
        r"inputs have the shape \(4, 3\) for one sample, the relevance \(5, 3\)",
    ),
    (lambda given: plot(given, inputs=["a"]), "inputs hold a list that is more than numbers"),
    (lambda given: plot(given, limit=-1.0), "limit is -1.0; give the relevance with full colour"),
    (lambda given: plot(given, most=1), "most is 1; give the number of rows to draw, at least 2"),
    (lambda given: plot(given, last=0), "last is 0; give the number of last steps to draw, at least 1"),
    (lambda given: plot(given, "horizons", last=2), "last= is for steps that are drawn, and kind='horizons' sums over all"),
    (
        lambda given: plot(replace(given, relevance={"a": given.relevance, "b": given.relevance[:, 1:]}), last=2),
        "last= needs inputs of the same steps; choose one with part=",
    ),
    (lambda given: plot(given.relevance), "a Tensor cannot be drawn; give a Result"),
    (lambda given: plot([]), "an empty list cannot be drawn"),
    (lambda given: plot(given, lengths="long"), "lengths is 'long'; give one whole number per sample"),
]


@pytest.mark.parametrize(("draw", "message"), BAD)
def test_what_cannot_be_drawn_is_refused(draw: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(result(2, 5, 3))


def test_numbers_that_are_not_finite_are_refused() -> None:
    given = result(1, 5, 3)
    given.relevance[0, 2, 1] = float("nan")
    with pytest.raises(InputError, match="relevance holds nan at step 2, feature 'b'; only finite numbers can be drawn"):
        plot(given, features=list("abc"))
    values = torch.ones(1, 5, 3)
    values[0, 4, 0] = float("inf")
    with pytest.raises(InputError, match="inputs holds inf at step 4"):
        plot(result(1, 5, 3), inputs=values)


def test_shapes_that_are_no_series_are_refused() -> None:
    given = replace(result(1, 5, 3), relevance=torch.zeros(1, 5, 4, 3))
    with pytest.raises(InputError, match=r"has the shape \(1, 5, 4, 3\), which is 3 axes for a sample"):
        plot(given)
    with pytest.raises(InputError, match="no axis of it holds the 9 samples"):
        plot(replace(given, relevance=torch.zeros(2, 5, 3), score=torch.zeros(9)))
    ids = torch.ones(1, 5, dtype=torch.long)
    with pytest.raises(InputError, match="they are token ids, which have no height to draw"):
        plot(result(1, 5, 3), inputs=ids)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "whence.plots."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"^whence.plot needs matplotlib; run: pip install 'whence\[plot\]'$"):
        plot(result(1, 5, 3))
