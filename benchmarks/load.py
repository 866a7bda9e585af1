"""Load on `whence serve`: its rate, latency and memory. Starts the service itself; server and load share the machine.

python benchmarks/load.py steady        16 connections, one 20-word text per request
python benchmarks/load.py crowd         256 connections, then the latency of a single user afterwards
python benchmarks/load.py mixed         long requests beside quick ones
python benchmarks/load.py soak --minutes 10
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

Found = TypeVar("Found")
WORDS = (
    "the film is a rather dull and overlong affair that never quite finds its way despite good cast in story plot "
    "funny moving charming not without laughs director camera music script slow bright dark love war child house"
).split()


@dataclass
class Tally:
    """What the clients saw."""

    statuses: Counter[int] = field(default_factory=Counter[int])
    seconds: list[float] = field(default_factory=list[float])

    def shown(self, name: str, wall: float) -> str:
        """One line: the rate of answers, latency and statuses."""
        times = sorted(self.seconds)
        good = self.statuses[200]
        return (
            f"{name}: {good / wall:.0f} explanations/s, p50 {1e3 * quantile(times, 0.5):.1f} ms, "
            f"p99 {1e3 * quantile(times, 0.99):.1f} ms, statuses {dict(self.statuses)}"
        )


def quantile(times: Sequence[float], share: float) -> float:
    """The time below which that share of the sorted times is."""
    return times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


def request(*texts: str) -> bytes:
    """A POST of these texts."""
    body = json.dumps({"texts": texts}).encode()
    kind = "Content-Type: application/json"
    return f"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Client(asyncio.Protocol):
    """A keep-alive connection that sends the next request when the last one is answered."""

    def __init__(self, requests: Sequence[bytes], tally: Tally, until: float) -> None:
        self.requests, self.tally, self.until = requests, tally, until
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = bytearray()
        self.sent = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = cast(asyncio.Transport, transport)
        self.send()

    def send(self) -> None:
        """Send a request, unless the time is over."""
        assert self.transport is not None
        self.sent = time.perf_counter()
        if self.sent >= self.until:
            self.transport.close()
            return
        self.transport.write(random.choice(self.requests))

    def data_received(self, data: bytes) -> None:
        """Take an answer when it is complete."""
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return
        self.tally.statuses[int(head[9:12])] += 1
        self.tally.seconds.append(time.perf_counter() - self.sent)
        del self.buffer[: end + 4 + length]
        if head[9:12] == b"429":
            asyncio.get_running_loop().call_later(0.2, self.send)  # what a polite client does, only sooner
        else:
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a connection that the server cut."""
        if exc is not None or time.perf_counter() < self.until:
            self.tally.statuses[0] += 1
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, requests: Sequence[bytes], *, connections: int, seconds: float) -> Tally:
    """Keep that many connections busy for that long."""
    tally, until, loop = Tally(), time.perf_counter() + seconds, asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(requests, tally, until), "127.0.0.1", port))[1] for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    return tally


def memory(pid: int) -> float:
    """The resident memory of a process and its children, in MB."""
    found = 0.0
    for each in [pid, *children(pid)]:
        for line in Path(f"/proc/{each}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                found += int(line.split()[1]) / 1024
    return found


def cpu(pid: int) -> float:
    """The processor time of a process and its children, in seconds."""
    fields = [Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split() for each in [pid, *children(pid)]]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Server:
    """`whence serve` on a free port, for as long as the context lasts."""

    def __init__(self, *arguments: str) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the server
        command = [sys.executable, "-m", "whence", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.pid = self.process.pid

    def __enter__(self) -> "Server":
        run(load(self.port, texts(20), connections=4, seconds=3))  # so that models are loaded and caches filled
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def run(work: Coroutine[Any, Any, Found]) -> Found:
    """Run a coroutine, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def texts(words: int, count: int = 500) -> list[bytes]:
    """Requests with texts of that many words."""
    random.seed(0)
    return [request(" ".join(random.choices(WORDS, k=words))) for _ in range(count)]


def steady(server: Server, seconds: float) -> None:
    """16 connections, one 20-word text per request."""
    before, spent = memory(server.pid), cpu(server.pid)
    tally = run(load(server.port, texts(20), connections=16, seconds=seconds))
    print(tally.shown(f"16 connections for {seconds:.0f} s", seconds))
    print(f"processor time: {1e3 * (cpu(server.pid) - spent) / tally.statuses[200]:.2f} ms per explanation")
    print(f"memory: {before:.0f} MB before, {memory(server.pid):.0f} MB after")


def crowd(server: Server, seconds: float) -> None:
    """256 connections, and how soon it is over afterwards."""
    before = memory(server.pid)
    alone = run(load(server.port, texts(20), connections=1, seconds=3))
    print(alone.shown("one connection before", 3))
    tally = run(load(server.port, texts(20), connections=256, seconds=seconds))
    print(tally.shown(f"256 connections for {seconds:.0f} s", seconds))
    print(f"memory: {before:.0f} MB before, {memory(server.pid):.0f} MB after")
    after = run(load(server.port, texts(20), connections=1, seconds=2))
    print(after.shown("one connection in the 2 s afterwards", 2))


def mixed(server: Server, seconds: float) -> None:
    """32 texts of 2,000 words each on two connections, beside quick requests on four."""

    async def both() -> tuple[Tally, Tally]:
        random.seed(1)
        long = request(*(" ".join(random.choices(WORDS, k=1900)) for _ in range(32)))
        slow = load(server.port, [long], connections=2, seconds=seconds)
        quick = load(server.port, texts(20), connections=4, seconds=seconds)
        found = await asyncio.gather(quick, slow)
        return found[0], found[1]

    quick, slow = run(both())
    print(quick.shown("quick, beside long ones", seconds))
    print(slow.shown("long ones", seconds))


def soak(server: Server, minutes: float) -> None:
    """Steady load for long; memory every minute."""
    measured: list[float] = []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        seconds = min(60.0, max(1.0, end - time.monotonic()))
        tally = run(load(server.port, texts(20), connections=16, seconds=seconds))
        measured.append(memory(server.pid))
        print(tally.shown(f"minute {len(measured)}, {measured[-1]:.0f} MB", seconds), flush=True)
    print(f"memory drift after the first minute: {100 * (measured[-1] / measured[0] - 1):+.1f} %")


def main() -> None:
    """Run a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=["steady", "crowd", "mixed", "soak"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    with Server("--workers", str(given.workers)) as server:
        print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, {given.workers} worker(s)")
        if given.case == "soak":
            soak(server, given.minutes)
        else:
            {"steady": steady, "crowd": crowd, "mixed": mixed}[given.case](server, given.seconds)


if __name__ == "__main__":
    main()
