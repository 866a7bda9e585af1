"""Why the Ray engine drives its actors itself: what Ray Data does with a stream of parts that the driver reads.

python -m benchmarks.ray_data windows    a data set for every eight parts: what starting the actors anew costs
python -m benchmarks.ray_data stream     one data set whose reading task is fed by the driver: how far it reads ahead
python -m benchmarks.ray_data killed     the same, and the process of the reading task is killed: how many parts are lost
python -m benchmarks.ray_data gpu        a GPU is asked for where there is none: whether it is said (waits for 60 s)
"""

import logging
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# Ray reads these when it is imported. Without a token it writes one into the user's home.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
import ray as ray_package
import ray.data as ray_data
from ray.data.block import BlockMetadata

from whence.data.arrow import arrow

SECONDS = 0.1  # of work on a part
PART = b"x" * 10**6
ray: Any = ray_package  # much of it has no types
data: Any = ray_data


class Worker:
    """Works on a part."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(SECONDS)
        return {"number": batch["number"]}


class Feed:
    """A queue of two parts between the driver and the reading task."""

    def __init__(self) -> None:
        self.parts: queue.Queue[int | None] = queue.Queue(2)

    def put(self, number: int | None) -> None:
        """Wait for room, and add a part."""
        self.parts.put(number)

    def get(self) -> int | None:
        """Wait for a part; None is the end."""
        return self.parts.get()


def worked(dataset: Any, **resources: int) -> Iterator[int]:
    """The parts of a data set, worked on by two actors."""
    pool = data.ActorPoolStrategy(size=2, max_tasks_in_flight_per_actor=2)
    rows = dataset.map_batches(Worker, batch_size=1, compute=pool, **resources).iter_rows()
    return (row["number"] for row in rows)


def windows() -> None:
    """A data set for every eight parts."""
    for _ in range(3):
        began = time.monotonic()
        items = [{"number": number, "rows": PART} for number in range(8)]
        done = len(list(worked(data.from_items(items, override_num_blocks=8), num_cpus=1)))
        print(f"{done} parts in {time.monotonic() - began:.1f} s, of which {8 * SECONDS / 2:.1f} s are work")


def stream(parts: int = 200, *, is_killed: bool = False) -> None:
    """One data set, whose reading task is fed by the driver."""
    feed: Any = ray.remote(num_cpus=0, max_concurrency=4)(Feed).remote()
    fed: list[int] = []

    def feeding() -> None:
        for number in range(parts):
            ray.get(feed.put.remote(number))
            fed.append(number)
        ray.get(feed.put.remote(None))

    def reading() -> Iterator[Any]:
        while (number := ray.get(feed.get.remote())) is not None:
            yield arrow().table({"number": [number], "rows": [PART]})

    class Source(data.Datasource):
        def estimate_inmemory_data_size(self) -> None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            return [data.ReadTask(reading, BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None))]

    threading.Thread(target=feeding, daemon=True).start()
    data.DataContext.get_current().target_max_block_size = 1  # one block for every part
    source = data.read_datasource(Source(), override_num_blocks=1, ray_remote_args={"num_cpus": 0})
    seen, ahead = list[int](), 0
    for number in worked(source, num_cpus=1):
        seen.append(number)
        ahead = max(ahead, len(fed) - len(seen))
        if is_killed and len(seen) == 10:
            listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
            os.kill(next(int(line.split()[0]) for line in listed.splitlines() if "ray::ReadSource" in line), signal.SIGKILL)
    print(f"{parts} parts fed, {len(set(seen))} came back and no error was raised; at most {ahead} were read ahead")


def gpu() -> None:
    """A GPU is asked for where there is none."""
    threading.Timer(60, lambda: (print("nothing was said within 60 s", flush=True), os._exit(1))).start()
    print(len(list(worked(data.from_items([{"number": 0}]), num_gpus=1))))


RUNS: dict[str, Callable[[], None]] = {
    "windows": windows,
    "stream": stream,
    "killed": lambda: stream(is_killed=True),
    "gpu": gpu,
}

if __name__ == "__main__":
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    data.DataContext.get_current().enable_progress_bars = False
    RUNS[sys.argv[1]]()
    ray.shutdown()
