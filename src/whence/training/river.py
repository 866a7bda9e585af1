"""Trains river-lstm, which forecasts the flow of a made-up river, and measures it on years that it has not seen.

`python -m whence.training.river` measures the bundled model; with `--output DIR` it trains one and saves it there.
"""

import argparse
import time
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from whence.data.river import FEATURES, YEAR, River, efficiency, river
from whence.models.bundled import load
from whence.models.forecaster import Forecaster, ForecasterArchitecture
from whence.models.series import SeriesModel
from whence.models.table import csv_text
from whence.recurrent.lstm.weights import lstm_gates

HORIZONS = {"1 day": 1, "3 days": 3, "7 days": 7}
MEASURED = {"years": 12, "seed": 2}  # the held-out years
SMOOTHED = 31  # days over which the climatology is averaged
EXAMPLE = slice(3 * YEAR + 304, 3 * YEAR + 304 + 166)  # of the held-out years: 1 November to 15 April
DESCRIPTION = (
    "Forecasts the flow of a made-up river at the foot of mountains (800 km²) in 1, 3 and 7 days, from the weather up to now: "
    "rain (mm of water a day, snow included), temperature (°C) and sunshine (hours). The reference is a day without rain, of "
    "mean temperature and mean sunshine."
)


@dataclass(frozen=True)
class RiverRecipe:
    """Settings of a training run. The learning rate rises over a tenth of the steps, then falls to 0."""

    hidden: int = 32
    years: int = 1200
    steps: int = 2500
    batch: int = 32
    days: int = YEAR  # of a training series
    warm_up: int = 60  # days at its start whose forecasts do not count
    rate: float = 0.01
    decay: float = 0.001
    seed: int = 0


def train_river(recipe: RiverRecipe) -> SeriesModel:
    """Train a forecaster on random stretches of made-up years."""
    torch.manual_seed(recipe.seed)
    start = time.time()
    seen = river(recipe.years, seed=1)
    model = _untrained(recipe, seen)
    module = model.module
    assert isinstance(module, Forecaster)
    _train(module, *_standardised(model, seen), recipe)
    record = {
        "data": {"name": "made-up river", "seed": 1, "years": recipe.years},
        "recipe": asdict(recipe),
        "test": {**MEASURED, "efficiency": efficiencies(model, river(**MEASURED), seen)},
        "seconds": round(time.time() - start, 1),
        "torch": torch.__version__,
    }
    return replace(model, module=module.eval(), record=record)


def _untrained(recipe: RiverRecipe, seen: River) -> SeriesModel:
    """A model with random weights, and the scales of the years that it will see.

    Neither the head nor the candidates of the LSTM have a bias. So without rain, at mean temperature and mean sunshine, the
    states and the forecast stay 0, and no relevance is absorbed by biases.
    """
    _, temperature, sunshine = cast(list[float], seen.weather.mean(0).tolist())
    module = Forecaster(ForecasterArchitecture(len(FEATURES), len(HORIZONS), "lstm", recipe.hidden))
    with torch.no_grad():
        for bias in _biases(module):
            bias.zero_()
        lstm_gates(_biases(module)[0]).f.fill_(3.0)  # start with a long memory
    return SeriesModel(
        module,
        FEATURES,
        tuple(HORIZONS),
        name="river-lstm",
        unit="m³/s",
        step="day",
        feature_centre=(0.0, temperature, sunshine),
        feature_scale=tuple(cast(list[float], seen.weather.std(0).tolist())),
        output_scale=(float(seen.flow.std()),) * len(HORIZONS),
        example=_example(),
        description=DESCRIPTION,
    )


def _biases(module: Forecaster) -> list[nn.Parameter]:
    """Both biases of the LSTM, (4H,) each."""
    return [each for name, each in module.encoder.named_parameters() if name.startswith("bias")]


def _standardised(model: SeriesModel, days: River) -> tuple[Tensor, Tensor]:
    """What the module reads on every day, and what it should give; the last days, whose future is unknown, are left out."""
    last = len(days.flow) - max(HORIZONS.values())
    x = (days.weather - torch.tensor(model.feature_centre)) / torch.tensor(model.feature_scale)
    y = torch.stack([days.flow[ahead : last + ahead] for ahead in HORIZONS.values()], dim=-1)
    return x[:last], y / torch.tensor(model.output_scale)


def _train(module: Forecaster, x: Tensor, y: Tensor, recipe: RiverRecipe) -> None:
    generator = torch.Generator().manual_seed(recipe.seed)
    optimiser = torch.optim.AdamW(module.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=recipe.steps, pct_start=0.1)
    for _ in range(recipe.steps):
        starts = torch.randint(0, len(x) - recipe.days, (recipe.batch, 1), generator=generator)
        days = starts + torch.arange(recipe.days)
        error = (module.every_step(x[days]) - y[days])[:, recipe.warm_up :]
        optimiser.zero_grad()
        error.square().mean().backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for bias in _biases(module):
            assert bias.grad is not None
            lstm_gates(bias.grad).g.zero_()
        optimiser.step()
        schedule.step()


def efficiencies(model: SeriesModel, held_out: River, seen: River) -> dict[str, dict[str, float]]:
    """The Nash–Sutcliffe efficiency of every horizon: the model's, that of persistence, and that of climatology.

    Every day from the second year on is forecast from the 365 days up to it. Persistence says that the flow stays as it is,
    climatology that it is the mean of the season.
    """
    x, y = _standardised(model, held_out)
    series = x.unfold(0, YEAR, 1).transpose(1, 2)  # (days, 365, 3)
    with torch.no_grad():
        forecasts = torch.cat([cast(Tensor, model.module(series[n : n + 512])) for n in range(0, len(series), 512)])
    y = y[YEAR - 1 :]
    days = torch.arange(YEAR - 1, YEAR - 1 + len(y))
    season = _climatology(seen)
    return {
        name: {
            "model": round(efficiency(forecasts[:, k], y[:, k]), 4),
            "persistence": round(efficiency(held_out.flow[days], held_out.flow[days + ahead]), 4),
            "climatology": round(efficiency(season[(days + ahead) % YEAR], held_out.flow[days + ahead]), 4),
        }
        for k, (name, ahead) in enumerate(HORIZONS.items())
    }


def _climatology(seen: River) -> Tensor:
    """The mean flow of every day of the year (365,), smoothed."""
    mean = seen.flow.reshape(-1, YEAR).mean(0)
    around = torch.cat([mean[-(SMOOTHED // 2) :], mean, mean[: SMOOTHED // 2]])
    return around.unfold(0, SMOOTHED, 1).mean(-1)


def _example() -> str:
    """A winter of the held-out years as CSV text: snow falls, and melts in spring."""
    weather = river(**MEASURED).weather[EXAMPLE]
    first = date(2024, 11, 1)
    labels = [(first + timedelta(days=n)).isoformat() for n in range(len(weather))]
    values = [[round(each, 1) for each in row] for row in cast(list[list[float]], weather.tolist())]
    return csv_text(values, features=FEATURES, labels=labels, label="date")


def main() -> None:
    """Train a model, or measure the bundled one."""
    parser = argparse.ArgumentParser(prog="python -m whence.training.river", description=__doc__)
    parser.add_argument("--output", type=Path, help="the folder to save a newly trained model in")
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.output is None:
        model = load("river-lstm")
        found = efficiencies(model, river(**MEASURED), river(RiverRecipe.years, seed=1))
    else:
        model = train_river(RiverRecipe(seed=given.seed))
        model.save(given.output)
        found = model.record["test"]["efficiency"]
    for name, each in found.items():
        print(f"{name:8}", *(f"{kind} {value:.3f}" for kind, value in each.items()), sep="  ")


if __name__ == "__main__":
    main()
