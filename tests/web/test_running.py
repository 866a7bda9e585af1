"""How the service starts, stops, and whom it answers."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.web.running import JSON, Running

FROM_HERE = {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
FAULTY = ("--model", "tests.web.test_running:faulty_model")
SLOW = {"texts": ["a slow film"]}  # takes `faulty_model` two seconds, whatever the machine


def serve(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """`whence serve` where it ends by itself."""
    program = f"{code}\nfrom whence.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_in_flight_finish(number: int) -> None:
    service = Running(*FAULTY, env=FROM_HERE)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(service.post("/api/explain", SLOW).status))
    thread.start()
    idle = service.connect()
    time.sleep(0.4)
    assert not found
    assert service.stop(number) == 0, service.logged()
    thread.join(30)
    idle.close()
    assert found == [200]
    assert "traceback" not in service.logged()


def test_a_log_that_nobody_reads_holds_up_nothing() -> None:
    command = [sys.executable, "-c", "from whence.cli.main import main; main()", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            for _ in range(1500):  # lines of 110 bytes; a pipe takes 64 KiB
                connection.request("GET", "/healthz")
                assert connection.getresponse().read() == b'{"status": "alive"}'
            connection.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_several_processes_share_the_work_and_their_numbers() -> None:
    service = Running("--workers", "2", *FAULTY, env=FROM_HERE)
    try:
        first = _serving({int(each) for each in _children(service.process.pid)})
        for _ in range(10):
            service.explain("a fine film")
        lines = [service.get("/metrics").body.decode() for _ in range(4)]
        for each in lines:  # whichever process answers, it counts the requests of all
            assert 'whence_requests_total{route="/api/explain",status="200"} 10.0' in each
        os.kill(first[0], signal.SIGKILL)
        time.sleep(0.3)
        assert len(service.explain("a fine film")) == 1  # the other one answers
        end = time.monotonic() + 30
        while len(_serving({int(each) for each in _children(service.process.pid)})) < 2:
            assert time.monotonic() < end, service.logged()
            time.sleep(0.2)
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(service.post("/api/explain", SLOW).status))
        thread.start()
        time.sleep(0.6)
    finally:
        code = service.stop()
    thread.join(30)
    assert code == 0 and found == [200], service.logged()
    assert not any(Path(f"/proc/{each}").exists() for each in first)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _serving(pids: set[int]) -> list[int]:
    """Those that are not multiprocessing's resource tracker."""
    return [pid for pid in pids if "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text()]


def test_workers_that_stop_take_no_new_clients_and_answer_the_others() -> None:
    service = Running("--workers", "2", *FAULTY, env=FROM_HERE)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(service.post("/api/explain", SLOW).status))
    thread.start()
    time.sleep(0.6)
    assert not found
    service.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 20
    with contextlib.suppress(ConnectionRefusedError):
        while service.process.poll() is None:  # until the workers have heard of it
            service.connect().close()
            time.sleep(0.05)
            assert time.monotonic() < end, "new clients are taken"
    assert service.process.wait(60) == 0
    service.stop()
    thread.join(30)
    assert found == [200], service.logged()


def test_workers_end_when_their_parent_is_killed() -> None:
    service = Running("--workers", "2")
    children = _serving({int(each) for each in _children(service.process.pid)})
    service.stop(signal.SIGKILL)
    end = time.monotonic() + 20
    while any(Path(f"/proc/{each}").exists() for each in children):
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = serve("--port", str(taken.getsockname()[1]))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "Address already in use; give another --port or --host" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_model_that_is_not_there(workers: str) -> None:
    done = serve("--port", "0", "--workers", workers, "--model", "nothing")
    assert (
        done.returncode == 2 and done.stderr.startswith("whence: there is no model 'nothing'") and done.stderr.count("\n") == 1
    )


def test_a_host_that_is_not_there() -> None:
    done = serve("--port", "0", "--host", "no.such.host.invalid")
    assert done.returncode == 1 and "cannot listen at no.such.host.invalid" in done.stderr


def test_without_the_packages_of_the_extra() -> None:
    hide = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n, *a: None if n == 'uvicorn' else find(n, *a)"
    done = serve("--port", "0", code=hide)
    assert done.returncode == 1
    assert done.stderr == "whence: whence serve needs uvicorn; run: pip install 'whence[web]'\n"


def test_the_help_is_quick_and_needs_no_extra() -> None:
    after = (
        "import atexit, sys; atexit.register(lambda: print([n for n in ('torch', 'uvicorn', 'starlette') if n in sys.modules]))"
    )
    done = serve("--help", code=after)
    assert done.stdout.splitlines()[-1] == "[]" and "--allow-host" in done.stdout


@pytest.fixture(scope="module")
def guarded() -> "object":
    """A service with a token, a name, a model of one's own, and texts in its log."""
    folder = Path(__file__).parents[2] / "src" / "whence" / "models" / "bundle" / "sst-bigru"
    running = Running(
        "--allow-host", "Whence.example", "--model", str(folder), "--model", "tests.web.test_running:nan_model", "--log-texts",
        env={"WHENCE_TOKEN": " s3cret\n", "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    yield running
    assert running.stop() == 0, running.logged()


def nan_model() -> object:
    """A model whose scores are not numbers for unknown words."""
    import torch

    import whence

    pipeline = whence.load("sst-bilstm")
    module = pipeline.module

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            scores = self.inner(ids, lengths)
            return torch.where((ids == 0).any(1, keepdim=True), torch.full_like(scores, torch.nan), scores)

    return whence.Pipeline(Odd(), pipeline.tokenizer, pipeline.vocabulary, pipeline.classes, "odd")


def faulty_model() -> object:
    """A model that is slow, sleeps, exits or fails with the text's ids in its message, each at a word of its own."""
    import torch

    import whence

    pipeline = whence.load("sst-bilstm")
    module = pipeline.module
    slow, sleep, leave, fail = pipeline.vocabulary.ids(["slow", "sleep", "leave", "fail"])

    class Faulty(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            if (ids == slow).any():
                time.sleep(2)
            if (ids == sleep).any():
                time.sleep(50)
            if (ids == leave).any():
                sys.exit(3)
            if (ids == fail).any():
                raise ValueError("a secret text")
            return self.inner(ids, lengths)

    return whence.Pipeline(Faulty(), pipeline.tokenizer, pipeline.vocabulary, pipeline.classes, "faulty")


def failing_series() -> object:
    """A model of series that fails with numbers of the series in its message."""
    import torch

    class Failing(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            raise ValueError(f"a secret number {values.tolist()}")

    return Failing()


def test_models_that_fail_exit_or_sleep() -> None:
    service = Running(
        *FAULTY, "--model", "tests.web.test_running:failing_series", env=FROM_HERE,
        before="from whence.web import limits as l; l.WAIT_SECONDS = 2.0",
    )  # fmt: skip
    failed = "the service failed at this request; its log says why"
    for word in ("leave", "fail"):
        answer = service.post("/api/explain", {"texts": [word]})
        assert (answer.status, answer.error) == (503, failed)
    answer = service.post("/api/series", {"values": [[17.25]]})
    assert (answer.status, answer.error) == (503, failed)
    assert service.explain("a fine film")
    assert service.post("/api/explain", {"texts": ["sleep"]}).status == 503
    start = time.monotonic()
    assert service.stop() == 0, service.logged()
    assert time.monotonic() - start < 20  # the model still sleeps
    log = service.logged()
    assert "secret" not in log and "17.25" not in log
    assert "ValueError" in log and "SystemExit" in log and "test_running.py" in log


BEARER = {"Authorization": "Bearer s3cret"}
TEXT = {"texts": ["a film"]}


def test_the_token_is_needed_for_the_api_alone(guarded: Running) -> None:
    assert [guarded.get(path).status for path in ("/healthz", "/readyz", "/openapi.json", "/api/models", "/metrics")] == [
        200, 200, 200, 401, 401,
    ]  # fmt: skip
    assert guarded.ask("GET", "/api/models", headers=BEARER).status == 200
    assert guarded.post("/api/explain", TEXT, **BEARER).status == 200
    assert guarded.post("/api/explain", TEXT, Authorization="bearer s3cret").status == 200
    for wrong in ("Bearer s3cre", "Bearer s3crett", "Bearer", "Basic s3cret", "s3cret", "Bearer \xe9"):
        answer = guarded.post("/api/explain", TEXT, Authorization=wrong)
        assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert answer.error == "this service needs a token; send it as Authorization: Bearer TOKEN"
    assert guarded.post("/api/explain?token=s3cret", TEXT).status == 401
    assert "s3cret" not in guarded.logged()


def test_a_model_of_ones_own_is_the_default(guarded: Running) -> None:
    found = guarded.ask("GET", "/api/models", headers=BEARER).json
    assert [each["name"] for each in found["models"]] == ["sst-bigru", "odd", "sst-bilstm", "sst-char-gru", "river-lstm"]
    assert found["default"]["text"] == "sst-bigru"
    assert guarded.post("/api/explain", TEXT, **BEARER).json["explanations"][0]["model"] == "sst-bigru"


def test_a_model_that_gives_nan(guarded: Running) -> None:
    assert guarded.post("/api/explain", {**TEXT, "model": "odd"}, **BEARER).status == 200
    answer = guarded.post("/api/explain", {"texts": ["xyzzyx film"], "model": "odd"}, **BEARER)
    assert answer.status == 422 and "not finite" in answer.error
    answer = guarded.post("/api/deletion", {"text": "xyzzyx film", "model": "odd"}, **BEARER)
    assert answer.status == 422 and "not finite" in answer.error


def test_texts_are_in_the_log_when_asked_for(guarded: Running) -> None:
    guarded.post("/api/explain", {"texts": ["a quixotic film"]}, **BEARER)
    time.sleep(0.4)
    assert '"texts": ["a quixotic film"]' in guarded.logged()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:1234", 200), ("127.0.0.1:80", 200), ("[::1]:8000", 200), ("whence.example", 200),
        ("whence.example.:443", 200), ("evil.example", 421), ("localhost.evil.example", 421), ("192.168.0.7", 421),
        ("evil.example@localhost", 400), ("localhost:80:90", 400), ("", 400), ("[::1", 400),
    ],
)  # fmt: skip
def test_the_host_that_is_asked_for(guarded: Running, host: str, status: int) -> None:
    assert guarded.get("/healthz", Host=host).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost:8000", "Host": "localhost:8000"}, 200),
        ({"Origin": "https://whence.example", "Host": "localhost:8000"}, 200),
        ({"Origin": "http://localhost:3000", "Host": "localhost:8000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_may_not_ask(guarded: Running, headers: dict[str, str], status: int) -> None:
    answer = guarded.ask("POST", "/api/explain", json.dumps(TEXT).encode(), JSON | BEARER | headers)
    assert answer.status == status
    if status != 200:
        assert answer.error.startswith("the request comes from a page of another site")
