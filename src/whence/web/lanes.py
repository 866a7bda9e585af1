"""Lanes: bounded queues, each with one thread, that run jobs which arrived together as one batch.

An idle lane starts at once, so a request that is alone runs alone. Under load, clients that were answered together ask again
together: a lane then waits until as many requests are there as last time, for 2 ms at most, and runs them as one batch.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from whence.web import limits
from whence.web.metrics import Metrics
from whence.web.refusal import Refusal

GATHER_SECONDS = 0.002


class ModelFault(Exception):  # noqa: N818 - as in ModelError, but not one that a user can mend
    """A model tried to end the process, such as by sys.exit()."""


@dataclass(eq=False, slots=True)
class Job:
    """A piece of work. Jobs with the same function and key may run in one call; `size` is about its number of tokens."""

    run: Callable[[Sequence["Job"]], list[Any]]  # one result per job
    key: Hashable
    size: int
    asked: Any
    is_waiting: bool = False
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Lane:
    """A queue of at most `most` jobs and `room` tokens, worked off in batches of about `batch` tokens by one thread."""

    def __init__(self, name: str, metrics: Metrics, *, most: int, room: int, batch: int) -> None:
        self.name, self.most, self.room, self.batch = name, most, room, batch
        self._metrics = metrics
        self._waiting: deque[Job] = deque()
        self._tokens = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"whence-{name}")
        self._running: asyncio.Future[list[Any]] | None = None
        self._expected = 1  # so many jobs were there last time
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a batch runs."""
        return self._running is not None

    async def result(self, job: Job) -> Any:
        """Queue a job and wait for its result; refuses when the queue is full or the wait is too long."""
        if self._waiting and (len(self._waiting) >= self.most or self._tokens + job.size > self.room):
            raise Refusal(429, "the service is busy: its queue is full; try again in a second", {"Retry-After": "1"})
        self._waiting.append(job)
        job.is_waiting = True
        self._tokens += job.size
        self._metrics.queued(self.name, len(self._waiting))
        if self._running is None:
            self._gather()
        timer = asyncio.get_running_loop().call_later(limits.WAIT_SECONDS, _give_up, job.future)
        try:
            return await job.future
        finally:
            timer.cancel()
            self._drop(job)

    def _drop(self, job: Job) -> None:
        """Take a job that still waits out of the queue: nobody wants it any more."""
        if job.is_waiting:
            job.is_waiting = False
            self._waiting.remove(job)
            self._tokens -= job.size
            self._metrics.queued(self.name, len(self._waiting))

    def _gather(self) -> None:
        """Start when as many jobs wait as last time, or after a moment."""
        if len(self._waiting) >= self._expected:
            self._start()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._start)

    def _start(self) -> None:
        """Run the next batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._expected = max(1, len(self._waiting))
        jobs = self._next()
        if not jobs:
            return
        self._metrics.batched(self.name, len(jobs))
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, outcomes, jobs)
        self._running.add_done_callback(lambda done: self._deliver(jobs, done))

    def _next(self) -> list[Job]:
        """The first job and those that can run with it, in order of arrival; those nobody waits for are dropped."""
        chosen: list[Job] = []
        left: deque[Job] = deque()
        size = 0
        for job in self._waiting:
            if job.future.done():
                self._tokens -= job.size
                job.is_waiting = False
            elif not chosen or (size + job.size <= self.batch and (job.run, job.key) == (chosen[0].run, chosen[0].key)):
                chosen.append(job)
                job.is_waiting = False
                size += job.size
            else:
                left.append(job)
        self._waiting = left
        self._tokens -= size
        self._metrics.queued(self.name, len(left))
        return chosen

    def _deliver(self, jobs: Sequence[Job], done: asyncio.Future[list[Any]]) -> None:
        self._running = None
        self._expected = len(jobs) + len(self._waiting)
        failure = done.exception()
        for job, outcome in zip(jobs, done.result() if failure is None else [failure] * len(jobs), strict=True):
            if job.future.done():
                continue
            if isinstance(outcome, BaseException):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)
        if self._waiting:
            self._gather()

    def close(self) -> None:
        """Let the thread end after the running batch."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def outcomes(jobs: Sequence[Job]) -> list[Any]:
    """The result or the exception of every job. When a batch fails its halves run apart, so one job spoils no other."""
    try:
        return list(jobs[0].run(jobs))
    except Exception as error:
        if len(jobs) == 1:
            return [error]
    except BaseException as error:  # a model that calls sys.exit() ends its request, not the service
        if len(jobs) == 1:
            return [_fault(error)]
    middle = len(jobs) // 2
    return outcomes(jobs[:middle]) + outcomes(jobs[middle:])


def _fault(error: BaseException) -> ModelFault:
    found = ModelFault("the model tried to end the process")
    found.__cause__ = error
    return found


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        sentence = f"the request was not answered within {limits.WAIT_SECONDS:.0f} s; try again, or ask for less at once"
        future.set_exception(Refusal(503, sentence, {"Retry-After": "5"}))
