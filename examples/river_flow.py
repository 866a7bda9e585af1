"""Hydrology: which days does a river's flow come from? And what does a zero mean to LRP?

An LSTM computes the flow of the made-up river of `whence.data.river` from 365 days of rain, temperature and sunshine. LRP gives
no relevance to an input of 0, so the inputs should be 0 where there is nothing to explain: on a day without rain. The same LSTM
is trained on raw, standardised and centred inputs, and its explanations are compared with the river, which can be computed
again without the rain of the last days.
"""

import sys
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import cast

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

import whence
from whence.data.river import FEATURES, REFERENCE, YEAR, Day, River, flow_and_snow, river
from whence.models.files import write_whole
from whence.recurrent.lstm.weights import lstm_gates

STEPS, DAYS, WARM_UP = 600, 150, 50  # of training; of a training series; at its start, whose flow does not count
RECENT, WARM = 30, 10  # days whose rain, and whose warmth, is taken away
GOOD, POOR = "centred, and no bias", "standardised"
SHOWN = 101  # days in the picture


class Flow(nn.Module):
    """From weather (B, T, 3) to the flow on the last day (B, 1)."""

    def __init__(self, hidden: int = 24, *, has_bias: bool = True) -> None:
        super().__init__()
        self.has_bias = has_bias
        self.lstm = nn.LSTM(len(FEATURES), hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1, bias=has_bias)
        with torch.no_grad():
            lstm_gates(self.biases()[0]).f.fill_(3.0)  # start with a long memory
            for bias in self.biases() if not has_bias else ():
                lstm_gates(bias).g.zero_()

    def biases(self) -> list[Tensor]:
        """Both biases of the LSTM."""
        return [each for name, each in self.lstm.named_parameters() if name.startswith("bias")]

    def forward(self, weather: Tensor) -> Tensor:
        """The flow on the last day."""
        return self.every_day(weather)[:, -1]

    def every_day(self, weather: Tensor) -> Tensor:
        """The flow on every day (B, T, 1)."""
        return self.head(self.lstm(weather)[0])


@dataclass(frozen=True)
class Scaling:
    """What the LSTM reads, (value − centre) / scale, and whether what it writes into its memory has a bias."""

    name: str
    centre: Tensor
    scale: Tensor
    has_bias: bool = True


def scalings(seen: River) -> list[Scaling]:
    """The inputs that are compared."""
    mean, deviation, reference = seen.weather.mean(0), seen.weather.std(0), torch.tensor(REFERENCE)
    return [
        Scaling("raw", torch.zeros(3), torch.ones(3)),
        Scaling(POOR, mean, deviation),
        Scaling("centred at a day without rain", reference, deviation),
        Scaling(GOOD, reference, deviation, has_bias=False),
    ]


def trained(seen: River, scaling: Scaling, seed: int) -> whence.SeriesModel:
    """A model of the flow, trained on random stretches of the years."""
    torch.manual_seed(seed)
    module = Flow(has_bias=scaling.has_bias)
    x, unit = (seen.weather - scaling.centre) / scaling.scale, float(seen.flow.std())
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.001)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        days = torch.randint(0, len(x) - DAYS, (32, 1)) + torch.arange(DAYS)
        error = (module.every_day(x[days])[..., 0] - seen.flow[days] / unit)[:, WARM_UP:]
        optimiser.zero_grad()
        error.square().mean().backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for bias in module.biases() if not scaling.has_bias else ():
            assert bias.grad is not None
            lstm_gates(bias.grad).g.zero_()
        optimiser.step()
        schedule.step()
    return whence.SeriesModel(
        module.double().eval(),
        FEATURES,
        ("flow",),
        name=scaling.name,
        unit="m³/s",
        step="day",
        feature_centre=tuple(cast(list[float], scaling.centre.tolist())),
        feature_scale=tuple(cast(list[float], scaling.scale.tolist())),
        output_scale=(unit,),
    )


@dataclass(frozen=True)
class Check:
    """What the explanations of many days look like, beside the river itself."""

    efficiency: float  # Nash–Sutcliffe: 1 is perfect, 0 as good as the mean flow
    absorbed: float  # Σ |absorbed| / Σ |flow|
    rain: float  # the share of rain in the absolute relevance
    temperature: float  # and of temperature
    on_dry_days: float  # of the rain's absolute relevance, the part on days without rain
    found: Tensor  # m³/s: the relevance of the last 30 days' rain
    true: Tensor  # m³/s: what the river would lose without that rain

    @property
    def correlation(self) -> float:
        """Between the relevance of rain and what the river would lose."""
        return float(torch.corrcoef(torch.stack([self.found, self.true]))[0, 1])


def checked(model: whence.SeriesModel, held_out: River) -> Check:
    """Explain the flow of every 23rd day, each from the year before it."""
    ends = range(YEAR, len(held_out.flow), 23)
    weather = torch.stack([held_out.weather[end - YEAR : end] for end in ends]).double()
    flow = torch.stack([held_out.flow[end - 1] for end in ends]).double()
    x = (weather - torch.tensor(model.feature_centre).double()) / torch.tensor(model.feature_scale).double()
    result, unit = whence.relevance(model.module, x), model.output_scale[0]
    relevance, score = unit * result.relevance, unit * result.score
    amounts = relevance.abs().sum((0, 1)) / relevance.abs().sum()
    rain = relevance[..., 0].abs()
    dry = weather.clone()
    dry[:, -RECENT:, 0] = 0.0
    return Check(
        efficiency=float(1 - (score - flow).square().sum() / (flow - flow.mean()).square().sum()),
        absorbed=float(unit * sum(result.absorbed.values(), torch.zeros_like(score)).abs().sum() / score.abs().sum()),
        rain=float(amounts[0]),
        temperature=float(amounts[1]),
        on_dry_days=float(rain[weather[..., 0] == 0].sum() / rain.sum()),
        found=relevance[:, -RECENT:, 0].sum(1),
        true=torch.tensor([last_flow(one) - last_flow(other) for one, other in zip(weather, dry, strict=True)]).double(),
    )


def last_flow(weather: Tensor) -> float:
    """The flow that the river makes of a year of weather, on its last day."""
    *_, (flow, _) = flow_and_snow(Day(*row) for row in cast(list[list[float]], weather.tolist()))
    return flow


WIDTHS = (6, 9, 6, 12, 9, 12, 6)


def row(name: str, check: Check) -> str:
    """A line of the table."""
    shares = (f"{share:.1%}" for share in (check.absorbed, check.rain, check.temperature, check.on_dry_days))
    cells = [f"{check.efficiency:.3f}", *shares, f"{check.correlation:.2f}", f"{float(check.found.mean()):.1f}"]
    return f"{name:<30} " + " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def main(seed: int = 0) -> None:
    """Train, explain, compare with the river, and draw examples/pictures/river_flow.png."""
    torch.set_num_threads(1)  # for small matrices a second thread gains nothing
    seen, held_out = river(60, seed=1), river(6, seed=7)
    heading = ("NSE", "absorbed", "rain", "temperature", "dry days", "correlation", "m³/s")
    print(f"{'inputs':<30} " + " ".join(f"{name:>{width}}" for name, width in zip(heading, WIDTHS, strict=True)))
    models, checks = dict[str, whence.SeriesModel](), dict[str, Check]()
    for scaling in scalings(seen):
        models[scaling.name] = trained(seen, scaling, seed)
        checks[scaling.name] = checked(models[scaling.name], held_out)
        print(row(scaling.name, checks[scaling.name]))
    true = next(iter(checks.values())).true
    print(f"Without the rain of the last {RECENT} days, the river would lose {float(true.mean()):.1f} m³/s on average.")
    print_flood(models, flood(held_out))
    drawn = picture(models, checks, flood(held_out))
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    content = BytesIO()
    drawn.savefig(content, format="png", dpi=96, metadata={"Software": None}, pil_kwargs={"optimize": True})
    write_whole(folder / "river_flow.png", content.getvalue())


def flood(held_out: River) -> Tensor:
    """The weather of the year before a flood in spring: up to the day with the most flow of the fourth year."""
    end = 3 * YEAR + int(held_out.flow[3 * YEAR : 4 * YEAR].argmax()) + 1
    return held_out.weather[end - YEAR : end]


def print_flood(models: dict[str, whence.SeriesModel], weather: Tensor) -> None:
    """What rain and warmth did to one flood: in the river, and by the relevance of each model."""
    explained = {name: whence.explain_series(model, weather) for name, model in models.items()}
    scores = ", ".join(f"{name} {each.score:.1f}" for name, each in explained.items())
    print(f"The flood of {last_flow(weather):.1f} m³/s (computed: {scores}):")
    for k, days in ((0, RECENT), (1, WARM)):
        other = weather.clone()
        other[-days:, k] = REFERENCE[k]
        sums = ", ".join(f"{name} {sum(day[k] for day in each.relevance[-days:]):+.1f}" for name, each in explained.items())
        what = f"{FEATURES[k]} of the last {days} days"
        print(f"  {what}: the river has {last_flow(weather) - last_flow(other):+.1f} m³/s from it; relevance: {sums}")


def picture(models: dict[str, whence.SeriesModel], checks: dict[str, Check], weather: Tensor) -> Figure:
    """A flood explained with two references, and both compared with the river."""
    drawn = Figure(figsize=(10.4, 9.4), layout="constrained")
    grid = drawn.add_gridspec(5, 2, height_ratios=(1.1, 1.1, 1.6, 1.6, 3.0))
    days = [f"{n} days ago" if n else "today" for n in range(SHOWN - 1, -1, -1)]
    titles = {
        GOOD: "Whence these {score:.0f} m³/s? Centred inputs: from the rain that fell, and from warm days that melt the snow",
        POOR: "The same flood, standardised inputs ({score:.0f} m³/s): {dry:.0f} % of rain's relevance is on days without rain",
    }
    for n, name in enumerate((GOOD, POOR)):
        explanation = whence.explain_series(models[name], weather)
        recent = replace(explanation, relevance=explanation.relevance[-SHOWN:])
        rain = [(abs(relevance[0]), value) for relevance, (value, _, _) in zip(explanation.relevance, weather, strict=True)]
        dry = sum(amount for amount, value in rain if value == 0) / sum(amount for amount, _ in rain)
        axes = drawn.add_subplot(grid[2 + n, :])
        whence.plot(recent, ax=axes, steps=days, step="", title=titles[name].format(score=explanation.score, dry=100 * dry))
        values(drawn.add_subplot(grid[n, :], sharex=axes), weather[-SHOWN:, n], ("rain\nmm", "temperature\n°C")[n])
        compare(drawn.add_subplot(grid[4, n]), name, checks[name])
    return drawn


def values(axes: Axes, numbers: Tensor, name: str) -> None:
    """The weather of the days, above their relevance."""
    axes.fill_between(range(len(numbers)), numbers.numpy(), color="#999999", alpha=0.5, linewidth=0)
    axes.plot(numbers.numpy(), color="#444444", linewidth=1)
    axes.tick_params(labelbottom=False, bottom=False)
    axes.set_ylabel(name, fontsize=9)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def compare(axes: Axes, name: str, check: Check) -> None:
    """The relevance of the last days' rain against what the river would lose without it."""
    axes.scatter(check.true.numpy(), check.found.numpy(), s=16, color="#1b7837", alpha=0.7)
    axes.axline((0, 0), slope=1, color="#bbbbbb", linewidth=1, linestyle="--", label="equal")
    axes.axhline(0, color="#bbbbbb", linewidth=0.8)
    axes.set_title(f"{name}: correlation {check.correlation:.2f}", loc="left", fontsize=11)
    axes.set_xlabel(f"what the river would lose without the last {RECENT} days' rain, m³/s")
    axes.set_ylabel("relevance of that rain, m³/s")
    axes.set_ylim(-20, 60)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))  # the seed of the training
