"""What `whence serve` was given, and the socket it listens at."""

import socket
from dataclasses import dataclass, field

from whence.errors import WhenceError


@dataclass(frozen=True)
class Settings:
    """How the service is run."""

    host: str = "127.0.0.1"
    port: int = 8000
    allowed: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    log_texts: bool = False

    def __post_init__(self) -> None:
        """A token's outer blanks are not part of it: a header cannot have them."""
        if self.token is not None:
            object.__setattr__(self, "token", self.token.strip())


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises if it cannot."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(2048)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WhenceError(f"the service cannot listen at {host} port {port}: {reason}; give another --port or --host") from None
    return found


def address(host: str, listening: socket.socket) -> str:
    """The address to open in a browser."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    port = listening.getsockname()[1]
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
