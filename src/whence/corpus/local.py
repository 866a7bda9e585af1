"""Parts worked on in processes of this machine. One that is killed is replaced, and its part is done again."""

import os
import pickle
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any

from whence.corpus.job import Engine, Work
from whence.corpus.parts import Part, Written
from whence.errors import InputError, WhenceError

AHEAD = 2  # parts per process that wait for it
DEATHS = 5  # of processes one after the other, without a part being finished


def local_engine(workers: int) -> Engine:
    """This process, or several of this machine."""
    if workers == 1:
        return work_here
    return lambda work, parts: work_in_processes(work, parts, workers)


def work_here(work: Work, parts: Iterable[Part]) -> Iterator[Written]:
    """Do all parts in this process."""
    work.start()
    return map(work, parts)


def work_in_processes(work: Work, parts: Iterable[Part], workers: int) -> Generator[Written]:
    """Do all parts in several processes; the finished ones come in any order, and few wait at a time."""
    _require_sendable(work)
    pool, pending, deaths = _pool(work, workers), dict[Future[Written], Part](), 0
    waiting = iter(parts)
    try:
        is_left = True
        while is_left or pending:
            while is_left and len(pending) < AHEAD * workers:
                part = next(waiting, None)
                is_left = part is not None
                if part is not None:
                    pending[_submitted(pool, part)] = part
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            if any(isinstance(each.exception(), BrokenProcessPool) for each in done):
                deaths += 1
                if deaths == DEATHS:
                    raise WhenceError(
                        f"{DEATHS} processes ended one after the other without finishing a part; is there enough memory? What "
                        "was done is kept; try fewer --workers, or a smaller --part-rows with --restart"
                    )
                finished = {each for each in done if each.exception() is None}
                lost = [part for each, part in pending.items() if each not in finished]
                yield from (each.result() for each in finished)
                _stop(pool)
                pool = _pool(work, workers)
                pending = {_submitted(pool, part): part for part in lost}
                continue
            for each in done:
                del pending[each]
                deaths = 0
                yield each.result()
    finally:
        _stop(pool)


def _submitted(pool: ProcessPoolExecutor, part: Part) -> Future[Written]:
    """A part that is given to the processes; if they have just died, a future that says so."""
    try:
        return pool.submit(_done, part)
    except BrokenProcessPool as error:
        failed = Future[Written]()
        failed.set_exception(error)
        return failed


def _require_sendable(work: Work) -> None:
    try:
        pickle.dumps(work)
    except Exception as error:
        raise InputError(f"the model cannot be sent to other processes: {error}; give --workers 1") from None


def _pool(work: Work, workers: int) -> ProcessPoolExecutor:
    # New processes, not copies of this one: they hold none of its locks, files and threads.
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(work,))


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes now: what they have not finished is done again by the next run."""
    processes: dict[int, Any] = getattr(pool, "_processes", None) or {}
    for process in list(processes.values()):
        process.terminate()
    pool.shutdown(wait=True, cancel_futures=True)


_work: list[Work] = []  # of this process, when it is one of the workers


def _begin(work: Work) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    work.start()
    _work.append(work)


def _end_with_parent() -> None:
    """A killed parent must not leave workers behind, which would wait for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _done(part: Part) -> Written:
    return _work[0](part)
