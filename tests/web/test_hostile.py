"""Clients that mean harm, or break: each is answered or cut, and the service stays as it was."""

import asyncio
import json
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.web.running import JSON, Running, read_all
from whence.web.answers import Answers
from whence.web.lanes import Job, Lane
from whence.web.metrics import Metrics
from whence.web.offered import Offered
from whence.web.requests import ExplainRequest

HEAD = b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def seconds_until_cut(connection: socket.socket) -> tuple[float, bytes]:
    start = time.monotonic()
    found = read_all(connection)
    return time.monotonic() - start, found


def seconds_of_drip(connection: socket.socket, content: bytes) -> float:
    """How long one byte after another can be sent before the connection is cut."""
    start = time.monotonic()
    for n in range(400):
        try:
            connection.sendall(content[n % len(content) : n % len(content) + 1])
        except OSError:
            return time.monotonic() - start
        time.sleep(0.05)
    raise AssertionError("the connection was not cut")


def is_kept(service: Running, connection: socket.socket) -> bool:
    """Whether the service's end of a connection is established (01), as the kernel lists it."""
    ends = [f"0100007F:{port:04X}" for port in (service.port, connection.getsockname()[1])]
    return f"{ends[0]} {ends[1]} 01" in Path("/proc/net/tcp").read_text()


def test_silence_before_a_request_is_cut(hasty: Running) -> None:
    with hasty.connect() as connection:
        seconds, found = seconds_until_cut(connection)
    assert 0.5 < seconds < 10 and found == b""


def test_headers_byte_by_byte_are_cut(hasty: Running) -> None:
    with hasty.connect() as connection:
        assert 0.5 < seconds_of_drip(connection, HEAD) < 10


def test_headers_byte_by_byte_after_a_good_request_are_cut(hasty: Running) -> None:
    with hasty.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(4096)
        assert 0.5 < seconds_of_drip(connection, b"\r\n") < 10


def test_a_body_that_never_comes_is_told_and_cut(hasty: Running) -> None:
    with hasty.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        seconds, found = seconds_until_cut(connection)
    assert 0.5 < seconds < 12
    assert b" 408 " in found and b"the body did not arrive within 1 s" in found


def test_an_idle_connection_is_closed_after_a_while(hasty: Running) -> None:
    with hasty.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        seconds, found = seconds_until_cut(connection)
    assert seconds < 10 and b"200 OK" in found


def test_a_client_that_does_not_read_is_cut(hasty: Running) -> None:
    """A large answer fills the buffers between; the service does not keep it for ever."""
    body = b'{"target": "all", "texts": [' + b",".join([b'"' + b"a film " * 800 + b'"'] * 32) + b"]}"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", hasty.port))
        assert is_kept(hasty, connection)
        connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        end = time.monotonic() + 60
        while is_kept(hasty, connection):
            assert time.monotonic() < end
            time.sleep(0.1)
        found = read_all(connection)
    assert b"200 OK" in found[:20] and len(found) < 15_000_000
    assert not found.endswith(b"]}")  # cut in the middle


def test_a_client_that_reads_slowly_gets_the_whole_answer(hasty: Running) -> None:
    body = b'{"target": "all", "texts": [' + b",".join([b'"' + b"a film " * 800 + b'"'] * 32) + b"]}"
    found = bytearray()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", hasty.port))
        connection.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        start = time.monotonic()
        while chunk := connection.recv(2**16):
            found += chunk
            if time.monotonic() - start < 30:
                time.sleep(0.02)
    assert found.endswith(b"]}") and len(found) > 5_000_000


def test_a_thousand_idle_connections(hasty: Running) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    before = hasty.memory()
    idle = [hasty.connect() for _ in range(1000)]
    try:
        start = time.monotonic()
        assert len(hasty.explain("a fine film")) == 1
        assert time.monotonic() - start < 5
        for connection in idle:
            assert connection.recv(1) == b""  # cut
        assert hasty.memory() - before < 60
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_hundred_megabytes(service: Running) -> None:
    before = service.memory()
    for head in (b"Content-Length: 200000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nbebc200\r\n"):
        with service.connect() as connection:
            connection.sendall(HEAD + head)
            try:
                for _ in range(200):
                    connection.sendall(b" " * 1_000_000)
            except OSError:
                pass
            found = connection.recv(4096)
        assert b" 413 " in found and b"more than 1048576 bytes" in found
    assert service.memory() - before < 30
    assert len(service.explain("a fine film")) == 1


def test_a_client_that_waits_to_send_too_much_is_told_at_once(service: Running) -> None:
    found = service.raw(HEAD + b"Content-Length: 200000000\r\nExpect: 100-continue\r\n\r\n")
    assert b" 413 " in found and b"100 Continue" not in found


def test_a_client_that_waits_to_send_is_let(service: Running) -> None:
    with service.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 21\r\nExpect: 100-continue\r\n\r\n")
        assert b"100 Continue" in connection.recv(100)
        connection.sendall(b'{"texts": ["a film"]}')
        assert b"200 OK" in connection.recv(100)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10, 400),  # TLS
        (b"hello\r\n\r\n", 400),
        (b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /%ff%fe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 400),  # no Host
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(10_000)) + b"\r\n", 431),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (HEAD + b"Content-Length: -5\r\n\r\n", 400),
        (HEAD + b"Content-Length: 99999999999999999999999999\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_what_is_not_http_is_refused_in_json(service: Running, content: bytes, status: int) -> None:
    found = service.raw(content)
    assert found.startswith(f"HTTP/1.1 {status} ".encode()), found[:200]
    assert b"application/json" in found


def sends(connection: socket.socket, content: bytes) -> bool:
    """Whether the service still takes what is sent."""
    try:
        connection.sendall(content)
    except OSError:
        return False
    return True


CHUNKED = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n15\r\n" + b'{"texts": ["a film"]}' + b"\r\n0\r\n"


@pytest.mark.parametrize(
    ("missing", "status"), [(b"Host: localhost\r\n", 400), (b"Content-Type: application/json\r\n", 415), (b"", 200)]
)
def test_trailers_are_no_headers(service: Running, missing: bytes, status: int) -> None:
    head = HEAD.replace(missing, b"") + CHUNKED
    assert service.raw(head + missing + b"Origin: http://evil.example\r\n\r\n").startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("piece", [b"X: y\r\n", b"x"])  # many trailers, one long trailer
def test_trailers_without_end_are_cut(service: Running, piece: bytes) -> None:
    before = service.memory()
    with service.connect() as connection:
        connection.sendall(HEAD + CHUNKED + b"X-First: ")
        assert not all(sends(connection, piece * (2**18 // len(piece))) for _ in range(200))
        assert read_all(connection)[:13] in (b"", b"HTTP/1.1 431 ")  # the answer can be lost when the client still sends
    assert service.memory() - before < 20


def test_an_upgrade_to_another_http_does_not_lose_the_body(service: Running) -> None:
    body = b'{"texts": ["a film"]}'
    for connection in (b"Connection: Upgrade, HTTP2-Settings, close\r\n", b"Connection: close\r\nConnection: upgrade\r\n"):
        head = HEAD + connection + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        found = service.raw(head + b"Content-Length: 21\r\n\r\n" + body)
        assert found.startswith(b"HTTP/1.1 200 ") and b'"a film"' in found
        found = service.raw(head + b"Transfer-Encoding: chunked\r\n\r\n15\r\n" + body + b"\r\n0\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 200 ") and b'"a film"' in found
    with service.connect() as several:  # in pieces, and the connection is kept
        for n in range(2):
            several.sendall(HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 21\r\n\r\n" + body[:10])
            time.sleep(0.1)
            several.sendall(body[10:])
            found = b""
            while not found.endswith(b"]}"):  # head and body may come apart
                found += several.recv(2**16)
            assert found.startswith(b"HTTP/1.1 200 "), n


def test_an_upgrade_is_no_websocket(service: Running) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
    found = service.raw(head + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200 ")


def test_requests_sent_at_once_on_one_connection_are_answered_in_order(service: Running) -> None:
    asked = (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    found = service.raw(asked)
    assert found.index(b"200 OK") < found.index(b"404 Not Found")


def test_clients_that_leave_disturb_nobody(service: Running) -> None:
    body = b'{"texts": ["a film"]}'
    whole = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body

    def leave(n: int) -> None:
        with service.connect() as connection:
            connection.sendall(whole[: len(whole) * (n % 10 + 1) // 10])

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(leave, range(200)))
    assert len(service.explain("a fine film")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "a " * 500_000,
        "," * 1_000_000,
        "'" * 60_000,
        ". A" * 20_000,
        "—" * 60_000,
        "\n" * 60_000 + "a",
        "\0" * 1000,
    ],
)
def test_texts_that_are_hard_to_split_take_no_time(service: Running, text: str) -> None:
    start = time.monotonic()
    answer = service.post("/api/explain", {"texts": [text]})
    assert answer.status in (200, 422) and time.monotonic() - start < 10


def test_a_body_of_many_mistakes_is_refused_at_the_first(service: Running) -> None:
    for body in (b'{"texts": [' + b"1," * 500_000 + b"1]}", b'{"texts": ["a"], "deleted": [[' + b'"x",' * 200_000 + b"1]]}"):
        start = time.monotonic()
        answer = service.ask("POST", "/api/explain", body, JSON)
        assert answer.status == 422 and time.monotonic() - start < 2


def test_quick_requests_overtake_a_long_one(service: Running) -> None:
    long = {"texts": ["a film " * 900] * 32, "method": "gi"}
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(service.post, "/api/explain", long) for _ in range(2)]
        time.sleep(0.5)
        quick = 0
        while not all(each.done() for each in slow):
            service.explain("a fine film")
            quick += 1
        assert [each.result().status for each in slow] == [200, 200]
    assert quick >= 10


def test_a_deletion_curve_of_a_long_text_ends_soon(service: Running) -> None:
    start = time.monotonic()
    answer = service.post("/api/deletion", {"text": ("a fine film, " * 150)[:1900], "model": "sst-char-gru"})
    assert answer.status == 200 and answer.json["steps"] >= 2
    assert time.monotonic() - start < 15  # it took more than 30 s


@pytest.mark.parametrize("text", ["!" * 2000, " " * 32_000 + "a", "a" * 32_000])
def test_texts_without_spaces_do_not_count_as_one_word(text: str) -> None:
    assert _lane_of(texts=[text] * 32) == "slow"


def test_all_classes_and_encoders_count() -> None:
    text = "a fine film " * 80
    assert _lane_of(texts=[text]) == "quick"
    assert _lane_of(texts=[text] * 2, target="all") == _lane_of(texts=[text] * 3, encoders=True) == "slow"


def _lane_of(**asked: object) -> str:
    """The lane that a request goes to."""
    answers, found = Answers(Offered(), Metrics()), [""]

    async def take(lane: Lane, _: Job) -> bytes:
        found[0] = lane.name
        return b""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "result", take)
        asyncio.run(answers.explain(ExplainRequest.model_validate(asked)))
    answers.close()
    return found[0]


def test_a_client_that_left_gets_no_work_done(service: Running) -> None:
    """Long requests whose clients leave would keep the slow lane busy."""
    body = json.dumps({"texts": ["a fine film " * 600] * 32, "target": "all"}).encode()
    for _ in range(4):
        with service.connect() as connection:
            connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(1)
    start = time.monotonic()
    assert len(service.explain(*["a fine film " * 400] * 2)) == 2  # in the slow lane
    assert time.monotonic() - start < 10
