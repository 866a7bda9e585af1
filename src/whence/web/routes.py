"""The table of routes: what each path takes, gives and runs. The app and the OpenAPI description both go by it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from whence.web import requests, responses
from whence.web.answers import Answers
from whence.web.metrics import Metrics
from whence.web.refusal import Refusal

DOCUMENTS = {
    "html": ("text/html; charset=utf-8", "html"),
    "svg": ("image/svg+xml", "svg"),
    "latex": ("application/x-tex", "tex"),
    "json": ("application/jsonl", "jsonl"),
}


@dataclass(frozen=True)
class Service:
    """What the routes answer from."""

    answers: Answers
    metrics: Metrics


@dataclass(frozen=True)
class Route:
    """A path of the service."""

    path: str
    method: str
    summary: str
    answer: Callable[[Service, Any], Awaitable[Response]]
    asks: type[requests.Ask] | None = None
    gives: type[BaseModel] | None = None
    media: tuple[str, ...] = ("application/json",)
    refuses: tuple[int, ...] = ()
    is_open: bool = False  # answers without the token too


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


async def _explain(service: Service, asked: requests.ExplainRequest) -> Response:
    return _json(await service.answers.explain(asked))


async def _render(service: Service, asked: requests.RenderRequest) -> Response:
    media, suffix = DOCUMENTS[asked.format]
    named = {"Content-Disposition": f'attachment; filename="explanation.{suffix}"'}
    return Response(await service.answers.explain(asked), headers=named, media_type=media)


async def _deletion(service: Service, asked: requests.DeletionRequest) -> Response:
    return _json(await service.answers.deletion(asked))


async def _series(service: Service, asked: requests.SeriesRequest) -> Response:
    return _json(await service.answers.series(asked))


async def _models(service: Service, _: None) -> Response:
    return _json(service.answers.models())


async def _healthz(_: Service, __: None) -> Response:
    return _json(b'{"status": "alive"}')


async def _readyz(service: Service, _: None) -> Response:
    offered = service.answers.offered
    if not offered.is_ready:
        loading = "the default model is still being loaded; try again in a moment"
        raise Refusal(503, offered.failure or loading, {"Retry-After": "1"})
    return _json(b'{"status": "ready"}')


async def _metrics(service: Service, _: None) -> Response:
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _openapi(_: Service, __: None) -> Response:
    from whence.web.openapi import openapi  # it reads the table below

    return _json(openapi())


REFUSED = (400, 401, 403, 404, 408, 413, 415, 422, 429, 503)
ROUTES = {
    route.path: route
    for route in (
        Route("/api/explain", "POST", "Explain texts", _explain, requests.ExplainRequest, responses.ExplanationsAnswer,
              refuses=REFUSED),
        Route("/api/deletion", "POST", "Delete a text's words, the most relevant first", _deletion, requests.DeletionRequest,
              responses.DeletionAnswer, refuses=REFUSED),
        Route("/api/series", "POST", "Explain a series of numbers", _series, requests.SeriesRequest, responses.SeriesAnswer,
              refuses=REFUSED),
        Route("/api/render", "POST", "Explain texts as a document", _render, requests.RenderRequest,
              media=tuple(media for media, _ in DOCUMENTS.values()), refuses=REFUSED),
        Route("/api/models", "GET", "List models, methods and limits", _models, gives=responses.ModelsAnswer, refuses=(401,)),
        Route("/healthz", "GET", "Say whether the process runs", _healthz, gives=responses.Status, is_open=True),
        Route("/readyz", "GET", "Say whether the default model is loaded", _readyz, gives=responses.Status, refuses=(503,),
              is_open=True),
        Route("/metrics", "GET", "Numbers for Prometheus", _metrics, media=("text/plain",), refuses=(401,)),
        Route("/openapi.json", "GET", "This description", _openapi, is_open=True),
    )
}  # fmt: skip
