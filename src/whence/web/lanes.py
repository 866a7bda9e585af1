"""Lanes: bounded queues, each with one thread, that run jobs which arrived together as one batch.

A lane starts the next batch as soon as the last one ends, with all that arrived meanwhile; an idle lane starts at once. So a
request that is alone runs alone, and under load the batches grow by themselves.
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


@dataclass(eq=False, slots=True)
class Job:
    """A piece of work. Jobs with the same function and key may run in one call; `size` is about its number of tokens."""

    run: Callable[[Sequence["Job"]], list[Any]]  # one result per job
    key: Hashable
    size: int
    asked: Any
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

    async def result(self, job: Job) -> Any:
        """Queue a job and wait for its result; refuses when the queue is full or the wait is too long."""
        if self._waiting and (len(self._waiting) >= self.most or self._tokens + job.size > self.room):
            raise Refusal(429, "the service is busy: its queue is full; try again in a second", {"Retry-After": "1"})
        self._waiting.append(job)
        self._tokens += job.size
        self._metrics.queued(self.name, len(self._waiting))
        if self._running is None:
            # after the events that are already there, so that requests that arrived together run together
            asyncio.get_running_loop().call_soon(self._start)
        timer = asyncio.get_running_loop().call_later(limits.WAIT_SECONDS, _give_up, job.future)
        try:
            return await job.future
        finally:
            timer.cancel()

    def _start(self) -> None:
        """Run the next batch, unless one is running."""
        if self._running is not None:
            return
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
            elif not chosen or (size + job.size <= self.batch and (job.run, job.key) == (chosen[0].run, chosen[0].key)):
                chosen.append(job)
                size += job.size
            else:
                left.append(job)
        self._waiting = left
        self._tokens -= size
        self._metrics.queued(self.name, len(left))
        return chosen

    def _deliver(self, jobs: Sequence[Job], done: asyncio.Future[list[Any]]) -> None:
        self._running = None
        self._start()
        for job, outcome in zip(jobs, done.result(), strict=True):
            if job.future.done():
                continue
            if isinstance(outcome, BaseException):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

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
    middle = len(jobs) // 2
    return outcomes(jobs[:middle]) + outcomes(jobs[middle:])


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        sentence = f"the request was not answered within {limits.WAIT_SECONDS:.0f} s; try again, or ask for less at once"
        future.set_exception(Refusal(503, sentence, {"Retry-After": "5"}))
