"""Jobs that are killed at random moments, parent or worker, until they are done."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path


def command(corpus: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "whence", "corpus", "explain", str(corpus), str(out), *options]


def children(process: int) -> list[int]:
    """The processes that a process started and that are still there."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def workers(process: int) -> list[int]:
    """Those of them that explain parts; Python starts one more, which looks after what they share."""

    def line(number: int) -> bytes:
        try:
            return Path(f"/proc/{number}/cmdline").read_bytes()
        except OSError:
            return b""

    return [number for number in children(process) if b"spawn_main" in line(number)]


def run_with_kills(call: list[str], *, kills: int, longest: float, seed: int) -> Counter[str]:
    """Run a job again and again, killing it or one of its workers so many times; what was killed, and how often it was done."""
    chance, count = random.Random(seed), Counter[str]()
    while sum(count[name] for name in ("parent", "worker")) < kills:
        process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and sum(count[name] for name in ("parent", "worker")) < kills:
            deadline = time.monotonic() + chance.uniform(0, longest)
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            own = workers(process.pid) if process.poll() is None else []
            if process.poll() is not None:
                break
            if own and chance.random() < 0.5:
                os.kill(chance.choice(own), signal.SIGKILL)
                count["worker"] += 1
            else:
                process.kill()
                count["parent"] += 1
                break
        _, errors = process.communicate()
        if process.returncode == 0:
            count["done"] += 1
            return count
        assert process.returncode == -signal.SIGKILL, errors.decode()
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    count["done"] += 1
    return count
