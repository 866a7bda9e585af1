"""Measurements on explanations: deletion, position, ranking, words, bands."""

from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import whence
from whence.evaluation.bootstrap import mean_band
from whence.evaluation.deletion import deletion_curve, deletion_order, predictions_without, random_orders, scores_without
from whence.evaluation.position import distribution, portions, relevance_by_interval
from whence.evaluation.ranking import distinct, ranked_words
from whence.evaluation.words import word_groups
from whence.explanation import Explanation
from whence.text.tokenizer import TreebankTokenizer
from whence.text.vocabulary import Vocabulary


def explanation(*relevance: float, words: str = "") -> Explanation:
    tokens = tuple(words.split()) or tuple("abcdefghijklmnopqrstuvwxyz"[: len(relevance)])
    spans = tuple((2 * n, 2 * n + 1) for n in range(len(tokens)))
    return Explanation(
        " ".join(tokens), tokens, spans, (False,) * len(tokens), relevance, {"yes": 1.0}, "yes", "yes", {"name": "lrp"}
    )


class Bag(nn.Module):
    """Scores are sums over words, so deleting a word must equal leaving it out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.head = nn.Embedding(6, 7), nn.Linear(7, 3, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids).sum(1))


BAG = whence.Pipeline(Bag(), TreebankTokenizer(), Vocabulary("abcde"), ("x", "y", "z"))


@given(length=st.integers(1, 60), intervals=st.integers(1, 20))
def test_portions_are_the_overlaps_of_words_and_intervals(length: int, intervals: int) -> None:
    found = portions(length, intervals)
    for i in range(length):
        for k in range(intervals):
            start, end = (
                max(Fraction(i, length), Fraction(k, intervals)),
                min(Fraction(i + 1, length), Fraction(k + 1, intervals)),
            )
            assert found[i, k] == pytest.approx(float(max(Fraction(0), end - start) * length), abs=1e-15)
    assert found.sum(1) == pytest.approx(np.ones(length), abs=1e-12)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=40), min_size=1, max_size=5))
def test_every_bit_of_absolute_relevance_is_in_some_interval(relevance: list[list[float]]) -> None:
    found = relevance_by_interval(relevance)
    assert found.sum(1) == pytest.approx([sum(map(abs, own)) for own in relevance], abs=1e-9)
    if found.sum() > 1e-300:
        assert distribution(found).sum() == pytest.approx(1, abs=1e-9)


def test_a_word_across_two_intervals_gives_each_its_portion() -> None:
    assert relevance_by_interval([[3.0, -1.0, 2.0]], intervals=2).tolist() == [[3.5, 2.5]]


def test_words_are_ranked_by_occurrence_and_listed_once() -> None:
    texts = [explanation(1.0, -2.0, 0.5, words="good bad fine"), explanation(3.0, -1.0, 0.0, words="fine bad odd")]
    ranked = ranked_words(texts)
    assert [(each.word, each.text, each.position) for each in ranked[:2]] == [("fine", 1, 0), ("good", 0, 0)]
    assert [each.word for each in distinct(ranked, 3)] == ["fine", "good", "odd"]
    assert [(each.word, each.relevance) for each in distinct(reversed(ranked), 2)] == [("bad", -2.0), ("odd", 0.0)]


def test_words_are_deleted_by_relevance_the_first_of_equals_first() -> None:
    assert deletion_order(explanation(0.0, 2.0, -1.0, 2.0), "decreasing") == [1, 3, 0, 2]
    assert deletion_order(explanation(0.0, 2.0, -1.0, 2.0), "increasing") == [2, 0, 1, 3]


def test_a_deleted_word_counts_as_if_it_were_not_there() -> None:
    texts = [("a", "b", "c", "d", "e"), ("e", "d", "c"), ("b",)]
    orders = [[4, 0, 2, 1, 3], [1, 0, 2], [0]]
    found = predictions_without(BAG, texts, orders, steps=4)
    assert found.shape == (3, 5)
    for text, order, own in zip(texts, orders, found, strict=True):
        for step in range(5):
            kept = [word for n, word in enumerate(text) if n not in order[:step]]
            ids = torch.tensor([BAG.vocabulary.ids(kept)], dtype=torch.long)
            assert own[step] == int(BAG.module(ids).argmax())


def test_the_curve_says_when_the_model_is_right() -> None:
    texts = [("a", "b", "c"), ("c", "d")]
    explanations = [whence.explain(BAG, [text], target=1)[0] for text in texts]
    labels = [int(BAG.module(torch.tensor([BAG.vocabulary.ids(text)])).argmax()) for text in texts]
    curve = deletion_curve(BAG, texts, labels, explanations, order="decreasing", steps=2)
    assert curve[:, 0].all()
    orders = [deletion_order(each, "decreasing") for each in explanations]
    assert (curve == (predictions_without(BAG, texts, orders, steps=2) == np.array(labels)[:, None])).all()


def test_random_orders_are_orders_and_repeat() -> None:
    first = random_orders([5, 1, 9], seed=4)
    assert [sorted(order) for order in first] == [list(range(n)) for n in (5, 1, 9)]
    assert first == random_orders([5, 1, 9], seed=4)
    assert first != random_orders([5, 1, 9], seed=5)


def test_characters_are_gathered_into_words_and_nothing_is_lost() -> None:
    pipeline = whence.load("sst-char-gru")
    whole = whence.explain(pipeline, "It isn't funny .", encoders=True)
    groups = word_groups(pipeline, "It isn't funny .")
    words = whole.by_word(groups)
    assert words.tokens == ("It", "is", "n't", "funny", ".")
    assert [whole.text[start:end] for start, end in words.spans] == list(words.tokens)
    assert sum(words.relevance) == pytest.approx(sum(whole.relevance))
    assert words.relevance[3] == pytest.approx(sum(whole.relevance[9:15]))  # the space behind it is its own
    assert sum(words.encoders[1]) == pytest.approx(sum(whole.encoders[1]))


@pytest.mark.parametrize("words", [("a", "."), ("-lrb-", "-rrb-"), ("!", "!"), ("wanna", "go"), ("x",)])
def test_characters_of_short_words_are_all_in_some_word(words: tuple[str, ...]) -> None:
    pipeline = whence.load("sst-char-gru")
    (whole,) = whence.explain(pipeline, [words])
    groups = word_groups(pipeline, words)
    assert [n for group in groups for n in group] == list(range(len(whole.tokens)))
    assert sum(whole.by_word(groups).relevance) == pytest.approx(sum(whole.relevance))


def test_a_deletion_curve_refuses_what_does_not_fit() -> None:
    texts, labels = [("a", "b"), ("c", "d", "e")], ["x", 2]
    explanations = whence.explain(BAG, texts, target=1)
    assert deletion_curve(BAG, texts, labels, explanations, order="decreasing", steps=1).shape == (2, 2)
    for wrong, message in (
        ({"labels": ["x"]}, "2 texts, 1 labels and 2 explanations"),
        ({"labels": ["x", "w"]}, r"label 'w' is not a class of your model: x, y, z, or 0 to 2"),
        ({"labels": [0, 3]}, "label 3 is not a class"),
        ({"explanations": explanations[::-1]}, "text 1 has 2 words, its explanation 3"),
        ({"order": "down"}, "order is 'down'"),
    ):
        given = {"labels": labels, "explanations": explanations, "order": "decreasing", **wrong}
        with pytest.raises(whence.InputError, match=message):
            deletion_curve(BAG, texts, given["labels"], given["explanations"], order=given["order"])
    with pytest.raises(whence.InputError, match="all relevance is 0"):
        distribution(relevance_by_interval([[0.0, 0.0]]))
    with pytest.raises(whence.InputError, match="no text at all"):
        relevance_by_interval([])


def test_numbers_of_other_libraries_are_targets() -> None:
    for target in cast(list[Any], [np.int64(2), np.array([2, 1]), torch.tensor([2, 1])]):
        assert whence.explain(BAG, [("a",), ("b",)], target=target)[0].target == "z"
    with pytest.raises(whence.TargetError, match="there is no class b"):
        whence.explain(BAG, [("a",)], target=b"x")


def test_words_that_are_cut_already_may_be_in_capitals() -> None:
    pipeline = whence.load("sst-bilstm")
    (found,) = whence.explain(pipeline, [("A", "GREAT", "Film")])
    assert not any(found.unknown)
    assert found.tokens == ("A", "GREAT", "Film")


def test_word_models_tokens_are_words() -> None:
    assert word_groups(BAG, ("a", "b c")) == [range(1), range(1, 2)]


def test_a_band_is_as_wide_as_statistics_says() -> None:
    values = np.repeat([[0.0], [1.0]], 200, axis=0)
    low, high = mean_band(values)
    error = 1.96 * 0.5 / np.sqrt(400)
    assert [float(low[0]), float(high[0])] == pytest.approx([0.5 - error, 0.5 + error], abs=0.005)
    assert mean_band(values).low == low  # the same on every run


def test_pairs_stay_pairs_in_a_band() -> None:
    first = np.random.default_rng(0).random(50)
    together = np.stack([first, first + 0.25], axis=1)
    low, high = mean_band(together, lambda means: means[:, 1] - means[:, 0])
    assert [float(low), float(high)] == pytest.approx([0.25, 0.25])


def test_texts_that_are_cut_already_and_a_target_for_each() -> None:
    pipeline = whence.load("sst-bilstm")
    words = [("a", "-lrb-", "fine", "-rrb-", "film"), ("not", "worth", "it", ".")]
    found = whence.explain(pipeline, words, target=["very positive", 0])
    assert [each.tokens for each in found] == words
    assert [each.target for each in found] == ["very positive", "very negative"]
    alone = whence.explain(pipeline, words[1:], target=0)[0]
    assert found[1].relevance == pytest.approx(alone.relevance, abs=1e-5)
    assert [each.text[start:end] for each in found for start, end in each.spans] == [word for text in words for word in text]


@pytest.mark.parametrize(
    ("texts", "target", "message"),
    [
        ([("a",), ("b",)], [0], r"there are 1 targets for 2 texts; give one for each, or one for all"),
        ([("a",)], ["all"], r"a list of targets names one for every text"),
    ],
)
def test_what_cannot_be_explained_is_said(texts: list[tuple[str, ...]], target: Any, message: str) -> None:
    with pytest.raises(whence.WhenceError, match=message):
        whence.explain(BAG, texts, target=target)


def test_words_that_are_none_are_said() -> None:
    mixed, none = whence.explain(BAG, [("a", 3), ()], target=0)
    assert (mixed.error, none.error) == ("('a', 3) is not a text but a tuple", "() is not a text but a tuple")


def test_scores_without_words_are_those_of_the_words_that_are_left() -> None:
    text, orders = "a b c d e", [[4, 0, 2, 1, 3], [1, 3, 0, 4, 2]]
    found = scores_without(BAG, text, orders, steps=5)
    assert found.shape == (2, 6, 3)
    for k, order in enumerate(orders):
        for step in range(5):
            left = " ".join(word for n, word in enumerate(text.split()) if n not in order[:step])
            assert found[k, step] == pytest.approx(list(whence.explain(BAG, left).scores.values()), abs=1e-6)
    assert (found[:, 5] == 0).all()
    assert (found[0, :4].argmax(-1) == predictions_without(BAG, [text], orders[:1], steps=3)[0]).all()


def test_scores_without_words_of_a_long_text_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = random_orders([5, 5, 5], seed=1)
    whole = scores_without(BAG, "a b c d e", orders, steps=5)
    monkeypatch.setattr("whence.evaluation.deletion.TOKENS", 12)  # two rows of five words
    assert scores_without(BAG, "a b c d e", orders, steps=5) == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize(
    ("orders", "steps", "match"),
    [
        ([[0, 1]], 1, "2 words of a text of 3"),
        ([[0, 1, 1]], 1, "each of them once"),
        ([[0, 1, 2]], 4, "steps is 4; a text of 3"),
    ],
)
def test_orders_that_do_not_fit_the_text(orders: list[list[int]], steps: int, match: str) -> None:
    with pytest.raises(whence.InputError, match=match):
        scores_without(BAG, "a b c", orders, steps=steps)
