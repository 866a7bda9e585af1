"""How a layer is cut up for the programs of a GPU: what was fastest on an H200, and fits elsewhere."""

from functools import cache
from typing import NamedTuple

import torch

LARGE = 2**31  # numbers that take 64 bits to count; 32 are faster, and mostly enough
MOST = 65535  # rows of programs in one launch


class Grid(NamedTuple):
    """How a layer is cut up: rows and units of one program, the depth of a product's tiles, and what a program is given."""

    rows: int
    units: int
    depth: int
    warps: int
    stages: int
    registers: int | None = None  # at most, for a thread: fewer let more programs run at a time
    is_held: bool = False  # whether the weights stay with a program for all steps
    is_halved: bool = False  # whether all numbers of a product lie in halves


def power_of_2(least: int) -> int:
    """The next power of two."""
    return 1 << (least - 1).bit_length()


@cache
def grid_for(hidden: int, lines: int, *, is_back: bool) -> Grid:
    """What was fastest on an H200."""
    high = max(16, power_of_2(lines))
    if hidden <= 64:
        units = max(16, power_of_2(hidden))
        return Grid(16, units, 16, 4, 2, is_held=True) if is_back else Grid(16, units, 16, 8, 2, 128, is_held=True)
    if hidden <= 128:
        return Grid(16, 128, 16, 8, 2, is_held=True) if is_back else Grid(min(32, high), 128, 64, 8, 2, is_halved=True)
    if high > 64:
        back = Grid(128, 16, 32 if hidden <= 256 else 64, 8, 4)
        return back if is_back else Grid(128, 16, 64, 8, 3, is_halved=True)
    return Grid(high, 16, 64, 4, 3) if is_back else Grid(high, 16, 64, 4, 4, is_halved=True)


@cache
def fitted(cut: Grid, memory: int, *, is_back: bool) -> Grid:
    """The same with as much at a time as the memory of a processor holds, in bytes: where it is short, fewer and less deep."""
    if is_back and cut.is_held and 8 * cut.units**2 + 8 * cut.rows * cut.units > memory:
        cut = cut._replace(is_held=False)
    while stage_of(cut, is_back=is_back) > memory:
        cut = cut._replace(depth=cut.depth // 2)
    return cut._replace(stages=min(cut.stages, 1 + memory // stage_of(cut, is_back=is_back)))


def stage_of(cut: Grid, *, is_back: bool) -> int:
    """How much memory the tiles of a product take, in bytes: singles, which have two parts as weights only, or two halves."""
    return 4 * cut.depth * (cut.rows + (1 if is_back else 4) * (1 if cut.is_halved else 2) * cut.units)


def group_for(hidden: int) -> tuple[int, int]:
    """How many programs share the units of the same rows, and how many units each has, which goes for both ways."""
    units = grid_for(hidden, 1, is_back=False).units
    return -(-hidden // units), units


def programs_that_meet(hidden: int, directions: int) -> int:
    """How many programs have to run at the same time; a GPU must have as many processors."""
    group, _ = group_for(hidden)
    return group * directions if group > 1 else 1


def depth_of(hidden: int) -> int:
    """The size of a state with what fills up a product's tiles."""
    return max(16, power_of_2(hidden)) if hidden <= 64 else -(-hidden // 64) * 64


def tiles_for(columns: int, depth: int, memory: int, *, is_halved: bool) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of a product's tiles, warps and stages: what was fastest on an H200."""
    if is_halved:
        return (128, 128, 64, 8, 3) if memory >= 200 * 1024 else (128, 64, 64, 8, 3)
    return (128, 128, 32, 4, 2) if depth <= 64 < columns else (128, 64, 32, 8, 3)


@cache
def processors(device: torch.device) -> int:
    """How many programs run at the same time for sure."""
    return torch.cuda.get_device_properties(device).multi_processor_count
