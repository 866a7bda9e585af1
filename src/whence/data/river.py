"""A made-up river: daily weather drawn at random, and the flow that snow, soil and three stores of water make of it.

The catchment has 800 km² at the foot of mountains. Precipitation falls as snow when it is cold, and the snow melts when it is
warm. Wet soil lets more water through than dry soil; sunshine and warmth dry it. What passes the soil drains fast or slowly.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

FEATURES = ("rain", "temperature", "sunshine")  # mm of water a day, snow included; °C; hours a day
REFERENCE = (0.0, 2.0, 5.3)  # no rain; 2 °C, at which rain falls as rain and snow melts slowly; mean sunshine
YEAR = 365  # days; the years have no leap days
AREA = 800.0  # km²
FLOW_PER_MM = AREA / 86.4  # m³/s of one mm a day
SOIL = 120.0  # mm that the soil can hold


class River(NamedTuple):
    """Consecutive days, the first of them a 1 January."""

    weather: Tensor  # (days, 3), as FEATURES
    flow: Tensor  # (days,) m³/s
    snow: Tensor  # (days,) mm of water that lies as snow at the end of the day


class Day(NamedTuple):
    """The weather of a day, as FEATURES."""

    rain: float
    temperature: float
    sunshine: float


def river(years: int, *, seed: int, blanks: bool = False) -> River:
    """The weather and the flow of some years; a year before them, which is not returned, fills the stores.

    With `blanks`, the weather has stretches of days at the reference, each of one feature.
    """
    draw = Random(seed)
    days = _weather((years + 1) * YEAR, draw)
    days = _blanked(days, draw) if blanks else days
    flow, snow = zip(*flow_and_snow(days), strict=True)
    return River(torch.tensor(days[YEAR:]), torch.tensor(flow[YEAR:]), torch.tensor(snow[YEAR:]))


def _weather(count: int, draw: Random) -> list[Day]:
    """Days at random: warm and cold spells last about a week, wet ones two or three days."""
    days, is_wet, spell = list[Day](), False, 0.0
    for n in range(count):
        summer = -math.cos(2 * math.pi * (n - 20) / YEAR)  # 1 on the warmest day of the year, −1 on the coldest
        daylight = 12 - 4 * math.cos(2 * math.pi * (n + 10) / YEAR)  # hours; the shortest day is 22 December
        is_wet = draw.random() < (0.58 if is_wet else 0.2)
        spell = 0.8 * spell + 0.6 * draw.gauss(0, 1)
        clear = draw.random() ** 0.7
        rain = draw.expovariate(1) * (6.5 + summer) if is_wet else 0.0
        sunshine = daylight * (0.25 * clear if is_wet else 0.15 + 0.75 * clear)
        days.append(Day(rain, 6 + 10.5 * summer + 4 * spell - 1.5 * is_wet * summer, sunshine))
    return days


def _blanked(days: Sequence[Day], draw: Random) -> list[Day]:
    """The days with stretches of 3 to 30 days at the reference, for each feature three a year on average."""
    rows = [list(day) for day in days]
    for k, reference in enumerate(REFERENCE):
        for start in range(len(rows)):
            if draw.random() < 3 / YEAR:
                for row in rows[start : start + draw.randint(3, 30)]:
                    row[k] = reference
    return [Day(*row) for row in rows]


def flow_and_snow(days: Iterable[Day]) -> Iterator[tuple[float, float]]:
    """The flow of every day in m³/s, and the snow at its end in mm."""
    snow, soil, brooks, fast, slow = 0.0, 0.7 * SOIL, 3.0, 5.0, 30.0  # mm
    for rain, temperature, sunshine in days:
        frozen = min(1.0, max(0.0, (1.5 - temperature) / 3))  # the part that falls as snow: all of it at −1.5 °C
        melt = min(snow, max(0.0, temperature) * (1.8 + 0.15 * sunshine))
        snow += frozen * rain - melt
        water = (1 - frozen) * rain + melt
        passed = max(water * (soil / SOIL) ** 2, soil + water - SOIL)
        dried = 0.0 if snow > 1 else 0.012 * sunshine * max(0.0, temperature + 4) * soil / SOIL
        soil = max(0.0, soil + water - passed - dried)
        arriving, fast_drain, slow_drain = 0.4 * brooks, 0.3 * fast, 0.02 * slow
        brooks += 0.65 * passed - arriving
        fast += arriving - fast_drain
        slow += 0.35 * passed - slow_drain
        yield (fast_drain + slow_drain) * FLOW_PER_MM, snow
