"""Lanes: what arrives together runs together, nothing is lost, and the queue has an end."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from whence.web import limits
from whence.web.lanes import Job, Lane, ModelFault
from whence.web.metrics import Metrics
from whence.web.refusal import Refusal


def lane(**more: int) -> Lane:
    return Lane("test", Metrics(), **{"most": 100, "room": 1000, "batch": 50, **more})


class Recording:
    """A function that doubles numbers, keeps the batches it got, and fails for a batch with a 13."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, jobs: Sequence[Job]) -> list[Any]:
        self.gate.wait(10)
        self.batches.append([job.asked for job in jobs])
        if 13 in self.batches[-1]:
            raise ValueError("thirteen")
        return [2 * job.asked for job in jobs]


async def answers(queue: Lane, run: Recording, asked: Sequence[int], keys: Sequence[object] = (), size: int = 1) -> list[Any]:
    jobs = [Job(run, keys[n] if keys else 0, size, each) for n, each in enumerate(asked)]
    return await asyncio.gather(*(queue.result(job) for job in jobs), return_exceptions=True)


def test_a_job_alone_runs_alone_and_at_once() -> None:
    run, queue = Recording(), lane()
    assert asyncio.run(answers(queue, run, [1])) == [2]
    assert run.batches == [[1]]


def test_what_arrives_while_a_batch_runs_is_the_next_batch() -> None:
    run, queue = Recording(), lane()
    assert asyncio.run(answers(queue, run, range(10))) == [2 * n for n in range(10)]
    assert run.batches == [[0], [*range(1, 10)]]


def test_clients_that_ask_again_and_again_share_batches() -> None:
    run, queue = Recording(), lane()

    async def client(n: int) -> None:
        for _ in range(5):
            assert await queue.result(Job(run, 0, 1, n)) == 2 * n

    async def clients() -> None:
        await asyncio.gather(*(client(n) for n in range(8)))

    asyncio.run(clients())
    assert len(run.batches) <= 7  # one, then the other seven, then all eight each time
    assert sum(map(len, run.batches)) == 40


def test_different_keys_run_apart_and_a_batch_has_a_size() -> None:
    run, queue = Recording(), lane(batch=3)
    assert asyncio.run(answers(queue, run, range(8), keys=["a", "a", "b", "a", "b", "a", "a", "b"])) == [
        2 * n for n in range(8)
    ]
    assert run.batches == [[0], [1, 3, 5], [2, 4, 7], [6]]


def test_a_job_larger_than_a_batch_runs_alone() -> None:
    run, queue = Recording(), lane(batch=3)
    assert asyncio.run(answers(queue, run, range(3), size=10)) == [0, 2, 4]
    assert run.batches == [[0], [1], [2]]


def test_a_failing_job_fails_alone() -> None:
    run, queue = Recording(), lane()
    found = asyncio.run(answers(queue, run, [1, 2, 13, 4, 5, 6]))
    assert isinstance(found[2], ValueError)
    assert [each for n, each in enumerate(found) if n != 2] == [2, 4, 8, 10, 12]


def test_a_full_queue_refuses_and_takes_again_when_it_is_empty() -> None:
    run, queue = Recording(), lane(most=2)

    async def crowd() -> list[Any]:
        run.gate.clear()
        first = asyncio.ensure_future(answers(queue, run, range(4)))
        await asyncio.sleep(0.05)
        run.gate.set()
        found = await first
        return [*found, *await answers(queue, run, [7])]

    *found, last = asyncio.run(crowd())
    assert found[:3] == [0, 2, 4] and last == 14
    assert isinstance(found[3], Refusal) and found[3].status == 429 and found[3].headers == {"Retry-After": "1"}


def test_a_queue_is_full_by_tokens_too_but_takes_one_job_of_any_size() -> None:
    run, queue = Recording(), lane(room=10)
    found = asyncio.run(answers(queue, run, range(4), size=6))
    assert found[:2] == [0, 2] and [each.status for each in found[2:]] == [429, 429]
    assert asyncio.run(answers(lane(room=10), run, [1], size=100)) == [2]


def test_who_waits_too_long_is_told_and_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAIT_SECONDS", 0.1)
    run, queue = Recording(), lane()

    async def late() -> list[Any]:
        run.gate.clear()
        asking = asyncio.ensure_future(answers(queue, run, [1, 2, 3]))
        await asyncio.sleep(0.3)
        run.gate.set()
        return [*await asking, *await answers(queue, run, [4])]

    *found, last = asyncio.run(late())
    assert [each.status for each in found] == [503, 503, 503] and last == 8
    assert run.batches == [[1], [4]]


def test_a_client_that_left_is_not_computed() -> None:
    run, queue = Recording(), lane()

    async def leaving() -> Any:
        run.gate.clear()
        first, second, third = (asyncio.ensure_future(queue.result(Job(run, 0, 1, n))) for n in (1, 2, 3))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.sleep(0)
        run.gate.set()
        return await first, await third

    assert asyncio.run(leaving()) == (2, 6)
    assert run.batches == [[1], [3]]


def test_a_client_that_left_makes_room_at_once() -> None:
    run, queue = Recording(), lane(most=1)

    async def leaving() -> Any:
        run.gate.clear()
        first, second = (asyncio.ensure_future(queue.result(Job(run, 0, 1, n))) for n in (1, 2))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.sleep(0)
        third = asyncio.ensure_future(queue.result(Job(run, 0, 1, 3)))
        await asyncio.sleep(0)
        run.gate.set()
        return await first, await third

    assert asyncio.run(leaving()) == (2, 6)


def test_a_model_that_exits_fails_its_own_request_alone() -> None:
    def run(jobs: Sequence[Job]) -> list[Any]:
        if any(job.asked == 13 for job in jobs):
            raise SystemExit(3)
        return [job.asked for job in jobs]

    async def ask() -> list[Any]:
        queue = lane()
        return await asyncio.gather(*(queue.result(Job(run, 0, 1, n)) for n in (1, 2, 13, 4)), return_exceptions=True)

    found = asyncio.run(ask())
    assert isinstance(found.pop(2), ModelFault) and found == [1, 2, 4]
