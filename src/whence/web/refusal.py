"""A request that is not answered as asked: a status and one sentence, which never quotes the user's text."""

import json
from collections.abc import Mapping

from starlette.responses import Response


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """Raised anywhere below a route; becomes `{"error": sentence}` with this status."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """The refusal as JSON."""
        return error_response(self.status, str(self), self.headers)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """One sentence as JSON."""
    return Response(json.dumps({"error": sentence}), status, headers, media_type="application/json")
