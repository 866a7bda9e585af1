"""What the service answers: the library's numbers, within its limits, and one sentence otherwise."""

import json
import re
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import whence
from tests.web.running import JSON, Running
from whence._explain import explain_all
from whence.methods.registry import METHODS
from whence.render.formats import rendered
from whence.web import limits, responses
from whence.web.pagefiles import FOLDER

TEXTS = ["neither funny nor suspenseful", "It's a fine film — really “fine”, don't you think?", "ünïcode 🎬 works"]
LABELS = ["very negative", "negative", "neutral", "positive", "very positive"]


def library(text: str, model: str = "sst-bilstm", **more: Any) -> dict[str, Any]:
    """What `whence explain --format json` prints for a text."""
    return json.loads(rendered([[whence.explain(whence.load(model), text, check="model", **more)]], "json"))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("model", ["sst-bilstm", "sst-bigru", "sst-char-gru"])
def test_one_text_has_the_librarys_very_numbers(service: Running, text: str, model: str) -> None:
    assert service.explain(text, model=model) == [library(text, model)]


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ({"target": "negative"}, {"target": 1}),
        ({"target": 3}, {"target": "positive"}),
        ({"target": "VERY negative"}, {"target": 0}),
        ({"method": "sa"}, {"method": "sa"}),
        ({"method": "gi", "epsilon": 1}, {"method": "gi"}),
        ({"epsilon": 0.01, "delta": 1}, {"method": whence.LRP(epsilon=0.01, delta=1.0)}),
        ({"encoders": True}, {"encoders": True}),
        ({"deleted": [[0, 2]]}, {"deleted": [0, 2]}),
        ({"deleted": [[]]}, {}),
        ({"target": "positive", "versus": "rest"}, {"target": whence.contrast("positive", "rest")}),
        ({"versus": "rest", "deleted": [[1]]}, {"target": whence.contrast("predicted", "rest"), "deleted": [1]}),
        ({"target": 0, "versus": "neutral"}, {"target": whence.contrast(0, 2)}),
    ],
)
def test_settings_mean_what_they_mean_in_the_library(service: Running, asked: dict[str, Any], more: dict[str, Any]) -> None:
    assert service.explain(TEXTS[0], **asked) == [library(TEXTS[0], **more)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_answered_everywhere(service: Running, method: str) -> None:
    assert service.explain(TEXTS[0], method=method) == [library(TEXTS[0], method=method)]
    assert len(service.explain(TEXTS[0], method=method, target="all")) == len(LABELS)
    curve = service.post("/api/deletion", {"text": TEXTS[0], "method": method})
    assert curve.status == 200 and len(curve.json["order"]) == 4
    values = [[float(n), 1.0, 2.0] for n in range(6)]
    series = service.post("/api/series", {"values": values, "method": method})
    assert series.status == 200 and series.json["method"]["name"] == method
    for format in ("html", "svg", "latex", "json"):
        document = service.post("/api/render", {"texts": [TEXTS[0]], "method": method, "format": format})
        assert document.status == 200 and b"suspenseful" in document.body


def test_sampled_relevance_has_its_standard_errors(service: Running) -> None:
    (found,) = service.explain(TEXTS[0], method="shapley")
    assert len(found["errors"]) == len(found["tokens"]) and max(found["errors"]) > 0
    responses.ExplanationAnswer.model_validate_json(json.dumps(found), extra="forbid", strict=True)
    assert "errors" not in service.explain(TEXTS[0])[0]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/explain", {"texts": ["a good film " * 30], "method": "shapley"}),
        ("/api/explain", {"texts": ["a good film, " * 5] * 32, "method": "shapley"}),
        ("/api/explain", {"texts": ["good " * 600], "method": "occlusion"}),
        ("/api/explain", {"texts": ["good " * 400], "method": "cd"}),
        ("/api/explain", {"texts": ["good " * 1_000] * 3, "method": "ig"}),
        ("/api/explain", {"texts": ["good " * 1_000], "method": "ig", "target": "all"}),
        ("/api/render", {"texts": ["a good film " * 30], "method": "shapley"}),
        ("/api/deletion", {"text": "a good film " * 30, "method": "shapley"}),
        ("/api/series", {"values": [[1.0, 2.0, 3.0]] * 1_000, "method": "occlusion"}),
        ("/api/series", {"values": [[1.0, 2.0, 3.0]] * 90, "method": "shapley"}),
    ],
)
def test_what_would_run_for_minutes_is_refused(service: Running, path: str, asked: dict[str, Any]) -> None:
    answer = service.post(path, asked)
    assert answer.status == 422
    sentence = r"runs the model many times, here over about [\d,]+ tokens or steps in all, and the most is 262,144; give fewer"
    assert re.search(sentence, answer.error)


def test_work_that_takes_long_goes_to_the_slow_lane(service: Running) -> None:
    def slow() -> int:
        found = re.search(rb'whence_batch_size_count{lane="slow"} (\d+)', service.get("/metrics").body)
        return int(found[1]) if found else 0

    before = slow()
    service.explain(TEXTS[0])
    service.explain("good", method="shapley")
    assert slow() == before
    for method in ("shapley", "ig"):
        service.explain("a good film, " * 2, method=method)
    assert slow() == before + 2


def test_work_that_nobody_waits_for_stops() -> None:
    running = Running(before="import whence.web.limits as limits\nlimits.WAIT_SECONDS, limits.WORK = 1.0, 10**12")
    try:
        given_up = running.post("/api/explain", {"texts": ["a good film " * 100], "method": "shapley"})
        assert given_up.status == 503 and "not answered within 1 s" in given_up.error
        end = time.monotonic() + 20  # 300 tokens in 64 orders would take minutes
        while running.post("/api/explain", {"texts": ["good " * 1_500]}).status != 200:
            assert time.monotonic() < end
    finally:
        running.stop()


def test_the_command_prints_the_same_object(service: Running) -> None:
    command = [sys.executable, "-m", "whence", "explain", TEXTS[1], "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert service.explain(TEXTS[1]) == [json.loads(done.stdout)]


def test_several_texts_are_those_of_one_call(service: Running) -> None:
    found = explain_all(whence.load("sst-bilstm"), TEXTS, target="all")
    assert service.explain(*TEXTS, target="all") == [json.loads(json.dumps(each.to_dict())) for each in found]
    assert [each["target"] for each in service.explain(*TEXTS, target="all")] == LABELS * 3


def test_requests_that_run_in_one_batch_keep_their_own_answers(service: Running) -> None:
    """Relevance is the very same as alone; scores are sums of one matrix product, whose last digit depends on the batch."""
    words = "a fine film but not one that I would ever want to see again".split()
    asked = [{"target": n % 5} | ({"versus": "rest"} if n % 3 == 0 else {}) | {"deleted": [[n % 2]]} for n in range(40)]
    texts = [" ".join(words[: 2 + n % 11]) for n in range(40)]
    before = _batches(service)
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda n: service.explain(texts[n], **asked[n])[0], range(40)))
    assert _batches(service) - before < 40  # some requests did run together
    pipeline = whence.load("sst-bilstm")
    for n, each in enumerate(found):
        target = whence.contrast(n % 5, "rest") if n % 3 == 0 else n % 5
        alone = whence.explain(pipeline, texts[n], target=target, deleted=[n % 2]).to_dict()
        assert each["tokens"] == alone["tokens"] and each["target"] == LABELS[n % 5] and each["deleted"] == [n % 2]
        assert each["relevance"] == pytest.approx(alone["relevance"], rel=1e-4, abs=1e-5)
        assert each["scores"] == pytest.approx(alone["scores"], rel=1e-5, abs=1e-5)
        assert sum(each["relevance"]) + sum(each["absorbed"].values()) == pytest.approx(each["score"], abs=1e-4)


def _batches(service: Running) -> float:
    lines = service.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith('whence_batch_size_count{lane="quick"}'))


def test_one_bad_text_spoils_no_other_request(service: Running) -> None:
    asked = [{"texts": ["a fine film"], "deleted": [[0]]}] * 12 + [{"texts": ["a fine film"], "deleted": [[3]]}] * 4
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda each: service.post("/api/explain", each), asked))
    assert [each.status for each in found] == [200] * 12 + [422] * 4
    assert {each.error for each in found[12:]} == {"deleted[0] holds 3; text 1 has the tokens 0 to 2"}


@pytest.mark.parametrize("name", ["ExplanationsAnswer", "ModelsAnswer", "DeletionAnswer", "SeriesAnswer"])
def test_answers_are_as_described(service: Running, name: str) -> None:
    kind = getattr(responses, name)
    values = [[float(n), 1.0, 2.0] for n in range(30)]
    asked: dict[str, Any] = {
        "ExplanationsAnswer": ("/api/explain", {"texts": TEXTS, "encoders": True, "versus": "rest", "deleted": [[1], [], [0]]}),
        "DeletionAnswer": ("/api/deletion", {"text": TEXTS[0]}),
        "SeriesAnswer": ("/api/series", {"values": values}),
    }
    answer = service.post(*asked[name]) if name in asked else service.get("/api/models")
    assert answer.status == 200
    kind.model_validate_json(answer.body, extra="forbid", strict=True)


def test_models_lists_what_can_be_asked_for(service: Running) -> None:
    found = service.get("/api/models").json
    assert [each["name"] for each in found["models"]] == ["sst-bilstm", "sst-bigru", "sst-char-gru", "river-lstm"]
    assert found["default"] == {"text": "sst-bilstm", "series": "river-lstm"}
    assert found["models"][0]["classes"] == LABELS and found["models"][0]["accuracy"]["five classes"] > 0.5
    assert found["methods"][0]["name"] == "lrp" and found["methods"][0]["settings"]["epsilon"] == whence.LRP().epsilon
    assert found["limits"] == {"texts": 32, "tokens": 2000, "body": 2**20, "steps": 5000}
    for example in found["examples"]:
        service.explain(example["text"])


def test_deletion_follows_relevance(service: Running) -> None:
    found = service.post("/api/deletion", {"text": TEXTS[0], "target": "negative"}).json
    alone = library(TEXTS[0], target="negative")
    assert found["order"] == sorted(range(4), key=lambda n: -alone["relevance"][n])
    assert found["tokens"] == alone["tokens"] and found["target"] == "negative"
    for step in range(5):
        left = whence.explain(whence.load("sst-bilstm"), TEXTS[0], deleted=found["order"][:step])
        assert found["predicted"][step] == left.predicted
        odds = [2.718281828459045**score for score in left.scores.values()]
        assert found["probability"][step] == pytest.approx(odds[1] / sum(odds), abs=1e-5)
    by_chance = found["random"]
    assert by_chance["orders"] == 10 and len(by_chance["mean"]) == 5
    for low, mean, high in zip(by_chance["low"], by_chance["mean"], by_chance["high"], strict=True):
        assert low - 1e-12 <= mean <= high + 1e-12
    assert by_chance["mean"][0] == pytest.approx(found["probability"][0], abs=1e-6)


def test_deletion_of_a_long_text_ends_early_and_of_few_steps_on_demand(service: Running) -> None:
    found = service.post("/api/deletion", {"text": "good film " * 950}).json
    assert len(found["order"]) == 1900 and 2 <= len(found["probability"]) < 20
    assert found["steps"] == len(found["probability"]) - 1 and found["random"]["orders"] == 3
    assert len(service.post("/api/deletion", {"text": "a fine film", "steps": 2}).json["probability"]) == 3
    assert len(service.post("/api/deletion", {"text": "a fine film", "steps": 0}).json["probability"]) == 1
    assert len(service.post("/api/deletion", {"text": "a fine film", "steps": 9}).json["probability"]) == 4


def test_series_are_the_librarys(service: Running) -> None:
    model = whence.load("river-lstm")
    values = [list(map(float, row)) for row in model.example_table().values][:60]
    blank = [{"start": 5, "end": 9}, {"start": 20, "end": 21, "features": [1]}]
    found = service.post("/api/series", {"values": values, "output": "3 days", "blank": blank}).json
    alone = whence.explain_series(model, values, output="3 days", blank=[(5, 9), (20, 21, [1])], check="model")
    assert found == json.loads(json.dumps(alone.to_dict()))
    assert sum(map(sum, found["relevance"])) + sum(found["absorbed"].values()) == pytest.approx(found["score"], abs=1e-6)


@pytest.mark.parametrize(
    ("format", "starts"), [("html", "<!doctype html"), ("svg", "<svg"), ("latex", "\\documentclass"), ("json", "{")]
)
def test_documents_are_attachments(service: Running, format: str, starts: str) -> None:
    answer = service.post("/api/render", {"texts": ["a fine film"], "format": format})
    assert answer.status == 200 and answer.body.decode().lstrip().lower().startswith(starts)
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    alone = explain_all(whence.load("sst-bilstm"), ["a fine film"])
    assert answer.body.decode() == rendered([alone], format)


def test_a_document_of_several_texts_and_all_classes(service: Running) -> None:
    answer = service.post("/api/render", {"texts": TEXTS, "format": "json", "target": "all"})
    assert [json.loads(line)["target"] for line in answer.body.splitlines()] == LABELS * 3
    assert "one explanation" in service.post("/api/render", {"texts": TEXTS, "format": "svg"}).error


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/metrics", "/api/models"])
def test_head_is_get_without_the_body(service: Running, path: str) -> None:
    assert service.ask("HEAD", path)[0] == 200
    assert service.ask("HEAD", path).body == b""


SECRET = "Xylophonquark"
REFUSED: list[tuple[str, object, int, str]] = [
    ("/api/explain", {}, 422, "texts is missing"),
    ("/api/explain", [], 422, "the body: input should be an object"),
    ("/api/explain", {"texts": []}, 422, "texts: .*at least 1"),
    ("/api/explain", {"texts": "a"}, 422, "texts: input should be a valid array"),
    ("/api/explain", {"texts": ["a", 3]}, 422, r"texts\[1\]: input should be a valid string"),
    ("/api/explain", {"texts": ["a", "  \n"]}, 422, "text 2 is empty"),
    ("/api/explain", {"texts": [""], "model": "sst-char-gru"}, 422, "text 1 is empty"),
    ("/api/explain", {"texts": ["a"], SECRET: 1}, 422, "a field that is not known; known are .*texts"),
    ("/api/explain", {"texts": ["a"], "model": SECRET}, 404, "there is no model of that name; of texts there are sst-bilstm"),
    ("/api/explain", {"texts": ["a"], "model": "river-lstm"}, 404, "that model reads no texts"),
    ("/api/explain", {"texts": ["a"], "method": SECRET}, 422, "method: is not known; give one of lrp"),
    ("/api/explain", {"texts": ["a"], "target": SECRET}, 422, "there is no such class; sst-bilstm knows very negative"),
    ("/api/explain", {"texts": ["a"], "target": 5}, 422, "target 5 does not exist: sst-bilstm has 5 classes"),
    ("/api/explain", {"texts": ["a"], "target": -1}, 422, "target: input should be greater than or equal to 0"),
    ("/api/explain", {"texts": ["a"], "target": True}, 422, "target: "),
    ("/api/explain", {"texts": ["a"], "target": "all", "versus": "rest"}, 422, "versus needs one target and another class"),
    ("/api/explain", {"texts": ["a"], "target": 1, "versus": "negative"}, 422, "versus needs one target and another class"),
    ("/api/explain", {"texts": ["a"], "versus": SECRET}, 422, "there is no such class"),
    ("/api/explain", {"texts": ["a"], "deleted": []}, 422, "deleted has 0 lists for 1 texts"),
    ("/api/explain", {"texts": ["a"], "deleted": [[1]]}, 422, r"deleted\[0\] holds 1; text 1 has the tokens 0 to 0"),
    ("/api/explain", {"texts": ["a"], "deleted": [[-1]]}, 422, r"deleted\[0\]\[0\]: input should be greater"),
    ("/api/explain", {"texts": ["a"], "deleted": [["0"]]}, 422, r"deleted\[0\]\[0\]: input should be a valid integer"),
    ("/api/explain", {"texts": ["a"], "epsilon": -1}, 422, "epsilon is -1.0; a stabiliser must be"),
    ("/api/explain", {"texts": ["a"], "epsilon": "x"}, 422, "epsilon: input should be a valid number"),
    ("/api/explain", {"texts": ["a"], "delta": 2}, 422, "delta is 2"),
    ("/api/deletion", {"text": "a", "target": "all"}, 422, "a deletion curve is about one class"),
    ("/api/deletion", {"text": "a", "steps": -1}, 422, "steps: input should be greater than or equal to 0"),
    ("/api/series", {"values": [[1.0, 2.0]]}, 422, "values have 2 columns; river-lstm names 3 features"),
    ("/api/series", {"values": [[1.0, 2.0, 3.0], [1.0]]}, 422, "step 1 has 1 values, step 0 has 3"),
    ("/api/series", {"values": [["a", 2.0, 3.0]]}, 422, r"values\[0\]\[0\]: input should be a valid number"),
    ("/api/series", {"values": [[1, 2, 3]], "output": SECRET}, 422, "there is no such output; river-lstm gives 1 day"),
    ("/api/series", {"values": [[1, 2, 3]], "output": 3}, 422, "there is no such output"),
    ("/api/series", {"values": [[1, 2, 3]], "blank": [{"start": 0, "end": 2}]}, 422, "a blank runs from step 0 to before 2"),
    ("/api/series", {"values": [[1, 2, 3]], "model": "sst-bilstm"}, 404, "that model reads no series"),
    ("/api/render", {"texts": ["a"], "format": "pdf"}, 422, "format: input should be 'html', 'svg', 'latex' or 'json'"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "asked", "status", "says"), REFUSED)
def test_refusals_are_one_sentence_without_the_users_words(
    service: Running, path: str, asked: object, status: int, says: str
) -> None:
    answer = service.post(path, asked)
    assert answer.status == status, answer
    assert re.search(says, answer.error), answer.error
    assert SECRET not in answer.error and "\n" not in answer.error


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "the body is not JSON: EOF"),
        (b"{", 400, "the body is not JSON: EOF"),
        (b'{"texts": ["\\ud800"]}', 400, "the body is not JSON"),
        (b'{"texts": ["\xff"]}', 400, "the body is not JSON"),
        (b'{"texts": ["a"], "epsilon": NaN}', 422, "epsilon: input should be a finite number"),
        (b'{"texts": ["a"], "epsilon": Infinity}', 422, "epsilon: input should be a finite number"),
        (b'{"texts": ["a"], "epsilon": 1e999}', 422, "epsilon: input should be a finite number"),
        (b'{"texts": ["a"], "target": 99999999999999999999999}', 422, "target: "),
        (b'{"texts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "the body is not JSON: recursion limit exceeded"),
    ],
)
def test_what_json_can_and_cannot_be(service: Running, body: bytes, status: int, says: str) -> None:
    answer = service.ask("POST", "/api/explain", body, JSON)
    assert answer.status == status and answer.error.startswith(says)


def test_numbers_of_a_series_are_finite(service: Running) -> None:
    for number in (b"NaN", b"-Infinity", b"1e400"):
        answer = service.ask("POST", "/api/series", b'{"values": [[1, 2, ' + number + b"]]}", JSON)
        assert answer.status == 422 and "finite number" in answer.error


@pytest.mark.parametrize(("count", "status"), [(31, 200), (32, 200), (33, 422)])
def test_how_many_texts(service: Running, count: int, status: int) -> None:
    answer = service.post("/api/explain", {"texts": ["a film"] * count})
    assert answer.status == status
    if status != 200:
        assert "at most 32 items" in answer.error


@pytest.mark.parametrize(("count", "status"), [(1999, 200), (2000, 200), (2001, 422)])
@pytest.mark.parametrize("piece", ["film ", "(a)", "!"])
def test_how_many_tokens(service: Running, piece: str, count: int, status: int) -> None:
    """Tokens, not words: brackets are tokens of their own."""
    per_piece = len(whence.load("sst-bilstm").tokenizer.tokens(piece * 10)) / 10
    text = piece * int(count // per_piece) + "film " * (count - int(count // per_piece * per_piece))
    answer = service.post("/api/explain", {"texts": [text], "method": "gi"})
    assert answer.status == status, answer.body[:200]
    if status == 200:
        assert len(answer.json["explanations"][0]["tokens"]) == count
    else:
        assert answer.error == "text 1 has more than 2000 tokens, the most for one text; split it"


@pytest.mark.parametrize(("count", "status"), [(1999, 200), (2000, 200), (2001, 422)])
def test_how_many_characters_where_they_are_tokens(service: Running, count: int, status: int) -> None:
    assert service.post("/api/explain", {"texts": ["a" * count], "model": "sst-char-gru"}).status == status


@pytest.mark.parametrize(("count", "status"), [(4999, 200), (5000, 200), (5001, 422)])
def test_how_many_steps(service: Running, count: int, status: int) -> None:
    answer = service.post("/api/series", {"values": [[1.0, 2.0, 3.0]] * count, "method": "gi"})
    assert answer.status == status
    if status == 200:
        assert answer.json["steps"] == count


@pytest.mark.parametrize(("more", "status"), [(-1, 200), (0, 200), (1, 413)])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_how_large_a_body(service: Running, more: int, status: int, is_chunked: bool) -> None:
    body = json.dumps({"texts": ["a film"]}).encode()
    body += b" " * (limits.BODY + more - len(body))
    if is_chunked:
        parts = (body[n : n + 50_000] for n in range(0, len(body), 50_000))
        content = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + b"0\r\n\r\n"
        answer = service.ask("POST", "/api/explain", content, JSON | {"Transfer-Encoding": "chunked"})
    else:
        answer = service.ask("POST", "/api/explain", body, JSON)
    assert answer.status == status
    if status != 200:
        assert "more than 1048576 bytes" in answer.error


@pytest.mark.parametrize(("size", "status"), [(limits.BODY - 1, 200), (limits.BODY, 200), (limits.BODY + 1, 413), (2**29, 413)])
def test_a_compressed_body_counts_as_it_is_unpacked(service: Running, size: int, status: int) -> None:
    asked = json.dumps({"texts": ["a film"]}).encode()
    packing = zlib.compressobj(wbits=31)
    body = packing.compress(asked) + b"".join(packing.compress(b" " * n) for n in pieces(size - len(asked))) + packing.flush()
    before = service.memory()
    answer = service.ask("POST", "/api/explain", body, JSON | {"Content-Encoding": "gzip"})
    assert answer.status == status
    assert service.memory() - before < 50e6
    for broken in (body[:-9], body + body):
        answer = service.ask("POST", "/api/explain", broken, JSON | {"Content-Encoding": "gzip"})
        assert answer.status == (413 if status == 413 else 400)


def pieces(size: int) -> list[int]:
    """A size in pieces of at most a MiB."""
    return [2**20] * (size // 2**20) + [size % 2**20]


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({}, 415, "the body must be JSON"),
        ({"Content-Type": "text/plain"}, 415, "the body must be JSON"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "the body must be JSON"),
        (JSON | {"Content-Encoding": "br"}, 415, "the body has a Content-Encoding that is not known here"),
        (JSON | {"Content-Encoding": "gzip"}, 400, "the body is not valid gzip"),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200, ""),
    ],
)
def test_only_plain_json_is_read(service: Running, headers: dict[str, str], status: int, says: str) -> None:
    answer = service.ask("POST", "/api/explain", b'{"texts": ["a film"]}', headers)
    assert answer.status == status
    if says:
        assert answer.error.startswith(says)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/api/explain", 405, "POST"),
        ("POST", "/api/models", 405, "GET, HEAD"),
        ("DELETE", "/", 405, "GET, HEAD"),
        ("OPTIONS", "/api/explain", 405, "POST"),
        ("TRACE", "/healthz", 405, "GET, HEAD"),
        ("GET", "/api/nothing", 404, None),
        ("GET", "/page/../app.py", 404, None),
        ("GET", "/page/%2e%2e/app.py", 404, None),
        ("GET", "/page/..%2fapp.py", 404, None),
        ("GET", "/page//etc/passwd", 404, None),
        ("GET", "/page/%00", 404, None),
        ("GET", "//etc/passwd", 404, None),
        ("GET", "/page/", 404, None),
    ],
)
def test_other_methods_and_paths(service: Running, method: str, path: str, status: int, allow: str | None) -> None:
    answer = service.ask(method, path)
    assert answer.status == status and answer.error
    assert answer.headers.get("allow") == allow


def test_headers_of_every_response(service: Running) -> None:
    for answer in (service.get("/healthz"), service.get("/nothing"), service.post("/api/explain", {"texts": ["a"]})):
        assert answer.headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert "server" not in answer.headers


def test_requests_are_counted(service: Running) -> None:
    def count(line: str) -> float:
        lines = service.get("/metrics").body.decode().splitlines()
        return next((float(each.rsplit(" ", 1)[1]) for each in lines if each.startswith(line)), 0.0)

    good, bad = 'whence_requests_total{route="/api/explain",status="200"}', 'whence_requests_total{route="other",status="404"}'
    before = count(good), count(bad), count('whence_request_seconds_count{route="/api/explain"}')
    service.explain("a film")
    service.get("/made/up")
    assert count(good) == before[0] + 1 and count(bad) == before[1] + 1
    assert count('whence_request_seconds_count{route="/api/explain"}') == before[2] + 1
    assert count('whence_queue_length{lane="quick"}') == 0
    assert b"made" not in service.get("/metrics").body


def test_the_log_has_a_line_per_request_and_no_texts(service: Running) -> None:
    service.explain(f"a {SECRET} film")
    service.get(f"/{SECRET}")
    service.explain("a film")
    assert SECRET not in service.logged()
    time.sleep(0.5)
    last = [json.loads(line) for line in service.logged().splitlines() if '"route"' in line][-1]
    assert last["route"] == "/api/explain" and last["status"] == 200 and last["method"] == "POST" and last["seconds"] > 0


def test_the_files_of_the_page(service: Running) -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert (FOLDER / "index.html") in files
    for path in files:
        answer = service.get(f"/page/{path.relative_to(FOLDER).as_posix()}")
        assert answer.status == 200 and answer.body == path.read_bytes(), path
        assert answer.headers["cache-control"] == "no-cache"
        again = service.get(f"/page/{path.relative_to(FOLDER).as_posix()}", If_None_Match=answer.headers["etag"])
        assert again.status == 304 and again.body == b"" and again.headers["etag"] == answer.headers["etag"]
    for path, name in (("/", "index.html"), ("/docs", "docs.html")):
        answer = service.get(path)
        assert answer.body == (FOLDER / name).read_bytes() and answer.headers["content-type"] == "text/html; charset=utf-8"
        for linked in re.findall(r'(?:src|href)="(/[^"#?]+)', answer.body.decode()):
            assert service.get(linked).status == 200, linked
