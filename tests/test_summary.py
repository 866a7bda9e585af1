"""Summaries: what is chosen within the budget, what is shown, and what is refused."""

import json
import random
from html.parser import HTMLParser
from itertools import combinations
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whence
from whence import InputError, Pipeline, Summary, TargetError
from whence._summary import LONGEST, LONGEST_SENTENCE, Words, _counts, _knapsack, _runs, _sentences, _windows
from whence.render import summaries as render

DULL = ["We took the bus.", "It was a day in May.", "The hotel stood by the sea, and we ate fish.", "Two hours went by."]
JOY = "The film is a moving, brilliant joy."
BAD = "The second one is an awful, boring mess."
TEXT = " ".join([*DULL[:3], JOY, DULL[3]])


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return whence.load("sst-bilstm")


@pytest.fixture(scope="module")
def summary(pipeline: Pipeline) -> Summary:
    return whence.summarize(pipeline, TEXT)


def test_it_keeps_the_sentence_that_carries_the_decision(pipeline: Pipeline, summary: Summary) -> None:
    assert summary.pieces == (JOY,) and summary.text == JOY and summary.unit == "sentence"
    assert summary.spans == ((TEXT.index(JOY), TEXT.index(JOY) + len(JOY)),)
    assert (summary.words, summary.document_words) == (9, 38)
    assert [part.is_kept for part in summary.parts] == [False, False, False, True, False]
    assert summary.keeps_decision and summary.whole.predicted == summary.target == "very positive"
    for text, reading in ((TEXT, summary.whole), (JOY, summary.alone)):
        explanation = whence.explain(pipeline, text)
        assert (reading.predicted, reading.scores) == (explanation.predicted, pytest.approx(explanation.scores, abs=1e-5))


def test_the_share_is_that_of_the_relevance_for_the_target(pipeline: Pipeline, summary: Summary) -> None:
    alone = [
        whence.explain(pipeline, each, target="very positive", method=whence.LRP(delta=1.0))
        for each in (*DULL[:3], JOY, DULL[3])
    ]
    values = [sum(each.relevance) for each in alone]
    assert [part.relevance for part in summary.parts] == pytest.approx(values, abs=1e-5)
    assert summary.share == pytest.approx(values[3] / sum(max(value, 0) for value in values))


def test_the_order_of_the_document_and_its_paragraphs_are_kept(pipeline: Pipeline) -> None:
    other = "What a wonderful, touching story!"
    found = whence.summarize(pipeline, f"{JOY} {DULL[0]}\n\n{DULL[1]} {other}\n{DULL[2]} {DULL[3]}", 0.45)
    assert found.text == f"{JOY}\n\n{other}"
    assert render.shortened(found) == f"{JOY} …\n\n… {other} …"
    together = whence.summarize(pipeline, f"{DULL[0]} {JOY}\n{other} {DULL[1]} {DULL[2]}", 0.5)
    assert together.pieces == (f"{JOY}\n{other}",)


def test_another_target_gets_other_sentences(pipeline: Pipeline) -> None:
    text = " ".join([JOY, JOY, *DULL[:2], BAD, *DULL[2:]])
    assert whence.summarize(pipeline, text, 0.35).pieces == (f"{JOY} {JOY}",)
    found = whence.summarize(pipeline, text, 0.2, target="very negative")
    assert found.pieces == (BAD,) and not found.keeps_decision
    assert found.question == "very negative" and found.alone.predicted == "very negative"


@pytest.mark.parametrize("by", ["sentence", "document"])
@pytest.mark.parametrize("unit", ["sentence", "span"])
@pytest.mark.parametrize("name", ["sst-bilstm", "sst-char-gru"])
def test_the_budget_is_a_limit(name: str, unit: Any, by: Any) -> None:
    loaded = whence.load(name)
    for budget in (0.01, 0.15, 0.4, 1):
        found = whence.summarize(loaded, f"{TEXT} {BAD}", budget, unit=unit, by=by)
        assert 1 <= found.words <= max(1, budget * found.document_words)
        assert found.words == sum(part.words for part in found.parts if part.is_kept) and found.text
        assert found.unit == unit or budget < 0.4  # then no sentence for the target fits
        assert all(piece in f"{TEXT} {BAD}" for piece in found.pieces)


def test_the_whole_budget_always_keeps_the_decision(pipeline: Pipeline) -> None:
    chance = random.Random(0)
    for _ in range(10):
        text = " ".join(chance.sample([JOY, BAD, *DULL], 5))
        assert whence.summarize(pipeline, text, 1.0).keeps_decision


def test_a_sentence_that_is_too_long_is_cut_to_spans(pipeline: Pipeline) -> None:
    text = f"We went there, as I said, and the film is a moving, brilliant joy, and then we took the bus home. {DULL[0]}"
    found = whence.summarize(pipeline, text, 0.25)
    assert found.unit == "span" and "brilliant" in found.text and found.words <= 0.25 * found.document_words
    (one,) = whence.summarize(pipeline, "joy", 0.1).pieces
    assert one == "joy"


def test_gaps_between_spans_are_closed_while_there_is_room() -> None:
    chosen = [range(20, 24), range(4, 8), range(2)]
    assert _runs(chosen, 12, gap=2) == [range(8), range(20, 24)]
    assert _runs(chosen, 11, gap=2) == [range(2), range(4, 8), range(20, 24)]
    assert _runs([range(2, 4), range(2)], 4, gap=0) == [range(4)]


def test_spans_do_not_overlap_and_stay_in_their_sentences() -> None:
    relevance = [0.0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 4, 0, 3]
    words = Words([(n, n + 1) for n in range(16)], relevance, [range(12), range(12, 16)])
    chosen, spare = _windows(words, 11)
    assert chosen == [range(12, 16), range(7)] or chosen == [range(7), range(12, 16)]
    assert spare == []


def test_without_a_sentence_for_the_target_the_least_bad_is_kept() -> None:
    words = Words([(n, n + 1) for n in range(6)], [-1.0, -1, -3, -3, -2, -2], [range(2), range(2, 4), range(4, 6)])
    assert _sentences(words, 4) == ([range(2)], [range(4, 6)])
    assert _sentences(words, 1) == ([], [])  # none fits
    assert _sentences(words._replace(relevance=[-1.0, -1, 9, 9, 9, 9], sentences=[range(2), range(2, 6)]), 3) == ([], [])


THINGS = st.lists(st.tuples(st.floats(0.01, 10), st.integers(1, 9)), max_size=8)


@given(things=THINGS, most=st.integers(1, 30))
def test_the_choice_is_the_best_of_all(things: list[tuple[float, int]], most: int) -> None:
    values, sizes = [value for value, _ in things], [size for _, size in things]
    found = _knapsack(values, sizes, most)
    assert sum(sizes[n] for n in found) <= most and len({*found}) == len(found)
    every = [each for count in range(len(things) + 1) for each in combinations(range(len(things)), count)]
    best = max(sum(values[n] for n in each) for each in every if sum(sizes[n] for n in each) <= most)
    assert sum(values[n] for n in found) == pytest.approx(best)


def test_a_choice_among_very_many_is_by_relevance_per_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence._summary.EXACT", 0)
    assert sorted(_knapsack([3.0, 1, 8, 2], [3, 1, 4, 1], 6)) == [1, 2, 3]


def test_not_too_many_smaller_summaries_are_tried() -> None:
    assert _counts(0) == [] and _counts(3) == [1, 2, 3]
    assert len(_counts(1000)) == 16 and _counts(1000)[0] == 1 and _counts(1000)[-1] == 1000


def test_fewer_sentences_keep_a_decision_that_all_would_change(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    nice = "I like it. Funny and warm. We took the bus. It is great. It is fine. It is nice."
    text = f"{nice} {DULL[2]} {DULL[1]} {DULL[3]}"
    target = whence.contrast("predicted", "rest")
    found = whence.summarize(pipeline, text, 0.5, target=target)
    monkeypatch.setattr("whence._summary.TRIES", 0)
    first = whence.summarize(pipeline, text, 0.5, target=target)
    assert found.keeps_decision and not first.keeps_decision
    assert {part for part in found.parts if part.is_kept} < {part for part in first.parts if part.is_kept}


def test_versus_the_rest_keeps_a_decision_that_the_class_alone_does_not(pipeline: Pipeline) -> None:
    text = f"It is a good film. {DULL[0]} It is dull. It is fine. {DULL[3]} {DULL[1]} {DULL[2]} Funny and warm."
    assert not whence.summarize(pipeline, text, 0.5, target="predicted").keeps_decision
    found = whence.summarize(pipeline, text, 0.5)
    assert found.keeps_decision and found.question == "positive versus the rest" and found.share > 0


def test_nothing_is_kept_only_to_keep_the_decision(pipeline: Pipeline) -> None:
    text = f"{DULL[0]} {DULL[1]} {JOY}\n\n{DULL[3]} {DULL[2]} What a wonderful, touching story! The waiter came from France."
    text += " <script>alert(1)</script> was on the wall."
    found = whence.summarize(pipeline, text, 0.45)
    assert (found.whole.predicted, found.alone.predicted) == ("positive", "very positive")
    assert JOY in found.text and found.question == "positive" and found.share > 0.5
    versus = whence.summarize(pipeline, text, 0.45, target=whence.contrast("predicted", "rest"))
    assert versus.keeps_decision and versus.share == 0  # by sentences none of which speaks for it


def test_a_very_long_sentence_is_taken_in_parts(pipeline: Pipeline) -> None:
    text = " ".join(["word"] * 300 + ["a brilliant joy"] + ["word"] * 300)
    for by in ("sentence", "document"):
        found = whence.summarize(pipeline, text, 0.4, by=cast(Any, by), target="very positive")
        assert [part.words for part in found.parts][:-1] == [LONGEST_SENTENCE] * 3
    assert len(found.parts) == 4


class Shown(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text = set[str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_text_is_only_shown(pipeline: Pipeline) -> None:
    hostile = f"\ufeff{JOY}\x1b[31m <script>alert(1)</script> & \x07\u202e. {TEXT}"
    for unit in ("sentence", "span"):
        found = whence.summarize(pipeline, hostile, 0.9, unit=cast(Any, unit))
        for page in (render.page(found), render.notebook(found)):
            shown = Shown(page)
            assert "script" not in shown.tags and "<script>alert(1)</script>" in shown.text
            assert not {"\x1b", "\x07", "\u202e"} & {*page}
        assert not {"\x1b", "\x07", "\u202e"} & {*render.plain(found), *render.text(found)}
        assert json.loads(render.as_json(found))["pieces"] == list(found.pieces)


def test_it_displays_itself(summary: Summary) -> None:
    shown = str(summary)
    assert shown.startswith("LRP (ε = 0.001, δ = 1) for very positive\n")
    assert "1 of 5 sentences, 9 of 38 words (24 %), 100 % of the relevance for very positive" in shown
    assert f"… {JOY} …" in shown and "the summary alone keeps the decision: very positive" in shown
    assert (html := summary._repr_html_()) is not None and 'class="gone"' in html
    assert "does not keep the decision: negative instead of" in str(
        Summary(**{**vars(summary), "alone": whence._summary.Reading("negative", summary.alone.scores)})
    )


def test_json_has_its_keys(pipeline: Pipeline) -> None:
    found = json.loads(render.as_json(whence.summarize(pipeline, TEXT, target=whence.contrast("predicted", "rest"))))
    assert list(found) == [
        "text", "pieces", "spans", "share", "words", "document_words", "budget", "unit", "by", "target", "versus",
        "whole", "alone", "keeps_decision", "method", "model", "parts",
    ]  # fmt: skip
    assert found["whole"]["predicted"] == found["target"] == "very positive" and found["versus"] == "rest"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"budget": budget}, "budget is .*; give the share") for budget in (0, 2, -0.1, float("nan"), True, "0.3", None)),
        ({"text": " \n"}, "the document is empty"),
        ({"text": b"joy"}, "text is a bytes; give one document"),
        ({"unit": "word"}, "unit is 'word'; give 'sentence' or 'span'"),
        ({"by": "word"}, "by is 'word'; give 'sentence' or 'document'"),
        ({"pipeline": 3}, "the pipeline is a int"),
        ({"method": "best"}, "method is 'best'"),
        ({"text": "joy " * (LONGEST + 1)}, "the document has 100001 tokens; at most 100000 can be summarized at once"),
    ],
)
def test_a_wrong_call_is_refused(pipeline: Pipeline, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        whence.summarize(**{"pipeline": pipeline, "text": TEXT, **change})


def test_a_summary_is_for_one_target(pipeline: Pipeline) -> None:
    with pytest.raises(TargetError, match='target is "all"; a summary is made for one class or contrast'):
        whence.summarize(pipeline, TEXT, target="all")
    with pytest.raises(TargetError, match="there is no class 'best'"):
        whence.summarize(pipeline, TEXT, target="best")
