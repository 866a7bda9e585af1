"""Trains river-lstm, which forecasts the flow of a made-up river.

`python -m whence.training.river` measures the bundled model on years that it has not seen. With `--output DIR` it trains a
model and saves it there.
"""

import argparse
import time
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from whence.data.river import FEATURES, REFERENCE, YEAR, River, river
from whence.evaluation.river import HORIZONS, checks, efficiencies, held_out_years, standardised
from whence.models.bundled import load
from whence.models.forecaster import Forecaster, ForecasterArchitecture
from whence.models.series import SeriesModel
from whence.models.table import csv_text
from whence.recurrent.lstm.weights import lstm_gates

EXAMPLE = slice(304, YEAR + 81)  # of two years that are not trained on: 1 November to 22 March, the day before a flood
DESCRIPTION = (
    "Forecasts the flow of a made-up river at the foot of mountains (800 km²) in 1, 3 and 7 days, from the weather up to now: "
    "rain (mm of water a day, snow included), temperature (°C) and sunshine (hours). Reference: no rain, 2 °C (rain falls as "
    "rain, snow melts slowly), mean sunshine."
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
    seen = river(recipe.years, seed=1, blanks=True)
    model = _untrained(recipe, seen)
    module = model.module
    assert isinstance(module, Forecaster)
    _train(module, *standardised(model, seen), recipe)
    held_out = held_out_years()
    record = {
        "data": {"name": "made-up river", "seed": 1, "years": recipe.years},
        "recipe": asdict(recipe),
        "test": {"efficiency": efficiencies(model, held_out), "relevance": checks(model, held_out)},
        "seconds": round(time.time() - start, 1),
        "torch": torch.__version__,
    }
    return replace(model, module=module.eval(), record=record)


def _untrained(recipe: RiverRecipe, seen: River) -> SeriesModel:
    """A model with random weights, and the scales of the years that it will see.

    Neither the head nor the candidates of the LSTM have a bias. So on days at the reference the states and the
    forecast stay 0, and no relevance is absorbed by biases.
    """
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
        feature_centre=REFERENCE,
        feature_scale=tuple(cast(list[float], seen.weather.std(0).tolist())),
        output_scale=(float(seen.flow.std()),) * len(HORIZONS),
        example=_example(),
        description=DESCRIPTION,
    )


def _biases(module: Forecaster) -> list[nn.Parameter]:
    """Both biases of the LSTM, (4H,) each."""
    return [each for name, each in module.encoder.named_parameters() if name.startswith("bias")]


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


def _example() -> str:
    """A winter as CSV text: snow falls, and melts in spring."""
    weather = river(2, seed=2).weather[EXAMPLE]
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
        model, held_out = load("river-lstm"), held_out_years()
        found, checked = efficiencies(model, held_out), checks(model, held_out)
    else:
        model = train_river(RiverRecipe(seed=given.seed))
        model.save(given.output)
        found, checked = model.record["test"]["efficiency"], model.record["test"]["relevance"]
    for name, each in found.items():
        print(f"{name:8}", *(f"{kind} {value:.3f}" for kind, value in each.items()), sep="  ")
    for name, value in checked.items():
        print(f"{value:8.4g}  {name}")


if __name__ == "__main__":
    main()
