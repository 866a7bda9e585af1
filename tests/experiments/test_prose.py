"""The paper's own sentences, found by their lines, and the verdicts on what its text says about their words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest
import torch

import whence
from whence.experiments import prose
from whence.experiments.fig1_fig2_heatmaps import Printed, panels, printed
from whence.experiments.methods import methods_of
from whence.experiments.passes import cost_findings
from whence.experiments.prose import colour_findings, misleading_findings, sensitivity_findings
from whence.experiments.published import LINES, LRP_COLOURS, MISLEADING, REMEMBERED, SA_RED, VERY_POSITIVE
from whence.experiments.test_set import TestSet
from whence.explanation import Explanation
from whence.methods.forward import Forward
from whence.methods.lrp import LRP
from whence.methods.method import Question
from whence.result import Result

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")


def named(number: int) -> list[str]:
    """The words that the paper's text names in a sentence."""
    words = [each.word for each in LRP_COLOURS if each.sentence == number] + [word for n, word in SA_RED if n == number]
    return list(dict.fromkeys(words)) or ["film"]


@pytest.fixture(scope="module")
def pipeline() -> whence.Pipeline:
    return whence.load("sst-bilstm")


def lines_of(pipeline: whence.Pipeline, *, lines: int = 2210, other: dict[int, Any] | None = None) -> TestSet:
    """A test set with the paper's words at the paper's lines; `other` replaces the texts and labels of lines."""
    texts: list[tuple[str, ...]] = [("film",)] * 2210
    labels = [n % 5 for n in range(2210)]
    for number, line in enumerate(LINES, start=1):
        texts[line - 1], labels[line - 1] = tuple(named(number)), 4 if number in VERY_POSITIVE else 0
    for line, (text, label) in (other or {}).items():
        texts[line - 1], labels[line - 1] = text, label
    return TestSet(pipeline, texts[:lines], labels[:lines])


def test_the_papers_sentences_are_found_by_their_lines(pipeline: whence.Pipeline) -> None:
    found = printed(lines_of(pipeline))
    assert found.rows == {number: line - 1 for number, line in enumerate(LINES, start=1)}
    assert not found.missing
    assert len(set(LINES)) == 21
    assert not {each.sentence for each in LRP_COLOURS} & set(REMEMBERED)


def test_a_line_that_is_not_the_papers_is_told(pipeline: whence.Pipeline) -> None:
    other = {LINES[3]: (("film",), 2), LINES[5]: (("disaster",), 0)}
    found = printed(lines_of(pipeline, lines=2192, other=other))
    assert found.missing == {
        4: "line 1417 of the test file is labelled neutral, not very negative",
        6: "the test file has no line 2193",
        8: "the test file has no line 2197",
    }
    lacking = printed(lines_of(pipeline, other=other)).missing[6]
    assert lacking == "line 2193 of the test file does not have the word master"
    assert len(printed(lines_of(pipeline, lines=10)).missing) == 21


def test_the_papers_sentences_come_first_and_are_not_chosen_again(pipeline: whence.Pipeline) -> None:
    further = {line: (tuple(f"the film is {word} and so it is long".split()), 4) for line, word in ((1, "funny"), (2, "dull"))}
    test = lines_of(pipeline, other=further)
    torch.manual_seed(0)
    test.__dict__["scores"] = torch.randn(len(test), 5).double()  # the cache of the property
    own = printed(test)
    shown = panels(test, own)
    assert [(panel.label, panel.is_correct, panel.numbers) for panel in shown[:2]] == [
        (0, None, list(range(1, 19))),
        (4, None, [19, 20, 21]),
    ]
    rows = [n for panel in shown for n in panel.rows]
    assert len(rows) == len(set(rows))
    assert [n for panel in shown[2:] for n in panel.numbers] == [22, 23]
    assert {n for panel in shown[2:] for n in panel.rows} == {0, 1}
    partly = panels(test, Printed({20: own.rows[20]}, {}))
    assert partly[0].numbers == [20]
    assert partly[1].numbers[:1] in ([], [22])


def explained(words: Sequence[str], relevance: Sequence[float], *, target: str = CLASSES[0]) -> Explanation:
    return Explanation(
        " ".join(words), tuple(words), tuple((0, 0) for _ in words), (False,) * len(words), tuple(relevance),
        MappingProxyType(dict.fromkeys(CLASSES, 0.0)), CLASSES[1], target, MappingProxyType({"name": "lrp"}),
    )  # fmt: skip


ONE = Printed({1: 0}, dict.fromkeys(range(2, 22), "not there"))


@pytest.mark.parametrize(
    ("relevance", "holds", "differs"),
    [
        ((0.11, 1.0), True, ""),
        ((0.09, 1.0), False, "here it has next to no colour, 9% of full colour where 10% would count"),
        ((-0.11, 1.0), False, 'here it is blue, not red: with -0.11 it speaks against "very negative"'),
        ((0.0, 0.0), False, "here it has next to no colour, 0% of full colour where 10% would count"),
    ],
)
def test_red_is_a_tenth_of_full_colour(relevance: tuple[float, float], holds: bool, differs: str) -> None:
    found = colour_findings([explained(["waste", "film"], relevance)], ONE)
    assert len(found) == len(LRP_COLOURS)
    first = found[0]
    assert first.claim == 'LRP makes "waste" red in sentence 1'
    assert (first.holds, first.differs) == (holds, differs)
    assert first.statistic == pytest.approx(relevance[0])
    assert [each.holds for each in found[1:]] == [None] * (len(found) - 1)
    assert {each.detail for each in found[1:]} == {"not there", prose.NO_WORD}


@pytest.mark.parametrize(("second", "holds"), [(-0.2, True), (-0.05, False), (0.2, False)])
def test_every_occurrence_has_the_colour(second: float, holds: bool) -> None:
    found = colour_findings([explained(["n't", "n't", "waste"], [-0.5, second, 1.0])], ONE)
    negator = next(each for each in found if each.claim == 'LRP makes "n\'t" blue before "waste" in sentence 1')
    assert negator.holds is holds
    assert negator.statistic == pytest.approx(second)


@pytest.mark.parametrize(("sensitivity", "holds"), [(0.61, True), (0.59, False)])
def test_a_word_that_sa_makes_red_has_more_than_the_average_word(sensitivity: float, holds: bool) -> None:
    words = ["thrilling", "a", "b"]
    sa = explained(words, [sensitivity, 1.0, 0.2])  # the mean of the others is 0.6
    found = sensitivity_findings(
        [sa], [explained(words, [-0.5, 1.0, 0.0])], Printed({5: 0}, dict.fromkeys((6, 11, 19), "gone"))
    )
    assert found[0].holds is holds
    assert found[0].statistic == pytest.approx(sensitivity)
    assert found[0].detail.endswith("by LRP it has -0.50")
    assert [(each.holds, each.detail) for each in found[1:]] == [(None, "gone")] * 3


def test_misleading_words_speak_against_the_label_and_make_it_more_probable_when_deleted(
    pipeline: whence.Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [("a", "must-see", "list"), ("no", "future", "to", "remember"), ("it", "never", "fails")]
    test = TestSet(pipeline, texts, [0, 0, 4])
    own = Printed({number: n for n, number in enumerate(MISLEADING)}, {})
    explanations = test.explained(LRP())
    eleven = misleading_findings(test, explanations, own)[0]
    assert eleven.holds is True
    assert "must-see -" in eleven.detail
    whole, without = (whence.explain(pipeline, texts[:1], deleted=[gone])[0].scores for gone in ([], [1, 2]))
    before, after = (float(torch.tensor(list(scores.values())).softmax(0)[0]) for scores in (whole, without))
    assert eleven.statistic == pytest.approx(after - before, abs=1e-5)
    monkeypatch.setattr(prose, "_probability", lambda test, row, positions: 0.5 if positions else 0.6)
    assert misleading_findings(test, explanations, own)[0].differs == "here the label is not more probable without these words"
    red = [explained(text, [0.5] * len(text)) for text in texts]
    assert misleading_findings(test, red, own)[2].differs == 'here "fails" (+0.50) does not speak against "very negative"'
    right = [explained(text, [-0.5] * len(text), target=CLASSES[1]) for text in texts]
    assert [each.holds for each in misleading_findings(test, right, own)] == [None] * 3
    assert misleading_findings(test, red, Printed({}, dict.fromkeys(MISLEADING, "not there")))[0].detail == "not there"


@dataclass(frozen=True)
class Twice(LRP):
    """LRP that runs the model twice."""

    def relevance(self, forward: Forward, question: Question) -> Result:
        super().relevance(forward, question)
        return super().relevance(forward, question)


@dataclass(frozen=True)
class Noisy(LRP):
    """LRP with a little noise."""

    def relevance(self, forward: Forward, question: Question) -> Result:
        found = super().relevance(forward, question)
        return replace(found, relevance=found.relevance + 1e-3 * torch.rand_like(found.relevance))


def test_one_pass_and_the_same_numbers_again(pipeline: whence.Pipeline) -> None:
    test = TestSet(pipeline, [("a", "fine", "film"), ("a", "dull", "one")], [4, 0])
    methods = methods_of()
    assert [each.holds for each in cost_findings(test, methods)] == [True, True]
    passes, again = cost_findings(test, {**methods, "lrp": Twice()})
    assert (passes.holds, passes.statistic, passes.differs) == (False, 2, "here the model ran 2 times")
    assert again.holds
    passes, again = cost_findings(test, {**methods, "lrp": Noisy()})
    assert passes.holds
    assert not again.holds
    assert not pipeline.module._forward_pre_hooks
