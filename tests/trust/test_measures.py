"""The measures against plain loops, and the parts they are made of."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import faithfulness as oracle
from tests.trust.subjects import bag
from whence.trust.bounds import bounds
from whence.trust.contestants import borrowed, partners
from whence.trust.measures import gini, row_of, similarity
from whence.trust.removal import masks, plan, readings
from whence.trust.subjects import texts_of

WORDS = "abcdefghijk"


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.integers(-3, 3)), min_size=1, max_size=30))
def test_all_measures_are_those_of_their_definitions(units: list[tuple[str, int]]) -> None:
    words, relevance = tuple(word for word, _ in units), np.array([float(amount) for _, amount in units])
    pipeline = bag()
    subject = texts_of(pipeline, [words], [1], of=None).subject
    ((_, said),) = readings(subject, lambda n: masks(relevance, plan(len(words))))
    row = row_of(said, relevance, 1)

    def f(there: frozenset[int]) -> float:
        ids = torch.tensor(pipeline.vocabulary.ids(words))
        vectors = pipeline.module.get_parameter("embedding.weight")[ids]
        kept = torch.tensor([n in there for n in range(len(words))], dtype=torch.double)
        return float(pipeline.module.get_submodule("head")((vectors * kept[:, None]).sum(0)).softmax(-1)[1].detach())

    assert float(row["aopc"]) == pytest.approx(oracle.aopc(f, relevance.tolist()), abs=1e-9)
    assert float(row["separation"]) == pytest.approx(oracle.separation(f, relevance.tolist()), abs=1e-9)
    expected = oracle.fractions(f, relevance.tolist())
    assert row["removed"].mean() == pytest.approx(expected["comprehensiveness"], abs=1e-9)
    assert row["kept"].mean() == pytest.approx(expected["sufficiency"], abs=1e-9)
    assert row["odds"].mean() == pytest.approx(expected["log_odds"], abs=1e-7)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20).filter(lambda each: sum(map(abs, each)) > 1e-3))
def test_sparsity_is_the_gini_coefficient(relevance: list[float]) -> None:
    assert gini(np.array(relevance)) == pytest.approx(oracle.gini(relevance), abs=1e-9)


def test_sparsity_of_nothing_and_of_one() -> None:
    assert gini(np.zeros(4)) == 0 == gini(np.ones(7))
    assert gini(np.eye(100)[3]) == pytest.approx(0.99)


def test_similarity_is_the_correlation_of_ranks() -> None:
    one = np.array([1.0, 2.0, 3.0, 4.0])
    assert similarity(one, 10 * one**3) == pytest.approx(1)
    assert similarity(one, -one) == pytest.approx(-1)
    assert similarity(one, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(4 / math.sqrt(20))  # ranks 1.5 1.5 3.5 3.5
    assert similarity(np.ones(4), np.zeros(4)) == 1  # neither has an order
    assert similarity(one, np.ones(4)) == 0


@pytest.mark.parametrize("length", [1, 2, 3, 10, 63, 400])
def test_a_plan_goes_from_nothing_to_everything(length: int) -> None:
    found = plan(length)
    assert found.levels[0] == 0 and found.levels[-1] == length and (np.diff(found.levels) >= 1).all()
    assert (found.fractions >= 1).all() and found.deletions.max() == min(5, length)


def test_the_same_variant_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, run = texts_of(bag(), [tuple("abcd")], [0], of=None).subject, list[int]()
    scores = type(subject).scores
    monkeypatch.setattr(type(subject), "scores", lambda self, rows, gone: run.append(len(rows)) or scores(self, rows, gone))
    list(readings(subject, lambda n: masks(np.arange(4.0), plan(4))))
    assert run == [8]  # of 4 units: 0 to 4 of the most relevant gone, and 1 to 3 of the least; all others are the same


def test_the_search_finds_the_best_and_the_worst_order() -> None:
    """In a sum of words without interactions the best order is that of their contributions."""
    from itertools import permutations

    pipeline, words = bag(), tuple("abcde")
    subject = texts_of(pipeline, [words], [2], of=None).subject
    lowest, highest = bounds(subject, [0])
    every = []
    for order in permutations(range(5)):
        relevance = np.empty(5)
        relevance[list(order)] = -np.arange(5.0)
        ((_, said),) = readings(subject, lambda n, own=relevance: masks(own, plan(5)))
        every.append(float(row_of(said, relevance, 2)["aopc"]))
    assert highest[0] == pytest.approx(max(every), abs=1e-12) and lowest[0] == pytest.approx(min(every), abs=1e-12)


def test_relevance_is_borrowed_from_a_neighbour_in_length_with_other_words() -> None:
    texts = [tuple("abcd"), tuple("ab"), tuple("abcdefghi"), tuple("abcd"), tuple("abc")]
    subject = texts_of(bag(), texts, None, of=None).subject
    others = partners(subject)
    assert all(texts[other] != texts[n] for n, other in enumerate(others))
    found = borrowed([np.full(len(text), float(n)) for n, text in enumerate(texts)], others)
    assert [len(each) for each in found] == [4, 2, 9, 4, 3] and [each[0] for each in found] == others
    assert partners(texts_of(bag(), [tuple("ab")] * 3, None, of=None).subject) == [0, 1, 2]  # there is no other
