"""The service as an ASGI app: guards, routes, page files, and what every response has in common."""

import asyncio
import traceback
from collections.abc import Coroutine, Mapping
from time import perf_counter
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from whence.web.guards import Bodies, GoneError, Guards, require_json
from whence.web.logs import Log
from whence.web.pagefiles import PageFiles
from whence.web.refusal import Refusal, error_response
from whence.web.requests import parsed
from whence.web.routes import ROUTES, Route, Service

PAGES = {"/": "index.html", "/docs": "docs.html"}
SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NO_STORE = (b"cache-control", b"no-store")


class App:
    """The service. `log_texts`: write users' texts into the log."""

    def __init__(self, service: Service, guards: Guards, log: Log, *, log_texts: bool = False) -> None:
        self._service, self._guards, self._log, self._log_texts = service, guards, log, log_texts
        self._bodies, self._files = Bodies(), PageFiles()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        answers = self._service.answers
        await receive()
        warming = asyncio.get_running_loop().run_in_executor(None, self._warm_up)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await warming
        answers.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _warm_up(self) -> None:
        try:
            self._service.answers.offered.warm_up()
        except BaseException as error:  # also SystemExit of a model
            self._log_failure("the default model cannot be used", error)

    def _log_failure(self, message: str, error: BaseException) -> None:
        """Log where an error came from; its own words can quote a text, so they are left out unless texts are logged."""
        told = "".join(traceback.format_exception(error)) if self._log_texts else _frames(error)
        self._log.line(level="error", message=message, traceback=told)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, path = perf_counter(), scope["path"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        noted: dict[str, Any] = {}
        try:
            response = await self._response(scope, headers, receive, noted)
        except GoneError:
            response = None
        except Refusal as refusal:
            response = refusal.response()
        except Exception as error:
            self._log_failure("a request failed", error)
            response = error_response(503, "the service failed at this request; its log says why", {"Retry-After": "5"})
        status = 499 if response is None else response.status_code  # 499: the client left
        if response is not None:
            await _send(response, scope["method"], send)
        seconds = perf_counter() - start
        label = path if path in ROUTES or path in PAGES else "/page" if path.startswith("/page/") else "other"
        self._service.metrics.answered(label, status, seconds)
        self._log.line(method=scope["method"], route=label, status=status, seconds=round(seconds, 6), **noted)

    async def _response(self, scope: Scope, headers: Mapping[str, str], receive: Receive, noted: dict[str, Any]) -> Response:
        path, method = scope["path"], scope["method"]
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise Refusal(400, "the request has several Host headers; give one")
        self._guards.require_host(headers)
        route = ROUTES.get(path)
        _require_method(method, "GET" if route is None else route.method)
        if route is None:
            return self._page(path, headers)
        if not route.is_open:
            self._guards.require_token(headers)
        if route.asks is None:
            return await route.answer(self._service, None)
        self._guards.require_origin(headers)
        require_json(headers)
        body = await self._bodies.read(headers, receive)
        return await _unless_gone(self._answered(route, body, noted), receive)

    async def _answered(self, route: Route, body: bytes, noted: dict[str, Any]) -> Response:
        assert route.asks is not None
        asked = parsed(route.asks, body)
        noted["bytes"] = len(body)
        if self._log_texts:
            noted["texts"] = getattr(asked, "texts", getattr(asked, "text", None))
        return await route.answer(self._service, asked)

    def _page(self, path: str, headers: Mapping[str, str]) -> Response:
        name = PAGES.get(path, path.removeprefix("/page/") if path.startswith("/page/") else "")
        return self._files.response(name, headers)


def _frames(error: BaseException) -> str:
    """Where an error was raised, and the error that caused it, without what they say."""
    before = [_frames(error.__cause__)] if error.__cause__ is not None else []
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{each.filename}:{each.lineno} in {each.name}" for each in frames]
    return "\n".join([*before, *lines, type(error).__name__])


async def _unless_gone(answering: Coroutine[Any, Any, Response], receive: Receive) -> Response:
    """The answer to a client that waits; when it leaves, its work is dropped."""
    work, leaving = asyncio.ensure_future(answering), asyncio.ensure_future(receive())
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise GoneError
        return work.result()
    finally:
        work.cancel()
        leaving.cancel()


def _require_method(given: str, needed: str) -> None:
    if given != needed and not (given == "HEAD" and needed == "GET"):
        allowed = "GET, HEAD" if needed == "GET" else needed
        raise Refusal(405, f"this path takes {allowed}, not what was sent", {"Allow": allowed})


async def _send(response: Response, method: str, send: Send) -> None:
    headers = [*response.raw_headers, *SECURITY]
    if not any(name == b"cache-control" for name, _ in response.raw_headers):
        headers.append(NO_STORE)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else response.body})
