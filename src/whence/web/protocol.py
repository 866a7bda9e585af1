"""HTTP connections: uvicorn's, with time limits for every stage and a limit on the size of headers and their number.

Uvicorn itself waits forever for the end of a request's headers, and for a client that does not read its response.
"""

import json
from time import monotonic
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from whence.web import limits
from whence.web.app import SECURITY

CLOSING_SECONDS = 5.0  # for a closed connection's last bytes to leave
TOO_LONG = f"the headers have more than {limits.HEADERS} bytes; send fewer"


class Protocol(HttpToolsProtocol):
    """A connection with a deadline for what it does now: sending headers, sending a body, reading a response."""

    deadline: float | None = None
    _header_bytes = 0
    _trailer_bytes = 0  # since the last piece of the body
    _is_in_body = False
    _is_upgrade = False  # the client offers another protocol
    _is_refused = False
    _blocked: float | None = None  # the deadline for a client that does not read
    _unread = 0  # bytes that it had not read yet when the deadline was set

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
        self._trailer_bytes += len(data)
        self._parse(data)
        if not self._is_in_body and self._header_bytes > limits.HEADERS + len(data):  # still none complete
            self._refuse(431, TOO_LONG)
        elif self._is_in_body and self._trailer_bytes > limits.HEADERS + len(data):
            self._end_in_body()

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("")
        except httptools.HttpParserUpgrade as stopped:
            if not self._is_refused:
                self._parse_plain(data[stopped.args[0] :])

    def _parse_plain(self, rest: bytes) -> None:
        """Read a request again without its offer of another protocol, at which the parser stops before the body."""
        method, self._is_upgrade = self.parser.get_method(), False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        headers = [(name, _without_upgrade(name, value)) for name, value in self.headers if name != b"upgrade"]
        lines = [method + b" " + self.url + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
        self._parse(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what comes after the body (a trailer) is none, and is ignored."""
        if not self._is_in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the body's time."""
        if self._is_refused:
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > limits.HEADERS:
            self._refuse(431, TOO_LONG)
            return
        if self.parser.should_upgrade():
            self._is_upgrade = self.parser.get_method() != b"CONNECT"
            if not self._is_upgrade:
                self.send_400_response("")
            return
        self._is_in_body = True
        self.deadline = monotonic() + limits.BODY_SECONDS + CLOSING_SECONDS  # the app answers before that
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._trailer_bytes = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete; the app has its own time limit."""
        if not self._is_refused and not self._is_upgrade:
            self._is_in_body, self._header_bytes, self.deadline = False, 0, None
            super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read its response fast enough."""
        self._blocked, self._unread = monotonic() + limits.SEND_SECONDS, self.transport.get_write_buffer_size()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._blocked = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(400, "this is not a valid HTTP request")

    def cut_if_late(self, now: float) -> None:
        """End the connection if its time is over. A client that reads, however slowly, has new time."""
        unread = self.transport.get_write_buffer_size()
        if self._blocked is not None and unread < self._unread:
            self._blocked, self._unread = now + limits.SEND_SECONDS, unread
        if self.deadline is None and self.transport.is_closing():
            self.deadline = now + CLOSING_SECONDS
        elif (self.deadline is not None and now > self.deadline) or (self._blocked is not None and now > self._blocked):
            self.transport.abort()

    def _end_in_body(self) -> None:
        """Refuse a request whose headers go on after its body; its app is told that the client left."""
        if self.cycle.response_started or self.pipeline:
            self.transport.abort()
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._refuse(431, TOO_LONG)

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


def _without_upgrade(name: bytes, value: bytes) -> bytes:
    """A header's value; Connection without the token upgrade."""
    if name != b"connection":
        return value
    return b", ".join(token for each in value.split(b",") if (token := each.strip()).lower() != b"upgrade")
