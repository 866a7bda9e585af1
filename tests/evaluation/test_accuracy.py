"""Accuracy of five classes and of two, by hand."""

import math

import pytest
import torch

from whence.evaluation.accuracy import accuracy

SCORES = torch.log(
    torch.tensor(
        [
            [0.10, 0.10, 0.30, 0.25, 0.25],  # neutral, but positive of the two sides
            [0.30, 0.25, 0.05, 0.40, 0.00],  # positive, but negative of the two sides
            [0.00, 0.00, 0.00, 0.00, 1.00],
            [0.00, 0.20, 0.80, 0.00, 0.00],
        ]
    )
)


def test_the_largest_score_decides_of_five_and_the_summed_probabilities_of_two() -> None:
    found = accuracy(SCORES, [2, 0, 4, 1])
    assert found.is_right.tolist() == [True, False, True, False]
    assert found.is_side_right.tolist() == [True, True, True]  # the neutral sentence is left out
    assert (found.five, found.binary) == (0.5, 1.0)
    assert accuracy(SCORES, [4, 3, 0, 4]).is_side_right.tolist() == [True, False, False, False]


def test_bands_hold_the_accuracy() -> None:
    found = accuracy(SCORES.repeat(50, 1), [2, 0, 4, 1] * 50)
    low, high = (float(end) for end in found.five_band)
    assert low < 0.5 < high and high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(200), abs=0.02)
    assert [float(end) for end in found.binary_band] == [1.0, 1.0]


def test_neutral_sentences_alone_have_no_binary_accuracy() -> None:
    found = accuracy(SCORES, [2, 2, 2, 2])
    assert found.five == 0.5
    assert math.isnan(found.binary) and math.isnan(float(found.binary_band.low))
