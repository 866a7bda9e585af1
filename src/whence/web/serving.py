"""Serves in this process: the app, uvicorn with connections that have deadlines, and signals."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import cast

import torch
import uvicorn

from whence.web import limits
from whence.web.answers import Answers
from whence.web.app import App
from whence.web.guards import Guards, names
from whence.web.logs import Log, LogHandler
from whence.web.metrics import Metrics
from whence.web.offered import Offered
from whence.web.protocol import Protocol
from whence.web.routes import Service
from whence.web.settings import Settings


def run(listening: socket.socket, settings: Settings, models: Mapping[str, object], announce: Callable[[], None]) -> None:
    """Serve until a signal comes and what is in flight is answered; `announce` is called before the first request."""
    torch.set_num_threads(1)  # for small matrices a second thread mostly waits
    offered = Offered(models)
    _allow_many_connections()
    log, metrics = Log(), Metrics()
    logging.getLogger().addHandler(LogHandler(log))
    guards = Guards(settings.host, names(settings.allowed), settings.token)
    answers = Answers(offered, metrics)
    app = App(Service(answers, metrics), guards, log, log_texts=settings.log_texts)
    config = uvicorn.Config(
        app, http=Protocol, ws="none", lifespan="on", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=int(limits.KEPT_SECONDS), timeout_graceful_shutdown=int(limits.STOP_SECONDS),
    )  # fmt: skip

    def leave() -> None:
        if answers.is_busy:  # Python would wait for the threads, and a model can take for ever
            log.close()
            os._exit(0)

    try:
        Server(config, announce, leave).run([listening])
    finally:
        log.close()


class Server(uvicorn.Server):
    """Uvicorn's server; it ends late connections, and a signal that it obeyed is no failure of the process."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], leave: Callable[[], None]) -> None:
        """`announce` is called when it serves, `leave` when it has stopped."""
        super().__init__(config)
        self._announce, self._leave = announce, leave

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and say so."""
        await super().startup(sockets)
        self._announce()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes and what is in flight is answered."""
        watching = asyncio.create_task(self._watch())
        try:
            await super().serve(sockets)
        finally:
            watching.cancel()
        self._leave()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            now = monotonic()
            for connection in cast(set[Protocol], self.server_state.connections).copy():
                connection.cut_if_late(now)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGTERM and SIGINT; uvicorn would raise them again afterwards."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield


def _allow_many_connections() -> None:
    """Raise the limit on open files, one of which every connection is, as far as the system allows."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = limits.CONNECTIONS + 200
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
