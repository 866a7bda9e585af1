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
from whence.experiments.findings import (
    conserving_findings,
    deletion_findings,
    extreme_findings,
    negation_finding,
    polarity_findings,
    position_findings,
    shape_findings,
)
from whence.experiments.stop_words import is_stop_word
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


@pytest.mark.parametrize(("lead", "holds"), [(0.01, True), (0.0, False), (-0.01, False)])
def test_lrp_is_better_than_lrp_cons_by_any_lead(lead: float, holds: bool) -> None:
    right = curves(sa=[1] * 6, lrp=[1, *[0.5] * 5], lrp_cons=[1, *[0.5 + lead] * 5], random=[1] * 6)
    wrong = curves(sa=[0] * 6, lrp=[0, *[0.5] * 5], lrp_cons=[0, *[0.5 - lead] * 5], random=[0] * 6)
    found = conserving_findings({"correct": right, "wrong": wrong}, is_same=False)
    assert [each.holds for each in found] == [holds, holds]
    assert [each.statistic for each in found] == pytest.approx([lead, lead])
    told = {0.01: "", 0.0: "here the two curves cannot be told apart", -0.01: "here it is the other way round"}
    assert {each.differs for each in found} == {told[lead]}
    same = conserving_findings({"correct": right, "wrong": wrong}, is_same=True)
    assert [each.holds for each in same] == [None, None]


def shaped(*row: float) -> list[NDArray[np.float64]]:
    """Twenty sentences with this relevance by interval, for every class."""
    return [np.tile(np.asarray(row, dtype=float), (20, 1))] * 5


EVEN = (1.0,) * 10


@pytest.mark.parametrize(("more", "holds"), [(0.19, True), (0.21, False)])
def test_almost_symmetric_is_within_a_tenth_of_the_mirror_image(more: float, holds: bool) -> None:
    row = [0.5 + more / 2, 0, 0, 0, 0, 0, 0, 0, 0, 0.5 - more / 2]  # a part `more` differs
    assert shape_findings({"total": shaped(*row)}, CLASSES, "LRP")[0].statistic == pytest.approx(more)
    found = shape_findings({"total": shaped(*(0.5 * r + 0.05 for r in row))}, CLASSES, "LRP")[0]
    assert found.statistic == pytest.approx(more / 2)
    assert found.holds is holds


@pytest.mark.parametrize(("last", "holds"), [(0.21, True), (0.19, False)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_last_steps_of_both_encoders_hold_over_a_fifth(side: str, last: float, holds: bool) -> None:
    row = [*[(1 - last) / 8] * 8, last / 2, last / 2]
    most = [0.0] * 8 + [0.5, 0.5]
    left, right = (row, most[::-1]) if side == "left" else (most, row[::-1])
    found = shape_findings({"total": shaped(*EVEN), "left": shaped(*left), "right": shaped(*right)}, CLASSES, "SA")[1]
    assert found.statistic == pytest.approx(last)
    assert found.holds is holds
    assert (f"the {side} encoder has 19.0%" in found.differs) is not holds


def test_smooth_is_little_change_of_slope() -> None:
    straight, jagged = shaped(*range(1, 11)), shaped(1, 2, 1, 2, 1, 2, 1, 2, 1, 2)
    total = shaped(*EVEN)
    smooth = shape_findings({"total": total, "left": straight, "right": jagged}, CLASSES, "LRP")[2]
    assert smooth.holds
    assert smooth.statistic == pytest.approx(2 / 15)  # changes of slope by 2 out of a sum of 15
    rough = shape_findings({"total": total, "left": jagged, "right": straight}, CLASSES, "LRP")[2]
    assert (rough.holds, rough.differs) == (False, "here the right curve is the smoother one")
    alone = shape_findings({"total": total}, CLASSES, "LRP")
    assert [each.holds for each in alone] == [True, None, None]
    assert [each.holds for each in shape_findings({}, CLASSES, "LRP")] == [None] * 3


def extremes(most: Sequence[str], least: Sequence[str], middle: Sequence[str] = ()) -> list[list[Explanation]]:
    """A sentence whose words are relevant in this order, most and least by turns far from the middle."""
    words = [*most, *middle, *least]
    relevance = [*[2.0] * len(most), *[1.0] * len(middle), *[0.0] * len(least)]
    return [[explained(words, relevance)] * 5]


MANY = {f"up{n}": 1.0 for n in range(200)} | {f"down{n}": -1.0 for n in range(200)}
UP, DOWN = [f"up{n}" for n in range(200)], [f"down{n}" for n in range(200)]


@pytest.mark.parametrize(("negative", "holds"), [(70, True), (50, False), (30, False)])
def test_the_least_relevant_words_are_negative_more_often_than_not(negative: int, holds: bool) -> None:
    own = extremes(UP[:100], [*UP[100 : 200 - negative], *DOWN[:negative]])
    found = extreme_findings({"lrp": own, "sa": own}, CLASSES, MANY)[0]
    assert found.statistic == pytest.approx(negative / 100)
    assert found.holds is holds


@pytest.mark.parametrize(("stops", "holds"), [(8, True), (7, False)])
def test_eight_of_ten_stop_words(stops: int, holds: bool) -> None:
    words = ["the", ",", "'s", "into", "-lrb-", "which", "n't", "had", "of", "a"][:stops]
    own = extremes(UP[:20], [*words, *DOWN[: 10 - stops]])
    found = extreme_findings({"lrp": own, "sa": own}, CLASSES, MANY)[1]
    assert (found.statistic, found.holds) == (stops, holds)
    assert found.differs == ("" if holds else "here 3 of the ten are not: down2, down1, down0")
    few = extremes(["film"], ["the"])
    assert [each.holds for each in extreme_findings({"lrp": few, "sa": few}, CLASSES, MANY)] == [None] * 3


@pytest.mark.parametrize(("positive", "holds"), [(50, True), (80, False), (20, False)])
def test_unrelated_words_are_positive_as_often_as_others(positive: int, holds: bool) -> None:
    top = [*UP[:positive], *DOWN[: 100 - positive]]
    rest = [*UP[positive : 100 + positive // 50], *DOWN[100 - positive : 100]]
    own = extremes(top, rest)
    found = extreme_findings({"lrp": own, "sa": own}, CLASSES, MANY)[2]
    assert found.statistic == pytest.approx(positive / 100)
    assert found.holds is holds
    assert found.differs.startswith(
        {50: "", 80: "here they are positive more often", 20: "here they are positive less often"}[positive]
    )


def test_stop_words_have_no_meaning_of_their_own() -> None:
    assert all(map(is_stop_word, "the of 's n't -rrb- -- ... , which".split()))
    assert not any(map(is_stop_word, "film funny movie 1950 waste".split()))


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
