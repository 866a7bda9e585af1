"""What `whence bench --json` writes."""

from typing import NotRequired, TypedDict

# A ratio stands under its name, and the quartiles of its rounds under the name with _spread; kernels have milliseconds by name.
Value = str | int | float | list[float] | dict[str, float]


class OutputSteps(TypedDict):
    """Explaining every output step: the time of one call for each over that of one call for all."""

    steps: int
    loop_over_all: float


class Growth(TypedDict):
    """The milliseconds of LRP as one size of the case `of` grows, and the slope on log axes."""

    values: list[int]
    ms: list[float]
    slope: float
    cell: str
    of: dict[str, object]


class Memory(TypedDict):
    """The peak memory of a process that explains one long sequence."""

    steps: int
    hidden: int
    peak_gib: float


class Speed(TypedDict):
    """All measurements of one run."""

    torch: str
    machine: str
    threads: int
    repeats: int
    calls: list[dict[str, Value]]  # whole calls of whence.relevance
    cases: list[dict[str, Value]]  # recurrent layers by themselves
    output_steps: OutputSteps
    two_threads: dict[str, float]  # by name of a whole call, its time on one thread over that on two
    scaling: NotRequired[dict[str, Growth]]
    memory: NotRequired[Memory]
    sst: NotRequired[dict[str, Value]]
