"""Hydrology: an LSTM predicts a river's flow from 365 days of weather and static attributes of the catchment.

The catchments are made up: rain fills a store, snow melts when it is warm, and the store drains. The explanation says which
days the predicted flow comes from, and how far back the LSTM's state carries relevance.
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import whence
from whence.models.files import write_whole
from whence.render import figure
from whence.render.colour import SERIES

DAYS, FEATURES, STATIC = 365, ["rain", "temperature", "sunshine"], ["drainage", "height"]


class River(nn.Module):
    """From weather (B, T, 3) and attributes (B, 2) to the flow on the last day (B, 1)."""

    def __init__(self, hidden: int = 24) -> None:
        super().__init__()
        self.static = nn.Linear(len(STATIC), 4)
        self.lstm = nn.LSTM(len(FEATURES) + 4, hidden, batch_first=True)
        self.flow = nn.Linear(hidden, 1)

    def forward(self, weather: Tensor, attributes: Tensor) -> Tensor:
        """The flow on the last day."""
        fixed = torch.tanh(self.static(attributes)).unsqueeze(1).expand(-1, weather.shape[1], -1)
        states, _ = self.lstm(torch.cat([weather, fixed], dim=-1))
        return self.flow(states[:, -1])


def catchments(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Weather, attributes and the flow on the last day, from a simple model of a store and snow."""
    day = torch.arange(DAYS) + torch.randint(0, 365, (count, 1), generator=generator)
    temperature = 8 - 12 * torch.cos(2 * torch.pi * day / 365) + 3 * torch.randn(count, DAYS, generator=generator)
    wet = torch.rand(count, DAYS, generator=generator) < 0.25
    rain = wet * torch.empty(count, DAYS).exponential_(0.5, generator=generator) * 4
    sunshine = torch.rand(count, DAYS, generator=generator) * ~wet
    drainage, height = torch.rand(count, generator=generator), torch.rand(count, generator=generator)
    store = snow = flow = torch.zeros(count)
    for t in range(DAYS):
        degrees = temperature[:, t] - 6 * height
        is_snow = degrees < 0
        melted = torch.minimum(snow, degrees.clamp(min=0))
        snow = snow + rain[:, t] * is_snow - melted
        store = store + rain[:, t] * ~is_snow + melted
        flow = store * (0.05 + 0.15 * drainage)
        store = store - flow
    weather = torch.stack([rain / 5, temperature / 10, sunshine], dim=-1)
    return weather, torch.stack([drainage, height], dim=-1), (flow / 2).unsqueeze(-1)


def main() -> None:
    """Train, explain, and draw examples/pictures/river_flow.png."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for small matrices a second thread gains nothing
    generator = torch.Generator().manual_seed(0)
    model = River()
    weather, attributes, flow = catchments(400, generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(120):
        rows = torch.randint(0, len(weather), (64,), generator=generator)
        loss = nn.functional.mse_loss(model(weather[rows, -120:], attributes[rows]), flow[rows])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 40 == 39:
            print(f"step {step + 1}: mean squared error {loss.item():.3f}")

    weather, attributes, flow = catchments(3, generator)
    model.double()
    result = whence.relevance(
        model, (weather.double(), attributes.double()), method=whence.LRP(epsilon=0.05), memory=True
    ).check()
    r_weather, r_attributes = result.relevance  # (3, 365, 3), (3, 2)
    carried = result.memory["lstm.l0"] / result.score[:, None]  # from each day to the next
    for n in range(3):
        by_feature = dict(zip([*FEATURES, *STATIC], [*r_weather[n].sum(0).tolist(), *r_attributes[n].tolist()], strict=True))
        print(f"flow {float(flow[n]):.2f}, predicted {float(result.score[n]):.2f}: ", end="")
        by_feature["absorbed"] = float(sum(amount[n] for amount in result.absorbed.values()))
        print(", ".join(f"{name} {r:+.2f}" for name, r in by_feature.items()))
    drawn = Figure(figsize=(10, 6.5), layout="constrained")
    upper, lower = drawn.subplots(2, 1, sharex=True)
    days = torch.arange(-DAYS + 1, 1)
    for k, name in enumerate(FEATURES):
        upper.plot(days[-90:], r_weather[0, -90:, k], label=name, color=SERIES[k])
    upper.set_ylabel("relevance of a day")
    upper.set_title(f"Whence the flow of the last day, {float(result.score[0]):.2f}? By day and weather, first catchment")
    upper.legend(frameon=False)
    for n in range(3):
        lower.plot(days[-90:], carried[n, -91:-1], label=f"catchment {n + 1}", color=SERIES[n])
    lower.set_ylabel("relevance from before that day,\nas a multiple of the flow")
    lower.set_xlabel("days before the last one")
    lower.legend(frameon=False)
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    write_whole(folder / "river_flow.png", figure.files("x", drawn)["x.png"])


if __name__ == "__main__":
    main()
