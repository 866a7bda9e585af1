"""The suite as a whole: names, progress, methods that cannot answer, and no trace in the global random numbers."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from whence import LRP, GradientXInput, InputError, NoRuleError, Result
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.trust.ground_truth import counter
from whence.trust.ground_truth.suite import ground_truth, tasks

BUILT = ["counter", "copy"]


@dataclass(frozen=True)
class Refusing(Method):
    """A method without a rule for anything."""

    name = "refusing"

    def relevance(self, forward: Forward, question: Question) -> Result:
        raise NoRuleError("no rule for this model")


@dataclass(frozen=True)
class NotANumber(Method):
    """A method whose relevance is NaN."""

    name = "nan"

    def relevance(self, forward: Forward, question: Question) -> Result:
        return Result(torch.full_like(forward.inputs.tensors[0], math.nan), torch.zeros(32), None, self)


def test_tasks_are_named_and_explained_in_a_sentence() -> None:
    names = [task.name for task in tasks()]
    assert len(set(names)) == len(names) == 11
    assert all(len(task.title.split()) > 5 for task in tasks())


def test_only_the_named_tasks_run_and_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    found = ground_truth(
        {"lrp": LRP(), "gi": GradientXInput()}, names=BUILT, progress=lambda *step: told.append((step[0], step[1], step[2]))
    )
    assert list(found) == BUILT and all(list(each) == ["lrp", "gi"] for each in found.values())
    assert told == [("counter: lrp", 1, 4), ("counter: gi", 2, 4), ("copy: lrp", 3, 4), ("copy: gi", 4, 4)]


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InputError, match="there is no task 'count'; the tasks are add, subtract, counter"):
        ground_truth({}, names=["count"])


@pytest.mark.parametrize(
    ("method", "reason"),
    [(Refusing(), "it gave no answer: no rule for this model"), (NotANumber(), "its relevance is not finite")],
)
def test_a_method_without_an_answer_stops_nothing(method: Method, reason: str) -> None:
    found = ground_truth({"wrong": method, "lrp": LRP()}, names=BUILT)
    for outcomes in found.values():
        assert math.isnan(outcomes["wrong"].value) and not outcomes["wrong"].passes
        assert outcomes["wrong"].reason == reason
        assert outcomes["lrp"].passes


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(NotImplementedError, match="does not implement relevance"):
        ground_truth({"empty": Method()}, names=["counter"])


def numpy_state() -> str:
    return repr(np.random.get_state(legacy=False))  # noqa: NPY002


def test_runs_repeat_and_leave_no_trace() -> None:
    counter._counted.cache_clear()
    before, numbers, threads = torch.get_rng_state(), numpy_state(), torch.get_num_threads()
    first = ground_truth({"lrp": LRP()}, names=BUILT)
    assert torch.equal(torch.get_rng_state(), before)
    assert numpy_state() == numbers and torch.get_num_threads() == threads
    counter._counted.cache_clear()
    torch.rand(3)
    with torch.no_grad():
        assert ground_truth({"lrp": LRP()}, names=BUILT) == first
