"""The made-up river, and whether the bundled forecaster does what its record says."""

import re
from pathlib import Path

import pytest
import torch

import whence
from whence.data.river import REFERENCE, YEAR, Day, flow_and_snow, river
from whence.evaluation.river import HORIZONS, checks, efficiencies, efficiency, held_out_years
from whence.models.bundled import directory, series_records
from whence.models.forecaster import Forecaster
from whence.recurrent.lstm.weights import lstm_gates
from whence.training.river import RiverRecipe, train_river


def test_water_is_neither_made_nor_lost() -> None:
    """Without warmth and sunshine nothing dries, so all rain ends up as flow; in frost it lies as snow."""
    wet = [Day(10.0, 5.0, 0.0)] * 300
    flow = [flow for flow, _ in flow_and_snow([*wet, *[Day(0.0, -3.0, 0.0)] * 3000])]
    stored = 0.7 * 120 + 3 + 5 + 30  # mm at the start; soil keeps its last 120
    assert sum(flow) * 86.4 / 800 == pytest.approx(3000 + stored - 120, rel=1e-6)
    *_, (_, snow) = flow_and_snow([Day(2.0, -5.0, 3.0)] * 50)
    assert snow == pytest.approx(100.0)
    *_, (_, snow) = flow_and_snow([*[Day(2.0, -5.0, 3.0)] * 50, *[Day(0.0, 8.0, 5.0)] * 8])
    assert snow == 0


def test_the_same_seed_gives_the_same_years() -> None:
    one, again, other = river(2, seed=5), river(2, seed=5), river(2, seed=6)
    assert one.weather.equal(again.weather) and one.flow.equal(again.flow)
    assert not one.weather.equal(other.weather)
    assert one.weather.shape == (2 * YEAR, 3) and one.flow.shape == one.snow.shape == (2 * YEAR,)
    assert float(one.weather[:, 0].min()) == 0 and float(one.weather[:, 2].min()) >= 0 and float(one.flow.min()) > 0
    years = one.weather[:, 1].reshape(2, YEAR)
    assert float(years[:, 180:210].mean()) > float(years[:, :30].mean()) + 10  # July is warmer than January


def test_blanked_years_have_days_at_the_reference() -> None:
    plain, blanked = (river(3, seed=5, blanks=blanks).weather for blanks in (False, True))
    at_reference = blanked == torch.tensor(REFERENCE)
    assert at_reference[:, 1:].float().mean(0).tolist() == pytest.approx([0.13, 0.13], abs=0.06)
    assert blanked[~at_reference].equal(plain[~at_reference])


def test_efficiency_is_1_for_the_truth_and_0_for_the_mean() -> None:
    flow = torch.tensor([1.0, 4.0, 2.0, 9.0])
    assert efficiency(flow, flow) == 1
    assert efficiency(flow.mean().expand(4), flow) == pytest.approx(0.0)
    assert efficiency(torch.tensor([2.0, 4.0, 2.0, 9.0]), flow) == pytest.approx(1 - 1 / 38)


def test_the_forecasts_are_as_good_as_recorded() -> None:
    record = series_records()["river-lstm"]["training"]["test"]["efficiency"]
    found = efficiencies(whence.load("river-lstm"), held_out_years())
    for name in HORIZONS:
        assert found[name] == pytest.approx(record[name], abs=1e-3)
        assert found[name]["model"] > max(found[name]["persistence"], found[name]["climatology"])
    assert found["1 day"]["model"] > 0.97 and found["3 days"]["model"] > 0.92 and found["7 days"]["model"] > 0.55


@pytest.mark.slow
def test_the_explanations_fit_the_river_as_recorded() -> None:
    found = checks(whence.load("river-lstm"), held_out_years())
    assert found == pytest.approx(series_records()["river-lstm"]["training"]["test"]["relevance"], abs=1e-3)
    events = found["rain events that raised the flow by more than 1 m³/s"]
    assert found["of these, blanking lowers the forecast"] >= 0.98 * events
    assert found["of these, rain has positive relevance"] >= 0.98 * events
    assert found["correlation: forecast fell, flow would have fallen"] > 0.97
    assert found["absorbed, as a part of the forecasts"] < 1e-3
    assert found["of these, temperature's mean part of the forecast"] > 0.3


def test_without_weather_there_is_no_flow() -> None:
    model = whence.load("river-lstm")
    assert model.feature_centre == REFERENCE
    assert isinstance(model.module, Forecaster)
    encoder = model.module.encoder
    biases = [tensor for name, tensor in encoder.named_parameters() if name.startswith("bias")]
    assert not any(bool(lstm_gates(bias).g.any()) for bias in biases)
    found = whence.explain_series(model, [REFERENCE] * 200)
    assert set(found.outputs.values()) == {0.0}


def test_the_example_is_a_winter_with_a_flood_behind_it() -> None:
    model = whence.load("river-lstm")
    table = model.example_table()
    assert (len(table.values), table.labels[0], table.labels[-1]) == (142, "2024-11-01", "2025-03-22")
    found = whence.explain_series(model, table.values)
    assert found.outputs["1 day"] == pytest.approx(float(river(2, seed=2).flow[YEAR + 81]), rel=0.15)
    assert sum(map(sum, found.relevance)) + sum(found.absorbed.values()) == pytest.approx(found.score, rel=1e-9)
    rain = [row[0] for row, value in zip(found.relevance[-30:], table.values[-30:], strict=True) if value[0] > 5]
    assert len(rain) > 2 and min(rain) > 0
    for feature in ("rain", "temperature"):
        assert whence.explain_series(model, table.values, blank=[(120, 142, [feature])]).score < 0.8 * found.score


def test_a_card_with_the_same_figures_and_small_files() -> None:
    folder = directory("river-lstm")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# river-lstm")
    record = series_records()["river-lstm"]["training"]["test"]
    for name, each in record["efficiency"].items():
        figures = " | ".join(f"{value:.3f}".replace("-", "−") for value in each.values())
        assert f"| {name} | {figures} |" in card
        assert f"| {name} | {figures} |" in (Path(__file__).parents[2] / "docs" / "series.md").read_text(encoding="utf-8")
    for name, value in record["relevance"].items():
        assert re.search(rf"\| {re.escape(name)} \| {re.escape(f'{value:.4g}'.replace('-', '−'))} \|", card), name


@pytest.mark.slow
def test_training_gives_a_model_and_gives_it_twice() -> None:
    recipe = RiverRecipe(hidden=4, years=3, steps=3, batch=2)
    one, again = (train_river(recipe) for _ in range(2))
    weights = again.module.state_dict()
    assert all(tensor.equal(weights[name]) for name, tensor in one.module.state_dict().items())
    assert one.record["test"]["efficiency"] == again.record["test"]["efficiency"]
    assert one.record["recipe"]["steps"] == 3
