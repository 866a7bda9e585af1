"""The verdicts on the paper's claims, for made-up numbers just on either side of each threshold."""

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from whence.data.toy import Sums
from whence.experiments import toy
from whence.experiments.fig3_deletion import Curves
from whence.experiments.findings import deletion_findings, negation_finding, polarity_findings, position_findings
from whence.explanation import Explanation
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.result import Result

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
METHODS = ("sa", "lrp", "lrp_cons", "random")


def curves(**after: Sequence[float]) -> Curves:
    """A panel of twenty sentences that all behave alike: accuracies after 0, 1, … 5 deletions."""
    hits = {name: np.tile(np.asarray(after[name], dtype=float), (20, 1)) for name in METHODS}
    return Curves(hits, np.zeros((10, 6)))


def explained(words: Sequence[str], relevance: Sequence[float]) -> Explanation:
    return Explanation(
        " ".join(words), tuple(words), tuple((0, 0) for _ in words), (False,) * len(words), tuple(relevance),
        MappingProxyType(dict.fromkeys(CLASSES, 0.0)), CLASSES[0], CLASSES[0], MappingProxyType({"name": "lrp"}),
    )  # fmt: skip


def test_the_area_is_the_mean_over_one_to_five_deletions() -> None:
    panel = curves(sa=[1, 1, 1, 1, 1, 1], lrp=[1, 0.8, 0.6, 0.4, 0.2, 0], lrp_cons=[1, 0.8, 0.6, 0.4, 0.2, 0], random=[1] * 6)
    first = deletion_findings({"correct": panel})[0]
    assert first.statistic == pytest.approx((0.2 + 0.4 + 0.6 + 0.8 + 1.0) / 5)
    assert first.interval == pytest.approx((0.6, 0.6))
    assert first.holds


def test_no_lead_is_no_steeper_fall() -> None:
    panel = curves(sa=[1] * 6, lrp=[0.5, 1, 1, 1, 1, 1], lrp_cons=[1] * 6, random=[1] * 6)  # a lead before any deletion is none
    first = deletion_findings({"correct": panel})[0]
    assert first.statistic == 0
    assert not first.holds


@pytest.mark.parametrize(("away", "holds"), [(0.19, True), (0.21, False)])
def test_close_is_within_a_fifth_of_the_lead_over_one_to_five_deletions(away: float, holds: bool) -> None:
    panel = curves(sa=[1] * 6, lrp=[1, 0, 0, 0, 0, 0], lrp_cons=[0, *[away] * 5], random=[1] * 6)
    close = deletion_findings({"correct": panel})[5]
    assert close.statistic == pytest.approx(away)
    assert close.holds is holds


def intervals(ends: float) -> NDArray[np.float64]:
    """Twenty sentences with a part of their relevance in the outer four intervals, the rest in the middle."""
    row = np.full(10, (1 - ends) / 6)
    row[[0, 1, 8, 9]] = ends / 4
    return np.tile(row, (20, 1))


@pytest.mark.parametrize(("ends", "holds"), [(0.39, False), (0.41, True)])
def test_the_ends_hold_over_two_fifths(ends: float, holds: bool) -> None:
    found = position_findings({"total": [intervals(ends)] * 5}, CLASSES, "LRP")
    assert found[-1].statistic == pytest.approx(ends)
    assert found[-1].holds is holds


@pytest.mark.parametrize(("second", "holds"), [(0.49, False), (0.51, True)])
def test_most_is_over_a_half(second: float, holds: bool) -> None:
    row = np.repeat([(1 - second) / 5, second / 5], 5)
    found = position_findings({"total": [np.tile(row, (20, 1))] * 5}, CLASSES, "LRP")
    assert found[0].statistic == pytest.approx(second)
    assert found[0].holds is holds


LEXICON = {"good": 2.0, "bad": -2.0}


def negated(distance: int, word: str, relevance: float) -> Explanation:
    words = ["not", *["so"] * (distance - 1), word]
    return explained(words, [relevance, *[0.0] * distance])


@pytest.mark.parametrize(("distance", "is_told"), [(1, True), (3, True), (4, False)])
def test_a_negator_reaches_three_words(distance: int, is_told: bool) -> None:
    sentences = [negated(distance, word, r) for word, r in (("good", 1.0), ("bad", -1.0)) for _ in range(10)]
    found = negation_finding(sentences, CLASSES[0], LEXICON)
    assert found.holds is (True if is_told else None)
    assert found.statistic == (pytest.approx(2.0) if is_told else None)


def test_the_nearest_word_of_the_lexicon_decides() -> None:
    sentences = [explained(["not", near, far], [r, 0.0, 0.0]) for near, far, r in (("good", "bad", 1.0), ("bad", "good", -1.0))]
    assert negation_finding(sentences * 10, CLASSES[0], LEXICON).statistic == pytest.approx(2.0)


def polar(agreeing: int, others: int, unranked: int) -> list[Explanation]:
    """The hundred most relevant words, of which `agreeing` are positive, and further words that are not among them."""
    top = [f"up{n}" for n in range(agreeing)] + [f"down{n}" for n in range(others)]
    words = top + [f"low{n}" for n in range(unranked)]
    return [explained(words, [*[1.0] * len(top), *[-1.0] * unranked])]


@pytest.mark.parametrize(
    ("agreeing", "others", "unranked", "holds"),
    [(80, 20, 0, False), (80, 20, 400, False), (100, 0, 0, False), (30, 70, -400, False), (80, 20, -400, True)],
    ids=["no more than all words", "less than all words", "no more than all", "less than a half", "more than either"],
)
def test_the_words_agree_more_often_than_all_words_and_than_not(agreeing: int, others: int, unranked: int, holds: bool) -> None:
    own = polar(agreeing, others, abs(unranked))
    lexicon = {f"up{n}": 1.0 for n in range(100)} | {f"down{n}": -1.0 for n in range(100)}
    lexicon |= {f"low{n}": 1.0 if unranked > 0 else -1.0 for n in range(abs(unranked))}
    found = polarity_findings({"lrp": [own * 5], "sa": [own * 5]}, CLASSES, lexicon)[0]
    assert found.statistic == pytest.approx(agreeing / 100)
    assert found.holds is holds


class Stated(Method):
    """A method whose relevance of the two marked numbers is their sum times a ratio, which depends on the size of the sum."""

    name = "stated"

    def relevance(self, forward: Forward, question: Question) -> Result:
        (x,) = forward.inputs.tensors
        y = x[..., 1:].sum((1, 2))
        ratio = torch.where(y.abs() <= 0.05, 100.0, torch.where(y.abs() <= 0.06, 3.0, 1.0)).double()
        r = x * ratio[:, None, None]
        return Result(r, y, 0, self)


def test_ratios_are_taken_of_all_sums_but_those_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Sums] = []
    inner = toy._drawn
    monkeypatch.setattr(toy, "_drawn", lambda *given: drawn.append(inner(*given)) or drawn[-1])
    found = toy.faithfulness([nn.Identity()], "add", Stated())
    sizes = torch.cat([each.y for each in drawn]).abs()
    counted = sizes[sizes > 0.05]
    assert len(counted) < len(sizes) and (counted <= 0.06).any()
    ratios = torch.where(counted <= 0.06, 3.0, 1.0)
    assert found.ratio == pytest.approx(float(ratios.mean()), abs=1e-6)
    assert found.spread == pytest.approx(float(ratios.std()), abs=1e-6)
