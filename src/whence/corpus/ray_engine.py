"""Parts worked on by the actors of a Ray cluster."""

from whence.corpus.job import Engine
from whence.errors import InputError


def ray_engine(workers: int | None, address: str | None) -> Engine:
    """The actors of a Ray cluster, one for every CPU or GPU."""
    raise InputError("engine ray is not there yet")
