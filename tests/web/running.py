"""A real `whence serve` in a process of its own, for the tests."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one sentence of a refusal."""
        found = self.json
        assert list(found) == ["error"], found
        assert self.headers["content-type"] == "application/json"
        return found["error"]


class Running:
    """The service, until `stop`. `before`: Python that runs first in its process, such as shorter time limits."""

    def __init__(self, *arguments: str, before: str = "", env: dict[str, str] | None = None) -> None:
        code = f"{before}\nif __name__ == '__main__':\n    from whence.cli.main import main\n    main()"
        command = [sys.executable, "-c", code, "serve", "--port", "0", *arguments]
        self.log, self.last = tempfile.TemporaryFile(), ""  # noqa: SIM115 - open as long as the service
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **(env or {})}
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        if not self.said:
            raise AssertionError(f"{self.stop()}: {self.last}")
        assert self.said.startswith("whence serves at http://"), self.said
        self.port = int(self.said.rsplit(":", 1)[1])
        self.await_ready()

    def await_ready(self) -> None:
        end = time.monotonic() + 60
        while self.get("/readyz").status != 200:
            assert time.monotonic() < end, self.logged()
            time.sleep(0.1)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, asked: object, **headers: str) -> Answer:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, json.dumps(asked).encode(), JSON | more)

    def explain(self, *texts: str, **more: object) -> list[dict[str, Any]]:
        answer = self.post("/api/explain", {"texts": texts, **more})
        assert answer.status == 200, answer
        return answer.json["explanations"]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def raw(self, content: bytes) -> bytes:
        """What the service says to these bytes before it closes the connection."""
        with self.connect() as connection:
            connection.sendall(content)
            return read_all(connection)

    def memory(self) -> float:
        """The resident memory, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def logged(self) -> str:
        """What the service wrote to standard error."""
        if not self.log.closed:
            self.log.seek(0)
            self.last = self.log.read().decode()
        return self.last

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.logged()
        self.log.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def read_all(connection: socket.socket) -> bytes:
    """Everything until the service closes the connection."""
    found = b""
    try:
        while chunk := connection.recv(2**16):
            found += chunk
    except ConnectionResetError:
        pass
    return found
