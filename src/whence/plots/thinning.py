"""Large series made small enough to be read: the most relevant features, the strongest step of every column, fewer labels."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from whence.plots.series import Numbers
from whence.render.colour import one_line

COLUMNS = 500  # at most so many columns, so that each is at least a pixel wide
LONGEST = 28  # letters of a name
_WITHOUT_LETTERS = dict.fromkeys(range(0x2400, 0x2440), 0xFFFD)  # matplotlib's font lacks the symbols of control characters


def short(name: object, most: int = LONGEST) -> str:
    """A name on one line, cut in the middle if it is long: names that begin alike often differ at their end."""
    return _cut(_on_one_line(name), most)


def _on_one_line(name: object) -> str:
    return one_line(" ".join(str(name).split())).translate(_WITHOUT_LETTERS)


def _cut(name: str, most: int) -> str:
    end = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - end]}…{name[-end:]}"


def distinct(names: Sequence[object], most: int = LONGEST) -> list[str]:
    """Names cut so that different ones stay different."""
    whole = [_on_one_line(name) for name in names]
    shown = {name: _cut(name, most) for name in whole}
    for remade in (_from_difference, _numbered):
        for alike in _alike(shown):
            shown.update(remade(alike, most))
    return [shown[name] for name in whole]


def _alike(shown: Mapping[str, str]) -> list[list[str]]:
    """The groups of names that look the same."""
    groups: dict[str, list[str]] = {}
    for name, cut in shown.items():
        groups.setdefault(cut, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _from_difference(names: Sequence[str], most: int) -> dict[str, str]:
    """The beginning of every name, and what follows from the first letter in which they differ."""
    start = most // 3
    shared = next(n for n, letters in enumerate(zip_longest(*names)) if len(set(letters)) > 1)
    return {name: f"{name[:start]}…{name[shared : shared + most - start - 1]}" for name in names}


def _numbered(names: Sequence[str], most: int) -> dict[str, str]:
    return {name: f"{_cut(name, most - len(f' {n}'))} {n}" for n, name in enumerate(names, 1)}


class Rows(NamedTuple):
    """The features that are drawn, as rows (…, features); the last row may be the sum of all others."""

    relevance: Numbers
    names: tuple[str, ...]  # cut
    chosen: tuple[int, ...]  # the numbers of the features that have a row of their own


def most_relevant(relevance: Numbers, names: Sequence[str], most: int) -> Rows:
    """The features (in the last axis) with the largest absolute relevance in their own order, and the sum of the others."""
    if len(names) <= most:
        return Rows(relevance, tuple(distinct(names)), tuple(range(len(names))))
    strength = np.abs(relevance).reshape(-1, len(names)).sum(0)
    strongest = np.argsort(-strength, kind="stable")[: most - 1]
    chosen = tuple(sorted(int(n) for n in strongest))
    rest = [n for n in range(len(names)) if n not in set(chosen)]
    shown = np.concatenate([relevance[..., list(chosen)], relevance[..., rest].sum(-1, keepdims=True)], axis=-1)
    return Rows(shown, (*distinct([names[n] for n in chosen]), f"{len(rest)} others, summed"), chosen)


class Columns(NamedTuple):
    """Numbers with at most so many columns; each stands for `size` steps, the last perhaps for fewer."""

    numbers: Numbers
    size: int


def strongest(numbers: Numbers, most: int = COLUMNS) -> Columns:
    """Of every few neighbours in the last axis the one with the largest absolute value, so that no peak is lost."""
    count = numbers.shape[-1]
    size = -(-count // most)
    if size == 1:
        return Columns(numbers, 1)
    filled = np.concatenate([numbers, np.zeros((*numbers.shape[:-1], -count % size))], axis=-1)
    groups = filled.reshape(*numbers.shape[:-1], -1, size)
    places = np.abs(groups).argmax(-1)[..., None]
    return Columns(np.take_along_axis(groups, places, axis=-1)[..., 0], size)


def tick_places(labels: Sequence[str], room: float) -> list[int]:
    """Which labels to write, evenly spaced, if there is room for so many letters."""
    wide = max(map(len, labels)) + 3
    count = max(1, int(room / wide))
    needed = -(-len(labels) // count)
    round_numbers = (step * 10**power for power in range(-1, 9) for step in (10, 15, 20, 25, 30, 40, 50, 60, 80))
    stride = next(int(number) for number in round_numbers if number >= needed and number == int(number))
    return list(range(0, len(labels), stride))
