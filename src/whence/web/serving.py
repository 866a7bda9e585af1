"""Starts the service: the socket, the processes, their signals."""

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import cast

import torch
import uvicorn

from whence.errors import WhenceError
from whence.models.pipeline import Pipeline
from whence.web import limits
from whence.web.answers import Answers
from whence.web.app import App
from whence.web.guards import Guards, names
from whence.web.logs import Log, LogHandler
from whence.web.metrics import Metrics
from whence.web.offered import Offered
from whence.web.protocol import Protocol
from whence.web.routes import Service


@dataclass(frozen=True)
class Settings:
    """What the command was given."""

    host: str = "127.0.0.1"
    port: int = 8000
    allowed: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    log_texts: bool = False


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises if it cannot."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WhenceError(f"the service cannot listen at {host} port {port}: {reason}; give another --port or --host") from None
    return found


def address(host: str, listening: socket.socket) -> str:
    """The address to open in a browser."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    port = listening.getsockname()[1]
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def run(listening: socket.socket, settings: Settings, pipelines: Sequence[Pipeline]) -> None:
    """Serve in this process until a signal ends it."""
    torch.set_num_threads(1)
    _allow_many_connections()
    log = Log()
    logging.getLogger().addHandler(LogHandler(log))
    metrics = Metrics()
    answers = Answers(Offered({pipeline.name: pipeline for pipeline in pipelines}), metrics)
    guards = Guards(settings.host, names(settings.allowed), settings.token)
    app = App(Service(answers, metrics), guards, log, log_texts=settings.log_texts)
    config = uvicorn.Config(
        app, http=Protocol, ws="none", lifespan="on", log_config=None, access_log=False, server_header=False,
        timeout_keep_alive=20, timeout_graceful_shutdown=int(limits.STOP_SECONDS),
    )  # fmt: skip
    try:
        Server(config).run([listening])
    finally:
        log.close()


class Server(uvicorn.Server):
    """Uvicorn's server; it ends late connections, and a signal that it obeyed is no failure of the process."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes and what is in flight is answered."""
        watching = asyncio.create_task(self._watch())
        try:
            await super().serve(sockets)
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            now = monotonic()
            for connection in cast(set[Protocol], self.server_state.connections).copy():
                connection.cut_if_late(now)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGTERM and SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield


def _allow_many_connections() -> None:
    """Raise the limit on open files, one of which every connection is, as far as the system allows."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = limits.CONNECTIONS + 200
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        if soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
