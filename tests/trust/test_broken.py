"""Methods that are broken in known ways: each is flagged, and the method they were made from is not."""

from dataclasses import dataclass, replace

import pytest
import torch

import whence
from tests.trust.subjects import reviews
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.result import Result
from whence.trust.evaluation import Evaluation


@dataclass(frozen=True)
class Broken(Method):
    """LRP with something done to its relevance."""

    name = "broken"
    label = "broken"

    how: str = ""

    def relevance(self, forward: Forward, question: Question) -> Result:
        if self.how == "randomised model":
            forward = replace(forward, model=_randomised(forward.model))
        found = whence.LRP().relevance(forward, question._replace(by_step=False))
        own = found.relevance
        changes = {
            "shuffled": lambda: torch.stack([_shuffled(each, n) for n, each in enumerate(own)]),
            "sign flipped": lambda: -own,
            "another sentence": lambda: own.roll(1, 0),
            "constant": lambda: torch.ones_like(own),
            "nan": lambda: own * float("nan"),
        }
        return replace(found, relevance=changes.get(self.how, lambda: own)(), explained=None)


def _shuffled(relevance: torch.Tensor, seed: int) -> torch.Tensor:
    return relevance[torch.randperm(len(relevance), generator=torch.Generator().manual_seed(seed))]


def _randomised(model: torch.nn.Module) -> torch.nn.Module:
    import copy

    found, generator = copy.deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in found.named_parameters():
            if "embedding" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * weight.std())
    return found


HOW = ("shuffled", "sign flipped", "another sentence", "constant", "randomised model")


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    methods: dict[str, Method | str] = {"as it is": Broken(), **{how: Broken(how) for how in (*HOW, "nan")}}
    return whence.evaluate("sst-bilstm", reviews(), methods=methods, suite=["faithfulness", "sanity"])


@pytest.mark.parametrize("how", HOW)
def test_broken_methods_are_flagged(evaluation: Evaluation, how: str) -> None:
    assert {flag["check"] for flag in evaluation.results["methods"][how]["flags"]} & {"constant", "random", "borrowed"}


def test_a_sound_method_is_not_flagged(evaluation: Evaluation) -> None:
    assert evaluation.results["methods"]["as it is"]["flags"] == []


def test_a_flipped_sign_is_worse_than_chance(evaluation: Evaluation) -> None:
    flags = {flag["check"]: flag["sentence"] for flag in evaluation.results["methods"]["sign flipped"]["flags"]}
    assert "worse than random relevance" in flags["random"] and "is its sign right?" in flags["random"]


def test_what_is_not_finite_is_an_error_and_stops_nothing(evaluation: Evaluation) -> None:
    assert "not finite" in evaluation.results["methods"]["nan"]["error"]
    assert [row["method"] for row in evaluation.table()][-1] == "nan"


def test_constant_relevance_stays_the_same_in_every_model(evaluation: Evaluation) -> None:
    checks = [flag["check"] for flag in evaluation.results["methods"]["constant"]["flags"]]
    assert "constant" in checks and "weights" in checks
    similar = evaluation.results["sanity"]["methods"]
    assert similar["constant"]["weights"][-1]["value"] == 1
    assert abs(similar["as it is"]["weights"][-1]["value"]) < 0.3 < similar["as it is"]["noise"]["value"]
