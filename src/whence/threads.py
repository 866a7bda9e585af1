"""One thread: on matrices of these sizes a second one brings nothing, and on a busy machine much waiting."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Generator[None]:
    """PyTorch with a single thread, as it was before afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
