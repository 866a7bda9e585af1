"""Who may ask, and how much at once: the Host, Origin and token of a request, and the size of its body."""

import asyncio
import hmac
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import Receive

from whence.web import limits
from whence.web.refusal import Refusal

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::", ""})


@dataclass(frozen=True)
class Guards:
    """What a request has to satisfy before anything is done for it."""

    host: str = "127.0.0.1"
    allowed: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)

    def require_host(self, headers: Mapping[str, str]) -> None:
        """Refuse a request for another host: a foreign name that resolves to this machine (DNS rebinding)."""
        name = host_name(headers.get("host", ""))
        if name is None:
            raise Refusal(400, "the request has no valid Host header; give one")
        if name in LOCAL or name in self.allowed or name == self.host.lower():
            return
        if self.host in ANYWHERE and _is_address(name):  # an address cannot be rebound
            return
        raise Refusal(421, "this service does not answer for that host name; start it with --allow-host NAME to allow it")

    def require_origin(self, headers: Mapping[str, str]) -> None:
        """Refuse a request that the page of another site makes in a user's browser."""
        origin = headers.get("origin")
        if origin is not None:
            place = _place(origin)
            is_own = place == headers.get("host", "").lower() or host_name(place) in self.allowed
            if not place or not is_own:
                raise Refusal(403, "the request comes from a page of another site; use the service's own page, or no browser")
        elif headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise Refusal(403, "the request comes from a page of another site; use the service's own page, or no browser")

    def require_token(self, headers: Mapping[str, str]) -> None:
        """Refuse a request without the token, if the service has one."""
        if self.token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        if scheme.lower() != "bearer" or not same:
            sentence = "this service needs a token; send it as Authorization: Bearer TOKEN"
            raise Refusal(401, sentence, {"WWW-Authenticate": "Bearer"})


def host_name(given: str) -> str | None:
    """The name in a Host header, without the port, in lower case; None if it is no host."""
    if not given or "@" in given or "/" in given:
        return None
    try:
        parts = urlsplit(f"//{given}")
        _ = parts.port  # raises for what is no number
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".") or None


def _place(origin: str) -> str:
    """The host and port of an Origin header; empty if it is none."""
    try:
        return urlsplit(origin).netloc.lower() if origin.isascii() else ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def names(hosts: Iterable[str]) -> frozenset[str]:
    """Host names as they are compared."""
    return frozenset(host.lower().rstrip(".") for host in hosts)


def require_json(headers: Mapping[str, str]) -> None:
    """Refuse a body that is not plain JSON; a browser does not let other sites send that type unasked."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "the body must be JSON; send it with Content-Type: application/json")
    if _encoding(headers) not in ("identity", "gzip"):
        raise Refusal(415, "the body has a Content-Encoding that is not known here; send it as it is, or with gzip")


def _encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower() or "identity"


class GoneError(Exception):
    """The client left before its request was complete."""


class Bodies:
    """Reads the bodies of requests: each within the limit, in time, and all together within a share of memory."""

    def __init__(self) -> None:
        self._held = 0  # bytes

    async def read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The whole body."""
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limits.BODY:
            raise _too_large(headers)
        body = bytearray()
        try:
            async with asyncio.timeout(limits.BODY_SECONDS):
                while await self._reads_more(body, headers, receive):
                    pass
        except TimeoutError:
            sentence = f"the body did not arrive within {limits.BODY_SECONDS:.0f} s; send it faster"
            raise Refusal(408, sentence, {"Connection": "close"}) from None
        finally:
            self._held -= len(body)
        return _unpacked(body, headers) if _encoding(headers) == "gzip" else bytes(body)

    async def _reads_more(self, body: bytearray, headers: Mapping[str, str], receive: Receive) -> bool:
        """Take one piece of the body; returns whether there are more."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        chunk: bytes = message.get("body", b"")
        body += chunk
        self._held += len(chunk)
        if len(body) > limits.BODY:
            raise _too_large(headers)
        if self._held > limits.BODIES:
            raise Refusal(429, "the service is busy: it reads too many requests at once; try again", {"Retry-After": "1"})
        return bool(message.get("more_body", False))


def _unpacked(body: bytearray, headers: Mapping[str, str]) -> bytes:
    """A body that was compressed with gzip; no more of it is unpacked than a body may have."""
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        found = unpacking.decompress(body, limits.BODY + 1)
    except zlib.error:
        raise Refusal(400, "the body is not valid gzip; send it as it is, or compress it anew") from None
    if len(found) > limits.BODY:
        raise _too_large(headers)
    if not unpacking.eof or unpacking.unused_data:
        raise Refusal(400, "the body is not one whole gzip stream; send it as it is, or compress it anew")
    return found


def _too_large(headers: Mapping[str, str]) -> Refusal:
    """The rest of the body is read and dropped, or else the client would not see this answer, unless it waits to send it."""
    sentence = f"the body has more than {limits.BODY} bytes, the most for one request; send fewer texts at once"
    return Refusal(413, sentence, {"Connection": "close"} if "expect" in headers else {})
