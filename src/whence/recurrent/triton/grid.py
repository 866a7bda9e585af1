"""How a layer is divided among the programs of a GPU: the settings that were fastest on an H200, adapted to smaller GPUs."""

from functools import cache
from typing import NamedTuple, cast

import torch

LARGE = 2**31  # tensors of this many numbers need 64-bit offsets; 32-bit offsets are faster
MOST = 65535  # CUDA's limit on the second dimension of a launch


class Grid(NamedTuple):
    """How a layer is divided: rows and units per program, the depth of a product's tiles, and launch settings."""

    rows: int
    units: int
    depth: int
    warps: int
    stages: int
    registers: int | None = None  # the most per thread: with fewer, more programs run at a time
    is_held: bool = False  # whether one program owns all units and keeps the weights for all steps
    is_float16: bool = False  # whether a product reads float16 parts


def power_of_2(least: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (least - 1).bit_length()


@cache
def grid_for(hidden: int, lines: int, *, is_back: bool) -> Grid:
    """The fastest grid on an H200."""
    high = max(16, power_of_2(lines))
    if hidden <= 64:
        units = max(16, power_of_2(hidden))
        return Grid(16, units, 16, 4, 2, is_held=True) if is_back else Grid(16, units, 16, 8, 2, 128, is_held=True)
    if hidden <= 128:
        return Grid(16, 128, 16, 8, 2, is_held=True) if is_back else Grid(min(32, high), 128, 64, 8, 2, is_float16=True)
    if high > 64:
        back = Grid(128, 16, 32 if hidden <= 256 else 64, 8, 4)
        return back if is_back else Grid(128, 16, 64, 8, 3, is_float16=True)
    return Grid(high, 16, 64, 4, 3) if is_back else Grid(high, 16, 64, 4, 4, is_float16=True)


@cache
def fitted(grid: Grid, memory: int, *, is_back: bool) -> Grid:
    """The grid with shallower tiles and fewer stages where the shared memory of a processor, in bytes, is too small for it."""
    if is_back and grid.is_held and 8 * grid.units**2 + 8 * grid.rows * grid.units > memory:
        grid = grid._replace(is_held=False)
    while stage_of(grid, is_back=is_back) > memory:
        grid = grid._replace(depth=grid.depth // 2)
    return grid._replace(stages=min(grid.stages, 1 + memory // stage_of(grid, is_back=is_back)))


def stage_of(grid: Grid, *, is_back: bool) -> int:
    """How many bytes one pipeline stage takes: a tile of rows and a tile of weights.

    Float16 parts take 2 + 2 bytes per number. Without them, rows are float32, 4 bytes, and weights have two float32 parts.
    """
    return 4 * grid.depth * (grid.rows + (1 if is_back else 4) * (1 if grid.is_float16 else 2) * grid.units)


def group_for(hidden: int) -> tuple[int, int]:
    """How many programs share the units of the same rows, and how many units each has; the same forward and back."""
    units = grid_for(hidden, 1, is_back=False).units
    return -(-hidden // units), units


def concurrent_programs(hidden: int, directions: int) -> int:
    """How many programs must run at the same time, as they wait for each other; the GPU must have as many processors."""
    group, _ = group_for(hidden)
    return group * directions if group > 1 else 1


def depth_of(hidden: int) -> int:
    """The size of a state, padded to whole tiles of a product."""
    return max(16, power_of_2(hidden)) if hidden <= 64 else -(-hidden // 64) * 64


def tiles_for(columns: int, depth: int, memory: int, *, is_float16: bool) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of a product's tiles, warps and stages: the fastest on an H200."""
    if is_float16:
        return (128, 128, 64, 8, 3) if memory >= 200 * 1024 else (128, 64, 64, 8, 3)
    return (128, 128, 32, 4, 2) if depth <= 64 < columns else (128, 64, 32, 8, 3)


@cache
def processors(device: torch.device) -> int:
    """How many programs are sure to run at the same time."""
    return cast(int, torch.cuda.get_device_properties(device).multi_processor_count)
