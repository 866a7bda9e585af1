"""The files of the page. They are found by exact name only, so that no path leads out of their folder."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from starlette.responses import Response

from whence.web.refusal import Refusal

FOLDER = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".csv": "text/csv; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}


class PageFiles:
    """The page's files by their path below its folder; a file that changed is read again."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in KINDS}
        self._read: dict[str, tuple[int, bytes, str]] = {}  # when it was changed, the content and its tag

    def response(self, name: str, headers: Mapping[str, str]) -> Response:
        """A file; 304 if the client has it already. It may keep it, but has to ask whether it is still the same."""
        if name not in self._files:
            raise Refusal(404, "there is no such page")
        content, tag = self._content(name)
        kept = {"ETag": tag, "Cache-Control": "no-cache"}
        known = [each.strip().removeprefix("W/") for each in headers.get("if-none-match", "").split(",")]
        if tag in known or known == ["*"]:
            return Response(None, 304, kept)
        return Response(content, 200, kept, media_type=KINDS[self._files[name].suffix])

    def _content(self, name: str) -> tuple[bytes, str]:
        path = self._files[name]
        try:
            changed = path.stat().st_mtime_ns
            if name not in self._read or self._read[name][0] != changed:
                content = path.read_bytes()
                self._read[name] = changed, content, f'"{hashlib.sha256(content).hexdigest()[:24]}"'
        except OSError:
            raise Refusal(404, "there is no such page") from None
        return self._read[name][1:]
