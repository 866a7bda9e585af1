"""The OpenAPI description, and what the service does with requests made from it, right and wrong ones."""

import json
from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from tests.web.running import Running
from whence.methods.registry import METHODS
from whence.web.routes import ROUTES

ASKING = [path for path, route in ROUTES.items() if route.asks is not None]
EACH = 140  # requests per path and mode: 4 paths, 2 modes, 1,120 in all


def test_it_describes_every_route(service: Running) -> None:
    found = service.get("/openapi.json").json
    assert found["openapi"].startswith("3.1") and set(found["paths"]) == set(ROUTES)
    for path, route in ROUTES.items():
        operation = found["paths"][path][route.method.lower()]
        assert operation["summary"] and "200" in operation["responses"]
        assert ("requestBody" in operation) == (route.asks is not None)
    explain = found["components"]["schemas"]["ExplainRequest"]
    assert explain["required"] == ["texts"] and explain["properties"]["texts"]["maxItems"] == 32
    assert explain["properties"]["method"]["enum"] == list(METHODS)


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("path", ASKING)
def test_requests_made_from_the_description(service: Running, path: str, mode: GenerationMode) -> None:
    """No request makes the service fail, every answer is one that the description names, and every refusal one sentence."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{service.port}/openapi.json")
    statuses: Counter[int] = Counter()
    known = {int(each) for each in schema[path]["POST"].definition.raw["responses"]}

    @given(case=schema[path]["POST"].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EACH, deadline=None, phases=[Phase.generate], derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.large_base_example],
    )  # fmt: skip
    def ask(case: Any) -> None:
        response = case.call()
        statuses[response.status_code] += 1
        assert response.status_code < 500 and response.status_code in known | {405}, response.text
        if response.status_code != 200:
            assert list(json.loads(response.content)) == ["error"]

    ask()
    assert sum(statuses.values()) >= EACH * 0.9, statuses
    if mode == GenerationMode.NEGATIVE:
        assert statuses[200] == 0, statuses
    elif path != "/api/series":  # a series needs as many numbers per step as the model has features
        assert statuses[200] > 0, statuses
