"""The OpenAPI description, made from the table of routes and the classes of requests and answers."""

import json
from functools import cache
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from whence import __version__
from whence.web.responses import Failure
from whence.web.routes import ROUTES, Route

COMMON = (400, 405, 421, 431, 503)  # whatever the path: not valid, another method or host, long headers, too many clients


@cache
def openapi() -> bytes:
    """The description as JSON."""
    asked = [(route.asks, "validation") for route in ROUTES.values() if route.asks is not None]
    given = [(route.gives, "validation") for route in ROUTES.values() if route.gives is not None]
    models: list[Any] = [*asked, *given, (Failure, "validation")]
    _, schema = models_json_schema(models, ref_template="#/components/schemas/{model}")
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "whence", "version": __version__, "description": "Explains recurrent models."},
            "paths": {route.path: {route.method.lower(): _operation(route)} for route in ROUTES.values()},
            "components": {
                "schemas": schema.get("$defs", {}),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    ).encode()


def _operation(route: Route) -> dict[str, Any]:
    failures = {str(status): _failure(status) for status in sorted({*COMMON, *route.refuses})}
    success = {"description": "The answer.", "content": {media: {"schema": _schema(route.gives)} for media in route.media}}
    body = {"required": True, "content": {"application/json": {"schema": _schema(route.asks)}}}
    return {
        "summary": route.summary,
        "operationId": route.path.strip("/").replace("/", "_").replace(".", "_"),
        "responses": {"200": success, **failures},
        **({"requestBody": body} if route.asks is not None else {}),
        **({} if route.is_open else {"security": [{}, {"token": []}]}),
    }


def _schema(model: type[BaseModel] | None) -> dict[str, Any]:
    return {} if model is None else {"$ref": f"#/components/schemas/{model.__name__}"}


def _failure(status: int) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": {"application/json": {"schema": _schema(Failure)}}}
