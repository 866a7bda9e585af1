"""Phrases of a text: their scores, their interactions, the tree of them, and how they are shown."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast
from xml.etree import ElementTree

import pytest
import torch
from torch.testing import assert_close

import whence
from tests.oracle import decomposition as oracle
from whence import InputError, Pipeline, TargetError
from whence._phrases import AT_ONCE
from whence.phrase import Node, Phrase, Phrases, PhraseTree
from whence.render import phrases as render

TEXT = "This film is not a waste of time ."
AGAINST = whence.contrast("negative", "positive")


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return whence.load("sst-bilstm")


@pytest.fixture(scope="module")
def tree(pipeline: Pipeline) -> PhraseTree:
    return whence.phrase_tree(pipeline, TEXT, target=AGAINST)


@pytest.fixture(scope="module")
def everything(pipeline: Pipeline) -> Phrases:
    return whence.phrases(pipeline, TEXT, target=AGAINST)


def test_a_phrase_has_the_score_that_the_oracle_finds(pipeline: Pipeline) -> None:
    module, found = pipeline.module, whence.phrases(pipeline, "not a waste", [(0, 2), (1, 3), (0, 3)], target="negative")
    encoder, head = cast(Any, module).encoder, cast(Any, module).head
    ids = torch.tensor(pipeline.vocabulary.ids(["not", "a", "waste"]))
    x = cast(Any, module).embedding(ids).detach().double().numpy()
    weights = oracle.weights_of(encoder.double())
    states = [torch.zeros(2, encoder.hidden_size).numpy()] * 2
    encoder.float()
    for phrase in found:
        inside = [phrase.start <= t < phrase.end for t in range(3)]
        _, finals = oracle.network("lstm", x, inside, weights, states)
        last = torch.tensor([finals[0][0], finals[1][0]])[..., 0].reshape(-1)
        expected = head.weight[pipeline.classes.index("negative")].detach().double() @ last.double()
        assert phrase.relevance == pytest.approx(float(expected), abs=1e-5)  # the model computes in single precision


def test_all_runs_of_words_are_the_default(pipeline: Pipeline, everything: Phrases) -> None:
    words = len(everything.explanation.tokens)
    assert len(everything) == words * (words + 1) // 2 == len({(each.start, each.end) for each in everything})
    assert everything[0].text == "This" and everything[-1].text == TEXT
    # without initial states, the whole text gives the whole score, and the head has no bias
    assert everything[-1].relevance == pytest.approx(everything.explanation.score, abs=1e-5)


def test_the_score_of_a_phrase_is_the_same_alone(pipeline: Pipeline, everything: Phrases) -> None:
    for phrase in everything[::7]:
        (alone,) = whence.phrases(pipeline, TEXT, [(phrase.start, phrase.end)], target=AGAINST)
        assert alone.relevance == pytest.approx(phrase.relevance, abs=1e-5)
        assert alone.text == phrase.text


def test_a_negation_takes_back_what_it_negates(pipeline: Pipeline) -> None:
    waste, negated = whence.phrases(pipeline, TEXT, ["waste", "not a waste"], target=AGAINST)
    assert waste.relevance > 2 and waste.interaction == 0
    assert negated.relevance < 1
    assert negated.interaction is not None and negated.interaction < -2
    words = sum(
        negated_word.relevance for negated_word in whence.phrases(pipeline, TEXT, ["not", "a", "waste"], target=AGAINST)
    )
    assert negated.interaction == pytest.approx(negated.relevance - words)


@pytest.mark.parametrize("method", ["lrp", whence.GradientXInput()], ids=str)
def test_other_methods_add_up_words(pipeline: Pipeline, method: Any) -> None:
    explanation = whence.explain(pipeline, TEXT, target=1, method=method)
    found = whence.phrases(pipeline, TEXT, ["not a waste", (0, 2)], target=1, method=method)
    assert found[0].relevance == pytest.approx(sum(explanation.relevance[3:6])) == explanation.span("not a waste")
    assert found[1].relevance == pytest.approx(sum(explanation.relevance[:2]))
    assert found[0].interaction is None
    with pytest.raises(InputError, match=r"adds up words, which then do not interact.*use method=\"cd\""):
        whence.phrase_tree(pipeline, TEXT, method=method)


def test_a_tree_joins_the_neighbours_that_interact_most(everything: Phrases, tree: PhraseTree) -> None:
    score = {(each.start, each.end): each.relevance for each in everything}
    groups = [(n, n + 1) for n in range(len(everything.explanation.tokens))]
    expected: list[tuple[int, int]] = []
    while len(groups) > 1:
        joints = [score[a[0], b[1]] - score[a] - score[b] for a, b in pairwise(groups)]
        best = max(range(len(joints)), key=lambda n: abs(joints[n]))
        groups[best : best + 2] = [(groups[best][0], groups[best + 1][1])]
        expected.append(groups[best])
    inner = [node for node in tree.root if node.parts]
    assert {(node.phrase.start, node.phrase.end) for node in inner} == set(expected)
    for node in inner:
        left, right = node.parts
        assert (left.phrase.end, node.phrase.start, node.phrase.end) == (
            right.phrase.start, left.phrase.start, right.phrase.end,
        )  # fmt: skip
        assert node.joint == pytest.approx(node.phrase.relevance - left.phrase.relevance - right.phrase.relevance)
        assert node.phrase.relevance == pytest.approx(score[node.phrase.start, node.phrase.end], abs=1e-5)
    assert tree.phrases()[0].text == TEXT


def test_a_long_text_gives_the_same_tree_phrase_by_phrase(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "not a waste of time"
    whole = whence.phrase_tree(pipeline, text, target=1).phrases()
    assert AT_ONCE >= 30
    monkeypatch.setattr("whence._phrases.AT_ONCE", 0)
    pieces = whence.phrase_tree(pipeline, text, target=1).phrases()
    assert [each.text for each in pieces] == [each.text for each in whole]
    assert_close([each.relevance for each in pieces], [each.relevance for each in whole], rtol=0, atol=1e-5)


def test_one_word_is_a_tree(pipeline: Pipeline) -> None:
    tree = whence.phrase_tree(pipeline, "fine")
    assert [phrase.text for phrase in tree.phrases()] == ["fine"]
    assert "fine" in str(tree) and ElementTree.fromstring(render.svg(tree)) is not None


@pytest.mark.parametrize("name", ["sst-bigru", "sst-char-gru"])
def test_every_bundled_model_has_phrases(name: str) -> None:
    found = whence.phrases(name, "not bad", ["not bad", "bad"], target="predicted")
    assert [each.text for each in found] == ["not bad", "bad"]
    assert found[0].relevance == pytest.approx(found.explanation.score, abs=1e-4)


def test_wrong_spans_and_targets_are_refused(pipeline: Pipeline) -> None:
    for span, message in [
        ("nothing", "'nothing' does not occur in the text 'This film is not a waste of time .'; give words as"),
        ("a wast", r"'a wast' cuts a token of the text .* in two; its tokens are 'This', 'film', 'is'"),
        ("", "'' is no piece of a text"),
        ((0, 10), r"the span \(0, 10\) is not in the text, which has 9 tokens; a span \(start, end\) has 0 ≤ start < end ≤ 9"),
        ((2, 2), r"the span \(2, 2\) is not in the text"),
        ((True, 2), r"the span \(True, 2\) is neither two token numbers"),
        (3, "the span 3 is neither two token numbers"),
    ]:
        with pytest.raises(InputError, match=message):
            whence.phrases(pipeline, TEXT, [cast(Any, span)])
    with pytest.raises(InputError, match="spans is 'waste'; give a list"):
        whence.phrases(pipeline, TEXT, "waste")
    with pytest.raises(InputError, match="text is a list; phrases are those of one text"):
        whence.phrases(pipeline, cast(Any, [TEXT]))
    with pytest.raises(TargetError, match="target is 'all'; phrases are explained for one class or contrast"):
        whence.phrases(pipeline, TEXT, target="all")
    with pytest.raises(InputError, match="the text has 257 tokens; a tree of phrases is made of at most 256"):
        whence.phrase_tree(pipeline, "good " * 257)


def test_the_first_piece_that_cuts_no_token_counts(pipeline: Pipeline) -> None:
    explanation = whence.explain(pipeline, "start art art", target=0)
    assert explanation.tokens_of("art") == (1, 2)
    assert explanation.span(" art art ") == pytest.approx(explanation.relevance[1] + explanation.relevance[2])
    with pytest.raises(InputError, match="does not occur"):
        explanation.span("Start")


def test_phrases_are_a_list_and_plain_data(everything: Phrases, tree: PhraseTree) -> None:
    some = everything[3:5]
    assert isinstance(some, Phrases) and len(some) == 2 and some[0] == everything[3]
    largest = everything.largest(3)
    assert abs(largest[0].relevance) == max(abs(each.relevance) for each in everything)
    data = json.loads(json.dumps(everything.to_dict()))
    assert data["text"] == TEXT and data["phrases"][0] == everything[0].to_dict()
    data = json.loads(json.dumps(tree.to_dict()))
    assert data["tree"]["text"] == TEXT and len(data["tree"]["parts"]) == 2


def test_a_terminal_shows_a_table_and_a_tree(everything: Phrases, tree: PhraseTree) -> None:
    shown = render.terminal(everything, colour=False, width=100)
    assert "… and 25 more" in shown
    assert len([line for line in shown.splitlines() if line.lstrip()[:1] in "+-"]) == 20
    assert "contextual decomposition for negative versus positive, score" in shown
    shown = render.terminal(tree, colour=False, width=100)
    assert all(f"{phrase.relevance:+.3f}  {phrase.text}" in shown for phrase in tree.phrases())
    assert "\x1b[" in render.terminal(tree, colour=True, width=100)
    assert str(tree) and str(everything)


def test_the_drawing_has_a_box_for_every_phrase_above_its_words(tree: PhraseTree) -> None:
    image = ElementTree.fromstring(render.svg(tree))
    names = {"s": "http://www.w3.org/2000/svg"}
    boxes = {
        title.text: each.find("s:rect", names)
        for each in image.findall("s:g", names)
        if (title := each.find("s:title", names)) is not None
    }
    assert len(boxes) == len(tree.phrases()) == 2 * 9 - 1
    for node in (node for node in tree.root if node.parts):
        own, *parts = (_place(boxes, each) for each in (node, *node.parts))
        assert own[0] == pytest.approx(parts[0][0]) and own[1] == pytest.approx(parts[1][1], abs=0.2)
        assert own[2] < min(part[2] for part in parts)
    assert {"waste", "time"} <= {text.text for text in image.findall("s:text", names)}


def _place(boxes: dict[str | None, Any], node: Node) -> tuple[float, float, float]:
    joined = f", joined {node.joint:+.4f}" if node.parts else ""
    box = boxes[f"{node.phrase.text}: {node.phrase.relevance:+.4f}{joined}"]
    return float(box.get("x")), float(box.get("x")) + float(box.get("width")), float(box.get("y"))


HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m\n&\"'"


@pytest.mark.parametrize("show", [render.page, render.notebook, render.svg, render.plain])
def test_what_users_wrote_is_escaped(show: Callable[[Any], str], tree: PhraseTree) -> None:
    words = replace(
        tree.explanation,
        text=HOSTILE, tokens=(HOSTILE,), spans=((0, len(HOSTILE)),), model=HOSTILE, target=HOSTILE,
        relevance=(1.0,), scores={HOSTILE: 1.0}, difference=None, versus="",
    )  # fmt: skip
    phrase = Phrase(0, 1, HOSTILE, 1.0, 0.0)
    drawn = [show(PhraseTree(words, Node(phrase)))]
    if show is not render.svg:
        drawn.append(show(Phrases(words, (phrase,))))
    for each in drawn:
        assert "\u202e" not in each and "\x1b" not in each
        assert show is render.plain or "<script" not in each
    if show is render.svg:
        ElementTree.fromstring(drawn[0])
        with pytest.raises(InputError, match="an SVG image shows a tree of phrases; leave out --span"):
            render.svg(Phrases(words, (phrase,)))


def test_a_notebook_shows_both(everything: Phrases, tree: PhraseTree) -> None:
    assert "<table" in (everything._repr_html_() or "") and "<svg" in (tree._repr_html_() or "")
