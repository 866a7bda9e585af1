"""The log: one line of JSON per request on standard error, without users' texts unless asked for.

A thread writes the lines, so that a reader that is slow or gone never holds up an answer; it then loses lines.
"""

import json
import logging
import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime

PAUSE = 0.1  # seconds between two writes
MOST = 10_000  # lines that wait to be written


class Log:
    """Lines that wait to be written, and the thread that writes them."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST)
        self._wake, self._is_over = threading.Event(), False
        self._thread = threading.Thread(target=self._write, name="whence-log", daemon=True)
        self._thread.start()

    def line(self, **fields: object) -> None:
        """Add a line: the time and these fields."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(json.dumps({"time": now, **fields}))
        self._wake.set()

    def close(self) -> None:
        """Write what waits, for a second at most."""
        self._is_over = True
        self._wake.set()
        self._thread.join(1.0)

    def _write(self) -> None:
        while self._wake.wait() and not (self._is_over and not self._lines):
            self._wake.clear()
            for _ in range(len(self._lines)):
                _write(f"{self._lines.popleft()}\n".encode())
            if self._is_over and not self._lines:
                return
            time.sleep(0 if self._is_over else PAUSE)


def _write(line: bytes) -> None:
    """Write to standard error. Not through sys.stderr: its lock, held in a write that waits, would abort Python at exit."""
    with suppress(OSError, ValueError):  # closed
        number = sys.stderr.fileno()
        while line:
            line = line[os.write(number, line) :]


class LogHandler(logging.Handler):
    """Puts what libraries log into the same lines."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Add one line."""
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else None
        self._log.line(level=record.levelname.lower(), message=record.getMessage(), **({"traceback": trace} if trace else {}))
