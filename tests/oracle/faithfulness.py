"""The measures of faithfulness of one sample, in plain loops; `f` gives the probability for the units that are there."""

import math
from collections.abc import Callable, Sequence

Answer = Callable[[frozenset[int]], float]  # the probability of the class for these units
FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


def decreasing(relevance: Sequence[float]) -> list[int]:
    """The units from the most relevant to the least."""
    return sorted(range(len(relevance)), key=lambda n: (-relevance[n], n))


def increasing(relevance: Sequence[float]) -> list[int]:
    """The units from the least relevant to the most."""
    return sorted(range(len(relevance)), key=lambda n: (relevance[n], n))


def without(order: Sequence[int], count: int) -> frozenset[int]:
    """The units that stay when the first of an order go."""
    return frozenset(order[count:])


def aopc(f: Answer, relevance: Sequence[float]) -> float:
    """The mean fall over eleven levels at most, from none to all units."""
    order, levels = decreasing(relevance), min(10, len(relevance))
    counts = [int(round(k * len(order) / levels)) for k in range(levels + 1)]  # noqa: RUF046 - as written
    return sum(f(frozenset(order)) - f(without(order, count)) for count in counts) / len(counts)


def separation(f: Answer, relevance: Sequence[float]) -> float:
    """What is left without the least relevant units, minus what is left without the most relevant ones."""
    total = 0.0
    for count in range(1, 6):
        most, least = decreasing(relevance), increasing(relevance)
        total += f(without(least, count)) - f(without(most, count))
    return total / 5


def fractions(f: Answer, relevance: Sequence[float]) -> dict[str, float]:
    """Comprehensiveness, sufficiency and the fall of the log-odds, in the mean over all fractions."""
    order, whole = decreasing(relevance), f(frozenset(range(len(relevance))))
    found = {"comprehensiveness": 0.0, "sufficiency": 0.0, "log_odds": 0.0}
    for part in FRACTIONS:
        count = math.ceil(part * len(order))
        rest, top = f(without(order, count)), f(frozenset(order[:count]))
        found["comprehensiveness"] += (whole - rest) / len(FRACTIONS)
        found["sufficiency"] += (whole - top) / len(FRACTIONS)
        found["log_odds"] += (math.log(whole / (1 - whole)) - math.log(rest / (1 - rest))) / len(FRACTIONS)
    return found


def gini(relevance: Sequence[float]) -> float:
    """Half the mean difference of all pairs, relative to the mean."""
    amounts = [abs(each) for each in relevance]
    differences = sum(abs(one - other) for one in amounts for other in amounts)
    return differences / (2 * len(amounts) * sum(amounts))
