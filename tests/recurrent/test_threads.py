"""Compiled layers on several threads: the same numbers as on one, whether PyTorch's OpenMP runs them or Python's threads."""

import ctypes
from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import whence
from whence.recurrent.cells import CELLS
from whence.recurrent.native import layer, threads
from whence.recurrent.native.compiled import built

pytestmark = pytest.mark.skipif(
    CELLS["lstm"].native is None or built(CELLS["lstm"].native, torch.float64).library is None, reason="there is no C compiler"
)


@pytest.fixture(params=[True, False], ids=["OpenMP", "Python's threads"])
def on_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[list[int]]:
    """Every kernel is worth a thread; the numbers of threads that ran are noted."""
    before, counts, original = torch.get_num_threads(), list[int](), threads.run
    if request.param and threads._openmp() is None:
        pytest.skip("PyTorch uses another OpenMP here")
    if not request.param:
        monkeypatch.setattr(threads, "_openmp", lambda: None)

    def noted(kernel: Any, work: Any, parts: Any, count: int) -> None:
        counts.append(count)
        original(kernel, work, parts, count)

    monkeypatch.setattr(layer, "run", noted)
    monkeypatch.setattr(layer, "WORTH_A_THREAD", 1)
    try:
        yield counts
    finally:
        torch.set_num_threads(before)


class Model(nn.Module):
    """A recurrent layer and a head on all of its outputs."""

    def __init__(self, kind: Any, *, bidirectional: bool) -> None:
        super().__init__()
        self.layer = kind(3, 5, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(5 * (1 + bidirectional), 4)

    def forward(self, x: Any) -> torch.Tensor:
        final = self.layer(x)[1]
        last = final[0] if isinstance(final, tuple) else final
        return self.head(torch.cat(list(last), -1))


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("batch", [1, 4, 33, 130])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_threads_do_not_change_the_numbers(
    on_threads: list[int], kind: Any, bidirectional: bool, batch: int, count: int
) -> None:
    torch.manual_seed(batch)
    model, x = Model(kind, bidirectional=bidirectional).double(), torch.randn(batch, 6, 3, dtype=torch.float64)
    lengths = torch.randint(1, 7, (batch,)).sort(descending=True).values
    for given in (x, pack_padded_sequence(x, lengths, batch_first=True)):
        for target in (1, "all"):
            for by_step in (False, True):
                found = list[Any]()
                for number in (1, count):
                    torch.set_num_threads(number)
                    result = whence.relevance(model, given, target=target, by_step=by_step and given is x).check(1e-10)
                    found.append((result.relevance, result.absorbed))
                assert_close(found[0], found[1])
    assert batch < 8 or max(on_threads) > 1


def test_the_struct_that_threads_share_is_that_of_the_sources() -> None:
    assert [each[0] for each in threads.Work._fields_] == ["kernel", "parts", "count", "next"]
    assert ctypes.sizeof(threads.Work) == 4 * 8
