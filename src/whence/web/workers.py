"""Several processes that share one socket: started, watched, started again when one dies, and stopped together."""

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic, sleep

from prometheus_client import multiprocess

from whence.errors import ModelError, WhenceError
from whence.web import limits
from whence.web.metrics import FOLDER
from whence.web.settings import Settings

Load = Callable[[str], object]
PAUSE = 1.0  # seconds before a process that died is started again


class Workers:
    """The processes. `load` makes a model of what `--model` was given; each process loads its own."""

    def __init__(self, count: int, listening: socket.socket, settings: Settings, models: Sequence[str], load: Load) -> None:
        self._count, self._given = count, (listening, settings, tuple(models), load)
        self._processes: list[SpawnProcess] = []
        self._is_stopping = False

    def run(self, announce: Callable[[], None]) -> None:
        """Serve until a signal comes; `announce` is called when the first process serves."""
        folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="whence-metrics-")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            self._start_first()
            if not self._is_stopping:
                announce()
            self._watch()
        finally:
            self._end()
            shutil.rmtree(folder, ignore_errors=True)

    def _start_first(self) -> None:
        """Start one process and wait until it serves: what is wrong with the models is then said once."""
        ready, told = get_context("spawn").Pipe(duplex=False)
        first = self._start(told)
        told.close()
        while not self._is_stopping and not wait([ready, first.sentinel], timeout=0.2):
            pass
        if self._is_stopping:
            return
        try:
            problem = ready.recv()
        except EOFError:
            raise WhenceError("the service's first process ended before it served; its log says why") from None
        if problem:
            raise ModelError(problem)

    def _start(self, told: Connection | None = None) -> SpawnProcess:
        process = get_context("spawn").Process(target=work, args=(*self._given, told))
        process.start()
        self._processes.append(process)
        return process

    def _watch(self) -> None:
        """Keep the number of processes until it is time to stop."""
        while not self._is_stopping:
            while len(self._processes) < self._count and not self._is_stopping:
                self._start()
            wait([process.sentinel for process in self._processes], timeout=0.2)
            for process in [process for process in self._processes if not process.is_alive()]:
                self._processes.remove(process)
                if process.pid is not None:
                    multiprocess.mark_process_dead(process.pid)
                if not self._is_stopping:
                    print(f"whence: a process ended with code {process.exitcode}; another is started", file=sys.stderr)
                    sleep(PAUSE)

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _end(self) -> None:
        """Ask the processes to finish what is in flight, and wait for them; new clients find nobody who listens."""
        self._given[0].close()  # or else they would wait in its queue, and be cut at the end
        for process in self._processes:
            if process.is_alive():
                process.terminate()
        end = monotonic() + limits.STOP_SECONDS + 5
        for process in self._processes:
            process.join(max(0.1, end - monotonic()))
            if process.is_alive():
                process.kill()


def work(listening: socket.socket, settings: Settings, models: Sequence[str], load: Load, told: Connection | None) -> None:
    """Serve in a process that was started for it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)  # until the server has its own
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from whence.web.serving import run  # imports PyTorch, which the first process does without

    try:
        found = {each: load(each) for each in models}
    except WhenceError as error:
        if told is None:
            raise
        told.send(str(error))
        return

    def announce() -> None:
        if told is not None:
            told.send("")
            told.close()

    run(listening, settings, found, announce)


def _leave(*_: object) -> None:
    """End at once: there is nothing in flight, and an exception might come at a bad time, such as in the middle of an exit."""
    os._exit(0)


def _end_with_parent() -> None:
    """Stop when the first process is gone, however it ended."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
