"""What `whence bench` measures: ratios of times, how time and memory grow, and all of SST's test set."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import whence
from whence import relevance
from whence.cli.bench import CALL_COLUMNS, _drawn
from whence.speed.calls import CALLS, Call, measure_call, measure_threads
from whence.speed.growth import growth, memory
from whence.speed.memory import peak
from whence.speed.ratios import Case, speed
from whence.speed.sst import whole_test_set


def test_ratios_of_every_case() -> None:
    found: Any = speed(repeats=3, cases=[Case("lstm", 3, 4, 5), Case("gru", 1, 1, 3)], calls=[])
    for case in found["cases"]:
        assert case["path"] in ("reference", "plain", "compiled")
        for key in ("lrp_over_forward", "lrp_over_gradient", "all_classes_over_one"):
            assert case[key] > 0
            assert len(case[f"{key}_spread"]) == 2
    assert found["cases"][0]["oracle_over_lrp"] > 1
    assert found["output_steps"]["loop_over_all"] > 0


@pytest.mark.parametrize("call", [*CALLS["cpu"], *CALLS["cuda"]], ids=lambda call: call.name)
def test_every_whole_call(call: Call) -> None:
    small = call._replace(batch=2, steps=4)  # the models are as large as they are
    found: Any = measure_call(small, device="cpu", repeats=3)
    for key in CALL_COLUMNS.values():
        assert found[key] > 0 and len(found[f"{key}_spread"]) == 2
    assert found["memory_over_gradient"] > 0
    model = call.model().double().eval()
    relevance(model, torch.randn(2, 4, call.size, dtype=torch.float64), target=0).check(1e-10)


def test_one_thread_and_two() -> None:
    before = torch.get_num_threads()
    try:
        (found,) = measure_threads([CALLS["cpu"][1]._replace(batch=2)], repeats=2)
    finally:
        torch.set_num_threads(before)
    assert found.name == CALLS["cpu"][1].name and found.one_over_two > 0


def test_the_peak_is_that_of_the_tensors_that_live_at_once() -> None:
    def run() -> None:
        one = torch.ones(2**20)
        two = one + 1
        del one
        torch.ones(2**18).add_(two[: 2**18])

    run()
    assert 2 * 2**22 <= peak(run, "cpu") < 2 * 2**22 + 2**10  # small tensors hold the numbers 1


def test_how_time_and_memory_grow() -> None:
    found = growth("cpu", repeats=1, growing={"steps": [Case("lstm", 1, n, 3) for n in (1, 2, 4)]})
    assert found["steps"]["values"] == [1, 2, 4] and len(found["steps"]["ms"]) == 3
    assert _drawn(found).startswith(b"\x89PNG")
    assert 0.05 < memory(steps=3)["peak_gib"] < 4


def test_the_whole_test_set(sst: Path) -> None:
    whole: Any = whole_test_set(sst, repeats=2, sampled=3)
    assert whole["sentences"] == 2210 and whole["lrp_over_forward"] > 0


def oracle_measured(tests: Path, *, already: str = "") -> str:
    """What a new process, away from the checkout, measures with the tests in a folder."""
    code = (
        f"import sys; from pathlib import Path; {already}\n"
        "import torch; from torch import nn; from whence.speed import oracle\n"
        f"oracle.TESTS, before = Path({str(tests)!r}), list(sys.path)\n"
        "layer = nn.LSTM(2, 2, bidirectional=True, batch_first=True)\n"
        "found = oracle.oracle_seconds(layer, torch.ones(5, 4), [torch.ones(3, 2)])\n"
        "assert sys.path == before\n"
        "print('nothing' if found is None else 'time' if found > 0 else found)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(whence.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_oracle_is_found_in_a_checkout_without_a_change_of_the_path(tmp_path: Path) -> None:
    ours = Path(__file__).parents[1]
    assert oracle_measured(ours) == "time"
    assert oracle_measured(tmp_path) == "nothing"  # an installed whence has no tests
    foreign = "import types; sys.modules['tests'] = types.ModuleType('tests')"
    assert oracle_measured(ours, already=foreign) == "nothing"
