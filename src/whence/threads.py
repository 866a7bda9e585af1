"""PyTorch on one thread: for small matrices a second thread gains nothing, and on a busy machine it mostly waits."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Generator[None]:
    """Run PyTorch on a single thread, and restore the former number afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
