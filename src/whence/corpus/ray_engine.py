"""Parts worked on by the actors of a Ray cluster, one for every CPU or GPU. One that dies is replaced, its part is done again.

The actors are driven from here, not by Ray Data: docs/cluster.md says why, with figures.
"""

import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from whence import __version__
from whence.corpus.job import Engine, Work
from whence.corpus.parts import Part, Written
from whence.corpus.storage import TEMPORARY, Storage
from whence.errors import DataError, InputError, WhenceError

LOCAL = "local"
AHEAD = 2  # parts per actor: the one it works on, and the next
DEATHS = 5  # of actors over the same part, or before they are ready
REACHED = 10.0  # seconds in which the address answers
CONNECTED = 60.0  # seconds in which the cluster lets this process in
READY = 120.0  # seconds in which an actor is ready, when no other one works


def ray_engine(workers: int | None, address: str | None) -> Engine:
    """The actors of a Ray cluster: that at `address` or at $RAY_ADDRESS, or one of this machine that ends with the work."""
    ray = _ray(is_local=_address(address) == LOCAL)
    if address is not None and "://" in address:
        raise InputError(
            f"address {address!r} is of another kind; give that of the cluster's head as host:port, such as 10.0.0.1:6379, on "
            "a machine of the cluster, or submit this command with ray job submit"
        )
    return lambda work, parts: _worked(ray, work, parts, workers, address)


def _address(given: str | None) -> str:
    return given or os.environ.get("RAY_ADDRESS") or LOCAL


def _ray(*, is_local: bool) -> Any:
    """Ray, or an error that says how to install it. It sends no statistics of its use.

    It reads its settings when it is imported. A cluster of this machine is guarded by a token; without one in the settings Ray
    writes one into the user's home.
    """
    if is_local and "ray" not in sys.modules and not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "worker died or was killed|Raylet is terminated|marked dead")
    try:
        import ray  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError:
        raise DataError("engine ray needs Ray; run: pip install 'whence[ray]'") from None
    return cast(Any, ray)


def _worked(ray: Any, work: Work, parts: Iterable[Part], workers: int | None, address: str | None) -> Generator[Written]:
    resource = _resource(work)
    with _cluster(ray, workers, address), _seen_by_all(work.storage) as token:
        crew = Crew(ray, ray.put(ray.cloudpickle.dumps(work)), token, resource, _count(ray, resource, workers))
        try:
            yield from crew.worked(parts)
        finally:
            crew.end()


def _resource(work: Work) -> str:
    """What an actor takes of the cluster."""
    device: str | None = getattr(work.task, "device", None)
    if device is None or not device.startswith("cuda"):
        return "CPU"
    if device != "cuda":
        raise InputError(f"device {device!r} cannot be chosen with Ray, which gives every actor a GPU of its own; give cuda")
    return "GPU"


@contextmanager
def _cluster(ray: Any, workers: int | None, address: str | None) -> Generator[None]:
    """Be connected to a cluster; one that this process has not connected to before is left again."""
    if ray.is_initialized():
        yield
        return
    address = _address(address)
    settings: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        settings |= {"num_cpus": workers, "include_dashboard": False}
    else:
        _require_reached(address, settings)
    try:
        with _own_signals():
            ray.init(**settings)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise InputError(f"Ray cannot be used at {address!r}: {_first_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _own_signals() -> Generator[None]:
    """Keep what SIGTERM does to this process. Ray's own way prints a stack and aborts."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


def _require_reached(address: str, settings: Mapping[str, Any]) -> None:
    """Refuse an address where no cluster answers. Ray itself waits for minutes there, and cannot be interrupted."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), REACHED).close()
        except (OSError, OverflowError) as error:
            raise InputError(f"no Ray cluster answers at {address!r}: {error}; is the address right?") from None
    code = f"import ray; ray.init(**{dict(settings)!r}); ray.shutdown()"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=CONNECTED, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"no Ray cluster answers at {address!r} within {CONNECTED:.0f} s; is the address right?") from None
    if "InvalidAuthToken" in tried.stderr:
        raise InputError(
            f"the Ray cluster at {address!r} asks for a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the token or "
            "RAY_AUTH_TOKEN_PATH to a file with it"
        )
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["it does not say why"])[-1]
        raise InputError(f"the Ray cluster at {address!r} cannot be used: {said[:300]}")


@contextmanager
def _seen_by_all(storage: Storage) -> Generator[tuple[str, bytes]]:
    """A file in the folder that all actors have to see. On a machine that does not share the folder they would write aside."""
    name, content = f".cluster{TEMPORARY}", secrets.token_bytes(16)
    storage.write(name, content)
    try:
        yield name, content
    finally:
        with suppress(OSError, WhenceError):
            storage.remove(name)


def _count(ray: Any, resource: str, workers: int | None) -> int:
    """How many actors there are to be."""
    there = int(ray.cluster_resources().get(resource, 0))
    if not there:
        hint = "give --device cpu" if resource == "GPU" else "give it some"
        raise InputError(f"the Ray cluster has no {resource}; {hint}, or start a node that has one before this job")
    return workers or there


class CorpusWorker:
    """The actor: it explains the parts that it is given."""

    def begin(self, work: bytes, version: str, token: tuple[str, bytes]) -> str | None:
        """Get ready; returns why that is impossible."""
        import torch

        if version != __version__:
            return f"they have whence {__version__}, and the job was started with {version}; install the same"
        torch.set_num_threads(1)
        try:
            self.work: Work = pickle.loads(work)
        except Exception as error:
            return (
                f"they cannot load the model: {type(error).__name__}: {error}; install its code on every machine of the "
                "cluster, or send it with ray job submit --working-dir"
            )
        name, content = token
        try:
            with self.work.storage.open(name) as file:
                is_same = file.read() == content
        except OSError:
            is_same = False
        if not is_same:
            place = self.work.storage.place
            return f"they do not see the files of {place}; give a folder that all machines share, or an address such as s3://…"
        self.work.start()
        return None

    def explain(self, part: Part) -> Written:
        """Explain a part and write it."""
        return self.work(part)


class Held(NamedTuple):
    """A part that is with the actors; Ray keeps its rows."""

    number: int
    first: int
    last: int
    rows: Any


@dataclass
class Member:
    """An actor, and the parts that it has been given, in order."""

    actor: Any
    ready: Any  # the answer of its `begin`, until it is there
    given: dict[Any, Held] = field(default_factory=dict[Any, Held])


class Crew:
    """The actors. What is not finished is in `given` of one of them or in `again`; what is finished is in neither."""

    def __init__(self, ray: Any, work: Any, token: tuple[str, bytes], resource: str, count: int) -> None:
        self.ray, self.work, self.token, self.resource, self.count = ray, work, token, resource, count
        share = {"num_cpus": 1} if resource == "CPU" else {"num_cpus": 0, "num_gpus": 1}
        # It is replaced from here, where it is known what it was working on.
        self.kind = ray.remote(max_restarts=0, max_task_retries=0, **share)(CorpusWorker)
        self.again = deque[Held]()
        self.deaths = Counter[int | None]()  # by the number of the part; None: before they were ready
        self.members = [self._member() for _ in range(count)]

    def _member(self) -> Member:
        actor = self.kind.remote()
        return Member(actor, actor.begin.remote(self.work, __version__, self.token))

    def worked(self, parts: Iterable[Part]) -> Iterator[Written]:
        """Do all parts; the finished ones come in any order, and few wait at a time."""
        waiting, is_left, moved = iter(parts), True, time.monotonic()
        while is_left or self.again or any(member.given for member in self.members):
            while (is_left or self.again) and (free := self._free()) is not None:
                held = self.again.popleft() if self.again else self._held(next(waiting, None))
                is_left = is_left and held is not None
                if held is not None:
                    free.given[free.actor.explain.remote(held.rows)] = held
            asked = {member.ready: member for member in self.members if member.ready is not None}
            asked |= {ref: member for member in self.members for ref in member.given}
            if not asked:
                continue  # all is done
            done, _ = self.ray.wait(list(asked), timeout=1.0, fetch_local=False)
            for ref in done:  # at most one
                moved = time.monotonic()
                if (found := self._answer(asked[ref], ref)) is not None:
                    yield found
            if not any(member.given for member in self.members) and time.monotonic() - moved > READY:
                raise WhenceError(self._without_room())

    def _free(self) -> Member | None:
        """The actor with the fewest parts, if it can take one more."""
        ready = [member for member in self.members if member.ready is None]
        least = min(ready, key=lambda member: len(member.given), default=None)
        return least if least is not None and len(least.given) < AHEAD else None

    def _held(self, part: Part | None) -> Held | None:
        if part is None:
            return None
        return Held(part.number, part.first, part.first + len(part.rows) - 1, self.ray.put(part))

    def _answer(self, member: Member, ref: Any) -> Written | None:
        """What came of an actor's getting ready (nothing) or of a part; None if the actor has died instead."""
        try:
            answer = self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            self._replace(member, error)
            return None
        if ref in member.given:
            del self.deaths[member.given.pop(ref).number]
            return answer
        if answer is not None:
            raise WhenceError(f"the workers of the Ray cluster cannot begin: {answer}")
        member.ready = None
        del self.deaths[None]
        return None

    def _replace(self, member: Member, error: Exception) -> None:
        """Another actor instead of one that died; its parts are done again, the one that it worked on first."""
        blamed = next(iter(member.given.values()), None)
        key = blamed.number if blamed else None
        self.deaths[key] += 1
        if self.deaths[key] == DEATHS:
            when = f"while they explained rows {blamed.first:,} to {blamed.last:,}" if blamed else "before they were ready"
            raise WhenceError(
                f"{DEATHS} workers ended one after the other {when}; is there enough memory? What was done is kept; try fewer "
                f"--workers, or a smaller --part-rows with --restart (Ray: {_first_line(error)})"
            )
        self.ray.kill(member.actor)  # it may be alive on a machine that cannot be reached
        self.again.extendleft(reversed(member.given.values()))
        self.members[self.members.index(member)] = self._member()

    def _without_room(self) -> str:
        free = self.ray.available_resources().get(self.resource, 0)
        there = self.ray.cluster_resources().get(self.resource, 0)
        return (
            f"no worker was ready within {READY:.0f} s: {free:g} of the {there:g} {self.resource}s of the Ray cluster are free;"
            " wait for its other jobs to end, or add machines; what was done is kept, and the same command goes on"
        )

    def end(self) -> None:
        """End all actors now: what they have not finished is done again by the next run."""
        for member in self.members:
            with suppress(Exception):  # the cluster may be gone
                self.ray.kill(member.actor)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
