"""How good river-lstm's forecasts are on years that it has not seen, and whether its explanations fit the river."""

from typing import NamedTuple, cast

import torch
from torch import Tensor

from whence._series import SeriesExplanation, explain_series
from whence.data.river import YEAR, Day, River, flow_and_snow, river
from whence.models.series import SeriesModel

HORIZONS = {"1 day": 1, "3 days": 3, "7 days": 7}
SMOOTHED = 31  # days over which the climatology is averaged


def held_out_years() -> River:
    """Twelve years that are kept for measuring; no choice about the model was made by looking at them."""
    return river(12, seed=7)


def standardised(model: SeriesModel, days: River) -> tuple[Tensor, Tensor]:
    """What the module reads on every day, and what it should give; the last days, whose future is unknown, are left out."""
    last = len(days.flow) - max(HORIZONS.values())
    x = (days.weather - torch.tensor(model.feature_centre)) / torch.tensor(model.feature_scale)
    y = torch.stack([days.flow[ahead : last + ahead] for ahead in HORIZONS.values()], dim=-1)
    return x[:last], y / torch.tensor(model.output_scale)


def efficiency(forecast: Tensor, flow: Tensor) -> float:
    """Nash–Sutcliffe efficiency: 1 − Σ (forecast − flow)² / Σ (flow − mean flow)². 1 is perfect, 0 as good as the mean."""
    forecast, flow = forecast.double(), flow.double()
    return float(1 - ((forecast - flow) ** 2).sum() / ((flow - flow.mean()) ** 2).sum())


def efficiencies(model: SeriesModel, held_out: River) -> dict[str, dict[str, float]]:
    """The Nash–Sutcliffe efficiency of every horizon: the model's, that of persistence, and that of climatology.

    Every day is forecast from the 365 days up to it. Persistence says that the flow stays as it is, climatology that it is the
    mean of the season.
    """
    x, y = standardised(model, held_out)
    series = x.unfold(0, YEAR, 1).transpose(1, 2)  # (days, 365, 3)
    with torch.no_grad():
        forecasts = torch.cat([cast(Tensor, model.module(series[n : n + 512])) for n in range(0, len(series), 512)])
    y = y[YEAR - 1 :]
    days = torch.arange(YEAR - 1, YEAR - 1 + len(y))
    season = _climatology(river(100, seed=1))
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


class Check(NamedTuple):
    """A forecast for the next day and its explanation, in m³/s; what changes without the rain of the wettest six days."""

    explanation: SeriesExplanation
    relevance: float  # of that rain
    forecast_fell: float  # by how much the forecast is lower without it
    flow_fell: float  # by how much the river's flow would have been lower without it
    melted: float  # mm of snow in the last ten days
    is_summer: bool  # no snow in the last 100 days

    @property
    def temperature(self) -> float:
        """The relevance of the temperature of all days, as a part of the forecast."""
        return sum(row[1] for row in self.explanation.relevance) / self.explanation.score


def checks(model: SeriesModel, held_out: River) -> dict[str, float]:
    """Figures that say whether explanations make sense, of forecasts every 20 days."""
    found = [_check(model, held_out, end) for end in range(YEAR, len(held_out.flow), 20)]
    events = [each for each in found if each.flow_fell > 1]
    fell, flow, relevance = (
        torch.tensor([getattr(each, name) for each in events]) for name in ("forecast_fell", "flow_fell", "relevance")
    )
    absorbed = sum(abs(sum(each.explanation.absorbed.values())) for each in found)
    thaw = [each.temperature for each in found if each.melted > 30]
    summer = [each.temperature for each in found if each.is_summer]
    return {
        "forecasts explained": len(found),
        "absorbed, as a part of the forecasts": round(absorbed / sum(each.explanation.score for each in found), 7),
        "rain events that raised the flow by more than 1 m³/s": len(events),
        "of these, blanking lowers the forecast": int((fell > 0).sum()),
        "of these, rain has positive relevance": int((relevance > 0).sum()),
        "correlation: forecast fell, flow would have fallen": round(_correlation(fell, flow), 3),
        "correlation: relevance, flow would have fallen": round(_correlation(relevance, flow), 3),
        "forecasts after a thaw of more than 30 mm": len(thaw),
        "of these, temperature's mean part of the forecast": round(sum(thaw) / len(thaw), 3),
        "forecasts in summer": len(summer),
        "of those in summer, temperature's mean part": round(sum(summer) / len(summer), 3),
    }


def _correlation(one: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one, other]))[0, 1])


def _check(model: SeriesModel, held_out: River, end: int) -> Check:
    """Explain the forecast for day `end` from the year up to it, as it is and without the rain of six of the last 20 days."""
    weather = held_out.weather[end - YEAR : end + 1]
    start = YEAR - 20 + int(weather[-21:-1, 0].unfold(0, 6, 1).sum(1).argmax())
    dry = weather.clone()
    dry[start : start + 6, 0] = 0.0
    explanation = explain_series(model, weather[:-1])
    without = explain_series(model, weather[:-1], blank=[(start, start + 6, ["rain"])])
    snow = held_out.snow[:end]
    return Check(
        explanation,
        relevance=sum(row[0] for row in explanation.relevance[start : start + 6]),
        forecast_fell=explanation.score - without.score,
        flow_fell=_last_flow(weather) - _last_flow(dry),
        melted=float((snow[-11:-1] - snow[-10:]).clamp(min=0).sum()),
        is_summer=bool((snow[-100:] == 0).all()),
    )


def _last_flow(weather: Tensor) -> float:
    """The flow that the river makes of a year of weather, on its last day."""
    *_, (flow, _) = flow_and_snow(Day(*row) for row in cast(list[list[float]], weather.tolist()))
    return flow
