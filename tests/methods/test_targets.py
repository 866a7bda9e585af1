"""Every kind of target picks the score it says, for every method."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.models import BiLSTM, Tagger
from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, SensitivityAnalysis, relevance

METHODS = [LRP(), SensitivityAnalysis(), GradientXInput(), *PERTURBING]
X = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def bilstm() -> BiLSTM:
    torch.manual_seed(0)
    return BiLSTM(4, 3, 5).double()


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize(
    ("target", "score"),
    [
        (2, lambda out: out[:, 2]),
        (-1, lambda out: out[:, 4]),
        (np.int64(2), lambda out: out[:, 2]),
        ([0, 4, 2], lambda out: torch.stack([out[0, 0], out[1, 4], out[2, 2]])),
        (torch.tensor([1, 1, 3]), lambda out: torch.stack([out[0, 1], out[1, 1], out[2, 3]])),
        (np.array([1, 1, 3]), lambda out: torch.stack([out[0, 1], out[1, 1], out[2, 3]])),
        ("predicted", lambda out: out.max(1).values),
        (lambda out: out[:, 3], lambda out: out[:, 3]),
        (lambda out: out[:, 3] - out[:, 1], lambda out: out[:, 3] - out[:, 1]),
    ],
)
def test_a_target_picks_its_score(method: LRP, target: Any, score: Callable[[Tensor], Tensor]) -> None:
    model = bilstm()
    result = relevance(model, X, target=target, method=method)
    assert_close(result.score, score(model(X)).detach())
    if isinstance(method, LRP):
        result.check(1e-12)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_all_is_each(method: LRP) -> None:
    together = relevance(bilstm(), X, target="all", method=method)
    for c in range(5):
        alone = relevance(bilstm(), X, target=c, method=method)
        assert_close(together.relevance[c], alone.relevance)
        assert_close(together.score[c], alone.score)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("batch", "steps"), [(3, 6), (6, 6), (1, 6), (3, 1), (1, 1)])
def test_a_time_step_of_a_per_step_output(method: LRP, batch_first: bool, batch: int, steps: int) -> None:
    torch.manual_seed(0)
    model = Tagger(nn.LSTM(4, 3, batch_first=batch_first, bidirectional=True), "all", 2).double()
    x = torch.randn((batch, steps, 4) if batch_first else (steps, batch, 4), dtype=torch.float64)
    out = model(x).detach()
    result = relevance(model, x, target=(-1, 1), method=method)
    assert_close(result.score, out[:, -1, 1] if batch_first else out[-1, :, 1])
    if isinstance(method, LRP):
        result.check(1e-12)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_unbatched_sequence_is_a_batch_of_one(method: LRP) -> None:
    model = bilstm()
    single = relevance(model, X[0], target=1, method=method)
    batch = relevance(model, X[:1], target=1, method=method)
    assert single.relevance.shape == (6, 4)
    assert single.score.shape == ()
    assert_close(single.relevance, batch.relevance[0])
    assert_close(single.score, batch.score[0])
    for name, amount in single.absorbed.items():
        assert_close(amount, batch.absorbed[name][0])
    everything = relevance(model, X[0], target="all", method=method)
    assert everything.relevance.shape == (5, 6, 4)
    assert_close(everything.relevance[1], single.relevance)


def test_as_many_classes_as_steps_is_still_unbatched() -> None:
    torch.manual_seed(0)
    model = BiLSTM(4, 3, 6).double()
    result = relevance(model, X[0], target=5).check(1e-12)
    assert result.score.shape == ()
    assert_close(result.score, model(X[0])[5].detach())


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_one_score_per_sample_needs_no_target(method: LRP) -> None:
    class Regression(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.fc = nn.LSTM(4, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.lstm(x.transpose(0, 1))[0][-1]).squeeze(-1)

    torch.manual_seed(0)
    model = Regression().double()
    for x in (X, X[:1]):
        result = relevance(model, x, method=method)
        assert_close(result.score, model(x).detach())
        assert_close(relevance(model, x, target=0, method=method).relevance, result.relevance)


def test_the_number_of_samples_may_be_that_of_steps_or_features() -> None:
    torch.manual_seed(0)
    for batch_first in (True, False):
        model = Tagger(nn.LSTM(4, 4, batch_first=batch_first), "mean", 4).double()
        x = torch.randn(4, 4, 4, dtype=torch.float64)
        result = relevance(model, x, target=2, method=LRP(epsilon=0.1, stabiliser="absorbed")).check(1e-12)
        for b in range(4):
            one = x[b : b + 1] if batch_first else x[:, b : b + 1]
            single = relevance(model, one, target=2, method=LRP(epsilon=0.1, stabiliser="absorbed"))
            for name, amount in single.absorbed.items():
                assert_close(result.absorbed[name][b], amount[0])


@pytest.mark.parametrize("batch", [3, 4, 5])
def test_neighbouring_samples_are_not_taken_for_one(batch: int) -> None:
    """A convolution over time, time first and with as many steps as samples: only one axis can be that of the samples."""

    class Convolved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.fc = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.conv(x.permute(1, 2, 0)).permute(2, 0, 1).tanh())

    torch.manual_seed(0)
    model, x = Convolved().double(), torch.randn(batch, batch, 4, dtype=torch.float64)
    result = relevance(model, x, target=(1, 0)).check(1e-12)
    assert_close(result.score, model(x)[1, :, 0].detach())


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_a_single_sample_is_one_also_where_steps_do_not_mix(method: Any) -> None:
    model, x = nn.Linear(4, 2).double(), torch.randn(3, 6, 4).double()
    together = relevance(model, x, target=(3, 1), method=method)
    alone = relevance(model, x[:1], target=(3, 1), method=method)
    assert alone.score.shape == (1,)
    assert_close(alone.relevance, together.relevance[:1])
