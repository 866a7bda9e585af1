"""HTTP connections: uvicorn's, with time limits for every stage and a limit on the size of headers and their number.

Uvicorn itself waits forever for the end of a request's headers, and for a client that does not read its response.
"""

import json
from time import monotonic
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from whence.web import limits
from whence.web.app import SECURITY

CLOSING_SECONDS = 5.0  # for a closed connection's last bytes to leave
TOO_LONG = f"the headers have more than {limits.HEADERS} bytes; send fewer"


class Protocol(HttpToolsProtocol):
    """A connection with a deadline for what it does now: sending headers, sending a body, reading a response."""

    deadline: float | None = None
    _header_bytes = 0
    _is_in_body = False
    _is_refused = False
    _blocked: float | None = None  # the deadline for a client that does not read

    def connection_made(self, transport: Any) -> None:
        """Expect a request in time; refuse a connection too many."""
        super().connection_made(transport)
        self.deadline = monotonic() + limits.HEADER_SECONDS
        if len(self.connections) > limits.CONNECTIONS:
            self._refuse(503, "the service has too many connections; try again in a moment")

    def data_received(self, data: bytes) -> None:
        """Start the headers' time with their first byte, and stop reading when they are too long."""
        if self._is_refused:
            return
        if not self._is_in_body:
            self._header_bytes += len(data)
            if self.deadline is None:
                self.deadline = monotonic() + limits.HEADER_SECONDS
        super().data_received(data)
        if not self._is_in_body and self._header_bytes > limits.HEADERS + len(data):  # still none complete
            self._refuse(431, TOO_LONG)

    def on_headers_complete(self) -> None:
        """Start the body's time."""
        if self._is_refused:
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > limits.HEADERS:
            self._refuse(431, TOO_LONG)
            return
        self._is_in_body = True
        self.deadline = monotonic() + limits.BODY_SECONDS + CLOSING_SECONDS  # the app answers before that
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete; the app has its own time limit."""
        if not self._is_refused:
            self._is_in_body, self._header_bytes, self.deadline = False, 0, None
            super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read its response fast enough."""
        self._blocked = monotonic() + limits.SEND_SECONDS
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._blocked = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(400, "this is not a valid HTTP request")

    def cut_if_late(self, now: float) -> None:
        """End the connection if its time is over."""
        if self.deadline is None and self.transport.is_closing():
            self.deadline = now + CLOSING_SECONDS
        elif (self.deadline is not None and now > self.deadline) or (self._blocked is not None and now > self._blocked):
            self.transport.abort()

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer without the app, and close; what else the client sends is not looked at."""
        if self._is_refused:
            return
        self._is_refused = True
        body = json.dumps({"error": sentence}).encode()
        lines = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in [*lines, *SECURITY])
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()
        self.deadline = monotonic() + CLOSING_SECONDS
