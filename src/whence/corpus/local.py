"""Parts worked on in processes of this machine. One that is killed is replaced, and its part is done again."""

import gc
import os
import pickle
import signal
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType

from whence.corpus.job import Engine, Work
from whence.corpus.parts import Part, Written
from whence.errors import InputError, WhenceError

IN_SCRIPT = b"__main__"  # in a pickled model: its class is defined in the script that runs
DEATHS = 5  # of processes one after the other, without a part being finished


def local_engine(workers: int) -> Engine:
    """This process, or several of this machine."""
    if workers == 1:
        return work_here
    return lambda work, parts: work_in_processes(work, parts, workers)


def work_here(work: Work, parts: Iterable[Part]) -> Generator[Written]:
    """Do all parts in this process."""
    work.start()
    yield from map(work, parts)


def work_in_processes(work: Work, parts: Iterable[Part], workers: int) -> Generator[Written]:
    """Do all parts in several processes, as they come; the finished ones come in any order. One more part waits."""
    sent = _sendable(work)
    ahead = iter(parts)
    upcoming = next(ahead, None)
    busy: dict[Connection, _Worker] = {}
    idle: list[_Worker] = []
    deaths = 0
    try:
        while upcoming is not None or busy:
            given = list[tuple[_Worker, Part]]()
            while upcoming is not None and (idle or len(busy) < workers):
                worker = idle.pop() if idle else _Worker(sent)
                busy[worker.connection] = worker
                given.append((worker, upcoming))
                upcoming = next(ahead, None)
            for worker, part in given:  # only now: a new process takes seconds until it listens, and all start at once
                worker.give(part)
            for connection in wait(list(busy)):
                worker = busy.pop(connection)  # pyright: ignore[reportArgumentType] - only connections were waited for
                part, found = worker.answer()
                if found is not None:
                    deaths = 0
                    idle.append(worker)
                    yield found
                    continue
                deaths += 1
                if deaths == DEATHS:
                    raise WhenceError(
                        f"{DEATHS} processes ended one after the other without finishing a part; {_suspicion(sent)} What was "
                        "done is kept; try fewer --workers, or a smaller --part-rows with --restart"
                    )
                worker.stop()
                replacement = _Worker(sent)
                busy[replacement.connection] = replacement
                replacement.give(part)
    finally:
        for worker in [*busy.values(), *idle]:
            worker.stop()


def _sendable(work: Work) -> bytes:
    try:
        return pickle.dumps(work)
    except Exception as error:
        raise InputError(f"the model cannot be sent to other processes: {error}; give --workers 1") from None


class _Worker:
    """A new process, not a copy of this one: it holds none of its locks, files and threads.

    Nothing big is given to it while it starts: the parent would wait for ever for one that is killed then. Afterwards this
    process alone holds its end of the connection, so that either side sees at once when the other is gone.
    """

    def __init__(self, work: bytes) -> None:
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(other,), daemon=True)
        with nullcontext() if IN_SCRIPT in work else _without_script():
            self.process.start()
        other.close()
        self.work, self.part = work, Part(0, 0, ())

    def give(self, part: Part) -> None:
        """Send a part; if the process is dead, the answer will say so."""
        self.part = part
        try:
            if self.work:
                self.connection.send_bytes(self.work)
                self.work = b""
            self.connection.send(part)
        except ConnectionError:
            pass

    def answer(self) -> tuple[Part, Written | None]:
        """The part, and what became of it; None if the process died. What the process could not do raises here."""
        try:
            found = self.connection.recv()
        except (EOFError, ConnectionError):
            return self.part, None
        if isinstance(found, Written):
            return self.part, found
        kind, message = found
        raise kind(message)

    def stop(self) -> None:
        """End the process now: what it has not finished is done again by the next run."""
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextmanager
def _without_script() -> Generator[None]:
    """Let a process start without running the user's script again, which Python does for the sake of what it defines."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _suspicion(work: bytes) -> str:
    """What may be the reason of processes that die."""
    if IN_SCRIPT in work:
        return (
            'the model is defined in the script: does it call this under `if __name__ == "__main__":`? If not, workers=1 works.'
        )
    return "is there enough memory?"


def _serve(connection: Connection) -> None:
    """Do parts until the parent is gone."""
    with suppress(EOFError, ConnectionError):
        _serve_parts(connection)


def _serve_parts(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)
    work: Work = pickle.loads(connection.recv_bytes())  # from the parent, not from a file
    work.start()
    gc.freeze()  # what is there now stays: looking through it again and again would take a tenth of the time
    while True:
        part: Part = connection.recv()
        try:
            connection.send(work(part))
        except WhenceError as error:
            connection.send((type(error), str(error)))
        except Exception as error:
            connection.send((WhenceError, f"part {part.number} failed: {type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    """A killed parent must not leave workers behind, at work or waiting."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
